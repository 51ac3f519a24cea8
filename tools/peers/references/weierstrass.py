# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Reference data for Weierstrass elliptic functions on rectangular lattices.

Depends only on the Python standard library, mpmath and numpy.

    python weierstrass.py --out DIR [--config CONFIG.json] [--only wp,inv,sum,paper,grid,sur,lut,add,rows] [--jobs 2]

Conventions
-----------
half-periods  omega1 > 0 (real), omega3 = i*omega3p (omega3p > 0)
lattice       L = {2 m omega1 + 2 n omega3}
wp(z)         = 1/z^2 + sum'_w (1/(z-w)^2 - 1/w^2),   wp'(z) = -2 sum_w 1/(z-w)^3

Every number that a tested program receives as *input* (omega1, omega3p, re z,
im z, u, v, ...) is a float64 and is used here EXACTLY (its binary value is
taken as an exact rational).  JSON numbers are shortest-round-trip decimals, so
parsing them as float64 gives the same bits back.  Output values are given as
decimal strings with 30 significant digits and as the nearest float64.

Precision: base 60 digits; numerical differentiation 120 digits.

`config` is a JSON object; the built-in DEFAULT below generates the published data.
"""
import argparse, json, math, os, sys, time
from functools import lru_cache
from multiprocessing import Pool

import mpmath as mp
import numpy as np
from mpmath import mpf, mpc

DPS = 60        # base working precision (decimal digits)
DPS_DIFF = 120  # for numerical differentiation
mp.mp.dps = DPS
W1_LEMN = float(mp.gamma(mpf(1) / 4) ** 2 / (2 * mp.sqrt(2 * mp.pi)))

DEFAULT = {
    "name": "public",
    "seed": 20240611,
    # (id, omega1, omega3p); None -> lemniscatic omega1
    "lattices": [["square", None, 1.0], ["r0.25", None, 0.25], ["r0.5", None, 0.5],
                 ["r0.8", None, 0.8], ["r1.085", None, "1.085"], ["r1.25", None, 1.25],
                 ["r2", None, 2.0], ["r4", None, 4.0]],
    "sum_lattices": ["square", "r1.085"],
    "add_lattices": ["square", "r0.5", "r1.085", "r2"],
    "n_add": 60,
    "surrogate": [
        {"id": "A", "omega1": None, "omega3p": 1.085, "eps_u": 0.05, "eps_v": 0.05, "eps": 1e-6,
         "beta": 0.1, "gamma": 0.1, "K": 3, "eta": 0.5, "eta_p": 0.5, "alpha": 0.15},
        {"id": "B", "omega1": None, "omega3p": 2.622, "eps_u": 0.05, "eps_v": 0.05, "eps": 1e-6,
         "beta": 0.610, "gamma": 0.1, "K": 3, "eta": 0.5, "eta_p": 0.5, "alpha": 1.0},
        {"id": "C", "omega1": None, "omega3p": 1.085, "eps_u": 0.05, "eps_v": 0.05, "eps": 1e-6,
         "beta": 0.610, "gamma": 0.1, "K": 3, "eta": 0.5, "eta_p": 0.5, "alpha": 1.0},
        # edge-case set: active radius clamp, negative u' and v' (|u'|, |v'| branches), eta != eta'
        {"id": "D_edge", "omega1": None, "omega3p": 1.085, "eps_u": -0.55, "eps_v": -0.3, "eps": 0.75,
         "beta": 0.1, "gamma": 0.1, "K": 3, "eta": 0.5, "eta_p": -0.25, "alpha": 0.15}],
    "surrogate_grids": [[14, 14], [24, 24], [7, 21], [1, 1]],   # [H, W]
    "lut_lattices": ["square", "r1.085"], "lut_alphas": [0.4, 1.0],
    "lut_R": [64, 128, 256, 512, 1024], "lut_grids": [14, 24, 37, 64],
    "paper": True, "rows": True,
    "grid_stats": [
        {"H": 7, "W": 21, "omega1": None, "omega3p": 1.085, "alpha": 0.4, "alpha_scale": 0.15},
        {"H": 24, "W": 24, "omega1": None, "omega3p": 2.622, "alpha": 0.4, "alpha_scale": 0.15},
        {"H": 14, "W": 14, "omega1": None, "omega3p": 1.085, "alpha": 0.4, "alpha_scale": 0.15},
        {"H": 16, "W": 9, "omega1": None, "omega3p": 2.1, "alpha": 0.6, "alpha_scale": 0.05},
        {"H": 1, "W": 1, "omega1": None, "omega3p": 2.622, "alpha": 1.0, "alpha_scale": 0.15}],
}

# --------------------------------------------------------------------------
# high precision evaluation
# --------------------------------------------------------------------------

def _csc2_pair(a):
    """csc^2(a) and d/da csc^2(a) = -2 csc^2 cot, complex mp; decays safely."""
    s, c = mp.sin(a), mp.cos(a)
    i = 1 / s
    i2 = i * i
    return i2, -2 * i2 * c * i


@lru_cache(maxsize=4096)
def _row_const(per, off, prec):
    """-1/3 - sum'_{n} csc^2(pi n off/per);  per = row period, off = row offset."""
    old = mp.mp.prec
    mp.mp.prec = prec
    try:
        t, n, c = off / per, 1, -mpf(1) / 3
        while True:
            x = mp.csc(mp.pi * n * t) ** 2
            c -= 2 * x
            if abs(x) < mpf(2) ** (-prec - 8):
                return c
            n += 1
    finally:
        mp.mp.prec = old


def wp_rows(z, w1, w3p, orient="auto", nrows=None, want_d2=False):
    """wp, wp' by summing complete lattice rows.

    orient "h": rows along the real period (csc^2),
           "v": rows along the imaginary period (csch^2 after rotation),
           "auto": the faster of the two.  nrows: keep |n|<=nrows only.
    """
    z = mpc(z)
    if orient == "auto":
        orient = "h" if w3p >= w1 else "v"
    if orient == "h":
        per, off = mpc(2 * w1), mpc(0, 2 * w3p)
        n0 = int(mp.nint(z.imag / (2 * w3p)))
    else:
        per, off = mpc(0, 2 * w3p), mpc(2 * w1)
        n0 = int(mp.nint(z.real / (2 * w1)))
    z = z - n0 * off                       # exact up to working precision
    k = mp.pi / per
    a0, b = k * z, k * off
    tol = mpf(2) ** (-mp.mp.prec - 8)
    s, d = _csc2_pair(a0)
    if nrows is None:
        s += _row_const(per, off, mp.mp.prec)
        n = 1
        while True:
            p, dp = _csc2_pair(a0 - n * b)
            q, dq = _csc2_pair(a0 + n * b)
            s += p + q
            d += dp + dq
            if n > 1 and abs(p) + abs(q) + abs(dp) + abs(dq) < tol * min(1, abs(d) if d else 1):
                break
            n += 1
            if n > 4000:
                raise RuntimeError("row sum did not converge")
    else:
        s += -mpf(1) / 3
        for n in range(1, nrows + 1):
            p, dp = _csc2_pair(a0 - n * b)
            q, dq = _csc2_pair(a0 + n * b)
            s += p + q - 2 * mp.csc(n * b) ** 2
            d += dp + dq
    return k ** 2 * s, k ** 3 * d


def wp_theta(z, w1, w3p):
    """Independent formula: Jacobi theta quotients."""
    q = mp.exp(-mp.pi * w3p / w1)
    v = mp.pi * mpc(z) / (2 * w1)
    c = mp.pi / (2 * w1)
    t2, t3, t4 = (mp.jtheta(k, 0, q) for k in (2, 3, 4))
    d1 = t2 * t3 * t4                                    # theta1'(0)
    e1 = c ** 2 / 3 * (t3 ** 4 + t4 ** 4)
    T = [None] + [mp.jtheta(k, v, q) for k in (1, 2, 3, 4)]
    wp = e1 + (c * d1 * T[2] / (t2 * T[1])) ** 2
    wpp = -2 * c ** 3 * d1 ** 2 * T[2] * T[3] * T[4] / T[1] ** 3
    return wp, wpp


def invariants(w1, w3p):
    """Return dict with e1,e2,e3,g2,g3,Delta,j computed from thetas, plus
    independent Eisenstein q-series and row-sum versions of g2,g3."""
    q = mp.exp(-mp.pi * w3p / w1)
    c2 = (mp.pi / (2 * w1)) ** 2
    t2, t3, t4 = (mp.jtheta(k, 0, q) ** 4 for k in (2, 3, 4))
    e1, e2, e3 = c2 / 3 * (t3 + t4), c2 / 3 * (t2 - t4), -c2 / 3 * (t2 + t3)
    g2 = 2 * (e1 ** 2 + e2 ** 2 + e3 ** 2)
    g3 = 4 * e1 * e2 * e3
    # Eisenstein q-series with q2 = exp(2 pi i tau)
    q2 = q * q
    s3 = s5 = s1 = mpf(0)
    n = 1
    while True:
        p = q2 ** n
        t = p / (1 - p)
        s1 += n * t
        s3 += n ** 3 * t
        s5 += n ** 5 * t
        if n ** 5 * t < mpf(10) ** (-mp.mp.dps - 5):
            break
        n += 1
    E2, E4, E6 = 1 - 24 * s1, 1 + 240 * s3, 1 - 504 * s5
    g2q = 4 * c2 ** 2 / 3 * E4
    g3q = 8 * c2 ** 3 / 27 * E6
    eta1 = mp.pi ** 2 / (12 * w1) * E2
    disc = 16 * ((e1 - e2) * (e2 - e3) * (e3 - e1)) ** 2
    j = 1728 * g2 ** 3 / disc
    # row-sum Eisenstein sums (uses the vertical orientation; independent of q)
    def G(k):
        # sum'_{m,n} (2 m w1 + 2 n i w3p)^-k by vertical rows
        per = 2 * w3p
        kk = mp.pi / per
        # sum_n 1/(x + i n per)^k = (-i)^k sum_n 1/(n per - i x)^k
        def row(x):
            y = -1j * x * kk          # sum_n 1/(y + pi n)^k
            s = 1 / mp.sin(y) ** 2
            if k == 4:
                r = s * (s - mpf(2) / 3)
            else:
                r = s * (s * s - s + mpf(2) / 15)
            return (kk ** k) * r * (-1j) ** k
        tot = 2 * mp.zeta(k) / (per ** k) * (-1j) ** k
        m = 1
        while True:
            r = row(2 * m * w1)
            tot += 2 * r
            if abs(r) < mpf(10) ** (-mp.mp.dps - 5):
                break
            m += 1
        return tot.real
    return dict(e1=e1, e2=e2, e3=e3, g2=g2, g3=g3, g2_q=g2q, g3_q=g3q,
                g2_rows=60 * G(4), g3_rows=140 * G(6), disc=disc, j=j, eta1=eta1,
                eta3_im=(eta1 * w3p - mp.pi / 2) / w1)


