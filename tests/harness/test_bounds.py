"""Bounds, overflow and alignment for all sizes: field cases, both provers held to one verdict, and no heavy imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import Apply, Const, Var, apply, both, cdiv, maximum, minimum, select
from amk.dsl.layout import Swizzle
from amk.dsl.target import Target
from amk.dsl.text import parse
from amk.harness.affine import Facts
from amk.harness.check import check
from amk.harness.context import Context


def gemm(*, guard=True, k_size=None, depth=16, multiple=4):
    """A tiled product's loads and stores, the K tail guarded or not."""
    k = KernelBuilder("gemm", target="sm_80", threads=256)
    m, n = k.size("M"), k.size("N")
    size = Const(k_size) if k_size else k.size("K", multiple_of=multiple)
    a = k.tensor("A", "f32", (m, size), align=16)
    c = k.tensor("C", "f32", (m, n), access="write")
    tile = k.shared("As", "f32", (2, 128, 16))
    acc = k.registers("acc", "f32", (2, 2))
    row0, col0 = k.let("row0", k.by * 128), k.let("col0", k.bx * 128)
    with k.loop("k0", 0, size, depth, s=0) as loop:
        r, q = k.let("r", k.t // 4), k.let("q", k.t % 4 * 4)
        inside = both(row0 + r < m, loop.var + q < size) if guard else row0 + r < m
        k.call("cp.async.16", {"dst": tile[loop.s, r, q], "src": a[row0 + r, loop.var + q]}, when=inside)
        k.commit()
        k.wait()
        k.sync()
        loop.next(s=(loop.s + 1) % 2)
    for i in range(2):
        for j in range(2):
            row, col = row0 + k.t // 16 * 8 + i, col0 + k.t % 16 * 8 + j
            with k.when(both(row < m, col < n)):
                k.store(c[row, col], acc[i, j])
    return k.finish(grid=(cdiv(n, 128), cdiv(m, 128)))


def found(kernel, prover="auto"):
    r = Context(kernel, Target.find("sm_80"), prover).bounds
    return {f.code for f in r.findings}, r


def vector(body, *, threads=128, grid=None, **size):
    """A kernel over a vector of n floats, its body made by a function."""
    k = KernelBuilder("vector", target="sm_80", threads=threads)
    n = k.size("n", **size)
    x, a = k.tensor("x", "f32", (n,), align=16), k.registers("a", "f32", (4,))
    body(k, n, x, a)
    return k.finish(grid=(cdiv(n, threads) if grid is None else grid,))


@pytest.mark.parametrize("prover", ["auto", "z3", "both"])
def test_guarded_tail_is_proved(prover):
    codes, r = found(gemm(), prover)
    assert not codes, r.findings
    by = {o.by for o in r.obligations if o.rule == "AMK201"}
    assert by == ({"affine"} if prover == "auto" else {"z3"})


def test_unguarded_tail_has_a_small_counterexample():
    codes, r = found(gemm(guard=False))
    assert codes == {"AMK201"}
    (f,) = r.findings
    v = f.counterexample
    assert f.severity == "error" and v["K"] <= 16 and v["M"] <= 64
    assert v["k0"] + v["t"] % 4 * 4 + 4 > v["K"]
    assert "#" not in "".join(v)


def test_fixed_k_needs_a_guard_only_where_the_tile_does_not_divide_it():
    assert found(gemm(guard=False, k_size=64))[0] == set()
    assert found(gemm(guard=False, k_size=56))[0] == {"AMK201"}


def test_odd_k_breaks_the_alignment_of_wide_copies():
    assert "AMK205" in found(gemm(multiple=2))[0]


def test_trip_count_bounds_an_access_without_a_guard():
    def body(k, n, x, a):
        with k.loop("i", 0, cdiv(maximum(n - k.t, 0), 128)) as loop:
            k.load(a[0], x[k.t + loop.var * 128])

    assert found(vector(body, grid=1))[0] == set()


def test_strided_loop_bounds_an_access():
    def body(k, n, x, a):
        with k.loop("i", k.t, n, 128) as loop:
            k.load(a[0], x[loop.var])

    assert found(vector(body, grid=1))[0] == set()


def test_index_from_the_end():
    def body(k, n, x, a):
        with k.when(k.bx < n):
            k.load(a[0], x[n - 1 - k.bx])

    assert found(vector(body, grid="n"))[0] == set()


def test_clamped_index():
    def body(k, n, x, a):
        k.load(a[0], x[minimum(k.t, n - 1)])
        k.load(a[1], x[select(k.t < n, k.t, 0)])

    assert found(vector(body, grid=1))[0] == set()


def test_negated_guard_does_not_count():
    def body(k, n, x, a):
        with k.when(Apply("not", (k.t < n,))):
            k.load(a[0], x[k.t])

    assert found(vector(body, grid=1))[0] == {"AMK201"}


def test_a_guard_on_a_register_that_changes_is_no_fact():
    def body(k, n, x, a):
        j = k.registers("j", "i32", (1,))
        with k.when(both(j[0] >= 0, j[0] < n)):
            k.store(j[0], n)
            k.load(a[0], x[j[0]])

    assert found(vector(body, grid=1))[0] == {"AMK201"}


def test_a_clamped_value_of_memory_is_a_safe_index():
    def body(k, n, x, a):
        j = k.registers("j", "i32", (1,))
        i = k.let("i", minimum(maximum(j[0], 0), n - 1))
        k.load(a[0], x[i])

    assert found(vector(body, grid=1))[0] == set()


@pytest.mark.parametrize("step", ["(s + 1) % 3", "select(s == 2, 0, s + 1)", "(s + 4) % 3"])
def test_ring_slots_stay_in_their_ring(step):
    def body(k, n, x, a):
        with k.loop("i", 0, n, s=0) as loop:
            k.store(a[loop.s], 0.0)
            loop.next(s=parse(step))

    assert found(vector(body, grid=1))[0] == set()


def test_ring_that_leaves_its_array_is_not_proved():
    def body(k, n, x, a):
        with k.loop("i", 0, n, s=0) as loop:
            k.store(a[loop.s], 0.0)
            loop.next(s=(loop.s + 1) % 5)

    _, r = found(vector(body, grid=1))
    assert {(f.code, f.severity) for f in r.findings} == {("AMK203", "undecided")}


def tensor(rows, columns, offsets):
    k = KernelBuilder("wide", target="sm_80", threads=1)
    a, r = k.tensor("A", "f32", (rows, columns), offsets=offsets), k.registers("r", "f32", (1,))
    k.load(r[0], a[0, 0])
    return k.finish(grid=(1,))


def test_32_bit_offsets():
    codes, r = found(tensor(50000, 50000, "i32"))
    assert codes == {"AMK204"} and "2499999999" in r.findings[0].message and "A" in r.findings[0].message
    assert found(tensor(16385, 131072, "i32"))[0] == {"AMK204"}
    assert found(tensor(50000, 50000, "i64"))[0] == set()
    assert found(tensor(16384, 131072, "i32"))[0] == set()  # the last offset is 2**31 - 1


def test_an_intermediate_overflow_counts_even_if_it_cancels():
    assert found(vector(lambda k, n, x, a: k.let("q", Apply("-", (n * 4, n * 4))), grid=1))[0] == {"AMK204"}


def test_base_and_pitch_alignment():
    def load(align, pitch):
        k = KernelBuilder("slice", target="sm_80", threads=1)
        a = k.tensor("A", "f16", (64, 64), strides=(pitch, 1), align=align)
        r = k.registers("r", "f16", (8,))
        k.load(r[0], a[k.bx, 0], width=8)
        return found(k.finish(grid=(64,)))[0]

    assert load(16, 128) == set()
    assert load(2, 128) == {"AMK205"}
    assert load(16, 100) == {"AMK205"}


def test_swizzle_keeps_vectors_of_its_base():
    def load(width, base):
        k = KernelBuilder("swizzled", target="sm_80", threads=32)
        s = k.shared("s", "f32", (32, 32), layout=Swizzle(bits=3, base=base, shift=3))
        r = k.registers("r", "f32", (4,))
        k.load(r[0], s[k.t, 4], width=width)
        return found(k.finish(grid=(1,)))[0]

    assert load(4, 2) == set()
    assert load(4, 1) == {"AMK205"}


def test_a_division_is_claimed_only_where_it_is_reached():
    k = KernelBuilder("d", target="sm_80", threads=32)
    n = k.size("n", min=0, max=1000)
    k.let("q", select(n > 0, apply("//", k.t, n), 0))
    assert found(k.finish(grid=(1,)))[0] == set()
    k = KernelBuilder("d", target="sm_80", threads=32)
    n = k.size("n", min=0, max=1000)
    k.let("q", apply("//", k.t, n))
    _, r = found(k.finish(grid=(1,)))
    assert [(f.code, f.counterexample["n"]) for f in r.findings] == [("AMK208", 0)]


def test_assumptions_are_facts_and_contradictions_are_errors():
    def build(*facts):
        k = KernelBuilder("a", target="sm_80", threads=32)
        n, m = k.size("n"), k.size("m")
        x, r = k.tensor("x", "f32", (m,)), k.registers("r", "f32", (1,))
        for f in facts:
            k.assume(parse(f))
        with k.when(k.t < n):
            k.load(r[0], x[k.t])
        return k.finish(grid=(1,))

    assert found(build())[0] == {"AMK201"}
    assert found(build("n <= m"))[0] == set()
    assert {d.code for d in check(build("n < m", "m < n")).errors} == {"AMK009"}


def test_tightening_and_elimination():
    f = Facts({"K": (0, 1 << 20), "q": (0, 1 << 20)}, {"K": 4})
    f.know(parse("4*q < K"))
    assert f.prove(parse("K - 4*q - 4"))
    assert not f.prove(parse("K - 4*q - 5"))


@pytest.mark.parametrize("e", ["x // 8", "x % 8", "cdiv(x, 8)", "(x + 3) // 4 * 4", "(8*x + 5) // 8",
                               "(8*x + 9) % 8",
                               "x & 7", "x >> 2", "x << 3", "min(x, y)", "max(x - y, 3)", "select(x < y, x, y)",
                               "x ^ y", "(x*y + 3) % 4", "x | 5"])  # fmt: skip
def test_intervals_hold_every_value(e):
    """Exhaustive over a small box: the interval and the normal form agree with Python."""
    from amk.dsl.evaluate import function_of

    term = parse(e)
    f = Facts({"x": (0, 20), "y": (0, 9)}, {})
    lo, hi = f.interval(term)
    of, flat = function_of((term,), ("x", "y")), function_of((f.term(f.poly(term)),), ("x", "y"))
    for x in range(21):
        for y in range(10):
            assert lo <= of(x, y)[0] <= hi and of(x, y) == flat(x, y)


def test_proofs_hold_on_every_value():
    """Whatever the affine prover shows holds for all values of a small box (1,000 random claims)."""
    import random

    from amk.dsl.evaluate import function_of

    rng = random.Random(7)
    atoms = [Var("x"), Var("y"), parse("x // 3"), parse("y % 4"), parse("min(x, y)"), parse("select(x < y, x, 2)")]
    shown = 0
    for _ in range(1000):

        def pick():
            out = Const(rng.randint(-12, 12))
            for a in rng.sample(atoms, 3):
                out = out + a * rng.randint(-3, 3)
            return out

        goal, fact = pick(), pick() >= 0
        f = Facts({"x": (0, 12), "y": (0, 9)}, {})
        f.know(fact)
        if not f.prove(goal):
            continue
        shown += 1
        of = function_of((goal, fact), ("x", "y"))
        assert all(g >= 0 for g, h in (of(x, y) for x in range(13) for y in range(10)) if h), (goal, fact)
    assert shown > 50


def test_check_imports_neither_numpy_nor_z3():
    text = (
        "import sys; from amk.harness.rules.examples import example; from amk.harness.context import Context;"
        "from amk.dsl.target import Target; from amk.harness.check import check; r = check(example());"
        "assert r.ok, r.diagnostics; assert not {'numpy', 'z3'} & sys.modules.keys(), 'heavy'"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_claim_proved_under_a_guard_is_not_taken_for_the_same_claim_without_it():
    """`8 // n` stands twice in one store, once where n >= 1: the other one divides by zero at n = 0."""
    k = KernelBuilder("twice", target="sm_80", threads=32)
    n, z = k.size("n", min=0, max=100), k.tensor("z", "i32", (64,), access="write", align=8)
    k.store(z[k.t * 2], select(n >= 1, Const(8) // n, 0), Const(8) // n)
    found = [d for d in check(k.finish(grid=(1,))).errors if d.code == "AMK208"]
    assert [d.counterexample["n"] for d in found] == [0]


@pytest.mark.parametrize("dtypes", [("i64", "i32"), ("i32", "i64")])
def test_a_sum_that_fits_64_bits_is_not_taken_for_the_same_sum_in_32(dtypes):
    """Two values grow alike round one loop, and only one of them has room for that."""
    k = KernelBuilder("grow", target="sm_80", threads=32)
    n, z = k.size("n"), k.tensor("z", "i64", (32,), access="write", align=8)
    kernel = k.finish(grid=(1,)).to_dict()
    carry = [{"name": f"c{i}", "dtype": d, "init": "0", "next": f"c{i} + 1024"} for i, d in enumerate(dtypes)]
    loop = {"kind": "for", "var": "v", "hi": str(n), "carry": carry, "body": []}
    store = {"kind": "store", "dst": f"{z.name}[t]", "values": ["i64(c0) + i64(c1)"]}
    found = check(type(k.finish(grid=(1,))).model_validate({**kernel, "body": [loop, store]})).errors
    assert [d.code for d in found] == ["AMK204"] and f"c{dtypes.index('i32')} + 1024" in found[0].message
