# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Packs reference data for internal/fixtures/testdata: SET/set.zip and SET/README.md.

python pack.py DESTINATION SCRIPT SET_DIRECTORY...

SCRIPT generated the data; the READMEs name it.

It omits duplicates (images in two layouts, numbers in two notations) and the largest of several cases, so that all data
fit in 4 MB; the rest is unchanged. The same tests run on complete data: WEPE_FIXTURES.
"""

import io
import json
import pathlib
import re
import sys
import textwrap
import zipfile

from safetensors.numpy import load, save

# Tensors that the packed set leaves out, by set.
TENSORS = {
    "dhvt_tiny": r"blocks\.0\.mlp\.bn[12]|patch_embed$|patch_embed\.proj\.1",
    "fope": r".*T(56|72|88)\.",
    "vitdet": r"simfp_0|block_0\.(windows|attn_windows_out|mlp|after_attn|last_window_logits_qk)|block_1\.attn_out",
}
# The same in meta.json.
META = {
    "fope": lambda m: m | {"lengths": m["lengths"][:1]},
}


def without_digits(x):
    """Keeps only "re64" of {"re": 30 digits, "re64": a float64}."""
    if isinstance(x, dict):
        return {k: without_digits(v) for k, v in x.items() if not (k in ("re", "im") and k + "64" in x)}
    return [without_digits(v) for v in x] if isinstance(x, list) else x


def rows(key, keep):
    return lambda file: file | {key: [r for r in file[key] if keep(r)]}


JSON = {
    "wp_points.json": without_digits,
    "addition.json": without_digits,
    "invariants.json": without_digits,
    "surrogate.json": rows("grids", lambda g: len(g["points"]) < (200 if g["set"] in ("A", "D_edge") else 50)),
    "lut.json": lambda file: rows("rows", lambda r: r["R"] in (64, 256))(file) | {"orders": []},
}


def packed(path):
    """The files of a set as they go into the archive."""
    name = path.name
    left_out = re.compile(TENSORS.get(name, "never"))
    files = sorted(f for f in path.rglob("*") if f.is_file())
    assert files, f"{path} holds no files"
    for file in files:
        raw = file.read_bytes()
        if file.suffix == ".json":
            value = json.loads(raw)
            value = JSON.get(file.name, lambda v: v)(value)
            if file.name == "meta.json":
                value = META.get(name, lambda v: v)(value)
            raw = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
        elif file.name == "tensors.safetensors":
            all_ = load(raw)
            raw = save({k: v for k, v in all_.items() if not left_out.match(k) and not (
                k.endswith("nchw") and k[:-4] + "nhwc" in all_)})
        elif file.suffix not in (".safetensors", ".npz"):
            continue
        yield str(file.relative_to(path)), raw


# By the first word of a set's name; all others Apache-2.0.
NONE = "none stated; the data contains no code of it, only numbers computed from random inputs"
LICENCES = {"attention": "BSD-3-Clause (SciPy, scikit-learn, PyTorch) and as stated", "as2drope": NONE, "fope": NONE,
            "liere": "MIT", "official": "MIT", "roi": "BSD-3-Clause and Apache-2.0", "alibi2d": "MIT", "lookhere": "MIT",
            "coco": "BSD-2-Clause", "sincos2d": "Apache-2.0; of MAE CC BY-NC 4.0"}


def readme(path, script):
    meta = json.loads((path / "meta.json").read_text())
    lines = [f"# {path.name}", f"Reference: {meta['reference']}.",
             f"Licence of the reference: {LICENCES.get(path.name.split('_')[0], 'Apache-2.0')}. The weights are random; "
             "the numbers are under this repository's licence.",
             f"tools/peers/references/{script} (seed {meta['seed']}) generates the data, pack.py packs it. set.zip contains the files; "
             "meta.json in it states sizes, seeds and tolerances."]
    return "\n\n".join(textwrap.fill(line, 118) for line in lines) + "\n"


def main():
    destination, script = pathlib.Path(sys.argv[1]), sys.argv[2]
    total = 0
    for path in map(pathlib.Path, sys.argv[3:]):
        out = destination / path.name
        out.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, raw in packed(path):
                info = zipfile.ZipInfo(name)  # whose time is always 1980
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = 0o644 << 16
                archive.writestr(info, raw, compresslevel=9)
        (out / "set.zip").write_bytes(buffer.getvalue())
        if (path / "meta.json").exists():
            (out / "README.md").write_text(readme(path, script))
        total += buffer.tell()
        print(f"{path.name:28}{buffer.tell():9}")
    print(f"{'':28}{total:9}")


if __name__ == "__main__":
    main()
