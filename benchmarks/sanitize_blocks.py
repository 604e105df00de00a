"""Launches kernels whose blocks speak to each other with the driver alone (no torch), for compute-sanitizer.

compute-sanitizer --tool memcheck --error-exitcode 9 python benchmarks/sanitize_blocks.py
(also racecheck, initcheck and synccheck; racecheck looks at shared memory alone)
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import amk

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "harness"))
import talking


def main() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 9, 20_000).astype(np.int32)
    parts, halves = x[:19_200].reshape(12, 50, 32), x[:256].reshape(8, 32)
    problems = (
        (talking.look_back(), x, x.cumsum()),
        (talking.chained_scan(), x[:300], x[:300].cumsum()),
        (talking.last_block_sum(), parts, 2 * parts.sum(1)),
        (talking.histogram(), x, np.bincount(np.clip(x, 0, 31), minlength=32)),
        (talking.resident_sum(), halves, np.roll(halves + 1, -1, 0)[:, ::-1]),
    )
    for kernel, given, want in problems:
        out = np.zeros(want.shape, np.int32)
        amk.compile(kernel)(x=given, out=out)
        assert (out == want).all(), kernel.name
    print("right at", len(problems), "problems")


if __name__ == "__main__":
    main()
