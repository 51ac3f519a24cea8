# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Augmentations, compared with those of timm and torchvision for the same random draws.

Crops, flips and mixing are compared with the windows, boxes and weights that wepe drew. The draws of a
policy are unknown: each image must equal, bit for bit, the result of one of the policy's operations, and all of them
must occur.
"""

import base64
import subprocess
import sys
from unittest import mock

import numpy as np
import timm.data.auto_augment as timm_ops
import timm.data.mixup
import torch
import torchvision.transforms.autoaugment as vision_ops
import torchvision.transforms.functional as F
from PIL import Image

from peers import ROOT, difference, go_test

HEIGHT, WIDTH, CLASSES = 29, 37, 5


def augmented(driver, pixels, targets, seed, smoothing=0.0, **augment):
    height, width = pixels.shape[1:3]
    values = driver.ask("augment", recipe=augment, pixels=base64.b64encode(pixels.tobytes()).decode(), height=height,
                        width=width, targets=targets.tolist(), classes=CLASSES, seed=seed, l2=smoothing)["values"]
    rows, cols = augment.get("size", (height, width))
    values["shown"] = [np.frombuffer(base64.b64decode(s), np.uint8).reshape(rows, cols, 3) for s in values["shown"]]
    if "images" in values:
        values["images"] = np.array(values["images"], np.float32).reshape(len(pixels), rows, cols, 3)
    return values


def noise(rng, n, height=HEIGHT, width=WIDTH):
    """Images with smooth parts, [n, height, width, 3], and classes."""
    small = rng.integers(0, 256, (n, 4, 5, 3), dtype=np.uint8)
    pixels = np.stack([np.asarray(Image.fromarray(s).resize((width, height), Image.Resampling.BICUBIC)) for s in small])
    pixels = np.clip(pixels.astype(int) + rng.integers(-20, 21, pixels.shape), 0, 255).astype(np.uint8)
    return pixels, rng.integers(0, CLASSES, n)


def timm_outcomes(image, increasing, magnitude, fill):
    """The results of each operation of timm's RandAugment, with either sign."""
    names = timm_ops._RAND_INCREASING_TRANSFORMS if increasing else timm_ops._RAND_TRANSFORMS
    hparams = {"img_mean": fill, "interpolation": Image.Resampling.BICUBIC}
    for name in names:
        for drawn in (0.0, 1.0):
            with mock.patch.object(timm_ops.random, "random", lambda: drawn):
                yield name, timm_ops.AugmentOp(name, prob=1.0, magnitude=magnitude, hparams=hparams)(image)


def vision_outcomes(image, magnitude):
    """The results of each operation of torchvision's RandAugment."""
    space = vision_ops.RandAugment()._augmentation_space(31, (image.height, image.width))
    for name, (magnitudes, signed) in space.items():
        value = float(magnitudes[magnitude]) if magnitudes.ndim else 0.0
        for sign in (1, -1) if signed else (1,):
            yield name, vision_ops._apply_op(image, name, sign * value, F.InterpolationMode.NEAREST, None)


def policy(driver, rng, name, outcomes):
    pixels, _ = noise(rng, 1)
    mean = [0.4, 0.5, 0.6]
    n = 900
    shown = augmented(driver, np.repeat(pixels, n, 0), np.zeros(n, int), int(rng.integers(1 << 20)), policy=name,
                      mean=mean)["shown"]
    image = Image.fromarray(pixels[0])
    known = {np.asarray(out).tobytes(): op for op, out in outcomes(image, tuple(round(255 * m) for m in mean))}
    seen = {s.tobytes() for s in shown} - {pixels[0].tobytes()}
    missing = {known[k] for k in known.keys() - seen - {pixels[0].tobytes()}}
    assert seen <= known.keys(), f"{len(seen - known.keys())} of {len(seen)} outcomes are of no operation"
    assert not missing, f"never drawn: {missing}"
    return 0.0


def crops(driver, rng, kernel):
    """Resized crops and flips: on the host bit for bit, in the graph (bilinear alone) in floating point."""
    pixels, targets = noise(rng, 24, *(int(n) for n in rng.integers(20, 90, 2)))
    size = [int(n) for n in rng.integers(15, 40, 2)]
    got = augmented(driver, pixels, targets, int(rng.integers(1 << 20)), size=size, crop_scale=[0.1, 1.0], flip_prob=0.5,
                    resample=kernel)
    mode = F.InterpolationMode(kernel)
    worst = 0.0
    for image, (scale, _, top, bottom, across, _, left, right), shown, batch in zip(
            pixels, got["windows"], got["shown"], got["images"]):
        box = [int(v) for v in (top, left, bottom - top, right - left)]
        want = F.resized_crop(Image.fromarray(image), *box, size, mode)
        want = np.asarray(F.hflip(want) if across < 0 else want)
        assert (want == shown).all(), f"the host's differs by up to {np.abs(want.astype(int) - shown).max()}"
        if kernel == "bilinear":
            x = F.resized_crop(torch.from_numpy(image).permute(2, 0, 1).double() / 255, *box, size, mode, antialias=True)
            worst = max(worst, difference(batch, (x.flip(-1) if across < 0 else x).permute(1, 2, 0)))
    return worst


