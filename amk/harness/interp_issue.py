"""What a strand issues without stopping: arrivals, fences, queues, and the instructions of the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from amk.dsl.expr import Elem, Expr
from amk.dsl.instructions import ROWS
from amk.dsl.instructions.warp import COLLECTIVES
from amk.dsl.nodes import Arrive, Call, Commit, Fence, Sync, Wait
from amk.errors import Refused
from amk.harness.interp_cluster import Slot
from amk.harness.interp_copies import Copies
from amk.harness.interp_expr import ndim
from amk.harness.interp_flight import Group, Work
from amk.harness.interp_matrix import Matrix
from amk.harness.interp_order import Order

if TYPE_CHECKING:
    from amk.harness.interp_strand import Strand

__all__ = ["Issue"]

Found = list[tuple[Slot, Any]]
MOST_BYTES = (
    1 << 20
) - 1  # that a phase counts; source: PTX ISA, Parallel Synchronization: size and tx-count of mbarriers


class Issue(Order):
    """The asynchronous side of a strand. Groups are kept by thread (bulk) or by warp (wgmma)."""

    def __init__(self, strand: Strand) -> None:
        self.m: Strand = strand
        c = strand.cluster
        self.committed = c.committed[strand.rank][None, strand.low : strand.low + strand.nt]
        self.pool = c.copying[strand.rank]
        copies, matrix = Copies(strand), Matrix(strand)
        self._families: dict[str, Callable[[Call], None]] = {
            "cp": self._copy, "shfl": self._shuffle, "mbarrier": self._init, "griddepcontrol": _nothing,
            "prefetch": _nothing, "tma": copies.tma, "bulk": copies.bulk, "ldmatrix": matrix.load,
            "stmatrix": matrix.store, "mma": matrix.mma, "wgmma": matrix.wgmma,
            **dict.fromkeys(COLLECTIVES, self._collective),
        }  # fmt: skip

    # -- mbarriers --------------------------------------------------------------------------------------------------
    def slots(self, ref: Elem, peer: Expr | None = None) -> Found:
        """The mbarriers that the active threads name, each with these threads."""
        m = self.m
        name, (index,) = m.operand(ref)
        threads, rank = m.threads(), m.rank if peer is None else m.value(peer)
        if ndim(index) == ndim(rank) == 0:
            return [(self.slot(int(rank), name, int(index)), threads)]
        pairs = np.stack([m.each(rank)[threads], m.each(index)[threads]])
        kinds, which = np.unique(pairs, axis=1, return_inverse=True)
        which = which.reshape(-1)
        return [(self.slot(int(r), name, int(i)), threads[which == n]) for n, (r, i) in enumerate(kinds.T)]

    def slot(self, rank: int, name: str, index: int) -> Slot:
        """One mbarrier of the cluster."""
        found = self.m.cluster.slots.get((rank, name, index))
        if found is None:
            self.m.wrong("bounds", f"{name}[{index}] of the block of rank {rank} does not exist")
            raise Refused(f"{name}[{index}] of rank {rank} is outside of its array")
        return found

    def _init(self, s: Call) -> None:
        for slot, threads in self.slots(s.refs["bar"]):
            if self.m.cluster.clocks is not None:
                self.m.cluster.clocks.initialised(self.m, slot, threads)
            slot.init()

    def arrive(self, s: Arrive) -> None:
        """One arrival a thread, in the order of threads."""
        more = None if s.bytes is None else self.m.each(self.m.value(s.bytes))
        for slot, threads in self.slots(s.barrier, s.peer):
            for t in threads:
                self._arrive(slot, int(t), 0 if more is None else int(more[t]))

    def _arrive(self, slot: Slot, t: int, more: int) -> None:
        clocks = self.m.cluster.clocks
        if not slot.ready:
            self.m.wrong("phase", f"{slot} is used before it is initialised", t)
        if clocks is not None:
            clocks.arrived(self.m, slot, t)
        slot.bytes += more
        if more < 0 or slot.bytes > MOST_BYTES:
            total = min(more, 0) or slot.bytes
            self.m.wrong("phase", f"phase {slot.phase} of {slot} expects {total} bytes, outside 0..{MOST_BYTES}", t)
        slot.pending -= 1
        if slot.pending < 0:
            self.m.wrong("phase", f"phase {slot.phase} of {slot} gets more than {slot.count} arrivals", t)
            slot.pending = 0
        self.m.cluster.settle(slot)

    def waited(self, found: Found) -> None:
        """The active threads have seen the last phase of these mbarriers."""
        if self.m.cluster.clocks is not None:
            for slot, threads in found:
                self.m.cluster.clocks.saw(self.m, slot, threads)

    # -- fences and queues ------------------------------------------------------------------------------------------
    def sync(self, s: Sync) -> None:
        """A barrier of each warp."""
        self._whole(32, "barrier")
        if self.m.cluster.clocks is not None:
            self.m.cluster.clocks.in_warps(self.m)

    def fence(self, s: Fence) -> None:
        """Orders memory: of meaning for what is checked only."""
        if self.m.cluster.clocks is not None:
            self.m.cluster.clocks.fence(self.m, s.what)

    def keys(self, queue: str) -> list[tuple[str, int]]:
        """The queues of the active threads: one a thread, or a warp for wgmma."""
        if queue == "bulk":
            return [(queue, int(t) + self.m.base) for t in self.m.threads()]
        first = self.m.rank * self.m.cluster.warps + self.m.span[0]
        return [(queue, int(w) + first) for w in np.unique(self.m.threads() // 32)]

    def add(self, key: tuple[str, int], work: Work) -> Group:
        """Work of the open group of a queue."""
        group = self._open(key)
        group.work.append(work)
        return group

    def _open(self, key: tuple[str, int]) -> Group:
        """The open group of a queue; the last group stays in the list, and counts them."""
        groups = self.m.cluster.groups.setdefault(key, [])
        if not groups or groups[-1].closed:
            groups.append(Group(groups[-1].number + 1 if groups else 1))
        return groups[-1]

    def commit(self, s: Commit) -> None:
        """Closes the open group of each queue."""
        if s.queue == "cp_async":
            super().commit(s)
            return
        for key in self.keys(s.queue):
            self._open(key).closed = True

    def wait(self, s: Wait) -> None:
        """Finishes (with `read`: fetches the sources of) all but the newest `pending` closed groups of each queue."""
        assert s.queue is not None
        if s.queue == "cp_async":
            self.copies = self.pool
            self._wait_copies(s)
            return
        for key in self.keys(s.queue):
            groups = self.m.cluster.groups.get(key, [])
            last = max((g.number for g in groups if g.closed), default=0) - s.pending
            for g in groups:
                if g.number <= last:
                    g.fetch() if s.read else g.finish()
            while len(groups) > 1 and groups[0].over:
                del groups[0]
            if self.m.cluster.clocks is not None:
                self.m.cluster.clocks.retired(self.m, key, last, s.read)

    # -- cp.async ---------------------------------------------------------------------------------------------------
    def _copy(self, s: Call) -> None:
        self.copies = self.pool
        super()._copy(s)

    def _wait_copies(self, s: Wait) -> None:
        live, left = self.m.active(), []
        for c in self.pool:
            t = c.place.lanes.gid - self.m.base
            mine = (t >= 0) & (t < self.m.nt)
            t = np.where(mine, t, 0)
            done = mine & live[0, t] & (c.group < self.committed[0, t] - s.pending)
            left += self._landed(c, done)
        self.pool[:] = left

    # -- instructions -----------------------------------------------------------------------------------------------
    def call(self, s: Call) -> None:
        """One instruction of the table."""
        family = self._families.get(s.row.split(".")[0]) if s.row in ROWS else None
        if family is None:
            raise Refused(f"the interpreter does not execute {s.row!r}", hint="run this kernel on a GPU")
        family(s)


def _nothing(s: Call) -> None:
    """Changes no value."""
