# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

"""Runs exported Vision Transformers in plain torch and compares their logits with those written beside them.

usage: vit_logits.py DIR [tolerance]

DIR is what internal/tools/exports writes. Exits with 1 if any logit is further off than the tolerance, in units of the
greatest one or of 1.
"""

import json
import os
import struct
import sys

import numpy
import torch
import torch.nn.functional as F


def read_safetensors(path):
    """8 bytes of header length, a JSON header, the numbers."""
    raw = open(path, "rb").read()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        data = raw[8 + length + begin:8 + length + end]
        if entry["dtype"] == "BF16":
            numbers = (numpy.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
        else:
            numbers = numpy.frombuffer(data, {"F32": "<f4", "F16": "<f2"}[entry["dtype"]]).astype("<f4")
        tensors[name] = torch.from_numpy(numbers.reshape(entry["shape"]).copy())
    return tensors


class Model:
    """What the formats have in common; subclasses say where the weights are."""

    def logits(self, images):
        """images [n, channels, rows, cols] -> [n, classes]"""
        x = F.conv2d(images, *self.patches(), stride=self.patches()[0].shape[-1])  # [n, width, rows, cols]
        x = x.flatten(2).transpose(1, 2)  # [n, rows*cols, width]
        x = torch.cat([self.class_token().expand(len(x), -1, -1), x], 1) + self.positions()
        for i in range(self.depth()):
            block = self.block(i)
            h = self.norm(x, *block["norm1"])
            q, k, v = (self.heads_of(F.linear(h, *block[name])) for name in ("query", "key", "value"))
            weights = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1)  # [n, heads, tokens, tokens]
            x = x + F.linear((weights @ v).transpose(1, 2).flatten(2), *block["output"])
            h = self.norm(x, *block["norm2"])
            x = x + F.linear(F.gelu(F.linear(h, *block["fc1"])), *block["fc2"])
        x = self.norm(x, *self.last_norm())
        return F.linear(x[:, 0], *self.head())

    def norm(self, x, weight, bias):
        return F.layer_norm(x, x.shape[-1:], weight, bias, self.epsilon)

    def heads_of(self, x):
        """[n, tokens, width] -> [n, heads, tokens, width/heads]"""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class HuggingFace(Model):
    def __init__(self, directory, _):
        config = json.load(open(os.path.join(directory, "config.json")))
        assert config["architectures"] == ["ViTForImageClassification"] and config["hidden_act"] == "gelu", config
        self.w = read_safetensors(os.path.join(directory, "model.safetensors"))
        self.heads, self.epsilon = config["num_attention_heads"], config["layer_norm_eps"]
        self.layers = config["num_hidden_layers"]

    def of(self, name):
        return self.w[name + ".weight"], self.w[name + ".bias"]

    def patches(self):
        return self.of("vit.embeddings.patch_embeddings.projection")

    def class_token(self):
        return self.w["vit.embeddings.cls_token"]

    def positions(self):
        return self.w["vit.embeddings.position_embeddings"]

    def depth(self):
        return self.layers

    def block(self, i):
        layer = "vit.encoder.layer.%d." % i
        names = {
            "norm1": "layernorm_before", "query": "attention.attention.query", "key": "attention.attention.key",
            "value": "attention.attention.value", "output": "attention.output.dense", "norm2": "layernorm_after",
            "fc1": "intermediate.dense", "fc2": "output.dense",
        }
        return {ours: self.of(layer + name) for ours, name in names.items()}

    def last_norm(self):
        return self.of("vit.layernorm")

    def head(self):
        return self.of("classifier")


