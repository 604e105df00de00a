"""Pipelines between warp roles on Hopper.

PhaseRing   slots of shared memory that one role fills and another drains, handed over by two arrays of mbarriers
raster      which tile of the result is the i-th: groups of rows, so that neighbours in time share operands in L2
store_tile  accumulators of warpgroups to global memory: packed, staged in shared memory, stored by TMA warp by warp
"""

from __future__ import annotations

from amk.dsl.builder import Handle, KernelBuilder
from amk.dsl.expr import Expr, apply, eq, minimum, select

__all__ = ["PhaseRing", "raster", "store_tile"]

_STRIP = 64  # columns that one box of a store holds: 128 bytes of 16-bit elements, one swizzled row


class PhaseRing:
    """`slots` slots, each with an mbarrier that says it is full and one that says it is empty.

    The filler waits for `empty` of the slot (first with parity 1: a fresh slot is empty), arrives on `full` with the
    bytes it will copy, and copies. The drainer waits for `full` (first with parity 0), uses the slot, and arrives on
    `empty`.
    Both carry (slot, parity) round their loops and move on by `advance`.
    fills, drains   arrivals that complete a phase of `full` and of `empty`
    """

    def __init__(self, k: KernelBuilder, name: str, *, slots: int, fills: int = 1, drains: int) -> None:
        self.k, self.slots = k, slots
        self.full = k.barrier(f"{name}_full", slots=slots, count=fills)
        self.empty = k.barrier(f"{name}_empty", slots=slots, count=drains)

    def init(self) -> None:
        """Initialises all mbarriers; for one thread, before a barrier that everyone passes."""
        for slot in range(self.slots):
            for bar in (self.full, self.empty):
                self.k.call("mbarrier.init", {"bar": bar[slot]})

    def advance(self, slot: Expr, parity: Expr) -> dict[str, Expr]:
        """What (slot, parity) are one step later."""
        last = eq(slot, self.slots - 1)
        return {"slot": select(last, 0, slot + 1), "parity": select(last, parity ^ 1, parity)}


def raster(k: KernelBuilder, tile: Expr, rows: Expr, cols: Expr, group: int) -> tuple[Expr, Expr]:
    """Row and column of the `tile`-th of rows x cols tiles: down `group` rows, then one column on; a bijection."""
    width = k.let("width", cols * group)
    first, rest = k.let("first", tile // width * group), k.let("rest", tile % width)
    high = k.let("high", minimum(group, rows - first))
    return k.let("tile_row", first + rest % high), k.let("tile_col", rest // high)


def store_tile(
    k: KernelBuilder,
    acc: Handle,
    staging: Handle,
    target: Handle,
    *,
    row: Expr,
    col: Expr,
    columns: int,
    pack: str,
) -> None:
    """The 64 x `columns` accumulators of each warpgroup, packed by `pack`, to `target` at (row, col).

    Shapes:  acc (columns / 2,) f32 a thread, as wgmma leaves it; staging (warps, 2, 16, 64) of 16-bit elements,
             swizzled over 128 bytes; target a tensor map with boxes of (16, 64); `row` is that of the warpgroup's first
    Order:   two strips are on their way at a time; the caller waits for the bulk queue before the block ends
    """
    warp, lane = k.t // 32, k.t % 32
    for strip in range(columns // _STRIP):
        with k.when(eq(lane, 0)):
            k.wait("bulk", pending=1, read=True)
        k.sync("warp")
        for j in range(4):
            e = strip * 32 + j * 8
            packed = {f"v{i}": apply(pack, acc[e + 2 * i], acc[e + 2 * i + 1]) for i in range(4)}
            k.call("stmatrix.x4", {"dst": staging[warp, strip % 2, lane % 16, 16 * j + lane // 16 * 8]}, **packed)
        k.fence("async")
        k.sync("warp")
        with k.when(eq(lane, 0)):
            refs = {"dst": target[row + warp % 4 * 16, col + strip * _STRIP], "src": staging[warp, strip % 2, 0, 0]}
            k.call("tma.store.2d", refs)
            k.commit("bulk")
