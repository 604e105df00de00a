"""GEMM: every layout and schedule is built, certified, printed, and agrees with float64 at odd sizes."""

import numpy as np
import pytest

from amk.dsl.target import Target
from amk.errors import ArgumentError
from amk.harness.check import check
from amk.harness.interpret import arguments, run
from amk.ops import REGISTRY
from amk.ops.gemm import FAMILY, Gemm, GemmSchedule, build

SM80 = Target.find("sm_80")
SMALL = GemmSchedule(bm=32, bn=32, bk=8, tm=2, tn=4, stages=2, vec_width=1)


def error(kernel, sizes, **scalars):
    """Relative error (Frobenius) of a run on the CPU executor against float64."""
    args = arguments(kernel, sizes, np.random.default_rng(7))
    args |= {n: v for n, v in scalars.items() if n in args}
    want = FAMILY.reference({**kernel.origin.problem, "beta": 0.0, **{k: np.array(v) for k, v in args.items()}})["C"]
    run(kernel, args)
    return np.linalg.norm(args["C"] - want) / max(np.linalg.norm(want), 1e-30)


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("beta", ["zero", "any"])
def test_layouts(trans_a, trans_b, beta):
    """All four layouts, with and without beta, at sizes that no tile divides."""
    kernel = build(Gemm(m=37, n=45, k=29, trans_a=trans_a, trans_b=trans_b, beta=beta), SMALL, SM80)
    assert error(kernel, {"M": 37, "N": 45, "K": 29}, alpha=1.5, beta=-0.5) < 1e-6


@pytest.mark.parametrize(
    "change",
    [
        {"stages": 1}, {"stages": 4}, {"double_buffer": True}, {"pad": 4}, {"swizzle": True}, {"unroll": "full"},
        {"serpentine": False}, {"order": "rows"}, {"tm": 4}, {"bk": 16}, {"tn": 2}, {"specialise": True},
    ],
)  # fmt: skip
def test_schedule_fields(change):
    """Each field of a schedule changes the kernel, and none changes the result."""
    schedule = SMALL.model_copy(update=change)
    kernel = build(Gemm(m=33, n=40, k=20), schedule, SM80)
    assert kernel.hash != build(Gemm(m=33, n=40, k=20), SMALL, SM80).hash or change == {"double_buffer": True}
    assert error(kernel, {"M": 33, "N": 40, "K": 20}) < 1e-6


def test_vectors_batches_split_and_raster():
    """16-byte copies, a batch, partial sums by atomics, and grouped tiles of fixed sizes."""
    wide = SMALL.model_copy(update={"vec_width": 4, "bk": 16})
    assert error(build(Gemm(m=36, n=44, k=20), wide, SM80), {"M": 36, "N": 44, "K": 20}) < 1e-6
    assert error(build(Gemm(m=9, n=7, k=5, batch=3), SMALL, SM80), {"M": 9, "N": 7, "K": 5, "batch": 3}) < 1e-6
    split = build(Gemm(m=35, n=33, k=50), SMALL.model_copy(update={"split_k": 3}), SM80)
    assert error(split, {"M": 35, "N": 33, "K": 50}) < 1e-6
    group = build(Gemm(m=100, n=70, k=8), SMALL.model_copy(update={"specialise": True, "group": 2}), SM80)
    assert error(group, {}) < 1e-6


@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 40, 3), (40, 1, 7), (5, 5, 0), (64, 32, 8)])
def test_degenerate_sizes(sizes):
    """Ones, K = 0 and exact tiles."""
    m, n, k = sizes
    assert error(build(Gemm(m=m, n=n, k=k), SMALL, SM80), dict(zip("MNK", sizes, strict=True))) < 1e-6


def test_the_candidate_of_the_issue_is_accepted():
    """{BM 128, BN 64, BK 32, TM 8, TN 4, vec_width 4, double_buffer} builds and is proved."""
    s = GemmSchedule(bm=128, bn=64, bk=32, tm=8, tn=4, vec_width=4, double_buffer=True)
    report = check(build(Gemm(m=512, n=512, k=512), s, SM80))
    assert report.ok, report.diagnostics


@pytest.mark.parametrize(
    ("problem", "schedule", "says"),
    [
        (Gemm(m=8, n=8, k=3), GemmSchedule(vec_width=4), "vec_width=1"),
        (Gemm(m=8, n=8, k=8), GemmSchedule(bm=16), "divide"),
        (Gemm(m=8, n=8, k=8), GemmSchedule(swizzle=True, pad=4), "choose one"),
        (Gemm(m=8, n=8, k=8, beta="any"), GemmSchedule(split_k=2), "beta"),
        (Gemm(m=8, n=8, k=8), GemmSchedule(group=2), "specialised"),
    ],
)
def test_contradictions_are_refused(problem, schedule, says):
    """A schedule that cannot be built says why."""
    with pytest.raises(ArgumentError, match=says):
        build(problem, schedule, SM80)


def test_registry():
    """An operator is found by name, and its cost is that of the textbook."""
    assert REGISTRY["gemm"] is FAMILY
    assert FAMILY.flops(Gemm(m=2, n=3, k=5)) == 60 and FAMILY.bytes(Gemm(m=2, n=3, k=5)) == 4 * (10 + 15 + 6)