def zeta_w(z, w1, w3p):
    """Weierstrass zeta for the closed-form period derivative check."""
    inv = _inv_cached(w1, w3p, mp.mp.prec)
    k = mp.pi / (2 * w1)
    z = mpc(z)
    n0 = int(mp.nint(z.imag / (2 * w3p)))
    zr = z - mpc(0, 2 * w3p * n0)
    q = mp.exp(-mp.pi * w3p / w1)
    v = k * zr
    s = inv["eta1"] * zr / w1 + k * mp.cot(v)
    n = 1
    while True:
        t = q ** (2 * n) / (1 - q ** (2 * n)) * mp.sin(2 * n * v)
        s += 4 * k * t
        if abs(q ** (2 * n)) * mp.exp(2 * n * abs(v.imag)) < mpf(2) ** (-mp.mp.prec - 8):
            break
        n += 1
    return s + 2 * n0 * mpc(0, inv["eta3_im"])


@lru_cache(maxsize=512)
def _inv_cached(w1, w3p, prec):
    return invariants(w1, w3p)


def dwp_domega3p_closed(z, w1, w3p):
    """Closed form (Frobenius-Stickelberger + homogeneity + Legendre):
    d wp/d omega3p at fixed z, and d wp'/d omega3p at fixed z."""
    inv = _inv_cached(w1, w3p, mp.mp.prec)
    p, dp = wp_rows(z, w1, w3p)
    zt = zeta_w(z, w1, w3p)
    eta1, g2 = inv["eta1"], inv["g2"]
    # wp_w3 = (2 w1/(pi i)) * [ 2 wp^2 + zeta wp' - g2/3 - (eta1/w1)(2 wp + z wp') ]
    X = 2 * p * p + zt * dp - g2 / 3 - eta1 / w1 * (2 * p + z * dp)
    d2 = 6 * p * p - g2 / 2
    dX = 4 * p * dp - p * dp + zt * d2 - eta1 / w1 * (3 * dp + z * d2)
    return 2 * w1 / mp.pi * X, 2 * w1 / mp.pi * dX


def direct_sum_np(z, w1, w3p, M):
    m = np.arange(-M, M + 1)
    W = (2 * m[:, None] * w1 + 2j * m[None, :] * w3p).ravel()
    W = W[W != 0]
    return 1 / z ** 2 + np.sum(1 / (z - W) ** 2 - 1 / W ** 2)


def direct_richardson(z, w1, w3p, M0=16, levels=5):
    """Square-index truncations have an error expansion in (M+1/2)^-2,-4,...
    (w -> -w symmetry); extrapolate."""
    xs, ys = [], []
    for l in range(levels):
        M = M0 * (l + 2) // 2
        xs.append(1.0 / (M + 0.5) ** 2)
        ys.append(complex(direct_sum_np(z, w1, w3p, M)))
    ys = list(ys)
    for k in range(1, levels):      # Neville at x=0
        for i in range(levels - k):
            ys[i] = ((0 - xs[i + k]) * ys[i] - (0 - xs[i]) * ys[i + 1]) / (xs[i] - xs[i + k])
    return ys[0]

# --------------------------------------------------------------------------
# float64 vectorised evaluation (used only for large tables / statistics)
# --------------------------------------------------------------------------

def csc2_cot_np(a, b, dt=np.float64):
    """Stable real arithmetic csc^2(a+ib) and csc^2*cot(a+ib).
    Requires |a| <= pi/2 (+eps) for relative accuracy near the poles."""
    a = a.astype(dt); b = b.astype(dt)
    h = dt(0.5)
    ab = np.abs(b)
    E = np.exp(-ab)
    S = np.copysign(-h * np.expm1(-ab - ab), b)      # e^-|b| sinh b
    C = h + h * (E * E)                              # e^-|b| cosh b
    sa, ca = np.sin(a), np.cos(a)
    E2 = E * E
    D = (sa * sa) * E2 + S * S                       # e^-2|b| |sin|^2
    p, q = sa * C / D, -ca * S / D                   # csc = E (p + i q)
    c2r, c2i = E2 * ((p - q) * (p + q)), E2 * (2 * (p * q))
    tr, ti = sa * ca * E2 / D, -S * C / D            # cot
    return c2r, c2i, c2r * tr - c2i * ti, c2r * ti + c2i * tr


def wp_np(z, w1, w3p, N=9):
    """float64 wp, wp' on an array of complex points (row sums, best orientation)."""
    z = np.asarray(z, dtype=np.complex128)
    x, y = z.real.copy(), z.imag.copy()
    x -= np.rint(x / (2 * w1)) * (2 * w1)
    y -= np.rint(y / (2 * w3p)) * (2 * w3p)
    swap = w3p < w1
    if swap:  # wp(z; w1,w3) = -wp(-i z; w3p, i w1) ; -i(x+iy) = y - i x
        x, y, w1, w3p = y, -x, w3p, w1
    k = math.pi / (2 * w1)
    a, t = k * x, 2 * k * w3p
    s = np.full(z.shape, -1 / 3, dtype=np.complex128)
    d = np.zeros(z.shape, dtype=np.complex128)
    for n in range(N, -1, -1):
        for sg in ((1, -1) if n else (1,)):
            r = csc2_cot_np(a, k * y - sg * n * t)
            s += r[0] + 1j * r[1]
            d += r[2] + 1j * r[3]
        if n:
            s += 2.0 / math.sinh(n * t) ** 2 if n * t < 350 else 0.0
    p, dp = k * k * s, -2 * k ** 3 * d
    return (-p, dp * 1j) if swap else (p, dp)

# --------------------------------------------------------------------------
# helpers
# --------------------------------------------------------------------------

def clean(z, scale=None):
    """zero out components that are rounding noise (exact symmetry zeros)."""
    z = mpc(z)
    sc = abs(z) if scale is None else max(abs(z), scale)
    tiny = sc * mpf(10) ** (-42)
    return mpc(0 if abs(z.real) < tiny else z.real, 0 if abs(z.imag) < tiny else z.imag)


def sd(x, n=30):
    return mp.nstr(mpf(x), n, strip_zeros=False, min_fixed=-3, max_fixed=6) if x != 0 else "0.0"


def cx(z, scale=None):
    z = clean(z, scale)
    return {"re": sd(z.real), "im": sd(z.imag), "re64": float(z.real), "im64": float(z.imag)}


def lattices(cfg):
    out = {}
    for lid, w1, r in cfg["lattices"]:
        w1 = W1_LEMN if w1 is None else float(w1)
        w3p = float(r) if isinstance(r, str) else w1 * float(r)
        out[lid] = (w1, w3p)
    return out


def jd(o, **k):
    """json.dumps with non-finite floats replaced by null."""
    def san(x):
        if isinstance(x, dict):
            return {a: san(b) for a, b in x.items()}
        if isinstance(x, (list, tuple)):
            return [san(b) for b in x]
        if isinstance(x, float) and not math.isfinite(x):
            return None
        return x
    return json.dumps(san(o), allow_nan=False, **k)


def dump(path, head, key, rows):
    with open(path, "w") as f:
        f.write("{\n")
        for k, v in head.items():
            f.write(" %s: %s,\n" % (jd(k), jd(v)))
        f.write(' "%s": [\n' % key)
        f.write(",\n".join("  " + jd(r) for r in rows))
        f.write("\n ]\n}\n")


def dumpj(path, obj):
    with open(path, "w") as f:
        f.write(jd(obj, indent=1) + "\n")

# --------------------------------------------------------------------------
# 1. wp_points
# --------------------------------------------------------------------------

def make_points(w1, w3p, rng):
    P = []
    def add(cat, x, y):
        x, y = float(x), float(y)
        P.append((cat, x, y))
    for e in (1e-6, 3e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1):
        th = rng.uniform(0, 2 * math.pi)
        add("near_pole_origin", e * math.cos(th), e * math.sin(th))
    for (hx, hy) in ((w1, 0.0), (0.0, w3p), (w1, w3p)):
        add("half_period", hx, hy)
        for e in (1e-8, 1e-3):
            th = rng.uniform(0, 2 * math.pi)
            add("near_half_period", hx + e * math.cos(th), hy + e * math.sin(th))
    for f in (0.07, 0.9, 1.7):
        add("real_axis", f * w1 * rng.uniform(.95, 1.05), 0.0)
        add("imag_axis", 0.0, f * w3p * rng.uniform(.95, 1.05))
    add("half_line", w1, w3p * rng.uniform(.2, .8))       # wp real there
    add("half_line", w1 * rng.uniform(.2, .8), w3p)
    for _ in range(10):
        add("fundamental_cell", rng.uniform(0, 2 * w1), rng.uniform(0, 2 * w3p))
    for _ in range(4):
        add("patch_grid_0.4", 0.4 * 2 * w1 * (rng.integers(14) + .5) / 14, 0.4 * 2 * w3p * (rng.integers(14) + .5) / 14)
    for (cxm, cyn) in ((1, 0), (0, 1), (1, 1), (2, 1), (1, 2), (-1, 0), (0, -1), (-1, -1), (-2, 1), (3, -2), (-5, 4)):
        add("outer_cell", (cxm + rng.uniform(.05, .95)) * 2 * w1, (cyn + rng.uniform(.05, .95)) * 2 * w3p)
    for (m, n, e) in ((1, 0, 1e-3), (0, 1, 1e-3), (1, 1, 1e-2), (-2, 1, 1e-4), (3, 3, 1e-2)):
        th = rng.uniform(0, 2 * math.pi)
        add("near_pole_outer", 2 * m * w1 + e * math.cos(th), 2 * n * w3p + e * math.sin(th))
    return P


