# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

"""A plain Vision Transformer in JAX for tools/bench: class token, learned positions, pre-norm blocks, exact GELU.

A training step is forward, backward, gradient clipping at norm 1 and AdamW in one jitted function that donates its
state. In bfloat16, norms, softmax, the loss and the weights themselves stay float32.
"""

import functools
import os
import sys

os.environ["JAX_PLATFORMS"] = "cuda" if "cuda" in sys.argv else "cpu"
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # its memory is what it needs, as of the others
import jax
import jax.numpy as jnp
import numpy as np

from serve import serve


def parameters(width, depth, patch, side, classes=100):
    draw = np.random.default_rng(0)
    weights = lambda *shape: jnp.asarray(draw.normal(0, 0.02, shape), jnp.float32)
    dense = lambda n, m: {"w": weights(n, m), "b": jnp.zeros(m)}
    norm = lambda: {"gain": jnp.ones(width), "offset": jnp.zeros(width)}
    block = lambda: {"norm1": norm(), "qkv": dense(width, 3 * width), "out": dense(width, width), "norm2": norm(),
                     "up": dense(width, 4 * width), "down": dense(4 * width, width)}
    return {"patch": dense(3 * patch * patch, width), "token": weights(1, 1, width),
            "position": weights(1, 1 + (side // patch) ** 2, width), "blocks": [block() for _ in range(depth)],
            "norm": norm(), "head": dense(width, classes)}


def dense(p, x):
    return x @ p["w"].astype(x.dtype) + p["b"].astype(x.dtype)


def norm(p, x):
    x, dtype = x.astype(jnp.float32), x.dtype
    mean = x.mean(-1, keepdims=True)
    x = (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-6) * p["gain"] + p["offset"]
    return x.astype(dtype)


def logits(p, images, heads, patch):
    b, side, _, _ = images.shape
    n, width = side // patch, p["token"].shape[-1]
    x = images.reshape(b, n, patch, n, patch, 3).transpose(0, 1, 3, 2, 4, 5).reshape(b, n * n, -1)
    table, token = p["position"].astype(x.dtype), p["token"].astype(x.dtype)
    x = jnp.concatenate([jnp.broadcast_to(token, (b, 1, width)), dense(p["patch"], x)], 1) + table
    for block in p["blocks"]:
        qkv = dense(block["qkv"], norm(block["norm1"], x)).reshape(b, -1, 3, heads, width // heads)
        q, k, v = qkv.transpose(2, 0, 3, 1, 4)
        weights = jax.nn.softmax((q @ k.swapaxes(-1, -2) * (width // heads) ** -0.5).astype(jnp.float32))
        x = x + dense(block["out"], (weights.astype(x.dtype) @ v).transpose(0, 2, 1, 3).reshape(x.shape))
        x = x + dense(block["down"], jax.nn.gelu(dense(block["up"], norm(block["norm2"], x)), approximate=False))
    return dense(p["head"], norm(p["norm"], x)[:, 0]).astype(jnp.float32)


def prepare(what, width, depth, heads, patch, side, batch, dtype):
    images = jnp.asarray(np.random.default_rng(1).random((batch, side, side, 3), np.float32), dtype)
    labels = jnp.arange(batch) % 100
    weights = parameters(width, depth, patch, side)
    if what == "inference":
        program = jax.jit(functools.partial(logits, heads=heads, patch=patch))
        return lambda: np.asarray(program(weights, images))

    def loss(weights):
        scores = jax.nn.log_softmax(logits(weights, images, heads, patch))
        return -jnp.take_along_axis(scores, labels[:, None], 1).mean()

    @functools.partial(jax.jit, donate_argnums=0)
    def step(state):
        weights, first, second, t = state
        value, grads = jax.value_and_grad(loss)(weights)
        size = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
        grads = jax.tree.map(lambda g: g * jnp.minimum(1, 1 / (size + 1e-6)), grads)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
        second = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, second, grads)
        fix1, fix2 = 1 / (1 - 0.9 ** t), 1 / (1 - 0.999 ** t)
        weights = jax.tree.map(lambda w, m, s: w - 1e-5 * (m * fix1 / (jnp.sqrt(s * fix2) + 1e-8) + 0.05 * w),
                               weights, first, second)
        return (weights, first, second, t + 1), value

    zeros = lambda: jax.tree.map(jnp.zeros_like, weights)
    held = [(weights, zeros(), zeros(), jnp.float32(1))]

    def training():
        held[0], value = step(held[0])
        float(value)

    return training


serve(prepare)
