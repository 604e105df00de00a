"""Registers and memory of a cluster as one strand sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from amk.harness.interp_memory import Memory, Place
from amk.harness.interp_registers import Registers
from amk.harness.interp_shadow import Lanes

if TYPE_CHECKING:
    from amk.harness.interp_cluster import Cluster
    from amk.harness.interp_strand import Strand

__all__ = ["StrandMemory", "StrandRegisters"]


class StrandMemory(Memory):
    """Memory as one block of a cluster sees it; `where` names another block."""

    def __init__(self, strand: Strand) -> None:
        c = strand.cluster
        self.m = self.strand = strand
        self.tensors, self.extents, self.shadows = c.program.tensors, c.extents, {}
        self.shared = {n: a[strand.rank : strand.rank + 1] for n, a in c.shared.items()}
        self.cluster, self.rank = c, strand.rank
        self.where: Any = None

    def _shared(self, b: Any, ref: Any, parts: list[Any], width: int, lanes: Lanes) -> Place:
        p = super()._shared(b, ref, parts, width, lanes)
        rank = self.rank if self.where is None else self.m.flat(self.where, lanes)
        bad = (np.asarray(rank) < 0) | (np.asarray(rank) >= self.cluster.size)
        if bad.any():
            value = int(np.broadcast_to(rank, len(lanes.b))[int(np.argmax(bad))])
            self.m.fail("bounds", f"{ref}: the cluster has no block of rank {value}", lanes, int(np.argmax(bad)))
        elif self.where is not None and self.cluster.clocks is not None:
            self.cluster.clocks.exit.touches(self.strand, np.asarray(rank), lanes.gid)
        at = p.key[0] + rank * self.extents[b.name]
        return Place(b.name, self.cluster.shared[b.name].reshape(-1), (at,), at.reshape(-1), width, lanes)

    def touch(self, mode: str, p: Place) -> None:
        if self.cluster.clocks is not None and not (self.tensors.hollow and p.name in self.tensors.arrays):
            self.cluster.clocks.touch(self.strand, mode, p)

    def shadow(self, name: str) -> Any:
        return _Landing(self.cluster, name)


class _Landing:
    """Tells the clocks where copies of cp.async have landed."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.name = cluster, name

    def land(self, at: Any, lanes: Lanes) -> None:
        if self.cluster.clocks is not None:
            self.cluster.clocks.touched.land(self.name, at, lanes.gid)


class StrandRegisters(Registers):
    """The registers of some threads, as views of their block's."""

    def __init__(self, strand: Strand) -> None:
        def part(arrays: dict[str, Any]) -> dict[str, Any]:
            return {n: a[..., strand.low : strand.low + strand.nt] for n, a in arrays.items()}

        self.m = strand
        self.arrays = part(strand.cluster.registers[strand.rank])
        self.valid = part(strand.cluster.valid[strand.rank])
        self.strand = strand

    def _key(self, name: str, index: tuple[Any, ...]) -> Any:
        key = super()._key(name, index)
        clocks = self.strand.cluster.clocks
        if clocks is not None:
            clocks.files.touch(self.strand, name, index)
        return key