def mixing(driver, rng, cut, smoothing):
    """timm's Mixup and CutMix with the weights and boxes that wepe drew, and timm's soft labels."""
    pixels, targets = noise(rng, 12)
    how = {"cutmix_alpha": 1.0} if cut else {"mixup_alpha": 0.8}
    got = augmented(driver, pixels, targets, int(rng.integers(1 << 20)), smoothing=smoothing, **how)
    top, left, bottom, right, _, share = got["mix"]
    x = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
    y = torch.from_numpy(targets)
    mixer = timm.data.mixup.Mixup(label_smoothing=smoothing, num_classes=CLASSES)
    box = tuple(int(v) for v in (top, bottom, left, right))
    worst = 0.0
    with mock.patch.object(timm.data.mixup.Mixup, "_params_per_batch", lambda self: (share, cut)), \
            mock.patch.object(timm.data.mixup, "cutmix_bbox_and_lam", lambda *a, **k: (box, share)):
        for i, partner in enumerate(got["partners"]):  # timm's partner is the other of two
            pair = [i, partner]
            mixed, labels = mixer(x[pair].clone(), y[pair])
            worst = max(worst, difference(got["images"][i], mixed[0].permute(1, 2, 0)),
                        difference(got["labels"][i * CLASSES:(i + 1) * CLASSES], labels[0]))
    return worst


def erasing(driver, rng):
    """torchvision's erase of a normalized image in the box that wepe drew: equal but for the rounding to bytes."""
    pixels, targets = noise(rng, 16)
    mean, std = [0.4, 0.5, 0.6], [0.2, 0.25, 0.3]
    shown = augmented(driver, pixels, targets, int(rng.integers(1 << 20)), erase_prob=1.0, mean=mean, std=std)["shown"]
    worst = 0.0
    for image, got in zip(pixels, shown):
        rows, cols = np.nonzero((image != got).any(-1))
        i, j = rows.min(), cols.min()
        x = F.normalize(torch.from_numpy(image).permute(2, 0, 1).float() / 255, mean, std)
        want = F.erase(x, int(i), int(j), int(rows.max() - i + 1), int(cols.max() - j + 1), torch.zeros(3, 1, 1))
        apart = F.normalize(torch.from_numpy(got.copy()).permute(2, 0, 1).float() / 255, mean, std) - want
        worst = max(worst, float((apart.abs() * torch.tensor(std)[:, None, None] * 255).max()))
    return worst


def operations(rng, directory):
    """Every operation alone, bit for bit: the library's own test, on new cases computed by Pillow."""
    cases = directory / "operations"
    subprocess.run([sys.executable, ROOT / "tools/py/augment_goldens.py", cases, "150", str(rng.integers(1 << 20))], check=True)
    return go_test("./data", "Operation.*Pillow", WEPE_AUGMENT=cases)


def run(table, driver, rng, directory, options):
    for name, increasing in (("rand-m9-n1", False), ("rand-m7-n1-inc1", True)):
        magnitude = int(name[6])
        table.run("policies", "timm", name, lambda: policy(driver, rng, name, lambda image, fill: timm_outcomes(
            image, increasing, magnitude, fill)))
    table.run("policies", "torchvision", "RandAugment(1,9)", lambda: policy(
        driver, rng, "RandAugment(1,9)", lambda image, fill: vision_outcomes(image, 9)))
    for kernel in ("bilinear", "bicubic"):
        for _ in range(2):
            table.run("resized crops and flips", "torchvision", kernel, lambda: crops(driver, rng, kernel))
    for cut in (False, True):
        for smoothing in (0.0, 0.1):
            table.run("mixing", "timm", f"{'cutmix' if cut else 'mixup'}, smoothing {smoothing}",
                      lambda: mixing(driver, rng, cut, smoothing), 1e-6)
    table.run("erasing", "torchvision", "levels", lambda: erasing(driver, rng), 0.51)
    table.run("operations", "Pillow", "150 random cases", lambda: operations(rng, directory))
