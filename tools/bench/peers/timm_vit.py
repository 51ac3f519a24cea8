# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

"""timm's VisionTransformer for tools/bench, with torch.compile if called with the argument "compiled".

A training step is forward, backward, gradient clipping at norm 1 and AdamW. torch uses one thread per processor that taskset
allows.
"""

import os
import sys

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer

from serve import serve


def prepare(what, width, depth, heads, patch, side, batch):
    model = VisionTransformer(side, patch, embed_dim=width, depth=depth, num_heads=heads, num_classes=100)
    model.train(what == "training")
    forward = torch.compile(model) if "compiled" in sys.argv else model
    images = torch.rand(batch, 3, side, side)
    labels = torch.arange(batch) % 100
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.05)

    def inference():
        with torch.inference_mode():
            forward(images).numpy()

    def training():
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(forward(images), labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        loss.item()

    return inference if what == "inference" else training


torch.manual_seed(0)
torch.set_num_threads(len(os.sched_getaffinity(0)))
serve(prepare)
