"""What the examples of the rules about asynchronous work are made of."""

from __future__ import annotations

from collections.abc import Callable

from amk.dsl.builder import Handle, KernelBuilder
from amk.dsl.expr import Expr, ExprLike, eq
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Swizzle

__all__ = ["copied", "multiplied", "peers", "stored"]

_THREADS = 64


def _started(k: KernelBuilder, bar: Handle) -> None:
    """One thread initialises an mbarrier, and everyone knows it."""
    with k.when(eq(k.t, 0)):
        k.call("mbarrier.init", {"bar": bar[0]})
        k.fence("mbarrier_init")
    k.sync()


def copied(name: str, *, arrivals: int = 1, expected: int = 256) -> KernelDescriptor:
    """A bulk copy of 256 bytes that completes on an mbarrier, for which all wait before they read it."""
    k = KernelBuilder(name, target="sm_90a", threads=_THREADS)
    x, z = k.tensor("x", "f32", (_THREADS,), align=16), k.tensor("z", "f32", (_THREADS,), access="write")
    s, a, bar = k.shared("s", "f32", (_THREADS,)), k.registers("a", "f32", (1,)), k.barrier("full")
    _started(k, bar)
    with k.when(k.t < arrivals):
        k.arrive(bar[0], bytes=expected)
    with k.when(eq(k.t, 0)):
        k.call("bulk.load", {"dst": s[0], "src": x[0], "bar": bar[0]}, bytes=256)
    k.wait_phase(bar[0], 0)
    k.load(a[0], s[k.t])
    k.store(z[k.t], a[0])
    return k.finish(grid=(1,))


def stored(name: str, fence: bool) -> KernelDescriptor:
    """Shared memory that threads write and a bulk copy takes to global memory."""
    k = KernelBuilder(name, target="sm_90a", threads=_THREADS)
    z = k.tensor("z", "f32", (_THREADS,), align=16, access="write")
    s = k.shared("s", "f32", (_THREADS,))
    k.store(s[k.t], 1.0)
    if fence:
        k.fence("async")
    k.sync()
    with k.when(eq(k.t, 0)):
        k.call("bulk.store", {"dst": z[0], "src": s[0]}, bytes=256)
        k.commit("bulk")
        k.wait("bulk", read=True)
    return k.finish(grid=(1,))


def multiplied(name: str, fence: bool, column: ExprLike = 0) -> KernelDescriptor:
    """One wgmma of two tiles that TMA has brought."""
    k = KernelBuilder(name, target="sm_90a", threads=128)
    swizzle = Swizzle(bits=3, base=3, shift=3)
    tensors = [k.tensor(n, "bf16", (64, 64), align=16) for n in ("A", "B")]
    z = k.tensor("z", "f32", (128, 32), access="write")
    maps = [k.tensormap(f"from_{n}", x, (64, 64), swizzle=128) for n, x in zip("ab", tensors, strict=True)]
    tiles = [k.shared(n, "bf16", (64, 64), layout=swizzle, align=1024) for n in ("a", "b")]
    acc, bar = k.registers("acc", "f32", (32,)), k.barrier("full")
    _started(k, bar)
    with k.when(eq(k.t, 0)):
        k.arrive(bar[0], bytes=2 * 64 * 64 * 2)
        for tile, m in zip(tiles, maps, strict=True):
            k.call("tma.load.2d", {"dst": tile[0, 0], "src": m[0, 0], "bar": bar[0]})
    k.wait_phase(bar[0], 0)
    if fence:
        k.fence("wgmma")
    refs = {"acc": acc[0], "a": tiles[0][0, 0], "b": tiles[1][0, column]}
    k.call("wgmma.m64n64k16.bf16.k.k", refs, scale_d=False)
    k.commit("wgmma")
    k.wait("wgmma")
    with k.loop("i", 0, 32, unroll="full") as i:
        k.store(z[k.t, i.var], acc[i.var])
    return k.finish(grid=(1,))


def peers(name: str, end: Callable[[KernelBuilder, Handle], None]) -> KernelDescriptor:
    """Two blocks of a cluster: one thread of each arrives on the other's mbarrier, and then comes the end."""
    k = KernelBuilder(name, target="sm_90a", threads=_THREADS, cluster=2)
    z, bar = k.tensor("z", "f32", (2, _THREADS), access="write"), k.barrier("met")
    with k.when(eq(k.t, 0)):
        k.call("mbarrier.init", {"bar": bar[0]})
        k.fence("mbarrier_init")
    k.sync("cluster", relaxed=True)
    other: Expr = 1 - k.rank
    with k.when(eq(k.t, 0)):
        k.arrive(bar[0], peer=other)
    end(k, bar)
    k.store(z[k.bx, k.t], 1.0)
    return k.finish(grid=(2,))
