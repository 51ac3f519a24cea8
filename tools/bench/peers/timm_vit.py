# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

"""timm's VisionTransformer for tools/bench, with torch.compile if called with the argument "compiled", on
a GPU with "cuda". bfloat16 is autocast; float32 products on a GPU use TF32, as XLA's do.

A training step is forward, backward, gradient clipping at norm 1 and AdamW. torch uses one thread per processor that taskset
allows.
"""

import functools
import os
import sys

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer

from serve import serve


def prepare(what, width, depth, heads, patch, side, batch, dtype):
    model = VisionTransformer(side, patch, embed_dim=width, depth=depth, num_heads=heads, num_classes=100).to(device)
    model.train(what == "training")
    forward = torch.compile(model) if "compiled" in sys.argv else model
    images = torch.rand(batch, 3, side, side, device=device)
    labels = torch.arange(batch, device=device) % 100
    autocast = functools.partial(torch.autocast, device, torch.bfloat16, dtype == "bfloat16")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.05)

    def inference():
        with torch.inference_mode(), autocast():
            forward(images).float().cpu().numpy()

    def training():
        optimizer.zero_grad(set_to_none=True)
        with autocast():
            loss = F.cross_entropy(forward(images), labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        loss.item()

    return inference if what == "inference" else training


device = "cuda" if "cuda" in sys.argv else "cpu"
torch.manual_seed(0)
if device == "cuda":
    torch.set_float32_matmul_precision("high")
torch.set_num_threads(len(os.sched_getaffinity(0)))
serve(prepare)
