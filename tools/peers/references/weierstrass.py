# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Reference data for ℘ on rectangular lattices, its truncated sums, its surrogate, tables of it, and the paper's tables.

    python weierstrass.py OUT [--seed N]

The half-periods are omega1 > 0 and i·omega3p; the lattice is {2mω1 + 2nω3};

    ℘(z) = 1/z² + Σ' 1/(z-w)² - 1/w²,    ℘′(z) = -2 Σ 1/(z-w)³.

Every number that a program receives is a float64 whose binary value is used exactly; results are the nearest float64 of 60
digits, derivatives by the lattice of 120. Each point is checked against theta quotients, the rows of the other direction, the
differential equation and the closed form of the derivative by ω3.
"""

import json
import math
from functools import lru_cache
from multiprocessing import Pool

import mpmath as mp
import numpy as np
from mpmath import mpc, mpf

from common import arguments

mp.mp.dps = 60
DIFFERENCE = 120  # digits for numerical differentiation
OMEGA = float(mp.gamma(mpf(1) / 4) ** 2 / (2 * mp.sqrt(2 * mp.pi)))  # of the square lattice with g2 = 1/4
LATTICES = {"square": (OMEGA, OMEGA), "r1.085": (OMEGA, 1.085)} | {
    f"r{r:g}": (OMEGA, OMEGA * r) for r in (0.25, 0.5, 0.8, 1.25, 2.0, 4.0)}
LATTICES = {k: LATTICES[k] for k in ("square", "r0.25", "r0.5", "r0.8", "r1.085", "r1.25", "r2", "r4")}
SURROGATES = [dict(id=name, omega1=OMEGA, omega3p=w3, eps_u=eu, eps_v=ev, eps=eps, beta=beta, gamma=0.1, K=3, eta=0.5, eta_p=etap,
                   alpha=alpha, a=[0.1 / k ** 2 for k in (1, 2, 3)], b=[0.1 / k ** 2 for k in (1, 2, 3)])
              for name, w3, eu, ev, eps, beta, etap, alpha in [
                  ("A", 1.085, 0.05, 0.05, 1e-6, 0.1, 0.5, 0.15), ("B", 2.622, 0.05, 0.05, 1e-6, 0.61, 0.5, 1.0),
                  ("C", 1.085, 0.05, 0.05, 1e-6, 0.61, 0.5, 1.0),
                  # The radius at its minimum, u′ and v′ below 0, η other than η′.
                  ("D_edge", 1.085, -0.55, -0.3, 0.75, 0.1, -0.25, 0.15)]]


def csc2(a):
    """csc²(a) and its derivative."""
    i = 1 / mp.sin(a)
    return i * i, -2 * i ** 3 * mp.cos(a)


@lru_cache(maxsize=4096)
def constant(ratio, precision):
    """-1/3 - Σ' csc²(πn·ratio) over n ≠ 0: ratio is the distance of rows by their period."""
    with mp.workprec(precision):
        n, c = 1, -mpf(1) / 3
        while True:
            x = mp.csc(mp.pi * n * ratio) ** 2
            c -= 2 * x
            if abs(x) < mpf(2) ** (-precision - 8):
                return c
            n += 1


def wp(z, w1, w3, along=None, pairs=None):
    """℘ and ℘′ by complete rows of the lattice, "h" along the real period or "v" along the imaginary one, default the faster;
    with pairs, that many rows on each side."""
    z, along = mpc(z), along or ("h" if w3 >= w1 else "v")
    period, offset = (mpc(2 * w1), mpc(0, 2 * w3)) if along == "h" else (mpc(0, 2 * w3), mpc(2 * w1))
    z -= offset * int(mp.nint(z.imag / (2 * w3) if along == "h" else z.real / (2 * w1)))
    k = mp.pi / period
    s, d = csc2(k * z)
    s += constant(offset / period, mp.mp.prec) if pairs is None else -mpf(1) / 3
    n = 1
    while pairs is None or n <= pairs:
        (p, dp), (q, dq) = csc2(k * (z - n * offset)), csc2(k * (z + n * offset))
        s += p + q - (0 if pairs is None else 2 * mp.csc(n * k * offset) ** 2)
        d += dp + dq  # which is exactly 0 at half-periods
        if pairs is None and n > 1 and abs(p) + abs(q) + abs(dp) + abs(dq) < mpf(2) ** (-mp.mp.prec - 8) * min(1, abs(d) or 1):
            break
        n += 1
    return k ** 2 * s, k ** 3 * d


