"""Launches GEMM with the driver alone (no torch), for compute-sanitizer: ragged shapes in every layout, a batch with
beta, and a split of k, which the rule agent does not choose by itself.

compute-sanitizer --tool memcheck --error-exitcode 9 python benchmarks/sanitize.py
(also racecheck, initcheck and synccheck; `python benchmarks/sanitize.py cpu` runs the same on the CPU executor)
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import amk
from amk.dsl.target import Target
from amk.ops.gemm import Gemm, GemmSchedule, build

SHAPES = ((67, 45, 33), (130, 258, 37), (129, 132, 68))


def close(got: Any, want: Any) -> None:
    """Raises AssertionError where the result is not that of float32 sums; NaN, which outputs start as, included."""
    assert np.linalg.norm(got - want) < 1e-5 * np.linalg.norm(want)


def layouts(gemm: amk.AutoMegaKernelGEMM, rng: np.random.Generator) -> None:
    """Each shape with each operand as stored and as a transposed view, into a poisoned C."""
    for m, n, k in SHAPES:
        for ta, tb in ((0, 0), (0, 1), (1, 0), (1, 1)):
            a = rng.standard_normal((k, m) if ta else (m, k)).astype(np.float32)
            b = rng.standard_normal((n, k) if tb else (k, n)).astype(np.float32)
            a, b = (a.T if ta else a), (b.T if tb else b)
            out = np.full((m, n), np.nan, np.float32)
            close(gemm.run(a, b, out), a.astype(np.float64) @ b)


def batch(gemm: amk.AutoMegaKernelGEMM, rng: np.random.Generator) -> None:
    """Three products, added to half of what C held."""
    a, b, c = (rng.standard_normal((3, *s)).astype(np.float32) for s in ((67, 33), (33, 45), (67, 45)))
    want = 2.0 * (a.astype(np.float64) @ b) + 0.5 * c
    close(gemm.run(a, b, c, alpha=2.0, beta=0.5), want)


def split(device: str | int, rng: np.random.Generator) -> None:
    """Partial sums added by atomics into a C of zeros."""
    m, n, k = SHAPES[0]
    schedule = GemmSchedule(bm=32, bn=32, bk=8, tm=4, tn=4, stages=3, vec_width=1, split_k=2)
    kernel = build(Gemm(m=m, n=n, k=k), schedule, Target.find("sm_80"))
    a, b = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
    c = np.zeros((m, n), np.float32)
    amk.compile(kernel, device=device)(A=a, B=b, C=c, M=m, N=n, K=k, lda=k, ldb=n, ldc=n, alpha=1.0)
    close(c, a.astype(np.float64) @ b)


def main() -> None:
    device: str | int = "cpu" if sys.argv[1:] == ["cpu"] else 0
    gemm, rng = amk.AutoMegaKernelGEMM(device=device), np.random.default_rng(0)
    layouts(gemm, rng)
    batch(gemm, rng)
    split(device, rng)
    assert "torch" not in sys.modules, "torch's own launches would be sanitised too"
    print("ok")


if __name__ == "__main__":
    main()
