# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Generates the reference data roi, vitdet and mask_rcnn with detectron2, which is not on PyPI, and torchvision.

python detection.py OUT --detectron2 DIR [--seed N]

DIR is a checkout of facebookresearch/detectron2 (02b5c4e), imported unmodified, its compiled part left out. It needs
fvcore, iopath, omegaconf, cloudpickle, pycocotools and, for vitdet, timm.
"""

import sys
import types
import warnings
from unittest import mock

import numpy as np
import torch
import torchvision
from torch import nn
from torchvision import ops

from common import generate, halved, hooks, images, package, write

warnings.filterwarnings("ignore")
RUNTIME = f"torch {torch.__version__}, torchvision {torchvision.__version__}, CPU, float32"


def boxes(draw, n, rows, cols, least=4, most=0.6):
    """Boxes [n, 4] inside an image."""
    size = np.stack([draw.uniform(least, most * cols, n), draw.uniform(least, most * rows, n)], 1)
    corner = draw.uniform(0, 1, (n, 2)) * ([cols, rows] - size)
    return torch.tensor(np.concatenate([corner, corner + size], 1), dtype=torch.float32)


def crowd(draw, n, rows, cols, thresholds):
    """Boxes whose overlaps are not near a threshold, so that rounding decides nothing."""
    while True:
        b = boxes(draw, n // 4, rows, cols).repeat(4, 1)
        b = b + torch.tensor(draw.normal(0, 2.5, b.shape), dtype=torch.float32)
        iou = ops.box_iou(b, b)
        if all((iou - x).abs().min() > 1e-4 for x in thresholds) and (b[:, 2:] > b[:, :2]).all():
            return b


def groups(draw, rows, cols):
    """Boxes of all kinds for an image; at stride 4 and five bins of two samples the last ones meet the edges of a map."""
    def at(x, y, size=20):
        return [x, y, x + size, y + size]
    tiny = boxes(draw, 3, rows, cols).numpy()
    tiny[:, 2:] = tiny[:, :2] + draw.uniform(0.05, 0.6, (3, 2))
    return np.array([*boxes(draw, 18, rows, cols).tolist(), *tiny.tolist(), [20.5, 10.25, 20.5, 10.25], [20.5, 10.25, 20.5, 30],
                     [7, 33, 41, 33], [0, 0, 0, 0], [-1000, -1000, 2000, 2000], [-500, 10, 3000, 20], [0, 0, cols, rows],
                     [-17.3, -9.1, 23.2, 31.7], [cols - 20.4, rows - 11.6, cols + 31.3, rows + 27.9], [-30, 20, cols + 30, 26],
                     [-60, -60, -20, -20], [cols + 20, 5, cols + 70, 40], [10, rows + 17, 30, rows + 60],
                     at(-3, -3), at(cols - 17, rows - 17), at(-3.01, rows - 16.99), at(9, 13)])


def align(t, features, rois, cotangents, config):
    strides, size, odd = config["strides"], config["output_size"], config["odd_output_size"]
    t |= {f"features.level{i}": f for i, f in enumerate(features)}
    runs = {f"roi_align.level{i}": (i, size, 2) for i in range(len(strides))} | {
        "roi_align.odd": (1, odd, 2), "roi_align.sampling3": (1, odd, 3), "roi_align.adaptive": (0, size, 0)}
    for name, (level, bins, samples) in runs.items():
        x = features[level].clone().requires_grad_()
        out = ops.roi_align(x, rois, bins, 1 / strides[level], samples, aligned=True)
        (out * cotangents[tuple(bins)]).sum().backward()
        t |= {name + ".out": out.detach(), name + ".grad_features": x.grad}
    inverted = torch.tensor([[0, 40, 30, 20, 10], [1, 30, 12, 22, 40], [0, 50.5, 20.25, 60.5, 3.75]])
    t |= {"inverted.boxes": inverted,
          "inverted.out": ops.roi_align(features[1], inverted, size, 1 / strides[1], 2, aligned=True)}


def pool(t, features, rois, cotangent, config, level):
    from detectron2.modeling import poolers
    from detectron2.structures import Boxes
    sides = [1, 20, 31.9, 32, 40, 63.9, 64, 65, 111.9, 112, 150, 223.9, 224, 300, 448, 896, 3000]
    shapes = torch.tensor([[0, 0, s, s] for s in sides] + [[3, 5, 3 + s * 4, 5 + s / 4] for s in sides])
    shapes = torch.cat([shapes, torch.tensor([[5.0, 5, 5, 5], [5, 5, 5, 50]])])
    t["levels.boxes"] = shapes
    for name, m in level.items():
        t["levels." + name] = poolers.assign_boxes_to_levels(
            [Boxes(shapes)], m["min_level"], m["max_level"], m["canonical_box_size"], m["canonical_level"])
    pooler = poolers.ROIPooler(config["output_size"], [1 / s for s in config["strides"]], 2, "ROIAlignV2", 32, 3)
    order = torch.cat([torch.nonzero(rois[:, 0] == i).flatten() for i in range(config["batch"])])
    lists = [Boxes(rois[rois[:, 0] == i, 1:]) for i in range(config["batch"])]
    maps = [f.clone().requires_grad_() for f in features]
    out = pooler(maps, lists)
    (out * cotangent[order]).sum().backward()
    t |= {"pooler.box_index": order, "pooler.out": out.detach()}
    t |= {f"pooler.grad_level{i}": f.grad for i, f in enumerate(maps)}


def suppress(t, draw, rows, cols):
    from detectron2.layers import batched_nms
    n = 4 * int(draw.integers(8, 13))
    some, same = crowd(draw, n, rows, cols, (0.3, 0.5, 0.7)), torch.tensor([[10.0, 10, 30, 40]] * 6)
    scores, few = torch.tensor(draw.permutation(n) / n, dtype=torch.float32), torch.tensor([0.1, 0.9, 0.3, 0.9, 0.2, 0.05])
    falling = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3])
    single = {
        "random_0.3": (some, scores, 0.3), "random_0.5": (some, scores, 0.5), "random_0.7": (some, scores, 0.7),
        "ties_0.5": (some, (scores * 4).floor() / 4, 0.5), "identical_tied": (same, torch.full((6,), 0.5), 0.5),
        "identical_scored": (same, few, 0.99), "threshold_1": (same, few, 1.0),
        "iou_equals_threshold": (torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 5], [0, 5, 10, 10], [0, 0, 5, 5], [2, 0, 12, 10],
                                               [0, 0, 10, 10]]), falling[:6], 0.5),
        "degenerate": (torch.tensor([[5.0, 5, 5, 5], [5, 5, 5, 5], [0, 0, 10, 10], [5, 5, 5, 9], [5, 5, 5, 9],
                                     [20, 20, 10, 10], [0, 0, 10, 10]]), falling, 0.5),
        "chain": (torch.tensor([[4.0 * i, 0, 4 * i + 10, 10] for i in range(5)]), torch.tensor([0.5, 0.9, 0.7, 0.8, 0.6]), 0.3),
        "negative_coordinates": (some - 120, scores, 0.5), "empty": (torch.zeros(0, 4), torch.zeros(0), 0.5),
        "one": (torch.tensor([[1.0, 2, 3, 4]]), torch.tensor([0.3]), 0.5)}
    for name, (b, s, threshold) in single.items():
        t |= {f"nms.{name}.boxes": b, f"nms.{name}.scores": s, f"nms.{name}.keep": ops.nms(b, s, threshold)}
    many, by = crowd(draw, n, rows, cols, (0.4, 0.5)), torch.tensor(draw.permutation(n) / n, dtype=torch.float32)
    classes = {
        "random": (many, by, torch.tensor(draw.integers(0, 4, n)), 0.5),
        "sparse_classes": (many, by, torch.tensor(draw.choice([2, 39, 76, 113], n)), 0.4),
        "identical": (same[:1].repeat(8, 1), torch.full((8,), 0.5), torch.arange(8) // 2, 0.5),
        "negative_coordinates": (torch.tensor([[-95.0, -95, -55, -55], [-46, -46, -6, -6], [0, 0, 48, 48],
                                               [-94, -94, -54, -54]]), falling[:4], torch.tensor([1, 0, 1, 0]), 0.5),
        "empty": (torch.zeros(0, 4), torch.zeros(0), torch.zeros(0, dtype=torch.int64), 0.5)}
    for name, (b, s, c, threshold) in classes.items():
        alone = [torch.nonzero(c == i).flatten() for i in c.unique()]  # class by class, without an offset of coordinates
        kept = torch.cat([i[ops.nms(b[i], s[i], threshold)] for i in alone] or [c]).sort().values
        kept = kept[s[kept].sort(descending=True, stable=True).indices]
        t |= {f"batched_nms.{name}.{k}": v for k, v in {
            "boxes": b, "scores": s, "classes": c, "keep": batched_nms(b, s, c, threshold), "keep_per_class": kept}.items()}
    return ({name: {"iou_threshold": x[-1]} for name, x in single.items()},
            {name: {"iou_threshold": x[-1]} for name, x in classes.items()})


def overlap(t, draw, rows, cols):
    from detectron2.structures import Boxes, pairwise_iou
    far = [10000, 10000, 20000, 30000]
    one = torch.cat([boxes(draw, 6, rows, cols), torch.tensor([
        [10.0, 10, 20, 20], [10, 10, 20, 20], [20, 10, 30, 20], [12, 12, 14, 14], [5, 5, 5, 5], far, [-30, -30, -10, -5],
        [30, 30, 20, 20]])])
    two = torch.cat([boxes(draw, 4, rows, cols), torch.tensor([
        [10.0, 10, 20, 20], [15, 10, 25, 20], [20, 20, 30, 30], [5, 5, 5, 5], far])])
    t |= {"iou.boxes1": one, "iou.boxes2": two, "iou.pairwise_iou": pairwise_iou(Boxes(one), Boxes(two))}
    b = torch.cat([boxes(draw, 5, rows, cols) + torch.tensor([-20.0, 0, -5, 9]), torch.tensor([
        [-10.0, -10, -5, -5], [200, 5, 300, 9], [3, 3, 3, 8], [0, 0, cols, rows]])])
    inside = Boxes(b.clone())
    inside.clip((rows, cols))
    t |= {"clip.boxes": b, "clip.out": inside.tensor, "clip.nonempty": inside.nonempty().long()}


def shift(t, draw, rows, cols, weights):
    from detectron2.modeling.box_regression import _DEFAULT_SCALE_CLAMP, Box2BoxTransform
    src, target = boxes(draw, 10, rows, cols), boxes(draw, 10, rows, cols)
    given = torch.cat([torch.tensor([[0, 0, 0, 0], [0.3, -0.4, 100, 100], [0, 0, -100, -100], [1000, -1000, 4.1351, 4.1352],
                                     [0, 0, _DEFAULT_SCALE_CLAMP, 60]]),
                       torch.tensor(draw.normal(0, 1.5, (5, 4)), dtype=torch.float32)])
    three = torch.tensor(draw.normal(0, 2, (10, 12)), dtype=torch.float32)
    t |= {"deltas.src": src, "deltas.target": target, "deltas.in": given, "deltas.in_3_classes": three}
    for name, w in weights.items():
        f = Box2BoxTransform(w)
        t |= {f"deltas.{name}.encoded": f.get_deltas(src, target), f"deltas.{name}.decoded": f.apply_deltas(given, src),
              f"deltas.{name}.decoded_3_classes": f.apply_deltas(three, src)}
    t["deltas.clamp_log2.decoded"] = Box2BoxTransform(weights["w10"], float(np.log(2))).apply_deltas(given, src)
    return _DEFAULT_SCALE_CLAMP


def place(t, draw):
    from detectron2.modeling.anchor_generator import DefaultAnchorGenerator
    grids = [[int(n) for n in draw.integers(1, 6, 2)] for _ in range(3)]
    cases = {"offset0": ([[32], [64], [128]], [0.5, 1.0, 2.0], [4, 8, 16], 0.0),
             "offset_half": ([[8, 12.5], [24], [48]], [[0.5, 1.0], [0.25, 1.0, 2.0, 3.0], [1.0]], [8, 16, 32], 0.5)}
    for name, (sizes, ratios, strides, offset) in cases.items():
        g = DefaultAnchorGenerator(sizes=sizes, strides=strides, offset=offset,
                                   aspect_ratios=ratios if isinstance(ratios[0], list) else [ratios])
        cells = list(g.cell_anchors)
        for i, found in enumerate(g([torch.zeros(1, 1, *grid) for grid in grids])):
            t |= {f"anchors.{name}.cell{i}": cells[i], f"anchors.{name}.level{i}": found.tensor}
    return {name: {"sizes": s, "aspect_ratios_h_over_w": r, "strides": d, "grids_h_w": grids, "offset": o}
            for name, (s, r, d, o) in cases.items()}


def match(t, draw):
    from detectron2.modeling.matcher import Matcher
    kinds = {"rpn": ([0.3, 0.7], [0, -1, 1], True), "rpn_nolow": ([0.3, 0.7], [0, -1, 1], False), "roi": ([0.5], [0, 1], False)}
    random, ties, zero = draw.uniform(0, 1, (5, 24)), draw.integers(0, 11, (4, 20)) / 10, draw.uniform(0, 1, (3, 10))
    random[4] *= 0.25
    zero[1] = 0
    zero[:, 4:6] = 0
    for name, quality in {"random": random, "ties": ties, "zero_row": zero, "no_gt": np.zeros((0, 6)),
                          "one": np.array([[0.1, 0.1, 0.05, 0.3, 0.3]])}.items():
        x = torch.tensor(quality, dtype=torch.float32)
        t[f"matcher.{name}.quality"] = x
        for kind, how in kinds.items():
            index, label = Matcher(*how)(x)
            t |= {f"matcher.{name}.{kind}.index": index, f"matcher.{name}.{kind}.label": label.long()}
    return {k: {"thresholds": a, "labels": b, "allow_low_quality_matches": c} for k, (a, b, c) in kinds.items()}


@torch.enable_grad()
def make_roi(out, source, seed):
    draw = np.random.default_rng(seed)
    c = {"image_h_w": [16 * int(draw.integers(3, 5)), 16 * int(draw.integers(5, 7))], "batch": 2, "channels": 3,
         "strides": [4, 8, 16], "output_size": [5, 5], "odd_output_size": [3, 4]}
    rows, cols = c["image_h_w"]
    features = [images(seed + s, 2, 3, rows // s, cols // s) for s in c["strides"]]
    b = groups(draw, rows, cols)
    rois = torch.tensor(np.concatenate([np.arange(len(b))[:, None] % 2, b], 1), dtype=torch.float32)
    cotangents = {tuple(s): images(seed + s[1], len(b), 3, *s) for s in (c["output_size"], c["odd_output_size"])}
    t = {"boxes": rois, "cotangent": cotangents[5, 5], "cotangent_odd": cotangents[3, 4]}
    level = {"fpn": {"min_level": 2, "max_level": 5, "canonical_box_size": 224, "canonical_level": 4},
             "small": {"min_level": 2, "max_level": 4, "canonical_box_size": 32, "canonical_level": 3}}
    weights = {"w1": [1.0] * 4, "w10": [10.0, 10.0, 5.0, 5.0], "w30": [30.0, 30.0, 15.0, 15.0]}
    align(t, features, rois, cotangents, c)
    pool(t, features, rois, cotangents[5, 5], c, level)
    nms, batched = suppress(t, draw, rows, cols)
    overlap(t, draw, rows, cols)
    clamp = shift(t, draw, rows, cols, weights)
    write(out / "roi", t, {
        "fixture": "roi", "reference": f"torchvision {torchvision.__version__} (BSD-3-Clause) and facebookresearch/detectron2 "
        "commit 02b5c4e", "seed": seed, "runtime": RUNTIME, "config": c, "levels": level, "nms": nms, "batched_nms": batched,
        "deltas": {"scale_clamp": clamp, "weights": weights}, "anchors": place(t, draw), "matcher": match(t, draw),
        "tolerance": {"roi_align_abs": 2e-5, "roi_align_grad_abs": 1e-4, "iou_abs": 1e-6, "deltas_encoded_abs": 1e-4,
                      "decoded_relative": 5e-6, "anchors_abs": 1e-4}})


def cubes(outputs):
    return sum((x ** 3).mean() for x in outputs)


def grads(module):
    return {"grad." + k: p.grad.clone() for k, p in module.named_parameters()}


def stages(t, model, c, x):
    """Outputs of the blocks and the pyramid for the main images, and the gradients of a loss of all levels."""
    from detectron2.modeling.backbone import utils, vit
    h, w = (n // c["patch_size"] for n in x.shape[2:])
    net, scores, add = model.net, [], vit.add_decomposed_rel_pos

    def keep(attn, *rest):
        scores.append((attn.detach(), add(attn, *rest)))
        return scores[-1][1]

    parts = [f"net.blocks.{i}{part}" for i in range(c["depth"]) for part in ("", ".norm1", ".norm2", ".mlp", ".attn")]
    found = hooks(model, ["net.patch_embed", *parts])
    for i, block in enumerate(net.blocks):
        block.register_forward_pre_hook(lambda m, a, i=i: found.__setitem__(f"in.{i}", a[0].detach()))
        block.norm2.register_forward_pre_hook(lambda m, a, i=i: found.__setitem__(f"after.{i}", a[0].detach()))
    x.requires_grad_()
    with mock.patch.object(vit, "add_decomposed_rel_pos", keep):
        levels = model(x)
    loss = cubes(levels.values())
    loss.backward()
    last = found[f"net.blocks.{c['depth'] - 1}"].permute(0, 3, 1, 2)
    half = "simfp_" + c["pyramid"]["levels"][3][1:]
    t |= {"images_nchw": x, "grad.images_nchw": x.grad, "loss": loss, "patch_embed": found["net.patch_embed"],
          "pos_resized": utils.get_abs_pos(net.pos_embed, c["pretrain_use_cls_token"], (h, w)),
          "tokens_after_pos": found["in.0"], "last_feat": last, half + ".0": getattr(model, half)[0](last), **grads(model)}
    t |= {f"pyramid.{k}": v for k, v in levels.items()}
    for i, block in enumerate(net.blocks):
        p, q = f"block_{i}", f"net.blocks.{i}"
        t |= {p: found[q], p + ".after_attn": found[f"after.{i}"], p + ".attn_out": found[f"after.{i}"] - found[f"in.{i}"]}
        t |= {f"{p}.{n}": found[f"{q}.{n}"] for n in ("norm1", "norm2", "mlp")}
        products, all_ = (s.detach().unflatten(0, (-1, c["num_heads"])) for s in scores[i])
        rows, cols = h, w
        if block.window_size:
            rows = cols = block.window_size
            t[p + ".windows"] = utils.window_partition(found[q + ".norm1"], rows)[0]
            own = len(all_) // len(x) - 1  # the last window of the first image
            t |= {p + ".last_window_logits_qk": products[own], p + ".last_window_logits": all_[own],
                  p + ".last_window_probs": all_[own].softmax(-1)}
        else:
            t[p + ".logits_rows"] = all_[0][:, [0, w - 1, h * w // 2, h * w - 1]]
        t |= {p + ".rel_h": utils.get_rel_pos(rows, rows, block.attn.rel_pos_h),
              p + ".rel_w": utils.get_rel_pos(cols, cols, block.attn.rel_pos_w)}


def make_vitdet(out, source, seed):
    from detectron2.modeling.backbone import fpn, utils, vit
    draw = np.random.default_rng(seed)
    heads, patch, width, depth = int(draw.choice([2, 3])), int(draw.choice([4, 8])), 8, int(draw.choice([3, 4]))
    first = 0 if patch == 4 else 1  # log2 of the finest stride
    levels = [f"p{first + i}" for i in range(5)]
    c = {"img_size": patch * int(draw.choice([8, 10])), "patch_size": patch, "in_chans": 3, "embed_dim": heads * width,
         "depth": depth, "num_heads": heads, "mlp_ratio": 2.0, "qkv_bias": True, "layer_norm_eps_blocks": 1e-6,
         "use_abs_pos": True, "use_rel_pos": True, "window_size": int(draw.choice([3, 5])), "window_block_indexes": [0, 2],
         "residual_block_indexes": [int(draw.integers(0, depth))], "drop_path_rate": 0.0,
         "pretrain_img_size": patch * int(draw.choice([4, 6])), "pretrain_use_cls_token": bool(draw.integers(2)),
         "pyramid": {"out_channels": int(draw.choice([4, 6])), "scale_factors": [4.0, 2.0, 1.0, 0.5], "levels": levels},
         "resblock": {"channels": 10, "bottleneck": int(draw.choice([3, 4]))}}
    how = {k: v for k, v in c.items() if k not in ("layer_norm_eps_blocks", "pyramid", "resblock")}
    top = fpn.LastLevelMaxPool()
    top.in_feature = levels[3]  # the name p5 there is of patches of 16
    model = halved(vit.SimpleFeaturePyramid(
        vit.ViT(**how, norm_layer=lambda n: nn.LayerNorm(n, eps=c["layer_norm_eps_blocks"])), "last_feat",
        c["pyramid"]["out_channels"], c["pyramid"]["scale_factors"], top), seed)
    rows, cols = (patch * int(n) for n in draw.choice([4, 6, 8], 2, replace=False))
    x, t, weights = images(seed, 2, 3, rows, cols), {}, {k: v.clone() for k, v in model.state_dict().items()}
    with torch.enable_grad():
        stages(t, model, c, x.clone())
    for name, side in (("square", c["img_size"]), ("native", c["pretrain_img_size"])):
        y = images(seed + side, 1, 3, side, side)
        t |= {f"{name}.images_nchw": y, f"{name}.last_feat": model.net(y)["last_feat"]}
        if name == "square":
            t |= {f"{name}.pyramid.{k}": v for k, v in model(y).items() if k not in levels[:1]}
    scale = 0.001
    for p in (model.net.pos_embed, *model.net.patch_embed.parameters(), getattr(model, "simfp_" + levels[2][1:])[0].weight):
        p.mul_(scale)
    found = hooks(model, ["net.blocks.0.norm1"])
    level = model(x[:1])[levels[2]]
    t |= {"eps_probe.block_0.norm1": found["net.blocks.0.norm1"], "eps_probe.pyramid." + levels[2]: level}
    for q, k, n in ((4, 4, 7), (4, 8, 15), (6, 3, 11), (5, 5, 5), (7, 7, 20), (3, int(draw.integers(4, 8)), 8)):
        table = images(seed + n, n, 3)
        t |= {f"relpos.q{q}_k{k}.table": table, f"relpos.q{q}_k{k}.out": utils.get_rel_pos(q, k, table)}
    n, y = c["resblock"]["channels"], images(seed + 1, 2, c["resblock"]["channels"], 3, 5)
    block = halved(vit.ResBottleneckBlock(n, n, c["resblock"]["bottleneck"]), seed + 1)
    with torch.enable_grad():
        z = block(y.requires_grad_())
        cubes([z]).backward()
    t |= {"resblock.input": y, "resblock.output": z, "resblock.grad.input": y.grad}
    t |= {"resblock." + k: v for k, v in grads(block).items()}
    weights |= {"resblock." + k: v for k, v in block.state_dict().items()}
    names = ["backbone." + k for k in model.state_dict()] + ["proposal_generator.rpn_head.conv.conv0.weight",
                                                             "roi_heads.box_head.0.fc1.weight"]
    rate = float(draw.choice([0.7, 0.8]))
    write(out / "vitdet", t, {
        "fixture": "vitdet", "reference": "facebookresearch/detectron2 commit 02b5c4e, modeling/backbone/vit.py", "seed": seed,
        "runtime": RUNTIME, "config": c, "eps_probe_scale": scale,
        "lr_decay": {"lr_decay_rate": rate, "num_layers": depth,
                     "factor": {k: vit.get_vit_lr_decay_rate(k, rate, depth) for k in names}},
        "tolerance": {"abs": 1e-4, "relpos_and_pos_resize_abs": 1e-5, "gradient_relative_to_max_abs_of_tensor": 2e-4,
                      "gradient_abs_floor": 1e-6}}, weights)


def outlines(draw, proposals, many):
    """Objects of one or two polygons each in proposals, so that there is more foreground than the objects' own boxes."""
    wide = [b for b in proposals if min(b[2:] - b[:2]) > 8]
    for i in draw.choice(len(wide), many, replace=False):
        (corner, side), turns = (wide[i][:2], wide[i][2:] - wide[i][:2]), draw.uniform(0, 2 * np.pi, (draw.integers(1, 3), 9))
        yield [(corner + side / 2 * (1 + np.stack([np.cos(turn), np.sin(turn)], 1) * draw.uniform(0.8, 1, (9, 1)))).round(
            2).flatten().tolist() for turn in np.sort(turns)]


