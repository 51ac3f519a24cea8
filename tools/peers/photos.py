# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""From image files to probabilities: wepe predict, compared with transformers' pipeline and timm's transform.

The photographs are the two JPEG files of scikit-learn. Differences are absolute, because they are of probabilities.
"""

import base64
import json
import pathlib

import numpy as np
import onnxruntime
import sklearn.datasets
import timm
import torch
import transformers
from PIL import Image, ImageOps
from timm.models._hub import save_for_hf

from ours import labels, size, write
from peers import disturb, images

# Go's JPEG decoder rounds differently from libjpeg: levels of 255 at the worst pixel, and in the mean of an image
# (data/testdata/pillow). Probabilities are compared for the same pixels, which their own package gets as an image.
WORST, MEAN = 4, 0.06


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
        save(f"{i} 4:2:0.jpg", part, quality=85)
        save(f"{i} 4:4:4.jpg", part, quality=95, subsampling=0)
        save(f"{i} 4:2:2 progressive.jpg", part, quality=70, subsampling=1, progressive=True)
        save(f"{i} grey.jpg", part.convert("L"))
        save(f"{i} tall.jpg", part.resize((61, 167), Image.Resampling.BICUBIC))
        exif = Image.Exif()
        exif[0x0112] = int(rng.integers(2, 9))  # orientation
        save(f"{i} rgb.png", part, exif=exif)
        save(f"{i} palette.png", part.convert("P", palette=Image.Palette.ADAPTIVE))
        save(f"{i} grey.png", part.convert("L"))
        save(f"{i} rgba.png", part.convert("RGBA"))
        save(f"{i} small.png", part.resize((23, 17)))
        save(f"{i} webp.webp", part, lossless=True)
    return files


def decoded(file):
    return ImageOps.exif_transpose(Image.open(file)).convert("RGB")


def by_wepe(driver, file):
    """The pixels that wepe decodes."""
    values = driver.ask("decode", path=str(file))["values"]
    return Image.frombytes("RGB", values["size"], base64.b64decode(values["pixels"]))


def decoders(driver, file):
    """The difference between pixels, in units of the limits."""
    apart = np.abs(np.asarray(by_wepe(driver, file)).astype(int) - np.asarray(decoded(file)))
    return max(apart.max() / WORST, apart.mean() / MEAN)


def families(rng, directory):
    """A name, a model on disk with its preprocessing, the names of its classes, and what its own package returns:
    probabilities [images, classes] of images or files."""
    heads, side = 2, 32
    common = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=heads, intermediate_size=48, image_size=side,
                  patch_size=8, num_labels=5)
    t = transformers
    square = {"height": side, "width": side}
    bicubic = dict(size=square, resample=3, image_mean=[.48, .46, .41], image_std=[.27, .26, .28])
    for name, settings, more in [
            ("bilinear squash", dict(size=square, resample=2), {}), ("bicubic", bicubic, {}),
            ("no normalize", dict(size=square, do_normalize=False), {}),
            ("sigmoid", bicubic, dict(problem_type="multi_label_classification"))]:
        model = disturb(t.ViTForImageClassification(t.ViTConfig(**common, **more)), rng)
        yield f"ViT, {name}", *hf_case(directory, model, t.ViTImageProcessorPil(**settings))
    model = disturb(t.Dinov2ForImageClassification(t.Dinov2Config(
        **{k: v for k, v in common.items() if k != "intermediate_size"}, mlp_ratio=3)), rng)
    yield "DINOv2, shortest edge and crop", *hf_case(directory, model, t.BitImageProcessorPil(
        size={"shortest_edge": 40}, crop_size=square, do_center_crop=True, do_resize=True))
    for crop, mode, kernel in ((0.9, "center", "bicubic"), (1.0, "squash", "bilinear"), (0.875, "center", "bilinear")):
        args = dict(embed_dim=24, depth=2, num_heads=3, img_size=side, patch_size=8, num_classes=5)
        model = disturb(timm.create_model("vit_tiny_patch16_224", **args, pretrained_cfg_overlay=dict(
            crop_pct=crop, crop_mode=mode, interpolation=kernel, input_size=(3, side, side))), rng)
        path = directory / "timm"
        save_for_hf(model, path, model_args=args, safe_serialization=True)
        yield f"timm, {mode} {crop} {kernel}", path, None, transformed(model)


def hf_case(directory, model, processor):
    path = directory / "hf"
    model.save_pretrained(path)
    processor.save_pretrained(path)
    return path, list(model.config.id2label.values()), piped(path)


def piped(path):
    """transformers' pipeline."""
    model = transformers.AutoModelForImageClassification.from_pretrained(path)
    processor = transformers.AutoImageProcessor.from_pretrained(path, backend="pil")
    pipe = transformers.pipeline("image-classification", model=model, image_processor=processor)
    index = {v: k for k, v in model.config.id2label.items()}

    def probabilities(images):
        out = np.zeros((len(images), len(index)))
        for row, image in zip(out, images):
            for answer in pipe(image, top_k=len(index)):
                row[index[answer["label"]]] = answer["score"]
        return out
    return probabilities


