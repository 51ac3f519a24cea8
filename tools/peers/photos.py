# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""From image files to probabilities: wepe predict beside transformers' pipeline and timm's transform.

The photographs are the two JPEG files of scikit-learn. Differences are of probabilities, so absolute.
"""

import json
import pathlib

import numpy as np
import onnxruntime
import sklearn.datasets
import timm
import torch
import transformers
from PIL import Image
from timm.models._hub import save_for_hf

from ours import size, write
from peers import disturb, images

LIMIT = 1e-4
# Without libjpeg a decoded pixel is one off here and there; these models, whose weights are noise, magnify that.
JPEG_LIMIT = 5e-3


def photographs(rng, directory):
    """Files of all kinds that the packages read, by name."""
    directory.mkdir()
    shipped = pathlib.Path(sklearn.datasets.__file__).parent / "images"
    whole = [shipped / "china.jpg", shipped / "flower.jpg"]
    files = {f.name: f for f in whole}

    def save(name, image, **how):
        image.save(directory / name, **how)
        files[name] = directory / name

    for i, path in enumerate(whole):
        image = Image.open(path)
        box = [int(rng.integers(0, 200)), int(rng.integers(0, 120)), int(rng.integers(330, 640)), int(rng.integers(260, 427))]
        part = image.crop(box)
        exif = Image.Exif()
        exif[0x0112] = int(rng.integers(2, 9))  # orientation
        save(f"{i} 4:2:0.jpg", part, quality=85)
        save(f"{i} 4:4:4.jpg", part, quality=95, subsampling=0)
        save(f"{i} 4:2:2 progressive.jpg", part, quality=70, subsampling=1, progressive=True)
        save(f"{i} grey.jpg", part.convert("L"))
        save(f"{i} tall.jpg", part.resize((61, 167), Image.Resampling.BICUBIC))
        save(f"{i} rgb.png", part)
        save(f"{i} palette.png", part.convert("P", palette=Image.Palette.ADAPTIVE))
        save(f"{i} grey.png", part.convert("L"))
        save(f"{i} rgba.png", part.convert("RGBA"))
        save(f"{i} small.png", part.resize((23, 17)))
        save(f"{i} webp.webp", part, lossless=True)
    return files


def families(rng, directory, files):
    """Models on disk with their preprocessing, and the probabilities of their own package, [files, classes]."""
    heads, side = 2, 32
    loaded = [Image.open(f).convert("RGB") for f in files.values()]
    common = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=heads, intermediate_size=48, image_size=side,
                  patch_size=8, num_labels=5)
    t = transformers
    processors = {
        "ViT, bilinear squash": dict(size={"height": side, "width": side}, resample=2),
        "ViT, bicubic": dict(size={"height": side, "width": side}, resample=3, image_mean=[.48, .46, .41], image_std=[.27, .26, .28]),
        "ViT, no normalize": dict(size={"height": side, "width": side}, do_normalize=False),
    }
    for name, settings in processors.items():
        model = disturb(t.ViTForImageClassification(t.ViTConfig(**common)), rng)
        yield name, hf_case(directory, model, t.ViTImageProcessorPil(**settings), files)
    model = disturb(t.Dinov2ForImageClassification(t.Dinov2Config(
        **{k: v for k, v in common.items() if k != "intermediate_size"}, mlp_ratio=3)), rng)
    yield "DINOv2, shortest edge and crop", hf_case(directory, model, t.BitImageProcessorPil(
        size={"shortest_edge": 40}, crop_size={"height": side, "width": side}, do_center_crop=True, do_resize=True), files)
    for kind, problem in (("sigmoid", "multi_label_classification"),):
        model = disturb(t.ViTForImageClassification(t.ViTConfig(**common, problem_type=problem)), rng)
        yield f"ViT, {kind}", hf_case(directory, model, t.ViTImageProcessorPil(**processors["ViT, bicubic"]), files)
    for crop, mode, kernel in ((0.9, "center", "bicubic"), (1.0, "squash", "bilinear"), (0.875, "center", "bilinear")):
        args = dict(embed_dim=24, depth=2, num_heads=3, img_size=side, patch_size=8, num_classes=5)
        model = disturb(timm.create_model("vit_tiny_patch16_224", **args, pretrained_cfg_overlay=dict(
            crop_pct=crop, crop_mode=mode, interpolation=kernel, input_size=(3, side, side))), rng)
        path = directory / "timm"
        save_for_hf(model, path, model_args=args, safe_serialization=True)
        transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model), is_training=False)
        x = torch.stack([transform(i) for i in loaded])
        yield f"timm, {mode} {crop} {kernel}", (path, None, model(x).softmax(-1).numpy())


def hf_case(directory, model, processor, files):
    path = directory / "hf"
    model.save_pretrained(path)
    processor.save_pretrained(path)
    return path, list(model.config.id2label.values()), piped(path, files)


def piped(path, files):
    """Probabilities of transformers' pipeline, [files, classes], by class."""
    model = transformers.AutoModelForImageClassification.from_pretrained(path)
    processor = transformers.AutoImageProcessor.from_pretrained(path, backend="pil")
    pipe = transformers.pipeline("image-classification", model=model, image_processor=processor)
    index = {v: k for k, v in model.config.id2label.items()}
    out = np.zeros((len(files), len(index)))
    for row, file in zip(out, files.values()):
        for answer in pipe(str(file), top_k=len(index)):
            row[index[answer["label"]]] = answer["score"]
    return out