def heads(c, kind):
    from detectron2.layers import ShapeSpec
    from detectron2.modeling.box_regression import Box2BoxTransform
    from detectron2.modeling.matcher import Matcher
    from detectron2.modeling.poolers import ROIPooler
    from detectron2.modeling.roi_heads import box_head, cascade_rcnn, fast_rcnn, mask_head, roi_heads
    r, b, m, p, levels = c["roi"], c["box_head"], c["mask_head"], c["box_predictor"], c["levels"]

    def pooler(side):
        return ROIPooler(side, [1 / s for s in c["strides"]], 0, "ROIAlignV2", r["pooler"]["canonical_box_size"],
                         r["pooler"]["canonical_level"])

    def head():
        side = r["pooler"]["box_output"]
        return box_head.FastRCNNConvFCHead(ShapeSpec(channels=c["channels"], height=side, width=side),
                                           conv_dims=b["conv_dims"], fc_dims=b["fc_dims"], conv_norm="LN")

    def predictor(weights, agnostic):
        return fast_rcnn.FastRCNNOutputLayers(
            ShapeSpec(channels=b["fc_dims"][-1]), box2box_transform=Box2BoxTransform(weights), num_classes=c["num_classes"],
            test_score_thresh=p["test_score_thresh"], test_nms_thresh=p["test_nms_thresh"],
            test_topk_per_image=p["test_topk_per_image"], cls_agnostic_bbox_reg=agnostic)

    how = dict(num_classes=c["num_classes"], batch_size_per_image=r["batch_size_per_image"],
               positive_fraction=r["positive_fraction"], box_in_features=levels, mask_in_features=levels,
               box_pooler=pooler(r["pooler"]["box_output"]), mask_pooler=pooler(r["pooler"]["mask_output"]),
               mask_head=mask_head.MaskRCNNConvUpsampleHead(ShapeSpec(channels=c["channels"]), num_classes=c["num_classes"],
                                                            conv_dims=m["conv_dims"], conv_norm="LN"))
    if kind == "std":
        return roi_heads.StandardROIHeads(box_head=head(), box_predictor=predictor(p["std"]["box_weights"], False),
                                          proposal_matcher=Matcher([0.5], [0, 1], False), **how)
    weights = p["cas"]["box_weights"]
    return cascade_rcnn.CascadeROIHeads(
        box_heads=[head() for _ in weights], box_predictors=[predictor(w, True) for w in weights],
        proposal_matchers=[Matcher([x], [0, 1], False) for x in p["cas"]["matcher_thresholds"]], **how)


