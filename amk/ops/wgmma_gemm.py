"""C = A B on Hopper's tensor cores, 16-bit elements and f32 sums: warp-specialised, persistent, fed by TMA.

One producer thread fills a ring of slots with tiles of A and B; each math warpgroup multiplies 64 rows of A's tile by
all of B's, with its sums in registers; results go out through shared memory by TMA. In a cluster the blocks stand one
below the other: each loads its own rows of A, and its share of B's columns for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from amk.dsl.builder import Handle, KernelBuilder
from amk.dsl.expr import Const, Expr, cdiv, eq, ne
from amk.dsl.idioms.hopper import PhaseRing, raster, store_tile
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Swizzle

__all__ = ["WgmmaSchedule", "wgmma_gemm"]

_BK = 64  # elements of K in a slot: 128 bytes, one swizzled row
_CHUNK = 64  # columns of B in one box, for the same reason
_SWIZZLE = Swizzle(bits=3, base=3, shift=3)  # 128 bytes of 16-bit elements


@dataclass(frozen=True)
class WgmmaSchedule:
    """How a block works: 64 rows a math warpgroup, `columns` columns (64 times a multiple of `cluster`), `slots` slots.

    `group` counts rows of tiles that the raster goes down before it moves on; registers are a thread's (setmaxnreg).
    """

    warpgroups: int = 2
    columns: int = 256
    slots: int = 4
    cluster: int = 2
    group: int = 8
    producer_registers: int | None = 40
    math_registers: int | None = 232

    @property
    def rows(self) -> int:
        """Rows of a block's tile."""
        return 64 * self.warpgroups


def wgmma_gemm(
    schedule: WgmmaSchedule | None = None, *, dtype: str = "bf16", target: str = "sm_90a"
) -> KernelDescriptor:
    """C[M, N] = A[M, K] B[K, N] for every M, and for N and K that are multiples of 8 (TMA's pitch of 16 bytes)."""
    return _Gemm(schedule or WgmmaSchedule(), dtype, target).build()


