"""Small kernels that `amk selftest` mutates, at any size of block: those of examples 01 to 03, which print them, and
two whose output is no tile of a block: written backwards, and in strides of the whole grid.
"""

from __future__ import annotations

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import both, cdiv, eq
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Padded

__all__ = ["block_sum", "doubled", "reversed_copy", "transpose", "vector_add"]


def vector_add(target: str = "sm_80", threads: int = 256) -> KernelDescriptor:
    """z = x + y for any n: one thread an element, and a guard for the last block."""
    k = KernelBuilder("vector_add", target=target, threads=threads)
    n = k.size("n", min=0)
    x, y = (k.tensor(name, "f32", (n,)) for name in "xy")
    z = k.tensor("z", "f32", (n,), access="write")
    a = k.registers("a", "f32", (2,))
    i = k.let("i", k.bx * threads + k.t)
    with k.when(i < n):
        k.load(a[0], x[i])
        k.load(a[1], y[i])
        k.store(z[i], a[0] + a[1])
    return k.finish(grid=(cdiv(n, threads),))


def transpose(target: str = "sm_80", tile: int = 32, rows: int = 8) -> KernelDescriptor:
    """out = source transposed, for up to 65,535 tiles of rows, through a `tile` x `tile` square of shared memory.

    `rows` rows are copied at a time. Both copies are coalesced because the square turns the matrix; its padding
    spreads a column over all banks.
    """
    k = KernelBuilder("transpose", target=target, threads=tile * rows)
    m, n = k.size("m", min=0, max=65535 * tile), k.size("n", min=0)
    source, out = k.tensor("source", "f32", (m, n)), k.tensor("out", "f32", (n, m), access="write")
    held = k.shared("tile", "f32", (tile, tile), layout=Padded(pad=1))
    a = k.registers("a", "f32", (1,))
    tx, ty = k.let("tx", k.t % tile), k.let("ty", k.t // tile)
    for i in range(0, tile, rows):
        row, col = k.by * tile + ty + i, k.bx * tile + tx
        k.load(a[0], source[row, col], when=both(row < m, col < n), other=0.0)
        k.store(held[ty + i, tx], a[0])
    k.sync()
    for i in range(0, tile, rows):
        row, col = k.bx * tile + ty + i, k.by * tile + tx
        with k.when(both(row < n, col < m)):
            k.load(a[0], held[tx, ty + i])
            k.store(out[row, col], a[0])
    return k.finish(grid=(cdiv(n, tile), cdiv(m, tile)))


def block_sum(target: str = "sm_80", threads: int = 256, each: int = 4) -> KernelDescriptor:
    """sums[b] = the sum of block b's elements, `each` a thread: shuffles in a warp, shared memory between warps."""
    k = KernelBuilder("block_sum", target=target, threads=threads)
    n, per, warps = k.size("n", min=0), threads * each, threads // 32
    x = k.tensor("x", "f32", (n,))
    sums = k.tensor("sums", "f32", (cdiv(n, per),), access="write")
    partial = k.shared("partial", "f32", (warps,))
    a, s, other = (k.registers(name, "f32", (1,)) for name in ("a", "s", "other"))
    lane, warp = k.let("lane", k.t % 32), k.let("warp", k.t // 32)
    k.store(s[0], 0.0)
    for j in range(each):
        i = k.bx * per + j * threads + k.t
        k.load(a[0], x[i], when=i < n, other=0.0)
        k.store(s[0], s[0] + a[0])
    for delta in (16, 8, 4, 2, 1):
        k.call("shfl.down", {"dst": other[0]}, value=s[0], delta=delta)
        k.store(s[0], s[0] + other[0])
    with k.when(eq(lane, 0)):
        k.store(partial[warp], s[0])
    k.sync()
    with k.when(k.t < 32):
        k.load(s[0], partial[lane], when=lane < warps, other=0.0)
        for delta in (d for d in (16, 8, 4, 2, 1) if d < warps):
            k.call("shfl.down", {"dst": other[0]}, value=s[0], delta=delta)
            k.store(s[0], s[0] + other[0])
        with k.when(eq(lane, 0)):
            k.store(sums[k.bx], s[0])
    return k.finish(grid=(cdiv(n, per),))


def reversed_copy(target: str = "sm_80", threads: int = 64) -> KernelDescriptor:
    """z[n - 1 - i] = x[i]."""
    k = KernelBuilder("reversed_copy", target=target, threads=threads)
    n = k.size("n", min=0)
    x, z = k.tensor("x", "f32", (n,)), k.tensor("z", "f32", (n,), access="write")
    a = k.registers("a", "f32", (1,))
    i = k.let("i", k.bx * threads + k.t)
    with k.when(i < n):
        k.load(a[0], x[i])
        k.store(z[n - 1 - i], a[0])
    return k.finish(grid=(cdiv(n, threads),))


def doubled(target: str = "sm_80", threads: int = 64, blocks: int = 4) -> KernelDescriptor:
    """z = 2 x, by a grid of fixed size that walks over all of it."""
    k = KernelBuilder("doubled", target=target, threads=threads)
    n = k.size("n", min=0)
    x, z = k.tensor("x", "f32", (n,)), k.tensor("z", "f32", (n,), access="write")
    a = k.registers("a", "f32", (1,))
    with k.loop("i", k.bx * threads + k.t, n, threads * blocks) as i:
        k.load(a[0], x[i.var])
        k.store(z[i.var], a[0] * 2.0)
    return k.finish(grid=(blocks,))
