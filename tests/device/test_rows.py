"""Every row of the instruction table, held against the manual: what it writes, and nothing beside it.

The same body runs on the CPU executor (anywhere) and on a GPU. What is expected is spelled out here from the PTX ISA,
so the row's NumPy meaning is tested too. Memory and registers around a result hold poison, which has to stay.
"""

from __future__ import annotations

import ctypes
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import amk
from amk.dsl.expr import apply, as_expr, cdiv
from amk.dsl.instructions import PURE, ROWS
from amk.dsl.types import nbytes
from amk.errors import ArgumentError, Refused

COPIES = ("cp.async.4", "cp.async.8", "cp.async.16")
SHUFFLES = ("shfl.down", "shfl.up", "shfl.bfly", "shfl.idx")
FUNCTIONS = ("fma",)


def test_every_row_is_here():
    """A row without a device test is a claim without evidence."""
    elsewhere = ("tma.", "bulk.", "ldmatrix.", "stmatrix.", "mma.", "wgmma.", "mbarrier.")  # test_rows_async.py
    elsewhere += ("vote.", "match.", "redux.")  # test_rows_warp.py
    silent = {"prefetch.tensormap", "griddepcontrol.wait", "griddepcontrol.launch_dependents"}  # change no value
    assert {*COPIES, *SHUFFLES, *silent} == {n for n in ROWS if not n.startswith(elsewhere)}
    assert {*FUNCTIONS, "bf16x2", "f16x2", "bf16", "f16", "exp2"} == set(PURE)  # test_rows_pure.py


# -- cp.async: n bytes from global to shared memory; with the predicate false, n zero bytes and no read

PATTERNS = {"all": (0, 32), "none": (0, 0), "first": (0, 1), "last": (31, 32), "middle": (7, 21)}  # threads from, to
SLOTS = 4
COPY_TYPES = [
    (row, dtype) for row in COPIES for dtype in ("u32", "u8", "f32", "f64") if dtype != "f64" or row != "cp.async.4"
]


def copier(row: str, dtype: str, *, dst: int = 0, src: int = 0, wait: bool = True) -> Any:
    """32 threads copy one piece each into slot `slot` of a poisoned ring, every second piece; the ring is dumped.

    Thread t's source is piece t of x where lo <= t < hi, and lies behind the end of x where the predicate is false.
    """
    each = ROWS[row].operand("dst").nbytes // nbytes(dtype)
    k = amk.KernelBuilder("copier", target="sm_80", threads=32)
    lo, hi, slot = k.size("lo", min=0, max=32), k.size("hi", min=0, max=32), k.size("slot", min=0, max=SLOTS - 1)
    x = k.tensor("x", dtype, (32 * each,), align=16)
    poison = k.tensor("poison", dtype, (1,))
    out = k.tensor("out", dtype, (SLOTS, 64 * each), access="write")
    ring = k.shared("ring", dtype, (SLOTS, 64 * each))
    r = k.registers("r", dtype, (1,))
    k.load(r[0], poison[0])
    for s in range(SLOTS):
        with k.loop("i", k.t, 64 * each, 32) as loop:
            k.store(ring[s, loop.var], r[0])
    k.sync()
    when = apply("and", lo <= k.t, k.t < hi)
    at = k.let("at", apply("select", when, k.t, k.t + 32))
    k.call(row, {"dst": ring[slot, (2 * k.t + 1) * each - dst], "src": x[at * each - src]}, when=when)
    if wait:
        k.commit()
        k.wait()
    k.sync()
    for s in range(SLOTS):
        with k.loop("i", k.t, 64 * each, 32) as loop:
            k.load(r[0], ring[s, loop.var])
            k.store(out[s, loop.var], r[0])
    return k.finish(grid=(1,))


