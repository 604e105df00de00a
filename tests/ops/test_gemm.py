"""GEMM: every layout and schedule is built, certified, printed, and agrees with float64 at odd sizes."""

import json

import numpy as np
import pytest
from pydantic import ValidationError

import amk
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


BASE = SMALL.model_copy(update={"stages": 3})
FIELDS = {
    "bm": 64, "bn": 64, "bk": 16, "tm": 4, "tn": 2, "vec_width": 4, "stages": 4, "double_buffer": True, "swizzle": True,
    "pad": 4, "unroll": "full", "serpentine": False, "order": "rows", "split_k": 3, "group": 3, "specialise": True,
    "spill_bytes": 16,
}  # fmt: skip
NEEDS = {"group": {"specialise": True}, "vec_width": {"bk": 16}}  # what a field cannot be without


@pytest.mark.parametrize("field", GemmSchedule.model_fields)
def test_each_field_changes_the_kernel_and_not_the_result(field):
    """By itself: another hash, accepted by the check, and float64's result on the CPU at ragged sizes."""
    problem, base = Gemm(m=68, n=44, k=36), BASE.with_choices(NEEDS.get(field, {}))
    kernel = build(problem, base.with_choices({field: FIELDS[field]}), SM80)
    assert kernel.hash != build(problem, base, SM80).hash
    assert check(kernel).ok, check(kernel).diagnostics
    assert error(kernel, {"M": 68, "N": 44, "K": 36}) < 1e-6


def test_a_double_buffer_is_two_slots():
    """Alone it is exactly two slots; beside other stages it is refused, and the default stays at three."""
    assert GemmSchedule().slots == 3 and GemmSchedule(double_buffer=True).slots == 2
    problem = Gemm(m=64, n=64, k=64)
    double = build(problem, BASE.with_choices({"double_buffer": True}), SM80)
    assert double.hash == build(problem, SMALL, SM80).hash != build(problem, BASE, SM80).hash  # SMALL: stages=2
    for given in ({"stages": 4}, {"stages": 1}):
        with pytest.raises(ArgumentError, match="double_buffer is exactly 2 slots"):
            build(problem, GemmSchedule(double_buffer=True, **given), SM80)
    assert BASE.with_choices({"double_buffer": True}).with_choices({"stages": 5}).slots == 5


@pytest.mark.parametrize("cure", [{"pad": 4}, {"swizzle": True}])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_a_cure_that_no_tile_needs_is_refused(layout, cure):
    """pad and swizzle act on operands whose k runs contiguously; where neither does, they say so."""
    problem = Gemm(m=36, n=44, k=20, trans_a=layout[0] == "t", trans_b=layout[1] == "t")
    if layout == "tn":
        with pytest.raises(ArgumentError, match="would change nothing.*k x m"):
            build(problem, SMALL.with_choices(cure), SM80)
        return
    assert build(problem, SMALL.with_choices(cure), SM80).hash != build(problem, SMALL, SM80).hash


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


CANDIDATE = '{"BM": 128, "BN": 64, "BK": 32, "TM": 8, "TN": 4, "vec_width": 4, "double_buffer": true}'


def test_the_candidate_loads_certifies_and_runs():
    """As JSON, with upper-case names: read, proved by both provers, and right on the CPU at ragged sizes."""
    s = GemmSchedule.model_validate(json.loads(CANDIDATE), strict=True)
    assert s == GemmSchedule(bm=128, bn=64, bk=32, tm=8, tn=4, vec_width=4, double_buffer=True) and s.slots == 2
    assert "bm" in s.model_dump() and "BM" not in s.model_dump()
    kernel = build(Gemm(m=512, n=512, k=512), s, SM80)
    assert amk.certify(kernel).meaning == "checked"
    for m, n, k in ((133, 68, 36), (1, 4, 100), (257, 128, 8)):
        assert error(kernel, {"M": m, "N": n, "K": k}) < 1e-6


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"BM": 128, "bm": 64}, "BM and bm are one field"), ({"stages": True}, "integer"), ({"stages": "3"}, "integer"),
        ({"vec_width": True}, "one of 1, 2, 4"), ({"vec_width": 4.0}, "one of 1, 2, 4"), ({"Bm": 64}, "Extra"),
        ({"double_buffer": 1}, "boolean"), ({"bm": 48}, "16, 32, 64, 128 or 256"), ({"spill_bytes": -1}, "greater"),
    ],
)  # fmt: skip
def test_a_schedule_is_read_strictly(data, says):
    """What a field does not take is refused, not converted."""
    with pytest.raises(ValidationError, match=says):
        GemmSchedule.model_validate(data, strict=True)


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
