# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

"""Runs Vision Transformers of timm's structure in plain torch, one call for each line of standard input:

    inference|training WIDTH DEPTH HEADS PATCH SIDE BATCH

and answers with a line: seconds on the clock, seconds of processor time. tools/against asks, in turns with
this library. A training step is forward, backward, a norm clipped at 1 and AdamW; torch takes as many threads as it may
run on processors.
"""

import os
import resource
import sys
import time

import torch
from torch import nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        weights = ((q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)).softmax(-1)
        x = x + self.proj((weights @ v).transpose(1, 2).reshape(b, n, c))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class ViT(nn.Module):
    def __init__(self, width, depth, heads, patch, side, classes=100):
        super().__init__()
        self.patch = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.randn(1, 1 + (side // patch) ** 2, width) * 0.02)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, classes)

    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])


def main():
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    ready = {}
    for line in sys.stdin:
        if line not in ready:
            ready.clear()
            what, numbers = line.split()[0], [int(n) for n in line.split()[1:]]
            model = ViT(*numbers[:-1])
            images = torch.rand(numbers[-1], 3, numbers[-2], numbers[-2])
            labels = torch.arange(numbers[-1]) % 100
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.05)

            def inference(model=model.eval(), images=images):
                with torch.inference_mode():
                    model(images)

            def training(model=model, images=images, labels=labels, optimizer=optimizer):
                optimizer.zero_grad(set_to_none=True)
                F.cross_entropy(model(images), labels).backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1)
                optimizer.step()

            ready[line] = inference if what == "inference" else training
        used, began = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
        ready[line]()
        took, now = time.monotonic() - began, resource.getrusage(resource.RUSAGE_SELF)
        print(took, now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime, flush=True)


main()
