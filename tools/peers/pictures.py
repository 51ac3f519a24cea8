# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""From image files to probabilities, compared with transformers' pipeline and timm's transform, and augmentations, compared
with those of timm and torchvision for the same random draws.

The photographs are the two JPEG files of scikit-learn. Differences are absolute, because they are of probabilities. Crops,
flips and mixing are compared with the windows, boxes and weights that wepe drew. The draws of a policy are unknown: each
image must equal, bit for bit, the result of one of the policy's operations, and all of them must occur.
"""

import base64
import functools
import json
import pathlib
import subprocess
import sys
from unittest import mock

import numpy as np
import onnxruntime
import sklearn.datasets
import timm
import timm.data.auto_augment as timm_ops
import timm.data.mixup
import torch
import torchvision.transforms.autoaugment as vision_ops
import torchvision.transforms.functional as F
import transformers
from PIL import Image, ImageOps
from timm.models._hub import save_for_hf

from ours import labels, size, write
from peers import ROOT, difference, disturb, go_test, images

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
    values = driver.ask("decode", path=str(file))
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


def probabilities(table, driver, rng, directory):
    files = photographs(rng, directory / "photos")
    paths = [str(f) for f in files.values()]
    jpegs = {name: by_wepe(driver, file) for name, file in files.items() if name.endswith("jpg")}
    for name in jpegs:
        table.run("decoders of JPEG", "Pillow", name, lambda: decoders(driver, files[name]), 1)

    def compare(name, path, names, theirs):
        want = theirs([jpegs.get(file, path) for file, path in zip(files, paths)])

        @functools.cache
        def got():
            answer = driver.ask("predict", path=str(path), files=paths)["probabilities"]
            return [[p[n] for n in names or sorted(p, key=lambda n: (len(n), n))] for p in answer]

        for i, file in enumerate(files):
            table.run(name, "file to probability", file, lambda: float(np.abs(np.array(got()[i]) - want[i]).max()))

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


HEIGHT, WIDTH, CLASSES = 29, 37, 5


def augmented(driver, pixels, targets, seed, smoothing=0.0, **augment):
    height, width = pixels.shape[1:3]
    values = driver.ask("augment", recipe=augment, pixels=base64.b64encode(pixels.tobytes()).decode(), height=height,
                        width=width, targets=targets.tolist(), classes=CLASSES, seed=seed, l2=smoothing)
    rows, cols = augment.get("size", (height, width))
    values["shown"] = [np.frombuffer(base64.b64decode(s), np.uint8).reshape(rows, cols, 3) for s in values["shown"]]
    if "images" in values:
        values["images"] = np.array(values["images"], np.float32).reshape(len(pixels), rows, cols, 3)
    return values


def noise(rng, n, height=HEIGHT, width=WIDTH):
    """Images with smooth parts, [n, height, width, 3], and classes."""
    small = rng.integers(0, 256, (n, 4, 5, 3), dtype=np.uint8)
    pixels = np.stack([np.asarray(Image.fromarray(s).resize((width, height), Image.Resampling.BICUBIC)) for s in small])
    pixels = np.clip(pixels.astype(int) + rng.integers(-20, 21, pixels.shape), 0, 255).astype(np.uint8)
    return pixels, rng.integers(0, CLASSES, n)


def timm_outcomes(image, increasing, magnitude, fill):
    """The results of each operation of timm's RandAugment, with either sign."""
    names = timm_ops._RAND_INCREASING_TRANSFORMS if increasing else timm_ops._RAND_TRANSFORMS
    hparams = {"img_mean": fill, "interpolation": Image.Resampling.BICUBIC}
    for name in names:
        for drawn in (0.0, 1.0):
            with mock.patch.object(timm_ops.random, "random", lambda: drawn):
                yield name, timm_ops.AugmentOp(name, prob=1.0, magnitude=magnitude, hparams=hparams)(image)


def vision_outcomes(image, magnitude):
    """The results of each operation of torchvision's RandAugment."""
    space = vision_ops.RandAugment()._augmentation_space(31, (image.height, image.width))
    for name, (magnitudes, signed) in space.items():
        value = float(magnitudes[magnitude]) if magnitudes.ndim else 0.0
        for sign in (1, -1) if signed else (1,):
            yield name, vision_ops._apply_op(image, name, sign * value, F.InterpolationMode.NEAREST, None)


def policy(driver, rng, name, outcomes):
    pixels, _ = noise(rng, 1)
    mean = [0.4, 0.5, 0.6]
    n = 900
    shown = augmented(driver, np.repeat(pixels, n, 0), np.zeros(n, int), int(rng.integers(1 << 20)), policy=name,
                      mean=mean)["shown"]
    image = Image.fromarray(pixels[0])
    known = {np.asarray(out).tobytes(): op for op, out in outcomes(image, tuple(round(255 * m) for m in mean))}
    seen = {s.tobytes() for s in shown} - {pixels[0].tobytes()}
    missing = {known[k] for k in known.keys() - seen - {pixels[0].tobytes()}}
    assert seen <= known.keys(), f"{len(seen - known.keys())} of {len(seen)} outcomes are of no operation"
    assert not missing, f"never drawn: {missing}"
    return 0.0


