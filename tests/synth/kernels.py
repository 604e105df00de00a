"""Small kernels that the printer's tests share: each uses what the one before it does not."""

from __future__ import annotations

from functools import partial

from hopper_kernels import mma_gemm, peers

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import both, cdiv, select
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Padded, Swizzle
from amk.dsl.target import Target
from amk.ops.gemm import Gemm, GemmSchedule, build
from amk.ops.wgmma_gemm import WgmmaSchedule, wgmma_gemm

TARGET = "sm_80"
MOST = 2_000_000  # rows of a matrix whose 32-high tiles lie along y of the grid


def vector_add(width: int = 1, threads: int = 256) -> KernelDescriptor:
    """z = x + y, `width` elements a thread (the size is a multiple of it)."""
    k = KernelBuilder("vector_add", target=TARGET, threads=threads)
    n = k.size("n", multiple_of=width)
    x, y = (k.tensor(name, "f32", (n,), align=16) for name in "xy")
    z = k.tensor("z", "f32", (n,), access="write", align=16)
    a, b = k.registers("a", "f32", (width,)), k.registers("b", "f32", (width,))
    i = k.let("i", (k.bx * threads + k.t) * width)
    with k.when(i < n):
        k.load(a[0], x[i], width=width)
        k.load(b[0], y[i], width=width)
        k.store(z[i], *(a[j] + b[j] for j in range(width)))
    return k.finish(grid=(cdiv(n, threads * width),))