@lru_cache(maxsize=512)
def invariants(w1, w3, precision):
    """e1, e3, g2, g3 by theta functions, and η1 = ζ(ω1)."""
    q, c2 = mp.exp(-mp.pi * w3 / w1), (mp.pi / (2 * w1)) ** 2
    t2, t3, t4 = (mp.jtheta(k, 0, q) ** 4 for k in (2, 3, 4))
    e1, e2, e3 = c2 / 3 * (t3 + t4), c2 / 3 * (t2 - t4), -c2 / 3 * (t2 + t3)
    s, n = mpf(0), 1
    while n * q ** (2 * n) > mpf(2) ** (-precision - 8):
        s += n * q ** (2 * n) / (1 - q ** (2 * n))
        n += 1
    return dict(e1=e1, e3=e3, g2=2 * (e1 ** 2 + e2 ** 2 + e3 ** 2), g3=4 * e1 * e2 * e3,
                eta1=mp.pi ** 2 / (12 * w1) * (1 - 24 * s))


def theta(z, w1, w3):
    """℘ and ℘′ as quotients of theta functions."""
    q, c = mp.exp(-mp.pi * w3 / w1), mp.pi / (2 * w1)
    v = c * mpc(z)
    t2, t3, t4 = (mp.jtheta(k, 0, q) for k in (2, 3, 4))
    a, b, e, f = (mp.jtheta(k, v, q) for k in (1, 2, 3, 4))
    d = t2 * t3 * t4  # θ1′(0)
    return c ** 2 / 3 * (t3 ** 4 + t4 ** 4) + (c * d * b / (t2 * a)) ** 2, -2 * c ** 3 * d ** 2 * b * e * f / a ** 3


def closed_derivative(z, w1, w3):
    """∂℘/∂ω3′ at fixed z: (2ω1/π)(2℘² + ζ℘′ - g2/3 - (η1/ω1)(2℘ + z℘′)), Frobenius and Stickelberger."""
    i, k = invariants(w1, w3, mp.mp.prec), mp.pi / (2 * w1)
    rows = int(mp.nint(z.imag / (2 * w3)))
    r = z - mpc(0, 2 * w3 * rows)
    q, zeta, n = mp.exp(-mp.pi * w3 / w1), i["eta1"] * r / w1 + k * mp.cot(k * r), 1
    while q ** (2 * n) * mp.exp(2 * n * abs(k * r.imag)) > mpf(2) ** (-mp.mp.prec - 8):
        zeta += 4 * k * q ** (2 * n) / (1 - q ** (2 * n)) * mp.sin(2 * n * k * r)
        n += 1
    zeta += 2 * rows * mpc(0, (i["eta1"] * w3 - mp.pi / 2) / w1)
    p, dp = wp(z, w1, w3)
    return 2 * w1 / mp.pi * (2 * p * p + zeta * dp - i["g2"] / 3 - i["eta1"] / w1 * (2 * p + z * dp))


def rounded(z, scale=0):
    """The nearest float64; parts that are rounding errors of the 60 digits are 0."""
    z = mpc(z)
    tiny = max(abs(z), scale) * mpf(10) ** -42
    return {"re64": 0.0 if abs(z.real) < tiny else float(z.real), "im64": 0.0 if abs(z.imag) < tiny else float(z.imag)}