def point_record(args):
    lid, w1f, w3f, cat, x, y, extra = args
    rel = lambda a, b: abs(a - b) / max(abs(b), mpf(10) ** -40)
    with mp.workdps(DPS_DIFF):
        w1, w3 = mpf(w1f), mpf(w3f)
        z = mpc(x, y)
        p, dp = wp_rows(z, w1, w3)
        h = mpf(10) ** -29 * w3
        a = wp_rows(z, w1, w3 + h)
        b = wp_rows(z, w1, w3 - h)
        fx = [(a[i] - b[i]) / (2 * h) for i in (0, 1)]
        zt = lambda w: mpc(z.real, z.imag * w / w3)
        a = wp_rows(zt(w3 + h), w1, w3 + h)
        b = wp_rows(zt(w3 - h), w1, w3 - h)
        td = [(a[i] - b[i]) / (2 * h) for i in (0, 1)]
        inv = _inv_cached(w1, w3, mp.mp.prec)
        g2, g3 = inv["g2_q"], inv["g3_q"]
        d2 = 6 * p * p - g2 / 2
        sc = inv["e1"] - inv["e3"]                       # natural size of wp
        ode = abs(dp ** 2 - (4 * p ** 3 - g2 * p - g3)) / (abs(dp) ** 2 + 4 * abs(p) ** 3 + abs(g2 * p) + sc ** 3)
        c1 = abs(td[0] - (fx[0] + dp * 1j * z.imag / w3)) / (abs(td[0]) + abs(fx[0]) + sc * mpf(10) ** -16)
        c2 = abs(td[1] - (fx[1] + d2 * 1j * z.imag / w3)) / (abs(td[1]) + abs(fx[1]) + sc * mpf(10) ** -16)
    chk = {"ode": ode, "chain": max(c1, c2)}
    with mp.workdps(DPS):
        w1, w3, z = mpf(w1f), mpf(w3f), mpc(x, y)
        t, dt = wp_theta(z, w1, w3)
        sc = +sc
        sc3 = sc ** mpf(1.5)                              # natural size of wp'
        chk["theta"] = max(abs(t - p) / (abs(p) + sc), abs(dt - dp) / (abs(dp) + sc3))
        o = "v" if w3 >= w1 else "h"
        t, dt = wp_rows(z, w1, w3, orient=o)
        chk["other_orientation"] = max(abs(t - p) / (abs(p) + sc), abs(dt - dp) / (abs(dp) + sc3))
        cf = dwp_domega3p_closed(z, w1, w3)
        # scale: cancellation inside the closed form is ~ |wp|^2 near a pole
        chk["closed_dw3"] = max(abs(cf[0] - fx[0]) / (abs(p) ** 2 + 1), abs(cf[1] - fx[1]) / (abs(p * dp) + 1))
        if extra:   # slower, on a subset
            with mp.workdps(80):
                md = mp.diff(lambda w: wp_rows(z, w1, w)[0], w3)
                md1 = mp.diff(lambda w: wp_rows(z, w1, w)[1], w3)
                mz = mp.diff(lambda s: wp_rows(s, w1, w3)[0], z)
                mz2 = mp.diff(lambda s: wp_rows(s, w1, w3)[1], z)
            chk["mp.diff_w3"] = max(abs(md - fx[0]) / (abs(fx[0]) + 1), abs(md1 - fx[1]) / (abs(fx[1]) + 1))
            chk["mp.diff_z"] = max(abs(mz - dp) / (abs(dp) + sc3), abs(mz2 - d2) / (abs(d2) + 1))
            zz = complex(x, y)
            if abs(zz) < 2.5 * min(w1f, w3f) and abs(zz) > 1e-2 and 0.4 < w3f / w1f < 2.6:
                r = direct_richardson(zz, w1f, w3f, 24, 6)
                chk["direct_richardson_f64"] = mpf(abs(r - complex(p))) / abs(p)
        # distance to nearest pole and conditioning
        dx = x - 2 * w1 * mp.nint(x / (2 * w1))
        dy = y - 2 * w3 * mp.nint(y / (2 * w3))
        dist = mp.sqrt(dx ** 2 + dy ** 2)
        zabs = abs(mpc(x, y))
        rec = {"lattice": lid, "cat": cat, "z_re": x, "z_im": y,
               "wp": cx(p, sc), "wpp": cx(dp, sc3),
               "d2wp_dz2": cx(d2, sc ** 2),
               "dwp_dw3_fixed": cx(fx[0], sc), "dwpp_dw3_fixed": cx(fx[1], sc3),
               "dwp_dw3_tied": cx(td[0], sc), "dwpp_dw3_tied": cx(td[1], sc3),
               "dist_to_pole": float(dist),
               "scale_wp": float(sc), "scale_wpp": float(sc3),
               "cond_wp": float(zabs * abs(dp) / max(abs(p), sc * mpf(10) ** -20)),
               "cond_wpp": float(zabs * abs(d2) / max(abs(dp), sc3 * mpf(10) ** -20))}
    return rec, {k: float(v) for k, v in chk.items()}


def gen_wp(cfg, out, jobs):
    rng = np.random.default_rng(cfg["seed"])
    tasks = []
    for lid, (w1, w3) in lattices(cfg).items():
        for i, (cat, x, y) in enumerate(make_points(w1, w3, rng)):
            tasks.append((lid, w1, w3, cat, x, y, i % 5 == 2))
    with Pool(jobs) as pool:
        res = pool.map(point_record, tasks, chunksize=8)
    worst = {}
    for (r, c) in res:
        for k, v in c.items():
            w = worst.setdefault(k, {"max": 0.0, "n": 0})
            w["n"] += 1
            w["max"] = max(w["max"], v)
    head = {"description": "wp, wp' and derivatives at exactly representable float64 points",
            "lattices": {k: {"omega1": v[0], "omega3p": v[1]} for k, v in lattices(cfg).items()},
            "cross_checks_max_relative_difference": worst, "count": len(res)}
    dump(os.path.join(out, "wp_points.json"), head, "points", [r for r, _ in res])
    print("wp_points", len(res), json.dumps(worst), flush=True)

# --------------------------------------------------------------------------
# 2. invariants
# --------------------------------------------------------------------------

def gen_inv(cfg, out):
    rows = []
    for lid, (w1f, w3f) in lattices(cfg).items():
        w1, w3 = mpf(w1f), mpf(w3f)
        I = invariants(w1, w3)
        with mp.workdps(DPS_DIFF):
            W1, W3 = mpf(w1f), mpf(w3f)
            h = mpf(10) ** -29 * W3
            A, B = invariants(W1, W3 + h), invariants(W1, W3 - h)
            der = {k: (A[k] - B[k]) / (2 * h) for k in ("g2", "g3", "e1", "e2", "e3")}
        agm1 = mp.pi / (2 * mp.agm(mp.sqrt(I["e1"] - I["e3"]), mp.sqrt(I["e1"] - I["e2"])))
        agm3 = mp.pi / (2 * mp.agm(mp.sqrt(I["e1"] - I["e3"]), mp.sqrt(I["e2"] - I["e3"])))
        wpe = [wp_rows(z, w1, w3)[0] for z in (w1, mpc(w1, w3), mpc(0, w3))]
        chk = {"g2_q_series": float(abs(I["g2_q"] / I["g2"] - 1)),
               "g3_q_series": float(abs(I["g3_q"] - I["g3"]) / (abs(I["g3"]) + I["g2"] ** mpf(1.5))),
               "g2_row_sum": float(abs(I["g2_rows"] / I["g2"] - 1)),
               "g3_row_sum": float(abs(I["g3_rows"] - I["g3"]) / (abs(I["g3"]) + I["g2"] ** mpf(1.5))),
               "e_sum": float(abs(I["e1"] + I["e2"] + I["e3"]) / I["e1"]),
               "e_vs_wp_half_periods": float(max(abs(a - I[k]) for a, k in zip(wpe, ("e1", "e2", "e3"))) / I["e1"]),
               "disc_g2g3": float(abs((I["g2"] ** 3 - 27 * I["g3"] ** 2) - I["disc"]) / I["g2"] ** 3),
               "omega1_agm": float(abs(agm1 / w1 - 1)), "omega3p_agm": float(abs(agm3 / w3 - 1))}
        r = {"lattice": lid, "omega1": w1f, "omega3p": w3f, "ratio": w3f / w1f}
        for k in ("g2", "g3", "e1", "e2", "e3", "disc", "j", "eta1", "eta3_im"):
            x = I[k] if abs(I[k]) > mpf(10) ** -45 else mpf(0)
            r[k] = sd(x)
            r[k + "_f64"] = float(x)
        for k, v in der.items():
            r["d%s_dw3" % k] = sd(v)
            r["d%s_dw3_f64" % k] = float(v)
        r["omega1_from_agm"] = sd(agm1)
        r["omega3p_from_agm"] = sd(agm3)
        r["check_relative"] = chk
        rows.append(r)
    # lemniscatic facts with the exact omega1
    G = mp.gamma(mpf(1) / 4)
    wA = G ** 2 / (2 * mp.sqrt(2 * mp.pi))
    wB = G ** 2 / (4 * mp.sqrt(mp.pi))
    IA, IB = invariants(wA, wA), invariants(wB, wB)
    lem = {"omega1=Gamma(1/4)^2/(2 sqrt(2 pi))": {"omega1": sd(wA, 40), "g2": sd(IA["g2"], 40), "g3_abs_below": float(abs(IA["g3"])), "e1": sd(IA["e1"], 40)},
           "omega1=Gamma(1/4)^2/(4 sqrt(pi))": {"omega1": sd(wB, 40), "g2": sd(IB["g2"], 40), "g3_abs_below": float(abs(IB["g3"])), "e1": sd(IB["e1"], 40)},
           "statement": "The square lattice with omega1 = omega3p = Gamma(1/4)^2/(2 sqrt(2 pi)) = 2.62205755429212 has g2 = 1/4 (g3 = 0, e1 = 1/4, e2 = 0, e3 = -1/4), not g2 = 1. g2 = 1 belongs to omega1 = Gamma(1/4)^2/(4 sqrt(pi)) = 1.85407467730137 (e1 = 1/2). 2.62205755 is the lemniscate constant varpi, the real HALF-period for g2 = 1/4 (= sqrt 2 times the half-period 1.85407467730137 of y^2 = 4x^3 - x)."}
    head = {"description": "invariants of the float64 lattices (omega1, omega3p used exactly); disc = g2^3 - 27 g3^2; j = 1728 g2^3/disc; eta1 = zeta(omega1), eta3 = i*eta3_im = zeta(omega3); d*_dw3 = derivative w.r.t. omega3p at fixed omega1",
            "lemniscatic": lem}
    dump(os.path.join(out, "invariants.json"), head, "lattices", rows)
    print("invariants", json.dumps(lem["omega1=Gamma(1/4)^2/(2 sqrt(2 pi))"]), max(max(r["check_relative"].values()) for r in rows), flush=True)

# --------------------------------------------------------------------------
# 3. lattice sums
# --------------------------------------------------------------------------

def sorted_lattice(w1, w3, M):
    m, n = np.meshgrid(np.arange(-M, M + 1), np.arange(-M, M + 1), indexing="ij")
    m, n = m.ravel(), n.ravel()
    k = (m != 0) | (n != 0)
    m, n = m[k], n[k]
    x, y = 2 * m * w1, 2 * n * w3
    r2 = x * x + y * y
    o = np.lexsort((n, m, r2))     # by r2, ties by m then n
    return m[o], n[o], x[o], y[o], np.sqrt(r2[o])