def transpose(sync: bool = True, pad: int = 1) -> KernelDescriptor:
    """out[j, i] = x[i, j] through a 32x(32 + pad) tile; without `sync` it races, on purpose."""
    k = KernelBuilder("transpose", target=TARGET, threads=256)
    rows, cols = k.size("rows", max=MOST), k.size("cols", max=MOST)
    x = k.tensor("x", "f32", (rows, cols))
    out = k.tensor("out", "f32", (cols, rows), access="write")
    tile = k.shared("tile", "f32", (32, 32), layout=Padded(pad=pad))
    v = k.registers("v", "f32", (1,))
    lane, warp = k.let("lane", k.t % 32), k.let("warp", k.t // 32, uniform=True)
    with k.loop("r", 0, 32, 8, unroll="full") as loop:
        row, col = k.by * 32 + warp + loop.var, k.bx * 32 + lane
        k.load(v[0], x[row, col], when=both(row < rows, col < cols), other=0.0)
        k.store(tile[warp + loop.var, lane], v[0])
    if sync:
        k.sync()
    with k.loop("s", 0, 32, 8, unroll="full") as loop:
        row, col = k.bx * 32 + warp + loop.var, k.by * 32 + lane
        k.load(v[0], tile[lane, warp + loop.var])
        with k.when(both(row < cols, col < rows)):
            k.store(out[row, col], v[0])
    return k.finish(grid=(cdiv(cols, 32), cdiv(rows, 32)))


def block_sum(sync: bool = True) -> KernelDescriptor:
    """total += the sum of x: a carried sum, shuffles in the warp, shared memory between warps, one atomic a block."""
    k = KernelBuilder("block_sum", target=TARGET, threads=256)
    n = k.size("n")
    x = k.tensor("x", "f32", (n,))
    total = k.tensor("total", "f32", (1,), access="add")
    parts = k.shared("parts", "f32", (8,))
    v, w = k.registers("v", "f32", (1,)), k.registers("w", "f32", (1,))
    k.store(v[0], 0.0)
    with k.loop("i", k.bx * 256 + k.t, n, 8 * 256, acc=0.0) as loop:
        k.load(v[0], x[loop.var])
        loop.next(acc=loop.acc + v[0])
    k.store(v[0], loop.acc)
    _warp_sum(k, v, w, (16, 8, 4, 2, 1))
    with k.when(k.t % 32 < 1):
        k.store(parts[k.t // 32], v[0])
    if sync:
        k.sync()
    with k.when(k.t < 32):
        k.store(v[0], 0.0)
        with k.when(k.t < 8):
            k.load(v[0], parts[k.t])
        _warp_sum(k, v, w, (4, 2, 1))
        with k.when(k.t < 1):
            k.atomic("add", total[0], v[0])
    kernel = k.finish(grid=(8,))
    return kernel.model_copy(update={"body": _f32_carry(kernel.body)})


def _warp_sum(k: KernelBuilder, v, w, steps) -> None:  # type: ignore[no-untyped-def]
    for delta in steps:
        k.call("shfl.down", {"dst": w[0]}, value=v[0], delta=delta)
        k.store(v[0], v[0] + w[0])


def _f32_carry(body):  # type: ignore[no-untyped-def]
    """The builder carries i32; this sum is f32."""
    before, loop, *after = body
    carry = tuple(c.model_copy(update={"dtype": "f32"}) for c in loop.carry)
    return (before, loop.model_copy(update={"carry": carry}), *after)


def gemm(syncs: bool = True, threads: int = 64, swizzle: bool = False) -> KernelDescriptor:
    """C = A B with 32x32x8 tiles, 4x4 a thread: a two-stage cp.async ring read through views."""
    k = KernelBuilder("gemm", target=TARGET, threads=threads)
    m, n, depth = k.size("m", max=MOST), k.size("n", multiple_of=4), k.size("depth", multiple_of=4)
    a = k.tensor("a", "f32", (m, depth), align=16)
    b = k.tensor("b", "f32", (depth, n), align=16)
    c = k.tensor("c", "f32", (m, n), access="write", align=16)
    sa = k.shared("sa", "f32", (2, 32, 8))
    sb = k.shared("sb", "f32", (2, 8, 32), layout=Swizzle(bits=2, base=2, shift=3) if swizzle else None)
    acc, fa, fb = k.registers("acc", "f32", (4, 4)), k.registers("fa", "f32", (4,)), k.registers("fb", "f32", (4,))
    ty, tx = k.let("ty", k.t // 8), k.let("tx", k.t % 8)
    tiles = k.let("tiles", cdiv(depth, 8))
    with k.loop("i", 0, 4, unroll="full") as i, k.loop("j", 0, 4, unroll="full") as j:
        k.store(acc[i.var, j.var], 0.0)

    def copy(tile, slot):  # type: ignore[no-untyped-def]
        y, x = k.t // 2, k.t % 2 * 4
        row, col = k.by * 32 + y, tile * 8 + x
        k.call("cp.async.16", {"dst": sa[slot, y, x], "src": a[row, col]}, when=both(row < m, col < depth))
        y, x = k.t // 8, k.t % 8 * 4
        row, col = tile * 8 + y, k.bx * 32 + x
        k.call("cp.async.16", {"dst": sb[slot, y, x], "src": b[row, col]}, when=both(row < depth, col < n))
        k.commit()

    copy(0, 0)
    with k.loop("p", 0, tiles) as p:
        copy(p.var + 1, (p.var + 1) % 2)
        k.wait(pending=1)
        if syncs:
            k.sync()
        va = k.view("va", sa[p.var % 2, ty * 4, 0])
        vb = None if swizzle else k.view("vb", sb[p.var % 2, 0, tx * 4])
        with k.loop("kk", 0, 8, unroll="full") as kk:
            with k.loop("q", 0, 4, unroll="full") as q:
                k.load(fa[q.var], va[q.var, kk.var])
            k.load(fb[0], vb[kk.var, 0] if vb else sb[p.var % 2, kk.var, tx * 4], width=4)
            with k.loop("u", 0, 4, unroll="full") as u, k.loop("v", 0, 4, unroll="full") as v:
                k.store(acc[u.var, v.var], _fma(fa[u.var], fb[v.var], acc[u.var, v.var]))
        if syncs:
            k.sync()
    k.wait(pending=0)
    row0, col0 = k.let("row0", k.by * 32 + ty * 4), k.let("col0", k.bx * 32 + tx * 4)
    vc = k.view("vc", c[row0, col0])
    with k.loop("o", 0, 4, unroll="full") as o, k.when(both(row0 + o.var < m, col0 < n)):
        k.store(vc[o.var, 0], *(acc[o.var, x] for x in range(4)))
    return k.finish(grid=(cdiv(n, 32), cdiv(m, 32)))


def _fma(a, b, c):  # type: ignore[no-untyped-def]
    from amk.dsl.expr import apply

    return apply("fma", a, b, c)


def mixed() -> KernelDescriptor:
    """One of everything else: element types, narrow copies, shuffles, minima, casts, carried values, 32-bit offsets."""
    k = KernelBuilder("mixed", target=TARGET, threads=64, min_blocks=2)
    n = k.size("n", max=1 << 20, multiple_of=8)
    k.scalar("shift", "i64", min=0, max=1 << 40)
    k.assume(n % 8 < 1)
    half = k.tensor("half", "bf16", (n, 8), align=16)
    bytes_ = k.tensor("octets", "u8", (64, 8), access="write", align=8)
    count = k.tensor("count", "i64", (1,), access="add")
    low = k.tensor("low", "i32", (n,), offsets="i32", strides=(2,))
    peak = k.tensor("peak", "i32", (8,), access="readwrite")
    h, o, r = k.registers("h", "bf16", (8,)), k.registers("o", "u8", (8,)), k.registers("r", "i32", (2,))
    sh = k.shared("sh", "i32", (64,))
    k.load(h[0], half[k.t, 0], width=8, when=k.t < n, other=0.0)
    wide = k.registers("wide", "f64", (1,))
    k.store(wide[0], "f64(f32(h[0])*0.1) + max(f64(h[1]), 1e300)")
    k.store(o[0], *range(1, 9))
    k.store(bytes_[k.t, 0], *(o[j] for j in range(8)))
    k.call("cp.async.4", {"dst": sh[k.t], "src": low[k.t]}, when=k.t < n)
    k.commit()
    k.wait(pending=0)
    k.sync("warp")
    k.load(r[0], sh[k.t ^ 1])
    k.call("shfl.bfly", {"dst": r[1]}, value=r[0] + 1, mask=3)
    k.call("shfl.idx", {"dst": r[0]}, value=r[1], lane=k.t % 4)
    k.call("shfl.up", {"dst": r[0]}, value=select(k.t < 3, r[0], -5), delta=1)
    with k.loop("i", 0, "min(n, 7)", unroll=2, x=0, y=1) as f:
        f.next(x=(f.x + 1) % 3, y=f.y ^ 1)
    big = k.let("big", "i64(n)*shift + max(shift, 3)", dtype="i64")
    k.atomic("add", count[0], big - 1)
    k.atomic("max", peak[k.t % 8], f.y - (f.x - 2))
    k.store(r[0], r[1], r[0])
    return k.finish(grid=(1,))


# The operator's own kernels, at tiles so small that one OS thread a CUDA thread runs them: a ring of three stages and
# vector copies; both operands transposed, padded, in a batch, with beta; partial sums; a raster of fixed sizes.
SMALL = {"bm": 32, "bn": 32, "bk": 8, "tm": 4, "tn": 4}
PRODUCT = {
    "gemm_nn_ring": (Gemm(m=64, n=64, k=64), GemmSchedule(**SMALL, stages=3, vec_width=4)),
    "gemm_tt_batch": (
        Gemm(m=34, n=36, k=18, batch=2, trans_a=True, trans_b=True, beta="any"),
        GemmSchedule(**{**SMALL, "bk": 16}, stages=2, vec_width=2, pad=4),
    ),
    "gemm_split": (Gemm(m=33, n=37, k=19), GemmSchedule(**SMALL, stages=2, vec_width=1, split_k=2)),
    "gemm_raster": (Gemm(m=61, n=36, k=20), GemmSchedule(**SMALL, stages=2, vec_width=4, group=2, specialise=True)),
}


def plain(kernel: KernelDescriptor) -> KernelDescriptor:
    """The kernel without places: a golden file is not to change when a line is added above a builder's."""
    return KernelDescriptor.model_validate(kernel.to_dict(places=False))


def product(name: str) -> KernelDescriptor:
    """A kernel of the operator."""
    return plain(build(*PRODUCT[name], Target.find(TARGET)))


GOLDEN = {
    "vector_add": lambda: plain(vector_add()), "vector_add_4": lambda: plain(vector_add(4)),
    "transpose": lambda: plain(transpose()), "block_sum": lambda: plain(block_sum()), "gemm": lambda: plain(gemm()),
    "gemm_swizzled": lambda: plain(gemm(swizzle=True)), "mixed": lambda: plain(mixed()),
    **{name: partial(product, name) for name in PRODUCT},
    "mma_gemm": lambda: plain(mma_gemm()), "peers": lambda: plain(peers()),
    "wgmma": lambda: plain(wgmma_gemm(WgmmaSchedule(warpgroups=1, columns=64, slots=2, cluster=1))),
    "wgmma_cluster": lambda: plain(wgmma_gemm()),
}  # fmt: skip