def proposer(c, seed):
    from detectron2.modeling.anchor_generator import DefaultAnchorGenerator
    from detectron2.modeling.box_regression import Box2BoxTransform
    from detectron2.modeling.matcher import Matcher
    from detectron2.modeling.proposal_generator.build import rpn
    r = c["rpn"]
    model = halved(rpn.RPN(
        in_features=c["levels"],
        head=rpn.StandardRPNHead(in_channels=c["channels"], num_anchors=3, conv_dims=r["head_conv_dims"]),
        anchor_generator=DefaultAnchorGenerator(sizes=r["anchor_sizes"], aspect_ratios=[r["aspect_ratios"]],
                                                strides=c["strides"], offset=0.0),
        anchor_matcher=Matcher([0.3, 0.7], [0, -1, 1], True), box2box_transform=Box2BoxTransform(r["box_weights"]),
        batch_size_per_image=r["batch_size_per_image"], positive_fraction=r["positive_fraction"],
        pre_nms_topk=list(r["pre_nms_topk"].values()), post_nms_topk=list(r["post_nms_topk"].values()),
        nms_thresh=r["nms_thresh"]), seed)
    with torch.no_grad():
        model.rpn_head.anchor_deltas.weight.div_(8)  # proposals stay near anchors
    return model


def proposed(model, features, sizes):
    """The proposals of a model in training, of all images."""
    maps = list(features.values())
    logits, deltas = model.rpn_head(maps)
    flat = [x.permute(0, 2, 3, 1).flatten(1) for x in logits], [
        x.unflatten(1, (-1, 4)).permute(0, 3, 4, 1, 2).flatten(1, -2) for x in deltas]
    found = model.predict_proposals(model.anchor_generator(maps), *flat, sizes)
    return [x.proposal_boxes.tensor.detach().numpy() for x in found]


