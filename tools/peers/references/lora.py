# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Generates the reference data lora: peft 0.21 on transformers' ViT, in float64, a few steps of SGD.

    python lora.py sets --seed 11
"""

import math
import re

import peft
import torch
import transformers
from common import arguments, images, nhwc, redraw, write

OURS = {"attention.q_proj": "attention/query", "attention.k_proj": "attention/key", "attention.v_proj": "attention/value",
        "attention.o_proj": "attention/output", "mlp.fc1": "mlp/hidden", "mlp.fc2": "mlp/output"}


def main():
    args = arguments(__doc__)
    out, rank, steps, rate, classes = args.out / "lora", 3, 5, 0.5, 3
    transformers.set_seed(args.seed)
    config = transformers.ViTConfig(hidden_size=10, num_hidden_layers=2, num_attention_heads=2, intermediate_size=14,
                                    image_size=6, patch_size=2, num_labels=classes)
    model = redraw(transformers.ViTForImageClassification(config), args.seed)
    model.save_pretrained(out)
    model = model.double().train()
    model = peft.get_peft_model(model, peft.LoraConfig(
        r=rank, lora_alpha=rank, target_modules=[n.split(".")[1] for n in OURS], modules_to_save=["classifier"]))
    levels = (images(args.seed, 7, 3, 6, 6).double() * 60 + 128).round().clamp(0, 255)
    labels = torch.arange(7) % classes
    tensors = {"levels": nhwc(levels), "labels": labels.double()}

    def factors(when):
        for name, p in model.named_parameters():
            if "lora_" in name:
                block, layer, factor = re.search(r"layers\.(\d+)\.(.*)\.lora_([AB])", name).groups()
                tensors[f"{when}/block_{int(block):02d}/{OURS[layer]}/weights/{factor.lower()}"] = p.detach().T.clone()

    factors("first")
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=rate, momentum=0.9)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * 0.5 * (1 + math.cos(math.pi * step / steps))
        loss = torch.nn.functional.cross_entropy(model((levels / 255 - 0.5) / 0.5).logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    factors("last")
    tensors["logits"] = model.merge_and_unload().eval()((levels / 255 - 0.5) / 0.5).logits
    write(out, tensors, {"rank": rank, "steps": steps, "learning_rate": rate, "momentum": 0.9, "classes": classes,
                         "reference": f"peft {peft.__version__}, transformers {transformers.__version__}"})


if __name__ == "__main__":
    main()
