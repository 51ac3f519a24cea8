# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Models that timm and transformers write, read by wepe, and written again for timm."""

import json
import shutil

import numpy as np
import timm
import torch
import transformers
from timm.models._hub import save_for_hf

from peers import array, difference, disturb, images, nhwc, refused

from vit import to_npz

SMALL = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=40, image_size=12, patch_size=4)
MODULES = ["vision_transformer", "eva", "deit", "beit"]
# At least one architecture of each kind, whatever --sample draws.
FIXED = """vit_base_patch16_224 vit_base_patch16_gap_224 vit_base_patch32_clip_224 vit_base_patch32_clip_quickgelu_224
vit_base_patch16_siglip_224 vit_base_patch16_siglip_gap_224 vit_small_patch14_dinov2 vit_small_patch14_reg4_dinov2
vit_medium_patch16_reg4_gap_256 deit_tiny_patch16_224 deit_tiny_distilled_patch16_224 deit3_small_patch16_224
beit_base_patch16_224 beitv2_base_patch16_224 eva02_tiny_patch14_224 eva_giant_patch14_224 vit_small_patch16_dinov3
vit_small_plus_patch16_dinov3 vit_small_patch16_rope_224 vit_small_patch16_rope_mixed_224 aimv2_large_patch14_224
vit_giantopt_patch16_siglip_gap_256""".split()


def architectures(rng, options):
    every = [name for module in MODULES for name in timm.list_models(module=module)]
    if options.all:
        return every
    rest = [name for name in every if name not in FIXED]
    drawn = rng.choice(rest, min(options.sample, len(rest)), replace=False)
    return [n for n in FIXED if n in every] + [str(n) for n in drawn]


def created(name, args):
    try:
        return timm.create_model(name, depth=2, **args)
    except Exception:  # architectures with lists of an entry for each block
        return timm.create_model(name, **args)


def timm_case(driver, rng, directory, name):
    """timm writes the architecture at a small size, with or without what the user passed; wepe reads it and writes it
    again for timm."""
    with torch.device("meta"):
        full = timm.create_model(name)
    heads = next(m.num_heads for m in full.blocks.modules() if hasattr(m, "num_heads"))
    rows, cols = (full.patch_embed.patch_size[0] * int(n) for n in rng.integers(2, 5, 2))
    args = {"embed_dim": heads * 8, "num_classes": int(rng.integers(2, 12)), "img_size": [rows, cols]}
    model = disturb(created(name, args), rng)
    path, again = directory / name, directory / "again"
    shutil.rmtree(again, ignore_errors=True)
    passed = {"model_args": args | {"depth": len(model.blocks)}} if rng.integers(2) else {}
    save_for_hf(model, path, safe_serialization=True, **passed)
    x = images(rng, 2, 3, rows, cols)
    try:
        got = driver.ask("read", path=str(path), images=array(nhwc(x)), export=str(again))
        opened = timm.create_model(f"local-dir:{again}", pretrained=True).eval()
        return max(difference(got["logits"], model(x)), difference(opened(x), model(x)))
    finally:
        shutil.rmtree(path)


def timm_options(rng):
    """Options of one architecture, as published models set them."""
    average, classless = dict(global_pool="avg"), dict(class_token=False)
    return {
        "layer scale": dict(init_values=0.1), "no bias of q, k, v": dict(qkv_bias=False), "registers": dict(reg_tokens=3),
        "registers, no_embed_class": dict(reg_tokens=3, no_embed_class=True), "average pool": average,
        "average pool without fc_norm": average | dict(fc_norm=False), "average pool, no class token": average | classless,
        "map pool": dict(global_pool="map") | classless, "pre_norm": dict(pre_norm=True), "qk_norm": dict(qk_norm=True),
        "tanh GELU": dict(act_layer="gelu_tanh"), "quick GELU": dict(act_layer="quick_gelu"),
        "heads and MLP": dict(num_heads=int(rng.choice([2, 4])), mlp_ratio=float(rng.choice([2, 2.5, 3]))),
        "no class positions": dict(no_embed_class=True)}.items()


def timm_with(driver, rng, directory, args):
    args = {"embed_dim": 24, "depth": 2, "img_size": [12, 20], "patch_size": 4, "num_classes": 5, **args}
    model = disturb(timm.create_model("vit_tiny_patch16_224", **args), rng)
    save_for_hf(model, directory / "options", model_args=args, safe_serialization=True)
    x = images(rng, 2, 3, 12, 20)
    got = driver.ask("read", path=str(directory / "options"), images=array(nhwc(x)))
    return difference(got["logits"], model(x))


