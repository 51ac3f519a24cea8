#!/usr/bin/python3
# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

"""Generates the results of Pillow's operations on an image, for the tests of package data.

    tools/py/augment_goldens.py DIR               the golden files of data/testdata/augment
    tools/py/augment_goldens.py DIR COUNT SEED    COUNT random cases

DIR gets cases.json: {width, height, pixels, cases}, each case {operation, amount, kernel, fill, box, width, height,
pixels}; pixels are RGB bytes, compressed by zlib, in base64. Names and amounts are those of the table of operations in
data/apply.go; "Crop" is a crop to box, then a resize; "Draft" decodes one of the jpegs, also
generated, at 1/amount of its size, crops what the box touches, and resizes the box. Needs Pillow (Debian: python3-pil, 9.4.0).
"""

import base64
import json
import math
import os
import random
import sys
import zlib

from PIL import Image, ImageEnhance, ImageFilter, ImageOps

KERNELS = {"nearest": Image.NEAREST, "bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}


def pack(image):
    return base64.b64encode(zlib.compress(image.tobytes(), 9)).decode()


def picture(rng, width, height):
    """Smooth colours, an edge, a little noise; few values in one channel, so that some are empty."""
    smooth = Image.frombytes("RGB", (3, 2), rng.randbytes(18)).resize((width, height), Image.BICUBIC)
    smooth.paste(tuple(rng.randbytes(3)), (width // 2, height // 3, width - 2, height - 1))
    noise = Image.frombytes("RGB", (width, height), rng.randbytes(3 * width * height))
    r, g, b = Image.blend(smooth, noise, 0.15).split()
    return Image.merge("RGB", (r, g.point(lambda v: 40 + v // 2), b))


def hue(image, turn):
    """As torchvision.transforms.functional.adjust_hue does for an image of Pillow."""
    h, s, v = image.convert("HSV").split()
    shift = int(turn * 255) & 255
    return Image.merge("HSV", (h.point(lambda x: (x + shift) & 255), s, v)).convert("RGB")


def move(image, matrix, kernel, fill):
    return image.transform(image.size, Image.AFFINE, matrix, resample=KERNELS[kernel], fillcolor=tuple(fill))


OPERATIONS = {
    "AutoContrast": lambda i, a, k, f: ImageOps.autocontrast(i),
    "Equalize": lambda i, a, k, f: ImageOps.equalize(i),
    "Invert": lambda i, a, k, f: ImageOps.invert(i),
    "Grey": lambda i, a, k, f: i.convert("L").convert("RGB"),
    "Posterize": lambda i, a, k, f: ImageOps.posterize(i, int(a)),
    "Solarize": lambda i, a, k, f: ImageOps.solarize(i, a),
    "SolarizeAdd": lambda i, a, k, f: i.point([min(255, v + int(a)) if v < 128 else v for v in range(256)] * 3),
    "Color": lambda i, a, k, f: ImageEnhance.Color(i).enhance(a),
    "Contrast": lambda i, a, k, f: ImageEnhance.Contrast(i).enhance(a),
    "Brightness": lambda i, a, k, f: ImageEnhance.Brightness(i).enhance(a),
    "Sharpness": lambda i, a, k, f: ImageEnhance.Sharpness(i).enhance(a),
    "Hue": lambda i, a, k, f: hue(i, a),
    "GaussianBlur": lambda i, a, k, f: i.filter(ImageFilter.GaussianBlur(a)),
    "Rotate": lambda i, a, k, f: i.rotate(a, resample=KERNELS[k], fillcolor=tuple(f)),
    "ShearX": lambda i, a, k, f: move(i, (1, a, 0, 0, 1, 0), k, f),
    "ShearY": lambda i, a, k, f: move(i, (1, 0, 0, a, 1, 0), k, f),
    "TranslateX": lambda i, a, k, f: move(i, (1, 0, a, 0, 1, 0), k, f),
    "TranslateY": lambda i, a, k, f: move(i, (1, 0, 0, 0, 1, a), k, f),
}

# The amounts of the policies at their usual magnitudes, both signs, and some beyond them.
AMOUNTS = {
    "AutoContrast": [0], "Equalize": [0], "Invert": [0], "Grey": [0],
    "Posterize": [0, 1, 4, 7], "Solarize": [0, 25.6, 128, 256], "SolarizeAdd": [0, 99, 110],
    "Color": [0, 0.19, 1.3, 1.81], "Contrast": [0.19, 1.81], "Brightness": [0.1, 1.9], "Sharpness": [0.1, 1.81, 2.8],
    "Hue": [-0.1, 0.1, 0.5], "GaussianBlur": [0.1, 0.7, 2, 5],
    "Rotate": [27, -30, 90, 180], "ShearX": [0.27, -0.3], "ShearY": [-0.27, 0.3],
    "TranslateX": [7.695, -3], "TranslateY": [-5.265, 2.5],
}
RANGES = {"Posterize": (1, 8), "Solarize": (0, 256.0), "SolarizeAdd": (0, 128), "Hue": (-0.5, 0.5), "GaussianBlur": (0.1, 6.0),
          "Rotate": (-180.0, 180.0), "ShearX": (-0.5, 0.5), "ShearY": (-0.5, 0.5), "TranslateX": (-40.0, 40.0),
          "TranslateY": (-40.0, 40.0)} | dict.fromkeys(["Color", "Contrast", "Brightness", "Sharpness"], (0, 3.0))
JPEGS = {"420.jpg": {"subsampling": 2}, "422.jpg": {"subsampling": 1}, "444.jpg": {"subsampling": 0},
         "progressive.jpg": {"subsampling": 2, "progressive": True}, "grey.jpg": {}}
DRAFTS = [(1, (17, 9, 50, 40), (17, 19)), (2, (3, 5, 58, 49), (23, 19)), (4, (5, 2, 57, 51), (13, 11)),
          (8, (1, 9, 60, 53), (7, 5))]  # 61×53 pixels
MOVING = ("Rotate", "ShearX", "ShearY", "TranslateX", "TranslateY")
BOXES = [((2, 3, 13, 10), (7, 11)), ((0, 0, 19, 13), (23, 17)), ((5, 1, 19, 12), (5, 3))]


def main():
    directory, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
    os.makedirs(directory, exist_ok=True)
    rng = random.Random(int(sys.argv[3]) if count else 20261122)
    image = picture(rng, 199 if count else 19, 131 if count else 13)
    fill = (124, 116, 104)
    cases = []

    def add(name, amount, kernel=""):
        out = OPERATIONS[name](image.copy(), amount, kernel, fill)
        cases.append({"operation": name, "amount": amount, "kernel": kernel, "fill": fill, "pixels": pack(out)})

    def crop(box, size, kernel):
        out = image.crop(box).resize(size, KERNELS[kernel])
        cases.append({"operation": "Crop", "kernel": kernel, "box": box, "width": size[0], "height": size[1],
                      "pixels": pack(out)})

    def draft(name, scale, box, size, kernel):
        jpeg = Image.open(os.path.join(directory, name))
        width, height = jpeg.size
        jpeg.draft("RGB", (width // scale, height // scale))
        assert jpeg.size == (math.ceil(width / scale), math.ceil(height / scale)), (name, jpeg.size)
        left, top = box[0] // scale, box[1] // scale
        part = jpeg.convert("RGB").crop((left, top, math.ceil(box[2] / scale), math.ceil(box[3] / scale)))
        out = part.resize(size, KERNELS[kernel], box=(box[0] / scale - left, box[1] / scale - top, box[2] / scale - left,
                                                      box[3] / scale - top))
        cases.append({"operation": "Draft", "file": name, "amount": scale, "kernel": kernel, "box": box, "width": size[0],
                      "height": size[1], "pixels": pack(out)})

    if count:
        for _ in range(count):
            name = rng.choice(list(OPERATIONS))
            low, high = RANGES.get(name, (0, 0))
            amount = rng.uniform(low, high) if isinstance(high, float) else rng.randint(low, high)
            add(name, amount, rng.choice(list(KERNELS)) if name in MOVING else "")
    else:
        for name, amounts in AMOUNTS.items():
            for amount in amounts:
                for kernel in KERNELS if name in MOVING else [""]:
                    add(name, amount, kernel)
        for box, size in BOXES:
            for kernel in ("bilinear", "bicubic"):
                crop(box, size, kernel)
        for name, options in JPEGS.items():
            large = picture(rng, 61, 53)
            large = large.convert("L") if name == "grey.jpg" else large
            large.save(os.path.join(directory, name), quality=80, **options)
            for k, case in enumerate(DRAFTS):
                draft(name, *case, ("bilinear", "bicubic")[k % 2])
    with open(os.path.join(directory, "cases.json"), "w") as file:
        head = {"width": image.width, "height": image.height, "pixels": pack(image)}
        lines = ",\n".join(json.dumps(c) for c in cases)
        file.write(json.dumps(head)[:-1] + ', "cases": [\n' + lines + "\n]}\n")


main()
