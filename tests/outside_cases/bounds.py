"""Indices: tails, off by one, overflow, negative remainders, vectors, alignment, views."""

from __future__ import annotations

from outside_cases.case import builder, case

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import cdiv, maximum, minimum
from amk.dsl.kernel import KernelDescriptor

OUT, SHARED, OVERFLOW, ALIGN, DIVISION = "AMK201", "AMK202", "AMK204", "AMK205", "AMK208"
TINYGRAD = "tinygrad: tests of the out-of-bounds validator"
EXO = "Exo: tests of the bounds check"


@case("DataRaceBench / everyday bug", "no guard in the last block", OUT, name="tail_no_guard", guard="none")
@case(
    "DataRaceBench / everyday bug",
    "the guard is <= instead of <: one past the end unless the size is a multiple",
    OUT,
    name="tail_guard_at_most",
    guard="at most",
)
@case(
    "DataRaceBench / everyday bug",
    "the guard looks at the index inside the block only",
    OUT,
    name="tail_guard_local",
    guard="local",
)
@case(TINYGRAD, "the guard as it should be", name="tail_guard", guard="below", sizes={"n": 70})
@case(
    TINYGRAD,
    "no guard where the size is a multiple of the block",
    name="tail_multiple",
    guard="none",
    multiple=64,
    sizes={"n": 128},
)
@case(
    TINYGRAD,
    "no guard where the size is a multiple of half the block",
    OUT,
    name="tail_half_multiple",
    guard="none",
    multiple=32,
)
@case(
    TINYGRAD,
    "the index is clamped and every thread stores: many threads store the last element",
    "AMK304",
    "AMK402",
    name="tail_clamped_store",
    guard="clamp",
)
@case(
    "everyday bug",
    "the number of blocks is rounded down: the tail is never written",
    "AMK401",
    name="tail_grid_rounded_down",
    guard="below",
    down=True,
)
def tail(guard: str, multiple: int = 1, down: bool = False) -> KernelDescriptor:
    k = KernelBuilder("tail", target="sm_80", threads=64)
    n = k.size("n", max=1 << 20, multiple_of=multiple)
    x, z = k.tensor("x", "f32", (n,)), k.tensor("z", "f32", (n,), access="write")
    a = k.registers("a", "f32", (1,))
    i = k.let("i", k.bx * 64 + k.t)
    at = minimum(i, n - 1) if guard == "clamp" else i
    with k.when({"at most": i <= n, "local": k.t < n, "below": i < n}.get(guard, k.t < 64)):
        k.load(a[0], x[at])
        k.store(z[at], a[0])
    return k.finish(grid=(maximum(n // 64, 1) if down else cdiv(n, 64),))


@case(EXO, "reads the neighbour to the right of the last element", OUT, name="neighbour_right", shift=1)
@case(EXO, "reads the neighbour to the left of the first element", OUT, name="neighbour_left", shift=-1)
@case(
    EXO,
    "reads the left neighbour where there is one",
    name="neighbour_left_guarded",
    shift=-1,
    guarded=True,
    sizes={"n": 70},
)
def neighbour(shift: int, guarded: bool = False) -> KernelDescriptor:
    k, n = builder("neighbour", 64)
    x, z = k.tensor("x", "f32", (n,)), k.tensor("z", "f32", (n,), access="write")
    a = k.registers("a", "f32", (1,))
    i = k.let("i", k.bx * 64 + k.t)
    with k.when(i < n):
        k.load(a[0], x[i + shift], **({"when": i + shift >= 0, "other": 0.0} if guarded else {}))
        k.store(z[i], a[0])
    return k.finish(grid=(cdiv(n, 64),))


@case("ESBMC-GPU: array bounds", "64 threads and a shared array of 63", SHARED, name="shared_one_short", cells=63)
@case("ESBMC-GPU: array bounds", "64 threads and a shared array of 64", name="shared_fits", sizes={})
@case(
    "ESBMC-GPU: array bounds",
    "the index counts down and misses by one: 64 - t",
    SHARED,
    name="shared_from_the_end",
    last=64,
)
@case(
    "ESBMC-GPU: array bounds",
    "the index counts down from 62, and thread 63 gets -1",
    SHARED,
    name="shared_negative",
    last=62,
)
def shared_array(cells: int = 64, last: int = 63) -> KernelDescriptor:
    k = KernelBuilder("cells", target="sm_80", threads=64)
    z = k.tensor("z", "i32", (64,), access="write")
    s, r = k.shared("s", "i32", (cells,)), k.registers("r", "i32", (1,))
    k.store(s[k.t], k.t)
    k.sync()
    k.load(r[0], s[last - k.t])
    k.store(z[k.t], r[0])
    return k.finish(grid=(1,))


@case(
    "Triton issues: 32-bit offsets of large tensors",
    "row times pitch passes 2**31 in a flat index",
    OVERFLOW,
    name="flat_index_wraps",
    rows=1 << 20,
)
@case(
    "Triton issues: 32-bit offsets of large tensors",
    "the same with few enough rows",
    name="flat_index_fits",
    rows=1 << 15,
)
@case(
    "Triton issues: 32-bit offsets of large tensors",
    "two indices and offsets in 64 bits",
    name="two_indices",
    rows=1 << 20,
    flat=False,
)
@case(
    "Triton issues: 32-bit offsets of large tensors",
    "two indices and offsets in 32 bits",
    OVERFLOW,
    name="two_indices_32_bits",
    rows=1 << 20,
    flat=False,
    offsets="i32",
)
def large(rows: int, flat: bool = True, offsets: str = "i64") -> KernelDescriptor:
    k = KernelBuilder("large", target="sm_80", threads=128)
    shape = (rows * 4096,) if flat else (rows, 4096)
    x, a = k.tensor("x", "f32", shape, offsets=offsets), k.registers("a", "f32", (1,))
    z = k.tensor("z", "f32", (rows, 4096), access="write")
    with k.loop("j", 0, 4096, 128) as j:
        col = j.var + k.t
        k.load(a[0], x[k.bx * 4096 + col] if flat else x[k.bx, col])
        k.store(z[k.bx, col], a[0])
    return k.finish(grid=(rows,))


@case(
    "ESBMC-GPU: modulo of negative numbers",
    "(t - 1) mod 64 where the machine's remainder is negative",
    DIVISION,
    SHARED,
    "AMK203",
    name="modulo_negative",
    plus=0,
)
@case("ESBMC-GPU: modulo of negative numbers", "64 added first", name="modulo_positive", plus=64, sizes={})
@case(
    "ESBMC-GPU: modulo of negative numbers",
    "the divisor is an argument that may be zero",
    DIVISION,
    name="modulo_by_zero",
    plus=64,
    least=0,
)
@case(
    "ESBMC-GPU: modulo of negative numbers",
    "the divisor is an argument above zero and at most the array's length",
    name="modulo_by_size",
    plus=64,
    least=1,
    sizes={"m": 5},
)
def modulo(plus: int, least: int | None = None) -> KernelDescriptor:
    k = KernelBuilder("modulo", target="sm_80", threads=64)
    m = 64 if least is None else k.size("m", min=least, max=64)
    z = k.tensor("z", "i32", (64,), access="write")
    s, r = k.shared("s", "i32", (64,)), k.registers("r", "i32", (1,))
    k.store(s[k.t], k.t)
    k.sync()
    k.load(r[0], s[(k.t - 1 + plus) % m])
    k.store(z[k.t], r[0])
    return k.finish(grid=(1,))


@case(
    "CUTLASS / Triton issues: vector loads",
    "vectors of 4 where the rows have any length",
    OUT,
    ALIGN,
    name="vector_any_pitch",
    multiple=1,
)
@case(
    "CUTLASS / Triton issues: vector loads",
    "vectors of 4, rows a multiple of 4, base aligned",
    name="vector_rows",
    sizes={"n": 12},
)
@case(
    "CUTLASS / Triton issues: vector loads",
    "rows a multiple of 2 only",
    OUT,
    ALIGN,
    name="vector_half_pitch",
    multiple=2,
)
@case(
    "CUTLASS / Triton issues: vector loads",
    "the base is aligned to one element only",
    ALIGN,
    name="vector_base",
    align=4,
)
@case(
    "CUTLASS / Triton issues: vector loads",
    "every vector starts one element late",
    OUT,
    ALIGN,
    name="vector_shifted",
    shift=1,
)
@case(
    "CUTLASS / Triton issues: vector loads",
    "the guard looks at the vector's first element: one vector past the end",
    OUT,
    name="vector_guard_wide",
    reach=4,
)
def vectors(multiple: int = 4, align: int = 16, shift: int = 0, reach: int = 0) -> KernelDescriptor:
    k = KernelBuilder("vectors", target="sm_80", threads=64)
    n = k.size("n", max=4096, multiple_of=multiple)
    x, z = k.tensor("x", "f32", (64, n), align=align), k.tensor("z", "f32", (64, n), access="write", align=16)
    a = k.registers("a", "f32", (4,))
    with k.loop("j", 0, cdiv(n, 256)) as j:
        col = k.let("col", j.var * 256 + k.t * 4)
        with k.when(col < n + reach):
            k.load(a[0], x[k.bx, col + shift], width=4)
            with k.when(col < n):
                k.store(z[k.bx, col], *(a[q] for q in range(4)))
    return k.finish(grid=(64,))
