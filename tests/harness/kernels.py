"""Kernels as the checks meet them: each correct as it stands, with switches that break it in one known way."""

from __future__ import annotations

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import Expr, cdiv, select
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Padded, Swizzle

__all__ = ["block_reduce", "gemm_async", "gemm_staged", "grid_stride", "raster_tiles", "transpose", "vector_add"]


def vector_add(*, guard: int = 0, shift: int = 0, tile: int = 256, short: int = 0) -> KernelDescriptor:
    """z = x + y, one element a thread; `guard`, `shift` and `short` move guard, store and grid."""
    k = KernelBuilder("vector_add", target="sm_80", threads=256)
    n = k.size("n")
    x, y, z = k.tensor("x", "f32", (n,)), k.tensor("y", "f32", (n,)), k.tensor("z", "f32", (n,), access="write")
    a = k.registers("a", "f32", (2,))
    i = k.let("i", k.bx * tile + k.t)
    with k.when(i < n - guard):
        k.load(a[0], x[i])
        k.load(a[1], y[i])
        k.store(z[i + shift], a[0] + a[1])
    return k.finish(grid=(cdiv(n, 256) - short,))


def grid_stride(*, step: int = 256) -> KernelDescriptor:
    """y = 2 x with a fixed grid and a loop."""
    k = KernelBuilder("grid_stride", target="sm_80", threads=256)
    n = k.size("n")
    x, y = k.tensor("x", "f32", (n,)), k.tensor("y", "f32", (n,), access="write")
    a = k.registers("a", "f32", (1,))
    with k.loop("i", k.bx * 256 + k.t, n, k.gx * step) as i:
        k.load(a[0], x[i.var])
        k.store(y[i.var], a[0] + a[0])
    return k.finish(grid=(8,))