def gen_sum(cfg, out):
    rng = np.random.default_rng(cfg["seed"] + 3)
    L = lattices(cfg)
    Ms = [1, 2, 4, 8, 12, 16, 32]
    doc = {"description": "truncated direct lattice sums. square_sum: |m|,|n|<=M (eq. truncated_series), float64, terms added in modulus-sorted order (ties by m then n), 1/z^2 first; exact_sum is the same finite sum in exact arithmetic. wpp sums use -2/z^3 - 2 sum 1/(z-w)^3.",
           "sets": []}
    for lid in cfg["sum_lattices"]:
        w1, w3 = L[lid]
        pts = []
        for k in range(40):
            if k < 20:   # patch domain, alpha = 0.4
                al = 0.4
            elif k < 34:
                al = 1.0
            else:
                al = 2.4  # outside the fundamental cell
            x = al * 2 * w1 * rng.uniform(0.02, 1)
            y = al * 2 * w3 * rng.uniform(0.02, 1)
            pts.append((float(x), float(y), al))
        Zc = np.array([complex(x, y) for x, y, _ in pts])
        ex, exd = [], []
        for x, y, _ in pts:
            p, d = wp_rows(mpc(x, y), mpf(w1), mpf(w3))
            ex.append(p); exd.append(d)
        recs = [{"z_re": x, "z_im": y, "alpha": al, "wp": cx(ex[i]), "wpp": cx(exd[i]), "square": []} for i, (x, y, al) in enumerate(pts)]
        errs = np.zeros((len(Ms), 40)); errd = np.zeros((len(Ms), 40)); errc = np.zeros((len(Ms), 40))
        inv = invariants(mpf(w1), mpf(w3))
        G4, G6 = inv["g2"] / 60, inv["g3"] / 140
        for iM, M in enumerate(Ms):
            m, n, X, Y, R = sorted_lattice(w1, w3, M)
            W = X + 1j * Y
            # exact truncated Eisenstein sums for the tail-corrected variant
            Wm = [mpc(2 * int(a) * mpf(w1), 2 * int(b) * mpf(w3)) for a, b in zip(m, n)]
            i2 = [1 / (w * w) for w in Wm]
            s2 = mp.fsum(i2).real
            s4 = mp.fsum([t * t for t in i2]).real
            s6 = mp.fsum([t * t * t for t in i2]).real
            for i, z in enumerate(Zc):
                s = 1 / (z * z)
                sdv = -2 / (z * z * z)
                for t in 1 / (z - W) ** 2 - 1 / W ** 2:
                    s += t
                for t in -2 / (z - W) ** 3:
                    sdv += t
                zm = mpc(z)
                with mp.workdps(40):
                    d1 = [1 / (zm - w) for w in Wm]
                    q1 = [t * t for t in d1]
                    se = 1 / zm ** 2 + mp.fsum(q1) - s2
                    sde = -2 / zm ** 3 - 2 * mp.fsum([a * b for a, b in zip(q1, d1)])
                corr = se + 3 * zm ** 2 * (G4 - s4) + 5 * zm ** 4 * (G6 - s6)
                errs[iM, i] = float(abs(se - ex[i]))
                errd[iM, i] = float(abs(sde - exd[i]))
                errc[iM, i] = float(abs(corr - ex[i]))
                recs[i]["square"].append({"M": M, "f64_re": s.real, "f64_im": s.imag, "exact_re": float(se.real), "exact_im": float(se.imag),
                                          "wpp_f64_re": sdv.real, "wpp_f64_im": sdv.imag,
                                          "true_err": errs[iM, i], "true_err_wpp": errd[iM, i],
                                          "err_over_abs_z": errs[iM, i] / abs(z), "err_over_abs_z2": errs[iM, i] / abs(z) ** 2,
                                          "f64_vs_exact_rel": float(abs(mpc(s) - se) / abs(se))})
        x = np.log(np.array(Ms[2:]) + 0.5)
        dom = {"alpha0.4": slice(0, 20), "alpha1.0": slice(20, 34), "outside": slice(34, 40)}
        za = np.abs(Zc)
        summ = {"square": [], "orders_lsq_fit_M_ge_4": {}}
        for nm, sl in dom.items():
            summ["orders_lsq_fit_M_ge_4"][nm] = {
                "wp": float(-np.polyfit(x, np.log(errs[2:, sl].max(1)), 1)[0]),
                "wpp": float(-np.polyfit(x, np.log(errd[2:, sl].max(1)), 1)[0]),
                "wp_with_G4_G6_tail_correction": float(-np.polyfit(x, np.log(errc[2:, sl].max(1)), 1)[0])}
        for iM, M in enumerate(Ms):
            summ["square"].append({"M": M, "terms": (2 * M + 1) ** 2 - 1,
                                   "paper_style_bound_over_abs_z_Rmax_eq_2Mw1": 2 * (2 * math.pi / (4 * w1 * w3)) / (2 * M * min(w1, w3)),
                                   **{nm: {"max_err": float(errs[iM, sl].max()), "mean_err": float(errs[iM, sl].mean()),
                                           "max_err_over_abs_z": float((errs[iM, sl] / za[sl]).max()),
                                           "max_err_over_abs_z2": float((errs[iM, sl] / za[sl] ** 2).max()),
                                           "max_err_wpp": float(errd[iM, sl].max()),
                                           "max_err_tail_corrected": float(errc[iM, sl].max())} for nm, sl in dom.items()}})
        # circular truncation
        big = 420
        m, n, X, Y, R = sorted_lattice(w1, w3, big)
        lim = 2 * big * min(w1, w3)
        ok = R <= lim
        W, R = (X + 1j * Y)[ok], R[ok]
        iw2 = 1 / W ** 2
        shells = np.nonzero(np.diff(R) > 1e-9 * R[:-1])[0] + 1     # K = end of each full shell
        Ks_fixed = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000]
        Ks_fixed = [k for k in Ks_fixed if k < shells[-1]]
        Ks_shell = sorted({int(shells[np.searchsorted(shells, k)]) for k in Ks_fixed})
        allK = sorted(set(Ks_fixed) | set(Ks_shell))
        exn = np.array([complex(e) for e in ex])
        E = {}
        env_half, env_shell = {}, {}
        sel = list(range(0, 34))
        ce = np.zeros((len(sel), len(allK)))
        # error envelopes over windows [K, 1.3K] for generic cuts and full-shell cuts
        genv = np.zeros((len(sel), len(Ks_fixed))); senv = np.zeros_like(genv)
        for a, i in enumerate(sel):
            z = Zc[i]
            c = np.cumsum((1 / (z - W) ** 2 - iw2).astype(np.clongdouble)) + 1 / z ** 2
            er = np.abs(c - exn[i]).astype(float)   # er[k-1]: K=k
            ce[a] = [er[k - 1] for k in allK]
            for b, k in enumerate(Ks_fixed):
                hi = min(int(1.3 * k) + 1, len(er))
                genv[a, b] = er[k - 1:hi].max()
                sh = shells[(shells >= k) & (shells <= max(hi, shells[np.searchsorted(shells, k)]))]
                senv[a, b] = er[sh - 1].max()
        doc_c = []
        for b, k in enumerate(allK):
            doc_c.append({"K": k, "R_K": float(R[k - 1]), "full_shell": bool(k in set(shells.tolist())),
                          "paper_bound_2C/R_over_abs_z": 2 * 2 * math.pi / (4 * w1 * w3) / float(R[k - 1]),
                          "max_err_alpha0.4": float(ce[:20, b].max()), "max_err_over_abs_z_alpha0.4": float((ce[:20, b] / za[:20]).max()),
                          "max_err_alpha1.0": float(ce[20:34, b].max())})
        lk = np.log(np.array(Ks_fixed[2:-1], float))
        summ["circular"] = doc_c
        summ["circular_orders_in_K"] = {
            "claimed_by_paper": 0.5,
            "generic_cut_envelope_alpha0.4": float(-np.polyfit(lk, np.log(genv[:20, 2:-1].max(0)), 1)[0]),
            "generic_cut_envelope_alpha1.0": float(-np.polyfit(lk, np.log(genv[20:34, 2:-1].max(0)), 1)[0]),
            "full_shell_envelope_alpha0.4": float(-np.polyfit(lk, np.log(senv[:20, 2:-1].max(0)), 1)[0]),
            "full_shell_envelope_alpha1.0": float(-np.polyfit(lk, np.log(senv[20:34, 2:-1].max(0)), 1)[0]),
            "note": "slope p of max error ~ K^-p; envelopes are max error over K..1.3K. R_K ~ sqrt(K)."}
        summ["lattice"] = lid
        doc["sets"].append({"lattice": lid, "omega1": w1, "omega3p": w3, "summary": summ, "points": recs})
        print("sum", lid, json.dumps(summ["orders_lsq_fit_M_ge_4"]), json.dumps(summ["circular_orders_in_K"]), json.dumps([s for s in summ["square"] if s["M"] == 12]), flush=True)
    with open(os.path.join(out, "lattice_sum.json"), "w") as f:
        f.write("{\n \"description\": %s,\n \"sets\": [\n" % json.dumps(doc["description"]))
        for si, s in enumerate(doc["sets"]):
            f.write("  {\"lattice\": %s, \"omega1\": %r, \"omega3p\": %r,\n   \"summary\": %s,\n   \"points\": [\n" % (json.dumps(s["lattice"]), s["omega1"], s["omega3p"], jd(s["summary"])))
            f.write(",\n".join("    " + jd(r) for r in s["points"]))
            f.write("\n   ]}%s\n" % ("," if si + 1 < len(doc["sets"]) else ""))
        f.write(" ]\n}\n")

# --------------------------------------------------------------------------
# 4. paper tables
# --------------------------------------------------------------------------

def encode_grid(H, W, w1, w3, alpha, ascale):
    """features via the mp reference (rounded to float64 only at the end)."""
    F = np.zeros((H * W, 4))
    w1, w3 = mpf(w1), mpf(w3)
    a, s = mpf(alpha), mpf(ascale)
    with mp.workdps(34):
        for i in range(H):
            for j in range(W):
                z = mpc(a * (mpf(2 * j + 1) / (2 * W)) * 2 * w1, a * (mpf(2 * i + 1) / (2 * H)) * 2 * w3)
                p, d = wp_rows(z, w1, w3)
                F[i * W + j] = [float(mp.tanh(s * t)) for t in (p.real, p.imag, d.real, d.imag)]
    return F


def raw_grid(H, W, w1, w3, alpha):
    F = []
    w1, w3, a = mpf(w1), mpf(w3), mpf(alpha)
    with mp.workdps(34):
        for i in range(H):
            for j in range(W):
                z = mpc(a * (mpf(2 * j + 1) / (2 * W)) * 2 * w1, a * (mpf(2 * i + 1) / (2 * H)) * 2 * w3)
                p, d = wp_rows(z, w1, w3)
                F.append((p.real, p.imag, d.real, d.imag))
    return F


def grid_stats(F, H, W):
    j, i = np.meshgrid(np.arange(W), np.arange(H))
    u, v = ((j.ravel() + .5) / W), ((i.ravel() + .5) / H)
    n = F / np.linalg.norm(F, axis=1, keepdims=True)
    S = n @ n.T
    iu = np.triu_indices(H * W, 1)
    D = np.hypot(u[:, None] - u, v[:, None] - v)[iu]
    rho = float(np.corrcoef(D, 1 - S[iu])[0, 1])
    return {"rho": rho, "pairs": len(iu[0]), "mean_abs_f": float(np.mean(np.abs(F))), "std_f": float(F.std()),
            "std_abs_f": float(np.abs(F).std()), "sat_pct": float(100 * np.mean(np.abs(F) > .99)),
            "near_zero_pct": float(100 * np.mean(np.abs(F) < .01))}