def region_proposals(t, c, model, features, sizes, truth):
    from detectron2.modeling.proposal_generator.build import rpn
    from detectron2.structures import ImageList
    drawn, sample = [], rpn.subsample_labels

    def keep(labels, *how):
        drawn.append((labels.clone(), *sample(labels, *how)))
        return drawn[-1][1:]

    of = ImageList(torch.zeros(len(sizes), 3, *c["padded_h_w"]), sizes)
    model.train()
    with mock.patch.object(rpn, "subsample_labels", keep):
        train, losses = model(of, features, truth)
    sum(losses.values()).backward()
    t |= {"rpn." + k: v for k, v in (grads(model) | losses).items()}
    t |= {f"rpn.grad.features.{k}": f.grad.clone() for k, f in features.items()}
    with torch.no_grad():
        test = model.eval()(of, features)[0]
        maps = list(features.values())
        anchors, (logits, by) = model.anchor_generator(maps), model.rpn_head(maps)
        flat = [x.unflatten(1, (-1, 4)).permute(0, 3, 4, 1, 2).flatten(1, -2) for x in by]
        for k, a, x, y, z in zip(features, anchors, logits, by, model._decode_proposals(anchors, flat)):
            t |= {"rpn.anchors." + k: a.tensor, "rpn.head_logits." + k: x, "rpn.head_deltas." + k: y, "rpn.decoded." + k: z}
    t["rpn.match_labels"] = torch.stack([d[0].long() for d in drawn])
    for i, (_, positive, negative) in enumerate(drawn):
        t |= {f"rpn.given.{i}.pos": positive, f"rpn.given.{i}.neg": negative}
        for mode, found in (("train", train), ("test", test)):
            p = f"rpn.{mode}_proposals.{i}."
            t |= {p + "boxes": found[i].proposal_boxes.tensor, p + "logits": found[i].objectness_logits}
    return train, test