def transformers_models(rng):
    """A name, a class and its configuration."""
    t = transformers
    patch, heads = int(rng.choice([2, 3, 4])), int(rng.choice([2, 3]))
    rows, cols = patch * int(rng.integers(3, 5)), patch * int(rng.integers(3, 6))
    side = patch * 4
    base = dict(hidden_size=heads * 8, num_hidden_layers=2, num_attention_heads=heads, image_size=side, patch_size=patch,
                num_labels=int(rng.integers(2, 7)))
    vit = base | dict(intermediate_size=heads * 20)
    yield "ViT", t.ViTForImageClassification, t.ViTConfig(**vit)
    yield "ViT, rows other than columns", t.ViTForImageClassification, t.ViTConfig(**vit | dict(image_size=[rows, cols]))
    yield "ViT, patch_size a list", t.ViTForImageClassification, t.ViTConfig(**vit | dict(patch_size=[patch, patch]))
    yield "ViT, no bias of q, k, v", t.ViTForImageClassification, t.ViTConfig(**vit, qkv_bias=False)
    yield "ViT, tanh GELU, epsilon", t.ViTForImageClassification, t.ViTConfig(
        **vit, hidden_act="gelu_pytorch_tanh", layer_norm_eps=1e-5)
    yield "ViT, quick GELU", t.ViTForImageClassification, t.ViTConfig(**vit, hidden_act="quick_gelu")
    yield "ViT without a head", t.ViTModel, t.ViTConfig(**vit)
    yield "DeiT", t.DeiTForImageClassification, t.DeiTConfig(**vit)
    yield "DeiT with teacher", t.DeiTForImageClassificationWithTeacher, t.DeiTConfig(**vit)
    dino = base | dict(mlp_ratio=int(rng.choice([2, 3, 4])))
    for name, extra in {"": {}, ", SwiGLU": dict(use_swiglu_ffn=True), ", no bias of q, k, v": dict(qkv_bias=False)}.items():
        yield "DINOv2" + name, t.Dinov2ForImageClassification, t.Dinov2Config(**dino, **extra)
    yield "DINOv2 without a head", t.Dinov2Model, t.Dinov2Config(**dino)
    for n in (0, int(rng.integers(1, 5))):
        yield f"DINOv2, registers {min(n, 1)}", t.Dinov2WithRegistersForImageClassification, t.Dinov2WithRegistersConfig(
            **dino, num_register_tokens=n)
    dino3 = base | dict(intermediate_size=heads * 16, num_register_tokens=int(rng.integers(1, 5)))
    for name, extra in {"": {}, ", gated MLP": dict(use_gated_mlp=True, hidden_act="silu"), ", no registers":
                        dict(num_register_tokens=0), ", no mlp_bias": dict(mlp_bias=False), ", key_bias":
                        dict(key_bias=True), ", rope_theta": dict(rope_theta=37.0)}.items():
        yield "DINOv3" + name, t.DINOv3ViTModel, t.DINOv3ViTConfig(**dino3 | extra)
    siglip = dict(hidden_size=heads * 8, num_hidden_layers=2, num_attention_heads=heads, intermediate_size=heads * 20,
                  image_size=side, patch_size=patch)
    yield "SigLIP classifier", t.SiglipForImageClassification, t.SiglipConfig(
        vision_config=siglip, text_config=dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                                               intermediate_size=16, vocab_size=64), num_labels=3)
    yield "SigLIP tower", t.SiglipVisionModel, t.SiglipVisionConfig(**siglip)
    clip_text = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=64)
    yield "CLIP tower", t.CLIPVisionModel, t.CLIPVisionConfig(**siglip)
    yield "CLIP tower, GELU", t.CLIPVisionModel, t.CLIPVisionConfig(**siglip, hidden_act="gelu")
    yield "CLIP classifier", t.CLIPForImageClassification, t.CLIPConfig(
        vision_config=siglip, text_config=clip_text, num_labels=3)
    yield "CLIP whole", t.CLIPModel, t.CLIPConfig(vision_config=siglip, text_config=clip_text)
    yield "BEiT, absolute positions", t.BeitForImageClassification, t.BeitConfig(
        **vit, use_absolute_position_embeddings=True, layer_scale_init_value=0.1)
    yield "BEiT, relative positions", t.BeitForImageClassification, t.BeitConfig(
        **vit, use_relative_position_bias=True, layer_scale_init_value=0.1)
    yield SWAPPED, t.BeitForImageClassification, t.BeitConfig(
        **vit | dict(image_size=[rows, rows + patch]), use_relative_position_bias=True, layer_scale_init_value=0.1)
    yield "ViT-MSN", t.ViTMSNForImageClassification, t.ViTMSNConfig(**vit)
    yield "ViT-MAE", t.ViTMAEModel, t.ViTMAEConfig(**vit, mask_ratio=0.0)
    yield "I-JEPA", t.IJepaForImageClassification, t.IJepaConfig(**vit)


SWAPPED = "BEiT, relative positions, rows other than columns"  # which transformers exchanges, and wepe refuses


