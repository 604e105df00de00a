"""Families whose warps have roles: rings of TMA and bulk copies handed over by mbarriers, and named barriers."""

from __future__ import annotations

from random import Random

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import both, cdiv, eq, ne
from amk.dsl.idioms.hopper import PhaseRing
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Swizzle

__all__ = ["bulk_ring", "named_teams", "wgmma_gemm"]

Made = tuple[KernelDescriptor, tuple[dict[str, int], ...]]


def wgmma_gemm(rng: Random) -> Made:
    """C = A B^T in bf16: a thread of one warp fills a ring by TMA, a warpgroup multiplies 64 x 8 tiles of it."""
    slots = rng.choice((2, 3))
    k = KernelBuilder("wgmma_gemm", target="sm_90a", threads=160)
    m, n, kk = k.size("m", max=1 << 18), k.size("n", max=1 << 18), k.size("kk", min=8, max=1 << 18, multiple_of=8)
    a, b = k.tensor("A", "bf16", (m, kk), align=16), k.tensor("B", "bf16", (n, kk), align=16)
    c = k.tensor("C", "f32", (m, n), access="write")
    from_a, from_b = k.tensormap("from_a", a, (64, 16), swizzle=32), k.tensormap("from_b", b, (8, 16), swizzle=32)
    layout = Swizzle(bits=1, base=3, shift=3)
    sa = k.shared("sa", "bf16", (slots, 64, 16), layout=layout, align=256)
    sb = k.shared("sb", "bf16", (slots, 8, 16), layout=layout, align=256)
    ring = PhaseRing(k, "ab", slots=slots, drains=4)
    acc = k.registers("acc", "f32", (4,))
    with k.when(eq(k.t, 0)):
        ring.init()
        k.fence("mbarrier_init")
    k.sync()
    steps = k.let("steps", cdiv(kk, 16))
    with k.loop("z", 0, 4, unroll="full") as z:
        k.store(acc[z.var], 0.0)
    with k.team():
        with k.role(0, 4):
            lane = k.let("lane", k.t % 32)
            with k.loop("step", 0, steps, slot=0, parity=0) as step:
                k.wait_phase(ring.full[step.slot], step.parity)
                k.fence("wgmma")
                refs = {"acc": acc[0], "a": sa[step.slot, 0, 0], "b": sb[step.slot, 0, 0]}
                k.call("wgmma.m64n8k16.bf16.k.k", refs, scale_d=ne(step.var, 0))
                k.commit("wgmma")
                k.wait("wgmma")
                with k.when(eq(lane, 0)):
                    k.arrive(ring.empty[step.slot])
                step.next(**ring.advance(step.slot, step.parity))
            with k.loop("e", 0, 4, unroll="full") as e:
                row = k.let("row", k.by * 64 + k.t // 32 * 16 + lane // 4 + 8 * (e.var // 2))
                col = k.let("col", k.bx * 8 + lane % 4 * 2 + e.var % 2)
                with k.when(both(row < m, col < n)):
                    k.store(c[row, col], acc[e.var])
        with k.role(4, 5), k.when(eq(k.t, 128)), k.loop("fill", 0, steps, slot=0, parity=1) as fill:
            k.wait_phase(ring.empty[fill.slot], fill.parity)
            bar = ring.full[fill.slot]
            k.arrive(bar, bytes=(64 + 8) * 16 * 2)
            for dst, box in ((sa, from_a[k.by * 64, fill.var * 16]), (sb, from_b[k.bx * 8, fill.var * 16])):
                k.call("tma.load.2d", {"dst": dst[fill.slot, 0, 0], "src": box, "bar": bar})
            fill.next(**ring.advance(fill.slot, fill.parity))
    kernel = k.finish(grid=(cdiv(n, 8), cdiv(m, 64)))
    long = 16 * (slots + 2)
    return kernel, ({"m": 70, "n": 9, "kk": long - 8}, {"m": 3, "n": 8, "kk": 16})


def bulk_ring(rng: Random) -> Made:
    """y = 2 x, row by row: bulk loads fill a ring, a warp doubles in place, and bulk stores take the slots away."""
    slots, width = rng.choice((2, 3)), rng.choice((32, 64))
    k = KernelBuilder("bulk_ring", target="sm_90a", threads=64)
    m = k.size("m", min=0, max=1 << 18)
    x = k.tensor("x", "f32", (m, width), align=16)
    y = k.tensor("y", "f32", (m, width), access="write", align=16)
    s, out = (k.shared(name, "f32", (n, width)) for name, n in (("s", slots), ("out", 2)))
    ring, a = PhaseRing(k, "r", slots=slots, drains=1), k.registers("a", "f32", (1,))
    with k.when(eq(k.t, 0)):
        ring.init()
        k.fence("mbarrier_init")
    k.sync()
    with k.team():
        with k.role(0, 1):
            lane = k.let("lane", k.t % 32)
            with k.loop("i", 0, m, slot=0, parity=0, half=0) as i:
                with k.when(eq(lane, 0)):
                    k.wait("bulk", pending=1, read=True)
                k.sync("warp")
                k.wait_phase(ring.full[i.slot], i.parity)
                with k.loop("e", lane, width, 32, unroll="full") as e:
                    k.load(a[0], s[i.slot, e.var])
                    k.store(out[i.half, e.var], a[0] * 2.0)
                k.fence("async")
                k.sync("warp")
                with k.when(eq(lane, 0)):
                    k.arrive(ring.empty[i.slot])
                    k.call("bulk.store", {"dst": y[i.var, 0], "src": out[i.half, 0]}, bytes=4 * width)
                    k.commit("bulk")
                i.next(half=1 - i.half, **ring.advance(i.slot, i.parity))
            with k.when(eq(lane, 0)):
                k.wait("bulk", read=True)
        with k.role(1, 2), k.when(eq(k.t, 32)), k.loop("fill", 0, m, slot=0, parity=1) as fill:
            k.wait_phase(ring.empty[fill.slot], fill.parity)
            k.arrive(ring.full[fill.slot], bytes=4 * width)
            refs = {"dst": s[fill.slot, 0], "src": x[fill.var, 0], "bar": ring.full[fill.slot]}
            k.call("bulk.load", refs, bytes=4 * width)
            fill.next(**ring.advance(fill.slot, fill.parity))
    return k.finish(grid=(1,)), ({"m": slots + 2}, {"m": slots}, {"m": 0})


def named_teams(rng: Random) -> Made:
    """y = x with each tile reversed: one warp loads, another stores, handed over by two named barriers and back."""
    slots = rng.choice((1, 2))
    k = KernelBuilder("named_teams", target="sm_80", threads=64)
    n = k.size("n", min=0, max=1 << 20)
    x, y = k.tensor("x", "f32", (n,)), k.tensor("y", "f32", (n,), access="write")
    s, a = k.shared("s", "f32", (slots, 32)), k.registers("a", "f32", (1,))
    full, empty = 1, 3  # a pair of barriers is one of each for both slots: the warps stay within a step of each other
    with k.team():
        with k.role(0, 1), k.loop("i", 0, cdiv(n, 32)) as i:
            at = i.var * 32 + k.t
            k.load(a[0], x[at], when=at < n, other=0.0)
            k.store(s[i.var % slots, k.t], a[0])
            k.sync("named", id=full, threads=64, part="arrive")
            k.sync("named", id=empty, threads=64)
        with k.role(1, 2), k.loop("j", 0, cdiv(n, 32)) as j:
            k.sync("named", id=full, threads=64)
            k.load(a[0], s[j.var % slots, k.t - 32])
            k.sync("named", id=empty, threads=64, part="arrive")
            with k.when(j.var * 32 + k.t - 32 < n):
                k.store(y[j.var * 32 + k.t - 32], a[0])
    return k.finish(grid=(1,)), ({"n": 32 * 3 + 5}, {"n": 1}, {"n": 0})
