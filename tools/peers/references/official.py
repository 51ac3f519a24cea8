# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Generates the reference data official_vit_ti and official_dhvt_wepe with the code that the paper's authors released.

python official.py OUT --source DIR [--seed N]

DIR is a checkout of 1131230221/Weierstrass-Elliptic-Function-Positional-Encoding (3c27aec, MIT), imported unmodified.
Weights are rounded to float16, so that they need half the space.
"""

import numpy as np
import torch

from common import RUNTIME, generate, hooks, images, nhwc, redraw, write

REFERENCE = {"reference": "1131230221/Weierstrass-Elliptic-Function-Positional-Encoding commit 3c27aec",
             "runtime": RUNTIME}


def state_of(model):
    return {k: v.detach().clone().reshape(v.shape or 1) for k, v in model.state_dict().items() if not k.endswith("tracked")}


def drawn(model, seed, **scalars):
    """Random weights that float16 represents exactly, except the scalars of the encoding and the constants of the lattice."""
    constants = {k: v.clone() for k, v in model.named_buffers() if ".wef." in k}
    redraw(model.eval(), seed).half().float()
    with torch.no_grad():
        for k, v in model.named_buffers():
            if k in constants:
                v.copy_(constants[k])
        for name, value in scalars.items():
            getattr(model.pos_encoding, name).fill_(value)
    return model


@torch.enable_grad()
def gradients(model, x, upstream, wanted, forget=()):
    model.zero_grad()
    (model(x) * upstream).sum().backward()
    return {"grad." + k: p.grad.detach().reshape(p.shape or 1) for k, p in model.named_parameters() if wanted(k)}


def scalars(draw):
    return {"alpha_learn": float(draw.uniform(0.3, 0.7)), "log_alpha_scale": float(np.log(draw.uniform(0.1, 0.25))),
            "pos_scale": float(draw.uniform(0.9, 1.3))}


def make_vit(out, source, seed):
    import W_Ti
    draw = np.random.default_rng(seed)
    heads, patch = int(draw.choice([2, 3])), int(draw.choice([4, 6]))
    c = {"img_size": patch * int(draw.choice([3, 5])), "patch_size": patch, "embed_dim": heads * 8, "depth": 2,
         "num_heads": heads, "num_classes": int(draw.integers(3, 11))}
    x, upstream = images(seed, 2, 3, c["img_size"], c["img_size"]), images(seed + 1, 2, c["num_classes"])
    t, weights, counts = {"images_nhwc": nhwc(x), "upstream": upstream}, {}, {}
    for variant, wepe in (("wepe", True), ("ape", False)):
        full = W_Ti.ImprovedViT_Ti(use_wef=wepe)
        position = full.pos_encoding.parameters() if wepe else [full.pos_embedding]
        counts[variant] = {"total": sum(p.numel() for p in full.parameters()), "position": sum(p.numel() for p in position)}
        model = drawn(W_Ti.ImprovedViT_Ti(use_wef=wepe, **c), seed + 2, **(scalars(draw) if wepe else {}))
        found = hooks(model, ["patch_norm", "norm", *(f"blocks.{i}" for i in range(2))])
        for i, block in enumerate(model.blocks):
            block.attn.register_forward_hook(lambda m, a, o, i=i: found.__setitem__(f"blocks.{i}.attn", o[0].detach()))
        model.blocks[0].register_forward_pre_hook(lambda m, a: found.__setitem__("tokens_in", a[0].detach()))
        logits = model(x)
        stages = dict(found) | {"logits": logits}
        stages |= gradients(model, x, upstream, lambda k: k.startswith("pos_") or k in (
            "cls_token", "patch_embed.bias", "head.bias"))
        t |= {f"{variant}.{k}": v for k, v in stages.items()}
        weights |= {f"{variant}.{k}": v for k, v in state_of(model).items()}
    write(out / "official_vit_ti", t, REFERENCE | {
        "fixture": "official_vit_ti", "file": "W_Ti.py", "cls": "ImprovedViT_Ti", "seed": seed, "config": c,
        "full_size_parameters": counts}, weights)


def terms(omega1):
    """The 64 points of the lattice that the released sum keeps: the nearest by their float32 modulus, stably sorted."""
    span = range(-8, 9)
    points = [(m, n) for m in span for n in span if (m, n) != (0, 0)]
    moduli = [torch.abs(torch.complex(torch.tensor(2.0 * m * omega1), torch.tensor(2.0 * n * omega1))).item() for m, n in points]
    return [list(points[i]) for i in sorted(range(len(points)), key=lambda i: moduli[i])[:64]]


def make_dhvt(out, source, seed):
    torch.nn.SyncBatchNorm = torch.nn.BatchNorm2d
    import dhvt_wef_experiment as dhvt
    draw = np.random.default_rng(seed)
    heads = int(draw.choice([2, 3]))
    c = {"img_size": 4 * int(draw.choice([3, 5])), "patch_size": 4, "num_classes": int(draw.integers(3, 11)),
         "embed_dim": heads * 8, "depth": 2, "num_heads": heads, "mlp_ratio": float(draw.choice([2, 3])), "dropout": 0.08, "drop_path": 0.15, "wef_g2": 0.8,
         "wef_g3": 0.2, "wef_alpha_scale": 0.1, "wef_projection_type": "mlp", "wef_use_4d": True}
    counts = {}
    for name, how in {"main_script": c | dict(img_size=224, patch_size=16, num_classes=100, embed_dim=224, depth=12,
                                              num_heads=4, mlp_ratio=4.0), "class_defaults": {},
                      "class_defaults_mlp": {"wef_projection_type": "mlp"}}.items():
        full = dhvt.DHVT_WEF_Ti(**how)
        counts[name] = {"total": sum(p.numel() for p in full.parameters()),
                        "position": sum(p.numel() for p in full.pos_encoding.parameters())}
    model = drawn(dhvt.DHVT_WEF_Ti(**c), seed, **scalars(draw))
    x, upstream = images(seed + 1, 2, 3, c["img_size"], c["img_size"]), images(seed + 2, 2, c["num_classes"])
    found = hooks(model, ["patch_embed", "pos_encoding", "blocks.0", "blocks.1", "blocks.1.attn", "blocks.1.mlp", "norm"])
    model.blocks[0].register_forward_pre_hook(lambda m, a: found.__setitem__("tokens_in", a[0].detach()))
    wef, seen = model.pos_encoding.wef, {}
    original = wef.wp_and_wp_prime
    wef.wp_and_wp_prime = lambda z: seen.setdefault("values", (z, *original(z)))[1:]
    model.pos_encoding.projection.register_forward_pre_hook(lambda m, a: seen.__setitem__("features", a[0].detach()))
    logits = model(x)
    t = {"images_nhwc": nhwc(x), "upstream": upstream, "logits": logits, **found, "pos.features": seen["features"]}
    t["pos_encoding"] = found["pos_encoding"][:1]
    t |= {name: torch.view_as_real(v.detach()) for name, v in zip(("pos.z", "pos.wp", "pos.wpp"), seen["values"])}
    del wef.wp_and_wp_prime
    t |= gradients(model, x, upstream, lambda k: k.startswith("pos_encoding."))
    write(out / "official_dhvt_wepe", t, REFERENCE | {
        "fixture": "official_dhvt_wepe", "file": "dhvt_wef_experiment.py", "cls": "DHVT_WEF_Ti", "seed": seed, "config": c,
        "full_size_parameters": counts, "terms_kept_omega1_1": terms(1.0),
        "terms_kept_omega1_2p622": terms(2.62205755429212)}, state_of(model))


if __name__ == "__main__":
    generate(__doc__, {"source": [make_vit, make_dhvt]}, required=True)
