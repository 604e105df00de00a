"""Where a strand may have to stop: mbarriers, barriers of block, cluster and names, warpgroup instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from amk.dsl.nodes import Call, Statement, Sync, Wait
from amk.harness.interp_cluster import Meeting, Slot

if TYPE_CHECKING:
    from amk.harness.interp_strand import Strand

__all__ = ["Meet"]


class Meet:
    """Passing, or waiting at, the statements that hold strands."""

    def __init__(self, strand: Strand) -> None:
        self.s = strand

    def pass_by(self, s: Statement) -> bool:
        """Goes past the statement if it may; else says in `ready` and `why` what is missing."""
        if isinstance(s, Wait):
            return self._phase(s)
        if isinstance(s, Call):
            return self._warpgroup(s)
        assert isinstance(s, Sync)
        if s.scope == "cluster":
            return self._cluster(s)
        return self._named(s) if s.scope == "named" else self._block(s)

    def _next(self) -> bool:
        self.s.stack[-1].at += 1
        self.s.token, self.s.why = -1, ""
        return True

    # -- mbarriers --------------------------------------------------------------------------------------------------
    def _phase(self, s: Wait) -> bool:
        assert s.barrier is not None and s.parity is not None
        m = self.s
        found, parity = m.order.slots(s.barrier), m.each(m.value(s.parity))
        early = np.zeros(m.nt, np.bool_)
        for slot, threads in found:
            early[threads] = slot.phase & 1 == parity[threads]
        flags = ~m.by_warp(early)
        if flags.all():
            m.order.waited(found)
            return self._next()
        if flags.any():
            m.split(flags)
            return False
        wanted = [(slot, int(p)) for slot, threads in found for p in np.unique(parity[threads])]
        (slot, threads), t = found[0], int(found[0][1][0])
        m.why = f"thread {t + m.low} waits for a phase of parity {int(parity[t])} of {slot}, {_lacks(slot)}"
        m.ready = lambda: any(slot.phase & 1 != p for slot, p in wanted)
        return False

    # -- barriers ---------------------------------------------------------------------------------------------------
    def _whole(self, what: str) -> None:
        """All lanes of each warp have to be there."""
        live = self.s.mask
        if live is not None and not live.all():
            missing = int(np.argmin(live[0]))
            self.s.wrong("divergence", f"{what} is reached by some lanes of a warp only", missing)

    def _join(self, meeting: Meeting, memory: bool = True) -> None:
        clocks = self.s.cluster.clocks
        meeting.here += self.s.nt
        if clocks is not None:
            clocks.gave(meeting, self.s, memory)
        self.s.cluster.moved |= meeting.full()

    def _over(self, meeting: Meeting, turn: int, what: str) -> bool:
        if meeting.turn > turn:
            if self.s.cluster.clocks is not None:
                self.s.cluster.clocks.took(meeting, turn, self.s)
            return self._next()
        here, size = meeting.here, meeting.size
        self.s.why = f"thread {self.s.low} waits at {what}, where {here} of {size} threads are"
        self.s.ready = lambda: meeting.turn > turn
        return False

    def _block(self, s: Sync) -> bool:
        meeting = self.s.cluster.in_block[self.s.rank]
        if self.s.token < 0:
            self._whole("a barrier of the block")
            self.s.token = meeting.turn
            self._join(meeting, not s.relaxed)
        return self._over(meeting, self.s.token, "a barrier of the block")

    def _cluster(self, s: Sync) -> bool:
        m, meeting = self.s, self.s.cluster.everyone
        first = m.rank * m.cluster.warps
        mine = m.cluster.met[first + m.span[0] : first + m.span[1]]
        if s.part != "wait" and m.token < 0:
            self._whole("a barrier of the cluster")
            m.token = meeting.turn
            mine[:] = meeting.turn
            self._join(meeting, not s.relaxed)
        if s.part == "arrive":
            return self._next()
        return self._over(meeting, int(mine.max()), "a barrier of the cluster")

    def _named(self, s: Sync) -> bool:
        m = self.s
        meeting = m.cluster.named.setdefault((m.rank, s.id), Meeting(s.threads))
        if m.token < 0:
            self._whole(f"barrier {s.id}")
            if meeting.here and meeting.size != s.threads:
                m.wrong("phase", f"barrier {s.id} takes {meeting.size} threads and {s.threads} at once")
            meeting.size = s.threads
            if meeting.here + m.nt > s.threads and m.warps > 1:
                m.split(np.arange(m.warps))
                return False
            if meeting.here + m.nt > s.threads:
                m.wrong("phase", f"barrier {s.id} of {s.threads} threads is reached by more")
            if not meeting.warps.isdisjoint(range(*m.span)):
                m.wrong("phase", f"barrier {s.id} is reached by a warp twice before all have reached it once")
            m.token = meeting.turn
            meeting.warps.update(range(*m.span))
            self._join(meeting)
        return self._next() if s.part == "arrive" else self._over(meeting, m.token, f"barrier {s.id}")

    # -- warpgroups -------------------------------------------------------------------------------------------------
    def _warpgroup(self, s: Call) -> bool:
        m = self.s
        groups = np.arange(*m.span) // 4
        ragged = m.span[0] % 4 or m.span[1] % 4
        if ragged and groups[0] != groups[-1]:
            m.split(groups)
            return False
        if ragged:
            m.why = f"thread {m.low} waits for its warpgroup at {s.row}"
            m.cluster.moved = True
            m.ready = lambda: False  # until it is joined with the others
            return False
        self._whole(s.row)
        m.step(s)
        return self._next()


def _lacks(slot: Slot) -> str:
    """What the current phase of an mbarrier still lacks, in words."""
    if not slot.ready:
        return "which is not initialised"
    missing: list[Any] = [f"{slot.pending} arrivals"] if slot.pending else []
    missing += [f"{slot.bytes} bytes"] if slot.bytes else []
    return f"whose phase {slot.phase} lacks {' and '.join(missing)}"
