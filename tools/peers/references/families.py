# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Generates the reference data families: a small random model of every class and option that checkpoints reads, in float16.

python families.py OUT [--seed N]

A directory for each: what timm or transformers writes, and expected.safetensors with images and logits, or pooled, the
pooler's output of a model without a classifier.
"""


import timm
import torch
import transformers as hf
from safetensors.torch import save_file
from timm.models import save_for_hf

from common import arguments, halved, images, nhwc

TIMM = ("vit_base_patch16_siglip_256 vit_base_patch16_clip_quickgelu_224 vit_so400m_patch16_siglip_gap_256 "
        "vit_betwixt_patch16_reg4_gap_256 vit_so150m2_patch16_reg1_gap_256 aimv2_large_patch14_224 "
        "beit3_base_patch16_224 vit_base_patch16_radio_v3 deit_tiny_distilled_patch16_224 eva02_base_patch14_224 "
        "eva02_tiny_patch14_224 eva02_base_patch16_clip_224 vit_pe_core_tiny_patch16_384 "
        "vit_small_patch16_rope_mixed_ape_224 beit_base_patch16_224 vit_base_patch14_dinov2").split()
ROWS, COLUMNS, PATCH = 2, 3, 4


def transformers_models():
    """A class, its configuration and what is compared."""
    small = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=21,
                 image_size=[ROWS * PATCH, COLUMNS * PATCH], patch_size=PATCH)
    square = {**small, "image_size": 2 * PATCH}
    labels = dict(num_labels=5)
    text = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=9, vocab_size=11,
                max_position_embeddings=4, bos_token_id=1, eos_token_id=2)
    clip = hf.CLIPConfig(vision_config=square, text_config=text, projection_dim=3, **labels)
    siglip = hf.SiglipConfig(vision_config=square, text_config=text, **labels)
    dino = {k: v for k, v in square.items() if k != "intermediate_size"}
    yield hf.DeiTForImageClassification, hf.DeiTConfig(**small, **labels), "logits"
    yield hf.DeiTForImageClassificationWithTeacher, hf.DeiTConfig(**small, **labels), "logits"
    yield hf.BeitForImageClassification, hf.BeitConfig(**square, **labels, use_relative_position_bias=True,
                                                       use_absolute_position_embeddings=True), "logits"
    yield hf.ViTMSNForImageClassification, hf.ViTMSNConfig(**small, **labels), "logits"
    yield hf.CLIPModel, clip, "vision"
    yield hf.CLIPVisionModel, clip.vision_config, "pooled"
    yield hf.CLIPForImageClassification, clip, "logits"
    yield hf.SiglipVisionModel, siglip.vision_config, "pooled"
    yield hf.SiglipForImageClassification, siglip, "logits"
    yield hf.Dinov2WithRegistersForImageClassification, hf.Dinov2WithRegistersConfig(
        **dino, **labels, mlp_ratio=2, num_register_tokens=0, qkv_bias=False), "logits"
    yield hf.DINOv3ViTModel, hf.DINOv3ViTConfig(**small, mlp_bias=False, num_register_tokens=0), "pooled"
    yield hf.IJepaForImageClassification, hf.IJepaConfig(**small, **labels), "logits"
    yield hf.ViTMAEModel, hf.ViTMAEConfig(**square, mask_ratio=0.0), "mae"


def keep(directory, model, x, what, value):
    model.half()
    directory.mkdir(parents=True)
    if hasattr(model, "save_pretrained"):
        model.save_pretrained(directory)
    else:
        save_for_hf(model, directory, safe_serialization=True)
    (directory / "README.md").unlink(missing_ok=True)
    save_file({"images": nhwc(x).contiguous(), what: value.contiguous()}, directory / "expected.safetensors")


def main():
    options = arguments(__doc__)
    out, seed = options.out / "families", options.seed
    with torch.no_grad():
        for name in TIMM:
            model = halved(timm.create_model(name, depth=2, embed_dim=16, num_heads=2, patch_size=PATCH, num_classes=5,
                                             img_size=(ROWS * PATCH, COLUMNS * PATCH)), seed)
            x = images(seed, 2, 3, ROWS * PATCH, COLUMNS * PATCH)
            keep(out / name, model, x, "logits", model(x))
        for kind, config, what in transformers_models():
            model = halved(kind(config), seed)
            size = getattr(config, "vision_config", config).image_size
            x = images(seed, 2, 3, *(size if isinstance(size, (list, tuple)) else (size, size)))
            if what == "mae":  # its patches come in the order of the noise
                value = model(x, noise=torch.arange(4.0).expand(2, -1)).last_hidden_state[:, 0]
            else:
                answer = model.vision_model(x) if what == "vision" else model(x)
                value = answer.logits if what == "logits" else answer.pooler_output
            keep(out / kind.__name__, model, x, "logits" if what == "logits" else "pooled", value)


if __name__ == "__main__":
    main()