def gen_paper(cfg, out):
    w1 = W1_LEMN
    printed = {
        "C_alpha": {"rows": [(0.2, .613, 4.464, .323), (0.4, .625, 4.488, .106), (0.6, .620, 4.473, .053), (0.8, .513, 4.469, .040), (1.0, .347, 4.556, .073), (1.2, .089, 4.478, .100)]},
        "D_alpha_scale": {"rows": [(.01, .634, 4.485, .26, 84.82), (.05, .630, 4.559, .89, 42.98), (.1, .627, 4.434, 1.40, 20.92), (.15, .625, 4.442, 1.91, 11.61), (.3, .625, 4.492, 3.32, 5.87), (.5, .626, 4.486, 4.34, 3.57)]},
        "A_kappa_loss": [4.508, 4.454, 4.471, 4.515, 4.531, 4.496], "B_clarge_loss": [4.459, 4.500, 4.476, 4.459, 4.488, 4.519],
        "CV": {"A": [0.0, .0059, 0.0], "B": [0.0, .0049, 0.0], "C": [.4175, .0070, .8230], "D": [.0049, .0091, .6610]}}
    dec = lambda s: len(s.split(".")[1]) if "." in s else 0
    def near(x, p, nd):
        return abs(x - p) <= 0.5 * 10 ** (-nd) + 1e-12
    mism = []
    doc = {"description": "14x14 grid, omega1 = omega3p = float64(Gamma(1/4)^2/(2 sqrt(2 pi))), features f = tanh(alpha_scale*[Re wp, Im wp, Re wp', Im wp']) at z = alpha*u*2*omega1 + i*alpha*v*2*omega3p; rho = Pearson(distance of patch centres, 1 - cosine of f) over all unordered pairs; std_f is the population standard deviation of all 784 entries. match_* = equal to the printed number after rounding to the printed digits.",
           "omega1": w1, "omega3p": w1, "H": 14, "W": 14, "alpha_default": 0.4, "alpha_scale_default": 0.15}
    tabC, tabD = [], []
    raw04 = None
    for a, r, l, mf in printed["C_alpha"]["rows"]:
        raw = raw_grid(14, 14, w1, w1, a)
        if a == .4:
            raw04 = raw
        F = np.array([[float(mp.tanh(mpf(0.15) * t)) for t in row] for row in raw])
        st = grid_stats(F, 14, 14)
        st = {"alpha": a, **st, "printed_rho": r, "printed_mean_abs_f": mf, "printed_proxy_loss": l,
              "match_rho": near(st["rho"], r, 3), "match_mean_abs_f": near(st["mean_abs_f"], mf, 3),
              "min_abs_z": float(a * 2 * w1 * math.sqrt(2) * .5 / 14)}
        for k in ("match_rho", "match_mean_abs_f"):
            if not st[k]:
                mism.append("alpha=%s %s: computed %s printed %s" % (a, k[6:], st[k[6:]], st["printed_" + k[6:]]))
        tabC.append(st)
    for s, r, l, sat, nz in printed["D_alpha_scale"]["rows"]:
        F = np.array([[float(mp.tanh(mpf(s) * t)) for t in row] for row in raw04])
        st = grid_stats(F, 14, 14)
        st = {"alpha_scale": s, **st, "printed_rho": r, "printed_sat_pct": sat, "printed_near_zero_pct": nz, "printed_proxy_loss": l,
              "match_rho": near(st["rho"], r, 3), "match_sat_pct": near(st["sat_pct"], sat, 2), "match_near_zero_pct": near(st["near_zero_pct"], nz, 2),
              "closest_abs_f_to_0.99": float(np.min(np.abs(np.abs(F) - .99))), "closest_abs_f_to_0.01": float(np.min(np.abs(np.abs(F) - .01)))}
        for k in ("match_rho", "match_sat_pct", "match_near_zero_pct"):
            if not st[k]:
                mism.append("alpha_scale=%s %s: computed %s printed %s" % (s, k[6:], st[k[6:]], st["printed_" + k[6:]]))
        tabD.append(st)
        if s == .15:
            dflt = st
            Fd = F
    doc["table_C_alpha"] = tabC
    doc["table_D_alpha_scale"] = tabD
    doc["tables_A_kappa_and_B_clarge"] = {"all_rows": {k: dflt[k] for k in ("rho", "mean_abs_f", "std_f", "sat_pct", "near_zero_pct")},
                                         "printed": {"rho": .6253, "mean_abs_f": .1063, "std_f": .225, "sat_pct": 1.91, "near_zero_pct": 11.61},
                                         "match": {"rho": near(dflt["rho"], .6253, 4), "mean_abs_f": near(dflt["mean_abs_f"], .1063, 4), "std_f": near(dflt["std_f"], .225, 3),
                                                   "sat_pct": near(dflt["sat_pct"], 1.91, 2), "near_zero_pct": near(dflt["near_zero_pct"], 11.61, 2)},
                                         "kappa_values": [1, 5, 15, 30, 60, 120], "eps": 1e-8, "C_large_values": [50, 200, 500, 2000, 5000, 100000]}
    cv = {}
    def CV(x, dd):
        x = np.array(x, float)
        return float(x.std(ddof=dd) / x.mean())
    src = {"A": ([dflt["rho"]] * 6, printed["A_kappa_loss"], [dflt["mean_abs_f"]] * 6),
           "B": ([dflt["rho"]] * 6, printed["B_clarge_loss"], [dflt["mean_abs_f"]] * 6),
           "C": ([t["rho"] for t in tabC], [t["printed_proxy_loss"] for t in tabC], [t["mean_abs_f"] for t in tabC]),
           "D": ([t["rho"] for t in tabD], [t["printed_proxy_loss"] for t in tabD], [t["mean_abs_f"] for t in tabD])}
    for k, cols in src.items():
        row = {}
        for nm, c, p in zip(("rho", "loss", "mean_abs_f"), cols, printed["CV"][k]):
            a, b = CV(c, 0), CV(c, 1)
            row[nm] = {"printed": p, "cv_population_std": a, "cv_sample_std": b, "match_population": near(a, p, 4), "match_sample": near(b, p, 4),
                       "source": "printed proxy losses (3 decimals; +-1e-4 slack in CV)" if nm == "loss" else "recomputed here"}
            if nm == "loss":
                slack = 0.0005 / float(np.mean(c))     # losses are printed to 3 decimals
                row[nm]["consistent_given_rounding_of_printed_losses"] = bool(abs(a - p) <= 0.5e-4 + slack)
            if not near(a, p, 4) and not (nm == "loss" and row[nm]["consistent_given_rounding_of_printed_losses"]):
                mism.append("CV sweep %s %s: population %.6f sample %.6f printed %s" % (k, nm, a, b, p))
        cv[k] = row
    doc["table_CV"] = cv
    doc["mismatches"] = mism
    doc["min_abs_z_claim"] = {"paper": "|z| >= 0.5*omega1/H = 0.094 for all patches", "0.5*omega1/H": .5 * w1 / 14,
                              "actual_min_abs_z_alpha0.4": tabC[1]["min_abs_z"], "actual_min_re_z_alpha0.4": .4 * 2 * w1 * .5 / 14, "actual_min_abs_z_alpha0.2": tabC[0]["min_abs_z"],
                              "note": "The bound quoted is not derived from the mapping z = alpha*u*2*omega1; at alpha=0.4 min|z| = 0.4*2*omega1*sqrt(2)*0.5/14 (larger than quoted), at alpha=0.2 it is smaller than quoted. In either case >> kappa*eps, so the conclusion (branch never active) holds."}
    # the default features themselves
    doc["default_features_14x14_row_major"] = [[float(x) for x in r] for r in Fd]
    doc["default_raw_14x14_row_major"] = [[float(x) for x in r] for r in raw04]
    dumpj(os.path.join(out, "paper_tables.json"), doc)
    print("paper mismatches:", json.dumps(mism), flush=True)
    print("paper CV", json.dumps(cv), flush=True)

def gen_grid(cfg, out):
    rows = []
    for g in cfg["grid_stats"]:
        w1 = W1_LEMN if g["omega1"] is None else float(g["omega1"])
        H, W = g["H"], g["W"]
        F = encode_grid(H, W, w1, g["omega3p"], g["alpha"], g["alpha_scale"])
        r = dict(g)
        r["omega1"] = w1
        if H * W > 2:
            st = grid_stats(F, H, W)
            st["rho_uv_distance"] = st.pop("rho")
            j, i = np.meshgrid(np.arange(W), np.arange(H))
            n = F / np.linalg.norm(F, axis=1, keepdims=True)
            iu = np.triu_indices(H * W, 1)
            D = np.hypot(j.ravel()[:, None] - j.ravel(), i.ravel()[:, None] - i.ravel())[iu]
            st["rho_index_distance"] = float(np.corrcoef(D, 1 - (n @ n.T)[iu])[0, 1])
            r.update(st)
        r["features_row_major"] = [[float(x) for x in f] for f in F]
        rows.append(r)
    dump(os.path.join(out, "grid_stats.json"), {"description": "features and statistics on further grids; u=(j+0.5)/W, v=(i+0.5)/H exact rationals, z = alpha*u*2*omega1 + i*alpha*v*2*omega3p, f = tanh(alpha_scale*[Re wp, Im wp, Re wp', Im wp']); rho_uv_distance uses Euclidean distance of (u,v); rho_index_distance uses Euclidean distance of (j,i); row-major, i outer."}, "grids", rows)
    print("grid_stats", len(rows), flush=True)

# --------------------------------------------------------------------------
# 5. surrogate
# --------------------------------------------------------------------------

def surrogate_point(u, v, w1, P):
    """mp evaluation; P: dict with mp entries omega3p, beta, alpha, a[], b[], ..."""
    zr = w1 * u + P["eps_u"] * mp.sin(2 * mp.pi * u)
    zi = P["omega3p"] * v + P["eps_v"] * mp.cos(2 * mp.pi * v)
    r = mp.sqrt(zr ** 2 + zi ** 2)
    rs = r if r >= P["eps"] else P["eps"]
    ct, st = zr / r, zi / r
    up, vp = zr / w1, zi / P["omega3p"]
    M = 1 / (rs ** 2 + P["beta"])
    Mp = -2 / (rs ** 3 + P["beta"])
    C = Cp = mpf(0)
    for k in range(1, len(P["a"]) + 1):
        ev, eu = mp.exp(-k * mp.pi * abs(vp)), mp.exp(-k * mp.pi * abs(up))
        C += P["a"][k - 1] * (mp.cos(k * mp.pi * up) * ev + mp.sin(k * mp.pi * vp) * eu)
    for k in range(1, len(P["b"]) + 1):
        ev, eu = mp.exp(-k * mp.pi * abs(vp)), mp.exp(-k * mp.pi * abs(up))
        Cp += P["b"][k - 1] * k * (-mp.sin(k * mp.pi * up) * ev + mp.cos(k * mp.pi * vp) * eu)
    w = (M * ct + C, M * st + P["eta"] * C, Mp * ct + Cp, Mp * st + P["eta_p"] * Cp)
    f = tuple(mp.tanh(P["alpha"] * t) for t in w)
    return zr, zi, M, C, Mp, Cp, w, f


