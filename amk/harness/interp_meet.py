"""Where a strand may have to stop: mbarriers, barriers of block, cluster and names, warpgroup instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from amk.dsl.nodes import Call, Statement, Sync, Wait
from amk.harness.interp_cluster import Meeting, Slot
from amk.harness.interp_flags import flag_wait, waiting

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
            return self._phase(s) if s.flag is None else self._flag(s)
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
        for slot, threads in found:
            neither = threads[(parity[threads] & ~1) != 0]
            if len(neither):
                t = int(neither[0])
                m.wrong("phase", f"the parity {int(parity[t])} of a wait on {slot} is neither 0 nor 1", t)
        parity = parity & 1
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

    def _flag(self, s: Wait) -> bool:
        """Past a wait for flags, by the warps whose flags have all come so far."""
        m = self.s
        m.current = s
        late = flag_wait(m, s)
        if late is None:
            return self._next()
        flags = m.by_warp(late)
        if not flags.all():
            m.split(flags)
            return False
        mask = m.mask
        m.why = waiting(m, s)

        def come() -> bool:
            m.mask, kept = mask, m.mask
            try:
                left = flag_wait(m, s)
            finally:
                m.mask = kept
            return left is None or not m.by_warp(left).all()

        m.ready = come
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
        return self._meets(s, meeting, self.s.cluster.threads, "a barrier of the block")

    def _named(self, s: Sync) -> bool:
        c = self.s.cluster
        if s.id == 0:  # the barrier of the block is this one
            return self._meets(s, c.in_block[self.s.rank], s.threads, "barrier 0")
        meeting = c.named.setdefault((self.s.rank, s.id), Meeting(s.threads))
        return self._meets(s, meeting, s.threads, f"barrier {s.id}")

    def _meets(self, s: Sync, meeting: Meeting, threads: int, what: str) -> bool:
        """A barrier of so many threads of a block: there, and for those that do not only arrive, past it."""
        m = self.s
        if m.token < 0:
            self._whole(what)
            if meeting.here and meeting.size != threads:
                m.wrong("phase", f"{what} takes {meeting.size} threads and {threads} at once")
            meeting.size = threads
            if meeting.here + m.nt > threads and m.warps > 1:
                m.split(np.arange(m.warps))
                return False
            if meeting.here + m.nt > threads:
                m.wrong("phase", f"{what} of {threads} threads is reached by more")
            if not meeting.warps.isdisjoint(range(*m.span)):
                m.wrong("phase", f"{what} is reached by a warp twice before all have reached it once")
            m.token = meeting.turn
            meeting.warps.update(range(*m.span))
            self._join(meeting, not s.relaxed)
        return self._next() if s.part == "arrive" else self._over(meeting, m.token, what)

    def _cluster(self, s: Sync) -> bool:
        m, meeting = self.s, self.s.cluster.everyone
        first = m.rank * m.cluster.warps
        mine = slice(first + m.span[0], first + m.span[1])
        turns, came = m.cluster.met[mine], m.cluster.came[mine]
        if s.part != "wait" and m.token < 0:
            self._whole("a barrier of the cluster")
            self._half(came, "arrives at the cluster's barrier again, and has not waited there")
            m.token, turns[:], came[:] = meeting.turn, meeting.turn, True
            self._join(meeting, not s.relaxed)
        if s.part == "arrive":
            return self._next()
        self._half(~came, "waits at the cluster's barrier, and has not arrived there")
        if not self._over(meeting, int(turns.max()), "a barrier of the cluster"):
            return False
        came[:] = False
        return True

    def _half(self, warps: Any, what: str) -> None:
        """Each warp arrives once, then waits once, and so on."""
        if warps.any():
            warp = int(np.argmax(warps))
            self.s.wrong("phase", f"warp {self.s.span[0] + warp} {what}", 32 * warp)

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
