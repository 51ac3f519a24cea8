# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Generates the reference data coco_eval with pycocotools: average precision of random scenes, run-length masks.

python coco.py OUT [--seed N]
"""

import importlib.metadata
import json

import numpy as np
from pycocotools import mask as masks
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from common import generate, write

STATS = ["AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl"]
CROWD, EMPTY, UNSEEN = 4, 5, 6  # categories: of crowds alone, without objects, without detections


def text(rle):
    return {"size": rle["size"], "counts": rle["counts"].decode()}


def outline(draw, x, y, w, h):
    """A polygon of the box's width and height."""
    angles = np.sort(draw.uniform(0, 2 * np.pi, int(draw.integers(5, 10))))
    points = np.stack([np.cos(angles), np.sin(angles)], 1)
    points = (points - points.min(0)) / np.ptp(points, 0) * [w, h] + [x, y]
    return [round(float(v), 2) for v in points.ravel()]


def runs(mask):
    """Run lengths in column order, starting with zeros."""
    flat = mask.ravel(order="F")
    ends = [0, *(np.flatnonzero(np.diff(flat)) + 1), len(flat)]
    return [0] * bool(flat[0]) + [int(n) for n in np.diff(ends)]


def scenes(draw):
    """Objects and their detections: shifted, doubled, wrong, with tied scores; crowds; sizes on the bounds of the ranges."""
    sizes = [(int(draw.integers(110, 200)), int(draw.integers(110, 200))) for _ in range(5)]
    pictures = [{"id": 7 * i + 3, "height": h, "width": w} for i, (h, w) in enumerate(sizes)]
    objects, boxes, shapes = [], [], []

    def detect(picture, category, box):
        score = round(float(draw.integers(1, 20)) / 20, 2)
        boxes.append({"image_id": picture["id"], "category_id": category, "bbox": [float(v) for v in box], "score": score})
        rle = masks.frPyObjects([outline(draw, *box)], picture["height"], picture["width"])[0]
        shapes.append({"image_id": picture["id"], "category_id": category, "segmentation": text(rle), "score": score})

    for picture in pictures[:-1]:  # the last has nothing
        for _ in range(int(draw.integers(5, 9))):
            category = int(draw.choice([1, 2, 3, CROWD, UNSEEN], p=[0.35, 0.3, 0.15, 0.1, 0.1]))
            w, h = ((32, 32), (96, 96), (10, 10), tuple(draw.integers(8, 80, 2)))[min(int(draw.integers(0, 6)), 3)]
            x, y = (int(draw.integers(0, 110 - min(n, 100))) for n in (w, h))
            crowd = int(category == CROWD or draw.random() < 0.1)
            part = [outline(draw, x, y, int(w), int(h)) for _ in range(int(draw.integers(1, 3)))]
            rle = masks.merge(masks.frPyObjects(part, picture["height"], picture["width"]))
            shape = {"size": rle["size"], "counts": runs(masks.decode(rle))} if crowd else text(rle) if draw.random() < 0.2 else part
            area = float(w * h) if draw.random() < 0.7 else float(masks.area(rle))  # which need not be that of the mask
            objects.append({"id": 1000 + len(objects), "image_id": picture["id"], "category_id": category, "segmentation": shape,
                            "area": area, "bbox": [int(n) for n in (x, y, w, h)], "iscrowd": crowd})
            if draw.random() < 0.15:
                objects[-1]["ignore"] = 1
            if draw.random() < 0.15:  # the same once more: which of the two is found?
                objects.append(objects[-1] | {"id": 1000 + len(objects)})
            if category == UNSEEN:
                continue
            detect(picture, category, (x, y, w, h // 2))  # of IoU 1/2, for an even height
            for _ in range(int(draw.integers(1, 5))):
                dx, dy = draw.integers(-4, 5, 2)
                detect(picture, category, (max(x + dx, 0), max(y + dy, 0), w, h))
                if not crowd and draw.random() < 0.3:
                    last = boxes[-1], shapes[-1]
                    boxes.append(dict(last[0])), shapes.append(dict(last[1]) | {
                        "segmentation": text(rle)})
    for n in range(115):  # more than are counted
        detect(pictures[0], 1 if n < 105 else int(draw.choice([2, EMPTY, 99])), (*draw.integers(0, 60, 2), *draw.integers(6, 40, 2)))
    order = draw.permutation(len(boxes))
    truth = {"info": {}, "images": pictures, "annotations": objects,
             "categories": [{"id": i, "name": f"kind {i}"} for i in (1, 2, 3, CROWD, EMPTY, UNSEEN)]}
    return truth, [boxes[i] for i in order], [shapes[i] for i in order]


def evaluated(truth, results, kind, categories=None, any_=False):
    e = COCOeval(truth, results, kind)
    if categories:
        e.params.catIds = categories
    e.params.useCats = int(not any_)
    e.evaluate(), e.accumulate(), e.summarize()
    return e


def run(truth, results, kind, any_):
    e = evaluated(truth, results, kind, any_=any_)
    out = {"stats": e.stats.tolist(), "per_category": [], "matches_area_all": []}
    if not any_:
        out["per_category"] = [{"category_id": k} | dict(zip(STATS, evaluated(truth, results, kind, [k]).stats.tolist()))
                               for k in e.params.catIds]
        for m in e.evalImgs:
            if m and list(m["aRng"]) == list(e.params.areaRng[0]):
                ints = lambda values: [int(v) for v in values]  # noqa: E731
                out["matches_area_all"].append({
                    "image_id": m["image_id"], "category_id": m["category_id"], "dt": ints(m["dtIds"][:30]),
                    "dt_match_50": ints(m["dtMatches"][0][:30]), "dt_match_75": ints(m["dtMatches"][5][:30]),
                    "dt_ignore_50": ints(m["dtIgnore"][0][:30]), "gt": ints(m["gtIds"]), "gt_match_50": ints(m["gtMatches"][0]),
                    "gt_ignore": ints(m["gtIgnore"])})
    return out, e


def run_lengths(draw):
    h, w = (int(n) for n in draw.integers(6, 12, 2))
    drawn = {"empty": np.zeros((h, w)), "full": np.ones((h, w)), "checker": np.indices((h, w)).sum(0) % 2}
    drawn |= {f"random{i}": draw.random((h, w)) < p for i, p in enumerate([0.1, 0.4, 0.7])}
    drawn["last_pixel"] = np.arange(h * w).reshape(h, w) == h * w - 1
    rles = {k: masks.encode(np.asfortranarray(m, dtype=np.uint8)) for k, m in drawn.items()}

    def of(rle):
        return {"string": rle["counts"].decode(), "area": int(masks.area(rle)), "bbox": masks.toBbox(rle).tolist()}

    def rows(m):
        return ["".join(str(int(v)) for v in row) for row in m]

    names = list(rles)
    crowd = [int(n) for n in draw.integers(0, 2, len(names))]
    dt, gt = draw.integers(0, 12, (6, 4)) / 2 + [0, 0, 1, 1], draw.integers(0, 12, (5, 4)) / 2 + [0, 0, 1, 1]
    polygons, uncompressed = [], []
    x, y, a, b = (float(n) for n in draw.integers(1, 12, 4) / 2)
    fixed = [[x, y, x + a, y, x + a, y + b, x, y + b], [x, y, x, y + b, x + a, y + b, x + a, y], [x, y, x + a, y + b, x, y],
             [x, y, x + a, y + b, x + a, y, x, y + b], [x, y, x + 0.3, y, x + 0.3, y + b, x, y + b], [x, y] * 3,
             [x, y, x + a, y, x + a, y + b, x, y, x + a], [0.3, 0.4, x, 0.3, 0.3, y]]
    fixed += [[x0, y0, x1, y0, x1, y1, x0, y1] for x0, y0, x1, y1 in (  # of 14 by 17: all, beyond, outside, borders
        (0, 0, 17, 14), (-5, -6, 30, 31), (-9, 2, -3, 8), (20, 2, 25, 8), (2, -9, 8, -2), (2, 20, 8, 26), (-3.2, -0.4, 5, 6),
        (12, 9, 21, 18), (16, 0, 17, 14), (0, 13, 17, 14), (0.1, 0.1, 16.9, 13.9), (3.1, 4.1, 3.6, 4.4))]
    for i in range(40):  # squares both ways round, a line, a bow, a strip …; outlines of one and of two parts
        h2, w2 = (14, 17) if i < len(fixed) else (int(n) for n in draw.integers(8, 30, 2))
        parts = fixed[i:i + 1] or [
            outline(draw, *draw.uniform(-4, 10, 2), *draw.uniform(0.3, 20, 2)) for _ in range(1 + i % 2)]
        each = masks.frPyObjects(parts, h2, w2)
        polygons.append({"name": str(i), "h": h2, "w": w2, "polygons": parts, "parts": [r["counts"].decode() for r in each],
                         "merged": masks.merge(each)["counts"].decode(), "rows": rows(masks.decode(masks.merge(each))),
                         **{k: v for k, v in of(masks.merge(each)).items() if k != "string"}})
    cases = [(h, w, runs(draw.random((h, w)) < i / 7)) for i in range(8)]
    cases += [(5, 6, [3, 4, 0, 5, 18]), (5, 4, [6, 14, 0]), (1200, 1500, [500000, 3, 40000, 120000, 1139997])]
    for _ in range(12):  # runs of no pixels
        ends = np.sort(draw.choice(draw.integers(1, h * w, 4), 7))
        cases += [(h, w, np.diff([0, ends[0], ends[0] + 1, *ends[1:].clip(ends[0] + 1), h * w]).tolist())]
    for i, (h2, w2, counts) in enumerate(cases):
        uncompressed.append({"name": str(i), "size": [h2, w2], "counts": counts} | of(
            masks.frPyObjects({"size": [h2, w2], "counts": counts}, h2, w2)))
    boxes = [[float(v) for v in draw.integers(0, 12, 4) / 2 + [0, 0, 1, 1]] for _ in range(6)]
    return {"masks": [{"name": k, "h": h, "w": w, "rows": rows(m), "counts": runs(np.asarray(m))} | of(rles[k])
                      for k, m in drawn.items()],
            "merge": [{"inputs": [a, b], "intersect": 0} | of(masks.merge([rles[a], rles[b]])) for a in names for b in names if a < b],
            "iou_rle": {"dt": names, "gt": names, "iscrowd": crowd,
                        "iou_dt_by_gt": masks.iou(list(rles.values()), list(rles.values()), crowd).tolist()},
            "iou_box": {"dt": dt.tolist(), "gt": gt.tolist(), "iscrowd": crowd[:5], "iou_dt_by_gt": masks.iou(dt, gt, crowd[:5]).tolist()},
            "polygons": polygons, "uncompressed": uncompressed,
            "boxes_to_rle": [{"h": 12, "w": 13, "bbox": b} | {k: v for k, v in of(masks.frPyObjects(np.array([b]), 12, 13)[0]).items()
                                                              if k != "bbox"} for b in boxes]}


def make(out, seed):
    directory = out / "coco_eval"
    draw = np.random.default_rng(seed)
    truth, boxes, shapes = scenes(draw)
    directory.mkdir(parents=True, exist_ok=True)
    for name, value in {"instances": truth, "detections_bbox": boxes, "detections_segm": shapes}.items():
        (directory / f"{name}.json").write_text(json.dumps(value))
    truth = COCO(directory / "instances.json")
    grown = []
    for d in shapes:
        x, y, w, h = masks.toBbox(d["segmentation"]).tolist()
        grown.append(d | {"bbox": [x - 4, y - 4, w + 8, h + 8]})
    t, file = {}, {"order_of_stats": STATS, "runs": {}}
    for name, results, kind in (("bbox", boxes, "bbox"), ("segm", shapes, "segm"), ("segm_with_bbox", grown, "segm"),
                                ("bbox_no_categories", boxes, "bbox")):
        copies = [dict(d, segmentation=dict(d["segmentation"])) if "segmentation" in d else dict(d) for d in results]
        file["runs"][name], e = run(truth, truth.loadRes(copies), kind, name == "bbox_no_categories")
        if name == kind:
            precision = e.eval["precision"]
            t |= {f"{name}.{k}": v for k, v in {
                "precision": precision[:, :, :, 0, -1].astype(np.float32), "ap": precision[..., -1].mean(1),
                "precision_by_area": precision[[0, 5], ..., -1].astype(np.float32), "recall": e.eval["recall"],
                "scores": e.eval["scores"][:, :, :, 0, -1].astype(np.float32)}.items()}
    p = e.params
    t |= {"iou_thresholds": p.iouThrs, "recall_thresholds": p.recThrs}
    (directory / "expected.json").write_text(json.dumps(file, default=int))
    (directory / "rle_cases.json").write_text(json.dumps(run_lengths(draw)))
    write(directory, t, {
        "fixture": directory.name, "reference": f"pycocotools {importlib.metadata.version('pycocotools')}", "seed": seed,
        "config": {"iou_thresholds": p.iouThrs.tolist(), "max_dets": [int(n) for n in p.maxDets], "area_ranges": p.areaRng,
                   "area_labels": p.areaRngLbl},
        "tolerance": {"stats_abs": 1e-9, "per_category_abs": 1e-9, "recall_abs": 1e-12, "precision_float32_abs": 1e-6,
                      "iou_abs": 1e-12}})


if __name__ == "__main__":
    generate(__doc__, {"": [make]})