def output(model, x):
    """The outputs of the model that wepe also returns, by their names in its response."""
    config = model.config
    if hasattr(model, "vision_model") and not hasattr(model, "classifier"):
        out = model.vision_model(x)
    elif isinstance(model, transformers.ViTMAEModel):  # its patches come in the order of the noise
        patches = x.shape[2] // config.patch_size * (x.shape[3] // config.patch_size)
        out = model(x, noise=torch.arange(patches).float()[None].expand(len(x), -1))
    else:
        out = model(x)
    if getattr(out, "logits", None) is not None:
        return "logits", out.logits
    if "clip" in config.model_type:  # whose last norm is for the pooled token alone
        return "pooled", out.pooler_output
    return "tokens", out.last_hidden_state


def reopened(path):
    """The files that wepe wrote, opened by the class that its config.json names; nothing may be missing or left over."""
    kind = getattr(transformers, json.loads((path / "config.json").read_text())["architectures"][0])
    model, info = kind.from_pretrained(path, output_loading_info=True, dtype=torch.float32, attn_implementation="eager")
    info["missing_keys"] = [k for k in info["missing_keys"] if not k.startswith("pooler.")]  # behind the tokens that are compared
    assert not any(info.values()), f"{kind.__name__}: {info}"
    return model.eval()


def transformers_case(driver, rng, directory, kind, config, dtype=torch.float32):
    """transformers writes the model; wepe reads it and writes it again for transformers."""
    config._attn_implementation = "eager"
    model = disturb(kind(config), rng).to(dtype)
    path, again = directory / "model", directory / "again"
    for old in (path, again):
        shutil.rmtree(old, ignore_errors=True)
    model.save_pretrained(path)
    side = getattr(config, "vision_config", config).image_size
    x = images(rng, 2, 3, *(side if isinstance(side, (list, tuple)) else [side] * 2))
    name, want = output(model.float(), x)
    if kind is transformers.Dinov2Model:  # a new head reads the class token alone, as none of transformers' does
        return difference(driver.ask("read", path=str(path), images=array(nhwc(x)))[name], want)
    got = driver.ask("read", path=str(path), images=array(nhwc(x)), export=str(again))
    opened = reopened(again)
    other, value = output(opened, x)
    if other != name:  # it was given a head
        value = output(opened.base_model, x)[1]
    return max(difference(got[name], want), difference(value, want))


def headless(driver, rng, directory):
    """A model without a head predicts nothing, from transformers and from timm."""
    path = directory / "headless"
    transformers.ViTModel(transformers.ViTConfig(**SMALL)).save_pretrained(path)
    args = dict(img_size=12, patch_size=4, embed_dim=16, depth=2, num_heads=2, num_classes=0)
    save_for_hf(timm.create_model("vit_tiny_patch16_224", **args), directory / "bare", model_args=args, safe_serialization=True)
    return max(refused(lambda: driver.ask("predict", path=str(p), files=[])) for p in (path, directory / "bare"))


def npz_case(driver, rng, directory):
    heads, side = int(rng.choice([2, 3])), int(rng.integers(3, 6))
    c = dict(img_size=side * 4, patch_size=4, embed_dim=heads * 8, depth=2, num_heads=heads, num_classes=5)
    model = disturb(timm.models.VisionTransformer(**c), rng)
    np.savez(directory / "model.npz", **to_npz(model.state_dict(), c))
    x = images(rng, 2, 3, side * 4, side * 4)
    got = driver.ask("read", path=str(directory / "model.npz"), images=array(nhwc(x)),
                     **{"import": {"Grid": [side, side]}})
    return difference(got["logits"], model(x))


def run(table, driver, rng, directory, options):
    for name in architectures(rng, options):
        module = timm.models.model_entrypoint(name).__module__.split(".")[-1]
        table.run(f"timm {module}", "timm → wepe → timm", name, lambda: timm_case(driver, rng, directory, name),
                  may_refuse=name not in FIXED)
    for name, args in timm_options(rng):
        table.run("timm options", "timm → wepe", name, lambda: timm_with(driver, rng, directory, args))
    for name, kind, config in transformers_models(rng):
        case = lambda: transformers_case(driver, rng, directory, kind, config)
        table.run(f"transformers {name.split(',')[0].split(' ')[0]}", "transformers → wepe → transformers", name,
                  lambda: refused(case) if name == SWAPPED else case())
    for dtype in (torch.float16, torch.bfloat16):
        table.run("transformers ViT", "transformers → wepe → transformers", f"ViT, {dtype}", lambda: transformers_case(
            driver, rng, directory, transformers.ViTForImageClassification, transformers.ViTConfig(**SMALL, num_labels=4), dtype))
    table.run("headless models", "predict", "transformers and timm", lambda: headless(driver, rng, directory))
    table.run("Google npz", "timm's layout → wepe", "", lambda: npz_case(driver, rng, directory))
