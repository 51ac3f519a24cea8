# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Makes a small model with random weights of every architecture of timm, for `go run ./tools/peers OUT`.

    python tools/peers/models_timm.py --out OUT --seed 7 [--only PATTERN]

Each model is a directory: what timm itself saves (model.safetensors, config.json), and expected.json with images
[batch, rows, cols, channels] and logits. Depth and width are
small; heads, patches, norms, activations and pooling are those of the architecture and are not passed, as timm then does
not write them either.
"""
import argparse
import fnmatch
import json
import pathlib

import timm
import torch
from timm.models import save_for_hf

TABLE = json.loads((pathlib.Path(__file__).parents[2] / "checkpoints/architectures.json").read_text())
MODULES = ("vision_transformer", "eva", "deit", "beit")


def disturb(model, generator):
    """Moves every weight away from where it starts, so that zeros and ones hide nothing."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            last = name.rsplit(".", 1)[-1]
            if weight.ndim > 1:
                weight.copy_(noise * (1.5 / weight[0].numel() ** 0.5 if weight.ndim > 1 and "token" not in name else 1))
            elif last == "weight" or "gamma" in last:
                weight.copy_(1 + 0.3 * noise)
            else:
                weight.copy_(0.3 * noise)


def make(name, generator, out):
    """One architecture: as its function has it, but with two blocks, eight channels a head and 3×2 patches."""
    of = TABLE["architectures"][name]
    own = {**TABLE["classes"][of["class"]], **of["args"]}
    heads, patch = own["num_heads"], own["patch_size"]
    args = dict(embed_dim=8 * heads, img_size=(3 * patch, 2 * patch), num_classes=5)
    try:
        model = timm.create_model(name, depth=2, **args)
    except Exception:  # lists with an entry for each block
        model = timm.create_model(name, **args)
    disturb(model, generator)
    model.eval()
    images = torch.randn(2, 3, 3 * patch, 2 * patch, generator=generator)
    with torch.no_grad():
        logits = model(images)
    out.mkdir(parents=True)
    save_for_hf(model, out, safe_serialization=True)
    images = images.permute(0, 2, 3, 1)
    (out / "expected.json").write_text(json.dumps(
        {"shape": list(images.shape), "images": images.flatten().tolist(), "logits": logits.flatten().tolist()}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--only", default="*")
    options = parser.parse_args()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(options.seed)
    for module in MODULES:
        for name in timm.list_models(module=module):
            if fnmatch.fnmatch(name, options.only):
                make(name, generator, options.out / name)


if __name__ == "__main__":
    main()
