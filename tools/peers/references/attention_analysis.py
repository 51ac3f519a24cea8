# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Generates the reference data attention_analysis with SciPy, scikit-learn, PyTorch and code of three papers.

python attention_analysis.py OUT --flow DIR --probing DIR --cka FILE [--seed N]

DIR are checkouts of samiraabnar/attention_flow (8044f53) and sayakpaul/probing-vits (b1b08d3), FILE is
representation_similarity/Demo.ipynb of google-research/google-research (10bf941). Cells of notebooks are run as they are;
without assertions, one of which refuses grids that are not square. Effective range, weight by distance and separation
have no public code: they are computed here in float64 from their formulas.
"""

import functools
import json
import sys

import numpy as np
import scipy
import sklearn
import torch
from scipy.spatial.distance import cdist, pdist
from scipy.stats import entropy, pointbiserialr, ttest_rel
from sklearn.decomposition import PCA
from sklearn.metrics import jaccard_score
from sklearn.metrics.pairwise import cosine_similarity

from common import arguments, stand_in, write
from tsne import tsne

SHARES, QUANTILES = (0.5, 0.9), [0.5, 0.7, 0.9, 0.95]
REFERENCE = (
    "samiraabnar/attention_flow commit 8044f53 (no licence file), compute_joint_attention; sayakpaul/probing-vits commit "
    "b1b08d3 (Apache-2.0), compute_mean_attention_dist; google-research/google-research commit 10bf941 (Apache-2.0), "
    f"representation_similarity, cka; torch {torch.__version__}, interpolate; scipy {scipy.__version__}, entropy, "
    f"pointbiserialr, ttest_rel; scikit-learn {sklearn.__version__}, PCA, TSNE, silhouettes, neighbours, jaccard_score; "
    "effective range, weight by distance and separation by their formulas")


def defined(notebook, name):
    """The definitions of the notebook cell that defines name."""
    cells = ["".join(c["source"]) for c in json.loads(notebook.read_text())["cells"] if c["cell_type"] == "code"]
    found = {"np": np}
    exec(compile(next(c for c in cells if f"def {name}(" in c), notebook.name, "exec", optimize=1), found)
    return found


def softmax(x):
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


def spread(rng, notebook, c):
    """Attention weights, and how far they reach; drawn again where a partial sum is too near to a share of the weight."""
    (rows, cols), prefix = c["grid_h_w"], c["prefix_tokens"]
    n = prefix + rows * cols
    places = np.stack(np.divmod(np.arange(rows * cols), cols), 1)
    distances = cdist(places, places)
    rings, ring = np.unique(distances.round(9), return_inverse=True)
    inside = ring.reshape(1, *distances.shape) <= np.arange(len(rings))[:, None, None]  # [ring, query, key]
    while True:
        weights = softmax(1.5 * rng.standard_normal((c["layers"], c["images"], c["heads"], n, n))).astype(np.float32)
        patches = weights[..., prefix:, prefix:].astype(np.float64)
        patches /= patches.sum(-1, keepdims=True)
        held = np.einsum("lihqk,rqk->lihqr", patches, inside)
        if min(np.abs(held - share).min() for share in SHARES) > 1e-5:
            break
    released = defined(notebook, "compute_mean_attention_dist")
    released["num_cls_tokens"] = 0  # they are gone
    matrix = released["compute_distance_matrix"]
    released["compute_distance_matrix"] = lambda size, count, length: matrix(size, count, cols)
    mean = functools.partial(released["compute_mean_attention_dist"], 1)
    t = {"in.attention": weights, "weight_by_distance.distances": rings, "entropy.patches.out": entropy(patches, axis=-1).mean(-1),
         "distance.renormalised.patches_out": np.stack([mean(layer) for layer in patches]),
         "weight_by_distance.out": np.stack([patches[..., distances.round(9) == d].mean(-1) for d in rings], -1)}
    return t | {f"effective_range.{share}.out": rings[(held >= share).argmax(-1)].mean(-1) for share in SHARES}


def rollout(weights, c):
    """The paper's rollout of every image, its map, and the map enlarged."""
    from attention_graph_util import compute_joint_attention
    (rows, cols), prefix = c["grid_h_w"], c["prefix_tokens"]
    every = np.stack([compute_joint_attention(w) for w in weights.astype(np.float64).mean(2).swapaxes(0, 1)])
    mask = every[:, -1, 0, prefix:].reshape(-1, rows, cols)
    large = torch.nn.functional.interpolate(torch.from_numpy(mask)[:, None], scale_factor=c["upsample"], mode="bilinear")[:, 0]
    low, high = large.amin((1, 2), keepdim=True), large.amax((1, 2), keepdim=True)
    return {"rollout.abnar.all_layers": every, "rollout.abnar.mask": mask,
            "rollout.abnar.mask_upsampled": (large - low) / (high - low)}