def regions(t, c, kind, model, features, train, truths, drawn):
    """The losses of a model with heads, on samples drawn by the first and given to the others."""
    from detectron2.modeling.roi_heads import roi_heads
    from detectron2.structures import BitMasks, PolygonMasks
    first, targets, sample, stages = not drawn, [], roi_heads.subsample_labels, {}
    again = iter(drawn[:])

    def keep(labels, *how):
        if first:
            drawn.append((labels.clone(), *sample(labels, *how)))
            return drawn[-1][1:]
        return next(again)[1:]

    def spy(cls):
        original = cls.crop_and_resize
        return mock.patch.object(cls, "crop_and_resize", lambda *a: targets.append(original(*a)) or targets[-1])

    poolers = hooks(model, ["box_pooler", "mask_pooler", "mask_head.predictor"])
    parts = hooks(model, [k for k, _ in model.named_modules()
                          if k.startswith("box_head") or k.endswith(("cls_score", "bbox_pred"))])
    if kind == "cas":
        match = model._match_and_label_boxes
        model._match_and_label_boxes = lambda p, k, g: stages.setdefault(k, match(p, k, g))
    pooled = []
    model.box_pooler.register_forward_hook(lambda m, a, o: pooled.append(o.detach()))
    for f in features.values():
        f.grad = None
    model.train()
    with mock.patch.object(roi_heads, "subsample_labels", keep), spy(BitMasks), spy(PolygonMasks):
        sampled, losses = model(None, features, train, truths)
    sum(losses.values()).backward()
    found = {"loss_mask": losses["loss_mask"], "targets": torch.cat(targets).to(torch.uint8), "sampled": sampled}
    t |= {f"{kind}.{k}": v for k, v in (grads(model) | losses).items()}
    t |= {f"{kind}.grad.features.{k}": f.grad.clone() for k, f in features.items()}
    t |= {"box_pooled": pooled[0], "mask_pooled": poolers["mask_pooler"], kind + ".mask_logits": poolers["mask_head.predictor"]}
    outputs(t, kind, kind + ".", parts)
    for k, lists in stages.items():
        for i, x in enumerate(lists):
            t |= {f"cas.stage{k}.{i}.boxes": x.proposal_boxes.tensor, f"cas.stage{k}.{i}.gt_classes": x.gt_classes,
                  f"cas.stage{k}.{i}.gt_boxes": x.gt_boxes.tensor}
    return found, parts


