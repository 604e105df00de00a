"""As `broken_kernels`, with what only Hopper has: bulk copies, mbarriers, matrices, the memory of a peer."""

from __future__ import annotations

from broken_kernels import THREADS, Broken

from amk.dsl.builder import Handle, KernelBuilder
from amk.dsl.expr import apply, eq, select
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Swizzle
from amk.ops.wgmma_gemm import WgmmaSchedule, wgmma_gemm

__all__ = ["HOPPER", "spoiled_gemm", "whole_warps"]


class Small(KernelBuilder):
    """A builder with a size n, x[n] to read, z[n] to write, one register; with `ready`, an mbarrier."""

    def __init__(self, cluster: int = 1) -> None:
        super().__init__("broken", target="sm_90a", threads=THREADS, cluster=cluster)
        self.n = self.size("n", max=1 << 20)
        self.x = self.tensor("x", "f32", (self.n,), align=16)
        self.z = self.tensor("z", "f32", (self.n,), access="readwrite", align=16)
        self.r = self.registers("r", "f32", (1,))

    def ready(self) -> Handle:
        bar = self.barrier("bar", count=1)
        with self.when(eq(self.t, 0)):
            self.call("mbarrier.init", {"bar": bar[0]})
            self.fence("mbarrier_init")
        self.sync()
        return bar

    def give(self, value: object) -> KernelDescriptor:
        self.store(self.z[self.t], value)
        return self.finish(grid=(self.cluster,))


def _bulk(slot: str, start: str) -> KernelDescriptor:
    """128 bytes from x into s, for which all wait; then z = s[0]."""
    k = Small()
    s = k.shared("s", "f32", (2, THREADS), align=128)
    k.store(s[0, k.t], -1.0)
    bar = k.ready()
    with k.when(eq(k.t, 0)):
        k.fence("async")
        k.arrive(bar[0], bytes=128)
        k.call("bulk.load", {"dst": s[slot, 0], "src": k.x[start], "bar": bar[0]}, bytes=128)
    k.wait_phase(bar[0], 0)
    k.load(k.r[0], s[0, k.t])
    return k.give(k.r[0])


def bulk_to_past() -> KernelDescriptor:
    """The copy would land in slot 2 of two: it is left out, and the wait for it ends."""
    return _bulk("n//16", "0")


def bulk_from_past() -> KernelDescriptor:
    """The copy starts in x and ends behind it."""
    return _bulk("0", "n//2")


def wait_past() -> KernelDescriptor:
    """A wait for an mbarrier that is not there."""
    k = Small()
    bar = k.ready()
    k.wait_phase(bar[k.n // THREADS], 0)
    return k.give(3.0)


def matrix_from_past() -> KernelDescriptor:
    """Lane 7 of eight names a row behind the last: the first row is read there. Rows hold their numbers."""
    k = Small()
    s, m = k.shared("s", "u32", (8, 4)), k.registers("m", "u32", (1,))
    k.store(s[k.t // 4, k.t % 4], apply("u32", k.t // 4))
    k.sync("warp")
    k.call("ldmatrix.x1", {"dst": m[0], "src": s[k.t + k.t // 7, 0]})
    return k.give(apply("f32", m[0]))


def matrix_to_past() -> KernelDescriptor:
    """The same of a store: no lane stores."""
    k = Small()
    s, m = k.shared("s", "u32", (8, 4)), k.registers("m", "u32", (1,))
    k.store(s[k.t // 4, k.t % 4], apply("u32", 5))
    k.sync("warp")
    k.call("stmatrix.x1", {"dst": s[k.t + k.t // 7, 0]}, v0=apply("u32", k.t))
    k.sync("warp")
    k.load(m[0], s[k.t // 4, k.t % 4])
    return k.give(apply("f32", m[0]))


def of_no_peer() -> KernelDescriptor:
    """The last thread of the first block reads the memory of block 2 of two."""
    k = Small(cluster=2)
    s = k.shared("s", "f32", (THREADS,))
    k.store(s[k.t], apply("f32", k.rank + 1))
    k.sync("cluster")
    with k.when(k.rank < 1):
        k.load(k.r[0], s[k.t], peer=select(k.t < 31, 1 - k.rank, k.n // 16))
        k.store(k.z[k.t], k.r[0])
    k.sync("cluster")
    return k.finish(grid=(2,))


def whole_warps() -> KernelDescriptor:
    """Instructions of a warp and of a warpgroup whose registers and tiles are chosen as it runs (never launched)."""
    k = Small()
    acc, a, b = k.registers("acc", "f32", (2, 4)), k.registers("a", "u32", (2, 4)), k.registers("b", "u32", (4,))
    k.call("mma.m16n8k16.bf16", {"acc": acc[k.t // 17, 0], "a": a[k.n, 0], "b": b[k.t % 3]})
    tiles = k.shared("tiles", "bf16", (2, 64, 64), layout=Swizzle(bits=3, base=3, shift=3), align=1024)
    sums = k.registers("sums", "f32", (2, 32))
    k.fence("wgmma")
    k.call("wgmma.m64n64k16.bf16.k.k", {"acc": sums[k.n, 0], "a": tiles[k.n, 0, 0], "b": tiles[1, 0, 0]})
    k.commit("wgmma")
    k.wait("wgmma")
    return k.give(acc[0, 0])


_SIZES = {"n": THREADS}
HOPPER = {
    "bulk_to_past": Broken(
        bulk_to_past, _SIZES, "bounds", "s[n // 16, 0]: index 0 is 2, outside 0..1", 0, lambda i: -1,
        in_interpreter=False,
    ),
    "bulk_from_past": Broken(
        bulk_from_past, _SIZES, "bounds", "x[n // 2]: byte 128 of x, whose memory ends at byte 128", 0, lambda i: -1,
        in_interpreter=False,
    ),
    "wait_past": Broken(
        wait_past, _SIZES, "bounds", "bar[n // 32]: index 0 is 1, outside 0..0", -1, lambda i: 3, failed=THREADS,
        in_interpreter=False,
    ),
    "matrix_from_past": Broken(
        matrix_from_past, _SIZES, "bounds", "s[t + t // 7, 0]: index 0 is 8, outside 0..7", 7,
        lambda i: i // 4 if i < 28 else 0, in_interpreter=False,
    ),
    "matrix_to_past": Broken(
        matrix_to_past, _SIZES, "bounds", "s[t + t // 7, 0]: index 0 is 8, outside 0..7", 7, lambda i: 5,
        in_interpreter=False,
    ),
    "of_no_peer": Broken(
        of_no_peer, _SIZES, "bounds", "blocks of the cluster: 2, outside 0..1", 31, lambda i: 2 if i < 31 else 0,
        in_interpreter=False,
    ),
}  # fmt: skip


def spoiled_gemm(cluster: int = 1) -> KernelDescriptor:
    """A warp-specialised GEMM whose producer goes on to a slot behind its ring of four: all would wait for ever."""
    text = wgmma_gemm(WgmmaSchedule(cluster=cluster)).to_json()
    assert text.count("slot3 == 3") == 2
    return KernelDescriptor.from_json(text.replace("slot3 == 3", "slot3 == 4"))
