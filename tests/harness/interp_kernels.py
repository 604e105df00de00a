"""Small kernels for the tests of the interpreter."""

from __future__ import annotations

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import apply, cdiv, minimum, select
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Padded, Swizzle


def vector_add(guard: bool = True, threads: int = 64) -> KernelDescriptor:
    k = KernelBuilder("vector_add", target="sm_80", threads=threads)
    n = k.size("n", min=0)
    x, y, z = k.tensor("x", "f32", (n,)), k.tensor("y", "f32", (n,)), k.tensor("z", "f32", (n,), access="write")
    a = k.registers("a", "f32", (2,))
    i = k.let("i", k.bx * threads + k.t)
    with k.when((i < n) if guard else (i < n + 1)):
        k.load(a[0], x[i])
        k.load(a[1], y[i])
        k.store(z[i], a[0] + a[1])
    return k.finish(grid=(cdiv(n, threads),))


def transpose(layout=None, sync: bool = True) -> KernelDescriptor:
    k = KernelBuilder("transpose", target="sm_80", threads=256)
    m, n = k.size("m", min=0), k.size("n", min=0)
    x, y = k.tensor("x", "f32", (m, n)), k.tensor("y", "f32", (n, m), access="write")
    s, a = k.shared("s", "f32", (16, 16), layout=layout or Padded(pad=1)), k.registers("a", "f32", (1,))
    r, c = k.let("r", k.t // 16), k.let("c", k.t % 16)
    i, j = k.let("i", k.by * 16 + r), k.let("j", k.bx * 16 + c)
    k.load(a[0], x[i, j], when=apply("and", i < m, j < n), other=0.0)
    k.store(s[r, c], a[0])
    if sync:
        k.sync()
    i2, j2 = k.let("i2", k.bx * 16 + r), k.let("j2", k.by * 16 + c)
    k.load(a[0], s[c, r])
    with k.when(apply("and", i2 < n, j2 < m)):
        k.store(y[i2, j2], a[0])
    return k.finish(grid=(cdiv(n, 16), cdiv(m, 16)))


def reduction(barriers: bool = True, threads: int = 128) -> KernelDescriptor:
    """Sum of each row: per-thread loop, shuffles, one shared slot a warp."""
    k = KernelBuilder("row_sum", target="sm_80", threads=threads)
    m, n = k.size("m"), k.size("n")
    x, y = k.tensor("x", "f32", (m, n)), k.tensor("y", "f32", (m,), access="write")
    warps = threads // 32
    s = k.shared("s", "f32", (warps,))
    acc, a, other = k.registers("acc", "f32", (1,)), k.registers("a", "f32", (1,)), k.registers("other", "f32", (1,))
    k.store(acc[0], 0.0)
    with k.loop("j", k.t, n, threads) as loop:
        k.load(a[0], x[k.bx, loop.var])
        k.store(acc[0], acc[0] + a[0])
    for d in (16, 8, 4, 2, 1):
        k.call("shfl.bfly", {"dst": other[0]}, value=acc[0], mask=d)
        k.store(acc[0], acc[0] + other[0])
    with k.when(apply("==", k.t % 32, 0)):
        k.store(s[k.t // 32], acc[0])
    if barriers:
        k.sync()
    with k.when(apply("==", k.t, 0)):
        k.store(acc[0], 0.0)
        with k.loop("w", 0, warps, unroll="full") as loop:
            k.load(a[0], s[loop.var])
            k.store(acc[0], acc[0] + a[0])
        k.store(y[k.bx], acc[0])
    return k.finish(grid=(m,))


def gemm(bm=128, bn=128, bk=16, tm=8, tn=8, *, guard: bool = True, second_sync: bool = True) -> KernelDescriptor:
    """C = A @ B, register tiles, one shared stage."""
    rows, cols = bm // tm, bn // tn
    threads = rows * cols
    k = KernelBuilder("gemm", target="sm_80", threads=threads)
    m, n, kk = k.size("m", min=0), k.size("n", min=0), k.size("k", min=0)
    A, B = k.tensor("A", "f32", (m, kk)), k.tensor("B", "f32", (kk, n))
    C = k.tensor("C", "f32", (m, n), access="write")
    As, Bs = k.shared("As", "f32", (bk, bm)), k.shared("Bs", "f32", (bk, bn))
    acc, ra, rb = k.registers("acc", "f32", (tm, tn)), k.registers("ra", "f32", (tm,)), k.registers("rb", "f32", (tn,))
    st = k.registers("st", "f32", (1,))
    ty, tx = k.let("ty", k.t // cols), k.let("tx", k.t % cols)
    with k.loop("i", 0, tm, unroll="full") as i, k.loop("j", 0, tn, unroll="full") as j:
        k.store(acc[i.var, j.var], 0.0)
    with k.loop("k0", 0, kk, bk) as k0:
        with k.loop("e", 0, bm * bk // threads, unroll="full") as e:
            f = k.let("f", e.var * threads + k.t)
            r, c = k.let("ar", f // bk), k.let("ac", f % bk)
            row, col = k.let("arow", k.by * bm + r), k.let("acol", k0.var + c)
            k.load(st[0], A[row, col], when=apply("and", row < m, col < kk) if guard else None, other=0.0)
            k.store(As[c, r], st[0])
        with k.loop("e2", 0, bn * bk // threads, unroll="full") as e:
            f = k.let("f2", e.var * threads + k.t)
            r, c = k.let("br", f // bn), k.let("bc", f % bn)
            row, col = k.let("brow", k0.var + r), k.let("bcol", k.bx * bn + c)
            k.load(st[0], B[row, col], when=apply("and", row < kk, col < n), other=0.0)
            k.store(Bs[r, c], st[0])
        k.sync()
        with k.loop("kc", 0, bk, unroll="full") as kc:
            with k.loop("i1", 0, tm, unroll="full") as i:
                k.load(ra[i.var], As[kc.var, ty * tm + i.var])
            with k.loop("j1", 0, tn, unroll="full") as j:
                k.load(rb[j.var], Bs[kc.var, tx * tn + j.var])
            with k.loop("i2", 0, tm, unroll="full") as i, k.loop("j2", 0, tn, unroll="full") as j:
                k.store(acc[i.var, j.var], apply("fma", ra[i.var], rb[j.var], acc[i.var, j.var]))
        if second_sync:
            k.sync()
    with k.loop("i3", 0, tm, unroll="full") as i, k.loop("j3", 0, tn, unroll="full") as j:
        row, col = k.let("crow", k.by * bm + ty * tm + i.var), k.let("ccol", k.bx * bn + tx * tn + j.var)
        with k.when(apply("and", row < m, col < n)):
            k.store(C[row, col], acc[i.var, j.var])
    return k.finish(grid=(cdiv(n, bn), cdiv(m, bm)))


def gemm_async(stages: int = 3, *, wait: bool = True, sync: bool = True) -> KernelDescriptor:
    """C = A @ B for multiples of the tile 32x32x16, a ring of cp.async stages; 64 threads of 4x4."""
    bm = bn = 32
    bk, threads = 16, 64
    k = KernelBuilder("gemm_async", target="sm_80", threads=threads)
    m, n, kk = k.size("m", multiple_of=32), k.size("n", multiple_of=32), k.size("k", multiple_of=16)
    A, B = k.tensor("A", "f32", (m, kk), align=16), k.tensor("B", "f32", (kk, n), align=16)
    C = k.tensor("C", "f32", (m, n), access="write", align=16)
    As = k.shared("As", "f32", (stages, bm, bk), layout=Swizzle(bits=2, base=2, shift=2))
    Bs = k.shared("Bs", "f32", (stages, bk, bn))
    acc, ra, rb = k.registers("acc", "f32", (4, 4)), k.registers("ra", "f32", (4,)), k.registers("rb", "f32", (4,))
    ty, tx = k.let("ty", k.t // 8), k.let("tx", k.t % 8)

    def fetch(slot, k0):
        with k.when(k0 < kk), k.loop("e", 0, 2, unroll="full") as e:
            f = k.let("f", e.var * threads + k.t)
            r, c = k.let("r", f // 4), k.let("c", f % 4 * 4)
            k.call("cp.async.16", {"dst": As[slot, r, c], "src": A[k.by * bm + r, k0 + c]})
            r2, c2 = k.let("r2", f // 8), k.let("c2", f % 8 * 4)
            k.call("cp.async.16", {"dst": Bs[slot, r2, c2], "src": B[k0 + r2, k.bx * bn + c2]})
        k.commit()

    with k.loop("i", 0, 4, unroll="full") as i, k.loop("j", 0, 4, unroll="full") as j:
        k.store(acc[i.var, j.var], 0.0)
    for s in range(stages - 1):
        fetch(s, k.let("p", s * bk))
    with k.loop("q", 0, kk // bk) as q:
        slot = k.let("slot", q.var % stages)
        if wait:
            k.wait(pending=stages - 2)
        if sync:
            k.sync()
        fetch(k.let("nslot", (q.var + (stages - 1)) % stages), k.let("nk", (q.var + (stages - 1)) * bk))
        with k.loop("kc", 0, bk) as kc:
            with k.loop("i1", 0, 4, unroll="full") as i:
                k.load(ra[i.var], As[slot, ty * 4 + i.var, kc.var])
            k.load(rb[0], Bs[slot, kc.var, tx * 4], width=4)
            with k.loop("i2", 0, 4, unroll="full") as i, k.loop("j2", 0, 4, unroll="full") as j:
                k.store(acc[i.var, j.var], apply("fma", ra[i.var], rb[j.var], acc[i.var, j.var]))
    k.wait(pending=0)
    with k.loop("i3", 0, 4, unroll="full") as i:
        k.store(C[k.by * bm + ty * 4 + i.var, k.bx * bn + tx * 4], *(acc[i.var, j] for j in range(4)))
    return k.finish(grid=(n // bn, m // bm))


def ragged(threads: int = 64) -> KernelDescriptor:
    """y[i] = the sum of 0..count[i]-1 as a carried value: trip counts differ by thread."""
    k = KernelBuilder("ragged", target="sm_80", threads=threads)
    n = k.size("n", min=0)
    count, y = k.tensor("count", "i32", (n,)), k.tensor("y", "i32", (n,), access="write")
    c = k.registers("c", "i32", (1,))
    i = k.let("i", k.bx * threads + k.t)
    with k.when(i < n):
        k.load(c[0], count[i])
        with k.loop("j", 0, c[0], total=0) as loop:
            loop.next(total=loop.total + loop.var)
        k.store(y[i], loop.total)
    return k.finish(grid=(cdiv(n, threads),))


def histogram() -> KernelDescriptor:
    """Counts of x in 0..7 by shared, then global atomics."""
    k = KernelBuilder("histogram", target="sm_80", threads=64)
    n = k.size("n")
    x, y = k.tensor("x", "i32", (n,)), k.tensor("y", "i32", (8,), access="add")
    s, a = k.shared("s", "i32", (8,)), k.registers("a", "i32", (1,))
    with k.when(k.t < 8):
        k.store(s[k.t], 0)
    k.sync()
    i = k.let("i", k.bx * 64 + k.t)
    with k.when(i < n):
        k.load(a[0], x[i])
        k.atomic("add", s[minimum(a[0], 7)], select(i < n, 1, 0))
    k.sync()
    with k.when(k.t < 8):
        k.load(a[0], s[k.t])
        k.atomic("add", y[k.t], a[0])
    return k.finish(grid=(cdiv(n, 64),))
