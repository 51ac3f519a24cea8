# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Generates the reference data sincos2d with timm and by the released code of big_vision and MAE.

python sincos.py OUT --big-vision DIR --mae DIR [--seed N]

DIR are checkouts of google-research/big_vision (0127fb6, Apache-2.0) and facebookresearch/mae (efb2a80, CC BY-NC 4.0), of
which only the functions of the tables run, with numpy in place of jax.numpy. interleaved4 is MAE's table, its channels
in another order.
"""

import ast

import numpy as np
import timm
from timm.layers import build_sincos2d_pos_embed

from common import arguments, write

np.float = float  # which MAE's code calls, and numpy removed


def functions(path, **names):
    """The functions posemb_… and get_…_pos_embed… of a file, without what it imports."""
    tree = ast.parse(path.read_text())
    tree.body = [n for n in tree.body if isinstance(n, ast.FunctionDef) and ("posemb_" in n.name or "_pos_embed" in n.name)]
    exec(compile(tree, str(path), "exec"), names)
    return names


def make(out, big_vision, mae, seed):
    draw = np.random.default_rng(seed)
    vit = functions(big_vision / "big_vision/models/vit.py", jnp=np)
    mae = functions(mae / "util/pos_embed.py", np=np)
    cases, t = [], {}
    for _ in range(2):
        h, w = (int(n) for n in draw.choice(range(2, 9), 2, replace=False))
        dim = 4 * int(draw.integers(2, 8))
        cases.append({"h": h, "w": w, "dim": dim})
        p = f"h{h}w{w}d{dim}."
        places = np.stack(np.meshgrid(np.arange(w, dtype=np.float32), np.arange(h, dtype=np.float32))).reshape(2, 1, h, w)
        t[p + "big_vision"] = vit["posemb_sincos_2d"](h, w, dim)[0].reshape(h, w, dim)
        t[p + "mae"] = mae["get_2d_sincos_pos_embed_from_grid"](dim, places).reshape(h, w, dim)
        t[p + "interleaved4"] = t[p + "mae"].reshape(h, w, 4, dim // 4).swapaxes(2, 3).reshape(h, w, dim)
        for name, how in {"timm": {}, "timm_interleave": {"interleave_sin_cos": True}}.items():
            t[p + name] = build_sincos2d_pos_embed([h, w], dim, **how).numpy().reshape(h, w, dim)
        t[p + "timm_reverse_coord"] = build_sincos2d_pos_embed([h, w], dim, reverse_coord=True).numpy().reshape(w, h, dim)
    t["mae_square4_cls_d16"] = mae["get_2d_sincos_pos_embed"](16, 4, cls_token=True)
    write(out / "sincos2d", {k: v.astype(np.float32) for k, v in t.items()}, {
        "fixture": "sincos2d", "seed": seed, "reference":
        f"google-research/big_vision commit 0127fb6, facebookresearch/mae commit efb2a80, timm {timm.__version__}",
        "cases": cases, "tolerance": {"abs": 2e-6}})


if __name__ == "__main__":
    a = arguments(__doc__, "big-vision", "mae")
    make(a.out, a.big_vision, a.mae, a.seed)