@pytest.mark.parametrize(("row", "dtype"), COPY_TYPES)
def test_copy(execute, row, dtype):
    """Exactly n bytes arrive, bit for bit (NaN payloads too), or n zeros; the rest of the ring keeps its poison."""
    n = int(row.rpartition(".")[2])
    assert [o.nbytes for o in ROWS[row].operands] == [n, n] and [o.align for o in ROWS[row].operands] == [n, n]
    kind = np.dtype({"u32": "u4", "u8": "u1", "f32": "f4", "f64": "f8"}[dtype])
    data = np.random.default_rng(n).integers(1, 256, 32 * n, dtype=np.uint8)
    poison, run = np.full(kind.itemsize, 0xA5, np.uint8).view(kind), execute(copier(row, dtype))
    for slot in (0, SLOTS - 1):
        for lo, hi in PATTERNS.values():
            out = np.zeros((SLOTS, 64 * n // kind.itemsize), kind)
            run(x=data.view(kind).copy(), poison=poison, out=out, lo=lo, hi=hi, slot=slot)
            want = np.full((SLOTS, 64 * n), 0xA5, np.uint8)
            for t in range(32):
                piece, place = data[t * n : (t + 1) * n], slice((2 * t + 1) * n, (2 * t + 2) * n)
                want[slot, place] = piece if lo <= t < hi else 0
                assert (ROWS[row].numpy()(piece, np.bool_(lo <= t < hi)) == want[slot, place]).all()
            assert (out.view(np.uint8) == want).all(), (slot, lo, hi)


@pytest.mark.parametrize("row", COPIES)
@pytest.mark.parametrize("pending", [0, 1, 2, 3])
def test_groups_retire_oldest_first(execute, row, pending):
    """Four groups, one a slot; after `wait pending` the older ones are there, in the order of their commits."""
    n = int(row.rpartition(".")[2])
    each = n // 4
    k = amk.KernelBuilder("groups", target="sm_80", threads=64)
    x = k.tensor("x", "u32", (SLOTS, 64 * each), align=16)
    out = k.tensor("out", "u32", (SLOTS, 64 * each), access="write")
    ring, r = k.shared("ring", "u32", (SLOTS, 64 * each)), k.registers("r", "u32", (1,))
    order = (2, 0, 3, 1)
    for s in order:
        k.call(row, {"dst": ring[s, k.t * each], "src": x[s, k.t * each]}, when=k.t >= 0)
        k.commit()
    k.wait(pending=pending)  # a thread sees its own copies of retired groups without a barrier
    for s in order[: SLOTS - pending]:
        for e in range(each):
            k.load(r[0], ring[s, k.t * each + e])
            k.store(out[s, k.t * each + e], r[0])
    k.wait()
    for s in order[SLOTS - pending :]:
        for e in range(each):
            k.load(r[0], ring[s, k.t * each + e])
            k.store(out[s, k.t * each + e], r[0])
    data = np.random.default_rng(pending).integers(0, 2**32, (SLOTS, 64 * each), dtype=np.uint32)
    out = np.zeros_like(data)
    execute(k.finish(grid=(1,)))(x=data, out=out)
    assert (out == data).all()


@pytest.mark.parametrize("row", COPIES)
def test_a_copy_read_before_it_is_waited_for_is_refused(row):
    """Completion by groups is part of the row: without commit and wait there is no certificate."""
    with pytest.raises(Refused):
        amk.certify(copier(row, "u32", wait=False))


@pytest.mark.parametrize("row", COPIES)
@pytest.mark.parametrize(("dst", "src"), [(1, 0), (0, 1), (2, 0), (0, 2)])
def test_misaligned_copies_are_refused(row, dst, src):
    """Either side one or two 4-byte elements off, unless that is a multiple of n."""
    n = int(row.rpartition(".")[2])
    report = amk.check(copier(row, "u32", dst=dst, src=src))
    misaligned = (4 * dst) % n != 0 or (4 * src) % n != 0
    assert ("AMK205" in {d.code for d in report.diagnostics}) == misaligned and not (misaligned and report.ok)


def test_a_misaligned_base_is_refused():
    """The row's alignment becomes a fact of the argument, which the launch checks."""
    kernel, out = copier("cp.async.16", "u32"), np.zeros((SLOTS, 256), np.uint32)
    raw = np.zeros(132, np.uint32)
    start = (-raw.ctypes.data % 16) // 4 + 1
    compiled = amk.compile(kernel, device="cpu")
    with pytest.raises(ArgumentError, match="'x' is aligned to 4 bytes; the kernel needs 16"):
        compiled(x=raw[start : start + 128], poison=np.zeros(1, np.uint32), out=out, lo=0, hi=32, slot=0)


# -- shuffles: every lane receives a lane of its own warp, or keeps its value

BITS = np.array(
    [0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00001, 0xFFFFFFFF, 0x00000001, 0x7F7FFFFF, 0x3F800000]
    + [0x9E3779B9 * i & 0xFFFFFFFF for i in range(1, 88)],
    np.uint32,
)  # zeros, infinities, NaNs with a payload, a subnormal, the largest float, and noise
KINDS = {"f32": np.float32, "i32": np.int32, "u32": np.uint32}


OPERANDS = (0, 1, 2, 15, 16, 30, 31)
LANES = {
    "own": (lambda lane: lane, lambda lane: lane), "reversed": (lambda lane: 31 - lane, lambda lane: 31 - lane),
    "scattered": (lambda lane: lane * 7 % 32, lambda lane: lane * 7 % 32),
    "halves": (lambda lane: apply("select", lane < 16, as_expr(31), as_expr(0)), lambda lane: 31 if lane < 16 else 0),
}  # fmt: skip


def shuffler(row: str, dtype: str, operands: Any) -> Any:
    """Three warps shuffle by each operand into every second register; all registers are stored."""
    k, count = amk.KernelBuilder("shuffler", target="sm_80", threads=96), 2 * len(operands) + 1
    x, out = k.tensor("x", dtype, (96,)), k.tensor("out", dtype, (96, count), access="write")
    v, r = k.registers("v", dtype, (1,)), k.registers("r", dtype, (count,))
    k.load(v[0], x[k.t])
    for i in range(count):
        k.store(r[i], v[0])
    for j, operand in enumerate(operands):
        given = operand(k.t % 32) if callable(operand) else operand
        k.call(row, {"dst": r[2 * j + 1]}, value=v[0], **{ROWS[row].args[1].name: given})
    for i in range(count):
        k.store(out[k.t, i], r[i])
    return k.finish(grid=(1,))


def source_lane(row: str, lane: int, operand: int) -> int:
    """PTX ISA, shfl.sync with the full mask, c = 31 (0 for up): the lane that is read, or the own one out of range."""
    j = {"shfl.down": lane + operand, "shfl.up": lane - operand, "shfl.bfly": lane ^ operand, "shfl.idx": operand}[row]
    return j if 0 <= j <= 31 else lane


def shuffled(execute: Any, row: str, dtype: str, operands: Any, lane: Any) -> None:
    """Runs, and compares with `lane(t % 32, j)`: what thread t receives by operand j."""
    x, out = BITS.view(KINDS[dtype]).copy(), np.zeros((96, 2 * len(operands) + 1), KINDS[dtype])
    execute(shuffler(row, dtype, operands))(x=x, out=out)
    want = np.array([[BITS[t - t % 32 + lane(t % 32, j)] for j in range(len(operands))] for t in range(96)])
    assert (out.view(np.uint32)[:, 1::2] == want).all()
    assert (out.view(np.uint32)[:, ::2] == BITS[:, None]).all()  # the neighbours of `dst`
    for j, operand in enumerate(operands):
        given = np.array([LANES_BY[operand](t % 32) for t in range(96)]) if callable(operand) else operand
        assert (np.asarray(ROWS[row].numpy()(x, given)).view(np.uint32) == want[:, j]).all()


LANES_BY = dict(LANES.values())


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("row", SHUFFLES)
def test_shuffle(execute, row, dtype):
    """Both ends of the operand, all lanes, no lane of another warp, bits unchanged, neighbours of `dst` unchanged."""
    shuffled(execute, row, dtype, OPERANDS, lambda lane, j: source_lane(row, lane, OPERANDS[j]))


@pytest.mark.parametrize("dtype", KINDS)
def test_shuffle_idx_with_a_lane_for_each_thread(execute, dtype):
    """shfl.idx may ask for another lane in each thread."""
    wished = [number for _, number in LANES.values()]
    shuffled(execute, "shfl.idx", dtype, [made for made, _ in LANES.values()], lambda lane, j: wished[j](lane))


@pytest.mark.parametrize("operand", [-1, 32])
@pytest.mark.parametrize("row", SHUFFLES)
def test_shuffle_operands_outside_the_warp_are_refused(row, operand):
    """The row's range is 0 to 31."""
    with pytest.raises(amk.AmkError):
        amk.certify(shuffler(row, "u32", [operand]))


@pytest.mark.parametrize("row", SHUFFLES)
def test_a_shuffle_that_not_all_lanes_reach_is_refused(row):
    """The issuer of the row is the warp."""
    k = amk.KernelBuilder("half", target="sm_80", threads=32)
    x, out = k.tensor("x", "u32", (32,)), k.tensor("out", "u32", (32,), access="write")
    r = k.registers("r", "u32", (1,))
    k.load(r[0], x[k.t])
    with k.when(k.t < 16):
        k.call(row, {"dst": r[0]}, value=r[0], **{ROWS[row].args[1].name: 1})
    k.store(out[k.t], r[0])
    with pytest.raises(Refused):
        amk.certify(k.finish(grid=(1,)))


# -- fma: one rounding

F32 = np.float32
ENDS = [0.0, -0.0, 1.0, -1.0, 2.0**-149, -(2.0**-149), 2.0**-126, 1 - 2.0**-24, 1 + 2.0**-23, 3.0, 2.0**127,
        float(np.finfo(F32).max), -float(np.finfo(F32).max), math.inf, -math.inf, math.nan]  # fmt: skip


def rounded(value: Fraction) -> np.float32:
    """The nearest float32, ties to even, of a number that is not 0; subnormals are kept, large ones are infinite."""
    sign, value = (-1, -value) if value < 0 else (1, value)
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > value
    step = Fraction(2) ** max(exponent - 23, -149)
    whole = round(value / step)  # Python rounds ties to even
    found = whole * step
    return F32(sign * (math.inf if found >= Fraction(2) ** 128 else float(found)))


def exact_fma(a: Any, b: Any, c: Any) -> np.float32:
    """a * b + c in rational numbers, rounded once; what is not finite or 0 follows IEEE 754, as float64 does."""
    if np.isfinite([a, b, c]).all():
        value = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        if value:
            return rounded(value)
    with np.errstate(all="ignore"):
        return F32(np.float64(a) * np.float64(b) + np.float64(c))


def cases() -> tuple[Any, Any, Any]:
    """All triples of the ends; random numbers; and near ties, where a rounding in between shows."""
    rng = np.random.default_rng(0)
    a, b, c = (g.ravel() for g in np.meshgrid(*[np.array(ENDS, F32)] * 3))
    noise = [(rng.standard_normal(2000) * 2.0 ** rng.integers(-40, 40, 2000)).astype(F32) for _ in range(3)]
    x = (1 + rng.integers(0, 2**23, 2000) * 2.0**-23).astype(F32)
    y = (1 + rng.integers(0, 2**23, 2000) * 2.0**-23).astype(F32)
    near = -(x.astype(np.float64) * y).astype(F32)  # what is left is the error of the product
    tiny = [np.full(4, 1 + 2.0**-12, F32), np.full(4, 1 + 2.0**-12, F32), np.array([0, 2.0**-60, -(2.0**-60), 1], F32)]
    return tuple(np.concatenate(p) for p in zip((a, b, c), noise, (x, y, near), tiny, strict=True))  # type: ignore


def test_fma(execute):
    """Rounded once: exact on a GPU; the meaning, by way of float64, may differ by one step where it rounds twice."""
    a, b, c = cases()
    k = amk.KernelBuilder("multiply_add", target="sm_80", threads=64)
    n = k.size("n")
    A, B, C = (k.tensor(name, "f32", (n,)) for name in "abc")
    out, r = k.tensor("out", "f32", (n,), access="write"), k.registers("r", "f32", (3,))
    i = k.let("i", k.bx * 64 + k.t)
    with k.when(i < n):
        for j, tensor in enumerate((A, B, C)):
            k.load(r[j], tensor[i])
        k.store(out[i], apply("fma", r[0], r[1], r[2]))
    got = np.zeros_like(a)
    execute(k.finish(grid=(cdiv(n, 64),)))(a=a, b=b, c=c, out=got)
    want = np.array([exact_fma(*p) for p in zip(a, b, c, strict=True)], F32)
    with np.errstate(all="ignore"):
        meaning = PURE["fma"].numpy()(a, b, c)
        wide = a.astype(np.float64) * b
        halves = [Fraction(float(w)) + Fraction(float(z)) == Fraction(float(w + z)) if np.isfinite([w, z, w + z]).all()
                  else True for w, z in zip(wide, c.astype(np.float64), strict=True)]  # fmt: skip
    same = (meaning.view(np.uint32) == want.view(np.uint32)) | (np.isnan(meaning) & np.isnan(want))
    assert same[np.array(halves)].all() and (~same).mean() < 1e-3
    off = np.abs(meaning[~same].view(np.int32).astype(np.int64) - want[~same].view(np.int32))
    assert (off <= 1).all()
    expected = want if execute.gpu else meaning
    wrong = (got.view(np.uint32) != expected.view(np.uint32)) & ~(np.isnan(got) & np.isnan(expected))
    assert not wrong.any(), [(a[w], b[w], c[w], got[w], expected[w]) for w in np.flatnonzero(wrong)[:5]]
    separate = a[-4:] * b[-4:] + c[-4:]
    assert (separate != want[-4:]).any()  # the near ties do tell one rounding from two


def test_the_reference_for_fma():
    """`rounded` itself, against float32's own rounding of float64 numbers, with ties and subnormals."""
    rng = np.random.default_rng(1)
    values = np.concatenate([
        rng.standard_normal(500) * 2.0 ** rng.integers(-160, 128, 500).astype(np.float64),
        [2.0**-150, 3 * 2.0**-150, 2.0**-151, (2 - 2.0**-24) * 2.0**127, 1 + 2.0**-24, 1 + 3 * 2.0**-24],
    ])  # fmt: skip
    with np.errstate(all="ignore"):
        for v in values:
            assert rounded(Fraction(float(v))) == F32(v), v
    assert ctypes.c_float(float(rounded(Fraction(1, 3)))).value == F32(1 / 3)