def places(w1, w3, rng):
    """Points near poles and half-periods, on lines of symmetry, within the cell and outside of it."""
    circle = lambda r: (lambda a: (r * math.cos(a), r * math.sin(a)))(rng.uniform(0, 2 * math.pi))  # noqa: E731
    out = [circle(e) for e in (1e-6, 3e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)]
    for x, y in ((w1, 0.0), (0.0, w3), (w1, w3)):
        out.append((x, y))
        out += [(x + dx, y + dy) for dx, dy in (circle(e) for e in (1e-8, 1e-3))]
    for f in (0.07, 0.9, 1.7):
        out += [(f * w1 * rng.uniform(.95, 1.05), 0.0), (0.0, f * w3 * rng.uniform(.95, 1.05))]
    out += [(w1, w3 * rng.uniform(.2, .8)), (w1 * rng.uniform(.2, .8), w3)]
    out += [(rng.uniform(0, 2 * w1), rng.uniform(0, 2 * w3)) for _ in range(10)]
    out += [(0.8 * w1 * (rng.integers(14) + .5) / 14, 0.8 * w3 * (rng.integers(14) + .5) / 14) for _ in range(4)]
    out += [((m + rng.uniform(.05, .95)) * 2 * w1, (n + rng.uniform(.05, .95)) * 2 * w3) for m, n in (
        (1, 0), (0, 1), (1, 1), (2, 1), (1, 2), (-1, 0), (0, -1), (-1, -1), (-2, 1), (3, -2), (-5, 4))]
    for m, n, e in ((1, 0, 1e-3), (0, 1, 1e-3), (1, 1, 1e-2), (-2, 1, 1e-4), (3, 3, 1e-2)):
        dx, dy = circle(e)
        out.append((2 * m * w1 + dx, 2 * n * w3 + dy))
    return [(float(x), float(y)) for x, y in out]


def point(task):
    """The record of a point, and the largest of its checks."""
    name, x, y = task
    with mp.workdps(DIFFERENCE):
        w1, w3, z = mpf(LATTICES[name][0]), mpf(LATTICES[name][1]), mpc(x, y)
        h = mpf(10) ** -29 * w3
        (p, dp), i = wp(z, w1, w3), invariants(w1, w3, mp.mp.prec)
        d2 = 6 * p * p - i["g2"] / 2

        def slope(at):
            a, b = wp(at(w3 + h), w1, w3 + h), wp(at(w3 - h), w1, w3 - h)
            return [(a[k] - b[k]) / (2 * h) for k in (0, 1)]

        fixed, tied = slope(lambda w: z), slope(lambda w: mpc(x, mpf(y) * w / w3))
        size = i["e1"] - i["e3"]
        checks = [abs(dp ** 2 - (4 * p ** 3 - i["g2"] * p - i["g3"])) / (abs(dp) ** 2 + 4 * abs(p) ** 3 + size ** 3)]
    w1, w3, z, size = +w1, +w3, +z, +size
    slopes = size ** mpf(1.5)
    for q, dq in (theta(z, w1, w3), wp(z, w1, w3, "v" if w3 >= w1 else "h")):
        checks += [abs(q - p) / (abs(p) + size), abs(dq - dp) / (abs(dp) + slopes)]
    checks.append(abs(closed_derivative(z, w1, w3) - fixed[0]) / (abs(p) ** 2 + 1))  # what cancels is of this size
    off = mp.hypot(x - 2 * w1 * mp.nint(x / (2 * w1)), y - 2 * w3 * mp.nint(y / (2 * w3)))
    return {"lattice": name, "z_re": x, "z_im": y, "wp": rounded(p, size), "wpp": rounded(dp, slopes),
            "d2wp_dz2": rounded(d2, size ** 2), "dwp_dw3_fixed": rounded(fixed[0], size),
            "dwpp_dw3_fixed": rounded(fixed[1], slopes), "dwp_dw3_tied": rounded(tied[0], size),
            "dwpp_dw3_tied": rounded(tied[1], slopes), "dist_to_pole": float(off), "scale_wp": float(size),
            "scale_wpp": float(slopes)}, max(float(c) for c in checks)


