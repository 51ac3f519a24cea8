#!/usr/bin/python3
# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

"""Measures the CPU time of a crop of a jpeg in Pillow and in Go, in interleaved rounds on the same files.

    tools/py/decode_speed.py make DIR WIDTH HEIGHT COUNT    files with the spectrum and size of photographs
    tools/py/decode_speed.py DIR ROUNDS BINARY...           CPU time per image, median of the rounds

Measured are a random resized crop of 8 to 100 % of the area to 224×224 pixels, bilinear, and the preprocessing of
evaluation: the shorter side to 256, the central 224. Pillow decodes without and with draft, which decodes at a half, a quarter or an eighth if the crop
stays large enough. A binary is `go test -c ./data`, with and without -tags libjpeg; it is called for
BenchmarkDecode and writes nanoseconds of CPU time by kind. CPU time is measured because other programs may run.
Needs Pillow and numpy (Debian: python3-pil, python3-numpy).
"""

import glob
import math
import os
import random
import re
import statistics
import subprocess
import sys
import time

from PIL import Image

OUT, SHORTER, PICTURES = 224, 256, 100


def make(directory, width, height, count):
    import numpy as np
    rng = np.random.default_rng(3)
    os.makedirs(directory, exist_ok=True)
    y, x = np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width)[None]
    # Power spectra of photographs fall as 1/f²: amplitudes as 1/f; colours follow lightness, with less of their own.
    fall = 1 / np.maximum(np.hypot(x, y), 1 / max(width, height))
    for k in range(count):
        def field():
            phase = rng.normal(size=(height, width)) + 1j * rng.normal(size=(height, width))
            plane = np.fft.ifft2(phase * fall).real
            return plane / plane.std()
        light, warm, green = field(), field(), field()
        rgb = np.stack([light + 0.4 * warm, light + 0.3 * green, light - 0.4 * warm], -1)
        rgb = np.clip(120 + 55 * rgb + rng.normal(size=rgb.shape) * 3, 0, 255).astype(np.uint8)
        Image.fromarray(rgb).save(f"{directory}/{k:03d}.jpg", quality=88)
    sizes = [os.path.getsize(f) for f in glob.glob(directory + "/*.jpg")]
    print(f"{count} files of {width}×{height}, {sum(sizes) / len(sizes) / 1024:.0f} KiB each")


def window(rng, height, width):
    """torchvision's RandomResizedCrop."""
    for _ in range(10):
        area, ratio = height * width * rng.uniform(0.08, 1), math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            top, left = rng.randint(0, height - h), rng.randint(0, width - w)
            return left, top, left + w, top + h
    side = min(height, width)
    return (width - side) // 2, (height - side) // 2, (width + side) // 2, (height + side) // 2


def train(path, rng, draft):
    image = Image.open(path)
    box = window(rng, image.height, image.width)
    if draft:
        width = image.width
        enlarged = OUT / (box[2] - box[0]), OUT / (box[3] - box[1])
        image.draft("RGB", (math.ceil(image.width * enlarged[0]), math.ceil(image.height * enlarged[1])))
        scale = round(width / image.width)
        image = image.convert("RGB")
        return image.resize((OUT, OUT), Image.BILINEAR, box=tuple(v / scale for v in box))
    return image.convert("RGB").crop(box).resize((OUT, OUT), Image.BILINEAR)


def evaluate(path, rng, draft):
    image = Image.open(path)
    scale = SHORTER / min(image.size)
    size = round(image.width * scale), round(image.height * scale)
    if draft:
        image.draft("RGB", size)
    image = image.convert("RGB").resize(size, Image.BILINEAR)
    left, top = (size[0] - OUT) // 2, (size[1] - OUT) // 2
    return image.crop((left, top, left + OUT, top + OUT))


def decode(path, rng, draft):
    return Image.open(path).convert("RGB").load()


def pillow(paths):
    out = {}
    for name, work, draft in (("whole", decode, False), ("train", train, False), ("train", train, True),
                              ("eval", evaluate, False), ("eval", evaluate, True)):
        rng = random.Random(5)
        start = time.process_time_ns()
        for k in range(PICTURES):
            work(paths[k % len(paths)], rng, draft)
        out[name, "Pillow, draft" if draft else "Pillow"] = (time.process_time_ns() - start) / PICTURES
    return out


def main():
    if sys.argv[1] == "make":
        return make(sys.argv[2], *map(int, sys.argv[3:6]))
    directory, rounds, binaries = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    paths = sorted(glob.glob(directory + "/*.jpg"))
    for path in paths:  # into the page cache
        open(path, "rb").read()
    taken = {}
    for _ in range(rounds):
        results = pillow(paths)
        for binary in binaries:
            text = subprocess.run([binary, "-test.run=XXX", "-test.bench=BenchmarkDecode", f"-test.benchtime={PICTURES}x"],
                                  env=dict(os.environ, WEPE_JPEGS=os.path.abspath(directory), GOMAXPROCS="1"), check=True,
                                  capture_output=True, text=True).stdout
            for kind, value in re.findall(r"BenchmarkDecode/(\w+)\S*\s.*?([\d.e+]+) cpu-ns/op", text):
                results[kind, os.path.basename(binary)] = float(value)
        for key, value in results.items():
            taken.setdefault(key, []).append(value)
    for (kind, who), values in sorted(taken.items()):
        by = [a / b for a, b in zip(taken[kind, "Pillow"], values)]
        print(f"{kind:6} {who:20} {statistics.median(values) / 1e6:7.2f} ms  {1e9 / statistics.median(values):6.0f} a second"
              f"   {statistics.median(by):.2f} times Pillow ({min(by):.2f} … {max(by):.2f})")


main()