def outputs(t, kind, p, parts):
    for i in range(3) if kind == "cas" else [None]:
        q, at = (p, "") if i is None else (f"{p}stage{i}.", f".{i}")
        if "test" not in p:
            t[q + "box_features"] = parts[f"box_head{at}"].clone()
        t |= {q + "cls_logits": parts[f"box_predictor{at}.cls_score"].clone(),
              q + "box_deltas": parts[f"box_predictor{at}.bbox_pred"].clone()}


@torch.enable_grad()
def make_mask_rcnn(out, source, seed):
    from detectron2.modeling.postprocessing import detector_postprocess
    from detectron2.structures import BitMasks, Boxes, Instances, PolygonMasks
    from detectron2.utils.events import EventStorage
    draw = np.random.default_rng(seed)
    torch.manual_seed(seed)
    h, w = 16 * int(draw.integers(3, 5)), 16 * int(draw.integers(4, 6))
    sizes, n = [(h, w), (h - 3, w - 13), (h, w - 5)], 6
    c = {"padded_h_w": [h, w], "image_sizes_h_w": sizes, "levels": ["p2", "p3", "p4"], "strides": [4, 8, 16], "channels": n,
         "num_classes": int(draw.integers(3, 6)),
         "rpn": {"head_conv_dims": [-1, -1], "anchor_sizes": [[12], [20], [34]], "aspect_ratios": [0.5, 1.0, 2.0],
                 "matcher": {"thresholds": [0.3, 0.7], "labels": [0, -1, 1], "allow_low_quality_matches": True},
                 "box_weights": [1, 1, 1, 1], "batch_size_per_image": 32, "positive_fraction": 0.5,
                 "pre_nms_topk": {"train": 150, "test": 90}, "post_nms_topk": {"train": 48, "test": 20}, "nms_thresh": 0.7},
         "roi": {"batch_size_per_image": 14, "positive_fraction": 0.5,
                 "pooler": {"canonical_box_size": 16, "canonical_level": 3, "box_output": 5, "mask_output": 6}},
         "box_head": {"conv_dims": [n] * int(draw.integers(2, 5)), "fc_dims": [16]},
         "box_predictor": {"std": {"box_weights": [10, 10, 5, 5]},
                           "cas": {"box_weights": [[10, 10, 5, 5], [20, 20, 10, 10], [30, 30, 15, 15]],
                                   "matcher_thresholds": [0.5, 0.6, 0.7]},
                           "test_score_thresh": 0.05, "test_nms_thresh": 0.5, "test_topk_per_image": 6},
         "mask_head": {"conv_dims": [n] * int(draw.integers(3, 6)), "output": 12}}
    t, polygons, bitmaps, listed = {}, [], [], []
    features = {k: images(seed + s, 3, n, h // s, w // s).requires_grad_() for k, s in zip(c["levels"], c["strides"])}
    rpn = proposer(c, seed).train()
    for i, ((rows, cols), many, found) in enumerate(zip(sizes, (4, 3, 0), proposed(rpn, features, sizes))):
        objects = list(outlines(draw, found, many))
        classes = torch.tensor(draw.integers(0, c["num_classes"], many), dtype=torch.int64)
        masks = PolygonMasks(objects)
        b = masks.get_bounding_boxes() if many else Boxes(torch.zeros(0, 4))
        bits = BitMasks.from_polygon_masks(masks, rows, cols) if many else BitMasks(torch.zeros(0, rows, cols))
        for of, m in ((polygons, masks), (bitmaps, bits)):
            of.append(Instances((rows, cols), gt_boxes=b, gt_classes=classes, gt_masks=m))
        listed.append({"image": i, "instances": objects, "classes": classes.tolist()})
        t |= {f"gt.{i}.boxes": b.tensor, f"gt.{i}.classes": classes, f"gt.{i}.bitmasks": bits.tensor.to(torch.uint8)}
    t |= {"features." + k: f for k, f in features.items()}
    weights, post, drawn = {}, [h + 2, w - 10], []
    with EventStorage():
        train, test = region_proposals(t, c, rpn, features, sizes, polygons)
        weights |= {"rpn." + k: v for k, v in rpn.named_parameters()}
        for kind, truth in (("std", polygons), ("cas", bitmaps)):
            model = halved(heads(c, kind), seed + (1 if kind == "std" else 2))
            weights |= {f"{kind}.{k}": v.detach().clone() for k, v in model.named_parameters()}
            found, parts = regions(t, c, kind, model, features, train, truth, drawn)
            t["mask_targets." + ("polygon" if kind == "std" else "bitmask")] = found["targets"]
            if kind == "std":
                sampled = found["sampled"]
                other = regions({}, c, kind, model, features, train, bitmaps, drawn)[0]
                t["std.loss_mask_with_bitmask_targets"] = other["loss_mask"]
            with torch.no_grad():
                detections = model.eval()(None, features, test)[0]
            outputs(t, kind, kind + ".test.", parts)
            for i, x in enumerate(detections):
                t |= {f"{kind}.test.{i}.{k}": v.clone() for k, v in {
                    "boxes": x.pred_boxes.tensor, "scores": x.scores, "classes": x.pred_classes, "masks": x.pred_masks}.items()}
            if kind == "cas":
                x = detector_postprocess(detections[0], *post)
                t |= {"cas.test.0.post_boxes": x.pred_boxes.tensor, "cas.test.0.post_classes": x.pred_classes,
                      "cas.test.0.post_masks": x.pred_masks.to(torch.uint8)}
    for i, (x, (labels, foreground, background)) in enumerate(zip(sampled, drawn)):
        t |= {f"roi.given.{i}.fg": foreground, f"roi.given.{i}.bg": background, f"roi.match_classes.{i}": labels,
              f"sampled.{i}.boxes": x.proposal_boxes.tensor, f"sampled.{i}.gt_classes": x.gt_classes}
        if x.has("gt_boxes"):
            t[f"sampled.{i}.gt_boxes"] = x.gt_boxes.tensor
    write(out / "mask_rcnn", t, {
        "fixture": "mask_rcnn", "reference": "facebookresearch/detectron2 commit 02b5c4e, its RPN, ROI heads and cascade",
        "seed": seed, "runtime": RUNTIME, "config": c, "gt_polygons": listed, "post_h_w": post,
        "tolerance": {"abs": 5e-4, "abs_single_module_fed_stored_inputs": 1e-4, "boxes_abs_pixels": 1e-3, "loss_abs": 2e-5,
                      "pasted_mask_pixels_that_may_differ": 2, "gradient_relative_to_max_abs_of_tensor": 1e-3,
                      "gradient_abs_floor": 1e-6}}, weights)


def released(out, source, seed):
    """The packages of detectron2, without those that need its compiled part."""
    package("detectron2", source / "detectron2")
    package("detectron2.modeling", source / "detectron2" / "modeling")
    for name in ("backbone", "roi_heads", "proposal_generator"):
        package("detectron2.modeling." + name, source / "detectron2" / "modeling" / name)
    package("detectron2.data", source / "none")
    data = types.ModuleType("detectron2.data.detection_utils")
    data.get_fed_loss_cls_weights = None  # never called
    sys.modules[data.__name__] = data


if __name__ == "__main__":
    generate(__doc__, {"detectron2": [released, make_roi, make_vitdet, make_mask_rcnn]}, required=True)
