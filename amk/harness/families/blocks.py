"""Families whose threads meet at barriers of the block: element by element, turned, summed, and rows normalised."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from amk.dsl.builder import Handle, KernelBuilder
from amk.dsl.expr import Expr, apply, both, cdiv, eq, maximum
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Layout, Padded, Swizzle
from amk.harness import samples

__all__ = ["elementwise", "reduction", "softmax", "split_k", "transpose"]

Made = tuple[KernelDescriptor, tuple[dict[str, int], ...]]
Join = Callable[[Expr, Expr], Expr]


def elementwise(rng: Random) -> Made:
    """z = x + y, a copy written backwards, or a grid of fixed size that walks over all of it."""
    threads = rng.choice((32, 64, 96))
    kernel = rng.choice((
        lambda: samples.vector_add(threads=threads), lambda: samples.reversed_copy(threads=threads),
        lambda: samples.doubled(threads=threads, blocks=rng.choice((2, 3))),
    ))()  # fmt: skip
    return kernel, tuple({"n": n} for n in (3 * threads + 7, threads - 1, 1, 0))


def transpose(rng: Random) -> Made:
    """out[j, i] = x[i, j] through a square of shared memory: padded, swizzled or plain."""
    tile = rng.choice((8, 16))
    rows = rng.choice([r for r in (2, 4, 8) if tile * r % 32 == 0 and r <= tile])
    shift = tile.bit_length() - 1
    layouts: list[Layout | None] = [None, Padded(pad=1), Swizzle(bits=2, base=0, shift=shift)]
    k = KernelBuilder("transpose", target="sm_80", threads=tile * rows)
    m, n = k.size("m", min=0, max=65535 * tile), k.size("n", min=0)
    x, out = k.tensor("x", "f32", (m, n)), k.tensor("out", "f32", (n, m), access="write")
    s, a = k.shared("s", "f32", (tile, tile), layout=rng.choice(layouts)), k.registers("a", "f32", (1,))
    tx, ty = k.let("tx", k.t % tile), k.let("ty", k.t // tile)
    with k.loop("i", 0, tile, rows, unroll="full") as i:
        row, col = k.by * tile + ty + i.var, k.bx * tile + tx
        k.load(a[0], x[row, col], when=both(row < m, col < n), other=0.0)
        k.store(s[ty + i.var, tx], a[0])
    k.sync()
    with k.loop("j", 0, tile, rows, unroll="full") as j:
        row, col = k.bx * tile + ty + j.var, k.by * tile + tx
        k.load(a[0], s[tx, ty + j.var])
        with k.when(both(row < n, col < m)):
            k.store(out[row, col], a[0])
    kernel = k.finish(grid=(cdiv(n, tile), cdiv(m, tile)))
    return kernel, ({"m": tile + 3, "n": 2 * tile + 1}, {"m": tile, "n": tile}, {"m": 1, "n": tile - 1})


def reduction(rng: Random) -> Made:
    """sums[b] = the sum of block b's elements: a tree in shared memory, or shuffles and a slot a warp."""
    threads = rng.choice((64, 128))
    if rng.random() < 0.5:
        each = rng.choice((1, 2))
        kernel, per = samples.block_sum(threads=threads, each=each), threads * each
    else:
        kernel, per = _tree(threads), threads
    return kernel, tuple({"n": n} for n in (2 * per + 9, per, 31, 0))


def _tree(threads: int) -> KernelDescriptor:
    k = KernelBuilder("tree_sum", target="sm_80", threads=threads)
    n = k.size("n", min=0)
    x, sums = k.tensor("x", "f32", (n,)), k.tensor("sums", "f32", (cdiv(n, threads),), access="write")
    s, a, b = k.shared("s", "f32", (threads,)), k.registers("a", "f32", (1,)), k.registers("b", "f32", (1,))
    i = k.let("i", k.bx * threads + k.t)
    k.load(a[0], x[i], when=i < n, other=0.0)
    k.store(s[k.t], a[0])
    k.sync()
    half = threads // 2
    while half:
        with k.when(k.t < half):
            k.load(a[0], s[k.t])
            k.load(b[0], s[k.t + half])
            k.store(s[k.t], a[0] + b[0])
        k.sync("warp" if half < 32 else "block")
        half //= 2
    with k.when(eq(k.t, 0)):
        k.load(a[0], s[0])
        k.store(sums[k.bx], a[0])
    return k.finish(grid=(cdiv(n, threads),))


