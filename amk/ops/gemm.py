"""GEMM in fp32 on the FFMA pipe: C = alpha * op(A) op(B) + beta * C, true float32 accumulation, never tf32.

A block computes a BM x BN tile. Tiles of A and B pass through a ring of `stages` shared-memory slots filled by
cp.async; each thread keeps TM x TN accumulators. An operand whose k runs contiguously is kept as [rows][BK], padded or
XOR swizzled, and read four k at a time; one whose rows run contiguously is kept as [BK][rows] and read along its rows.
So all four layouts read shared memory in 16-byte words, equally often.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import Any

from amk.dsl import idioms
from amk.dsl.builder import Handle, KernelBuilder
from amk.dsl.expr import Const, Expr, Var, apply, both, cdiv, minimum
from amk.dsl.kernel import KernelDescriptor, Origin
from amk.dsl.layout import Fragment, Padded, Swizzle
from amk.dsl.target import Target
from amk.errors import ArgumentError
from amk.ops.family import OperatorFamily, Tolerance
from amk.ops.gemm_schedule import Gemm, GemmSchedule

__all__ = ["FAMILY", "Gemm", "GemmSchedule", "build"]

LARGEST = 2**31 - 2**16


def _size(k: KernelBuilder, s: GemmSchedule, name: str, value: int, multiple: int, largest: int = LARGEST) -> Expr:
    """A size of the problem: a constant when specialised, else a symbol with its divisor."""
    if s.specialise:
        return Const(value)
    return k.size(name, min=0, max=largest - largest % multiple, multiple_of=multiple)


class _Operand:
    """One operand: its tensor, its ring of tiles, how it is copied and how a thread reads its fragment."""

    def __init__(
        self, k: KernelBuilder, s: GemmSchedule, name: str, tensor: Handle, k_contiguous: bool, rows: int, per: int
    ) -> None:
        self.k, self.k_contiguous = k, k_contiguous
        shape = (rows, s.bk) if k_contiguous else (s.bk, rows)
        bits = (s.bk // 4).bit_length() - 1
        layout: Padded | Swizzle | None = Padded(pad=s.pad) if k_contiguous and s.pad else None
        if k_contiguous and s.swizzle and bits:
            layout = Swizzle(bits=bits, base=2, shift=3)
        self.tile = k.shared(name, "f32", (s.slots, *shape), layout=layout)
        self.copy = idioms.TileCopy(
            k, tensor, self.tile, shape=shape, threads=s.threads, width=s.vec_width, axis=1 if k_contiguous else 0
        )
        self.vec = 1 if k_contiguous else gcd(4, per)
        self.group = min(per, 4) if name == "a" else per  # A is read in groups of rows, the next ahead of its use
        fragment = (self.group, 4) if k_contiguous else (4, self.group)
        self.regs = k.registers(f"r{name}", "f32", (2 if self.group < per else 1, *fragment))

    def read(self, slot: Expr, q: Expr, coord: list[Expr], g: int = 0) -> None:
        """Registers := group g of the thread's rows (or columns) for k = 4q .. 4q + 3."""
        mine, half = coord[g * self.group : (g + 1) * self.group], g % 2
        if self.k_contiguous:
            for i, row in enumerate(mine):
                self.k.load(self.regs[half, i, 0], self.tile[slot, row, q * 4], width=4)
            return
        for kk in range(4):
            for i in range(0, self.group, self.vec):
                self.k.load(self.regs[half, kk, i], self.tile[slot, q * 4 + kk, mine[i]], width=self.vec)

    def value(self, i: Expr, kk: int, g: int = 0) -> Expr:
        """The register of row (or column) i of group g at k = 4q + kk."""
        return self.regs[g % 2, i, kk] if self.k_contiguous else self.regs[g % 2, kk, i]