def by_class(answer, names, classes):
    names = names or sorted(answer[0], key=lambda n: (len(n), n))
    return np.array([[p[n] for n in names] for p in answer]).reshape(-1, classes)


def run(table, driver, rng, directory, options):
    files = photographs(rng, directory / "photos")
    paths = [str(f) for f in files.values()]

    def compared(name, direction, got, want):
        for i, file in enumerate(files):
            jpeg = file.endswith("jpg")
            table.run(f"{name}: {'JPEG' if jpeg else 'PNG, WebP'}", direction, file,
                      lambda: float(np.abs(got[i] - want[i]).max()), JPEG_LIMIT if jpeg else LIMIT)

    for name, (path, names, want) in families(rng, directory, files):
        try:
            answer = driver.ask("predict", path=str(path), files=paths)["probabilities"]
        except Exception as e:
            def raises(e=e):
                raise e
            table.run(name, "file to probability", name, raises)
            continue
        compared(name, "file to probability", by_class(answer, names, want.shape[1]), want)

    # What wepe exports declares the preprocessing that wepe uses.
    settings = {"do_resize": True, "do_rescale": True, "do_normalize": True, "rescale_factor": 1 / 255, "resample": 3,
                "image_processor_type": "ViTImageProcessor", "image_mean": [0.48, 0.46, 0.41], "image_std": [0.27, 0.26, 0.28]}
    for format in ("hf", "timm", "onnx"):
        c = size(rng) | {"position": "wepe"}
        s = settings | {"size": {"height": c["image_rows"], "width": c["image_cols"]}}
        path = directory / ("exported " + format)
        write(driver, rng, path, c, format, images(rng, 1, 3, c["image_rows"], c["image_cols"]), preprocess=json.dumps(s),
              **({"epsilon": 1e-6} if format == "timm" else {}))
        if format == "onnx":
            other_side_of_onnx(table, path, files, c)
            continue
        answer = driver.ask("predict", path=str(path), files=paths)["probabilities"]
        if format == "hf":
            want = piped(path, files)
        else:
            model = timm.create_model(f"local-dir:{path}", pretrained=True).eval()
            transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model), is_training=False)
            x = torch.stack([transform(Image.open(f).convert("RGB")) for f in files.values()])
            want = model(x).softmax(-1).numpy()
        names = None if format == "timm" else [f"label {i}" for i in range(c["classes"])]
        compared(f"exported {format}", "file to probability", by_class(answer, names, c["classes"]), want)


def other_side_of_onnx(table, path, files, c):
    """An ONNX directory's processor opens in transformers and its file in ONNX Runtime: one image end to end."""
    def case():
        processor = transformers.AutoImageProcessor.from_pretrained(path, backend="pil")
        x = processor(Image.open(next(iter(files.values()))).convert("RGB"), return_tensors="np")["pixel_values"]
        session = onnxruntime.InferenceSession(str(path / "model.onnx"), providers=["CPUExecutionProvider"])
        logits = session.run(None, {session.get_inputs()[0].name: x.astype(np.float32)})[0]
        return 0.0 if logits.shape == (1, c["classes"]) else float("inf")
    table.run("exported onnx", "file to probability", "processor and session open", case)
