# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Generates the reference data factorized_pos with NaFlexEmbeds of timm.

python factorized.py OUT [--seed N]
"""


import numpy as np
import timm
import torch
from timm.models.naflexvit import NaFlexEmbeds

from common import RUNTIME, generate, halved, images, nhwc, write


@torch.enable_grad()
def embed(model, images, upstream, prefix):
    """The embedding's tokens, and the gradients of both tables."""
    model.zero_grad()
    tokens = model(images)
    tokens = (tokens[0] if isinstance(tokens, tuple) else tokens)[0]
    (tokens[prefix:] * upstream).sum().backward()
    return tokens.detach(), model.pos_embed_y.grad[0].clone(), model.pos_embed_x.grad[0].clone()


def make(out, seed):
    draw = np.random.default_rng(seed)
    patch, width, registers = 2, 4 * int(draw.integers(2, 4)), int(draw.integers(1, 4))
    rows, cols = (int(n) for n in draw.choice([3, 4, 5, 6], 2, replace=False))
    grids = [[3, 7], [rows, cols], [8, 3]]
    c = {"pos_embed": "factorized", "pos_embed_grid_size": [rows, cols], "embed_dim": width, "patch_size": patch,
         "proj_type": "linear", "class_token": True, "reg_tokens": registers}
    t, model = {}, None
    for form, preserving in (("stretch", False), ("aspect", True)):
        model = halved(NaFlexEmbeds(**c, pos_embed_ar_preserving=preserving), seed)
        for height, across in grids:
            p, x = f"grid{height}x{across}.", images(seed + height, 1, 3, patch * height, patch * across)
            upstream = images(seed + across, height * across, width)
            tokens, dy, dx = embed(model, x, upstream, 1 + registers)
            tables = model.pos_embed_y.detach().clone(), model.pos_embed_x.detach().clone()
            with torch.no_grad():  # what is left without the tables is the projection
                model.pos_embed_y.zero_(), model.pos_embed_x.zero_()
                bare = embed(model, x, upstream, 1 + registers)[0]
                model.pos_embed_y.copy_(tables[0]), model.pos_embed_x.copy_(tables[1])
            t |= {p + "images_nhwc": nhwc(x), p + "grad_in.tokens": upstream, p + form + ".tokens_out": tokens,
                  p + form + ".pos_out": (tokens.double() - bare.double()).float()[1 + registers:],
                  p + form + ".grad_out.pos_embed_y": dy, p + form + ".grad_out.pos_embed_x": dx}
    write(out / "factorized_pos", t, {
        "fixture": "factorized_pos", "reference": f"timm {timm.__version__}, models/naflexvit.py: NaFlexEmbeds", "seed": seed,
        "runtime": RUNTIME, "config": c | {"channels_last": True}, "grids_h_w": grids,
        "tolerance": {"pos_abs": 2e-6, "tokens_abs": 1e-5, "grad_abs": 2e-5}},
        {k: v for k, v in model.state_dict().items()})


if __name__ == "__main__":
    generate(__doc__, {"": [make]})
