# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Generates the reference data timm_vit, hf_vit and jax_vit_npz: one random model, in three formats.

python vit.py OUT [--seed N]

timm computes the stages and checks the .npz by loading it, transformers computes its own, PyTorch the resampled tables.
"""

import json

import numpy as np
import scipy.ndimage
import timm
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file
from timm.layers import resample_abs_pos_embed
from timm.models.vision_transformer import VisionTransformer, _load_weights

from common import RUNTIME, generate, hooks, images, nhwc, redraw, write

KINDS = {"bicubic_aa": ("bicubic", True), "bicubic": ("bicubic", False), "bilinear": ("bilinear", False),
         "bilinear_aa": ("bilinear", True)}
SCALE = 1e-3  # of the embeddings, at which the epsilon of the norms shows


def interpolate(x, size, kind):
    """x [rows, columns, channels]."""
    mode, antialias = KINDS[kind]
    x = F.interpolate(x.permute(2, 0, 1)[None], size=size, mode=mode, antialias=antialias, align_corners=False)
    return x[0].permute(1, 2, 0)


def timm_model(c, act=None):
    return VisionTransformer(
        img_size=c["img_size"], patch_size=c["patch_size"], embed_dim=c["embed_dim"], depth=c["depth"],
        num_heads=c["num_heads"], mlp_ratio=c["mlp_ratio"], num_classes=c["num_classes"],
        norm_layer=lambda width, eps=c["layer_norm_eps"], **kw: torch.nn.LayerNorm(width, eps=eps),
        act_layer=act or torch.nn.GELU).eval()


def stages(model, x):
    """The stages that timm_vit records."""
    first = {"norm1": "norm1", "attn.qkv": "qkv", "attn": "attn", "norm2": "norm2", "mlp.fc1": "mlp_fc1", "mlp.act": "mlp_act",
             "mlp": "mlp"}
    found = hooks(model, {f"blocks.0.{k}": f"block_0.{v}" for k, v in first.items()} | {
        "patch_embed": "patch_embed", "norm": "final_norm", "pos_drop": "tokens_after_pos"} | {
        f"blocks.{i}": f"block_{i}" for i in range(len(model.blocks))})
    return {"logits": model(x)} | found | {"pre_logits": found["final_norm"][:, 0]}


def with_embeddings(state, scale, names=("cls_token", "pos", "patch_embed")):
    return {k: v.clone() * (scale if k.startswith(names) else 1.0) for k, v in state.items()}


def to_npz(state, c):
    """The names and layouts of google-research/vision_transformer."""
    heads, width = c["num_heads"], c["embed_dim"]
    s = {k: v.numpy() for k, v in state.items()}
    out = {"cls": s["cls_token"], "Transformer/posembed_input/pos_embedding": s["pos_embed"],
           "embedding/kernel": s["patch_embed.proj.weight"].transpose(2, 3, 1, 0),
           "embedding/bias": s["patch_embed.proj.bias"],
           "Transformer/encoder_norm/scale": s["norm.weight"], "Transformer/encoder_norm/bias": s["norm.bias"],
           "head/kernel": s["head.weight"].T, "head/bias": s["head.bias"]}
    for i in range(c["depth"]):
        to, at = f"Transformer/encoderblock_{i}/", f"blocks.{i}."
        for ours, theirs in {"LayerNorm_0": "norm1", "LayerNorm_2": "norm2"}.items():
            out[f"{to}{ours}/scale"], out[f"{to}{ours}/bias"] = s[f"{at}{theirs}.weight"], s[f"{at}{theirs}.bias"]
        attention = to + "MultiHeadDotProductAttention_1/"
        for part, w, b in zip(("query", "key", "value"), np.split(s[at + "attn.qkv.weight"], 3),
                              np.split(s[at + "attn.qkv.bias"], 3)):
            out[f"{attention}{part}/kernel"] = w.T.reshape(width, heads, -1)
            out[f"{attention}{part}/bias"] = b.reshape(heads, -1)
        out[attention + "out/kernel"] = s[at + "attn.proj.weight"].T.reshape(heads, -1, width)
        out[attention + "out/bias"] = s[at + "attn.proj.bias"]
        for j, layer in enumerate(("fc1", "fc2")):
            out[f"{to}MlpBlock_3/Dense_{j}/kernel"] = s[f"{at}mlp.{layer}.weight"].T
            out[f"{to}MlpBlock_3/Dense_{j}/bias"] = s[f"{at}mlp.{layer}.bias"]
    return {k: np.ascontiguousarray(v) for k, v in out.items()}


def make_timm(out, c, other, seed):
    model = redraw(timm_model(c), seed)
    state = model.state_dict()
    x, y = images(seed + 1, 2, 3, *c["img_size"]), images(seed + 2, 2, 3, *other)
    grid = [n // c["patch_size"] for n in other]
    t = {"images_nhwc": nhwc(x), "images_nonsquare_nhwc": nhwc(y), **stages(model, x)}
    probe = timm_model(c)
    probe.load_state_dict(with_embeddings(state, SCALE))
    t["eps_probe.logits"] = probe(x)
    for kind, (mode, antialias) in KINDS.items():
        table = resample_abs_pos_embed(state["pos_embed"], grid, num_prefix_tokens=1, interpolation=mode, antialias=antialias)
        resized = timm_model({**c, "img_size": other})
        resized.load_state_dict({**state, "pos_embed": table})
        t["nonsquare.pos_embed_" + kind], t["nonsquare.logits_" + kind] = table, resized(y)
    cases = [((4, 4), (6, 6)), ((7, 5), (12, 9)), ((4, 4), (4, 6)), ((7, 5), (3, 4))]
    for a, b in cases:
        grid = images(seed + 3, *a, 3)
        t["resample.input_%dx%d" % a] = grid
        for kind in KINDS:
            t["resample.%dx%d_to_%dx%d.%s" % (*a, *b, kind)] = interpolate(grid, b, kind)
    meta = {"fixture": "timm_vit", "reference": f"timm {timm.__version__} VisionTransformer", "config": c,
            "runtime": RUNTIME, "seed": seed, "eps_probe_scale": SCALE,
            "nonsquare_img_size": other, "resamples": cases, "tolerance": {"abs": 5e-5, "resample_abs": 1e-5}}
    write(out / "timm_vit", t, meta, state)
    return model


def make_jax(out, c, other, seed, model):
    x, y = images(seed + 1, 2, 3, *c["img_size"]), images(seed + 2, 2, 3, *other)
    (out / "jax_vit_npz").mkdir(exist_ok=True)
    file = out / "jax_vit_npz" / "model.npz"
    np.savez(file, **to_npz(model.state_dict(), c))

    def loaded(act=None, size=c["img_size"]):
        m = timm_model({**c, "img_size": size}, act)
        _load_weights(m, str(file))
        return m

    again = loaded()
    assert all(torch.equal(v, again.state_dict()[k]) for k, v in model.state_dict().items()), "timm loads the file otherwise"
    tanh = lambda: torch.nn.GELU(approximate="tanh")
    t = {"images_nhwc": nhwc(x), "images_nonsquare_nhwc": nhwc(y), "logits_exact_gelu": again(x),
         "logits_tanh_gelu": loaded(tanh)(x), "nonsquare.logits_exact_gelu": loaded(size=other)(y),
         "nonsquare.logits_tanh_gelu": loaded(tanh, other)(y), "nonsquare.pos_embed_bilinear": loaded(size=other).pos_embed}
    # Google's checkpoint.py resizes square grids by scipy's zoom of order 1.
    table = model.pos_embed.detach().numpy()
    side, to = c["img_size"][0] // c["patch_size"], 6
    grid = scipy.ndimage.zoom(table[0, 1:].reshape(side, side, -1), (to / side, to / side, 1), order=1)
    t[f"google_zoom.pos_embed_{to}x{to}"] = np.concatenate([table[:, :1], grid.reshape(1, to * to, -1)], 1)
    write(out / "jax_vit_npz", t, {
        "fixture": "jax_vit_npz", "reference": f"timm {timm.__version__} _load_weights; scipy {scipy.__version__} zoom",
        "same_weights_as": "timm_vit", "config": c, "nonsquare_img_size": other, "seed": seed, "tolerance": {"abs": 5e-5}})


def make_hf(out, c, other, seed, model):
    x, y = images(seed + 1, 2, 3, *c["img_size"]), images(seed + 2, 2, 3, *other)
    names = [f"kind {i}" for i in range(c["num_classes"])]
    config = transformers.ViTConfig(
        hidden_size=c["embed_dim"], num_hidden_layers=c["depth"], num_attention_heads=c["num_heads"],
        intermediate_size=int(c["embed_dim"] * c["mlp_ratio"]), image_size=c["img_size"][0], patch_size=c["patch_size"],
        encoder_stride=c["patch_size"], id2label=dict(enumerate(names)), label2id={n: i for i, n in enumerate(names)},
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    config._attn_implementation = "eager"
    hf = transformers.ViTForImageClassification(config).eval()
    directory = out / "hf_vit"
    hf.save_pretrained(directory)
    legacy = load_file(directory / "model.safetensors")
    s = model.state_dict()
    e = "vit.embeddings."
    new = {e + "cls_token": s["cls_token"], e + "position_embeddings": s["pos_embed"],
           e + "patch_embeddings.projection.weight": s["patch_embed.proj.weight"],
           e + "patch_embeddings.projection.bias": s["patch_embed.proj.bias"],
           "vit.layernorm.weight": s["norm.weight"], "vit.layernorm.bias": s["norm.bias"],
           "classifier.weight": s["head.weight"], "classifier.bias": s["head.bias"]}
    for i in range(c["depth"]):
        to, at = f"vit.encoder.layer.{i}.", f"blocks.{i}."
        for kind in ("weight", "bias"):
            for part, w in zip(("query", "key", "value"), s[f"{at}attn.qkv.{kind}"].chunk(3)):
                new[f"{to}attention.attention.{part}.{kind}"] = w.clone()
            for theirs, timms in {"attention.output.dense": "attn.proj", "layernorm_before": "norm1",
                                  "layernorm_after": "norm2", "intermediate.dense": "mlp.fc1",
                                  "output.dense": "mlp.fc2"}.items():
                new[f"{to}{theirs}.{kind}"] = s[f"{at}{timms}.{kind}"]
    assert set(new) == set(legacy), set(new) ^ set(legacy)

    def run(scale=1.0, x=x, **kw):
        save_file(with_embeddings(new, scale, "vit.embeddings."), directory / "model.safetensors", {"format": "pt"})
        m = transformers.ViTForImageClassification.from_pretrained(directory, attn_implementation="eager").eval()
        return m, m(x, output_hidden_states=True, **kw)

    t = {"images_nhwc": nhwc(x), "images_nonsquare_nhwc": nhwc(y), "eps_probe.logits": run(SCALE)[1].logits}
    m, got = run()
    t |= {f"hidden_states_{i}": h for i, h in enumerate(got.hidden_states)}
    t |= {"last_hidden_state": m.vit(x).last_hidden_state, "logits": got.logits, "probabilities": got.logits.softmax(-1)}
    t["nonsquare.logits"] = run(x=y, interpolate_pos_encoding=True)[1].logits
    t["nonsquare.pos_embed_bicubic"] = m.vit.embeddings.interpolate_pos_encoding(
        torch.zeros(1, 1 + (other[0] // c["patch_size"]) * (other[1] // c["patch_size"]), c["embed_dim"]), *other)
    size = {"height": c["img_size"][0], "width": c["img_size"][1]}
    settings = {"do_normalize": True, "do_rescale": True, "do_resize": True, "image_mean": [0.5, 0.5, 0.5],
                "image_std": [0.5, 0.5, 0.5], "image_processor_type": "ViTImageProcessor", "resample": 2,
                "rescale_factor": 1 / 255, "size": size}
    (directory / "preprocessor_config.json").write_text(json.dumps(settings, indent=2))
    write(directory, t, {
        "fixture": "hf_vit", "reference": f"transformers {transformers.__version__} ViTForImageClassification, eager",
        "same_weights_as": "timm_vit", "eps_probe_scale": SCALE, "nonsquare_img_size": other, "seed": seed,
        "config": json.loads((directory / "config.json").read_text()), "tolerance": {"abs": 5e-5}})


def make(out, seed):
    out.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(seed)
    patch, side, heads = int(draw.choice([2, 3, 4])), int(draw.integers(3, 6)), int(draw.integers(2, 4))
    c = {"img_size": [side * patch] * 2, "patch_size": patch, "embed_dim": heads * int(draw.choice([4, 8, 12])),
         "depth": int(draw.integers(2, 4)), "num_heads": heads, "mlp_ratio": float(draw.choice([2, 3, 4])),
         "num_classes": int(draw.integers(3, 11)), "layer_norm_eps": 1e-6}
    other = [patch * side, patch * (side + 2)]
    model = make_timm(out, c, other, seed)
    make_jax(out, c, other, seed, model)
    make_hf(out, c, other, seed, model)


if __name__ == "__main__":
    generate(__doc__, {"": [make]})
