# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Generates the reference data official_analysis with the analysis scripts that the paper's authors released.

python official_analysis.py OUT --source DIR [--seed N]

DIR as for official.py. Empty modules stand in for the plotting packages; embeddings and draws are given; the probe trains
in one batch, without dropout. Generated are the quantities that this repository also computes: decay, rollout, transformed images, probe.
"""

import contextlib
import io
import random
import re
import types
from unittest import mock

import numpy as np
import PIL
import torch
import torchvision
from torch.utils.data import DataLoader, TensorDataset

from common import generate, images, redraw, stand_in, write
from official import REFERENCE

MOVES = {"scale1.1": {"scale": 1.1}, "scale0.9": {"scale": 0.9}, "translate5_5": {"translate": [5, 5]},
         "shear5_0": {"shear": [5, 0]}}


def decay(draw, seed):
    from distance_curve_analysis import DistanceCurveAnalyzer
    side, width, t, meta = int(draw.integers(9, 15)), 8 * int(draw.integers(2, 5)), {}, {}
    analyzer = DistanceCurveAnalyzer(d_model=width, img_size=side, patch_size=1)
    encoding = redraw(analyzer.pos_encoding.eval(), seed)
    encoding.alpha_learn.fill_(float(draw.uniform(0.1, 0.8)))
    encoding.log_alpha_scale.fill_(float(np.log(draw.uniform(0.1, 0.25))))
    for name, tokens in (("pure", 0), ("noisy", 1)):
        x = tokens * torch.randn(1, 1 + side * side, width, generator=torch.Generator().manual_seed(seed))
        rows = encoding(x, side, side)[0, 1:]
        analyzer.generate_position_embeddings = lambda rows=rows: rows
        result, printed = analyzer.analyze_distance_attention_curve(80), io.StringIO()
        with contextlib.redirect_stdout(printed):
            analyzer.print_curve_statistics(result)
        means, steps = result["relative_upper_bounds"], np.diff(result["relative_upper_bounds"])
        summary = {"rho_bins": np.corrcoef(result["relative_distances"], means)[0, 1],
                   "rho_pairs": np.corrcoef(result["raw_distances"], result["raw_upper_bounds"])[0, 1],
                   "initial": means[0], "final": means[-1], "decay_percent": 100 * (means[0] - means[-1]) / means[0],
                   "decreasing_steps_percent": 100 * (steps < 0).mean()}
        rho = float(re.search(r"Pearson.*: (\S+)", printed.getvalue())[1])
        assert abs(rho - summary["rho_bins"]) <= 1e-4  # what they print
        meta["decay_" + name] = {k: float(v) for k, v in summary.items()}
        t |= {f"decay.{name}.embeddings": rows, f"decay.{name}.bin_centers": result["relative_distances"],
              f"decay.{name}.bin_means": means}
    return t, meta | {"decay_grid": [side, side], "decay_width": width}


def rollout(draw, seed):
    from visualize_attention_rollout import compute_attention_rollout
    layers, tokens = int(draw.integers(2, 6)), int(draw.integers(8, 24))
    attention = torch.randn(layers, tokens, tokens, generator=torch.Generator().manual_seed(seed)).softmax(-1)
    return {"rollout.attention": attention, "rollout.result": compute_attention_rollout(list(attention))}, {}


def untied(size, scale):
    """The pixels whose source is not on the border of two pixels, where rounding would select one of them."""
    parts = []
    for n in size:
        at = (np.arange(n) + 0.5 - n / 2) / scale + n / 2
        parts.append((abs(at - at.round()) > 1e-9).mean())
    return float(np.prod(parts))


def movements(draw, seed):
    from geometric_invariance_experiment import GeometricTransform
    height, width = int(draw.integers(9, 16)) * 2, int(draw.integers(9, 16)) * 2
    image = torch.from_numpy(draw.integers(1, 256, (3, height, width), dtype=np.uint8))

    def whole(x):  # of the picture that ToTensor made
        return (x * 255).round().byte().permute(1, 2, 0)

    t = {"geometry.image_u8": image.permute(1, 2, 0)}
    rotation, other = GeometricTransform("rotation"), GeometricTransform("affine")
    t |= {f"geometry.rotate{angle}_out": whole(rotation(image, angle=angle)) for angle in (5, 10, 15, 30)}
    t |= {f"geometry.{name}_out": whole(other(image, params=move)) for name, move in MOVES.items()}
    part = min(untied((height, width), scale) for scale in (0.9, 1.1))
    return t, {"tolerance": {"geometry_equal_pixels_fraction": 0.99, "geometry_equal_pixels_fraction_scale": part - 1e-9}}


@torch.enable_grad()
def probe(draw, seed):
    import W_Ti
    import relative_position_awareness_experiment as release
    side, width, hidden = int(draw.integers(3, 6)), 2 * int(draw.integers(3, 7)), 4 * int(draw.integers(2, 5))
    samples, epochs, count = int(draw.integers(16, 40)), int(draw.integers(3, 7)), 6
    patch = 224 // side
    model = redraw(W_Ti.ImprovedViT_Ti(img_size=side * patch, patch_size=patch, embed_dim=width, depth=1, num_heads=1), seed)
    with torch.no_grad():
        model.pos_encoding.alpha_learn.fill_(0.4)
        model.pos_encoding.log_alpha_scale.fill_(-1.7)
    x, drawn = images(seed, count, 3, side * patch, side * patch), []

    def sample(population, k):
        drawn.append(random.Random(seed + len(drawn)).sample(population, k))
        return drawn[-1]

    release.random = types.SimpleNamespace(sample=sample)
    set_ = release.RelativePositionDataset(model, DataLoader(TensorDataset(x, torch.zeros(count)), count), "cpu", samples)
    each = min(20, samples // count + 1)
    inputs = torch.stack([torch.cat([a, b]) for a, b, _ in set_])
    head = redraw(release.RelativePositionPredictor(width, hidden), seed + 1).eval()
    for module in head.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    t = {"probe.pairs": torch.tensor([[n // each, *pair] for n, pair in enumerate(drawn[:len(set_)])]),
         "probe.inputs_out": inputs, "probe.targets_out": torch.stack([target for _, _, target in set_]),
         "probe.initial_predictions_out": head.predictor(inputs)}
    t |= {"probe.param." + k: v.detach().clone() for k, v in head.named_parameters()}
    with mock.patch.object(torch.utils.data, "DataLoader",
                           lambda s, batch_size, shuffle, **workers: DataLoader(s, batch_size, shuffle)):
        losses = release.train_relative_position_predictor(head, set_, "cpu", epochs, len(set_), 0.01)
        result = release.evaluate_relative_position_predictor(head, set_, "cpu", len(set_))
    t |= {"probe.trained_out." + k: v for k, v in head.named_parameters()}
    t |= {"probe.losses_out": np.array(losses), "probe.errors_out": np.array(result["all_errors"], np.float32),
          "probe.metrics_out": np.array([result[k] for k in ("mse", "mae", "rmse")])}
    return t, {"probe": {"width": width, "hidden": [hidden, hidden // 2], "grid": [side, side], "samples": len(set_),
                         "epochs": epochs, "lr": 0.01, "weight_decay": 1e-4, "dropout": 0.0}}


def make(out, source, seed):
    draw, t, meta = np.random.default_rng(seed), {}, {}
    for part in (decay, rollout, movements, probe):
        tensors, of_part = part(draw, seed)
        t, meta = t | tensors, meta | of_part
    meta["tolerance"] |= {"decay_abs": 1e-4, "rollout_abs": 1e-6, "probe_abs": 1e-4}
    write(out / "official_analysis", t, REFERENCE | meta | {
        "fixture": "official_analysis", "seed": seed,
        "libraries": {"torchvision": torchvision.__version__, "pillow": PIL.__version__}})


if __name__ == "__main__":
    stand_in("matplotlib", "matplotlib.pyplot", "seaborn", "cv2")
    generate(__doc__, {"source": [make]}, required=True)
