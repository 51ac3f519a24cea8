"""Writes sphere.json: points of the sphere from sums over rows of the lattice in 60 digits.

Neither theta functions nor a change of basis: w and w′ are what mathematics.md (14.1) to (14.3) define, from ℘ and ℘′
by (2.2) and (2.3), and the roots are ℘ at the half-periods.
"""

import json
import random
import sys

from mpmath import mp, mpc, mpf, cot, csc, pi, sqrt, root

mp.dps = 60

LATTICES = [  # omega1, Re ω3, Im ω3
    ("square", 2.6220575542921196, 0.0, 2.6220575542921196),
    ("tall", 1.3, 0.0, 2.9),
    ("wide", 2.3, 0.0, 0.9),
    ("very tall", 1.0, 0.0, 9.0),
    ("rhombic", 1.7, 0.85, 0.6),
    ("hexagonal", 2.0, 1.0, 1.7320508075688772),
    ("oblique", 1.1, 0.4, 1.3),
    ("oblique to the left", 1.9, -1.45, 0.8),
]


def weierstrass(z, w1, w3):
    k, tau, rows = pi / (2 * w1), w3 / w1, 0
    p, pp = mpf(-1) / 3, mpf(0)
    while mp.exp(-2 * pi * (rows - 1) * tau.imag) > mpf(10) ** -(mp.dps + 5):
        rows += 1
    for n in range(-rows, rows + 1):
        a = k * z - n * pi * tau
        p += csc(a) ** 2
        pp += csc(a) ** 2 * cot(a)
        if n:
            p -= csc(n * pi * tau) ** 2
    return k**2 * p, -2 * k**3 * pp


def sphere(w):
    m = abs(w) ** 2
    return [2 * w.real / (m + 1), 2 * w.imag / (m + 1), (m - 1) / (m + 1)]


def numbers(x):
    """float64, with 0 for what is 0 but for the 60 digits."""
    return [float(mp.chop(v, tol=mpf(10) ** -50)) if not isinstance(v, float) else v for v in x]


def main(path):
    random.seed(20240229)
    lattices = []
    for name, a, b, c in LATTICES:
        w1, w3 = mpc(a), mpc(b, c)
        e = [weierstrass(w, w1, w3)[0] for w in (w1, w1 + w3, w3)]
        d = [abs(e[1] - e[2]), abs(e[2] - e[0]), abs(e[0] - e[1])]
        centre = sum(x * y for x, y in zip(d, e)) / sum(d)
        scale = sqrt(2 * d[0] * d[1] * d[2] / sum(d))
        delta = 16 * (d[0] * d[1] * d[2]) ** 2
        prime = root(delta / 3, 4)
        places = [(random.uniform(-0.5, 0.5), random.uniform(-0.5, 0.5)) for _ in range(12)]
        places += [(0.0, 0.0), (1e-3, -2e-3), (1e-9, 1e-9), (3e-40, 0.0), (0.5, 0.0), (0.0, 0.5), (0.5, 0.5), (0.25, 0.25)]
        places += [(random.uniform(-3, 3), random.uniform(-3, 3)) for _ in range(4)]
        points = []
        for u, v in places:
            z = complex(2 * a * u + 2 * b * v, 2 * c * v)  # float64, as it is read
            if z == 0:
                s, t = [0, 0, 1], [0, 0, 1]
            else:
                p, pp = weierstrass(mpc(z), w1, w3)
                s, t = sphere((p - centre) / scale), sphere(pp / prime)
            points.append({"z": numbers([z.real, z.imag]), "point": numbers(s), "prime": numbers(t)})
        lattices.append({
            "name": name, "omega1": a, "omega3": [b, c], "roots": [numbers([x.real, x.imag]) for x in e],
            "centre": numbers([centre.real, centre.imag]), "scale": float(scale), "scale_prime": float(prime),
            "points": points,
        })
    text = json.dumps({"lattices": lattices}).replace('{"name"', '\n{"name"').replace('{"z"', '\n{"z"')
    with open(path, "w") as f:
        f.write(text + "\n")


main(sys.argv[1])