class _Gemm:
    def __init__(self, s: WgmmaSchedule, dtype: str, target: str) -> None:
        math = 128 * s.warpgroups
        self.s, self.math, self.dtype = s, math, dtype
        k = self.k = KernelBuilder("gemm", target=target, threads=math + 128, cluster=s.cluster)
        self.m = k.size("M", max=2**20)
        self.n, self.depth = (k.size(x, min=8, max=2**20, multiple_of=8) for x in ("N", "K"))
        self.blocks = k.size("blocks", min=s.cluster, max=2**16, multiple_of=s.cluster)
        tensors = [
            k.tensor("A", dtype, (self.m, self.depth), align=16),
            k.tensor("B", dtype, (self.depth, self.n), align=16),
        ]
        tensors.append(k.tensor("C", dtype, (self.m, self.n), align=16, access="write"))
        boxes = ((s.rows, _BK), (_BK, _CHUNK), (16, _CHUNK))
        self.from_a, self.from_b, self.to_c = (
            k.tensormap(name, tensor, box, swizzle=128)
            for name, tensor, box in zip(("from_a", "from_b", "to_c"), tensors, boxes, strict=True)
        )
        self.a = self._shared("a", (s.slots, s.rows, _BK))
        self.b = self._shared("b", (s.slots, s.columns // _CHUNK, _BK, _CHUNK))
        self.staging = self._shared("c", (math // 32, 2, 16, _CHUNK))
        self.ring = PhaseRing(k, "ab", slots=s.slots, drains=math // 32 * s.cluster)
        self.acc = k.registers("acc", "f32", (s.columns // 2,))
        self.rank: Expr = k.rank if s.cluster > 1 else Const(0)

    def _shared(self, name: str, shape: tuple[int, ...]) -> Handle:
        return self.k.shared(name, self.dtype, shape, layout=_SWIZZLE, align=1024)

    def build(self) -> KernelDescriptor:
        k, s = self.k, self.s
        self.warp, self.lane = k.let("warp", k.t // 32, uniform=True), k.let("lane", k.t % 32)
        with k.when(eq(k.t, 0)):
            for m in (self.from_a, self.from_b, self.to_c):
                k.call("prefetch.tensormap", {"map": m[0, 0]})
            self.ring.init()
            k.fence("mbarrier_init")
        self._join()
        self.high = k.let("high_tiles", cdiv(self.m, s.rows * s.cluster))
        self.wide = k.let("wide_tiles", cdiv(self.n, s.columns))
        self.steps, self.tiles = k.let("steps", cdiv(self.depth, _BK)), k.let("tiles", self.high * self.wide)
        self.first, self.stride = k.let("first_tile", k.bx // s.cluster), k.let("stride", self.blocks // s.cluster)
        with k.team():
            with k.role(0, self.math // 32, registers=s.math_registers):
                self._multiply()
            with k.role(self.math // 32, self.math // 32 + 4, registers=s.producer_registers):
                self._fetch()
        self._join()
        return k.finish(grid=(self.blocks,))

    def _join(self) -> None:
        """Everyone has come here; no memory is handed over (before: the fence did; after: nothing is left to read)."""
        if self.s.cluster > 1:
            self.k.sync("cluster", relaxed=True)
        else:
            self.k.sync()

    def _place(self, tile: Expr) -> tuple[Expr, Expr]:
        """Row and column of C at which this block's part of a tile starts."""
        k, s = self.k, self.s
        row, col = raster(k, tile, self.high, self.wide, s.group)
        return k.let("m0", (row * s.cluster + self.rank) * s.rows), k.let("n0", col * s.columns)

    # -- producer ---------------------------------------------------------------------------------------------------
    def _fetch(self) -> None:
        k, s, ring = self.k, self.s, self.ring
        size = (s.rows + s.columns) * _BK * 2  # bytes of a slot: own rows of A, and all of B, whoever loads it
        with k.when(eq(k.t, self.math)), k.loop("tile", self.first, self.tiles, self.stride, slot=0, parity=1) as tile:
            m0, n0 = self._place(tile.var)
            with k.loop("step", 0, self.steps, slot=tile.slot, parity=tile.parity) as step:
                at = step.var * _BK
                k.wait_phase(ring.empty[step.slot], step.parity)
                k.arrive(ring.full[step.slot], bytes=size)
                bar = ring.full[step.slot]
                k.call("tma.load.2d", {"dst": self.a[step.slot, 0, 0], "src": self.from_a[m0, at], "bar": bar})
                for i in range(s.columns // _CHUNK // s.cluster):
                    j = self.rank * (s.columns // _CHUNK // s.cluster) + i
                    refs = {"dst": self.b[step.slot, j, 0, 0], "src": self.from_b[at, n0 + j * _CHUNK], "bar": bar}
                    if s.cluster > 1:
                        k.call("tma.load.2d.multicast", refs, mask=(1 << s.cluster) - 1)
                    else:
                        k.call("tma.load.2d", refs)
                step.next(**ring.advance(step.slot, step.parity))
            tile.next(slot=step.slot, parity=step.parity)

    # -- math -------------------------------------------------------------------------------------------------------
    def _multiply(self) -> None:
        k, s, ring = self.k, self.s, self.ring
        group = k.let("wg", self.warp // 4)
        with k.loop("tile", self.first, self.tiles, self.stride, slot=0, parity=0) as tile:
            m0, n0 = self._place(tile.var)
            with k.loop("step", 0, self.steps, slot=tile.slot, parity=tile.parity, held=tile.slot) as step:
                k.wait_phase(ring.full[step.slot], step.parity)
                k.fence("wgmma")
                for kk in range(0, _BK, 16):
                    refs = {
                        "acc": self.acc[0],
                        "a": self.a[step.slot, group * 64, kk],
                        "b": self.b[step.slot, 0, kk, 0],
                    }
                    row = f"wgmma.m64n{s.columns}k16.{self.dtype}.k.mn"
                    k.call(row, refs, scale_d=True if kk else ne(step.var, 0))
                k.commit("wgmma")
                with k.when(step.var > 0):
                    k.wait("wgmma", pending=1)
                    self._release(step.held)
                step.next(held=step.slot, **ring.advance(step.slot, step.parity))
            k.wait("wgmma")
            self._release(step.held)
            store_tile(
                k, self.acc, self.staging, self.to_c, row=m0 + group * 64, col=n0, columns=s.columns,
                pack=f"{self.dtype}x2",
            )  # fmt: skip
            tile.next(slot=step.slot, parity=step.parity)
        with k.when(eq(self.lane, 0)):
            k.wait("bulk", read=True)

    def _release(self, slot: Expr) -> None:
        """Each warp tells every block of the cluster that it has read the slot."""
        with self.k.when(self.lane < self.s.cluster):
            if self.s.cluster > 1:
                self.k.arrive(self.ring.empty[slot], peer=self.lane)
            else:
                self.k.arrive(self.ring.empty[slot])