def softmax(rng: Random) -> Made:
    """Each row becomes 2^(x - its maximum) over their sum; a block a row, held in registers, shared between warps."""
    warps, each = rng.choice((1, 2, 3)), rng.choice((1, 2))
    threads, width = 32 * warps, 32 * warps * each
    k = KernelBuilder("softmax", target="sm_80", threads=threads)
    m, n = k.size("m", min=0, max=65535), k.size("n", max=width)  # so the grid is one block wide
    x, y = k.tensor("x", "f32", (m, n)), k.tensor("y", "f32", (m, n), access="write")
    part, v = k.shared("part", "f32", (2, warps)), k.registers("v", "f32", (each,))
    top, total, other = (k.registers(r, "f32", (1,)) for r in ("top", "total", "other"))
    k.store(top[0], -1e30)
    for e in range(each):
        col = k.bx * width + e * threads + k.t
        k.load(v[e], x[k.by, col], when=col < n, other=-1e30)
        k.store(top[0], maximum(top[0], v[e]))
    _shared(k, part, 0, top, other, maximum)
    k.store(total[0], 0.0)
    for e in range(each):
        k.store(v[e], apply("exp2", v[e] - top[0]))
        k.store(total[0], total[0] + v[e])
    _shared(k, part, 1, total, other, lambda p, q: p + q)
    for e in range(each):
        col = k.bx * width + e * threads + k.t
        with k.when(col < n):
            k.store(y[k.by, col], v[e] / total[0])
    return k.finish(grid=(cdiv(n, width), m)), ({"m": 2, "n": width - 3}, {"m": 3, "n": 1}, {"m": 0, "n": 4})


def _shared(k: KernelBuilder, part: Handle, row: int, value: Handle, other: Handle, join: Join) -> None:
    """All threads get what `join` makes of their values: by shuffles in a warp, by a row of `part` between warps."""
    for mask in (16, 8, 4, 2, 1):
        k.call("shfl.bfly", {"dst": other[0]}, value=value[0], mask=mask)
        k.store(value[0], join(value[0], other[0]))
    with k.when(eq(k.t % 32, 0)):
        k.store(part[row, k.t // 32], value[0])
    k.sync()
    k.load(value[0], part[row, 0])
    with k.loop("w", 1, part.shape[1], unroll="full") as w:
        k.load(other[0], part[row, w.var])
        k.store(value[0], join(value[0], other[0]))


def split_k(rng: Random) -> Made:
    """y[r] += the products of row r of A with x: blocks share the columns, and add what their threads summed."""
    rows, threads = rng.choice((2, 4)), rng.choice((32, 64))
    per = threads // rows
    k = KernelBuilder("split_k", target="sm_80", threads=threads)
    m, n = k.size("m", min=0, max=1 << 16), k.size("n", min=0)
    a, x = k.tensor("A", "f32", (m, n)), k.tensor("x", "f32", (n,))
    y = k.tensor("y", "f32", (m,), access="add")
    held, total = k.shared("held", "f32", (per,)), k.shared("total", "f32", (rows,))
    ra, rx, acc = (k.registers(r, "f32", (1,)) for r in ("ra", "rx", "acc"))
    row, lane = k.let("row", k.t // per), k.let("lane", k.t % per)
    with k.when(k.t < per):
        k.load(rx[0], x[k.bx * per + k.t], when=k.bx * per + k.t < n, other=0.0)
        k.store(held[k.t], rx[0])
    with k.when(eq(lane, 0)):
        k.store(total[row], 0.0)
    k.sync()
    inside = both(k.by * rows + row < m, k.bx * per + lane < n)
    k.load(ra[0], a[k.by * rows + row, k.bx * per + lane], when=inside, other=0.0)
    k.load(rx[0], held[lane])
    k.atomic("add", total[row], ra[0] * rx[0])
    k.sync()
    with k.when(k.t < rows):
        k.load(acc[0], total[k.t])
        with k.when(k.by * rows + k.t < m):
            k.atomic("add", y[k.by * rows + k.t], acc[0])
    kernel = k.finish(grid=(cdiv(n, per), cdiv(m, rows)))
    return kernel, ({"m": rows + 1, "n": 2 * per + 3}, {"m": rows, "n": per}, {"m": 1, "n": 1})
