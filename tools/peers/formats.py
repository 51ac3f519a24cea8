# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Files that wepe writes, opened by the reference readers of their formats, and damaged files, which both refuse."""

import json
import struct

import numpy as np
import onnx
import safetensors
import torch

from ours import example, size, write
from peers import Refused, array, nhwc


def written(driver, rng, path):
    """A file of each format: safetensors read completely, npz without pickling, ONNX with the checker."""
    for format, position in (("hf", "learned"), ("timm", "learned"), ("jax", "learned"), ("native", "wepe-qkv"), ("onnx", "wepe")):
        c = size(rng, square=True) | {"position": position}
        for dtype in ("float32",) if format == "onnx" else ("float32", "float16", "bfloat16")[:1 if format == "jax" else 3]:
            write(driver, rng, path, c, format, example(rng, c), dtype=dtype, **(
                {"epsilon": 1e-6} if format in ("timm", "jax") else {}))
            files = 0
            for file in path.glob("*.safetensors"):
                with safetensors.safe_open(file, "pt") as f:
                    types = {str(f.get_tensor(k).dtype) for k in f.keys()}
                    assert "torch." + dtype in types and (len(types) == 1 or format == "native"), types
                files += 1
            for file in path.glob("*.npz"):
                with np.load(file, allow_pickle=False) as f:
                    assert all(np.isfinite(f[k]).all() for k in f.files) and len(f.files) > 20
                files += 1
            for file in path.glob("*.onnx"):
                onnx.checker.check_model(str(file), full_check=True)
                files += 1
            assert files == 1, f"{format}: {files} files of weights"
    return 0.0


def checkpoints(driver, rng, path):
    """The state of a training opens as safetensors."""
    driver.ask("save", path=str(path), seed=int(rng.integers(1 << 30)))
    files = list(path.rglob("*.safetensors"))
    assert len(files) >= 2, files
    for file in files:
        with safetensors.safe_open(file, "np") as f:
            assert len(f.keys()) > 20 and all(f.get_tensor(k).size for k in f.keys())
    return 0.0


def damages(raw):
    """A name and the bytes of a damaged safetensors file."""
    size = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8:8 + size]), raw[8 + size:]
    names = [k for k in header if k != "__metadata__"]
    first, last = min(names, key=lambda k: header[k]["data_offsets"]), max(names, key=lambda k: header[k]["data_offsets"])

    def file(change=lambda h: None, text=lambda s: s, data=data):
        h = json.loads(json.dumps(header))
        change(h)
        encoded = text(json.dumps(h)).encode()
        return struct.pack("<Q", len(encoded)) + encoded + data

    def offsets(name, begin, end):
        def change(h):
            h[name]["data_offsets"] = [h[name]["data_offsets"][0] + begin, h[name]["data_offsets"][1] + end]
        return change

    yield "truncated", raw[:-1]
    yield "longer than its header says", raw + b"\0"
    yield "no data", raw[:8 + size]
    yield "empty", b""
    yield "header beyond the file", struct.pack("<Q", len(raw)) + raw[8:]
    yield "header of 2^63 bytes", struct.pack("<Q", 1 << 63) + raw[8:]
    yield "header that is no JSON", file(text=lambda s: s[:-1])
    yield "header that is a list", file(text=lambda s: "[" + s + "]")
    yield "a hole", file(offsets(last, 4, 4), data=data + b"\0" * 4)
    yield "overlapping tensors", file(offsets(last, -4, -4), data=data[:-4])
    yield "offsets beyond the file", file(offsets(last, 0, 4))
    yield "offsets backwards", file(lambda h: h[first].update(data_offsets=h[first]["data_offsets"][::-1]))
    yield "negative offset", file(lambda h: h[first].update(data_offsets=[-4, 4]))
    yield "a shape that is too large", file(lambda h: h[first].update(shape=[1 << 20] + h[first]["shape"]))
    yield "a shape that overflows", file(lambda h: h[first].update(shape=[1 << 40, 1 << 40]))
    yield "an unknown type", file(lambda h: h[first].update(dtype="F33"))
    yield "no type", file(lambda h: h[first].pop("dtype"))
    yield "no shape", file(lambda h: h[first].pop("shape"))
    yield "metadata that is no text", file(lambda h: h.update(__metadata__={"format": 3}))


def damaged(driver, rng, path):
    """wepe refuses the files that safetensors refuses."""
    c = size(rng) | {"position": "learned"}
    x = example(rng, c)
    write(driver, rng, path, c, "hf", x)
    file = path / "model.safetensors"
    for name, raw in damages(file.read_bytes()):
        file.write_bytes(raw)
        try:
            with safetensors.safe_open(file, "pt") as f:
                _ = [f.get_tensor(k) for k in f.keys()]
            raise AssertionError(f"safetensors opens a file with {name}")
        except (safetensors.SafetensorError, ValueError, OSError, RuntimeError):
            pass
        try:
            driver.ask("read", path=str(path), images=array(nhwc(x)))
        except Refused:
            continue
        raise AssertionError(f"wepe reads a file with {name}")
    return 0.0


def pickled(driver, rng, path):
    """An npz with a pickled array is refused by both."""
    path.mkdir(exist_ok=True)
    file = path / "model.npz"
    np.savez(file, **{"cls": np.array([{}], dtype=object)})
    with np.load(file, allow_pickle=False) as f:
        try:
            f["cls"]
            raise AssertionError("numpy reads it")
        except ValueError:
            pass
    try:
        driver.ask("read", path=str(file), images=array(torch.zeros(1, 8, 8, 3)))
    except Refused as e:
        assert "pickle" in str(e) or "object" in str(e) or "dtype" in str(e) or "descr" in str(e), e
        return 0.0
    raise AssertionError("wepe reads it")


def run(table, driver, rng, directory, options):
    for name, case in (("written models", written), ("written checkpoints", checkpoints),
                       ("19 kinds of damaged safetensors", damaged), ("pickled npz", pickled)):
        table.run("formats", "safetensors, numpy, onnx", name, lambda: case(driver, rng, directory / name.replace(" ", "-")))
