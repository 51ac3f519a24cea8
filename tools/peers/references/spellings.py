# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Writes checkpoints/testdata/transformers_names.json: by class, how transformers 5 names tensors that it writes in files.

    python tools/peers/references/spellings.py > checkpoints/testdata/transformers_names.json

Each name in a file of save_pretrained has one name in memory, or two, of its halves: those of a state_dict, and of files
with save_original_format=False. Checked with transformers 5.24.0.
"""

import json
import tempfile

import torch
import transformers as hf
from safetensors.torch import load_file

KINDS = ("ViT:ForImageClassification ViTMSN:ForImageClassification ViTMAE:Model IJepa:ForImageClassification "
         "DeiT:ForImageClassification DeiT:ForImageClassificationWithTeacher Beit:ForImageClassification "
         "Dinov2:ForImageClassification Dinov2:ForImageClassification:swiglu Dinov2WithRegisters:ForImageClassification DINOv3ViT:Model").split()


def spelled(kind):
    family, suffix, *gated = kind.split(":")
    config = getattr(hf, family + "Config")(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, image_size=8, patch_size=4, num_labels=3,
        decoder_hidden_size=8, decoder_num_hidden_layers=1, decoder_num_attention_heads=1,
        use_relative_position_bias=True, use_swiglu_ffn=bool(gated), layer_scale_init_value=0.1)
    model = getattr(hf, family + suffix)(config)
    for value in model.parameters():
        value.data.normal_()
    with tempfile.TemporaryDirectory() as directory:
        model.save_pretrained(directory)
        files = load_file(directory + "/model.safetensors")
    memory, names = model.state_dict(), {}
    for name, value in files.items():
        parts = [value] if any(torch.equal(value, x) for x in memory.values()) else value.chunk(2)
        new = [k for part in parts for k, x in memory.items() if torch.equal(part, x)]
        assert len(new) == len(parts), (kind, name, new)
        if new != [name]:
            names[name] = " ".join(new)
    return names


def main():
    torch.manual_seed(0)
    lines = (f"{json.dumps(kind.replace(':', ''))}:{json.dumps(spelled(kind), indent=1)}" for kind in KINDS)
    print("{" + ",\n".join(lines) + "}")


if __name__ == "__main__":
    main()