def crops(driver, rng, kernel):
    """Resized crops and flips: on the host bit for bit, in the graph (bilinear alone) in floating point."""
    pixels, targets = noise(rng, 24, *(int(n) for n in rng.integers(20, 90, 2)))
    size = [int(n) for n in rng.integers(15, 40, 2)]
    got = augmented(driver, pixels, targets, int(rng.integers(1 << 20)), size=size, crop_scale=[0.1, 1.0], hflip=0.5,
                    interpolation=kernel)
    mode = F.InterpolationMode(kernel)
    worst = 0.0
    for image, (scale, _, top, bottom, across, _, left, right), shown, batch in zip(
            pixels, got["windows"], got["shown"], got["images"]):
        box = [int(v) for v in (top, left, bottom - top, right - left)]
        want = F.resized_crop(Image.fromarray(image), *box, size, mode)
        want = np.asarray(F.hflip(want) if across < 0 else want)
        assert (want == shown).all(), f"the host's differs by up to {np.abs(want.astype(int) - shown).max()}"
        if kernel == "bilinear":
            x = F.resized_crop(torch.from_numpy(image).permute(2, 0, 1).double() / 255, *box, size, mode, antialias=True)
            worst = max(worst, difference(batch, (x.flip(-1) if across < 0 else x).permute(1, 2, 0)))
    return worst


def mixing(driver, rng, cut, smoothing):
    """timm's Mixup and CutMix with the weights and boxes that wepe drew, and timm's soft labels."""
    pixels, targets = noise(rng, 12)
    how = {"cutmix_alpha": 1.0} if cut else {"mixup_alpha": 0.8}
    got = augmented(driver, pixels, targets, int(rng.integers(1 << 20)), smoothing=smoothing, **how)
    top, left, bottom, right, _, share = got["mix"]
    x = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
    y = torch.from_numpy(targets)
    mixer = timm.data.mixup.Mixup(label_smoothing=smoothing, num_classes=CLASSES)
    box = tuple(int(v) for v in (top, bottom, left, right))
    worst = 0.0
    with mock.patch.object(timm.data.mixup.Mixup, "_params_per_batch", lambda self: (share, cut)), \
            mock.patch.object(timm.data.mixup, "cutmix_bbox_and_lam", lambda *a, **k: (box, share)):
        for i, partner in enumerate(got["partners"]):  # timm's partner is the other of two
            pair = [i, partner]
            mixed, labels = mixer(x[pair].clone(), y[pair])
            worst = max(worst, difference(got["images"][i], mixed[0].permute(1, 2, 0)),
                        difference(got["labels"][i * CLASSES:(i + 1) * CLASSES], labels[0]))
    return worst


def erasing(driver, rng):
    """torchvision's erase of a normalized image in the box that wepe drew: equal but for the rounding to bytes."""
    pixels, targets = noise(rng, 16)
    mean, std = [0.4, 0.5, 0.6], [0.2, 0.25, 0.3]
    shown = augmented(driver, pixels, targets, int(rng.integers(1 << 20)), random_erasing_prob=1.0, mean=mean,
                      std=std)["shown"]
    worst = 0.0
    for image, got in zip(pixels, shown):
        rows, cols = np.nonzero((image != got).any(-1))
        i, j = rows.min(), cols.min()
        x = F.normalize(torch.from_numpy(image).permute(2, 0, 1).float() / 255, mean, std)
        want = F.erase(x, int(i), int(j), int(rows.max() - i + 1), int(cols.max() - j + 1), torch.zeros(3, 1, 1))
        apart = F.normalize(torch.from_numpy(got.copy()).permute(2, 0, 1).float() / 255, mean, std) - want
        worst = max(worst, float((apart.abs() * torch.tensor(std)[:, None, None] * 255).max()))
    return worst


def operations(rng, directory):
    """Every operation alone, bit for bit: the library's own test, on new cases computed by Pillow."""
    cases = directory / "operations"
    subprocess.run([sys.executable, ROOT / "tools/py/augment_goldens.py", cases, "150", str(rng.integers(1 << 20))], check=True)
    return go_test("./data", "Operation.*Pillow", WEPE_AUGMENT=cases)


def run(table, driver, rng, directory, options):
    probabilities(table, driver, rng, directory)
    for name, increasing in (("rand-m9-n1", False), ("rand-m7-n1-inc1", True)):
        magnitude = int(name[6])
        table.run("policies", "timm", name, lambda: policy(driver, rng, name, lambda image, fill: timm_outcomes(
            image, increasing, magnitude, fill)))
    table.run("policies", "torchvision", "RandAugment(1,9)", lambda: policy(
        driver, rng, "RandAugment(1,9)", lambda image, fill: vision_outcomes(image, 9)))
    for kernel in ("bilinear", "bicubic"):
        for _ in range(2):
            table.run("resized crops and flips", "torchvision", kernel, lambda: crops(driver, rng, kernel))
    for cut in (False, True):
        for smoothing in (0.0, 0.1):
            table.run("mixing", "timm", f"{'cutmix' if cut else 'mixup'}, smoothing {smoothing}",
                      lambda: mixing(driver, rng, cut, smoothing), 1e-6)
    table.run("erasing", "torchvision", "levels", lambda: erasing(driver, rng), 0.51)
    table.run("operations", "Pillow", "150 random cases", lambda: operations(rng, directory))
