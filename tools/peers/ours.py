# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Models that wepe writes, opened by transformers, timm, ONNX Runtime and the reference readers of their formats, and damaged
files, which both refuse."""

import json
import shutil
import struct

import numpy as np
import onnx
import onnxruntime
import safetensors
import timm
import torch
import transformers

from peers import LIMIT, array, difference, images, nhwc, refused


def size(rng, square=False):
    """The sizes of a small model, in the fields of vit.Config."""
    heads, patch = int(rng.choice([2, 3])), int(rng.choice([2, 3, 4]))
    rows = int(rng.integers(3, 5))
    cols = rows if square else rows + int(rng.integers(1, 3))
    return {"image_rows": rows * patch, "image_cols": cols * patch, "patch_size": patch, "width": heads * 8, "depth": 2,
            "num_heads": heads, "mlp_dim": heads * 8 * int(rng.choice([2, 3, 4])), "classes": int(rng.integers(2, 9))}


def labels(c):
    return [f"label {i}" for i in range(c["classes"])]


def write(driver, rng, path, config, format, images, **more):
    """Lets wepe write a model and returns its response."""
    shutil.rmtree(path, ignore_errors=True)
    answer = driver.ask("write", path=str(path), config=config, format=format, seed=int(rng.integers(1 << 30)),
                        images=array(nhwc(images)), labels=labels(config), **more)
    for file in path.glob("*.safetensors"):
        with safetensors.safe_open(file, "pt") as f:
            assert all(torch.isfinite(f.get_tensor(k).float()).all() for k in f.keys())
    return answer


def example(rng, c, batch=2):
    return images(rng, batch, 3, c["image_rows"], c["image_cols"])


def to_transformers(driver, rng, path, config, head=True, **more):
    x = example(rng, config)
    got = write(driver, rng, path, config, "hf", x, headless=not head, **more)
    auto = transformers.AutoModelForImageClassification if head else transformers.AutoModel
    model, info = auto.from_pretrained(path, output_loading_info=True, dtype=torch.float32)
    problems = {k: v for k, v in info.items() if v and k != "error_msgs"}
    assert not problems and not info.get("error_msgs"), f"loading: {problems} {info.get('error_msgs')}"
    out = model.eval()(x)
    if not head:
        return difference(got["tokens"], out.last_hidden_state)
    assert model.config.id2label == dict(enumerate(labels(config))), model.config.id2label
    return difference(got["logits"], out.logits)


def to_timm(driver, rng, path, config, **more):
    x = example(rng, config)
    got = write(driver, rng, path, config, "timm", x, epsilon=config.get("epsilon", 1e-6), **more)
    model = timm.create_model(f"local-dir:{path}", pretrained=True).eval()
    first = difference(got["logits"], model(x))
    described = json.loads((path / "config.json").read_text())
    again = timm.create_model(described["architecture"], num_classes=config["classes"],
                              checkpoint_path=str(path / "model.safetensors"), **described.get("model_args", {})).eval()
    return max(first, difference(got["logits"], again(x)))


def to_jax(driver, rng, path, config, **more):
    x = example(rng, config)
    got = write(driver, rng, path, config, "jax", x, epsilon=1e-6, **more)
    c = config
    model = timm.models.VisionTransformer(
        img_size=(c["image_rows"], c["image_cols"]), patch_size=c["patch_size"], embed_dim=c["width"], depth=c["depth"],
        num_heads=c["num_heads"], mlp_ratio=c["mlp_dim"] / c["width"], num_classes=c["classes"])
    model.load_pretrained(str(path / "model.npz"))
    return difference(got["logits"], model.eval()(x))


BATCHES = (1, 3, 8)


def to_onnx(driver, rng, path, config, **more):
    """One file, run with several batch sizes."""
    x = example(rng, config, max(BATCHES))
    got = write(driver, rng, path, config, "onnx", x, **more)
    file = str(path / "model.onnx")
    onnx.checker.check_model(file, full_check=True)
    model = onnx.shape_inference.infer_shapes(onnx.load(file), check_type=True, strict_mode=True, data_prop=True)
    shape = [d.dim_param or d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim]
    assert shape == ["batch", config["classes"]], shape
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    assert session.get_inputs()[0].shape == ["batch", 3, config["image_rows"], config["image_cols"]]
    logits = torch.tensor(got["logits"]).reshape(max(BATCHES), -1)
    return max(difference(session.run(["logits"], {"pixel_values": x[:n].numpy()})[0], logits[:n]) for n in BATCHES)


ADDITIVE = ["learned", "wepe", "wepe-sphere", "sincos2d", "hybrid", "factorized", "grid2d"]
DINOV3 = {"position": "rope-dinov3", "layer_scale": 0.5, "epsilon": 1e-5, "qkv_bias": "qv"}
POSITIONS = [{"position": position} for position in ADDITIVE]


def models(table, driver, rng, directory):
    def each(family, direction, opened, configs, square=False, limit=LIMIT, **more):
        for extra in configs:
            def case():
                config = size(rng, square) | {"position": "learned"} | extra
                if family == "DINOv2" and "swiglu" in extra:  # which derives it from a whole mlp_ratio
                    config["mlp_dim"] = -(-2 * config["mlp_dim"] // 24) * 8
                return opened(driver, rng, directory / "model", config, **more)

            options = " ".join(f"{k}={v}" for k, v in (extra | more).items()) or "default"
            table.run(family, "wepe → " + direction, options, case, limit)

    to_hf, timm_, onnx_ = ("transformers", to_transformers), ("timm", to_timm), ("ONNX Runtime", to_onnx)
    each("ViT", *to_hf, POSITIONS + [{"qkv_bias": "none"}, {"epsilon": 1e-5}])
    for dtype in ("float16", "bfloat16"):
        each("ViT in 16 bits", *to_hf, [{}], dtype=dtype, limit=2e-2)  # 8 bits of bfloat16
    each("DINOv2", *to_hf, [{"layer_scale": 0.5, "pool": "class+mean"} | extra for extra in (
        {}, {"swiglu": True}, {"registers": 3}, {"registers": 4, "swiglu": True}, {"qkv_bias": "none"}, {"layer_scale": 1.0})],
        square=True)
    each("DINOv3", *to_hf, [DINOV3 | {"registers": 0} | extra for extra in (
        {}, {"swiglu": True}, {"registers": 2}, {"layer_scale": 1.0})], head=False)
    # Where transformers' class has no head or no rectangles, wepe refuses: what it writes is what was trained.
    for name, extra in {"CLIP": {"pre_norm": True, "activation": "quick_gelu", "epsilon": 1e-5}, "SigLIP": {
            "pool": "map", "activation": "gelu_tanh"}, "DINOv3": DINOV3, "BEiT": {
            "position": "relative-table", "layer_scale": 0.5, "pool": "mean", "qkv_bias": "qv"}}.items():
        for square in (True, False):
            each(f"{name} with a head", "refused", lambda *a: refused(lambda: to_transformers(*a)), [extra], square)
    each("ViT", *timm_, POSITIONS + [
        {"pool": "mean"}, {"layer_scale": 0.5}, {"registers": 3}, {"registers": 3, "patch_positions": True},
        {"qkv_bias": "none"}, {"swiglu": True}, {"swiglu": True, "layer_scale": 0.5}, {"pool": "map"},
        {"activation": "gelu_tanh"}, {"qk_norm": True}, {"pre_norm": True}, DINOV3])
    for dtype in ("float16", "bfloat16"):
        each("ViT in 16 bits", *timm_, [{}], dtype=dtype, limit=2e-2)
    each("ViT", "Google's npz in timm", to_jax, [{"position": "learned"}, {"position": "wepe"}], square=True)
    each("ONNX", *onnx_, [{"position": position, "num_heads": 2, "width": 16} for position in driver.ask("positions")["names"]],
         square=True)
    each("ONNX", *onnx_, [{"pool": "mean"}, {"pool": "map"}, {"registers": 2}, {"layer_scale": 0.5}, {"swiglu": True},
                          {"patch_norm": True}, {"qk_norm": True}, {"pre_norm": True}, {"activation": "quick_gelu"}])


def written(driver, rng, path):
    """A file of each format: safetensors read completely, npz without pickling, ONNX with the checker."""
    for format, position in {"hf": "learned", "timm": "learned", "jax": "learned", "native": "wepe-qkv", "onnx": "wepe"}.items():
        c = size(rng, square=True) | {"position": position}
        for dtype in ("float32",) if format == "onnx" else ("float32", "float16", "bfloat16")[:1 if format == "jax" else 3]:
            write(driver, rng, path, c, format, example(rng, c), dtype=dtype, **(
                {"epsilon": 1e-6} if format in ("timm", "jax") else {}))
            file, = (f for f in path.iterdir() if f.suffix in (".safetensors", ".npz", ".onnx"))
            if file.suffix == ".safetensors":
                with safetensors.safe_open(file, "pt") as f:
                    types = {str(f.get_tensor(k).dtype) for k in f.keys()}
                assert "torch." + dtype in types and (len(types) == 1 or format == "native"), types
            elif file.suffix == ".npz":
                with np.load(file, allow_pickle=False) as f:
                    assert all(np.isfinite(f[k]).all() for k in f.files) and len(f.files) > 20
            else:
                onnx.checker.check_model(str(file), full_check=True)
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
    driver.ask("read", path=str(path), images=array(nhwc(x)))  # undamaged

    def opened():
        with safetensors.safe_open(file, "pt") as f:
            _ = [f.get_tensor(k) for k in f.keys()]

    for name, raw in damages(file.read_bytes()):
        file.write_bytes(raw)
        try:
            refused(opened, safetensors.SafetensorError, ValueError, OSError, RuntimeError)
            refused(lambda: driver.ask("read", path=str(path), images=array(nhwc(x))))
        except AssertionError as e:
            raise AssertionError(f"a file with {name}: {e}")
    return 0.0


def pickled(driver, rng, path):
    """An npz with a pickled array is refused by both."""
    c = size(rng, square=True) | {"position": "learned"}
    x = example(rng, c)
    write(driver, rng, path, c, "jax", x, epsilon=1e-6)
    file, = path.glob("*.npz")
    read = lambda: driver.ask("read", path=str(file), images=array(nhwc(x)), **{
        "import": {"Grid": [c["image_rows"] // c["patch_size"]] * 2}})
    read()  # without one
    with np.load(file) as f:
        arrays = dict(f)
    np.savez(file, **arrays | {"cls": np.array([{}], dtype=object)})
    with np.load(file, allow_pickle=False) as f:
        refused(lambda: f["cls"], ValueError)
    return refused(read)


def run(table, driver, rng, directory, options):
    models(table, driver, rng, directory)
    for name, case in (("written models", written), ("written checkpoints", checkpoints),
                       ("19 kinds of damaged safetensors", damaged), ("pickled npz", pickled)):
        table.run("formats", "safetensors, numpy, onnx", name, lambda: case(driver, rng, directory / name.replace(" ", "-")))