def points(seed):
    """wp_points.json and the half-periods of its lattices, also as invariants.json."""
    rng, tasks = np.random.default_rng(seed), []
    for name, (w1, w3) in LATTICES.items():
        tasks += [(name, x, y) for x, y in places(w1, w3, rng)]
    with Pool() as pool:
        done = pool.map(point, tasks, chunksize=8)
    assert max(c for _, c in done) < 1e-28, max(c for _, c in done)  # of the central difference
    halves = {k: {"omega1": a, "omega3p": b} for k, (a, b) in LATTICES.items()}
    return {"wp_points": {"lattices": halves, "points": [r for r, _ in done]},
            "invariants": {"lattices": [{"lattice": k} | v for k, v in halves.items()]}}


def sums(seed):
    """lattice_sum.json: the sums of |m|, |n| ≤ M, ℘ exact and ℘′ in float64 by increasing modulus, and their errors."""
    rng, cuts, sets = np.random.default_rng(seed + 3), [1, 2, 4, 8, 12, 16, 32], []
    for name in ("square", "r1.085"):
        w1, w3 = LATTICES[name]
        alphas = [0.4] * 20 + [1.0] * 14 + [2.4] * 6  # the patches, a cell, and beyond
        z = [complex(a * 2 * w1 * rng.uniform(0.02, 1), a * 2 * w3 * rng.uniform(0.02, 1)) for a in alphas]
        exact = [wp(mpc(x), mpf(w1), mpf(w3)) for x in z]
        records = [{"z_re": x.real, "z_im": x.imag, "alpha": a, "wp": rounded(p), "square": []}
                   for x, a, (p, _) in zip(z, alphas, exact)]
        for cut in cuts:
            m, n = (x.ravel() for x in np.meshgrid(*[np.arange(-cut, cut + 1)] * 2, indexing="ij"))
            order = np.lexsort((n, m, (2 * m * w1) ** 2 + (2 * n * w3) ** 2))[1:]  # without 0
            m, n = m[order], n[order]
            w = 2 * m * w1 + 2j * n * w3
            exactly = [mpc(2 * int(a) * mpf(w1), 2 * int(b) * mpf(w3)) for a, b in zip(m, n)]
            squares = mp.fsum(1 / (x * x) for x in exactly).real
            for x, record, (p, dp) in zip(z, records, exact):
                slope = -2 / x ** 3
                for term in -2 / (x - w) ** 3:
                    slope += term
                with mp.workdps(40):
                    d = [1 / (mpc(x) - v) for v in exactly]
                    s = 1 / mpc(x) ** 2 + mp.fsum(v * v for v in d) - squares
                    sd = -2 / mpc(x) ** 3 - 2 * mp.fsum(v ** 3 for v in d)
                record["square"].append({"M": cut, "exact_re": float(s.real), "exact_im": float(s.imag), "wpp_f64_re": slope.real,
                                         "wpp_f64_im": slope.imag, "true_err": float(abs(s - p)), "true_err_wpp": float(abs(sd - dp))})
        sets.append({"lattice": name, "omega1": w1, "omega3p": w3, "summary": {"square": [{"M": c} for c in cuts]},
                     "points": records})
    return {"lattice_sum": {"sets": sets}}


