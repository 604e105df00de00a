"""Families of matrix products: staged through registers, by rings of cp.async, and on the tensor cores by mma.sync."""

from __future__ import annotations

from random import Random

from amk.dsl.builder import Handle, KernelBuilder
from amk.dsl.expr import Expr, both, cdiv
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Layout, Padded, Swizzle

__all__ = ["cp_async_gemm", "mma_gemm", "simt_gemm"]

Made = tuple[KernelDescriptor, tuple[dict[str, int], ...]]
_T = 8  # rows and columns of C that a block of 32 threads computes, two rows a thread


class _Tile:
    """C = A B with tiles of 8 x 8, `depth` elements of K a step, and a ring of `slots` slots in shared memory."""

    def __init__(self, name: str, slots: int, depth: int, vector: int, layout: Layout | None) -> None:
        k = self.k = KernelBuilder(name, target="sm_80", threads=32)
        self.slots, self.depth, self.vector = slots, depth, vector
        self.m = k.size("m", min=0, max=1 << 18)
        self.n, self.kk = (k.size(x, min=0, multiple_of=vector) for x in ("n", "kk"))
        self.a = k.tensor("A", "f32", (self.m, self.kk), align=4 * vector)
        self.b = k.tensor("B", "f32", (self.kk, self.n), align=4 * vector)
        self.c = k.tensor("C", "f32", (self.m, self.n), access="write")
        self.sa = k.shared("sa", "f32", (slots, _T, depth), layout=layout)
        self.sb = k.shared("sb", "f32", (slots, depth, _T))
        self.acc, self.ra, self.rb = (k.registers(r, "f32", (s,)) for r, s in (("acc", 2), ("ra", 2), ("rb", 1)))
        self.steps = k.let("steps", cdiv(self.kk, depth))
        self.row, self.col = k.let("row", k.t // 8), k.let("col", k.t % 8)
        for i in range(2):
            k.store(self.acc[i], 0.0)

    def parts(self, operand: str, step: Expr, part: int) -> tuple[tuple[Expr, Expr], tuple[Expr, Expr], Expr]:
        """What the thread moves of a tile: its place there, its place in the matrix, and whether that is inside."""
        v = (self.k.t + part * 32) * self.vector
        wide = self.depth if operand == "a" else _T
        row, col = v // wide, v % wide
        first = (self.k.by * _T, step * self.depth) if operand == "a" else (step * self.depth, self.k.bx * _T)
        i, j = first[0] + row, first[1] + col
        rows, cols = (self.m, self.kk) if operand == "a" else (self.kk, self.n)
        return (row, col), (i, j), both(i < rows, j < cols)

    @property
    def moves(self) -> int:
        """Elements, `vector` at a time, that each thread moves of either tile."""
        return _T * self.depth // 32 // self.vector

    def multiply(self, slot: Expr | int) -> None:
        """Two rows of the tile's product a thread."""
        k = self.k
        with k.loop("p", 0, self.depth, unroll="full") as p:
            for i in range(2):
                k.load(self.ra[i], self.sa[slot, self.row + 4 * i, p.var])
            k.load(self.rb[0], self.sb[slot, p.var, self.col])
            for i in range(2):
                k.store(self.acc[i], self.acc[i] + self.ra[i] * self.rb[0])

    def finish(self) -> Made:
        """The kernel with its results stored, and sizes with ragged edges and several turns of the ring."""
        k, v = self.k, self.vector
        for i in range(2):
            row, col = k.by * _T + self.row + 4 * i, k.bx * _T + self.col
            with k.when(both(row < self.m, col < self.n)):
                k.store(self.c[row, col], self.acc[i])
        kernel = k.finish(grid=(cdiv(self.n, _T), cdiv(self.m, _T)))
        turns = self.depth * (self.slots + 1)
        return kernel, (
            {"m": 11, "n": 8 + v, "kk": turns + v}, {"m": 3, "n": 4 * v, "kk": self.depth},
            {"m": 1, "n": 4, "kk": 0},
        )  # fmt: skip


def simt_gemm(rng: Random) -> Made:
    """Tiles loaded to registers and stored to one or two slots, the slot carried round the loop."""
    slots, depth = rng.choice((1, 2)), rng.choice((4, 8))
    g = _Tile("simt_gemm", slots, depth, 1, rng.choice((None, Padded(pad=1))))
    k = g.k
    stage = k.registers("stage", "f32", (2, g.moves))

    def fetch(step: Expr) -> None:
        for s, (name, tensor) in enumerate((("a", g.a), ("b", g.b))):
            for part in range(g.moves):
                _, at, inside = g.parts(name, step, part)
                k.load(stage[s, part], tensor[at], when=inside, other=0.0)

    def put(slot: Expr) -> None:
        for s, (name, held) in enumerate((("a", g.sa), ("b", g.sb))):
            for part in range(g.moves):
                place, _, _ = g.parts(name, k.bx, part)
                k.store(held[(slot, *place)], stage[s, part])

    with k.loop("step", 0, g.steps, slot=0) as step:
        fetch(step.var)
        put(step.slot)
        k.sync()
        g.multiply(step.slot)
        if slots == 1:
            k.sync()
        step.next(slot=(slots - 1) - step.slot)
    return g.finish()


def cp_async_gemm(rng: Random) -> Made:
    """A ring of two or three slots, filled by cp.async one or two steps ahead."""
    slots, (depth, vector) = rng.choice((2, 3)), rng.choice(((4, 1), (8, 1), (8, 2)))
    g = _Tile("cp_async_gemm", slots, depth, vector, None)
    k, ahead = g.k, slots - 1

    def issue(step: Expr, slot: Expr) -> None:
        for name, tensor, held in (("a", g.a, g.sa), ("b", g.b, g.sb)):
            for part in range(g.moves):
                place, at, inside = g.parts(name, step, part)
                k.call(f"cp.async.{4 * vector}", {"dst": held[(slot, *place)], "src": tensor[at]}, when=inside)

    with k.loop("s", 0, ahead, unroll="full") as s:
        with k.when(s.var < g.steps):
            issue(s.var, s.var)
        k.commit()
    with k.loop("step", 0, g.steps) as step:
        k.wait(pending=slots - 2)
        k.sync()
        with k.when(step.var + ahead < g.steps):
            issue(step.var + ahead, (step.var + ahead) % slots)
        k.commit()
        g.multiply(step.var % slots)
    k.wait(pending=0)
    return g.finish()


def mma_gemm(rng: Random) -> Made:
    """C = A B in bf16 with f32 sums: 16 rows a warp, 8 columns, 16 of K a step; operands by ldmatrix."""
    warps = rng.choice((1, 2))
    slots = rng.choice((1, 2))
    k = KernelBuilder("mma_gemm", target="sm_80", threads=32 * warps)
    m, n, kk = k.size("m", min=0, max=1 << 18), k.size("n", min=0, multiple_of=8), k.size("kk", min=0, multiple_of=8)
    a, b = k.tensor("A", "bf16", (m, kk), align=16), k.tensor("B", "bf16", (kk, n), align=16)
    c = k.tensor("C", "f32", (m, n), access="write", align=8)
    swizzle = rng.choice((None, Swizzle(bits=1, base=3, shift=3)))
    sa = k.shared("sa", "bf16", (slots, 16 * warps, 16), layout=swizzle)
    sb = k.shared("sb", "bf16", (slots, 16, 8))
    fa, fb, acc = k.registers("fa", "u32", (4,)), k.registers("fb", "u32", (2,)), k.registers("acc", "f32", (4,))
    w, lane = k.let("w", k.t // 32), k.let("lane", k.t % 32)
    with k.loop("z", 0, 4, unroll="full") as z:
        k.store(acc[z.var], 0.0)
    with k.loop("step", 0, cdiv(kk, 16), slot=0) as step:
        row, at = k.by * 16 * warps + k.t // 2, step.var * 16 + k.t % 2 * 8
        refs = {"dst": sa[step.slot, k.t // 2, k.t % 2 * 8], "src": a[row, at]}
        k.call("cp.async.16", refs, when=both(row < m, at < kk))
        with k.when(k.t < 16):
            refs = {"dst": sb[step.slot, k.t, 0], "src": b[step.var * 16 + k.t, k.bx * 8]}
            k.call("cp.async.16", refs, when=both(step.var * 16 + k.t < kk, k.bx * 8 < n))
        k.commit()
        k.wait(pending=0)
        k.sync()
        k.call("ldmatrix.x4", {"dst": fa[0], "src": sa[step.slot, w * 16 + lane % 16, lane // 16 * 8]})
        k.call("ldmatrix.x2.trans", {"dst": fb[0], "src": sb[step.slot, lane % 16, 0]})
        k.call("mma.m16n8k16.bf16", {"acc": acc[0], "a": fa[0], "b": fb[0]})
        if slots == 1:
            k.sync()
        step.next(slot=(slots - 1) - step.slot)
    _store(k, c, acc, (m, n), warps)
    kernel = k.finish(grid=(cdiv(n, 8), cdiv(m, 16 * warps)))
    return kernel, ({"m": 16 * warps + 3, "n": 16, "kk": 40}, {"m": 5, "n": 8, "kk": 16}, {"m": 1, "n": 8, "kk": 0})


def _store(k: KernelBuilder, c: Handle, acc: Handle, size: tuple[Expr, Expr], warps: int) -> None:
    """The 16 x 8 sums of each warp, two neighbours at a time."""
    with k.loop("h", 0, 2, unroll="full") as h:
        row = k.let("r", (k.by * warps + k.t // 32) * 16 + k.t % 32 // 4 + 8 * h.var)
        col = k.let("c", k.bx * 8 + k.t % 4 * 2)
        with k.when(both(row < size[0], col < size[1])):
            k.store(c[row, col], acc[2 * h.var], acc[2 * h.var + 1])
