"""Kernels of matrix fragments, peers and bulk copies that the tests of printing and the golden files share."""

from __future__ import annotations

from amk.dsl.builder import Handle, KernelBuilder
from amk.dsl.expr import both, cdiv, eq
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Swizzle

LINES = Swizzle(bits=2, base=3, shift=3)  # rows of 64 bytes


def mma_gemm() -> KernelDescriptor:
    """C = A B in bf16 by mma.sync: 64 x 32 x 32 tiles, four warps, two stages of cp.async, fragments by ldmatrix."""
    k = KernelBuilder("mma_gemm", target="sm_80", threads=128)
    m, n, depth = k.size("m", max=1 << 20), k.size("n", max=1 << 20, multiple_of=8), k.size("depth", multiple_of=8)
    a = k.tensor("a", "bf16", (m, depth), align=16)
    b = k.tensor("b", "bf16", (depth, n), align=16)
    c = k.tensor("c", "f32", (m, n), access="write", align=16)
    sa, sb = (k.shared(x, "bf16", (2, rows, 32), layout=LINES) for x, rows in (("sa", 64), ("sb", 32)))
    fa, fb = k.registers("fa", "u32", (4,)), k.registers("fb", "u32", (2,))
    acc = k.registers("acc", "f32", (4, 4))
    row, lane = k.let("row", k.t // 32 * 16), k.let("lane", k.t % 32)
    with k.loop("i", 0, 4, unroll="full") as i, k.loop("j", 0, 4, unroll="full") as j:
        k.store(acc[i.var, j.var], 0.0)

    def copy(step, slot):  # type: ignore[no-untyped-def]
        for half in range(2):
            y, x = half * 32 + k.t // 4, k.t % 4 * 8
            high, deep = k.by * 64 + y, step * 32 + x
            k.call("cp.async.16", {"dst": sa[slot, y, x], "src": a[high, deep]}, when=both(high < m, deep < depth))
        y, x = k.t // 4, k.t % 4 * 8
        deep, wide = step * 32 + y, k.bx * 32 + x
        k.call("cp.async.16", {"dst": sb[slot, y, x], "src": b[deep, wide]}, when=both(deep < depth, wide < n))
        k.commit()

    steps = k.let("steps", cdiv(depth, 32))
    copy(0, 0)
    with k.loop("step", 0, steps) as step:
        copy(step.var + 1, (step.var + 1) % 2)
        k.wait(pending=1)
        k.sync()
        slot = step.var % 2
        for kk in (0, 16):
            k.call("ldmatrix.x4", {"dst": fa[0], "src": sa[slot, row + lane % 16, kk + lane // 16 * 8]})
            for i in range(4):
                k.call("ldmatrix.x2.trans", {"dst": fb[0], "src": sb[slot, kk + lane % 16, 8 * i]})
                k.call("mma.m16n8k16.bf16", {"acc": acc[i, 0], "a": fa[0], "b": fb[0]})
        k.sync()
    k.wait(pending=0)
    for i in range(4):
        for half in range(2):
            y, x = k.by * 64 + row + lane // 4 + 8 * half, k.bx * 32 + 8 * i + lane % 4 * 2
            with k.when(both(y < m, x < n)):
                k.store(c[y, x], acc[i, 2 * half], acc[i, 2 * half + 1])
    return k.finish(grid=(cdiv(n, 32), cdiv(m, 64)))


def ready(k: KernelBuilder, *bars: Handle) -> None:
    """One thread initialises mbarriers, and every block of the cluster knows."""
    with k.when(eq(k.t, 0)):
        for b in bars:
            k.call("mbarrier.init", {"bar": b[0]})
        k.fence("mbarrier_init")
    k.sync("cluster")


def peers() -> KernelDescriptor:
    """z = 2 x of the other block of the cluster, and sums += z.

    In each block one role hands what a bulk copy brought to the other block's memory, and one sends out what came.
    """
    k = KernelBuilder("peers", target="sm_90a", threads=256, cluster=2)
    x = k.tensor("x", "f32", (2, 512), align=16)
    z, sums = (
        k.tensor("z", "f32", (2, 512), access="write", align=16),
        k.tensor("sums", "f32", (512,), access="add", align=16),
    )
    own, given = k.shared("own", "f32", (512,)), k.shared("given", "f32", (512,))
    full, heard = k.barrier("full"), k.barrier("heard", count=128)
    v = k.registers("v", "f32", (4,))
    ready(k, full, heard)
    with k.when(eq(k.t, 0)):
        k.arrive(full[0], bytes=2048)
        k.call("bulk.load", {"dst": own[0], "src": x[k.bx, 0], "bar": full[0]}, bytes=2048)
    with k.team():
        with k.role(0, 4):
            k.wait_phase(full[0], 0)
            k.load(v[0], own[4 * k.t], width=4)
            k.store(given[4 * k.t], *(v[i] * 2.0 for i in range(4)), peer=1 - k.rank)
            k.arrive(heard[0], peer=1 - k.rank)
            k.sync("named", part="arrive", id=1, threads=256)
        with k.role(4, 8):
            at = k.let("at", 4 * (k.t - 128))
            k.sync("named", id=1, threads=256)
            k.wait_phase(heard[0], 0)
            k.load(v[0], given[at], width=4)
            k.store(own[at], *(v[i] for i in range(4)))
            k.fence("async")
            k.sync("named", id=2, threads=128)
            with k.when(eq(k.t, 128)):
                k.call("bulk.store", {"dst": z[k.bx, 0], "src": own[0]}, bytes=2048)
                k.call("bulk.reduce.add", {"dst": sums[0], "src": own[0]}, bytes=2048)
                k.commit("bulk")
                k.wait("bulk", read=True)
    k.sync("cluster", part="arrive", relaxed=True)
    k.sync("cluster", part="wait")
    return k.finish(grid=(2,))