def paper(seed):
    """paper_tables.json: on 14×14 patches the correlation of distance and 1 - cosine of the features, their mean modulus, and
    coefficients of variation over the values of a sweep. κ and C_large change nothing: no patch is near enough to a pole."""
    side, (i, j) = 14, np.divmod(np.arange(196), 14)
    upper = np.triu_indices(side ** 2, 1)
    distance = np.hypot(*((k[:, None] - k)[upper] for k in ((i + .5) / side, (j + .5) / side)))

    def features(alpha, scale):
        with mp.workdps(34):
            z = [mpc(mpf(alpha) * mpf(2 * int(c) + 1) / side * OMEGA, mpf(alpha) * mpf(2 * int(r) + 1) / side * OMEGA)
                 for r, c in zip(i, j)]
            return np.array([[float(mp.tanh(mpf(scale) * t)) for v in wp(x, mpf(OMEGA), mpf(OMEGA)) for t in (v.real, v.imag)]
                             for x in z])

    def row(key, value, f):
        n = f / np.linalg.norm(f, axis=1, keepdims=True)
        return {key: value, "rho": float(np.corrcoef(distance, 1 - (n @ n.T)[upper])[0, 1]),
                "mean_abs_f": float(np.abs(f).mean())}

    alphas = [row("alpha", a, features(a, .15)) for a in (0.2, 0.4, 0.6, 0.8, 1.0, 1.2)]
    scales = [row("alpha_scale", s, features(.4, s)) for s in (.01, .05, .1, .15, .3, .5)]
    variation = lambda rows: {k: {"cv_population_std": float(np.std(x) / np.mean(x))} for k in ("rho", "mean_abs_f")  # noqa: E731
                              for x in [[r[k] for r in rows]]}
    same = [scales[3]] * 6
    return {"paper_tables": {"H": side, "W": side, "table_C_alpha": alphas, "table_D_alpha_scale": scales, "table_CV": {
        k: variation(rows) for k, rows in (("A", same), ("B", same), ("C", alphas), ("D", scales))}}}


def field(u, v, p):
    """z, ℘ and ℘′ of the surrogate, and its features."""
    x = p["omega1"] * u + p["eps_u"] * mp.sin(2 * mp.pi * u)
    y = p["omega3p"] * v + p["eps_v"] * mp.cos(2 * mp.pi * v)
    r = mp.hypot(x, y)
    least, up, vp = max(r, p["eps"]), x / p["omega1"], y / p["omega3p"]
    w = [1 / (least ** 2 + p["beta"]), -2 / (least ** 3 + p["beta"])]
    c = [mpf(0), mpf(0)]
    for k, (a, b) in enumerate(zip(p["a"], p["b"]), 1):
        ev, eu = mp.exp(-k * mp.pi * abs(vp)), mp.exp(-k * mp.pi * abs(up))
        c[0] += a * (mp.cos(k * mp.pi * up) * ev + mp.sin(k * mp.pi * vp) * eu)
        c[1] += b * k * (-mp.sin(k * mp.pi * up) * ev + mp.cos(k * mp.pi * vp) * eu)
    parts = [w[0] * x / r + c[0], w[0] * y / r + p["eta"] * c[0], w[1] * x / r + c[1], w[1] * y / r + p["eta_p"] * c[1]]
    return [x, y, *parts], [mp.tanh(p["alpha"] * t) for t in parts]


def surrogate_grid(task):
    s, rows, cols = task
    with mp.workdps(50):
        p = {k: [mpf(x) for x in v] if isinstance(v, list) else mpf(v) for k, v in s.items() if k not in ("id", "K")}
        h, uv = mpf(10) ** -15, [(mpf((j + .5) / cols), mpf((i + .5) / rows)) for i in range(rows) for j in range(cols)]

        def moved(name, by):
            if name in p:
                return p | {name: p[name] + by}
            k = int(name[1:]) - 1
            return p | {name[0]: [x + by * (i == k) for i, x in enumerate(p[name[0]])]}

        slopes = {}
        for name in ["omega3p", "beta", "alpha", "a1", "a2", "a3", "b1", "b2", "b3"]:
            up, down = moved(name, h), moved(name, -h)
            slopes[name] = [float(sum((field(u, v, up)[1][c] - field(u, v, down)[1][c]) / (2 * h) for u, v in uv)) for c in range(4)]
        return {"set": s["id"], "H": rows, "W": cols, "grad_per_channel": slopes, "columns":
                ["z_re", "z_im", "re", "im", "re_deriv", "im_deriv", "f1", "f2", "f3", "f4"],
                "points": [[float(x) for x in sum(field(u, v, p), [])] for u, v in uv]}


