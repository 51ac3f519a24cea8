#!/usr/bin/env python3
# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Makes a location task of real photographs from COCO: which quarter of the image has the centre of the largest object?

    python tools/py/coco_quarters.py coco128 quarters

DIR contains annotations/*.json and the photographs. OUT gets train/CLASS and test/CLASS: square crops, of other
photographs in each, at most six for each photograph and quarter. In a crop the largest visible box covers 2 to 50 % of
the area and shows at least .6 of itself, the next one is smaller than .6 of it, and its centre is at least .08 of the
side from both middle lines.
"""

import json
import pathlib
import random
import sys

from PIL import Image

CLASSES = ["top-left", "top-right", "bottom-left", "bottom-right"]
TRIES, EACH, SIDE, TRAIN = 2500, 6, 224, 88 / 128


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
    return 2 * (y > 0.5) + (x > 0.5)


def main(source, out):
    source, out = pathlib.Path(source), pathlib.Path(out)
    coco = json.loads(next((source / "annotations").glob("*.json")).read_text())
    files, boxes = {p.name: p for p in source.rglob("*.jpg")}, {}
    for a in coco["annotations"]:
        if not a.get("iscrowd"):
            boxes.setdefault(a["image_id"], []).append(a["bbox"])
    images, draw = sorted(coco["images"], key=lambda i: i["file_name"]), random.Random(1)
    draw.shuffle(images)
    for n, image in enumerate(images):
        short, found = min(image["width"], image["height"]), [[] for _ in CLASSES]
        for _ in range(TRIES):
            side = int(draw.uniform(0.45, 1) * short)
            left, top = draw.randint(0, image["width"] - side), draw.randint(0, image["height"] - side)
            q = quarter(boxes.get(image["id"], []), left, top, side)
            if q is not None and len(found[q]) < EACH:
                found[q].append((left, top, left + side, top + side))
        photo = Image.open(files[image["file_name"]]).convert("RGB")
        for name, crops in zip(CLASSES, found):
            folder = out / ("train" if n < TRAIN * len(images) else "test") / name
            folder.mkdir(parents=True, exist_ok=True)
            for i, crop in enumerate(crops):
                to = folder / f"{pathlib.Path(image['file_name']).stem}-{i}.png"
                photo.crop(crop).resize((SIDE, SIDE), Image.BICUBIC).save(to)


if __name__ == "__main__":
    main(*sys.argv[1:])