def sur_task(args):
    S, H, W = args
    with mp.workdps(50):
        w1 = mpf(W1_LEMN if S["omega1"] is None else S["omega1"])
        ks = range(1, S["K"] + 1)
        af = [float(S["gamma"] / k ** 2) for k in ks]
        base = {"omega3p": mpf(S["omega3p"]), "beta": mpf(S["beta"]), "alpha": mpf(S["alpha"]),
                "a": [mpf(x) for x in af], "b": [mpf(x) for x in S.get("b", af)],
                "eps_u": mpf(S["eps_u"]), "eps_v": mpf(S["eps_v"]), "eps": mpf(S["eps"]), "eta": mpf(S["eta"]), "eta_p": mpf(S["eta_p"])}
        names = ["omega3p", "beta", "alpha"] + ["a%d" % k for k in ks] + ["b%d" % k for k in ks]
        def perturbed(nm, h):
            Q = dict(base)
            if nm[0] in "ab" and nm[1:].isdigit():
                key, i = nm[0], int(nm[1:]) - 1
                Q[key] = list(base[key]); Q[key][i] = Q[key][i] + h
            else:
                Q[nm] = base[nm] + h
            return Q
        h = mpf(10) ** -15
        pert = {nm: (perturbed(nm, h), perturbed(nm, -h)) for nm in names}
        grads = {nm: [mpf(0)] * 4 for nm in names}
        pts = []
        neg_v = clamp = 0
        for i in range(H):
            for j in range(W):
                u, v = mpf((j + 0.5) / W), mpf((i + 0.5) / H)      # float64 values, used exactly
                zr, zi, M, C, Mp, Cp, w, f = surrogate_point(u, v, w1, base)
                neg_v += zi < 0
                clamp += mp.sqrt(zr ** 2 + zi ** 2) < base["eps"]
                pts.append([float(x) for x in (zr, zi, M, C, Mp, Cp) + w + f])
                for nm in names:
                    A = surrogate_point(u, v, w1, pert[nm][0])[7]
                    B = surrogate_point(u, v, w1, pert[nm][1])[7]
                    for c in range(4):
                        grads[nm][c] += (A[c] - B[c]) / (2 * h)
        # check of the finite difference with mp.diff on one parameter
        chk = None
        if H * W <= 200:
            L = lambda x: sum(surrogate_point(mpf((j + 0.5) / W), mpf((i + 0.5) / H), w1, {**base, "omega3p": x})[7][0] for i in range(H) for j in range(W))
            d = mp.diff(L, base["omega3p"])
            chk = float(abs(d - grads["omega3p"][0]) / abs(d))
        return {"set": S["id"], "H": H, "W": W, "points_with_im_z_below_0": int(neg_v), "points_with_clamped_radius": int(clamp),
                "grad_per_channel": {nm: [float(x) for x in g] for nm, g in grads.items()},
                "grad_sum": {nm: float(sum(g)) for nm, g in grads.items()},
                "grad_omega3p_channel1_mp.diff_reldiff": chk,
                "columns": ["z_re", "z_im", "M", "C", "Mprime", "Cprime", "re", "im", "re_deriv", "im_deriv", "f1", "f2", "f3", "f4"],
                "points": pts}


def gen_sur(cfg, out, jobs):
    tasks = [(S, H, W) for S in cfg["surrogate"] for H, W in cfg["surrogate_grids"]]
    with Pool(jobs) as pool:
        res = pool.map(sur_task, tasks, chunksize=1)
    sets = []
    for S in cfg["surrogate"]:
        S = dict(S)
        S["omega1"] = W1_LEMN if S["omega1"] is None else S["omega1"]
        af = [float(S["gamma"] / k ** 2) for k in range(1, S["K"] + 1)]
        S["a"] = af
        S["b"] = S.get("b", af)
        sets.append(S)
    with open(os.path.join(out, "surrogate.json"), "w") as f:
        f.write("{\n \"description\": %s,\n \"sets\": %s,\n \"grids\": [\n" % (
            json.dumps("fine-tuning surrogate; float64 of 50-digit evaluation; u=(j+0.5)/W and v=(i+0.5)/H rounded to float64 first; points row-major (i outer, j inner); a_k = b_k = gamma/k^2 as listed float64; grad_per_channel[p][c] = d(sum over the grid of f_{c+1})/dp; grad_sum = sum over the four channels."), json.dumps(sets)))
        for k, r in enumerate(res):
            p = r.pop("points")
            f.write("  {" + json.dumps(r)[1:-1] + ",\n   \"points\": [\n" + ",\n".join("    " + json.dumps(x) for x in p) + "\n   ]}%s\n" % ("," if k + 1 < len(res) else ""))
        f.write(" ]\n}\n")
    print("surrogate", len(res), [(r["set"], r["H"], r["points_with_im_z_below_0"], r["points_with_clamped_radius"], r["grad_omega3p_channel1_mp.diff_reldiff"]) for r in res], flush=True)

# --------------------------------------------------------------------------
# 6. LUT study
# --------------------------------------------------------------------------

def laurent_coeffs(w1, w3, n=24):
    I = invariants(mpf(w1), mpf(w3))
    c = {2: I["g2"] / 20, 3: I["g3"] / 28}
    for k in range(4, n):
        c[k] = 3 / mpf((2 * k + 1) * (k - 3)) * sum(c[m] * c[k - m] for m in range(2, k - 1))
    return [(2 * k - 2, float(c[k])) for k in range(2, n)]


def regular_part(z, w1, w3, co):
    """wp - 1/z^2 and wp' + 2/z^3 without cancellation near z = 0 (float64)."""
    z = np.asarray(z, complex)
    r0 = 0.35 * 2 * min(w1, w3)
    near = np.abs(z) < r0
    A, B = np.zeros_like(z), np.zeros_like(z)
    zn = z[near]
    for p, c in reversed(co):
        A[near] += c * zn ** p
        B[near] += p * c * zn ** (p - 1)
    zf = z[~near]
    p, d = wp_np(zf, w1, w3)
    A[~near] = p - 1 / zf ** 2
    B[~near] = d + 2 / zf ** 3
    return A, B


def bilinear(T, u, v):
    """T[iv, iu, c]; nodes at k/(R-1)."""
    R = T.shape[0]
    x, y = u * (R - 1), v * (R - 1)
    i, j = np.minimum(x.astype(int), R - 2), np.minimum(y.astype(int), R - 2)
    a, b = (x - i)[:, None], (y - j)[:, None]
    return (1 - a) * (1 - b) * T[j, i] + a * (1 - b) * T[j, i + 1] + (1 - a) * b * T[j + 1, i] + a * b * T[j + 1, i + 1]