def surrogate(seed):
    """surrogate.json: the field of the fine-tuning surrogate, and derivatives of the sums of its four features."""
    with Pool() as pool:
        grids = pool.map(surrogate_grid, [(s, *g) for s in SURROGATES for g in ((14, 14), (7, 21), (1, 1))
                                          if s["id"] in ("A", "D_edge") or g == (1, 1)], chunksize=1)
    return {"surrogate": {"sets": SURROGATES, "grids": grids}}


def laurent(w1, w3):
    """℘ - 1/z² and ℘′ + 2/z³ as functions of arrays in the cell around 0: its series near 0, else rows in float64."""
    i = invariants(mpf(w1), mpf(w3), mp.mp.prec)
    c = {2: i["g2"] / 20, 3: i["g3"] / 28}
    for k in range(4, 24):
        c[k] = 3 / mpf((2 * k + 1) * (k - 3)) * sum(c[m] * c[k - m] for m in range(2, k - 1))
    series = np.polynomial.Polynomial([float(c.get(p // 2 + 1, 0)) if p % 2 == 0 else 0 for p in range(46)])

    def rows(z):
        x, y, a, b = (z.real, z.imag, w1, w3) if w3 >= w1 else (z.imag, -z.real, w3, w1)  # ℘(z; ω1, ω3) = -℘(-iz; ω3′, iω1)
        k, s, d = math.pi / (2 * a), np.full(z.shape, -1 / 3, complex), np.zeros(z.shape, complex)
        for n in range(9, -1, -1):
            for sign in (1, -1) if n else (1,):
                v = k * (x + 1j * (y - sign * 2 * n * b))
                i = 1 / np.sin(v)
                s, d = s + i * i, d + i ** 3 * np.cos(v)
            if n and 2 * k * n * b < 350:
                s += 2 / math.sinh(2 * k * n * b) ** 2
        return (k * k * s, -2 * k ** 3 * d) if w3 >= w1 else (-k * k * s, -2j * k ** 3 * d)

    def regular(z):
        near = np.abs(z) < 0.7 * min(w1, w3)
        p, d = series(z), series.deriv()(z)
        q, e = rows(z[~near])
        p[~near], d[~near] = q - 1 / z[~near] ** 2, e + 2 / z[~near] ** 3
        return p, d
    return regular


def tables(seed):
    """lut.json: errors of bilinear tables of ℘ and ℘′ without their poles, by resolution: the pole at 0, for α = 1 at four
    corners."""
    rng, out = np.random.default_rng(seed + 6), []
    parts = lambda p, d: np.stack([p.real, p.imag, d.real, d.imag], -1)  # noqa: E731
    for name in ("square", "r1.085"):
        w1, w3 = LATTICES[name]
        regular = laurent(w1, w3)
        for alpha in (0.4, 1.0):
            corners = np.array([0, 2 * w1, 2j * w3, 2 * w1 + 2j * w3])[:1 if alpha < 1 else 4]

            def without_poles(z):
                nearest = np.argmin(np.abs(z[..., None] - corners), -1)
                p, d = regular(z - corners[nearest])
                for k, c in enumerate(corners):
                    far = nearest != k
                    p[far], d[far] = p[far] - 1 / (z[far] - c) ** 2, d[far] + 2 / (z[far] - c) ** 3
                return p, d

            queries = {str(n): ((np.arange(n * n) % n + .5) / n, (np.arange(n * n) // n + .5) / n) for n in (14, 24, 37, 64)}
            queries |= {f"random_in_{n}x{n}_hull": rng.uniform(.5 / n, 1 - .5 / n, (2, 40000)) for n in (14, 64)}
            for r in (64, 256):
                g = np.arange(r) / (r - 1) * 2 * alpha
                table = parts(*without_poles(g[None, :] * w1 + 1j * g[:, None] * w3))
                for query, (u, v) in queries.items():
                    z = 2 * alpha * (u * w1 + 1j * v * w3)
                    poles = parts(sum(1 / (z - c) ** 2 for c in corners), sum(-2 / (z - c) ** 3 for c in corners))
                    x, y = u * (r - 1), v * (r - 1)
                    i, j = np.minimum(x.astype(int), r - 2), np.minimum(y.astype(int), r - 2)
                    a, b = (x - i)[:, None], (y - j)[:, None]
                    got = poles + (1 - b) * ((1 - a) * table[j, i] + a * table[j, i + 1]) + b * (
                        (1 - a) * table[j + 1, i] + a * table[j + 1, i + 1])
                    want = poles + parts(*without_poles(z))
                    f = np.abs(np.tanh(.15 * got) - np.tanh(.15 * want))
                    error = [np.hypot(*(got - want)[:, k:k + 2].T) for k in (0, 2)]
                    relative = [e / np.maximum(np.hypot(*want[:, k:k + 2].T), 1e-99) for e, k in zip(error, (0, 2))]  # ℘ has zeros
                    out.append({"lattice": name, "alpha": alpha, "R": r, "table":
                                "deflated_origin" if alpha < 1 else "deflated_four_corners", "query": query, "f_max": f.max(),
                                "f_mean": f.mean(), "wp_rel_max": relative[0].max(), "wp_rel_mean": relative[0].mean(),
                                "wpp_rel_max": relative[1].max(), "wpp_rel_mean": relative[1].mean(),
                                "wp_abs_median": float(np.median(error[0]))})
    return {"lut": {"alpha_scale": .15, "rows": out}}


def rows(seed):
    """row_sum.json: pairs of rows after which the errors of ℘ and ℘′ are below the precision, at points of the cell."""
    counts = []
    with mp.workdps(30):
        for ratio in (0.125, 0.25, 0.4138, 0.5, 0.8, 1.0, 1.25, 2.0, 4.0, 8.0):
            w1, w3 = mpf(OMEGA), mpf(OMEGA) * mpf(ratio)
            z = [mpc(x * w1, y * w3) for x in (0.02, 0.3, 0.7, 0.999) for y in (0.02, 0.5, 0.999)]
            i = invariants(w1, w3, mp.mp.prec)
            size, exact = i["e1"] - i["e3"], [wp(x, w1, w3) for x in z]
            for along in "hv":
                row = {"ratio_w3p_over_w1": ratio, "row_spacing_over_row_period": ratio if along == "h" else 1 / ratio,
                       "N_float32": None, "N_float64": None}
                for n in range(40):
                    worst = max(abs(a - b) / max(abs(b), least) for x, e in zip(z, exact) for a, b, least in zip(
                        wp(x, w1, w3, along, n), e, (size, size ** mpf(1.5))))
                    for name, digits in (("N_float32", 24), ("N_float64", 53)):
                        if row[name] is None and worst < mpf(2) ** -digits:
                            row[name] = n
                    if row["N_float64"] is not None:
                        break
                counts.append(row)
    return {"row_sum": {"row_counts": counts}}


def main():
    a = arguments(__doc__)
    out = a.out / "weierstrass"
    out.mkdir(parents=True, exist_ok=True)
    for part in (points, sums, paper, surrogate, tables, rows):
        for name, content in part(a.seed).items():
            (out / f"{name}.json").write_text(json.dumps(content))


if __name__ == "__main__":
    main()
