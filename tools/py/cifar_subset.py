#!/usr/bin/env python3
# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Extracts the subset of CIFAR-100 for make finetune-demo from the binary version.

    python3 tools/py/cifar_subset.py cifar-100-binary examples/cifar100/demo
    python3 tools/py/cifar_subset.py cifar-100-binary first80 0:80

It takes the first 40 training and the first 20 test records of ten classes, in their order, with fine labels 0 to 9.
With a range of fine labels it takes all records of these classes, for pretraining on some classes and fine-tuning on
the others.
"""

import gzip
import io
import pathlib
import sys
import tarfile

CLASSES = ["bicycle", "bottle", "castle", "dolphin", "keyboard", "mountain", "orange", "sunflower", "tiger", "train"]
RECORD = 2 + 3 * 32 * 32


def subset(path, names, classes, each):
    """Returns the first records of each chosen class, relabelled."""
    taken, out = {name: 0 for name in classes}, bytearray()
    raw = path.read_bytes()
    for at in range(0, len(raw), RECORD):
        name = names[raw[at + 1]]
        if name in taken and taken[name] < each:
            taken[name] += 1
            out += bytes([raw[at], classes.index(name)]) + raw[at + 2 : at + RECORD]
    return bytes(out)


def main(source, target, labels=""):
    source, target = pathlib.Path(source), pathlib.Path(target)
    names = (source / "fine_label_names.txt").read_text().split()
    classes, train, test = CLASSES, 40, 20
    if labels:
        first, end = map(int, labels.split(":"))
        classes, train, test = names[first:end], 500, 100
    files = {
        "fine_label_names.txt": "".join(name + "\n" for name in classes).encode(),
        "train.bin": subset(source / "train.bin", names, classes, train),
        "test.bin": subset(source / "test.bin", names, classes, test),
    }
    unzipped = io.BytesIO()
    with tarfile.open(fileobj=unzipped, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo("cifar-100-binary/" + name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    target.mkdir(parents=True, exist_ok=True)
    with open(target / "cifar-100-binary.tar.gz", "wb") as file:
        file.write(gzip.compress(unzipped.getvalue(), compresslevel=9, mtime=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
