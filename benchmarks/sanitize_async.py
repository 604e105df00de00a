"""Launches the tensor-core GEMM with the driver alone (no torch), for compute-sanitizer: ragged shapes, in f16, with
and without a cluster.

compute-sanitizer --tool memcheck --error-exitcode 9 python benchmarks/sanitize_async.py
(also racecheck, initcheck and synccheck)
"""

from __future__ import annotations

import numpy as np

import amk
from amk.ops.wgmma_gemm import WgmmaSchedule, wgmma_gemm

SHAPES = ((200, 136, 200), (129, 264, 72), (8, 8, 8))
SCHEDULES = (
    WgmmaSchedule(columns=128, slots=3), WgmmaSchedule(cluster=1),
    WgmmaSchedule(warpgroups=1, columns=64, slots=2, cluster=1),
)  # fmt: skip


def main() -> None:
    rng = np.random.default_rng(0)
    for schedule in SCHEDULES:
        kernel = amk.compile(wgmma_gemm(schedule, dtype="f16"))
        for m, n, k in SHAPES:
            a, b = (rng.standard_normal(s).astype(np.float16) for s in ((m, k), (k, n)))
            c = np.full((m, n), np.nan, np.float16)
            kernel(A=a, B=b, C=c, blocks=2)
            want = a.astype(np.float64) @ b.astype(np.float64)
            assert np.linalg.norm(c - want) < 1e-3 * np.linalg.norm(want), (schedule, m, n, k)
    print("right at", len(SCHEDULES) * len(SHAPES), "problems")


if __name__ == "__main__":
    main()
