# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Generates the reference data dinov2_tiny, dinov2_reg_tiny, dinov3_vit_tiny and dinov3_vit_tiny_swiglu with transformers.

python dino.py OUT [--seed N]

Weights are rounded to float16, so that they need half the space.
"""

import json
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
import transformers as hf
from PIL import Image
from safetensors.torch import load_file
from transformers.models.dinov3_vit import modeling_dinov3_vit as dinov3

from common import RUNTIME, generate, halved, hooks, images, nhwc, write

LABELS = ["tench", "goldfish", "shark", "ray", "rooster"]


def drawn(kind, config, seed):
    config._attn_implementation = "eager"
    return halved(kind(config), seed)


def stages(model, layers, x):
    """The outputs of the first block and of all blocks, by their names in the reference data."""
    block = layers[0]
    of = {"norm1": "norm1_output", "norm2": "norm2_output", "mlp": "mlp_output", "layer_scale1": "layer_scale1_output",
          "attention": "attention_output", **{f"attention.{n}_proj": n + "_output" for n in "qkv"}}
    if hasattr(block.mlp, "gate_proj"):
        of |= {"mlp.gate_proj": "mlp_gate_output", "mlp.up_proj": "mlp_up_output"}
    parts = hooks(block, of)
    t = hooks(layers, {str(i): f"layer_{i}_output" for i in range(len(layers))})
    more = [block.attention.register_forward_hook(lambda m, a, out: parts.__setitem__("attention_weights_out", out[1].detach())),
            block.register_forward_pre_hook(lambda m, a: t.__setitem__("embeddings_output", a[0].detach()))]
    out = model(x)
    for hook in more:
        hook.remove()
    return dict(t) | {"layer_0." + k: v for k, v in parts.items()}, out


@torch.enable_grad()
def gradients(model, directory, loss_of, wanted):
    """Gradients by the names of the file, which are those of the parameters only in part."""
    names = {v.numpy().tobytes(): k for k, v in load_file(directory / "model.safetensors").items()}
    loss_of().backward()
    grads = {names[p.detach().numpy().tobytes()]: p.grad.detach() for p in model.parameters()
             if p.grad is not None and p.detach().numpy().tobytes() in names}
    return {"grad_out." + k: g for k, g in grads.items() if k.endswith(wanted)}


def photograph(draw):
    return draw.integers(0, 256, (int(draw.integers(20, 31)), int(draw.integers(13, 22)), 3), dtype=np.uint8)


def finish(directory, t, model, seed, grid, prefix, image, processor):
    processor.save_pretrained(directory)
    backend = "pil" if "Bit" in type(processor).__name__ else "torchvision"
    reader = hf.AutoImageProcessor.from_pretrained(directory, backend=backend)
    pixels = reader(Image.fromarray(image), return_tensors="pt")["pixel_values"][0]
    t |= {"preprocess.image_u8": image, "preprocess.pixel_values_nhwc_out": pixels.permute(1, 2, 0)}
    write(directory, t, {
        "fixture": directory.name, "reference": f"transformers {hf.__version__}, {type(model).__name__}, eager attention",
        "runtime": RUNTIME, "seed": seed, "prefix_tokens": prefix, "rect_grid_h_w": grid,
        "config": json.loads((directory / "config.json").read_text()),
        "tolerance": {"abs": 5e-5, "grad_abs": 2e-4, "preprocess_abs": 1e-5}})


def make_v2(directory, seed, registers, swiglu):
    draw = np.random.default_rng(seed)
    heads, patch, side = int(draw.choice([2, 3])), 4, int(draw.choice([3, 4]))
    grid = [side - 1, side + 1] if draw.integers(2) else [side + 1, side - 1]
    settings = dict(hidden_size=heads * 6, num_hidden_layers=2, num_attention_heads=heads, image_size=patch * side,
                    patch_size=patch, mlp_ratio=2, use_swiglu_ffn=swiglu, id2label=dict(enumerate(LABELS)),
                    label2id={n: i for i, n in enumerate(LABELS)})
    if registers:
        model = drawn(hf.Dinov2WithRegistersForImageClassification, hf.Dinov2WithRegistersConfig(
            **settings, num_register_tokens=registers), seed)
        body, backbone = model.dinov2_with_registers, hf.Dinov2WithRegistersBackbone
    else:
        model = drawn(hf.Dinov2ForImageClassification, hf.Dinov2Config(**settings), seed)
        body, backbone = model.dinov2, hf.Dinov2Backbone
    model.save_pretrained(directory)
    x, y = images(seed + 1, 1, 3, patch * side, patch * side), images(seed + 2, 2, 3, patch * grid[0], patch * grid[1])
    t = {}
    for p, pixels in (("", x), ("rect.", y)):
        found, out = stages(model, body.encoder.layer, pixels)
        last = body(pixels).last_hidden_state
        found |= {"images_nhwc": nhwc(pixels), "final_norm_output": last, "logits": out.logits}
        if "layer_0.mlp_gate_output" in found:
            found["layer_0.mlp_weights_in_output"] = torch.cat(
                [found.pop("layer_0.mlp_gate_output"), found.pop("layer_0.mlp_up_output")], -1)
        keep = found if not p else ["images_nhwc", "layer_1_output", "final_norm_output", "logits"]
        t |= {p + k: found[k] for k in keep}
    maps = backbone.from_pretrained(directory, out_features=["stage1", "stage2"]).eval()(y).feature_maps
    t |= {f"rect.feature_map_stage{i + 1}_nhwc_out": nhwc(m) for i, m in enumerate(maps)}
    table = body.embeddings.position_embeddings
    tokens = torch.zeros(1, 1 + grid[0] * grid[1], table.shape[-1])
    t["rect.position_embeddings_out"] = body.embeddings.interpolate_pos_encoding(tokens, patch * grid[0], patch * grid[1])
    patches = table[:, 1:].reshape(1, side, side, -1).permute(0, 3, 1, 2)  # as DINOv2's own code resizes it
    resized = F.interpolate(patches, scale_factor=[(n + 0.1) / side for n in grid], mode="bicubic", antialias=bool(registers))
    t["rect.position_embeddings_offset_out"] = torch.cat([table[:, :1], nhwc(resized).flatten(1, 2)], 1)
    upstream = images(seed + 3, 1, len(LABELS))
    t["grad_in.final"] = upstream
    t |= gradients(model, directory, lambda: (model(x).logits * upstream).sum(), (
        "cls_token", "position_embeddings", "layer.0.attention.attention.query.weight", "layer.0.layer_scale2.lambda1",
        "layer.0.mlp.fc1.bias"))
    finish(directory, t, model, seed, grid, 1 + registers, photograph(draw), hf.BitImageProcessorPil(
        size={"shortest_edge": patch * side + 2}, crop_size={"height": patch * side, "width": patch * side},
        do_center_crop=True, do_resize=True, resample=3, image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225]))


def make_v3(directory, seed, gated):
    draw = np.random.default_rng(seed)
    heads, patch, side, registers = int(draw.choice([2, 3])), 4, 3, int(draw.integers(2, 5))
    grid = [2, 4]
    model = drawn(hf.DINOv3ViTModel, hf.DINOv3ViTConfig(
        hidden_size=heads * 4, num_hidden_layers=2, num_attention_heads=heads, intermediate_size=heads * 7,
        image_size=patch * side, patch_size=patch, num_register_tokens=registers, use_gated_mlp=gated,
        hidden_act="silu" if gated else "gelu", rope_theta=100.0), seed)
    model.save_pretrained(directory)
    x, y = images(seed + 1, 1, 3, patch * side, patch * side), images(seed + 2, 2, 3, patch * grid[0], patch * grid[1])
    t, rotate, turned = {}, dinov3.apply_rotary_pos_emb, []
    with mock.patch.object(dinov3, "apply_rotary_pos_emb", lambda *a, **k: turned.append(rotate(*a, **k)) or turned[-1]):
        for p, pixels in (("", x), ("rect.", y)):
            turned.clear()
            found, out = stages(model, model.model.layer, pixels)
            cos, sin = model.rope_embeddings(pixels)
            found |= {"images_nhwc": nhwc(pixels), "final_norm_output": out.last_hidden_state, "rope_cos_out": cos,
                      "rope_sin_out": sin, "layer_0.q_rot": turned[0][0], "layer_0.k_rot": turned[0][1]}
            keep = found if not p else ["images_nhwc", "layer_1_output", "final_norm_output", "rope_cos_out", "rope_sin_out"]
            t |= {p + k: found[k] for k in keep}
    t["pooler_output"] = model(x).pooler_output
    upstream = images(seed + 3, *t["final_norm_output"].shape)
    t["grad_in.final"] = upstream
    t |= gradients(model, directory, lambda: (model(x).last_hidden_state * upstream).sum(), (
        "cls_token", "register_tokens", "layer.0.attention.q_proj.weight", "layer.0.layer_scale1.lambda1",
        "layer.0.mlp.up_proj.bias", "patch_embeddings.bias"))
    finish(directory, t, model, seed, grid, 1 + registers, photograph(draw), hf.DINOv3ViTImageProcessor(
        size={"height": patch * side, "width": patch * side}))


if __name__ == "__main__":
    generate(__doc__, {"": [
        lambda out, seed: make_v2(out / "dinov2_tiny", seed, 0, False),
        lambda out, seed: make_v2(out / "dinov2_reg_tiny", seed + 1, 4, True),
        lambda out, seed: make_v3(out / "dinov3_vit_tiny", seed + 2, False),
        lambda out, seed: make_v3(out / "dinov3_vit_tiny_swiglu", seed + 3, True)]})