def gen_lut(cfg, out):
    L = lattices(cfg)
    s = 0.15
    rows, patch_dense = [], []
    rng = np.random.default_rng(cfg["seed"] + 6)
    for lid in cfg["lut_lattices"]:
        w1, w3 = L[lid]
        co = laurent_coeffs(w1, w3)
        I = invariants(mpf(w1), mpf(w3))
        esc = float(I["e1"] - I["e3"])
        for al in cfg["lut_alphas"]:
            q = {}
            for G in cfg["lut_grids"]:
                jj, ii = np.meshgrid(np.arange(G), np.arange(G))
                q[str(G)] = ((jj.ravel() + .5) / G, (ii.ravel() + .5) / G)
            q["random_in_14x14_hull"] = tuple(rng.uniform(.5 / 14, 1 - .5 / 14, (2, 40000)))
            q["random_in_64x64_hull"] = tuple(rng.uniform(.5 / 64, 1 - .5 / 64, (2, 40000)))
            corners = [0j, 2 * w1 + 0j, 2j * w3, 2 * w1 + 2j * w3]
            exact = {}
            for nm, (u, v) in q.items():
                z = al * u * 2 * w1 + 1j * al * v * 2 * w3
                p, d = wp_np(z, w1, w3)
                exact[nm] = (z, p, d)
            for R in cfg["lut_R"]:
                g = np.arange(R) / (R - 1)
                Z = al * g[None, :] * 2 * w1 + 1j * al * g[:, None] * 2 * w3
                cor = [(0, 0)] + ([(0, R - 1), (R - 1, 0), (R - 1, R - 1)] if al == 1.0 else [])
                Zs = Z.copy()
                for c in cor:
                    Zs[c] = w1 + 1j * w3       # placeholder
                P, D = wp_np(Zs, w1, w3)
                raw = np.stack([P.real, P.imag, D.real, D.imag], -1)
                tabs = {}
                def with_corner(fn):
                    T = raw.copy()
                    for (a, b) in cor:
                        T[a, b] = fn(a, b, T)
                    return T
                sgn = lambda k: 1 if k == 0 else -1
                nb = lambda a, b, T: T[a + sgn(a), b + sgn(b)]
                ext = lambda a, b, T: T[a + sgn(a), b] + T[a, b + sgn(b)] - T[a + sgn(a), b + sgn(b)]
                tabs["raw_corner_copy_diagonal_neighbour"] = with_corner(nb)
                tabs["raw_corner_zero"] = with_corner(lambda a, b, T: np.zeros(4))
                tabs["raw_corner_Clarge_500"] = with_corner(lambda a, b, T: np.full(4, 500.0))
                tabs["raw_corner_Clarge_1e5"] = with_corner(lambda a, b, T: np.full(4, 1e5))
                tabs["raw_corner_bilinear_extrapolation"] = with_corner(ext)
                tabs["tanh_table_corner_copy_neighbour"] = np.tanh(s * with_corner(nb))
                A, B = regular_part(Z, w1, w3, co) if al < 1 else (None, None)
                if al < 1:
                    tabs["deflated_origin"] = np.stack([A.real, A.imag, B.real, B.imag], -1)
                else:
                    # nearest corner expansion so that every corner is finite
                    k = np.argmin(np.stack([np.abs(Z - c) for c in corners]), 0)
                    Zn = Z - np.array(corners)[k]
                    A, B = regular_part(Zn, w1, w3, co)
                    A1, B1 = A.copy(), B.copy()       # deflate all four corners
                    for ci, c in enumerate(corners):
                        o = k != ci
                        A1[o] -= 1 / (Z[o] - c) ** 2
                        B1[o] += 2 / (Z[o] - c) ** 3
                    tabs["deflated_four_corners"] = np.stack([A1.real, A1.imag, B1.real, B1.imag], -1)
                    # deflate the origin only; other corners copied from neighbour
                    Zo = Z.copy()
                    for c in cor[1:]:
                        Zo[c] = w1 + 1j * w3
                    nz = Zo != 0
                    A0, B0 = np.zeros_like(Z), np.zeros_like(Z)
                    A0[nz], B0[nz] = regular_part(Zo[nz], w1, w3, co)
                    T0 = np.stack([A0.real, A0.imag, B0.real, B0.imag], -1)
                    for (a, b) in cor[1:]:
                        T0[a, b] = nb(a, b, T0)
                    tabs["deflated_origin"] = T0
                for tn, T in tabs.items():
                    for nm, (u, v) in q.items():
                        z, p, d = exact[nm]
                        o = bilinear(T, u, v)
                        fe = np.tanh(s * np.stack([p.real, p.imag, d.real, d.imag], -1))
                        if tn.startswith("tanh"):
                            f = o
                            e = None
                        else:
                            ip, idd = o[:, 0] + 1j * o[:, 1], o[:, 2] + 1j * o[:, 3]
                            if tn.startswith("deflated"):
                                for c in (corners if tn == "deflated_four_corners" else corners[:1]):
                                    ip = ip + 1 / (z - c) ** 2
                                    idd = idd - 2 / (z - c) ** 3
                            f = np.tanh(s * np.stack([ip.real, ip.imag, idd.real, idd.imag], -1))
                            e = (np.abs(ip - p) / np.abs(p), np.abs(idd - d) / np.abs(d))
                            eabs = np.abs(ip - p)
                        x, y = u * (R - 1), v * (R - 1)
                        hit = np.zeros(len(u), bool)
                        for (a, b) in cor:
                            hit |= (np.abs(y - a) < 1) & (np.abs(x - b) < 1)
                        r = {"lattice": lid, "alpha": al, "R": R, "table": tn, "query": nm, "corner_cell_hits": int(hit.sum()),
                             "f_max": float(np.abs(f - fe).max()), "f_mean": float(np.abs(f - fe).mean())}
                        if e is not None:
                            r.update({"wp_rel_max": float(e[0].max()), "wp_rel_mean": float(e[0].mean()),
                                      "wp_scaled_max": float((eabs / np.maximum(np.abs(p), esc)).max()),
                                      "wp_abs_max": float(eabs.max()), "wp_abs_median": float(np.median(eabs)),
                                      "wpp_rel_max": float(e[1].max()), "wpp_rel_mean": float(e[1].mean())})
                        rows.append(r)
    # convergence orders between consecutive R
    idx = {(r["lattice"], r["alpha"], r["table"], r["query"], r["R"]): r for r in rows}
    orders = []
    Rs = cfg["lut_R"]
    for key in sorted({k[:4] for k in idx}, key=str):
        o = {"lattice": key[0], "alpha": key[1], "table": key[2], "query": key[3]}
        for met in ("f_max", "f_mean", "wp_rel_max", "wp_rel_mean"):
            if met in idx[key + (Rs[0],)]:
                e = [idx[key + (R,)][met] for R in Rs]
                o[met + "_order"] = [round(math.log(e[i] / e[i + 1]) / math.log((Rs[i + 1] - 1) / (Rs[i] - 1)), 2) if e[i + 1] > 0 else None for i in range(len(e) - 1)]
        orders.append(o)
    # float64 table generator check against mp
    chk = 0.0
    for lid in cfg["lut_lattices"]:
        w1, w3 = L[lid]
        zz = rng.uniform(0.01, 1, 60) * 2 * w1 + 1j * rng.uniform(0.01, 1, 60) * 2 * w3
        p, d = wp_np(zz, w1, w3)
        for k in range(60):
            P, D = wp_rows(mpc(zz[k]), mpf(w1), mpf(w3))
            chk = max(chk, float(abs(mpc(p[k]) - P) / (abs(P) + mpf(.01))), float(abs(mpc(d[k]) - D) / (abs(D) + mpf(.01))))
    head = {"description": "bilinear look-up-table error against the exact value. Nodes at u=i/(R-1), v=j/(R-1), z = alpha*u*2*omega1 + i*alpha*v*2*omega3p; f = tanh(0.15*[...]). f_max/f_mean over all query points and the 4 channels (absolute); wp_rel = |dwp|/|wp| (normwise complex; meaningless where wp is ~0, e.g. the centre patch of odd grids at alpha=1 on the square lattice, where wp(w1+w3)=0); wp_scaled_max = max |dwp|/max(|wp|, e1-e3); corner_cell_hits = queries whose interpolation stencil contains a pole corner. raw_* tables store wp,wp'; tanh_table stores compressed features; deflated_origin stores wp-1/z^2, wp'+2/z^3 (corner value 0) and adds the principal part exactly at query; deflated_four_corners does that for 0, 2w1, 2w3, 2w1+2w3.",
            "alpha_scale": s, "float64_evaluator_vs_reference_max_rel": chk, "orders": orders}
    dump(os.path.join(out, "lut.json"), head, "rows", rows)
    print("lut rows", len(rows), "check", chk, flush=True)

# --------------------------------------------------------------------------
# 7. addition
# --------------------------------------------------------------------------

