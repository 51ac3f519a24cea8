# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Generates the reference data alibi2d and lookhere with the code of their authors, which is not on PyPI.

python biases.py OUT --croma DIR --lookhere DIR [--seed N]

DIR are checkouts of antofuller/CROMA (59505a6) and GreenCUBIC/lookhere (641deab), both MIT and imported unmodified. They
name einops.rearrange; where einops is not installed, three patterns of it are done here.
"""

import importlib.util
import sys
import types

import numpy as np
import torch

from common import RUNTIME, generate, hooks, images, nhwc, redraw, write

CROMA, LOOKHERE = "antofuller/CROMA commit 59505a6, use_croma.py", "GreenCUBIC/lookhere commit 641deab, lookhere.py"


def rearrange(x, pattern, h=None, **sizes):
    if pattern == "b n (h d) -> b h n d":
        return x.unflatten(-1, (h, -1)).transpose(1, 2)
    if pattern == "b h n d -> b n (h d)":
        return x.transpose(1, 2).flatten(2)
    assert pattern == "b c (h i) (w j) -> b (h w) (c i j)", pattern
    return torch.nn.functional.unfold(x, (sizes["i"], sizes["j"]), stride=(sizes["i"], sizes["j"])).transpose(1, 2)


@torch.enable_grad()
def gradients(loss, tensors):
    loss().backward()
    return {"grad_out." + name: x.grad.detach().clone() for name, x in tensors.items()}


def make_alibi(out, source, seed):
    import use_croma as croma
    draw = np.random.default_rng(seed)
    side, heads = int(draw.integers(2, 5)), int(draw.choice([3, 5, 6, 7]))
    listed = [1, 2, 3, 6, 8, int(draw.choice([10, 12, 16]))]
    grids = [[int(draw.integers(2, 4)), int(draw.integers(4, 6))], [5, int(draw.integers(1, 4))]]

    def bias(heads, rows, cols):
        """The rows and columns of the square's bias that belong to the grid."""
        n = max(rows, cols)
        kept = [i * n + j for i in range(rows) for j in range(cols)]
        return croma.get_2dalibi(heads, n * n)[0][:, kept][:, :, kept]

    t = {f"slopes{n}_out": -bias(n, 1, 2)[:, 0, 1] for n in listed}
    t[f"square{side}x{side}.heads{heads}.bias_out"] = croma.get_2dalibi(heads, side * side)[0]
    t |= {f"grid{h}x{w}.heads{heads}.bias_out": bias(heads, h, w) for h, w in grids}
    c = {"dim": 0, "depth": 2, "num_heads": int(draw.choice([2, 3, 4])), "patch_size": int(draw.choice([2, 4])), "ff_mult": 2,
         "layer_norm_eps": 1e-5}
    c["dim"] = 4 * c["num_heads"]
    model = croma.ViT(dim=16, depth=1, in_channels=3)
    model.patch_size, model.num_heads = c["patch_size"], c["num_heads"]
    model.linear_input = torch.nn.Linear(3 * c["patch_size"] ** 2, c["dim"])  # the constructor fixes patches of 8 and 16 heads
    model.transformer = croma.BaseTransformer(dim=c["dim"], depth=c["depth"], num_heads=c["num_heads"], ff_mult=c["ff_mult"])
    redraw(model, seed).eval()
    names = {"linear_input": "patch_embed"} | {f"transformer.layers.{i}.{j}": f"layer_{i}.{part}_out" for i in range(c["depth"])
                                               for j, part in enumerate(["attn", "ffn"])}
    for p, rows, cols in (("model.square.", side, side), ("model.rect.", 2, side + 2)):
        x, own = images(seed + cols, 2, 3, rows * c["patch_size"], cols * c["patch_size"]), bias(c["num_heads"], rows, cols)
        found = hooks(model, names)
        output = model(x, own)
        t |= {p + "images_nhwc": nhwc(x), p + "bias_out": own, p + "output": output}
        t |= {p + k: v for k, v in found.items()}
        if rows == cols:
            upstream = images(seed + 5, *output.shape)
            t[p + "grad_in.final"] = upstream
            t |= {p + k: v for k, v in gradients(lambda: (model(x, own) * upstream).sum(), {
                "to_qkv": model.transformer.layers[0][0].to_qkv.weight}).items()}
    write(out / "alibi2d", t, {
        "fixture": "alibi2d", "runtime": RUNTIME, "reference": f"{CROMA}: get_2dalibi, ViT", "seed": seed,
        "bias": {"heads_listed": listed, "grid_heads": heads, "square_grid": [side, side], "square_heads": heads,
                 "grids_h_w": grids}, "model": c,
        "tolerance": {"slopes_abs": 1e-6, "bias_abs": 2e-6, "model_abs": 5e-5, "grad_abs": 2e-4}},
        {k: v for k, v in model.state_dict().items()})