class Timm(Model):
    def __init__(self, directory, _):
        config = json.load(open(os.path.join(directory, "config.json")))
        args = config["model_args"]
        assert config["global_pool"] == "token" and args["class_token"] and args["act_layer"] == "gelu", config
        assert int(args["embed_dim"] * args["mlp_ratio"]) == 155, args
        self.w = read_safetensors(os.path.join(directory, "model.safetensors"))
        self.heads, self.epsilon, self.blocks = args["num_heads"], 1e-6, args["depth"]

    def of(self, name):
        return self.w[name + ".weight"], self.w[name + ".bias"]

    def patches(self):
        return self.of("patch_embed.proj")

    def class_token(self):
        return self.w["cls_token"]

    def positions(self):
        return self.w["pos_embed"]

    def depth(self):
        return self.blocks

    def block(self, i):
        block = "blocks.%d." % i
        names = {"norm1": "norm1", "output": "attn.proj", "norm2": "norm2", "fc1": "mlp.fc1", "fc2": "mlp.fc2"}
        out = {ours: self.of(block + name) for ours, name in names.items()}
        weight, bias = self.of(block + "attn.qkv")
        for name, w, b in zip(("query", "key", "value"), weight.chunk(3), bias.chunk(3)):
            out[name] = w, b
        return out

    def last_norm(self):
        return self.of("norm")

    def head(self):
        return self.of("head")


class Google(Model):
    def __init__(self, directory, case):
        self.w = {name: torch.from_numpy(x.astype("<f4"))
                  for name, x in numpy.load(os.path.join(directory, "model.npz")).items()}
        self.heads, self.epsilon = self.w[self.attention(0) + "query/bias"].shape[0], 1e-6

    def attention(self, i):
        return "Transformer/encoderblock_%d/MultiHeadDotProductAttention_1/" % i

    def dense(self, name):
        return self.w[name + "/kernel"].T, self.w[name + "/bias"]

    def scale(self, name):
        return self.w[name + "/scale"], self.w[name + "/bias"]

    def patches(self):
        return self.w["embedding/kernel"].permute(3, 2, 0, 1), self.w["embedding/bias"]

    def class_token(self):
        return self.w["cls"]

    def positions(self):
        return self.w["Transformer/posembed_input/pos_embedding"]

    def depth(self):
        return len([name for name in self.w if name.endswith("LayerNorm_0/scale")])

    def block(self, i):
        block, attention = "Transformer/encoderblock_%d/" % i, self.attention(i)
        out = {
            "norm1": self.scale(block + "LayerNorm_0"), "norm2": self.scale(block + "LayerNorm_2"),
            "fc1": self.dense(block + "MlpBlock_3/Dense_0"), "fc2": self.dense(block + "MlpBlock_3/Dense_1"),
            "output": (self.w[attention + "out/kernel"].flatten(0, 1).T, self.w[attention + "out/bias"]),
        }
        for name in ("query", "key", "value"):
            out[name] = self.w[attention + name + "/kernel"].flatten(1).T, self.w[attention + name + "/bias"].flatten()
        return out

    def last_norm(self):
        return self.scale("Transformer/encoder_norm")

    def head(self):
        return self.dense("head")


READERS = {"hf": HuggingFace, "timm": Timm, "jax": Google}


def main():
    root, tolerance = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 1e-5
    compared, failed = 0, 0
    for name in sorted(os.listdir(root)):
        directory = os.path.join(root, name)
        if not os.path.exists(os.path.join(directory, "case.json")):
            continue
        case = json.load(open(os.path.join(directory, "case.json")))
        images = numpy.fromfile(os.path.join(directory, "images.f32"), "<f4").reshape(case["images"])
        wanted = numpy.fromfile(os.path.join(directory, "logits.f32"), "<f4").reshape(len(images), case["classes"])
        for kind in case["formats"]:
            if kind not in READERS:
                continue
            model = READERS[kind](os.path.join(directory, kind), case)
            assert model.heads == case["heads"], model.heads
            with torch.no_grad():
                got = model.logits(torch.from_numpy(images).permute(0, 3, 1, 2)).numpy()
            worst, scale = float(abs(got - wanted).max()), float(abs(wanted).max())
            ok = worst <= tolerance * max(1, scale)
            compared, failed = compared + 1, failed + (not ok)
            print("torch %-14s %-5s differs by %.2g, greatest logit %.3g%s" % (
                name, kind, worst, scale, "" if ok else "  TOO FAR"))
    if compared == 0:
        sys.exit("vit_logits.py: no case in " + root)
    sys.exit(1 if failed else 0)


main()
