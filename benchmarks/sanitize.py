"""Launches GEMM at three ragged shapes with the driver alone (no torch), for compute-sanitizer.

compute-sanitizer --tool memcheck --error-exitcode 9 python benchmarks/sanitize.py
"""

from __future__ import annotations

import numpy as np

import amk


def main() -> None:
    gemm, rng = amk.AutoMegaKernelGEMM(device=0), np.random.default_rng(0)
    for m, n, k in ((67, 45, 33), (130, 258, 37), (129, 132, 68)):
        for ta, tb in ((0, 0), (0, 1), (1, 0), (1, 1)):
            a = rng.standard_normal((k, m) if ta else (m, k)).astype(np.float32)
            b = rng.standard_normal((n, k) if tb else (k, n)).astype(np.float32)
            a, b = (a.T if ta else a), (b.T if tb else b)
            want = a.astype(np.float64) @ b
            assert np.linalg.norm(gemm.run(a, b) - want) < 1e-5 * np.linalg.norm(want)
    print("ok")


if __name__ == "__main__":
    main()
