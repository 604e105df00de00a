"""A family whose blocks work in pairs: shared memory of the peer, cluster barriers, and mbarriers of the peer."""

from __future__ import annotations

from random import Random

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import cdiv, eq
from amk.dsl.kernel import KernelDescriptor

__all__ = ["peer_swap"]

Made = tuple[KernelDescriptor, tuple[dict[str, int], ...]]


def peer_swap(rng: Random) -> Made:
    """y = x with the tiles of each pair of blocks swapped: each block hands its tile to its peer, or fetches it."""
    threads, push, phased = 32 * rng.choice((1, 2)), rng.random() < 0.6, rng.random() < 0.5
    k = KernelBuilder("peer_swap", target="sm_90a", threads=threads, cluster=2)
    n = k.size("n", min=0, max=1 << 20)
    x, y = k.tensor("x", "f32", (n, threads)), k.tensor("y", "f32", (n, threads), access="write")
    s, a = k.shared("s", "f32", (threads,)), k.registers("a", "f32", (1,))
    bars = k.barrier("full", count=threads) if push and phased else None
    if bars is not None:
        with k.when(eq(k.t, 0)):
            k.call("mbarrier.init", {"bar": bars[0]})
            k.fence("mbarrier_init")
    k.load(a[0], x[k.bx, k.t], when=k.bx < n, other=0.0)
    k.sync("cluster")
    k.store(s[k.t], a[0], peer=1 - k.rank if push else None)
    k.sync("cluster")
    if bars is not None:
        k.arrive(bars[0], peer=1 - k.rank)
        k.wait_phase(bars[0], 0)
    k.load(a[0], s[k.t], peer=None if push else 1 - k.rank)
    with k.when(k.bx < n):
        k.store(y[k.bx, k.t], a[0])
    if bars is not None or not push:  # somebody may still reach into this block
        k.sync("cluster", relaxed=True)
    return k.finish(grid=(cdiv(n, 2) * 2,)), ({"n": 5}, {"n": 2}, {"n": 0})
