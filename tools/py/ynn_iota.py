# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

"""Two sums of x - iota on XLA's CPU backend; the second is wrong if reductions become YNNPACK fusions.

    pip install jax==0.11.2 jaxlib==0.11.2
    python ynn_iota.py                                                    # the last columns are wrong
    XLA_FLAGS=--xla_cpu_experimental_ynn_fusion_type=-LIBRARY_FUSION_TYPE_REDUCE python ynn_iota.py    # right

docs/evidence/upstream.md describes the fault and its workaround.
"""

import jax
import jax.numpy as jnp
import numpy as np


def total(x, n):
    """Sums x[rows, summed, 1] - iota[n] over axis 1: [rows, n]."""
    return jnp.sum(x[:, :, None] - jnp.arange(n, dtype=jnp.float32), axis=1)


x = np.zeros((300, 4), np.float32)
programs = [jax.jit(lambda x, n=n: total(x, n)) for n in (5, 7, 9, 14)]  # all stay alive
for n, program in zip((5, 7, 9, 14), programs):
    got = np.asarray(program(x))
    want = np.broadcast_to(-4.0 * np.arange(n), got.shape)
    wrong = sorted(set(np.nonzero(got != want)[1].tolist()))
    print(f"iota of length {n}: {(got != want).sum()} of {got.size} sums are wrong, columns {wrong}; row 0 {got[0]}")
print("jaxlib", jax.lib.__version__)