def gen_add(cfg, out):
    rng = np.random.default_rng(cfg["seed"] + 7)
    L = lattices(cfg)
    recs, worst = [], 0.0
    n = cfg["n_add"]
    for k in range(n):
        lid = cfg["add_lattices"][k % len(cfg["add_lattices"])]
        w1, w3 = L[lid]
        z1 = complex(rng.uniform(.05, .95) * 2 * w1, rng.uniform(.05, .95) * 2 * w3)
        kind = "generic"
        if k >= n // 2 and k < (n * 5) // 6:
            e = 10.0 ** -(1 + (k - n // 2) % 10)
            th = rng.uniform(0, 2 * math.pi)
            z2 = z1 + e * complex(math.cos(th), math.sin(th))
            kind = "near_equal"
        elif k >= (n * 5) // 6:
            e = 10.0 ** -(1 + (k % 5))
            th = rng.uniform(0, 2 * math.pi)
            z2 = -z1 + e * complex(math.cos(th), math.sin(th))
            kind = "near_opposite"
        else:
            z2 = complex(rng.uniform(-.95, .95) * 2 * w1, rng.uniform(-.95, .95) * 2 * w3)
        m1, m3 = mpf(w1), mpf(w3)
        Z1, Z2 = mpc(z1), mpc(z2)
        a, da = wp_rows(Z1, m1, m3)
        b, db = wp_rows(Z2, m1, m3)
        s, ds = wp_rows(Z1 + Z2, m1, m3)
        lam = (da - db) / (a - b)
        f = lam ** 2 / 4 - a - b
        fd = -(lam * (f - a) + da)          # wp'(z1+z2) from the chord
        w_ = max(float(abs(f - s) / abs(s)), float(abs(fd - ds) / (abs(ds) + abs(da))))
        if kind == "generic":
            worst = max(worst, w_)
        A, DA, B, DB = complex(a), complex(da), complex(b), complex(db)
        l64 = (DA - DB) / (A - B) if A != B else complex("nan")
        f64 = .25 * l64 ** 2 - A - B
        g2 = invariants(m1, m3)["g2"]
        zmid = (Z1 + Z2) / 2
        r = {"lattice": lid, "omega1": w1, "omega3p": w3, "kind": kind, "z1": [z1.real, z1.imag], "z2": [z2.real, z2.imag],
             "abs_diff": abs(z1 - z2), "wp_z1": cx(a), "wpp_z1": cx(da), "wp_z2": cx(b), "wpp_z2": cx(db),
             "wp_sum": cx(s), "wpp_sum": cx(ds), "formula_vs_direct_rel_60_digits": w_,
             "float64_formula_rel_err": float(abs(mpc(f64) - s) / abs(s)),
             "cancellation_wp": float((abs(a) + abs(b)) / abs(a - b)), "cancellation_wpp": float((abs(da) + abs(db)) / abs(da - db)),
             "cancellation_final": float((abs(lam) ** 2 / 4 + abs(a) + abs(b)) / abs(s))}
        if kind == "near_equal":
            # alternative: midpoint duplication wp(2m) = -2wp + (wp''/wp')^2/4, exact since z1+z2 = 2m
            pm, dm = wp_rows(zmid, m1, m3)
            PM, DM = complex(pm), complex(dm)
            d64 = -2 * PM + .25 * ((6 * PM * PM - float(g2) / 2) / DM) ** 2
            r["float64_midpoint_duplication_rel_err"] = float(abs(mpc(d64) - s) / abs(s))
            dup = -2 * A + .25 * ((6 * A * A - float(g2) / 2) / DA) ** 2
            r["float64_duplication_at_z1_rel_err_O(diff)"] = float(abs(mpc(dup) - s) / abs(s))
        recs.append(r)
    ne = [r for r in recs if r["kind"] == "near_equal"]
    head = {"description": "addition formula wp(z1+z2) = -wp1 - wp2 + 1/4 ((wp1'-wp2')/(wp1-wp2))^2 and wp'(z1+z2) = -(lam (wp(z1+z2) - wp1) + wp1'), lam = (wp1'-wp2')/(wp1-wp2). z1+z2 is the exact sum of the listed float64 values.",
            "max_rel_diff_generic_60_digits": worst,
            "conditioning": "Relative error of the float64 formula ~ eps*(cancellation_wp + cancellation_wpp)*cancellation_final. With z2 = z1 + d the differences wp1-wp2, wp1'-wp2' are O(d), so the float64 error grows like eps/|d|: use duplication (with the midpoint (z1+z2)/2, which is exact) below |d| ~ 1e-5. With z2 -> -z1 the sum is near a pole: wp1-wp2 = O(d) and the result ~ 1/d^2; relative error again ~ eps/|d|.",
            "near_equal_float64_error_vs_distance": sorted([[r["abs_diff"], r["float64_formula_rel_err"], r["float64_midpoint_duplication_rel_err"]] for r in ne], reverse=True)}
    dump(os.path.join(out, "addition.json"), head, "pairs", recs)
    print("addition", len(recs), worst, json.dumps(head["near_equal_float64_error_vs_distance"]), flush=True)

# --------------------------------------------------------------------------
# 8. row counts and float32 arithmetic
# --------------------------------------------------------------------------

def gen_rows(cfg, out):
    ratios = [0.125, 0.25, 0.4138, 0.5, 0.8, 1.0, 1.25, 2.0, 4.0, 8.0]
    tab = []
    w1 = mpf(W1_LEMN)
    with mp.workdps(30):
        for r in ratios:
            w3 = w1 * mpf(r)
            # worst points: cell boundary and interior
            pts = [mpc(fx * w1, fy * w3) for fx in (0.02, 0.3, 0.7, 0.999) for fy in (0.02, 0.5, 0.999)]
            I = invariants(w1, w3)
            sc = I["e1"] - I["e3"]
            ex = [wp_rows(z, w1, w3) for z in pts]
            for o in ("h", "v"):
                t = r if o == "h" else 1 / r
                row = {"ratio_w3p_over_w1": r, "orientation": o, "row_spacing_over_row_period": t, "err": []}
                n32 = n64 = None
                for N in range(0, 40):
                    e = [wp_rows(z, w1, w3, orient=o, nrows=N) for z in pts]
                    ew = max(abs(a[0] - b[0]) / max(abs(b[0]), sc) for a, b in zip(e, ex))
                    ed = max(abs(a[1] - b[1]) / max(abs(b[1]), sc ** mpf(1.5)) for a, b in zip(e, ex))
                    m = max(ew, ed)
                    row["err"].append([N, float(ew), float(ed)])
                    if n32 is None and m < mpf(2) ** -24:
                        n32 = N
                    if n64 is None and m < mpf(2) ** -53:
                        n64 = N
                        break
                row["N_float32"], row["N_float64"] = n32, n64
                row["bound_formula"] = "4*exp(-pi*(2N+1)*t), t = row spacing/row period, z reduced to the cell centred at 0"
                tab.append(row)
    # float32 csc^2
    rng = np.random.default_rng(12345)
    f32 = np.float32
    n = 100000
    a = rng.uniform(-math.pi / 2, math.pi / 2, n)
    b = rng.uniform(-3, 3, n)
    k = n // 4
    rr = 10.0 ** rng.uniform(-12, 0, k); th = rng.uniform(0, 2 * math.pi, k)
    a[:k], b[:k] = rr * np.cos(th), rr * np.sin(th)                 # near pole
    b[k:2 * k] = rng.choice([-1, 1], k) * rng.uniform(3, 120, k)     # far rows, cosh overflows beyond 89
    a, b = a.astype(f32), b.astype(f32)
    # reference: float64 with the stable formula is ~1e-15 accurate (checked against mp below)
    R = csc2_cot_np(a, b, np.float64)
    chk = 0.0
    for i in rng.integers(0, n, 400):
        with mp.workdps(40):
            A = mpc(float(a[i]), float(b[i]))
            s = mp.csc(A) ** 2
            c = s * mp.cot(A)
            chk = max(chk, float(abs(mpc(R[0][i], R[1][i]) - s) / abs(s)), float(abs(mpc(R[2][i], R[3][i]) - c) / abs(c)))
    def naive(a, b):
        with np.errstate(all="ignore"):
            s, c = np.sin(a), np.cos(a)
            ch, sh = np.cosh(b), np.sinh(b)
            p, q = s * ch, c * sh
            D = p * p + q * q
            ir, ii = p / D, -q / D
            c2r, c2i = ir * ir - ii * ii, 2 * ir * ii
            cr, ci = c * ch, -s * sh
            tr, ti = cr * ir - ci * ii, cr * ii + ci * ir
            return c2r, c2i, c2r * tr - c2i * ti, c2r * ti + c2i * tr
    def naive_clamped(a, b):
        return naive(a, np.clip(b, f32(-20), f32(20)))
    def double_angle(a, b):
        with np.errstate(all="ignore"):
            # csc^2 = 2(1 - cos2a cosh2b - i sin2a sinh2b)... / (cosh2b - cos2a)^2
            c2, s2, C, S = np.cos(2 * a), np.sin(2 * a), np.cosh(2 * b), np.sinh(2 * b)
            D = C - c2
            c2r, c2i = f32(2) * (f32(1) - c2 * C) / (D * D), f32(-2) * s2 * S / (D * D)
            tr, ti = s2 / D, -S / D
            return c2r, c2i, c2r * tr - c2i * ti, c2r * ti + c2i * tr
    def exp_form(a, b):
        with np.errstate(all="ignore"):
            # -4 w/(1-w)^2 with w = exp(2i(a+ib)) for b>=0 (conjugate symmetry otherwise)
            ab = np.abs(b)
            m = np.exp(-2 * ab)
            wr, wi = m * np.cos(2 * a), m * np.sin(2 * a)
            ur, ui = f32(1) - wr, -wi
            D = ur * ur + ui * ui
            ir, ii = ur / D, -ui / D
            kr, ki = ir * ir - ii * ii, 2 * ir * ii
            c2r, c2i = -4 * (wr * kr - wi * ki), -4 * (wr * ki + wi * kr)
            vr, vi = f32(1) + wr, wi
            # cot = i (w+1)/(w-1) = -i (1+w)/(1-w)
            tr0, ti0 = vr * ir - vi * ii, vr * ii + vi * ir
            tr, ti = ti0, -tr0
            d0, d1 = c2r * tr - c2i * ti, c2r * ti + c2i * tr
            sg = np.where(b < 0, f32(-1), f32(1))
            return c2r, sg * c2i, d0, sg * d1
    res = {}
    reg = {"near_pole(|z|<1)": slice(0, k), "far_rows(3<|b|<120)": slice(k, 2 * k), "generic(|b|<3)": slice(2 * k, n)}
    tiny = 1.1754944e-38
    with np.errstate(all="ignore"):
        for nm, fn in (("stable_expm1", lambda a, b: csc2_cot_np(a, b, f32)), ("naive_sin_cosh", naive), ("naive_sin_cosh_b_clamped_to_20", naive_clamped), ("double_angle", double_angle), ("exp_2iz", exp_form)):
            o = [np.asarray(x) for x in fn(a, b)]
            assert all(x.dtype == f32 for x in o), (nm, [x.dtype for x in o])
            o = [x.astype(np.float64) for x in o]
            out_ = {}
            for rn, sl in reg.items():
                m1, m2 = np.hypot(R[0], R[1])[sl], np.hypot(R[2], R[3])[sl]
                ok = (m1 > tiny) & (m1 < 1e38) & (m2 > tiny) & (m2 < 1e38)     # representable, normal
                e1 = (np.hypot(o[0] - R[0], o[1] - R[1])[sl] / m1)[ok]
                e2 = (np.hypot(o[2] - R[2], o[3] - R[3])[sl] / m2)[ok]
                tiny_bad = int((~np.isfinite(np.stack([x[sl] for x in o]))).any(0)[~ok & (m1 < 1)].sum())
                out_[rn] = {"n": int(ok.sum()), "csc2_max_abs_err_over_max(1,|csc2|)": float(np.nan_to_num(np.hypot(o[0] - R[0], o[1] - R[1])[sl] / np.maximum(1, m1), nan=9.9e9, posinf=9.9e9).max()), "csc2_max_normwise_rel": float(np.nanmax(e1)), "csc2cot_max_normwise_rel": float(np.nanmax(e2)),
                            "csc2_median": float(np.nanmedian(e1)), "nonfinite": int((~np.isfinite(e1)).sum() + (~np.isfinite(e2)).sum()), "nonfinite_where_result_underflows": tiny_bad}
            res[nm] = out_
    # end-to-end float32 wp error, lattice from the fixture set, for N rows
    e2e = []
    for lid, (w1f, w3f) in lattices(cfg).items():
        xs = rng.uniform(-w1f, w1f, 20000).astype(f32); ys = rng.uniform(-w3f, w3f, 20000).astype(f32)
        ex, exd = wp_np(xs.astype(float) + 1j * ys.astype(float), w1f, w3f)
        with mp.workdps(30):
            I = invariants(mpf(w1f), mpf(w3f))
        sc = float(I["e1"] - I["e3"])
        for N in (1, 2, 3, 4):
            W1, W3, x, y = (w1f, w3f, xs, ys) if w3f >= w1f else (w3f, w1f, ys, -xs)
            kk = math.pi / (2 * W1)
            t = 2 * kk * W3
            cst = -1 / 3 + sum(2 / math.sinh(n * t) ** 2 for n in range(1, N + 1) if n * t < 300)   # float64, once per lattice
            sr = np.full(x.shape, f32(0)); si = sr.copy(); dr = sr.copy(); di = sr.copy()
            aa, bb = (f32(kk) * x), (f32(kk) * y)
            for nn in range(N, -1, -1):
                for sg in ((1, -1) if nn else (1,)):
                    r = csc2_cot_np(aa, bb - f32(sg * nn * t), f32)
                    sr += r[0]; si += r[1]; dr += r[2]; di += r[3]
                    if nn == 0:
                        pass
            sr = sr + f32(cst)
            p = f32(kk * kk) * (sr + 1j * si.astype(np.complex64))
            d = f32(-2 * kk ** 3) * (dr + 1j * di.astype(np.complex64))
            if w3f < w1f:
                p, d = -p, d * np.complex64(1j)
            e2e.append({"lattice": lid, "ratio": w3f / w1f, "N": N, "wp_max_rel_to_max(|wp|,e1-e3)": float(np.max(np.abs(p - ex) / np.maximum(np.abs(ex), sc))),
                        "wpp_max_rel_to_max(|wpp|,(e1-e3)^1.5)": float(np.max(np.abs(d - exd) / np.maximum(np.abs(exd), sc ** 1.5)))})
    dumpj(os.path.join(out, "row_sum.json"), {
        "description": "rows |n|<=N kept (N pairs + the central row) after reducing z to the cell centred at 0. err entries: [N, wp error, wp' error], normwise relative to max(|wp|, e1-e3) resp. max(|wp'|,(e1-e3)^1.5). orientation h: rows along the real period (csc^2), v: rows along the imaginary period. float32 section: 1e5 float32 inputs (a,b) with |a|<=pi/2, normwise complex relative error of csc^2(a+ib) and csc^2*cot.",
        "row_counts": tab, "float32_reference_check_vs_mp": chk, "float32_csc2": res, "float32_end_to_end": e2e})
    for t in tab:
        print("rows", t["ratio_w3p_over_w1"], t["orientation"], t["N_float32"], t["N_float64"])
    print(json.dumps(res, indent=0), chk)
    for e in e2e:
        print(e)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", required=True)
    ap.add_argument("--config")
    ap.add_argument("--only", default="inv,wp,sum,paper,grid,sur,lut,add,rows")
    ap.add_argument("--jobs", type=int, default=2)
    a = ap.parse_args()
    cfg = dict(DEFAULT)
    if a.config:
        cfg.update(json.load(open(a.config)))
    os.makedirs(a.out, exist_ok=True)
    for w in a.only.split(","):
        t = time.time()
        if w == "inv": gen_inv(cfg, a.out)
        elif w == "wp": gen_wp(cfg, a.out, a.jobs)
        elif w == "sum": gen_sum(cfg, a.out)
        elif w == "paper" and cfg["paper"]: gen_paper(cfg, a.out)
        elif w == "sur": gen_sur(cfg, a.out, a.jobs)
        elif w == "lut": gen_lut(cfg, a.out)
        elif w == "add": gen_add(cfg, a.out)
        elif w == "grid": gen_grid(cfg, a.out)
        elif w == "rows" and cfg["rows"]: gen_rows(cfg, a.out)
        print("[%s] %.1fs" % (w, time.time() - t), flush=True)


if __name__ == "__main__":
    main()
