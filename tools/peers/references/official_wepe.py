# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Generates the reference data official_wepe_pretrain, official_wepe_finetune and official_lut with the code that the
paper's authors released.

python official_wepe.py OUT --source DIR [--seed N]

DIR as for official.py. Modules run in eval mode. The table's mode "finetuning" writes a real tensor into a complex one,
which torch refuses: here it is made complex first.
"""

import tempfile
import types

import numpy as np
import torch

from common import generate, redraw, write
from official import REFERENCE

PRETRAINED = {"omega1": 2.62205755429212, "kappa_eps": 1.5e-7, "c_large": 500.0, "term_clip": 5000.0, "final_clip": 10000.0,
              "search": 12, "coordinate_scale": 0.4, "g3_case": {"g2": 0.8, "g3": 0.2, "omega1": 1.0, "omega3": 1.0}}
TUNED = {"eps_coord": 0.02, "coord_frequency_pi": 3, "K": 3, "K_prime": 2, "eta": 0.7, "eta_prime": 0.5,
         "imag_tanh_factor": 0.8, "flatten": "k -> column k//h, row k%h"}


def of(file):
    return REFERENCE | {"reference": f"{REFERENCE['reference']}, {file}"}


def normal(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def pairs(z):
    return torch.view_as_real(z.detach())


def fill(module, **values):
    with torch.no_grad():
        for name, value in values.items():
            getattr(module, name).copy_(torch.as_tensor(value))


def held(module, *names):
    return {name: getattr(module, name).detach().squeeze().tolist() for name in names}


def grads(module, case, loss):
    module.zero_grad()
    loss.backward()
    return {f"{case}.grad.{name}": p.grad.clone() for name, p in module.named_parameters()}


def grids(draw):
    """Two grids: a square one, and a smaller one that is not square."""
    side, low = int(draw.integers(9, 15)), int(draw.integers(3, 6))
    return [[side, side], [low, low + int(draw.choice([-1, 1, 2]))]]


@torch.enable_grad()
def make_pretrained(out, source, seed):
    from W_Ti import WEFPositionalEncoding
    draw = np.random.default_rng(seed)
    width, (large, small) = 8 * int(draw.integers(2, 5)), grids(draw)
    t = {f"upstream.{h}x{w}": normal(seed + h * w, 1, 1 + h * w, width) for h, w in (large, small)}

    def drawn():
        return {"alpha_learn": float(draw.uniform(-1.2, 1.2)), "log_alpha_scale": float(np.log(draw.uniform(0.04, 0.3))),
                "pos_scale": [float(draw.uniform(0.3, 1.4))]}

    sets, cases = [drawn(), drawn()], {}
    clamped = {"alpha_learn": float(draw.uniform(-6, -4.5)), "log_alpha_scale": float(draw.uniform(0.1, 0.6)),
               "pos_scale": [float(draw.uniform(0.3, 1.4))]}
    g3 = {k: PRETRAINED["g3_case"][k] for k in ("g2", "g3")}
    # The lattice of the g3 case is small, so rounding of z is visible near the pole.
    near = {"alpha_learn": float(draw.uniform(0.2, 1.2)), "log_alpha_scale": -2.0}
    for kind, how, runs in (
            ("linear", {}, [("lin_set1", sets[0], large), ("lin_set1", sets[0], small), ("lin_set2", sets[1], small),
                            ("lin_clamped", clamped, small)]),
            ("mlp", {"projection_type": "mlp"}, [("mlp", drawn(), small)]),
            ("two", {"use_4d": False}, [("two", drawn(), small)]), ("g3", g3, [("g3", drawn() | near, small)])):
        module, seen = redraw(WEFPositionalEncoding(width, device=torch.device("cpu"), **how).eval(), seed + len(kind)), {}
        original = module.wef.wp_and_wp_prime
        module.wef.wp_and_wp_prime = lambda z: seen.setdefault("values", (z, *original(z)))[1:]
        module.projection.register_forward_pre_hook(lambda m, a: seen.__setitem__("features", a[0].detach()))
        t |= {f"{kind}.param.{k}": v.detach().clone() for k, v in module.named_parameters()
              if k.startswith(("cls", "projection"))}
        for name, scalars, (h, w) in runs:
            seen.clear()
            fill(module, **scalars)
            case = f"{name}_{h}x{w}"
            encodings = module(torch.zeros(1, 1 + h * w, width), h, w)
            t |= {f"{case}.{k}": pairs(v).double() for k, v in zip(("z", "wp", "wpp"), seen["values"])}
            t |= {f"{case}.features": seen["features"], f"{case}.encodings": encodings.detach()[0]}
            t |= grads(module, case, (encodings * t[f"upstream.{h}x{w}"]).sum())
            cases[case] = {"h": h, "w": w, **held(module, *scalars),
                           "omega3_prime": torch.nn.functional.softplus(module.alpha_learn).clamp(0.02, 8).item(),
                           "alpha_scale": module.log_alpha_scale.exp().clamp(0.002, 0.8).item()}
            if name == "lin_clamped":
                t["tokens.x"] = normal(seed, 2, 1 + h * w, width)
                t["tokens.out"] = module(t["tokens.x"], h, w)
    period = 2 * PRETRAINED["omega1"]
    at = [0, 1e-9, 1.4e-7, 1.6e-7, 1e-4, 3e-3j, 0.05 - 0.02j]  # about the origin, other lattice points, far outside
    at += [pole + d for pole in (period, period * 1j) for d in (0, 1e-9, 2e-7, 1e-3, 0.02 + 0.01j)]
    at += [period / 2, period * 0.5j, period / 2 * (1 + 1j), 13 - 7j, 40 + 1j, 200, *(draw.uniform(-6, 6, (8, 2)) @ [1, 1j])]
    z = torch.tensor(at, dtype=torch.complex128)
    module = WEFPositionalEncoding(width, device=torch.device("cpu"))
    t |= dict(zip(("probe.z", "probe.wp", "probe.wpp"), map(pairs, (z, *module.wef.wp_and_wp_prime(z)))))
    write(out / "official_wepe_pretrain", t, of("W_Ti.py") | PRETRAINED | {
        "fixture": "official_wepe_pretrain", "cls": "WEFPositionalEncoding", "seed": seed,
        "d_model": width, "cases": cases})


def steady(module, sets, h, w, seed):
    """The one of eight cotangents for which the gradients of scalars, sums over all patches, cancel least."""
    drawn, sizes = [normal(seed + i, h * w, module.d_model) for i in range(8)], []
    for scalars in sets:
        fill(module, **scalars)
        encodings, single = module(h, w), [p for p in module.parameters() if p.numel() == 1]
        found = [[g.abs().item() for g in torch.autograd.grad(encodings, single, r, retain_graph=True)] for r in drawn]
        sizes.append(np.array(found) / np.mean(found, 0))
    return drawn[int(np.concatenate(sizes, 1).min(1).argmax())]


def mixed(release, encoding, n, seed, gate):
    """WeierstrassViTL16.forward with given tokens and an encoder that does nothing; its constructor wants their weights."""
    width = encoding.d_model
    model = release.WeierstrassViTL16.__new__(release.WeierstrassViTL16)
    torch.nn.Module.__init__(model)
    content, learned, seen = normal(seed, 2, 1 + n * n, width), normal(seed + 1, 1, 1 + n * n, width), {}
    encoding.num_patches_h = encoding.num_patches_w = n
    model.weierstrass_encoding, model.pos_encoding_weight = encoding, torch.nn.Parameter(torch.tensor(gate))
    model.pre_classifier = model.classifier = torch.nn.Identity()

    class Embeddings:
        position_embeddings = learned

        def __call__(self, x):
            return x + learned

    def encoder(x):
        seen["input"] = x.detach()
        return types.SimpleNamespace(last_hidden_state=x)

    model.vit = types.SimpleNamespace(embeddings=Embeddings(), encoder=encoder)
    model(content)
    return {"mix.content_tokens": content, "mix.position_embeddings": learned, "mix.wepe": encoding(),
            "mix.encoder_input": seen["input"]}


@torch.enable_grad()
def make_tuned(out, source, seed):
    import vit_wef_svhn_1k as release
    draw = np.random.default_rng(seed)
    width, (large, small), n = 8 * int(draw.integers(2, 5)), grids(draw), int(draw.integers(3, 6))
    module = release.ImprovedWeierstrassEllipticPositionalEncoding(width, *small)
    begin = {"alpha_learn": 0.5, "beta_learn": 0.1, "gamma_learn": 0.2, "scale_factor": 0.03, "freq_modulation": [1.0] * 6}
    other = {"alpha_learn": float(draw.uniform(0.6, 1.4)), "beta_learn": float(draw.uniform(-1.6, -0.5)),
             "gamma_learn": float(draw.uniform(0.4, 1.1)), "scale_factor": float(draw.uniform(0.1, 0.3)),
             "freq_modulation": draw.uniform(0.6, 1.5, 6).tolist()}
    redraw(module.eval(), seed)
    t = {f"param.{k}": v.detach().clone() for k, v in module.named_parameters() if k == "offset" or k.startswith("proj")}
    t |= {f"upstream.{h}x{w}": steady(module, sets, h, w, seed) for sets, (h, w) in (([begin], large), ([begin, other], small))}
    seen, cases = {}, {}
    p, slope = module.stable_weierstrass_p, module.stable_weierstrass_p_derivative
    module.stable_weierstrass_p = lambda z: seen.setdefault("p", p(z))
    module.stable_weierstrass_p_derivative = lambda z: seen.update(z=z, pp=slope(z)) or seen["pp"]
    module.projection.register_forward_pre_hook(lambda m, a: seen.__setitem__("features", a[0].detach()))
    for name, scalars, (h, w) in (("default", begin, large), ("default", begin, small), ("set1", other, small)):
        seen.clear()
        fill(module, **scalars)
        case = f"{name}_{h}x{w}"
        encodings = module(h, w)
        t |= {f"{case}.{k}": pairs(seen[k]) for k in ("z", "p", "pp")}
        t |= {f"{case}.features": seen["features"], f"{case}.encodings": encodings.detach().reshape(-1, width)}
        t |= grads(module, case, (encodings * t[f"upstream.{h}x{w}"]).sum())
        softplus = torch.nn.functional.softplus
        cases[case] = {"h": h, "w": w, **held(module, *scalars), "omega3_prime": (0.1 + softplus(module.alpha_learn)).item(),
                       "beta": (0.01 + softplus(module.beta_learn)).item(), "gamma": (0.1 + softplus(module.gamma_learn)).item()}
    module.stable_weierstrass_p, module.stable_weierstrass_p_derivative = p, slope
    gate = float(draw.uniform(-0.8, 0.8))
    t |= mixed(release, module, n, seed, gate)
    write(out / "official_wepe_finetune", t, of("vit_wef_svhn_1k.py") | TUNED | {
        "fixture": "official_wepe_finetune", "seed": seed, "d_model": width,
        "cls": "ImprovedWeierstrassEllipticPositionalEncoding", "omega1": float(module.omega1),
        "mix": {"grid": n, "pos_encoding_weight": gate}, "cases": cases})


def make_table(out, source, seed):
    import wef_pe_lut as release
    draw = np.random.default_rng(seed)
    resolutions = [int(draw.integers(40, 72)), int(draw.integers(120, 200))]
    at = [[14, 14], [int(draw.integers(15, 25))] * 2, [int(draw.integers(2, 5)), int(draw.integers(5, 8))]]
    t = {}
    for mode in ("pretraining", "finetuning"):
        for r in resolutions:
            maker, p = release.WEFPELUTGenerator(resolution=r, computation_mode=mode), f"{mode}.r{r}."
            fourier = maker.wef_calculator._fourier_approximation
            maker.wef_calculator._fourier_approximation = lambda z: tuple(x.to(torch.complex128) for x in fourier(z))
            table = maker.generate_lut(batch_size=8192)
            with tempfile.TemporaryDirectory() as folder:
                maker.save_lut(table, folder)
                reader = release.WEFPEFastInference(f"{folder}/wef_pe_lut.pt")
            t |= {f"{p}query.{h}x{w}": reader.get_positional_encoding(height=h, width=w) for h, w in at}
            if r == resolutions[0]:  # the other is not stored
                t[p + "lut"] = table
                for h, w in at:
                    centres = torch.meshgrid((torch.arange(w) + 0.5) / w, (torch.arange(h) + 0.5) / h, indexing="ij")
                    t[f"{p}direct.{h}x{w}"] = maker.wef_calculator.compute_wef_features(maker.coordinates_to_complex(*centres))
    calculator = maker.wef_calculator
    write(out / "official_lut", t, of("wef_pe_lut.py") | {
        "fixture": "official_lut", "seed": seed, "alpha_u": maker.alpha_u, "alpha_v": maker.alpha_v,
        "alpha_scale": calculator.alpha_scale, "omega1": calculator.omega1.real.item(), "resolutions": resolutions})


if __name__ == "__main__":
    generate(__doc__, {"source": [make_pretrained, make_tuned, make_table]}, required=True)
