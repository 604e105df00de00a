"""The end of blocks: nothing may still use their shared memory, and nobody may reach one that need not be there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from amk.harness.interp_clocks import Clocks
    from amk.harness.interp_strand import Strand

__all__ = ["Exit"]


class Exit:
    """Which threads of each block are left, and what others do to it."""

    def __init__(self, clocks: Clocks) -> None:
        self.k, self.c = clocks, clocks.c
        self.left = [self.c.threads] * self.c.size
        self._reached: list[dict[int, tuple[int, str]]] = [{} for _ in range(self.c.size)]

    def _block(self, rank: int) -> slice:
        return slice(rank * self.c.threads, (rank + 1) * self.c.threads)

    def reach(self, m: Strand, rank: int, t: int, column: int, clock: int) -> None:
        """A thread of a strand reaches another block; this is over when the clock of the column says so."""
        self._there(m, rank, np.array([t + m.base]))
        self._reached[rank][column] = (clock, self.c.program.pointers.get(id(m.current), ""))

    def touches(self, m: Strand, ranks: Any, gid: Any) -> None:
        """Loads and stores of threads (numbered in the cluster) in the memory of blocks."""
        pointer = self.c.program.pointers.get(id(m.current), "")
        for rank in set(np.unique(ranks).tolist()) - {m.rank}:
            mine = gid[np.broadcast_to(ranks, gid.shape) == rank]
            self._there(m, rank, mine)
            clocks = self.k.done[mine, mine].tolist()
            self._reached[rank] |= {g: (n, pointer) for g, n in zip(mine.tolist(), clocks, strict=True)}

    def _there(self, m: Strand, rank: int, gid: Any) -> None:
        """The block must be known to have started, and not be over."""
        if not self.left[rank]:
            m.wrong("exit", f"the block of rank {rank} is reached after its end", int(gid[0]) - m.base)
        unknown = ~self.k.seen[gid, self._block(rank)].any(axis=1)
        if unknown.any():
            t = int(gid[int(np.argmax(unknown))]) - m.base
            m.wrong("exit", f"the block of rank {rank} is reached and need not have started", t)

    def ended(self, m: Strand) -> None:
        """The threads of a strand are done; the last ones of a block end it."""
        self.left[m.rank] -= m.nt
        if self.left[m.rank]:
            return
        known = self.k.seen[self._block(m.rank)].max(axis=0)
        for column, (clock, pointer) in self._reached[m.rank].items():
            if known[column] < clock:
                text = f"the block of rank {m.rank} may end before another block has reached it here"
                self.c.fault("exit", text, pointer, m.rank)
        self._flying(m)

    def _flying(self, m: Strand) -> None:
        """Copies into or out of the block's shared memory have to be over."""
        for flight in self.c.flights:
            if flight.slot.rank == m.rank:
                self.c.fault("exit", "the block ends while this copy is in flight", flight.pointer, m.rank)
        for (queue, number), groups in self.c.groups.items():
            rank = number // (self.c.threads if queue == "bulk" else self.c.warps)
            late = next((g.work[0] for g in groups if g.work and not g.fetched), None)
            if rank == m.rank and late is not None:
                said = "reads shared memory or registers" if queue == "wgmma" else "reads shared memory"
                self.c.fault("exit", f"the block ends while a group of {queue} {said}", late.pointer, m.rank)
        if self.c.copying[m.rank]:
            lane = int(np.min(self.c.copying[m.rank][0].place.lanes.gid)) - m.rank * self.c.threads
            self.c.fault("exit", "the block ends with a cp.async in flight", "", m.rank, lane)

    def finish(self) -> None:
        """All blocks have ended."""
