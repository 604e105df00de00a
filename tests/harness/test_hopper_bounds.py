"""Bounds, overflow, alignment and divisions of warp-specialised kernels, for all sizes."""

from __future__ import annotations

import subprocess
import sys
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amk.dsl.builder import KernelBuilder
from amk.dsl.evaluate import function_of
from amk.dsl.expr import Apply, Const, Var, apply, cdiv, minimum, select
from amk.dsl.target import Target
from amk.harness.affine import Facts
from amk.harness.context import Context

from .hopper import BOUNDS, SCHEDULES, found, gemm, spoiled, statements

H200 = Target.find("h200")


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_wgmma_gemm_is_proved_without_z3(schedule):
    r = Context(gemm(schedule), H200).bounds
    assert not r.findings and {o.by for o in r.obligations} == {"affine"}


@pytest.mark.parametrize("schedule", SCHEDULES[::2], ids=str)
def test_both_provers_say_the_same(schedule):
    r = Context(gemm(schedule), H200, "both").bounds
    assert not r.findings and "z3" in {o.by for o in r.obligations}


def test_the_fast_path_imports_neither_numpy_nor_z3():
    code = (
        "import sys; from amk.ops.wgmma_gemm import wgmma_gemm; from amk.harness.context import Context;"
        "from amk.dsl.target import Target; b = Context(wgmma_gemm(), Target.find('h200')).bounds;"
        "assert not b.findings; assert not {'numpy', 'z3'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).returncode == 0


def parameter(name, **new):
    return lambda data: next(p for p in data["params"] if p["name"] == name).update(new)


def let(name, value):
    return lambda data: next(s for s in statements(data, "let") if s["name"] == name).update(value=value)


def refs(row, n=0, **new):
    return lambda data: statements(data, "call", row=row)[n]["refs"].update(new)


def field(kind, n=0, match=None, **new):
    return lambda data: statements(data, kind, **(match or {}))[n].update(new)


SPOILED = [
    (parameter("N", multiple_of=4), {"AMK209"}, "stride N of B"),
    (parameter("K", multiple_of=1, min=1), {"AMK209"}, "stride K of A"),
    (parameter("A", align=8), {"AMK209"}, "guarantees 8 bytes"),
    (parameter("M", min=0), {"AMK209"}, "extent M of A"),
    (parameter("B", dtype="bf16", strides=["K - 64", "1"]), {"AMK209"}, "can be 0 or negative"),
    (parameter("M", max=2**31 - 8), {"AMK204"}, "high_tiles * wide_tiles"),
    (parameter("blocks", multiple_of=1), {"AMK102"}, "multiple of the cluster"),
    (lambda d: (parameter("blocks", max=2**31 - 2)(d), let("stride", "blocks // 2 * 2")(d)), {"AMK204"}, "tile passes"),
    (let("high", "min(8, high_tiles - first - 1)"), {"AMK208"}, "high in rest % high"),
    (let("width", "wide_tiles * 7"), {"AMK208"}, "high in rest % high"),
    (let("stride", "blocks // 2 - 1"), {"AMK208"}, "the step stride"),
    (field("for", hi="tiles + 1"), {"AMK208"}, "high in"),
    (field("for", lo="first_tile - 1"), {"AMK208"}, "tile in tile // width"),
    (refs("wgmma", a="a[slot1, wg * 64, 8]"), {"AMK205"}, "multiple of 16"),
    (refs("wgmma", a="a[slot1, wg * 60, 0]"), {"AMK205"}, "multiple of 8"),
    (refs("wgmma", b="b[slot1, 0, 4, 0]"), {"AMK205"}, "multiple of 8"),
    (refs("wgmma", acc="acc[64]"), {"AMK203"}, "192 can exceed the size 128"),
    (refs("stmatrix", dst="c[t // 32, 0, lane % 16, lane]"), {"AMK205"}, "16 bytes"),
    (refs("tma.load.2d", dst="a[slot3, 0, 32]"), {"AMK205"}, "1024 bytes"),
    (refs("tma.store.2d", src="c[t // 32, 0, 0, 8]"), {"AMK205"}, "1024 bytes"),
    (refs("tma.load.2d", src="from_a[i64(m01) * 65536, step1 * 64]"), {"AMK204"}, "coordinate 0"),
    (refs("tma.load.2d", src="from_a[m01 * 65536, step1 * 64]"), {"AMK204"}, "m01 * 65536 may leave i32"),
    (field("if", match={"cond": "lane < 2"}, cond="lane < 3"), {"AMK202"}, "the peer lane"),
    (field("arrive", peer="lane - 1"), {"AMK202"}, "the peer lane - 1"),
    (field("call", match={"row": "multicast"}, args={"mask": "u32(rank)"}), {"AMK202"}, "the mask"),
    (field("call", match={"row": "multicast"}, args={"mask": "u32(1 << rank + 1)"}), {"AMK202"}, "the mask"),
    (field("wait", match={"barrier": "ab_full"}, parity="parity1 + M * 2048"), {"AMK204"}, "M * 2048"),
]


@pytest.mark.parametrize(("edit", "codes", "said"), SPOILED, ids=lambda x: x if isinstance(x, str) else "")
def test_what_is_spoiled_is_not_proved(edit, codes, said):
    bad = Context(spoiled(edit), H200).bounds.findings
    assert {d.code for d in bad} == codes and any(said in d.message for d in bad)


@pytest.mark.parametrize(
    ("edit", "code", "expected"),
    [
        (SPOILED[0][0], "AMK209", {"N": 12}),
        (SPOILED[3][0], "AMK209", {"M": 0}),
        (SPOILED[6][0], "AMK102", {"blocks": 3}),
        (SPOILED[8][0], "AMK208", {"M": 1}),
    ],
)
def test_a_fault_has_sizes_that_show_it(edit, code, expected):
    shown = next(d for d in found(spoiled(edit), BOUNDS) if d.code == code)
    assert shown.severity == "error" and expected.items() <= shown.counterexample.items()


def test_a_mask_of_one_block_is_in_the_cluster():
    edit = field("call", match={"row": "multicast"}, args={"mask": "u32(1 << rank)"})
    assert found(spoiled(edit), BOUNDS) == []


def kernel(body, *, blocks=1, **size):
    k = KernelBuilder("small", target="sm_90a", threads=32)
    n = k.size("n", **{"max": 2**20, **size})
    body(k, n)
    return k.finish(grid=(blocks,))


def bounds(made):
    return {(f.code, f.severity) for f in Context(made, H200).bounds.findings}


def test_a_claim_is_proved_under_each_condition_it_stands_under():
    guarded = lambda k, n: k.let("q", select(n > 0, Const(5) // n, 0))  # noqa: E731
    both = lambda k, n: k.let("q", select(n > 0, Const(5) // n, 0) + Const(5) // n)  # noqa: E731
    assert bounds(kernel(guarded, min=0)) == set()
    assert ("AMK208", "error") in bounds(kernel(both, min=0))


def test_what_a_claim_shows_ends_with_its_condition():
    def body(k, n):
        with k.when(n > 0):
            k.let("p", Const(5) % n)
        k.let("q", Const(9) % n)

    assert bounds(kernel(body, min=0)) == {("AMK208", "error")}


def test_a_carried_value_of_a_strided_loop_counts_rounds_and_not_strides():
    def body(k, n):
        x = k.registers("x", "f32", (8,))
        with k.loop("i", 0, 8, n, c=0) as i:
            k.store(x[i.var], 0.0)
            k.store(x[i.c], 0.0)
            i.next(c=i.c + 1)

    assert bounds(kernel(body)) == set()


def test_a_value_handed_through_a_nest_of_loops_keeps_its_interval():
    def ring(slots, last):
        def body(k, n):
            x = k.registers("x", "f32", (slots,))
            with k.loop("i", 0, n, s=0) as i:
                with k.loop("j", 0, n, s=i.s, held=0) as j:
                    k.store(x[j.s], 0.0)
                    j.next(s=select(apply("==", j.s, last), 0, j.s + 1), held=j.s)
                k.store(x[j.held], 0.0)
                i.next(s=j.s)

        return bounds(kernel(body))

    assert ring(4, 3) == set() and ring(7, 6) == set()
    assert ring(4, 4) == {("AMK203", "undecided")}


def test_bulk_copies_stay_inside_and_aligned():
    def copy(guard, align=16, scale=32):
        k = KernelBuilder("bulk", target="sm_90a", threads=32)
        n = k.size("n", max=2**20)
        x, s, bar = k.tensor("x", "f32", (n,), align=align), k.shared("s", "f32", (32,)), k.barrier("bar")
        with k.when(k.bx * scale + 32 <= n if guard else k.bx * scale < n):
            k.call("bulk.load", {"dst": s[0], "src": x[k.bx * scale], "bar": bar[0]}, bytes=128)
        return {f.code for f in Context(k.finish(grid=(cdiv(n, scale),)), H200).bounds.findings}

    assert copy(True) == set()
    assert copy(False) == {"AMK201"}
    assert copy(True, align=4) == {"AMK205"}
    assert copy(True, scale=2) == {"AMK205"}


# ------------------------------------------------------------------------------------------------------- the provers
NAMES = ("x", "y", "z")
LEAVES = st.sampled_from([*map(Var, NAMES), *map(Const, range(-2, 4))])


def grown(inner):
    return st.builds(
        lambda op, a, b: Apply(op, (a, b)), st.sampled_from(["+", "-", "*", "//", "%", "min", "max"]), inner, inner
    )


TERMS = st.recursive(LEAVES, grown, max_leaves=6)
CONDITIONS = st.builds(lambda op, a, b: Apply(op, (a, b)), st.sampled_from(["<", "<=", "==", "!=", ">="]), TERMS, TERMS)


@settings(max_examples=400, deadline=None)
@given(TERMS, st.lists(CONDITIONS, max_size=3))
def test_what_is_proved_holds_for_products_and_quotients_of_sizes(goal, conditions):
    ranges = {"x": (0, 4), "y": (1, 4), "z": (-2, 3)}
    facts = Facts(ranges, {})
    for c in conditions:
        facts.know(c)
    if not facts.prove(goal):
        return
    f = function_of((goal, *conditions), NAMES)
    for at in product(*(range(lo, hi + 1) for lo, hi in ranges.values())):
        try:
            value, *held = f(*at)
        except ZeroDivisionError:
            continue
        assert value >= 0 or not all(held), at


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 9))
def test_the_raster_that_is_proved_stays_inside(rows, cols, group):
    """The claims that the prover makes of the raster hold at each tile of small grids."""
    tile, width = Var("tile"), Const(cols * group)
    first, rest = tile // width * group, tile % width
    high = minimum(group, rows - first)
    f = function_of((high, first + rest % high, rest // high), ("tile",))
    facts = Facts({"tile": (0, rows * cols - 1)}, {})
    assert facts.prove(high - 1)
    assert all(h >= 1 and 0 <= r < rows and 0 <= c < cols for h, r, c in map(f, range(rows * cols)))
