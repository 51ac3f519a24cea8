# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Shared by the scripts that generate reference data: arguments, released code, random parameters, files."""

import argparse
import contextlib
import io
import json
import pathlib
import sys
import types
from unittest import mock

import numpy as np
import torch
from safetensors.numpy import save_file

RUNTIME = f"torch {torch.__version__}, float32"


def arguments(doc, *paths, required=True):
    """The arguments of a script: OUT, --seed and, by name, the directories of released code."""
    p = argparse.ArgumentParser(description=doc)
    p.add_argument("out", type=pathlib.Path)
    for name in paths:
        p.add_argument("--" + name, type=lambda path: pathlib.Path(path).resolve(), required=required)
    p.add_argument("--seed", type=int, default=1234)
    return p.parse_args()


def generate(doc, makers, required=False):
    """Runs the makers of a script, functions of OUT and the seed, in order; those by the name of an argument also get the
    checkout that it names, from which they can import."""
    a = arguments(doc, *filter(None, makers), required=required)
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):  # released code prints
        for name, makes in makers.items():
            sources = [getattr(a, name.replace("-", "_"))] if name else []
            sys.path[:0] = map(str, sources)
            for make in makes if all(sources) else []:
                make(a.out, *sources, a.seed)


def package(name, folder):
    """A package whose own __init__ does not run."""
    module = types.ModuleType(name)
    module.__path__ = [str(folder)]
    sys.modules[name] = module


def stand_in(*names):
    """Replaces modules that released code imports but does not call."""
    for name in names:
        sys.modules[name] = mock.MagicMock()


def redraw(module, seed):
    """Draws every parameter and running statistic again, so that none is left at a value that hides an error."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        tensors = list(module.named_parameters()) + [(n, b) for n, b in module.named_buffers() if b.is_floating_point()]
        for name, x in tensors:
            noise = torch.randn(x.shape, generator=g)
            if name.endswith("running_var"):
                x.copy_(0.5 + noise.abs())
            elif x.ndim == 0:
                x.copy_(noise)
            elif x.ndim == 1 and name.endswith("weight") or "alpha" in name:
                x.copy_(1 + 0.3 * noise)  # the gain of a norm
            elif "gamma" in name:
                x.copy_(0.8 + 0.2 * noise)
            elif x.ndim == 1:
                x.copy_(0.2 * noise)
            elif "token" in name or "pos" in name:
                x.copy_(0.5 * noise)
            else:
                x.copy_(noise * 1.2 / (x[0].numel() ** 0.5))
    return module


def halved(model, seed):
    """Random weights that float16 represents exactly; buffers, such as the angles of rotations, stay as they are."""
    buffers = {name: x.clone() for name, x in model.named_buffers()}
    redraw(model.eval(), seed).half().float()
    with torch.no_grad():
        for name, x in model.named_buffers():
            x.copy_(buffers[name])
    return model


def hooks(model, names):
    """The outputs of submodules, by name, or by the value of a dictionary of names; of several outputs the first."""
    found, modules = {}, dict(model.named_modules())

    def keep(name):
        return lambda m, args, out: found.__setitem__(name, (out[0] if isinstance(out, tuple) else out).detach())

    for name in names:
        modules[name].register_forward_hook(keep(names[name] if isinstance(names, dict) else name))
    return found


def images(seed, *shape):
    """Images [batch, channels, rows, columns], of a few binary digits so that the file compresses."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return (x * 64).round() / 64


def nhwc(x):
    return x.permute(0, 2, 3, 1)


def write(directory, tensors, meta, model=None, metadata=None):
    """Writes tensors.safetensors, model.safetensors and meta.json."""
    path = pathlib.Path(directory)
    path.mkdir(parents=True, exist_ok=True)

    def save(values, file, metadata=None):
        arrays = {k: np.ascontiguousarray(v.detach().numpy() if torch.is_tensor(v) else v) for k, v in values.items()}
        save_file(arrays, path / file, metadata)

    save(tensors, "tensors.safetensors")
    if model is not None:
        save(model, "model.safetensors", metadata)
    (path / "meta.json").write_text(json.dumps(meta, indent=1))
