#!/usr/bin/env python3
# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a ViT of timm's in PyTorch by the recipe of `wepe train MODEL --data DIR`, to compare the accuracy.

    python tools/py/finetune_timm.py vit_tiny_patch16_224 --data flowers --size 112 --steps 50 --rate 2e-3 --seeds 5

MODEL is a name of timm's, whose weights timm downloads, or a directory of save_for_hf. --data has train/CLASS and
test/CLASS. timm's optimizer factory gives AdamW, groups and layer decay; timm's transforms crop, flip and resize. All
images of train are trained on, the last weights are tested once. It prints the command of wepe for the same training;
with --save DIR it writes a named model to DIR for that command, and stops.
"""

import argparse
import json
import math
import pathlib
import time

import timm
import torch
from timm.data import create_transform, resolve_data_config
from timm.optim import create_optimizer_v2
from torchvision.datasets import ImageFolder


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--data", default="")
    p.add_argument("--size", type=int, default=224)
    p.add_argument("--steps", type=int, default=100)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--rate", type=float, default=1e-3)
    p.add_argument("--decay", type=float, default=0.75, help="layer decay")
    p.add_argument("--warmup", type=int, default=10, help="steps")
    p.add_argument("--seed", type=int, default=1, help="the first")
    p.add_argument("--seeds", type=int, default=1)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rows", default="", help="file to append a JSON line for each seed to")
    p.add_argument("--save", default="", help="directory to write the pretrained model to")
    return p.parse_args()


def create(name, **changes):
    if pathlib.Path(name).is_dir():
        return timm.create_model("local-dir:" + name, pretrained=True, **changes)
    return timm.create_model(name, pretrained=True, **changes)


def batches(images, size, steps, seed):
    """Passes over the images in random order without the rest, as wepe's."""
    generator, order = torch.Generator().manual_seed(seed), []
    for _ in range(steps):
        if len(order) < size:
            order = torch.randperm(len(images), generator=generator).tolist()
        rows, order = order[:size], order[size:]
        loaded = [images[i] for i in rows]
        yield torch.stack([x for x, _ in loaded]), torch.tensor([y for _, y in loaded])


def train(a, seed):
    torch.manual_seed(seed)
    config = resolve_data_config({"input_size": (3, a.size, a.size), "crop_pct": 1.0}, model=create(a.model))
    seen = create_transform(**config, is_training=True, scale=(0.35, 1), ratio=(3 / 4, 4 / 3), hflip=0.5,
                            color_jitter=None, auto_augment=None, re_prob=0)
    images = ImageFolder(pathlib.Path(a.data) / "train", seen)
    tests = ImageFolder(pathlib.Path(a.data) / "test", create_transform(**config))
    network = create(a.model, num_classes=len(images.classes), img_size=a.size)
    optimizer = create_optimizer_v2(network, opt="adamw", lr=a.rate, weight_decay=0.05, layer_decay=a.decay)
    begin = time.time()
    network.train()
    for step, (x, y) in enumerate(batches(images, a.batch, a.steps, seed)):
        if step < a.warmup:
            rate = step / a.warmup
        else:
            rate = 0.5 * (1 + math.cos(math.pi * (step - a.warmup) / (a.steps - a.warmup)))
        for group in optimizer.param_groups:
            group["lr"] = a.rate * rate * group.get("lr_scale", 1)
        loss = torch.nn.functional.cross_entropy(network(x), y, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
    seconds = time.time() - begin
    network.eval()
    with torch.no_grad():
        loader = torch.utils.data.DataLoader(tests, 64)
        logits, labels = zip(*((network(x), y) for x, y in loader))
    logits, labels = torch.cat(logits), torch.cat(labels)
    ranks = (~(logits <= logits.gather(1, labels[:, None]))).sum(1)  # NaN is wrong
    return {"kind": "run", "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "recipe": "finetune",
            "dataset": pathlib.Path(a.data).name + "-train", "fraction": 1, "encoding": "learned (timm)", "seed": seed,
            "backend": f"torch {torch.__version__}, timm {timm.__version__}", "cores": a.threads,
            "image_size": f"{a.size}x{a.size}", "steps": a.steps, "wall_seconds": seconds,
            "images_per_second": a.steps * a.batch / seconds, "weights": {"name": "last", "step": a.steps},
            "test": {"loss": torch.nn.functional.cross_entropy(logits, labels).item(),
                     "top1": (ranks < 1).float().mean().item(), "top5": (ranks < 5).float().mean().item(),
                     "images": len(labels)},
            "command": f"python tools/py/finetune_timm.py {a.model} --data {a.data} --size {a.size} --steps {a.steps} "
                       f"--batch {a.batch} --rate {a.rate:g} --decay {a.decay:g} --warmup {a.warmup} --seed {seed}"}


def main():
    a = arguments()
    torch.set_num_threads(a.threads)
    if a.save:
        timm.models.save_for_hf(create(a.model), a.save, safe_serialization=True)
        return
    print(f'wepe compare {a.model} --data {a.data} --positions learned --sizes {a.size}x{a.size} --set "epochs=0;steps='
          f'{a.steps};warmup_epochs=0;warmup_steps={a.warmup};eval_every_steps={a.steps};batch_size={a.batch};val_fraction=-1;'
          f'learning_rate={a.rate:g};optimizer.layer_decay={a.decay:g}" --seed {a.seed} --seeds {a.seeds} '
          '--checkpoint last')
    for seed in range(a.seed, a.seed + a.seeds):
        row = json.dumps(train(a, seed))
        print(row, flush=True)
        if a.rows:
            with open(a.rows, "a") as file:
                file.write(row + "\n")


if __name__ == "__main__":
    main()
