# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Everything except model outputs: training runs step by step, average precision, neighbours, principal components, metrics."""

import base64
import contextlib
import io
import json
import pathlib

import numpy as np
import sklearn.decomposition
import sklearn.linear_model
import sklearn.metrics
import sklearn.neighbors
import timm
import timm.optim
import timm.scheduler
import torch
import torch.nn.functional as F
import transformers
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from timm.models._hub import save_for_hf
from torch.optim.swa_utils import AveragedModel

from coco import scenes
from common import write
from peers import difference, disturb, go_test
from tsne import tsne

SIDE, CLASSES, IMAGES, BATCH = 12, 5, 80, 8


def rate(peak, step, warmup, total):
    """timm's cosine schedule with a warm-up from 0, for one optimizer step."""
    p = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([p], lr=peak)
    timm.scheduler.CosineLRScheduler(
        optimizer, t_initial=total - warmup, warmup_t=warmup, warmup_prefix=True, t_in_epochs=False).step_update(step)
    return optimizer.param_groups[0]["lr"]


def layer_of(name, depth):
    """The layer of MAE's and BEiT's layer-wise decay: embeddings, blocks, the rest."""
    if name.startswith("blocks."):
        return int(name.split(".")[1]) + 1
    return 0 if name.startswith(("cls_token", "pos_embed", "patch_embed")) else depth + 1


def groups(model, decay, layer_decay, head_factor):
    """A group for each parameter: biases, norms, positions and the class token do not decay."""
    skip = getattr(model, "no_weight_decay", set)()
    return [{"params": [p], "weight_decay": 0.0 if p.ndim < 2 or n in skip or "embeddings.cls" in n or "position" in n
             else decay, "lr_scale": (head_factor if n.startswith("head.") else 1.0) * (
                 layer_decay ** (3 - layer_of(n, 2)) if layer_decay else 1.0)} for n, p in model.named_parameters()]


