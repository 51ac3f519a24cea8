# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Recipe cifar100-15 in plain PyTorch with timm's layers, to compare the accuracy.

    python tools/peers/cifar100.py --data DIR --seed 0 [--rows FILE]

DIR contains train.bin and test.bin of CIFAR-100's binary version. Model: timm's VisionTransformer with learned positions,
width 64, depth 4, 2 heads, patches of 4 pixels of 24×24. Recipe: 15 epochs, batches of 64, torchvision's
RandomResizedCrop of .5 to 1 of the area and flips, AdamW at 2e-3 with decay .05 on matrices, one epoch of warm-up, one
half cosine to 0, gradient norm at most 1. A tenth of the training images is the validation split, which selects the epoch.
"""

import argparse
import copy
import json
import math
import time

import numpy as np
import timm
import torch
import torch.nn.functional as F
from torchvision.transforms import v2

MEAN, STD = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)
SIDE, BATCH, RATE, DECAY, WARMUP = 24, 64, 2e-3, 0.05, 1


def load(file):
    raw = np.fromfile(file, np.uint8).reshape(-1, 2 + 3072)
    return torch.from_numpy(raw[:, 2:].reshape(-1, 3, 32, 32).copy()), torch.from_numpy(raw[:, 1].astype(np.int64))


def normalized(x):
    return (x.float() / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)


def model():
    return timm.models.VisionTransformer(
        img_size=SIDE, patch_size=4, embed_dim=64, depth=4, num_heads=2, mlp_ratio=4, num_classes=100)


def groups(network):
    """Matrices decay; biases, norms, positions and the class token do not."""
    kept = network.no_weight_decay()
    decays = [p for n, p in network.named_parameters() if p.ndim > 1 and n not in kept]
    rest = [p for n, p in network.named_parameters() if p.ndim < 2 or n in kept]
    return [{"params": decays, "weight_decay": DECAY}, {"params": rest, "weight_decay": 0.0}]


@torch.no_grad()
def measure(network, x, y):
    """Mean cross-entropy, top-1 and top-5 accuracy."""
    network.eval()
    logits = torch.cat([network(part) for part in x.split(500)])
    ranks = (~(logits <= logits.gather(1, y[:, None]))).sum(1)  # NaN is wrong
    network.train()
    return F.cross_entropy(logits, y).item(), (ranks < 1).float().mean().item(), (ranks < 5).float().mean().item()


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--data", required=True, help="directory with train.bin and test.bin of CIFAR-100")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--epochs", type=int, default=15)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--steps", type=int, default=0, help="stop after this number of steps, to try the program")
    p.add_argument("--rows", default="", help="file to append a JSON line to")
    a = p.parse_args()
    torch.manual_seed(a.seed)
    torch.set_num_threads(a.threads)
    x, y = load(f"{a.data}/train.bin")
    held = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))  # the same for every seed
    held, kept = held[:len(x) // 10], held[len(x) // 10:]
    resize = v2.Resize((SIDE, SIDE), antialias=True)
    validation = normalized(resize(x[held])), y[held]
    x, y = x[kept], y[kept]
    augment = v2.Compose([v2.RandomResizedCrop(SIDE, scale=(0.5, 1), antialias=True), v2.RandomHorizontalFlip()])

    network = model()
    optimizer = torch.optim.AdamW(groups(network), lr=RATE)
    per_epoch = len(x) // BATCH
    total, warmup = a.epochs * per_epoch, WARMUP * per_epoch
    best, curve, begin, step = (-1.0, None), [], time.time(), 0
    for epoch in range(a.epochs):
        for rows in torch.randperm(len(x))[:per_epoch * BATCH].split(BATCH):
            rate = step / warmup if step < warmup else 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))
            for group in optimizer.param_groups:
                group["lr"] = RATE * rate
            images = normalized(torch.stack([augment(i) for i in x[rows]]))
            loss = F.cross_entropy(network(images), y[rows])
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            step += 1
            if step == a.steps:
                print(f"step {step}: loss {loss.item():.3f}, {step * BATCH / (time.time() - begin):.0f} images/s")
                return
        held_loss, top1, _ = measure(network, *validation)
        curve.append(round(100 * top1, 2))
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}, validation {held_loss:.3f}, {curve[-1]} %, "
              f"{time.time() - begin:.0f} s", flush=True)
        if top1 > best[0]:
            best = top1, copy.deepcopy(network.state_dict())
    network.load_state_dict(best[1])
    images, labels = load(f"{a.data}/test.bin")
    test_loss, top1, top5 = measure(network, normalized(resize(images)), labels)
    row = {"kind": "run", "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "recipe": "cifar100-15",
           "dataset": "cifar100-train", "fraction": 1, "encoding": "learned (PyTorch)", "seed": a.seed,
           "backend": f"torch {torch.__version__}, timm {timm.__version__}", "cores": a.threads, "epochs": a.epochs,
           "steps": step, "wall_seconds": time.time() - begin, "weights": {"name": "best"}, "curve": curve,
           "validation": {"top1": best[0], "images": len(validation[0])},
           "test": {"loss": test_loss, "top1": top1, "top5": top5, "images": len(images)},
           "command": f"python tools/peers/cifar100.py --data DIR --seed {a.seed} --threads {a.threads}"}
    print(json.dumps(row))
    if a.rows:
        with open(a.rows, "a") as f:
            f.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