VIEWS = {"lh180": "halves-none", "lh90": "corners-none", "lh45": "eighths1-eighths2-none"}  # the published models


def bias_cases(draw):
    """The published views on random grids, also with heads that they do not divide."""
    def case(name, heads, depth=1):
        grid = [int(n) for n in draw.choice([2, 3, 4], 2, replace=False)]
        return {"name": name, "grid_h_w": grid, "head_directions": VIEWS[name], "num_heads": heads, "depth": depth}

    larger = case("lh180", 12) | {"grid_h_w": [5, int(draw.integers(5, 8))]}
    larger["query_rows"] = sorted(int(n) for n in draw.choice(np.prod(larger["grid_h_w"]), 4, replace=False))
    return [case("lh180", 12, 3), case("lh90", 12), case("lh45", 12), larger, case("lh90", 6, 2)]


def make_lookhere(out, source, seed):
    import lookhere
    draw = np.random.default_rng(seed)
    own = {"global_slope": 1.0, "layer_slopes": [1.5, 0.5]}
    cases, t = bias_cases(draw), {}
    for case in cases:
        how = {k: v for k, v in case.items() if k == "head_directions"}
        bias = lookhere.create_lh_bias_tensor(own | how, case["grid_h_w"], case["depth"], case["num_heads"]).float()
        h, w = case["grid_h_w"]
        t[f"{case['name']}.grid{h}x{w}.bias_out"] = bias[:, :, case.get("query_rows", slice(None))]
    patch, heads = int(draw.choice([2, 4])), 6
    rows, cols = (int(n) for n in draw.choice([2, 3, 4], 2, replace=False))
    c = {"img_size": [rows * patch, cols * patch], "patch_size": patch, "embed_dim": 4 * heads, "depth": 2, "num_heads": heads,
         "mlp_ratio": 2.0, "num_classes": int(draw.integers(3, 9))}
    views = str(draw.choice(["halves-none", "corners-none"]))
    model = redraw(lookhere.LookHere("cpu", own | {"head_directions": views}, drop_path_rate=0.0, **(
        c | {"img_size": tuple(c["img_size"])})), seed).eval()
    model.turn_off_scaled_dot()
    x, upstream = images(seed, 2, 3, *c["img_size"]), images(seed + 1, 2, c["num_classes"])
    names = {"patch_embed": "patch_embed", "norm": "final_norm_output"}
    names |= {f"blocks.{i}": f"block_{i}_output" for i in range(2)} | {f"blocks.{i}.attn": f"block_{i}.attn_out" for i in range(2)}
    found = hooks(model, names)

    def run(p, x):
        logits = model(x)
        t.update({p + k: v for k, v in found.items()} | {p + "logits": logits})

    run("model.", x)
    t |= {"model.images_nhwc": nhwc(x), "model.grad_in.logits": upstream,
          "model.bias_map_features": model.blocks[0].attn.bias_map.float()}
    parameters = dict(model.named_parameters())
    wanted = ["cls_token", "patch_embed.proj.weight", "blocks.0.attn.qkv.bias", "blocks.0.attn.proj.weight", "blocks.1.ls1.gamma"]
    t |= {"model." + k: v for k, v in gradients(
        lambda: (model(x) * upstream).sum(), {n: parameters[n] for n in wanted}).items()}
    larger = [rows + 2, cols + 1]
    y = images(seed + 2, 1, 3, *(n * patch for n in larger))
    t["model_extrapolated.images_nhwc"] = nhwc(y)
    model.set_pos_embed(tuple(larger), None)
    run("model_extrapolated.", y)
    write(out / "lookhere", t, {
        "fixture": "lookhere", "runtime": RUNTIME, "reference": f"{LOOKHERE}, vision_transformer.py", "seed": seed, "bias_config": own,
        "bias_cases": cases, "model": c | {
            "head_directions": views, "layer_norm_eps": 1e-5, "extrapolated_img_size": [n * patch for n in larger]},
        "tolerance": {"bias_exact": 0.0, "model_abs": 5e-5, "grad_abs": 2e-4}},
        {k: v for k, v in model.state_dict().items()})


if __name__ == "__main__":
    if importlib.util.find_spec("einops") is None:
        sys.modules["einops"] = types.ModuleType("einops")
        sys.modules["einops"].rearrange = rearrange
    generate(__doc__, {"croma": [make_alibi], "lookhere": [make_lookhere]})