def train(driver, rng, directory, steps, kind="adamw", rate_=3e-3, decay=0.05, clip=0.0, smoothing=0.0, ema=0.0, warmup=0,
          layer_decay=0.0, head_factor=1.0, loss="", accumulate=1):
    """The largest difference of the losses of all steps, and of the validation losses after each."""
    args = dict(img_size=SIDE, patch_size=4, embed_dim=16, depth=2, num_heads=2, num_classes=CLASSES)
    path = directory / ("start of " + kind)
    if kind == "lamb":  # its steps are by tensor, so q, k and v have to be three
        model = disturb(transformers.ViTForImageClassification(transformers.ViTConfig(
            hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=SIDE, patch_size=4,
            num_labels=CLASSES)), rng)
        model.save_pretrained(path)
    else:
        model = disturb(timm.create_model("vit_tiny_patch16_224", **args), rng)
        save_for_hf(model, path, model_args=args, safe_serialization=True)
    pixels = rng.integers(0, 256, (IMAGES, SIDE, SIDE, 3), dtype=np.uint8)
    targets = rng.integers(0, CLASSES, IMAGES)
    seed = int(rng.integers(1 << 20))
    optimizer = {"name": kind, "clip_norm": clip, "layer_decay": layer_decay}
    optimizer |= {} if kind == "sgd" else {"weight_decay": decay}
    optimizer |= {"learning_rates": {"head": head_factor}} if head_factor != 1 else {}
    recipe = {"name": "peer", "model": {"init": ""}, "steps": steps, "batch_size": BATCH, "eval_every_steps": 1,
              "learning_rate": rate_, "warmup_steps": warmup, "optimizer": optimizer, "label_smoothing": smoothing,
              "ema_decay": ema, "loss": loss, "grad_accum_steps": accumulate,
              "augment": {"mean": [0.5] * 3, "std": [0.25] * 3}}
    epochs = -(-steps // (IMAGES // BATCH))
    got = driver.ask("train", path=str(path), recipe=recipe, pixels=base64.b64encode(pixels.tobytes()).decode(), height=SIDE,
                     width=SIDE, targets=targets.tolist(), classes=CLASSES, seed=seed, epochs=epochs)
    x = (torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.25
    y = torch.from_numpy(targets)
    losses, held = torch_train(model, x, y, got["orders"], steps, dict(
        kind=kind, rate=rate_, decay=decay, clip=clip, smoothing=smoothing, ema=ema, warmup=warmup, layer_decay=layer_decay,
        head_factor=head_factor, loss=loss))
    worst = np.abs(np.array(got["held"]) - held).max()
    if accumulate == 1:  # else Progress has the loss of the last micro-batch
        worst = max(worst, np.abs(np.array(got["losses"]) - losses).max())
    assert losses[-10:].mean() < losses[:10].mean(), "nothing was learned"
    return float(worst)


@torch.enable_grad()
def torch_train(model, x, y, orders, steps, o):
    parameters = groups(model, o["decay"], o["layer_decay"], o["head_factor"])
    optimizer = {"adamw": lambda: torch.optim.AdamW(parameters, lr=o["rate"]),
                 "sgd": lambda: torch.optim.SGD([g | {"weight_decay": 0.0} for g in parameters], lr=o["rate"], momentum=0.9),
                 "lamb": lambda: timm.optim.Lamb(parameters, lr=o["rate"], eps=1e-8, max_grad_norm=None)}[o["kind"]]()
    average = AveragedModel(model, avg_fn=lambda a, p, n: a.lerp(p, 1 - min(o["ema"], (1 + int(n)) / (10 + int(n)))))

    def run(network, images):
        out = network(images)
        return getattr(out, "logits", out)

    losses, held = [], []
    batches = [order[i * BATCH:(i + 1) * BATCH] for order in orders for i in range(IMAGES // BATCH)][:steps]
    for step, rows in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = rate(o["rate"], step, o["warmup"], steps) * group.get("lr_scale", 1.0)
        logits = run(model, x[rows])
        if o["loss"] == "bce":
            loss = F.binary_cross_entropy_with_logits(logits, F.one_hot(y[rows], CLASSES).float())
        else:
            loss = F.cross_entropy(logits, y[rows], label_smoothing=o["smoothing"])
        optimizer.zero_grad()
        loss.backward()
        if o["clip"]:
            torch.nn.utils.clip_grad_norm_(model.parameters(), o["clip"])
        optimizer.step()
        with torch.no_grad():
            average.update_parameters(model)
            held.append(F.cross_entropy(run(average if o["ema"] else model, x), y).item())
        losses.append(loss.item())
    return np.array(losses), np.array(held)


def schedule(driver, rng):
    peak, warmup, total = float(rng.uniform(1e-4, 1)), int(rng.integers(0, 12)), 50
    got = driver.ask("rates", rate=peak, warmup=warmup, steps=total)["rates"]
    return difference(got, [rate(peak, step, warmup, total) for step in range(total)])


def average_precision(driver, rng, directory, masks):
    scene = scenes(rng)
    truth, results = str(directory / "truth.json"), str(directory / "results.json")
    for path, value in ((truth, scene[0]), (results, scene[1 + masks])):
        pathlib.Path(path).write_text(json.dumps(value))
    with contextlib.redirect_stdout(io.StringIO()):
        t = COCO(truth)
        e = COCOeval(t, t.loadRes(results), "segm" if masks else "bbox")
        e.evaluate()
        e.accumulate()
        e.summarize()
    return difference(driver.ask("coco", truth=truth, results=results, masks=masks)["stats"], e.stats)


def points(rng, n, width):
    """Points in overlapping clusters, and their classes."""
    targets = np.concatenate([np.arange(CLASSES), rng.integers(0, CLASSES, n - CLASSES)])
    return (rng.standard_normal((CLASSES, width))[targets] + 1.5 * rng.standard_normal((n, width))), targets


def knn(k, temperature):
    return sklearn.neighbors.KNeighborsClassifier(k, metric="cosine", algorithm="brute",
                                                  weights=lambda d: np.exp((1 - d) / temperature))


def neighbours(driver, rng):
    x, y = points(rng, 97, 11)
    queries, temperature, k = points(rng, 41, 11)[0], 0.07, int(rng.integers(3, 21))
    got = driver.ask("neighbours", points=x.ravel().tolist(), queries=queries.ravel().tolist(), width=11, k=k,
                     targets=y.tolist(), classes=CLASSES, temperature=temperature)
    votes = np.array(got["votes"])
    return difference(votes / votes.sum(1, keepdims=True), knn(k, temperature).fit(x, y).predict_proba(queries))


def principal(driver, rng):
    x, _ = points(rng, 61, 9)
    got = driver.ask("pca", points=x.ravel().tolist(), width=9, k=5)
    pca = sklearn.decomposition.PCA(5).fit(x)
    axes = np.array(got["axes"])
    axes *= np.sign((axes * pca.components_).sum(1, keepdims=True))
    return max(difference(axes, pca.components_), difference(got["variance"], pca.explained_variance_),
               difference(got["share"], pca.explained_variance_ratio_))


def logistic(driver, rng):
    x, y = points(rng, 90, 7)
    l2 = float(10 ** rng.uniform(-3, -1))
    got = driver.ask("logistic", points=x.ravel().tolist(), targets=y.tolist(), classes=CLASSES, l2=l2)
    fit = sklearn.linear_model.LogisticRegression(C=1 / (len(y) * l2), tol=1e-12, max_iter=10000).fit(x, y)
    scores = torch.tensor(got["scores"]).softmax(-1)
    return difference(scores, fit.predict_proba(x))


def probe(driver, rng):
    """Accuracies of a linear probe at the strength that was chosen, and of neighbours."""
    x, y = points(rng, 230, 9)
    train, k = 150, int(rng.integers(3, 15))
    x = x.astype(np.float32).astype(np.float64)
    got = driver.ask("probe", points=x.ravel().tolist(), targets=y.tolist(), width=9, train=train, k=k, temperature=0.07,
                     seed=int(rng.integers(1 << 20)))
    scaled = (x - x[:train].mean(0)) / x[:train].std(0)
    fit = sklearn.linear_model.LogisticRegression(C=1 / (train * got["l2"]), tol=1e-10, max_iter=20000).fit(
        scaled[:train], y[:train])
    near = knn(k, 0.07).fit(x[:train], y[:train])
    test = len(y) - train
    return max(abs(got["top1"] - fit.score(scaled[train:], y[train:])) - 1 / test,  # one point on the border
               abs(got["neighbours"] - near.score(x[train:], y[train:])), 0.0)


def embedding(rng, directory):
    """t-SNE, silhouettes and neighbours, by the library's own tests, on new data generated by scikit-learn."""
    tensors, meta = tsne(int(rng.integers(1 << 20)))
    write(directory / "sets" / "attention_analysis", tensors, meta)
    return go_test("./analysis", "^TestMeasures_EqualTheirAuthors$/^sets$/^(t-SNE|silhouette)", WEPE_FIXTURES=directory / "sets")


def confusion(driver, rng):
    n = 200
    targets = np.concatenate([np.arange(7), rng.integers(0, 7, n - 7)])
    logits = rng.standard_normal((n, 7)).astype(np.float32)
    logits[np.arange(n), targets] += 1
    guesses = logits.argmax(1)
    got = driver.ask("confusion", targets=targets.tolist(), guesses=guesses.tolist(), classes=7,
                     images={"shape": [n, 7], "data": logits.ravel().tolist()})
    p, r, f, _ = sklearn.metrics.precision_recall_fscore_support(targets, guesses, zero_division=0)
    top = [sklearn.metrics.top_k_accuracy_score(targets, logits, k=k) for k in (1, 5)]
    return max(difference(got["scores"], np.stack([p, r, f], 1)), difference(np.array(got["top"]) / n, top),
               difference([got["macro"]], [f.mean()]))


def run(table, driver, rng, directory, options):
    whole = dict(warmup=10, smoothing=0.1, clip=1.0, ema=0.99, layer_decay=0.75)
    for steps, name, how in [
            (50, "AdamW", dict()), (50, "AdamW, clipped, warm-up", dict(clip=0.5, warmup=7)),
            (50, "AdamW, layer decay", dict(layer_decay=0.65)), (50, "AdamW, EMA", dict(ema=0.95)),
            (50, "AdamW, head factor", dict(head_factor=10.0, rate_=1e-3)),
            (50, "SGD with momentum, clipped", dict(kind="sgd", rate_=3e-2, clip=1.0)),
            (50, "LAMB", dict(kind="lamb", rate_=5e-3)),
            (50, "smoothing, accumulation", dict(smoothing=0.1, accumulate=4)), (50, "BCE", dict(loss="bce")),
            (100, "whole recipe, 100 steps", whole)]:
        table.run("training, losses", "PyTorch and timm", name, lambda: train(driver, rng, directory, steps, **how))
    for _ in range(3):
        table.run("schedule", "timm", "cosine with warm-up", lambda: schedule(driver, rng), 1e-9)
    for i in range(6):
        kind = ["boxes", "masks"][i % 2]
        table.run("COCO's twelve numbers", "pycocotools", kind,
                  lambda: average_precision(driver, rng, directory, kind == "masks"), 1e-12)
    table.run("t-SNE", "scikit-learn", "", lambda: embedding(rng, directory))
    for name, case, limit in [("neighbours", neighbours, 1e-5), ("principal components", principal, 1e-9),
                              ("logistic regression", logistic, 1e-4), ("linear probe and kNN", probe, 1e-9),
                              ("metrics", confusion, 1e-9)]:
        table.run(name, "scikit-learn", "", lambda: case(driver, rng), limit)
