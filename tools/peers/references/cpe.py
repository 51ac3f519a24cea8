# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Generates the reference data cpe: timm's VisionTransformer without positions, with PosConv of timm's Twins, the
position encoding generator of CPVT, behind the first blocks.

python cpe.py OUT [--seed N]
"""

import numpy as np
import timm
import torch
from timm.models.twins import PosConv
from timm.models.vision_transformer import VisionTransformer

from common import RUNTIME, generate, halved, images, nhwc, write


class Behind(torch.nn.Module):
    """A block and the convolution of the patches behind it."""

    def __init__(self, block, width, prefix):
        super().__init__()
        self.block, self.conv, self.prefix = block, PosConv(width, width), prefix

    def forward(self, x, **kwargs):
        x = self.block(x, **kwargs)
        return torch.cat([x[:, :self.prefix], self.conv(x[:, self.prefix:], self.grid)], 1)


@torch.enable_grad()
def run(model, x):
    model.zero_grad()
    block = model.blocks[0]
    found = block.register_forward_hook(lambda m, args, out: setattr(model, "seen", out.detach()))
    logits = model(x)
    found.remove()
    logits.square().sum().backward()
    return model.seen, logits.detach(), block.conv.proj[0].weight.grad.clone(), block.conv.proj[0].bias.grad.clone()


def make(out, seed):
    draw = np.random.default_rng(seed)
    heads, patch, registers = 2, 2, int(draw.integers(1, 4))
    c = {"embed_dim": 4 * heads * int(draw.integers(1, 3)), "depth": 3, "num_heads": heads, "mlp_ratio": 2.0,
         "num_classes": int(draw.integers(5, 9)), "patch_size": patch, "reg_tokens": registers}
    blocks = int(draw.integers(1, 3))
    model = VisionTransformer(img_size=8, pos_embed="none", dynamic_img_size=True, **c)
    for i in range(blocks):
        model.blocks[i] = Behind(model.blocks[i], c["embed_dim"], 1 + registers)
    halved(model, seed)
    grids, t = [[3, 7], [5, 4], [1, 2]], {}
    for rows, cols in grids:
        for block in model.blocks[:blocks]:
            block.grid = (rows, cols)
        p, x = f"grid{rows}x{cols}.", images(seed + rows, 2, 3, patch * rows, patch * cols)
        first, logits, weight, bias = run(model, x)
        t |= {p + "images_nhwc": nhwc(x), p + "block_0": first, p + "logits": logits, p + "grad.weight": weight,
              p + "grad.bias": bias}
    write(out / "cpe", t, {
        "fixture": "cpe", "seed": seed, "runtime": RUNTIME,
        "reference": f"timm {timm.__version__}, models/vision_transformer.py and PosConv of models/twins.py",
        "config": c | {"layer_norm_eps": model.norm.eps, "cpe_blocks": blocks}, "grids_h_w": grids,
        "tolerance": {"abs": 5e-5, "grad_rel": 1e-4}},
        {k.replace(".block.", ".").replace("conv.proj.0", "cpe"): v for k, v in model.state_dict().items()})


if __name__ == "__main__":
    generate(__doc__, {"": [make]})