def transpose(
    layout: str = "padded", *, barrier: bool = True, read_plain: bool = False, rows: int = 32,
    guard_barrier: bool = False,
    grid_short: bool = False,
) -> KernelDescriptor:  # fmt: skip
    """out = in^T through a 32 x 32 tile, 256 threads; `layout` is plain, padded, swizzle or xor (in the index)."""
    k = KernelBuilder("transpose", target="sm_80", threads=256)
    m, n = k.size("m", max=1 << 20), k.size("n")
    src, dst = k.tensor("src", "f32", (m, n)), k.tensor("dst", "f32", (n, m), access="write")
    lay = {"padded": Padded(pad=1), "swizzle": Swizzle(bits=5, base=0, shift=5)}.get(layout)
    s = k.shared("s", "f32", (rows, 32), layout=lay)
    a = k.registers("a", "f32", (1,))
    tx, ty = k.let("tx", k.t % 32), k.let("ty", k.t // 32)

    def at(row: Expr, col: Expr, plain: bool = False) -> tuple[Expr, Expr]:
        return (row, col ^ row) if layout == "xor" and not plain else (row, col)

    with k.loop("r", 0, 32, 8, unroll="full") as r:
        row = k.by * 32 + ty + r.var
        k.load(a[0], src[row, k.bx * 32 + tx], when=_and(row < m, k.bx * 32 + tx < n), other=0.0)
        k.store(s[at(ty + r.var, tx)], a[0])
    if barrier and guard_barrier:
        with k.when(k.t < 128):
            k.sync()
    elif barrier:
        k.sync()
    with k.loop("q", 0, 32, 8, unroll="full") as q:
        orow, ocol = k.bx * 32 + ty + q.var, k.by * 32 + tx
        k.load(a[0], s[at(tx, ty + q.var, read_plain)])
        with k.when(orow < n), k.when(ocol < m):
            k.store(dst[orow, ocol], a[0])
    return k.finish(grid=(n // 32 if grid_short else cdiv(n, 32), cdiv(m, 32)))


def block_reduce(
    *, threads: int = 256, first: bool = True, tree: bool = True, early: bool = False, shuffle_when: int = 32,
    barrier_when: Expr | None = None, atomic: bool = False, zero: bool = True, slots: int | None = None,
) -> KernelDescriptor:  # fmt: skip
    """out[bx] = the sum of a tile: shared tree with barriers, then shuffles in the first warp."""
    k = KernelBuilder("block_reduce", target="sm_80", threads=threads)
    n = k.size("n")
    x = k.tensor("x", "f32", (n,))
    out = k.tensor("out", "f32", (1,) if atomic else (cdiv(n, threads),), access="add" if atomic else "write")
    s = k.shared("s", "f32", (threads if slots is None else slots,))
    a, b = k.registers("a", "f32", (1,)), k.registers("b", "f32", (1,))
    i = k.let("i", k.bx * threads + k.t)
    k.load(a[0], x[i], when=i < n, other=0.0)
    if early:
        with k.when(i < n):
            k.store(s[k.t], a[0])
    else:
        k.store(s[k.t], a[0])
    if first:
        k.sync()
    half = threads // 2
    while half >= 32:
        with k.when(k.t < half):
            k.load(b[0], s[k.t + half])
            k.load(a[0], s[k.t])
            k.store(s[k.t], a[0] + b[0])
        if barrier_when is not None:
            with k.when(barrier_when):
                k.sync()
        elif tree:
            k.sync()
        half //= 2
    with k.when(k.t < shuffle_when):
        k.load(a[0], s[k.t])
        for delta in (16, 8, 4, 2, 1):
            k.call("shfl.down", {"dst": b[0]}, value=a[0], delta=delta)
            k.store(a[0], a[0] + b[0])
    with k.when(k.t < 1):
        if atomic:
            k.atomic("add", out[0], a[0])
        else:
            k.store(out[k.bx], a[0])
    return k.finish(grid=(cdiv(n, threads),))


def gemm_async(
    stages: int = 3, *, pending: int | None = None, slots: int | None = None, commit: str = "issue",
    tail_commit: bool = True, barrier: str = "both", read_slot: int = 0, write_slot: int = 0, last_wait: bool = True,
    tile: int = 128, bk: int = 16, short: bool = False, shift: int = 0, init: bool = True, multiple: int = 4,
) -> KernelDescriptor:  # fmt: skip
    """C = A B with a ring of cp.async stages: wait, barrier, issue the copy `stages - 1` ahead, compute.

    `commit` is issue, late (after the wait of the next step) or never.
    """
    k = KernelBuilder("gemm_async", target="sm_80", threads=256)
    m, n, kk = k.size("m", max=1 << 20), k.size("n", multiple_of=multiple), k.size("kk", multiple_of=multiple)
    a, b = k.tensor("a", "f32", (m, kk), align=16), k.tensor("b", "f32", (kk, n), align=16)
    c = k.tensor("c", "f32", (m, n), access="write", align=16)
    ring = stages if slots is None else slots
    sa, sb = k.shared("sa", "f32", (ring, tile, bk)), k.shared("sb", "f32", (ring, bk, tile - (4 if short else 0)))
    ra, rb, acc = k.registers("ra", "f32", (8,)), k.registers("rb", "f32", (8,)), k.registers("acc", "f32", (8, 8))
    ahead = stages - 1
    nk = cdiv(kk, bk)

    def issue(step: Expr, slot: Expr) -> None:
        for j in range(tile * bk // 1024):
            v = k.t + j * 256
            row, col = v // (bk // 4), v % (bk // 4) * 4
            inside = _and(k.by * tile + row < m, step * bk + col < kk)
            k.call(
                "cp.async.16", {"dst": sa[slot, row, col], "src": a[k.by * tile + row, step * bk + col]}, when=inside
            )
            row, col = v // (tile // 4), v % (tile // 4) * 4
            inside = _and(step * bk + row < kk, k.bx * tile + col < n)
            k.call(
                "cp.async.16", {"dst": sb[slot, row, col], "src": b[step * bk + row, k.bx * tile + col]}, when=inside
            )

    if init:
        with k.loop("i", 0, 8, unroll="full") as i, k.loop("j", 0, 8, unroll="full") as j:
            k.store(acc[i.var, j.var], 0.0)
    with k.loop("s", 0, ahead, unroll="full") as s:
        with k.when(s.var < nk):
            issue(s.var, (s.var + write_slot) % ring)
        if commit != "never":
            k.commit()
    with k.loop("kt", 0, nk) as kt:
        k.wait(pending=stages - 2 if pending is None else pending)
        if commit == "late":
            k.commit()
        if barrier in ("both", "wait"):
            k.sync()
        with k.when(kt.var + ahead < nk):
            issue(kt.var + ahead, (kt.var + ahead + write_slot) % ring)
            if commit == "issue" and not tail_commit:
                k.commit()
        if commit == "issue" and tail_commit:
            k.commit()
        _compute(k, sa, sb, ra, rb, acc, (kt.var + read_slot) % ring, bk)
        if barrier == "after":
            k.sync()
    if last_wait:
        k.wait(pending=0)
    _store(k, c, acc, m, n, tile, shift)
    return k.finish(grid=(cdiv(n, tile), cdiv(m, tile)))


def _and(x: Expr, y: Expr) -> Expr:
    from amk.dsl.expr import both

    return both(x, y)


def _compute(k: KernelBuilder, sa, sb, ra, rb, acc, slot: Expr | None, bk: int) -> None:  # type: ignore[no-untyped-def]
    lead = () if slot is None else (slot,)
    with k.loop("p", 0, bk, unroll="full") as p:
        with k.loop("u", 0, 8, unroll="full") as u:
            k.load(ra[u.var], sa[(*lead, k.t // 16 * 8 + u.var, p.var)])
        for half in (0, 1):
            k.load(rb[half * 4], sb[(*lead, p.var, half * 64 + k.t % 16 * 4)], width=4)
        with k.loop("i", 0, 8, unroll="full") as i, k.loop("j", 0, 8, unroll="full") as j:
            k.store(acc[i.var, j.var], acc[i.var, j.var] + ra[i.var] * rb[j.var])


def _store(k: KernelBuilder, c, acc, m: Expr, n: Expr, tile: int, shift: int = 0) -> None:  # type: ignore[no-untyped-def]
    with k.loop("i", 0, 8, unroll="full") as i:
        row = k.let("row", k.by * tile + k.t // 16 * 8 + i.var)
        for half in (0, 1):
            col = k.let("col", k.bx * tile + half * 64 + k.t % 16 * 4 + shift)
            with k.when(row < m), k.when(col < n):
                k.store(c[row, col], *(acc[i.var, half * 4 + j] for j in range(4)))


def gemm_staged(
    *, first: bool = True, last: bool = True, slots: int = 2, flip: bool = True, guard: bool = True
) -> KernelDescriptor:
    """C = A B with loads staged through registers into two shared slots; the slot is carried round the loop."""
    k = KernelBuilder("gemm_staged", target="sm_80", threads=256)
    m, n, kk = k.size("m", max=1 << 20), k.size("n", multiple_of=4), k.size("kk", multiple_of=4)
    a, b = k.tensor("a", "f32", (m, kk), align=16), k.tensor("b", "f32", (kk, n), align=16)
    c = k.tensor("c", "f32", (m, n), access="write", align=16)
    sa, sb = k.shared("sa", "f32", (slots, 128, 16)), k.shared("sb", "f32", (slots, 16, 128))
    ra, rb, acc = k.registers("ra", "f32", (8,)), k.registers("rb", "f32", (8,)), k.registers("acc", "f32", (8, 8))
    stage = k.registers("stage", "f32", (16,))
    nk = cdiv(kk, 16)

    def fetch(step: Expr) -> None:
        for j in range(2):
            v = k.t + j * 256
            row, col = v // 4, v % 4 * 4
            when = _and(k.by * 128 + row < m, step * 16 + col < kk)
            k.load(stage[j * 4], a[k.by * 128 + row, step * 16 + col], width=4, when=when, other=0.0)
            row, col = v // 32, v % 32 * 4
            when = _and(step * 16 + row < kk, k.bx * 128 + col < n)
            k.load(stage[8 + j * 4], b[step * 16 + row, k.bx * 128 + col], width=4, when=when, other=0.0)

    def put(slot: Expr) -> None:
        for j in range(2):
            v = k.t + j * 256
            k.store(sa[slot, v // 4, v % 4 * 4], *(stage[j * 4 + q] for q in range(4)))
            k.store(sb[slot, v // 32, v % 32 * 4], *(stage[8 + j * 4 + q] for q in range(4)))

    with k.loop("i", 0, 8, unroll="full") as i, k.loop("j", 0, 8, unroll="full") as j:
        k.store(acc[i.var, j.var], 0.0)
    fetch(k.bx * 0)
    put(k.bx * 0)
    if first:
        k.sync()
    with k.loop("kt", 0, nk, slot=0) as kt:
        more = kt.var + 1 < nk
        with k.when(more):
            fetch(kt.var + 1)
        _compute(k, sa, sb, ra, rb, acc, kt.slot, 16)
        if guard:
            with k.when(more):
                put((1 - kt.slot) if slots > 1 else kt.slot)
        if last:
            k.sync()
        if flip:
            kt.next(slot=1 - kt.slot if slots > 1 else kt.slot)
    _store(k, c, acc, m, n, 128)
    return k.finish(grid=(cdiv(n, 128), cdiv(m, 128)))


def raster_tiles(*, group: int = 2, short: int = 0) -> KernelDescriptor:
    """Tiles of 16 x 16 in groups of rows, the linear block index mapped to a tile by divisions."""
    k = KernelBuilder("raster_tiles", target="sm_80", threads=256)
    m, n = k.size("m", max=1 << 18), k.size("n", max=1 << 18)
    y = k.tensor("y", "f32", (m, n), access="write")
    tm, tn = cdiv(m, 16), cdiv(n, 16)
    per = k.let("per", tn * group)
    start = k.let("start", k.bx // per * group)
    rows = k.let("rows", select(tm - start < group, tm - start, group))
    row = k.let("row", (start + k.bx % per % rows) * 16 + k.t // 16)
    col = k.let("col", k.bx % per // rows * 16 + k.t % 16)
    with k.when(row < m), k.when(col < n):
        k.store(y[row, col], 1.0)
    return k.finish(grid=(tm * tn - short,))