def build(p: Gemm, s: GemmSchedule, target: Target) -> KernelDescriptor:
    """The kernel of a schedule. Raises ArgumentError for choices that contradict each other or the problem."""
    _refuse(p, s)
    k = KernelBuilder(_name(p, s), target=target.architecture.name, threads=s.threads, spill_bytes=s.spill_bytes)
    v = s.vec_width
    # Tiles of rows lie on grid y or z and, in a batch, tiles of columns too: both stop at 65,535.
    M = _size(k, s, "M", p.m, v if p.trans_a else 1, min(LARGEST, 65535 * s.bm))
    N = _size(k, s, "N", p.n, 1 if p.trans_b else v, LARGEST if p.batch == 1 else min(LARGEST, 65535 * s.bn))
    K = _size(k, s, "K", p.k, v if p.trans_b or not p.trans_a else 1)
    A, B, C, lead = _tensors(k, p, s, M, N, K)
    wm = s.warps[0]
    warp, lane = k.let("warp", k.t // 32), k.let("lane", k.t % 32)
    if s.order == "interleaved":
        lm, ln = k.let("lm", lane % 2 + lane // 16 * 2), k.let("ln", lane // 2 % 8)
    else:
        lm, ln = k.let("lm", lane // 8), k.let("ln", lane % 8)
    a = _Operand(k, s, "a", A, not p.trans_a, s.bm, s.tm)
    b = _Operand(k, s, "b", B, p.trans_b, s.bn, s.tn)
    acc = idioms.RegisterTile(k, "acc", Fragment(4, 8, s.tm, s.tn, b.vec, a.vec))
    m0, n0, grid = _tile_origin(k, p, s, M, N)
    acc.place((k.let("wm", warp % wm * (4 * s.tm)), k.let("wn", warp // wm * (8 * s.tn))), (lm, ln))
    acc.fill(0.0)
    first, steps = _steps(k, p, s, K)

    a.copy.aim(m0, *lead)
    b.copy.aim(n0, *lead)

    def fetch(step: Expr, slot: Expr) -> None:
        k0 = (first + step) * s.bk
        a.copy.fetch(slot, k0, limit=M, end=K)
        b.copy.fetch(slot, k0, limit=N, end=K)

    def multiply(g: int, kk: int) -> None:
        acc.add_product(
            lambda i: a.value(i, kk, g), lambda j: b.value(j, kk),
            rows=a.group, first=g * a.group, serpentine=s.serpentine,
        )  # fmt: skip

    def compute(slot: Expr) -> None:
        with k.loop("q", 0, s.bk // 4, unroll=s.unroll) as q:
            b.read(slot, q.var, acc.cols)
            a.read(slot, q.var, acc.rows)
            for g in range(s.tm // a.group):
                if g + 1 < s.tm // a.group:
                    a.read(slot, q.var, acc.rows, g + 1)
                for kk in range(4):
                    multiply(g, kk)

    idioms.ring(k, s.slots, steps, fetch, compute)
    _epilogue(k, p, s, C, acc.regs, [m0 + r for r in acc.rows], [n0 + c for c in acc.cols], M, N, lead, b.vec)
    origin = Origin(operator="gemm", problem=p.model_dump(), schedule=s.model_dump(exclude_defaults=True))
    return k.finish(grid=grid, origin=origin)


def _refuse(p: Gemm, s: GemmSchedule) -> None:
    if fault := s.fault():
        raise ArgumentError(f"schedule: {fault}")
    if p.vector(s.vec_width) < s.vec_width:
        raise ArgumentError(
            f"vec_width {s.vec_width} needs rows, leading dimensions and bases that are multiples of it; this problem "
            f"allows {p.vector()}", hint=f"vec_width={p.vector()}",
        )  # fmt: skip
    if (s.swizzle or s.pad) and p.trans_a and not p.trans_b:
        name, off = ("swizzle", "swizzle=False") if s.swizzle else ("pad", "pad=0")
        raise ArgumentError(
            f"{name} would change nothing: it spreads tiles whose k runs contiguously, and with A stored k x m and B "
            "stored k x n neither operand has one", hint=off,
        )  # fmt: skip
    if s.split_k > 1 and (p.beta != "zero" or p.batch > 1):
        raise ArgumentError("split_k adds partial sums into a zeroed C: it needs beta = 0 and no batch")
    if s.group > 1 and (not s.specialise or p.batch > 1 or cdiv_int(p.m, s.bm) % s.group):
        raise ArgumentError("group needs specialised sizes, no batch, and a number of tile rows that it divides")
    if s.specialise and not (p.m and p.n):
        raise ArgumentError("a specialised kernel needs m and n above 0: an empty C needs no kernel")


def cdiv_int(a: int, b: int) -> int:
    """The quotient rounded up."""
    return -(-a // b)


def _name(p: Gemm, s: GemmSchedule) -> str:
    layout = ("t" if p.trans_a else "n") + ("t" if p.trans_b else "n")
    return f"gemm_f32_{layout}_{s.bm}x{s.bn}x{s.bk}"


def _tensors(
    k: KernelBuilder, p: Gemm, s: GemmSchedule, M: Expr, N: Expr, K: Expr
) -> tuple[Handle, Handle, Handle, tuple[Expr, ...]]:
    """A, B and C with their leading dimensions, and the leading (batch) index of all three."""
    v, batched = s.vec_width, p.batch > 1
    batch = (Const(p.batch) if s.specialise else k.size("batch", min=1, max=2**31 - 2)) if batched else None

    def pitch(name: str, value: int, multiple: int) -> Expr:
        if s.specialise:
            return Const(value)
        return k.scalar(name, "i64", min=1, max=2**31 - 1, multiple_of=multiple)

    def tensor(name: str, rows: Expr, cols: Expr, ld: int, access: Any, multiple: int) -> Handle:
        step = pitch(f"ld{name.lower()}", ld, multiple)
        shape: tuple[Expr, ...] = (rows, cols)
        strides: tuple[Expr, ...] = (step, Const(1))
        if batch is not None:
            lead = k.scalar(f"batch_{name.lower()}", "i64", min=0, max=2**40, multiple_of=multiple)
            shape, strides = (batch, *shape), (lead, *strides)
        return k.tensor(name, "f32", shape, strides=strides, access=access, align=4 * multiple)

    a, b, c = p.leading
    A = tensor("A", *((K, M) if p.trans_a else (M, K)), a, "read", v)
    B = tensor("B", *((N, K) if p.trans_b else (K, N)), b, "read", v)
    access = "add" if s.split_k > 1 else "write" if p.beta == "zero" else "readwrite"
    C = tensor("C", M, N, c, access, _c_vector(p, s))
    return A, B, C, (Var("bx"),) if batched else ()


def _c_vector(p: Gemm, s: GemmSchedule) -> int:
    """Elements per store of C: 4 where N, its pitch and its base allow it and a thread's columns come in fours."""
    if p.trans_b or s.split_k > 1 or s.vec_width < 4 or s.tn % 4:
        return 1
    return 4 if p.n % 4 == 0 and p.leading[2] % 4 == 0 and p.align >= 16 else 1


def _tile_origin(k: KernelBuilder, p: Gemm, s: GemmSchedule, M: Expr, N: Expr) -> tuple[Expr, Expr, tuple[Expr, ...]]:
    """First row and column of the block's tile, and the grid."""
    tm, tn = cdiv(M, s.bm), cdiv(N, s.bn)
    if p.batch > 1:  # the batch takes x, the one dimension that reaches 2**31 - 1
        batch = Const(p.batch) if s.specialise else Var("batch")
        return k.let("m0", k.bz * s.bm), k.let("n0", k.by * s.bn), (batch, tn, tm)
    split = (Const(s.split_k),) if s.split_k > 1 else ()
    if s.group == 1:
        return k.let("m0", k.by * s.bm), k.let("n0", k.bx * s.bn), (tn, tm, *split)
    width = cdiv_int(p.n, s.bn) * s.group
    within = k.let("within", k.bx % width)
    m0 = k.let("m0", (k.bx // width * s.group + within % s.group) * s.bm)
    return m0, k.let("n0", within // s.group * s.bn), (tm * tn, Const(1), *split)


def _steps(k: KernelBuilder, p: Gemm, s: GemmSchedule, K: Expr) -> tuple[Expr, Expr]:
    """The block's first k-step and its number of steps."""
    steps = k.let("steps", cdiv(K, s.bk))
    if s.split_k == 1:
        return Const(0), steps
    each = k.let("each", cdiv(steps, s.split_k))
    first = k.let("first", minimum(k.bz * each, steps))
    return first, k.let("mine", minimum(each, steps - first))


def _epilogue(
    k: KernelBuilder, p: Gemm, s: GemmSchedule, C: Handle, acc: Handle, rows: list[Expr], cols: list[Expr],
    M: Expr, N: Expr, lead: tuple[Expr, ...], group: int,
) -> None:  # fmt: skip
    """C := alpha * acc (+ beta * C), element by element or four at a time."""
    alpha = Var("alpha")
    k.scalar("alpha", "f32")
    beta = k.scalar("beta", "f32") if p.beta == "any" else None
    v = min(_c_vector(p, s), group)
    old = k.registers("old", "f32", (v,)) if beta is not None else None
    for i, row in enumerate(rows):
        for j in range(0, s.tn, v):
            with k.when(both(row < M, cols[j] < N)):
                where = C[(*lead, row, cols[j])]
                values = [alpha * acc[i, j + e] for e in range(v)]
                if s.split_k > 1:
                    k.atomic("add", where, values[0])
                    continue
                if old is not None and beta is not None:
                    k.load(old[0], where, width=v)
                    values = [apply("fma", beta, old[e], values[e]) for e in range(v)]
                k.store(where, *values)


def sizes(p: Gemm) -> dict[str, int]:
    """The kernel's integer parameters for a problem whose matrices of a batch lie one after the other."""
    lda, ldb, ldc = p.leading
    a, b = p.k if p.trans_a else p.m, p.n if p.trans_b else p.k
    return {
        "M": p.m, "N": p.n, "K": p.k, "lda": lda, "ldb": ldb, "ldc": ldc, "batch": p.batch,
        "batch_a": a * lda, "batch_b": b * ldb, "batch_c": p.m * ldc,
    }  # fmt: skip


def reference(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """C in float64: arrays A, B (as stored), C, scalars alpha, beta and the flags trans_a, trans_b.

    A `beta` that is text is the problem's, of a kernel that has no such argument: 0.
    """
    import numpy as np

    a, b = (np.asarray(arrays[n], np.float64) for n in ("A", "B"))
    a = np.swapaxes(a, -1, -2) if arrays.get("trans_a") else a
    b = np.swapaxes(b, -1, -2) if arrays.get("trans_b") else b
    out = float(arrays.get("alpha", 1.0)) * np.matmul(a, b)
    beta = 0.0 if isinstance(given := arrays.get("beta", 0.0), str) else float(given)
    return {"C": out + beta * np.asarray(arrays["C"], np.float64) if beta else out}


FAMILY = OperatorFamily(
    name="gemm",
    summary="C = alpha * op(A) op(B) + beta * C in fp32",
    problem=Gemm,
    schedule=GemmSchedule,
    build=build,
    reference=reference,
    flops=lambda p: 2 * p.m * p.n * p.k * p.batch,
    bytes=lambda p: 4 * p.batch * (p.m * p.k + p.k * p.n + p.m * p.n * (1 if p.beta == "zero" else 2)),
    tolerance=Tolerance(
        relative=lambda p: 2.0**-24 * (4 + 2 * max(p.k, 1) ** 0.5),
        source="rounding errors of k float32 additions grow like sqrt(k) units of 2**-24 on random data",
    ),
    samples=({"M": 3, "N": 5, "K": 7, "batch": 2}, {"M": 261, "N": 267, "K": 77, "batch": 2}),
    sizes=sizes,
)
