# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Compares wepe with the packages that it exchanges models and numbers with.

Models are random: another --seed gives other models. Each row of the table is a family, a direction and its options,
with the largest difference of logits and tokens relative to the largest value. The exit status is 1 if a
difference is above the limit, if the other side cannot open a file, or if wepe refuses a model that it has to open. What
it refuses of the random architectures of timm is listed, with its reason.
"""

import argparse
import collections
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
warnings.filterwarnings("ignore")

import numpy as np
import torch

LIMIT = 1e-4
ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools/peers/references"))
sys.modules["peers"] = sys.modules["__main__"]  # one Refused, not two


class Refused(Exception):
    """wepe refused this model, with a reason."""


class Driver:
    """The Go side: a request and a response are one line of JSON each."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=os.environ | {"GOMLX_BACKEND": "go:ops_sequential"})  # compiles nothing

    def ask(self, op, **request):
        self.process.stdin.write(json.dumps({"op": op, **request}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the Go side ended")
        answer = json.loads(line)
        if answer.get("error"):
            raise (RuntimeError if answer["error"].startswith("panic") else Refused)(answer["error"])
        return answer


def go_test(package, name, **environment):
    """Runs a test of the library on new cases that a package generates."""
    done = subprocess.run(["go", "test", package, "-run", name], cwd=ROOT, capture_output=True, text=True,
                          env=os.environ | {k: str(v) for k, v in environment.items()})
    assert done.returncode == 0 and "no tests to run" not in done.stdout, done.stdout[-2000:] + done.stderr[-500:]
    return 0.0


def refused(call, *errors):
    """0 if a call fails with one of the errors, by default as wepe refuses what means nothing."""
    try:
        call()
    except errors or Refused:
        return 0.0
    raise AssertionError("not refused")


def array(x):
    """A tensor in the format of the Go side."""
    x = np.asarray(x.detach() if torch.is_tensor(x) else x, dtype=np.float32)
    return {"shape": list(x.shape), "data": x.ravel().tolist()}


def images(rng, *shape):
    """Random images [batch, channels, rows, columns]."""
    return torch.from_numpy(rng.standard_normal(shape).astype(np.float32))


def nhwc(x):
    return x.permute(0, 2, 3, 1).contiguous()


def difference(got, want):
    """The largest difference relative to the largest value."""
    got, want = (np.asarray(x.detach().float() if torch.is_tensor(x) else x, dtype=np.float64).ravel() for x in (got, want))
    if got.shape != want.shape:
        raise AssertionError(f"{got.size} values, want {want.size}")
    worst = np.abs(got - want).max()
    return float(worst / np.abs(want).max()) if np.isfinite(worst) else float("inf")


def disturb(module, rng):
    """Adds noise to every parameter, so that none keeps a value that hides an error."""
    g = torch.Generator().manual_seed(int(rng.integers(1 << 31)))
    with torch.no_grad():
        for name, p in list(module.named_parameters()) + [(n, b) for n, b in module.named_buffers() if "running" in n]:
            scale = 0.3 if p.ndim < 2 else min(0.3, (len(p) / max(p.numel(), 1)) ** 0.5)
            p.add_(torch.randn(p.shape, generator=g).mul_(scale).to(p.dtype).abs_() if "running_var" in name
                   else torch.randn(p.shape, generator=g).mul_(scale).to(p.dtype))
    return module.eval()


class Table:
    """The results, printed as they come and by family at the end."""

    def __init__(self, verbose):
        self.rows, self.verbose = [], verbose

    def run(self, family, direction, options, case, limit=LIMIT, may_refuse=False):
        """Runs a case, a function that returns a difference."""
        begin, note = time.time(), ""
        try:
            value = case()
            state = "ok" if value <= limit else "WRONG"
        except Refused as e:
            value, state, note = None, "refused" if may_refuse else "FAILED", str(e)
        except Exception as e:  # the other side could not open a file, or an assertion of the case
            value, state, note = None, "FAILED", f"{type(e).__name__}: {e}".split("\n")[0]
            if self.verbose:
                traceback.print_exc()
        self.rows.append((family, direction, options, value, state, note))
        if self.verbose or state not in ("ok", "refused"):
            shown = "" if value is None else f"{value:.1e}"
            print(f"  {state:8}{family} {direction} {options}: {shown} {note[:300]} ({time.time() - begin:.1f} s)", flush=True)

    def print(self):
        groups = collections.OrderedDict()
        for family, direction, options, value, state, note in self.rows:
            groups.setdefault((family, direction), []).append((options, value, state, note))
        print("\n| family | direction | cases | right | wrong or failed | refused | largest difference | where |")
        print("|---|---|---:|---:|---:|---:|---:|---|")
        for (family, direction), rows in groups.items():
            count = collections.Counter(r[2] for r in rows)
            measured = [(r[1], r[0]) for r in rows if r[1] is not None]
            worst, where = max(measured) if measured else (None, "")
            print(f"| {family} | {direction} | {len(rows)} | {count['ok']} | {count['WRONG'] + count['FAILED']} | "
                  f"{count['refused']} | {'' if worst is None else f'{worst:.1e}'} | {where} |")
        refused = [(f, d, o, n) for f, d, o, _, s, n in self.rows if s == "refused"]
        if refused:
            print("\nRefused:")
            for f, d, o, n in refused:
                print(f"  {f}, {o}: {re.sub(r'/tmp/[^ ]*/', '', n)[:160]}")
        bad = [r for r in self.rows if r[4] in ("WRONG", "FAILED")]
        print(f"\n{len(self.rows)} cases, {len(bad)} wrong or failed, {len(refused)} refused")
        return 1 if bad else 0


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--driver", required=True, help="the program built from this directory")
    p.add_argument("--seed", type=int, default=None, help="seed of the random models; default: the time")
    p.add_argument("--only", default="theirs,ours,pictures,measures", help="only these groups, separated by commas")
    p.add_argument("--all", action="store_true", help="test every architecture of timm instead of a sample")
    p.add_argument("--sample", type=int, default=24, help="number of random architectures of timm, besides the fixed ones")
    p.add_argument("-v", "--verbose", action="store_true", help="print every case")
    a = p.parse_args()
    seed = a.seed if a.seed is not None else int(time.time())
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    print(f"peers: seed {seed}", flush=True)
    table, driver = Table(a.verbose), Driver(a.driver)
    for name in a.only.split(","):
        begin = time.time()
        with tempfile.TemporaryDirectory() as directory, torch.no_grad():
            importlib.import_module(name).run(table, driver, np.random.default_rng(seed), pathlib.Path(directory), a)
        print(f"{name}: {time.time() - begin:.0f} s", flush=True)
    return table.print()


if __name__ == "__main__":
    sys.exit(main())
