# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

"""Answers the requests of tools/bench: serve(prepare) reads lines

    inference|training WIDTH DEPTH HEADS PATCH SIDE BATCH DTYPE

from standard input and prints for each the seconds of one call and the peak memory of the process in bytes. The first
line prepares the call: prepare(what, width, depth, heads, patch, side, batch, dtype) returns a function.
"""

import resource
import sys
import time


def serve(prepare):
    call, prepared = None, None
    for line in sys.stdin:
        what, *numbers, dtype = line.split()
        if line != prepared:
            call, prepared = prepare(what, *map(int, numbers), dtype), line
        began = time.monotonic()
        call()
        print(time.monotonic() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, flush=True)
