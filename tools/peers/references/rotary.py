# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Generates the reference data rope_dinov3 with RotaryEmbeddingDinoV3 of timm.

python rotary.py OUT [--seed N]
"""

from unittest import mock

import numpy as np
import timm
import torch
from timm.layers.pos_embed_sincos import RotaryEmbeddingDinoV3, apply_rot_embed_cat, make_coords_dinov3

from common import RUNTIME, generate, images, write


def turn(x, embedding, prefix, half=True):
    """x [batch, heads, tokens, headDim] with all tokens but the prefix rotated, as timm's EvaAttention does it."""
    return torch.cat([x[:, :, :prefix], apply_rot_embed_cat(x[:, :, prefix:], embedding, half=half)], 2)


@torch.enable_grad()
def gradients(t, p, turned):
    inputs = [t[p + n].clone().requires_grad_() for n in "qk"]
    sum((turned(x) * t[f"{p}grad_in.{n}"]).sum() for n, x in zip("qk", inputs)).backward()
    return {f"{p}grad_out.{n}": x.grad for n, x in zip("qk", inputs)}


def moved(t, c, grid, seed):
    """The augmentations of training, with what they drew."""
    settings = {n: c[n + "_coords"] for n in ("shift", "jitter", "rescale")}
    uniform = torch.Tensor.uniform_
    for form in ("shift", "jitter", "rescale", "all"):
        own = {n: v for n, v in settings.items() if form in (n, "all")}
        rope = RotaryEmbeddingDinoV3(c["head_dim"], c["base"], **{n + "_coords": v for n, v in own.items()}).train()
        drawn = []
        torch.manual_seed(seed)
        with mock.patch.object(torch.Tensor, "uniform_", lambda x, *a: drawn.append(uniform(x, *a).clone()) or drawn[-1].clone()):
            embedding = rope.get_embed(grid)
        p = f"aug.{form}."
        t |= {p + n: v if n == "shift" else v.exp() for n, v in zip(own, drawn, strict=True)}
        t[p + "q_rot"] = turn(t["aug.q"], embedding, c["prefix_tokens"])
    t["aug.all.sin_out"], t["aug.all.cos_out"] = embedding.chunk(2, -1)


def make(out, seed):
    draw = np.random.default_rng(seed)
    c = {"head_dim": 4 * int(draw.integers(2, 7)), "num_heads": int(draw.integers(1, 4)), "prefix_tokens": int(draw.integers(2, 7)),
         "base": float(draw.choice([50, 100, 200])), "min_period": 0.5, "max_period": float(draw.integers(40, 100)),
         "normalize_coords": "separate", "shift_coords": 0.3, "jitter_coords": 1.2, "rescale_coords": 2.0}
    rows, cols = (int(n) for n in draw.choice([3, 4, 5, 6], 2, replace=False))
    grids = [[rows, cols], [cols, 2], [1, int(draw.integers(4, 9))]]
    dim, base, prefix = c["head_dim"], c["base"], c["prefix_tokens"]
    plain, ranged = RotaryEmbeddingDinoV3(dim, base), RotaryEmbeddingDinoV3(dim, None, c["min_period"], c["max_period"])
    rounded = RotaryEmbeddingDinoV3(dim, base)
    rounded.periods.copy_(rounded.periods.bfloat16())
    t = {"periods": plain.periods, "minmax.periods": ranged.periods, "bf16.periods": rounded.periods}
    for i, grid in enumerate(grids):
        p, embedding = f"grid{grid[0]}x{grid[1]}.", plain.get_embed(grid)
        sin, cos = embedding.chunk(2, -1)
        shape = 1, c["num_heads"], prefix + grid[0] * grid[1], dim
        t |= {p + n: images(seed + 10 * i + j, *shape) for j, n in enumerate(["q", "k", "grad_in.q", "grad_in.k"])}
        t |= {p + "coords": make_coords_dinov3(*grid), p + "cos_out": cos, p + "sin_out": sin}
        t |= {f"{p}{n}_rot": turn(t[p + n], embedding, prefix) for n in "qk"}
        t |= gradients(t, p, lambda x: turn(x, embedding, prefix))
    p = f"grid{rows}x{cols}."
    for form, rope in {"max": RotaryEmbeddingDinoV3(dim, base, normalize_coords="max"),
                       "min": RotaryEmbeddingDinoV3(dim, base, normalize_coords="min"), "minmax": ranged, "bf16": rounded,
                       "interleaved": RotaryEmbeddingDinoV3(dim, base, rotate_half=False)}.items():
        embedding = rope.get_embed(grids[0])
        sin, cos = embedding.chunk(2, -1)
        t |= {f"{p}{form}.cos_out": cos, f"{p}{form}.sin_out": sin,
              f"{p}{form}.q_rot": turn(t[p + "q"], embedding, prefix, rope.rotate_half)}
    t["aug.q"] = images(seed + 99, *t[p + "q"].shape)
    moved(t, c, grids[0], seed)
    write(out / "rope_dinov3", t, {
        "fixture": "rope_dinov3", "reference": f"timm {timm.__version__}, layers/pos_embed_sincos.py: RotaryEmbeddingDinoV3",
        "seed": seed, "runtime": RUNTIME, "config": c, "grids_h_w": grids,
        "normalisation_grid": grids[0], "aug_grid": grids[0],
        "tolerance": {"coords_abs": 1e-6, "cos_sin_abs": 1e-5, "rot_abs": 3e-5, "grad_abs": 3e-5}})


if __name__ == "__main__":
    generate(__doc__, {"": [make]})
