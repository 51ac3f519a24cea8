#!/usr/bin/env python3
# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

"""Generates image files and their pixels after Pillow's preprocessing, for the tests of package data.

    tools/py/pillow_goldens.py DIR               the golden files of data/testdata/pillow
    tools/py/pillow_goldens.py DIR COUNT SEED    COUNT cases of random formats, sizes and settings

DIR gets image files and cases.json: a list of {file, config, height, width, pixels}, where config is the content of
a preprocessor_config.json or of a timm config, and pixels are the RGB bytes after decoding, resize and crop by
transformers or timm with Pillow, compressed by zlib, in base64. Needs the packages of tools/peers/requirements.txt and, for
jpegs that Pillow does not write, cjpeg (Debian: libjpeg-turbo-progs).
"""

import base64
import io
import json
import os
import random
import struct
import subprocess
import sys
import zlib

import numpy as np
import timm
import timm.data
import transformers
from PIL import Image, ImageDraw, ImageOps


# ---- images


def picture(rng, width, height):
    """Smooth colours, hard edges and some noise."""
    coarse = Image.frombytes("RGB", (3, 3), rng.randbytes(27)).resize((width, height), Image.BICUBIC)
    draw = ImageDraw.Draw(coarse)
    for _ in range(3):
        x, y = rng.randrange(width), rng.randrange(height)
        box = (x, y, x + rng.randrange(1 + width // 2), y + rng.randrange(1 + height // 2))
        (draw.rectangle if rng.random() < 0.5 else draw.ellipse)(box, fill=tuple(rng.randbytes(3)))
    noise = Image.frombytes("RGB", (width, height), rng.randbytes(3 * width * height))
    return Image.blend(coarse, noise, rng.choice([0, 0, 0.1, 1]) if width * height > 600 else 0.1)


def alpha(rng, width, height):
    return Image.frombytes("L", (5, 2), rng.randbytes(10)).resize((width, height), Image.BILINEAR)


def png(width, height, depth, colour, rows, extra=b"", filter_type=0):
    """A png that Pillow cannot write: rows are packed bytes of one line each."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    data = zlib.compress(b"".join(bytes([filter_type]) + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def png16(rng, width, height, channels):
    """Samples of two bytes; Pillow reads the high ones of colours."""
    colour = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    return png(width, height, 16, colour, [rng.randbytes(2 * channels * width) for _ in range(height)])


def encode(im, kind, **options):
    out = io.BytesIO()
    im.save(out, kind, **options)
    return out.getvalue()


def turned(number):
    exif = Image.Exif()
    exif[0x010F] = "a camera"
    exif[0x0112] = number
    return exif.tobytes()


def offset_gif(rng, transparent):
    """A gif whose first frame is smaller than its screen, with colours of its own."""
    im = picture(rng, 11, 7).quantize(16)
    raw = encode(im, "GIF")
    at = raw.index(b"\x2c" + struct.pack("<HHHH", 0, 0, 11, 7))
    control = b"\x21\xf9\x04" + struct.pack("<BHB", int(transparent), 0, 3) + b"\0"
    screen = raw[:6] + struct.pack("<HH", 17, 13) + raw[10:13]
    colours = 3 << ((raw[10] & 7) + 1) if raw[10] & 0x80 else 0
    frame = b"\x2c" + struct.pack("<HHHH", 4, 5, 11, 7) + raw[at + 9:]
    return screen + raw[13:13 + colours] + control + frame


def cjpeg(im, *options):
    """A jpeg that Pillow cannot write: other ratios of luma to chroma, restart markers, RGB itself."""
    return subprocess.run(["cjpeg", "-quality", "90", *options], input=encode(im, "PPM"),
                          stdout=subprocess.PIPE, check=True).stdout


def jpeg_kinds():
    return {
        "444": dict(quality=90, subsampling=0), "422": dict(quality=90, subsampling=1),
        "420": dict(quality=90, subsampling=2), "default": dict(),
        "progressive": dict(quality=60, progressive=True), "rough": dict(quality=15, subsampling=2),
    }


# ---- preprocessing by Pillow


def load(path):
    im = Image.open(path)
    im.load()
    return ImageOps.exif_transpose(im).convert("RGB")


def hugging_face(im, c):
    kind = transformers.BitImageProcessorPil if "crop_size" in c else transformers.ViTImageProcessorPil
    pixels = kind(**c, do_rescale=False)(im, return_tensors="np")["pixel_values"][0]
    return Image.fromarray(pixels.astype(np.uint8).transpose(1, 2, 0))


def by_transform(im, c):
    transform = timm.data.create_transform(**c, is_training=False)
    for step in transform.transforms[:-2]:  # without ToTensor and Normalize
        im = step(im)
    return im


def case(directory, file, config):
    im = load(os.path.join(directory, file))
    im = by_transform(im, config) if "input_size" in config else hugging_face(im, config)
    packed = base64.b64encode(zlib.compress(im.tobytes(), 9)).decode()
    return {"file": file, "config": config, "height": im.height, "width": im.width, "pixels": packed}


DECODE = {"do_resize": False, "do_normalize": False}


def exact(height, width, resample):
    return {"do_resize": True, "size": {"height": height, "width": width}, "resample": resample, "do_normalize": False}


def shortest(edge, height, width, resample):
    return {"do_resize": True, "size": {"shortest_edge": edge}, "resample": resample, "do_center_crop": True,
            "crop_size": {"height": height, "width": width}, "do_normalize": False}


def by_timm(height, width, pct, mode, interpolation):
    return {"input_size": [3, height, width], "crop_pct": pct, "crop_mode": mode, "interpolation": interpolation,
            "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}


# ---- the golden files


def files(rng):
    """One small image of every format that is read."""
    width, height = 17, 13
    im = picture(rng, width, height)
    grey, clear = im.convert("L"), alpha(rng, width, height)
    out = {"rgb.png": encode(im, "PNG"), "grey.png": encode(grey, "PNG"), "bit.png": encode(im.convert("1"), "PNG")}
    with_alpha = im.copy()
    with_alpha.putalpha(clear)
    out["rgba.png"] = encode(with_alpha, "PNG")
    out["grey_alpha.png"] = encode(Image.merge("LA", (grey, clear)), "PNG")
    out["palette.png"] = encode(im.quantize(23), "PNG")
    out["palette_clear.png"] = encode(im.quantize(23), "PNG", transparency=bytes([0, 100, 255, 7]))
    out["key.png"] = encode(im, "PNG", transparency=im.getpixel((3, 3)))
    for depth in (2, 4):
        rows = [rng.randbytes((width * depth + 7) // 8) for _ in range(height)]
        out[f"grey{depth}.png"] = png(width, height, depth, 0, rows)
    for channels in (1, 2, 3, 4):
        out[f"deep{channels}.png"] = png16(rng, 7, 5, channels)
    for name, options in jpeg_kinds().items():
        out[f"{name}.jpg"] = encode(im, "JPEG", **options)
    out["grey.jpg"] = encode(grey, "JPEG")
    out["cmyk.jpg"] = encode(im.convert("CMYK"), "JPEG", quality=95)
    out["narrow.jpg"] = encode(picture(rng, 3, 11), "JPEG", quality=90)
    out["palette.gif"] = encode(im.quantize(200), "GIF")
    out["clear.gif"] = encode(im.quantize(30), "GIF", transparency=5)
    out["interlaced.gif"] = encode(im.quantize(30), "GIF", interlace=True)
    out["offset.gif"], out["offset_clear.gif"] = offset_gif(rng, False), offset_gif(rng, True)
    frames = [picture(rng, width, height).quantize(30) for _ in range(2)]
    out["frames.gif"] = encode(frames[0], "GIF", save_all=True, append_images=frames[1:], duration=100)
    out["lossless.webp"] = encode(im, "WEBP", lossless=True)
    out["lossy.webp"] = encode(im, "WEBP", quality=80)
    out["lossy_even.webp"] = encode(picture(rng, 8, 6), "WEBP", quality=50)
    out["lossless_alpha.webp"] = encode(with_alpha, "WEBP", lossless=True, exact=True)
    out["lossy_alpha.webp"] = encode(with_alpha, "WEBP", quality=80)
    out["rgb.bmp"] = encode(im, "BMP")
    out["palette.bmp"] = encode(im.quantize(100), "BMP")
    out["rgba.bmp"] = encode(with_alpha, "BMP")
    small = picture(rng, 5, 3)
    for number in range(1, 9):
        out[f"turned{number}.png"] = encode(small, "PNG", exif=turned(number))
    out["turned6.jpg"] = encode(small, "JPEG", exif=turned(6))
    out["turned8.webp"] = encode(small, "WEBP", lossless=True, exif=turned(8))
    out["large.png"] = encode(picture(rng, 61, 43), "PNG")
    out["tall.png"] = encode(picture(rng, 19, 53), "PNG")
    for name, sampling in (("440", "1x2"), ("411", "4x1"), ("410", "4x2")):
        out[f"{name}.jpg"] = cjpeg(im, "-sample", sampling)
    out["restart.jpg"], out["rgb.jpg"] = cjpeg(im, "-restart", "1B"), cjpeg(im, "-rgb")
    out["restart_progressive.jpg"] = cjpeg(im, "-restart", "2B", "-progressive")
    return out


def frames_and_tiffs(rng):
    """Animated WebP, of whole frames and of one that begins inside of the image, and TIFF."""
    first, second = picture(rng, 13, 11), picture(rng, 13, 11)
    spot = Image.new("RGBA", first.size)
    spot.paste(first.crop((0, 0, 5, 3)), (6, 4))
    out = {}
    for name, frames, options in (
        ("animated.webp", [first, second], dict(quality=80)),
        ("animated_lossless.webp", [first, second], dict(lossless=True)),
        ("animated_spot.webp", [spot, second.convert("RGBA")], dict(quality=80, minimize_size=True)),
    ):
        out[name] = encode(frames[0], "WEBP", save_all=True, append_images=frames[1:], **options)
    translucent = first.copy()
    translucent.putalpha(alpha(rng, 13, 11))
    deep = Image.frombytes("I;16", (13, 11), rng.randbytes(286))
    for name, im, options in (
        ("rgb.tif", first, dict(compression="tiff_lzw")), ("grey.tif", first.convert("L"), dict(compression="packbits")),
        ("bit.tif", first.convert("1"), dict(compression="group4")), ("palette.tif", first.quantize(17), {}),
        ("rgba.tif", translucent, dict(compression="tiff_adobe_deflate")), ("deep1.tif", deep, {}),
        ("turned6.tif", first, dict(tiffinfo={0x0112: 6})),
    ):
        out[name] = encode(im, "TIFF", **options)
    return out


def golden(directory):
    rng = random.Random(1)
    cases = []
    for name, raw in (files(rng) | frames_and_tiffs(random.Random(2))).items():
        with open(os.path.join(directory, name), "wb") as f:
            f.write(raw)
        if name not in ("large.png", "tall.png"):
            cases.append((name, DECODE))
    for resample in range(6):
        cases += [("large.png", exact(11, 13, resample)), ("tall.png", exact(19, 7, resample))]
    cases += [
        ("rgb.png", exact(31, 37, 2)), ("rgb.png", exact(13, 5, 3)), ("rgb.png", exact(3, 17, 3)),
        ("large.png", exact(1, 1, 3)), ("420.jpg", exact(8, 8, 2)), ("turned5.png", exact(7, 4, 3)),
        ("turned1.png", exact(2, 5, 4)),  # weights of box at its edges
        ("large.png", shortest(16, 14, 14, 3)), ("tall.png", shortest(16, 14, 11, 2)),
        ("large.png", shortest(12, 17, 15, 3)), ("rgb.png", {**DECODE, "do_center_crop": True,
                                                             "crop_size": {"height": 8, "width": 22}}),
        ("large.png", by_timm(16, 16, 0.9, "center", "bicubic")),
        ("tall.png", by_timm(15, 15, 1.0, "center", "bilinear")),
        ("large.png", by_timm(12, 19, 0.95, "center", "bicubic")),
        ("tall.png", by_timm(14, 9, 0.875, "center", "lanczos")),
        ("large.png", by_timm(14, 14, 0.8, "squash", "bicubic")),
        ("tall.png", by_timm(12, 11, 1.0, "squash", "bilinear")),
        ("large.png", by_timm(16, 15, 1.0, "border", "bicubic")),
        ("tall.png", by_timm(13, 18, 0.9, "border", "bicubic")),
        # On both sides of what decides which axis is first, and with less to remove from the columns than from the rows.
        ("large.png", exact(23, 51, 3)), ("large.png", exact(22, 51, 3)), ("large.png", exact(47, 100, 3)),
    ]
    return [case(directory, file, config) for file, config in cases]


# ---- random cases


def random_config(rng, im):
    side = lambda: rng.randint(1, 200)  # noqa: E731
    resample = rng.randrange(6)
    kind = rng.random()
    if kind < 0.25:
        return DECODE
    if kind < 0.55:
        return exact(side(), side(), resample)
    if kind < 0.75:
        edge = min(side(), 40_000 * min(im.size) // max(im.size) // 100 + 1)
        return shortest(edge, side(), side(), resample)
    names = ["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"]
    height, width = side(), side()
    if rng.random() < 0.5:
        width = height
    mode = rng.choice(["center", "squash", "border"])
    if max(im.size) > 5 * min(im.size) and mode != "squash":
        mode = "squash"
    return by_timm(height, width, rng.choice([0.875, 0.9, 0.95, 1.0]), mode, names[resample])


def random_cases(directory, count, seed):
    rng = random.Random(seed)
    cases = []
    for i in range(count):
        width, height = (rng.randint(1, rng.choice([8, 40, 300])) for _ in range(2))
        im = picture(rng, width, height)
        kind = rng.choice(["jpg", "jpg", "jpg", "png", "gif", "webp", "webp", "bmp"])
        number = rng.randint(1, 8)
        if kind == "jpg":
            options = rng.choice(list(jpeg_kinds().values()) + [dict(quality=rng.randint(5, 100))])
            im = rng.choice([im, im, im, im.convert("L"), im.convert("CMYK")])
            if im.mode == "CMYK":
                options = dict(quality=options.get("quality", 75))  # subsampled ink is not read
            raw = encode(im, "JPEG", exif=turned(number), **options)
        elif kind == "png":
            im = rng.choice([im, im.quantize(rng.randint(2, 256)), *map(im.convert, ("L", "1", "RGBA"))])
            raw = encode(im, "PNG", exif=turned(number))
            if rng.random() < 0.2:
                raw = png16(rng, width, height, rng.randint(1, 4))
        elif kind == "gif":
            options = dict(transparency=1) if rng.random() < 0.3 else {}
            raw = encode(im.quantize(rng.randint(2, 256)), "GIF", **options)
        elif kind == "webp":
            if rng.random() < 0.3:
                im.putalpha(alpha(rng, width, height))
            options = dict(lossless=True, exact=True) if rng.random() < 0.3 else dict(quality=rng.randint(1, 100))
            raw = encode(im, "WEBP", exif=turned(number), **options)
        else:
            raw = encode(im, "BMP")
        name = f"{i:05d}.{kind}"
        with open(os.path.join(directory, name), "wb") as f:
            f.write(raw)
        cases.append(case(directory, name, random_config(rng, im)))
    return cases


def main():
    directory = sys.argv[1]
    os.makedirs(directory, exist_ok=True)
    cases = random_cases(directory, *map(int, sys.argv[2:4])) if len(sys.argv) > 2 else golden(directory)
    with open(os.path.join(directory, "cases.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


main()
