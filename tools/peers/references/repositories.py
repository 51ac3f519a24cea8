# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Generates the reference data rope_axial, rope_mixed and dhvt_tiny with the code of their authors, which is not on PyPI.

python repositories.py OUT --rope-vit DIR --dhvt DIR [--seed N]

DIR are checkouts of naver-ai/rope-vit (ce85c2e) and ArieSeirack/DHVT (a86feda). Each is imported unmodified, with empty
modules in place of packages that it names and that this does not call, and BatchNorm2d in place of SyncBatchNorm.
"""

import warnings

import numpy as np
import torch

from common import RUNTIME, generate, hooks, images, nhwc, redraw, stand_in, write

warnings.filterwarnings("ignore")


def make_rope(out, source, seed, mixed):
    from models import vit_rope
    draw = np.random.default_rng(seed)
    torch.manual_seed(seed)  # of the frequencies
    heads, patch, side = int(draw.integers(2, 4)), int(draw.choice([2, 3, 4])), int(draw.integers(3, 5))
    c = {"img_size": [side * patch] * 2, "patch_size": patch, "embed_dim": heads * 8, "depth": 2, "num_heads": heads,
         "mlp_ratio": float(draw.choice([2, 3])), "num_classes": int(draw.integers(3, 9)), "layer_norm_eps": 1e-6,
         "rope_theta": 10.0 if mixed else 100.0}
    model = vit_rope.rope_vit_models(
        img_size=c["img_size"][0], patch_size=patch, embed_dim=c["embed_dim"], depth=c["depth"], num_heads=heads,
        mlp_ratio=c["mlp_ratio"], num_classes=c["num_classes"], qkv_bias=True, rope_theta=c["rope_theta"], rope_mixed=mixed,
        norm_layer=lambda width: torch.nn.LayerNorm(width, eps=c["layer_norm_eps"]),
        block_layers=vit_rope.RoPE_Layer_scale_init_Block, Attention_block=vit_rope.RoPEAttention).eval()
    model.patch_embed.strict_img_size = False  # the other grid
    begin = model.freqs.detach().clone() if mixed else None
    kept = {n: b.clone() for n, b in model.named_buffers()}
    redraw(model, seed)
    with torch.no_grad():
        for n, b in model.named_buffers():
            b.copy_(kept[n])
        if mixed:
            model.freqs.copy_(begin + 0.1 * torch.randn(begin.shape, generator=torch.Generator().manual_seed(seed)))
    layer, t = 1, {}
    grids = [[side, side], [side, side + 2]]
    for rows, cols in grids:
        p = f"grid{rows}x{cols}."
        tx, ty = vit_rope.init_t_xy(cols, rows)
        n, d = rows * cols + 1, c["embed_dim"]
        cis = (model.compute_cis(model.freqs, tx, ty) if mixed else model.compute_cis(end_x=cols, end_y=rows))
        own = cis[layer] if mixed else cis
        q, k, x = (images(seed + i, *shape) for i, shape in enumerate([(2, heads, n, 8), (2, heads, n, 8), (2, n, d)]))
        turned = [torch.cat([a[:, :, :1], b], 2) for a, b in
                  zip((q, k), vit_rope.apply_rotary_emb(q[:, :, 1:], k[:, :, 1:], own))]
        y = images(seed + 9, 2, 3, rows * patch, cols * patch)
        found = hooks(model, [f"blocks.{i}" for i in range(c["depth"])])
        logits = model(y)
        t |= {p + name: v for name, v in {
            "t_x": tx, "t_y": ty, "angle_cos": cis.real, "angle_sin": cis.imag, "q": q, "k": k, "q_rot": turned[0],
            "k_rot": turned[1], "attn_in": x, "attn_out": model.blocks[layer].attn(x, own), "images_nhwc": nhwc(y),
            "model.logits": logits}.items()}
        t |= {f"{p}model.{name.replace('s.', '_')}": v for name, v in found.items()}
        t[p + "block_out"] = model.blocks[layer](x, own)
    if mixed:
        torch.manual_seed(seed)
        t["init.freqs"] = vit_rope.init_random_2d_freqs(8, heads, c["rope_theta"])
        torch.manual_seed(seed)
        t["init.angles"] = torch.cat([torch.rand(1) * 2 * torch.pi for _ in range(heads)])
        t["init.freqs_norotate"] = vit_rope.init_random_2d_freqs(8, heads, c["rope_theta"], rotate=False)
    name = "rope_mixed" if mixed else "rope_axial"
    state = {k: v for k, v in model.state_dict().items() if not k.startswith("freqs_")}
    write(out / name, t, {
        "fixture": name, "reference": "naver-ai/rope-vit commit ce85c2e, models/vit_rope.py", "seed": seed, "config": c,
        "runtime": RUNTIME, "grids_h_w": grids, "rotated_layer": layer,
        "tolerance": {"abs": 5e-5, "angles_abs": 2e-5}}, state)


def make_dhvt(out, source, seed):
    stand_in("helpers", "einops", "einops.layers", "einops.layers.torch")
    torch.nn.SyncBatchNorm = torch.nn.BatchNorm2d
    import vision_transformer as dhvt
    draw = np.random.default_rng(seed)
    heads, side = int(draw.integers(2, 4)), int(draw.integers(3, 6))
    c = {"img_size": [4 * side] * 2, "patch_size": 4, "embed_dim": heads * 8, "depth": 2, "num_heads": heads,
         "mlp_ratio": float(draw.choice([2, 3])), "num_classes": int(draw.integers(3, 9)), "layer_norm_eps": 1e-6}
    model = redraw(dhvt.VisionTransformer(
        img_size=c["img_size"][0], patch_size=4, embed_dim=c["embed_dim"], depth=2, num_heads=heads,
        mlp_ratio=c["mlp_ratio"], num_classes=c["num_classes"], qkv_bias=True, apply_dhvt=True), seed).eval()
    state = {k: v.clone() for k, v in model.state_dict().items() if not k.endswith("num_batches_tracked")}
    x = images(seed + 1, 3, 3, *c["img_size"])
    block = ["norm1", "attn.ht_proj", "attn.ht_norm", "attn.qkv", "attn.proj", "attn", "norm2", "mlp.bn1", "mlp.bn2",
             "mlp.bn3", "mlp.compress", "mlp.excitation", "mlp"]
    names = ["patch_embed.pre_affine", "patch_embed.proj.0", "patch_embed.proj.1", "patch_embed.proj.2",
             "patch_embed.post_affine", "patch_embed", "norm", "blocks.0", "blocks.1", *(f"blocks.0.{n}" for n in block)]
    found = hooks(model, names)
    model.blocks[0].register_forward_pre_hook(lambda m, args: found.__setitem__("tokens_in", args[0].detach()))
    maps = {n for n in names if ".bn" in n or "affine" in n or ".proj." in n and "patch" in n}
    logits = model(x)
    t = {"images_nhwc": nhwc(x), "logits": logits, **{n: nhwc(v) if n in maps else v for n, v in found.items()}}
    t["blocks.0.attn.ht_norm"] = found["blocks.0.attn.ht_norm"]
    model.train()
    t["train.logits"] = model(x)
    for name, v in model.state_dict().items():
        if name in ("patch_embed.proj.0.1.running_mean", "patch_embed.proj.0.1.running_var",
                    "blocks.0.mlp.bn2.running_mean", "blocks.0.mlp.bn2.running_var", "blocks.1.mlp.bn3.running_mean",
                    "blocks.1.mlp.bn3.running_var"):
            t["train." + name] = v.clone()
    for patch in (2, 16):
        embed = redraw(dhvt.ConvPatchEmbed(img_size=32, patch_size=patch, embed_dim=16), seed + patch).eval()
        y = images(seed + patch, 1, 3, 32, 32)
        t[f"sope_p{patch}.images_nhwc"], t[f"sope_p{patch}.tokens"] = nhwc(y), embed(y)
        t |= {f"sope_p{patch}.param.{k}": v for k, v in embed.state_dict().items() if "num_batches" not in k}
    write(out / "dhvt_tiny", t, {
        "fixture": "dhvt_tiny", "reference": "ArieSeirack/DHVT commit a86feda, vision_transformer.py", "seed": seed,
        "runtime": RUNTIME, "config": c, "tolerance": {"abs": 1e-4, "train_logits_abs": 5e-4}},
        state)


if __name__ == "__main__":
    generate(__doc__, {"rope-vit": [lambda *a: make_rope(*a, False), lambda *a: make_rope(*a, True)], "dhvt": [make_dhvt]})