def separation(weights, c):
    row = weights[-1].astype(np.float64).mean(1)[:, 0, c["prefix_tokens"]:]
    top = (-row).argsort(-1)[:, :c["top_k"]]
    return {"separation.top_patches": top, "separation.out": np.array(
        [pdist(np.stack(np.divmod(patches, c["grid_h_w"][1]), 1)).mean() for patches in top])}


def representations(rng, notebook):
    n, (a, b, width) = int(rng.integers(15, 25)), rng.integers(4, 11, 3)
    x, y = rng.standard_normal((n, a)), rng.standard_normal((n, b))
    y[:, 0] += x[:, 0]
    positions = rng.standard_normal((n, width)).astype(np.float32)
    x, y, p = x.astype(np.float32), y.astype(np.float32), positions.astype(np.float64)
    of = defined(notebook, "cka")
    fit = PCA(3, svd_solver="full").fit(p)
    return {"in.cka.x": x, "in.cka.y": y, "in.positions": positions, "pca.mean_out": fit.mean_,
            "cka.linear_debiased.out": np.array([of["cka"](
                *(of["gram_linear"](v.astype(np.float64)) for v in (x, y)), debiased=True)]),
            "pca.components_out": fit.components_, "pca.scores_out": fit.transform(p),
            "pca.explained_variance_out": fit.explained_variance_,
            "pca.explained_variance_ratio_out": fit.explained_variance_ratio_, "cosine.out": cosine_similarity(p)}


def masks(rng):
    """Scores of two methods' maps against masks, and the paired test between them."""
    shape = tuple(int(n) for n in rng.integers(5, 9, 3))
    objects = (rng.random(shape) < 0.35).astype(np.int64)
    objects[:, 0, 0], objects[:, 0, 1] = 0, 1  # neither empty nor full
    t, measures = {"in.masks": objects}, {}
    for method, signal in (("a", 0.8), ("b", 0.3)):
        maps = (signal * objects + rng.standard_normal(shape)).astype(np.float32)
        correlations, overlaps, halves = [], [], []
        for mask, values in zip(objects.reshape(shape[0], -1), maps.astype(np.float64).reshape(shape[0], -1)):
            correlations.append(pointbiserialr(mask, values).statistic)
            overlaps.append([jaccard_score(mask, values >= np.quantile(values, q)) for q in QUANTILES])
            halves.append(jaccard_score(mask, (values - values.min()) / np.ptp(values) >= 0.5))
        measures[method] = np.column_stack([overlaps, halves, correlations])
        t |= {f"in.maps_{method}": maps, f"mask.{method}.point_biserial_out": np.array(correlations),
              f"mask.{method}.iou_quantiles_out": np.array(overlaps), f"mask.{method}.iou_minmax_half_out": np.array(halves)}
    test = ttest_rel(measures["a"], measures["b"])
    return t | {"mask.paired_t_out": np.stack([test.statistic, test.pvalue], 1)}


def make(out, probing, cka, seed):
    rng = np.random.default_rng(seed)
    rows, cols = rng.choice([2, 3, 4, 5], 2, replace=False)
    c = {"layers": int(rng.integers(2, 5)), "images": int(rng.integers(2, 4)), "heads": int(rng.integers(2, 4)),
         "grid_h_w": [int(rows), int(cols)], "prefix_tokens": int(rng.integers(1, 5)), "upsample": int(rng.integers(2, 5)),
         "top_k": int(rng.integers(3, 6)), "quantiles": QUANTILES}
    t = spread(rng, probing / "notebooks/mean-attention-distance-1k.ipynb", c)
    t |= rollout(t["in.attention"], c) | separation(t["in.attention"], c) | representations(rng, cka) | masks(rng)
    embedded, meta = tsne(seed)
    write(out / "attention_analysis", t | embedded, meta | {
        "fixture": "attention_analysis", "reference": REFERENCE, "seed": seed, "config": c | meta["config"],
        "tolerance": meta["tolerance"] | {
            "rollout_abnar_abs": 1e-6, "distance_abs_patches": 1e-5, "entropy_abs": 1e-5, "cka_abs": 1e-5,
            "pca_abs_up_to_sign": 1e-5, "cosine_abs": 1e-6}})


def main():
    a = arguments(__doc__, "flow", "probing", "cka")
    stand_in("networkx", "tensorflow", "matplotlib", "matplotlib.pyplot")
    sys.path.insert(0, str(a.flow))
    make(a.out, a.probing, a.cka, a.seed)


if __name__ == "__main__":
    main()
