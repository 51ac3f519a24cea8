# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Generates the reference data liere, fope and as2drope with the code of their authors, which is not on PyPI.

python encodings.py OUT --liere DIR --fope DIR --visionllama DIR [--seed N]

DIR are checkouts of StanfordMIMI/LieRE (b27b41b), TsinghuaC3I/Fourier-Position-Embedding (bd94b20) and
Meituan-AutoML/VisionLLaMA (33fa561). Each is imported unmodified, with empty modules in place of packages that it names
and that this does not call; LieRE needs einops. LieRE asserts that heads have 64 channels; its file is compiled without
assertions, so that smaller heads run.
"""

import sys
import types

import numpy as np
import torch

from common import RUNTIME, generate, halved, images, nhwc, package, stand_in, write


def make_liere(out, source, seed):
    stand_in("ipdb")
    package("models", source / "models")
    rope_vit = types.ModuleType("models.rope_vit")
    rope_vit.__package__ = "models"
    sys.modules[rope_vit.__name__] = rope_vit
    file = source / "models" / "rope_vit.py"
    exec(compile(file.read_text(), file, "exec", optimize=1), vars(rope_vit))

    draw = np.random.default_rng(seed)
    heads, size = int(draw.choice([2, 3])), int(draw.choice([8, 12]))
    patch, rows, cols = int(draw.choice([2, 4])), int(draw.choice([3, 4])), int(draw.choice([3, 4]))
    c = {"img_size": [rows * patch, cols * patch], "patch_size": patch, "dim": heads * size, "heads": heads, "head_dim": size,
         "depth": 2, "mlp_dim": int(draw.choice([20, 28])), "num_classes": int(draw.integers(3, 11)), "phase_type": "naver",
         "layer_norm_eps": 1e-5, "qkv_bias": False, "rotary_embedding_per_layer": True, "enable_ape": False}
    variants = [{"name": name, "generator_dim": g, "rotary_embedding_per_head": own} for name, g, own in (
        ("half", size // 2, True), ("whole", size, True), ("shared", size // 2, False), ("pairs", 2, True))]
    grids = [[rows, cols], [rows, cols + 2], [rows + 3, cols + 1]]
    x = images(seed, 1, 3, *c["img_size"])
    t, state, last = {"model.images_nhwc": nhwc(x)}, None, c["depth"] - 1
    for variant in variants:
        torch.manual_seed(seed)
        model = rope_vit.RoPEViT(
            image_size=tuple(c["img_size"]), patch_size=patch, num_classes=c["num_classes"], dim=c["dim"], depth=c["depth"],
            heads=heads, mlp_dim=c["mlp_dim"], dim_head=size, positional_encoding_type="liere", phase_type="naver",
            generator_dim=variant["generator_dim"], rotary_embedding_per_layer=True, enable_ape=False,
            rotary_embedding_per_head=variant["rotary_embedding_per_head"])
        encoder, p = model.position_encoder, variant["name"] + "."
        raw = encoder.generator_raw_params.detach().half().float()  # as initialized
        halved(model, seed)
        encoder.generator_raw_params.copy_(raw)
        state = state or {k: v.clone() for k, v in model.state_dict().items() if k != "pos_embedding"}
        t[p + "generator_raw_params"] = raw
        method = rope_vit.ExponentiationMethod  # what the encoder would exponentiate, at one step along each axis
        one_shot = method.EXPONENTIATE_ONE_SHOT
        type.__setattr__(method, "EXPONENTIATE_ONE_SHOT", method.RETURN_POSITIONS)
        t[p + "generators"] = encoder(None, torch.float32, positions=torch.eye(2)[None])[0, 1:].contiguous()
        type.__setattr__(method, "EXPONENTIATE_ONE_SHOT", one_shot)
        attention = model.transformer.layers[last][0].fn
        for i, (h, w) in enumerate(grids):
            g, n = f"grid{h}x{w}.", h * w + 1
            q, k, y = (images(seed + 10 * i + j, *s) for j, s in enumerate([(1, heads, n, size)] * 2 + [(1, n, c["dim"])], 1))
            sizes = torch.tensor([[h * patch, w * patch]])
            turns = encoder(sizes, torch.float32)  # [1, tokens, layers, blocks, g, g]
            own = turns[:, :, last:]
            t |= {g + "q": q, g + "k": k, g + "attn_in": y,
                  g + "positions": rope_vit.PositionEncoderBase.forward(encoder, sizes)[0],
                  p + g + "rotations": (own if i else turns)[0], p + g + "q_rot": attention.apply_transforms(q, own),
                  p + g + "k_rot": attention.apply_transforms(k, own), p + g + "attn_out": attention(y, own)}
        model.to_patch_embedding.register_forward_hook(lambda m, a, o: t.__setitem__("model.patch_embed", o))
        t[p + "model.logits_as_released"] = model(x)
        turns = encoder(torch.tensor([c["img_size"]]), torch.float32)
        for i, (layer, _) in enumerate(model.transformer.layers):  # which the released loop overwrites
            layer.register_forward_pre_hook(
                lambda m, a, k, i=i: (a, {"positional_transforms": turns[:, :, i:i + 1]}), with_kwargs=True)
        t[p + "model.logits_per_layer"] = model(x)
    write(out / "liere", t, {
        "fixture": "liere", "reference": "StanfordMIMI/LieRE commit b27b41b, models/rope_vit.py without its assertions",
        "seed": seed, "runtime": RUNTIME, "config": c, "variants": variants, "grids_h_w": grids,
        "tolerance": {"rotations_abs": 1e-4, "q_rot_abs": 2e-4, "others_abs": 2e-4}}, state)


def make_fope(out, source, seed):
    package("olmo", source / "olmo")
    stand_in("omegaconf", "omegaconf.errors", "olmo.util")
    sys.modules["olmo.util"].StrEnum = __import__("enum").StrEnum
    from olmo import model as olmo
    draw = np.random.default_rng(seed)
    heads, size = int(draw.choice([2, 3])), int(draw.choice([16, 24, 32]))
    length = int(draw.choice([48, 64, 80]))
    lengths = [int(draw.integers(9, 20)), length + 8]
    t, variants = {}, {}
    one, zero = torch.ones(1, heads, max(lengths), size // 2), torch.zeros(1, heads, max(lengths), size // 2)
    for n in lengths:
        t |= {f"T{n}.q": images(seed + n, 1, heads, n, size), f"T{n}.k": images(seed + n + 1, 1, heads, n, size)}
    for i, (name, how) in enumerate({
            "default": {}, "wide": {"fourier_dim": 2 * size}, "keepzero": {"fourier_ignore_zero": False},
            "shared_basis": {"fourier_separate_basis": False, "fourier_separate_head": False,
                             "fourier_init_norm_gain": 0.6}}.items()):
        how = {"fourier_dim": 0, "fourier_ignore_zero": True, "fourier_separate_basis": True, "fourier_separate_head": True,
               "fourier_init": "eye_xavier_norm", "fourier_init_norm_gain": 0.3, "fourier_norm": False,
               "rope_theta": 10000, "max_sequence_length": length} | how
        torch.manual_seed(seed + i)
        fope = olmo.FourierEmbedding(olmo.ModelConfig(
            d_model=heads * size, n_heads=heads, fourier=True, rope=True, rope_clamp_floor_freq=True,
            rope_clamp_floor_to_zero=True, init_device="cpu", **how), olmo.BufferCache())
        p = name + "."
        t |= {p + "inv_freq": fope.inv_freq.flatten()} | {p + k: v for k, v in fope.named_parameters()}
        for n in lengths:
            t |= {f"{p}T{n}.{x}_rot": fope(t[f"T{n}.{x}"], n) for x in "qk"}
        n = lengths[0]  # q of ones, then zeros turns to cos and sin
        own = heads if how["fourier_separate_head"] else 1
        turned = fope(torch.cat([one, zero], -1)[:, :, :n], n)[0][:own]
        t |= {f"{p}T{n}.cos": turned[..., : size // 2], f"{p}T{n}.sin": turned[..., size // 2:]}
        variants[name] = how | {"input_dim": fope.input_dim, "output_dim": fope.output_dim}
    write(out / "fope", t, {
        "fixture": "fope", "reference": "TsinghuaC3I/Fourier-Position-Embedding commit bd94b20, olmo/model.py: FourierEmbedding",
        "seed": seed, "runtime": RUNTIME, "heads": heads, "head_dim": size, "variants": variants, "lengths": lengths,
        "tolerance": {"abs": 5e-5}})


def make_as2drope(out, source, seed):
    import timm
    sys.path.insert(0, str(source / "deit"))
    stand_in("pos_embed", "utils", "timm.models.registry", "lightning_utilities", "lightning_utilities.core",
             "lightning_utilities.core.imports")
    import my_models
    draw = np.random.default_rng(seed)
    heads, size, base = int(draw.choice([2, 3])), int(draw.choice([8, 12, 16])), int(draw.choice([3, 4, 5]))
    c = {"dim": heads * size, "num_heads": heads, "head_dim": size, "theta": 10000.0, "base_grid": base, "qkv_bias": True}
    # The constructor of the base has other arguments in today's timm; both set the same fields.
    model = my_models.RAttention.__new__(my_models.RAttention)
    my_models.Attention.__init__(model, c["dim"], num_heads=heads, qkv_bias=True)
    model.enable_rpe, model.rpe_ratio = True, 1.0
    halved(model, seed)
    t, cases = {}, []
    for i, (h, w, cls) in enumerate([(base, base + 2, False), (base + 2, base, False), (base, base, True),
                                     (base + 1, base + 3, False), (base + 2, base + 2, True)]):
        name, n = f"grid{h}x{w}" + "_cls" * cls, h * w + cls
        p, scale = name + ".", base / h
        cis = my_models.precompute_freqs_cis_2d_general(size, h * w, W=w, theta=c["theta"], scale=scale, use_cls=cls)
        q, k, x = (images(seed + 10 * i + j, *s) for j, s in enumerate([(1, n, heads, size)] * 2 + [(1, n, c["dim"])]))
        turned = my_models.apply_rotary_emb(q, k, cis)
        # Frequency 0 rotates by the position itself, x, then y; here it is small enough to be read from the angle.
        small = my_models.precompute_freqs_cis_2d_general(size, h * w, W=w, theta=c["theta"], scale=scale / 64, use_cls=cls)
        cases.append({"name": name, "grid_h_w": [h, w], "class_token": cls, "scale": scale})
        t |= {p + "q": q, p + "k": k, p + "q_rot": turned[0], p + "k_rot": turned[1], p + "attn_in": x,
              p + "attn_out": model(x, cis), p + "cos": cis.real, p + "sin": cis.imag,
              p + "positions_xy": small[:, :2].angle() * 64}
    write(out / "as2drope", t, {
        "fixture": "as2drope", "reference": "Meituan-AutoML/VisionLLaMA commit 33fa561, deit/my_models.py", "seed": seed,
        "runtime": f"{RUNTIME}, timm {timm.__version__}", "config": c, "cases": cases, "tolerance": {"abs": 5e-5}},
        dict(model.state_dict()))


if __name__ == "__main__":
    generate(__doc__, {"liere": [make_liere], "fope": [make_fope], "visionllama": [make_as2drope]})