def transformed(model):
    """timm's transform and model."""
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model), is_training=False)

    def probabilities(images):
        images = [decoded(i) if isinstance(i, str) else i for i in images]
        return model(torch.stack([transform(i) for i in images])).softmax(-1).numpy()
    return probabilities


def in_session(path):
    """An exported processor in transformers, and the model in ONNX Runtime."""
    processor = transformers.AutoImageProcessor.from_pretrained(path, backend="pil")
    session = onnxruntime.InferenceSession(str(path / "model.onnx"), providers=["CPUExecutionProvider"])

    def probabilities(images):
        x = processor([decoded(i) if isinstance(i, str) else i for i in images], return_tensors="np")["pixel_values"]
        return torch.tensor(session.run(["logits"], {"pixel_values": x.astype(np.float32)})[0]).softmax(-1).numpy()
    return probabilities


def by_class(answer, names, classes):
    names = names or sorted(answer[0], key=lambda n: (len(n), n))
    return np.array([[p[n] for n in names] for p in answer]).reshape(-1, classes)


def run(table, driver, rng, directory, options):
    files = photographs(rng, directory / "photos")
    paths = [str(f) for f in files.values()]
    jpegs = {name: by_wepe(driver, file) for name, file in files.items() if name.endswith("jpg")}
    for name in jpegs:
        table.run("decoders of JPEG", "Pillow", name, lambda: decoders(driver, files[name]), 1)

    def compare(name, path, names, theirs):
        want = theirs([jpegs.get(file, path) for file, path in zip(files, paths)])
        try:
            got = by_class(driver.ask("predict", path=str(path), files=paths)["probabilities"], names, want.shape[1])
        except Exception as e:
            def raises(e=e):
                raise e
            table.run(name, "file to probability", name, raises)
            return
        for i, file in enumerate(files):
            table.run(name, "file to probability", file, lambda: float(np.abs(got[i] - want[i]).max()))

    for case in families(rng, directory):
        compare(*case)

    # What wepe exports declares the preprocessing that wepe uses.
    settings = {"do_resize": True, "do_rescale": True, "do_normalize": True, "rescale_factor": 1 / 255, "resample": 3,
                "image_processor_type": "ViTImageProcessor", "image_mean": [0.48, 0.46, 0.41], "image_std": [0.27, 0.26, 0.28]}
    for format in ("hf", "timm", "onnx"):
        c, seed = size(rng) | {"position": "wepe"}, int(rng.integers(1 << 30))
        s = json.dumps(settings | {"size": {"height": c["image_rows"], "width": c["image_cols"]}})

        def exported(format):
            path = directory / ("exported " + format)
            write(driver, np.random.default_rng(seed), path, c, format, images(rng, 1, 3, c["image_rows"], c["image_cols"]),
                  preprocess=s, **({"epsilon": 1e-6} if format == "timm" else {}))
            return path

        path = exported(format)
        if format == "hf":
            compare("exported hf", path, labels(c), piped(path))
        elif format == "timm":
            compare("exported timm", path, None, transformed(timm.create_model(f"local-dir:{path}", pretrained=True).eval()))
        else:  # wepe does not read it: the same model in wepe's own format
            compare("exported onnx", exported("native"), labels(c), in_session(path))
