#!/usr/bin/env python3
# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Makes small tasks of real photographs from COCO, square crops as OUT/train/CLASS and OUT/test/CLASS.

    python tools/py/coco_crops.py quarters coco128 OUT     # which quarter has the centre of the largest object?
    python tools/py/coco_crops.py centres coco128 OUT      # is the object in the centre a person?

coco128 has annotations/*.json and the photographs. Training and test crops are of different photographs, at most six
(quarters) or twelve for each photograph and class. Quarters: the largest visible box covers 2 to 50 % of the crop and
shows at least .6 of itself, the next one is smaller than .6 of it, and its centre is at least .08 of the side from both
middle lines. Centres: the side is 1.2 to 3 times the longer one of the box, as the photograph allows, which has at least
16 pixels.
"""

import glob
import json
import pathlib
import random
import sys

from PIL import Image

PERSON = 1  # its category in COCO
TRIES, SIDE, TRAIN = 2500, 224, 88 / 128


def quarter(boxes, left, top, side):
    """The class of a crop of a photograph with boxes x, y, width, height; None for a crop without a clear one."""
    seen = []
    for x, y, w, h in boxes:
        x0, y0, x1, y1 = max(x, left), max(y, top), min(x + w, left + side), min(y + h, top + side)
        if x1 > x0 and y1 > y0:
            area = (x1 - x0) * (y1 - y0)
            seen.append((area, area / (w * h), ((x0 + x1) / 2 - left) / side, ((y0 + y1) / 2 - top) / side))
    if not seen:
        return None
    seen.sort(reverse=True)
    area, shown, x, y = seen[0]
    if not 0.02 <= area / side**2 <= 0.5 or shown < 0.6 or len(seen) > 1 and seen[1][0] > 0.6 * area:
        return None
    if abs(x - 0.5) < 0.08 or abs(y - 0.5) < 0.08:
        return None
    return ("top-" if y < 0.5 else "bottom-") + ("left" if x < 0.5 else "right")


def quarters(draw, image, objects):
    """Class and box of random crops."""
    boxes = [a["bbox"] for a in objects]
    for _ in range(TRIES):
        side = int(draw.uniform(0.45, 1) * min(image["width"], image["height"]))
        left, top = draw.randint(0, image["width"] - side), draw.randint(0, image["height"] - side)
        if name := quarter(boxes, left, top, side):
            yield name, (left, top, left + side, top + side)


def centres(draw, image, objects):
    """Class and box of crops around each object."""
    for a in objects:
        x, y, w, h = a["bbox"]
        x, y, long = x + w / 2, y + h / 2, max(w, h)
        half = min(x, y, image["width"] - x, image["height"] - y, 1.5 * long)
        if long >= 16 and half >= 0.6 * long:
            name = "person" if a["category_id"] == PERSON else "other"
            yield name, tuple(round(edge) for edge in (x - half, y - half, x + half, y + half))


def main(task, source, out):
    crops, most = {"quarters": (quarters, 6), "centres": (centres, 12)}[task]
    source, out = pathlib.Path(source), pathlib.Path(out)
    coco = json.loads(next((source / "annotations").glob("*.json")).read_text())
    paths = glob.glob(f"{glob.escape(str(source))}/**/*.jpg", recursive=True)  # through links, as rglob does not
    files, objects = {pathlib.Path(path).name: path for path in paths}, {}
    for a in coco["annotations"]:
        if not a.get("iscrowd"):
            objects.setdefault(a["image_id"], []).append(a)
    images, draw = sorted(coco["images"], key=lambda i: i["file_name"]), random.Random(1)
    draw.shuffle(images)
    for n, image in enumerate(images):
        photo, found = Image.open(files[image["file_name"]]).convert("RGB"), {}
        for name, crop in crops(draw, image, objects.get(image["id"], [])):
            i = found.setdefault(name, 0)
            if i < most:
                found[name] = i + 1
                stem = pathlib.Path(image["file_name"]).stem
                to = out / ("train" if n < TRAIN * len(images) else "test") / name / f"{stem}-{i}.png"
                to.parent.mkdir(parents=True, exist_ok=True)
                photo.crop(crop).resize((SIDE, SIDE), Image.BICUBIC).save(to)


if __name__ == "__main__":
    main(*sys.argv[1:])
