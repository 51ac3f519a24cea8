# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Models that wepe writes, opened by transformers, timm, safetensors and ONNX Runtime."""

import json
import shutil

import onnx
import onnxruntime
import safetensors
import timm
import torch
import transformers

from peers import LIMIT, array, difference, images, nhwc


def size(rng, square=False):
    """The sizes of a small model, in the fields of vit.Config."""
    heads, patch = int(rng.choice([2, 3])), int(rng.choice([2, 3, 4]))
    rows = int(rng.integers(3, 5))
    cols = rows if square else rows + int(rng.integers(1, 3))
    return {"image_rows": rows * patch, "image_cols": cols * patch, "patch_size": patch, "width": heads * 8, "depth": 2,
            "heads": heads, "mlp_dim": heads * 8 * int(rng.choice([2, 3, 4])), "classes": int(rng.integers(2, 9))}


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
        num_heads=c["heads"], mlp_ratio=c["mlp_dim"] / c["width"], num_classes=c["classes"])
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


def run(table, driver, rng, directory, options):
    path = directory / "model"

    def hf(name, config, limit=LIMIT, **more):
        table.run(name, "wepe → transformers", describe(config, more),
                  lambda: to_transformers(driver, rng, path, config, **more), limit)

    def describe(config, more):
        plain = ("image_rows", "image_cols", "patch_size", "width", "depth", "heads", "mlp_dim", "classes")
        return " ".join(f"{k}={v}" for k, v in {**config, **more}.items() if k not in plain) or "default"

    for position in ADDITIVE:
        hf("ViT", size(rng) | {"position": position})
    hf("ViT", size(rng) | {"position": "learned", "qkv_bias": "none"})
    hf("ViT", size(rng) | {"position": "learned", "epsilon": 1e-5})
    for dtype in ("float16", "bfloat16"):
        hf("ViT in 16 bits", size(rng) | {"position": "learned"}, dtype=dtype, limit=2e-2)  # 8 bits of bfloat16
    for extra in ({}, {"swiglu": True}, {"registers": 3}, {"registers": 4, "swiglu": True}, {"qkv_bias": "none"},
                  {"layer_scale": 1.0}):
        hf("DINOv2", size(rng, square=True) | {"position": "learned", "layer_scale": 0.5, "pool": "class+mean"} | extra)
    for extra in ({}, {"swiglu": True}, {"registers": 2}, {"layer_scale": 1.0}):
        table.run("DINOv3", "wepe → transformers", describe(extra, {}), lambda: to_transformers(
            driver, rng, path, size(rng) | {"position": "rope-dinov3", "layer_scale": 0.5, "epsilon": 1e-5,
                                            "registers": 0, "qkv_bias": "qv"} | extra, head=False))
    # Where transformers' class has no head or no rectangles, wepe refuses: what it writes is what was trained.
    for name, extra in {"CLIP": {"pre_norm": True, "activation": "quick_gelu", "epsilon": 1e-5}, "SigLIP": {
            "pool": "map", "activation": "gelu_tanh"}, "DINOv3": {"position": "rope-dinov3", "layer_scale": 0.5,
            "epsilon": 1e-5, "qkv_bias": "qv"}, "BEiT": {"position": "relative-table", "layer_scale": 0.5,
            "pool": "mean", "qkv_bias": "qv"}}.items():
        for square in (True, False):
            hf(f"{name} with a head", size(rng, square) | {"position": "learned"} | extra)
    for position in ADDITIVE:
        table.run("ViT", "wepe → timm", position, lambda: to_timm(driver, rng, path, size(rng) | {"position": position}))
    for extra in ({"pool": "mean"}, {"layer_scale": 0.5}, {"registers": 3}, {"registers": 3, "patch_positions": True},
                  {"qkv_bias": "none"}, {"swiglu": True}, {"swiglu": True, "layer_scale": 0.5}, {"pool": "map"},
                  {"activation": "gelu_tanh"}, {"qk_norm": True}, {"pre_norm": True},
                  {"position": "rope-dinov3", "layer_scale": 0.5, "epsilon": 1e-5, "qkv_bias": "qv"}):
        table.run("ViT", "wepe → timm", describe(extra, {}),
                  lambda: to_timm(driver, rng, path, size(rng) | {"position": "learned"} | extra))
    for dtype in ("float16", "bfloat16"):
        table.run("ViT in 16 bits", "wepe → timm", dtype, lambda: to_timm(
            driver, rng, path, size(rng) | {"position": "learned"}, dtype=dtype), limit=2e-2)
    for position in ("learned", "wepe"):
        table.run("ViT", "wepe → Google's npz in timm", position,
                  lambda: to_jax(driver, rng, path, size(rng, square=True) | {"position": position}))
    positions = driver.ask("positions")["report"]
    for position in positions:
        table.run("ONNX", "wepe → ONNX Runtime", position, lambda: to_onnx(
            driver, rng, path, size(rng, square=True) | {"position": position, "heads": 2, "width": 16}))
    for extra in ({"pool": "mean"}, {"pool": "map"}, {"registers": 2}, {"layer_scale": 0.5}, {"swiglu": True},
                  {"patch_norm": True}, {"qk_norm": True}, {"pre_norm": True}, {"activation": "quick_gelu"}):
        table.run("ONNX", "wepe → ONNX Runtime", describe(extra, {}),
                  lambda: to_onnx(driver, rng, path, size(rng) | {"position": "learned"} | extra))
