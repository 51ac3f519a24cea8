# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Opens models that this library wrote with timm and compares their logits with those of the models they came from.

    python tools/peers/read_timm.py MADE WRITTEN

MADE is what models_timm.py made, WRITTEN what `go run ./tools/peers -export WRITTEN MADE` wrote. The exit status is 1 if
a model does not open or differs by more than 1e-4 of its largest logit.
"""
import json
import pathlib
import sys

import timm
import torch

made, written = map(pathlib.Path, sys.argv[1:])
torch.set_num_threads(1)
wrong = 0
directories = sorted(written.iterdir())
for directory in directories:
    expected = json.loads((made / directory.name / "expected.json").read_text())
    images = torch.tensor(expected["images"]).reshape(expected["shape"]).permute(0, 3, 1, 2)
    try:
        model = timm.create_model(f"local-dir:{directory}", pretrained=True).eval()
        with torch.no_grad():
            logits = model(images).flatten()
        want = torch.tensor(expected["logits"])
        difference = ((logits - want).abs().max() / want.abs().max()).item()
        verdict = "right" if difference <= 1e-4 else "wrong"
    except Exception as error:  # whatever timm says of a file
        verdict, difference = "wrong", f"{type(error).__name__}: {str(error)[:300]}"
    wrong += verdict == "wrong"
    print(f"{verdict:8} {directory.name:44} {difference}")
print(f"right {len(directories) - wrong}, wrong {wrong}, of {len(directories)}")
sys.exit(wrong > 0)
