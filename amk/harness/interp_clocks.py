"""What each thread of a cluster knows of the others: vector clocks, with columns for mbarriers and queues too.

done    what is over and visible to it; fenced: to its asynchronous accesses too; seen: what has happened, at least
A thread's clock moves on when it hands something over. Source: vector clocks (Mattern, 1989).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from amk.harness.interp_cluster import Cluster, Meeting, Slot
from amk.harness.interp_exit import Exit
from amk.harness.interp_files import Files
from amk.harness.interp_touch import Touch

if TYPE_CHECKING:
    from amk.harness.interp_flight import Flight, Group
    from amk.harness.interp_memory import Place
    from amk.harness.interp_strand import Strand

__all__ = ["Clocks"]

Key = tuple[str, int]
KEPT = 8  # rounds of a barrier of which it is remembered what they hand over


class Clocks:
    """Knowledge of all threads of a cluster, [threads, columns], and what is checked with it."""

    def __init__(self, cluster: Cluster) -> None:
        self.c = cluster
        self.n = cluster.threads * cluster.size
        self.columns = self.n + len(cluster.slots)
        self.done, self.fenced, self.seen = (np.zeros((self.n, self.columns + 8), np.int32) for _ in range(3))
        own = np.arange(self.n)
        self.done[own, own] = self.seen[own, own] = 1
        self._flags: dict[tuple[str, int, int], list[Any]] = {}  # what was released with the value of each
        self._queues: dict[Key, int] = {}
        self._gifts: dict[tuple[int, int], list[Any]] = {}  # of a meeting or mbarrier and its turn
        self._passed: dict[tuple[int, int], dict[int, tuple[str, list[tuple[int, int]]]]] = {}  # who saw a phase's end
        self._inits: dict[int, tuple[int, int, bool]] = {}
        self.touched, self.exit, self.files = Touch(self), Exit(self), Files(self)

    # -- columns ----------------------------------------------------------------------------------------------------
    def of_slot(self, slot: Slot) -> int:
        """The column of an mbarrier: how many of its phases are over."""
        return self.n + slot.number

    def of_queue(self, key: Key) -> int:
        """The column of a queue: how many of its groups are over (the next one: how many have been read)."""
        found = self._queues.get(key)
        if found is None:
            found = self._queues[key] = self.columns
            self.columns += 2
            if self.columns > self.done.shape[1]:
                wider = ((0, 0), (0, self.done.shape[1]))
                self.done, self.fenced, self.seen = (np.pad(x, wider) for x in (self.done, self.fenced, self.seen))
        return found

    # -- handing over -----------------------------------------------------------------------------------------------
    def _rows(self, threads: Any) -> list[Any]:
        return [x[threads].max(axis=0) for x in (self.done, self.fenced, self.seen)]

    def _tick(self, threads: Any) -> None:
        self.done[threads, threads] += 1
        self.seen[threads, threads] = self.done[threads, threads]

    def _give(self, key: tuple[int, int], rows: list[Any]) -> None:
        old = self._gifts.get(key)
        if old is not None:
            rows = [np.maximum(_wide(a, self.done), _wide(b, self.done)) for a, b in zip(old, rows, strict=True)]
        self._gifts[key] = rows
        self._gifts.pop((key[0], key[1] - KEPT), None)

    def _take(self, key: tuple[int, int], threads: Any) -> None:
        rows = slice(threads[0], threads[-1] + 1) if len(threads) == threads[-1] - threads[0] + 1 else threads
        for mine, gift in zip((self.done, self.fenced, self.seen), self._gifts.get(key, ()), strict=False):
            if isinstance(rows, slice):
                part = mine[rows, : len(gift)]
                np.maximum(part, gift, out=part)
            else:
                mine[threads, : len(gift)] = np.maximum(mine[threads, : len(gift)], gift)

    def gave(self, meeting: Meeting, m: Strand, memory: bool) -> None:
        """The threads of a strand have come to a barrier."""
        threads = np.arange(m.base, m.base + m.nt)
        done, fenced, seen = self._rows(threads)
        self._give((id(meeting), meeting.turn), [done, fenced, seen] if memory else [done * 0, fenced * 0, seen])
        self._tick(threads)

    def took(self, meeting: Meeting, turn: int, m: Strand) -> None:
        """The threads of a strand go on after a barrier."""
        self._take((id(meeting), turn), np.arange(m.base, m.base + m.nt))

    def in_warps(self, m: Strand) -> None:
        """A barrier of each warp that is there."""
        threads = m.threads() + m.base
        edges = np.flatnonzero(np.r_[True, np.diff((threads - m.base) // 32) != 0])
        counts = np.diff(np.r_[edges, len(threads)])
        for mine in (self.done, self.fenced, self.seen):
            if (counts == 32).all() and len(threads) == threads[-1] - threads[0] + 1:
                warps = mine[threads[0] : threads[-1] + 1].reshape(len(counts), 32, -1)  # a view
                warps[...] = warps.max(axis=1, keepdims=True)
            else:
                mine[threads] = np.repeat(np.maximum.reduceat(mine[threads], edges, axis=0), counts, axis=0)
        self._tick(threads)

    def fence(self, m: Strand, what: str) -> None:
        """What the active threads know becomes visible to asynchronous accesses, or registers to wgmma."""
        threads = m.threads() + m.base
        if what == "async":
            if len(threads) == m.nt:
                rows = slice(m.base, m.base + m.nt)
                np.maximum(self.fenced[rows], self.done[rows], out=self.fenced[rows])
            else:
                self.fenced[threads] = np.maximum(self.fenced[threads], self.done[threads])
            self._tick(threads)
        elif what == "wgmma":
            self.files.fence(m)
        else:
            mine = set(threads.tolist())
            self._inits = {s: (t, n, f or t in mine) for s, (t, n, f) in self._inits.items()}

    # -- flags between blocks ---------------------------------------------------------------------------------------
    def released(self, flag: tuple[str, int, int], g: int, fresh: bool) -> None:
        """A thread sets a flag (`fresh`), or counts on in what others have released with it."""
        rows = [x[g].copy() for x in (self.done, self.fenced, self.seen)]
        old = None if fresh else self._flags.get(flag)
        self._flags[flag] = rows if old is None else [np.maximum(a, b) for a, b in zip(old, rows, strict=True)]
        self._tick(np.array([g]))

    def acquired(self, flag: tuple[str, int, int], g: int) -> None:
        """A thread has read a flag."""
        for mine, row in zip((self.done, self.fenced, self.seen), self._flags.get(flag, ()), strict=False):
            mine[g] = np.maximum(mine[g], _wide(row, mine))

    # -- mbarriers --------------------------------------------------------------------------------------------------
    def initialised(self, m: Strand, slot: Slot, threads: Any) -> None:
        """mbarrier.init by a thread."""
        if slot.ready or len(threads) > 1:
            m.wrong("phase", f"{slot} is initialised more than once", int(threads[0]))
        t = int(threads[0]) + m.base
        self._inits[slot.number] = (t, int(self.done[t, t]), False)

    def used(self, m: Strand, slot: Slot, threads: Any, *, far: bool) -> None:
        """A use of an mbarrier by threads of a strand; `far` by another block or a copy, which needs a fence."""
        by, clock, fenced = self._inits.get(slot.number, (0, 0, False))
        mine = threads + m.base
        early = ((mine != by) & (self.seen[mine, by] < clock)) | (not slot.ready)
        if early.any():
            t = int(threads[int(np.argmax(early))])
            m.wrong("phase", f"{slot} is used by a thread that need not see it initialised", t)
        if far and not fenced:
            text = f"{slot} is used by a copy or another block with no fence after it was initialised"
            m.wrong("phase", text, int(threads[0]))

    def arrived(self, m: Strand, slot: Slot, t: int) -> None:
        """A thread arrives on an mbarrier."""
        me = t + m.base
        self.used(m, slot, np.array([t]), far=slot.rank != m.rank)
        if self.seen[me, self.of_slot(slot)] < slot.phase:
            m.wrong("phase", f"an arrival on {slot} need not come after the end of phase {slot.phase - 1}", t)
        if slot.rank != m.rank:
            self.exit.reach(m, slot.rank, t, me, int(self.done[me, me]))
        self._give((-1 - slot.number, slot.phase), [x[me].copy() for x in (self.done, self.fenced, self.seen)])
        self._tick(np.array([me]))

    def completed(self, slot: Slot) -> None:
        """A phase of an mbarrier has just ended: whoever waits for it learns what those that arrived knew."""
        key, column = (-1 - slot.number, slot.phase - 1), self.of_slot(slot)
        rows = self._gifts.setdefault(key, [np.zeros(self.done.shape[1], np.int32) for _ in range(3)])
        for row in rows:
            row[column] = max(row[column], slot.phase)
        self._left_behind(slot, rows[2])

    def _left_behind(self, slot: Slot, seen: Any) -> None:
        """What ends a phase must come after all warps that waited for the phase before have gone on."""
        for warp, (pointer, mine) in self._passed.pop((slot.number, slot.phase - 2), {}).items():
            if not any(seen[t] >= clock for t, clock in mine):
                text = f"phase {slot.phase - 1} of {slot} may end before a warp has seen the end of the one before"
                rank = warp // self.c.warps
                self.c.fault("phase", text, pointer, rank, mine[0][0] - rank * self.c.threads)

    def saw(self, m: Strand, slot: Slot, threads: Any) -> None:
        """Threads have seen that the last phase of an mbarrier is over."""
        mine = threads + m.base
        self.used(m, slot, threads, far=False)
        late = self.seen[mine, self.of_slot(slot)] < slot.phase - 2
        if late.any():
            t = int(threads[int(np.argmax(late))])
            m.wrong("phase", f"a wait for phase {slot.phase - 1} of {slot} may take another phase for it", t)
        pointer = self.c.program.pointers.get(id(m.current), "")
        passed = self._passed.setdefault((slot.number, slot.phase - 1), {})
        for t in mine.tolist():
            warp = t // self.c.threads * self.c.warps + t % self.c.threads // 32
            passed.setdefault(warp, (pointer, []))[1].append((t, int(self.done[t, t])))
        if slot.phase:
            self._take((-1 - slot.number, slot.phase - 1), mine)

    # -- asynchronous work ------------------------------------------------------------------------------------------
    def loads(self, m: Strand, t: int, flight: Flight, near: Any, far: Any) -> None:
        """A copy that completes on an mbarrier is issued."""
        slot, me = flight.slot, t + m.base
        self.used(m, slot, np.array([t]), far=True)
        column, clock = self.of_slot(slot), slot.phase + 1
        if slot.rank != m.rank:
            self.exit.reach(m, slot.rank, t, column, clock)
        self.touched.source(m, me, far, ((column, clock),))
        self.touched.target(m, me, near.name, near.at, column, clock, flying=True)
        flight.touched.append((near.name, near.at))
        flight.known = self.seen[me].copy()
        self._tick(np.array([me]))

    def landed(self, flight: Flight) -> None:
        """It is there."""
        for name, at in flight.touched:
            self.touched.landed(name, at)
        nothing = np.zeros(len(flight.known), np.int32)  # that it is there says that it was issued, and no more
        self._give((-1 - flight.slot.number, flight.slot.phase), [nothing, nothing, flight.known])

    def stores(self, m: Strand, t: int, key: Key, group: Group, near: Any, far: Any, adds: bool) -> None:
        """A copy out of shared memory is issued."""
        me, column, clock = t + m.base, self.of_queue(key), group.number
        self.touched.source(m, me, near, ((column + 1, clock),))
        if far.p.name not in self.c.program.tensors.counts or self.c.program.detect:
            self.touched.target(m, me, far.p.name, far.elements(), column, clock, flying=False, adds=adds)

    def multiplies(self, m: Strand, t: int, tiles: Any, keyed: Any, parts: Any) -> None:
        """A wgmma of a warpgroup is issued."""
        pairs = tuple(sorted((self.of_queue(key), group.number) for key, group in keyed))
        for name, at in tiles:
            for w in range(4):
                self.touched.read(m, t + 32 * w + m.base, name, at.reshape(-1), pairs if w == 3 else ())
        for key, group in keyed:
            self.files.taken(m, key, group.number, parts)

    def retired(self, m: Strand, key: Key, count: int, read: bool) -> None:
        """The first `count` groups of a queue are over (or read) for those that waited."""
        column = self.of_queue(key)
        threads = np.array([key[1]]) if key[0] == "bulk" else self._warp(key[1])
        for mine in (self.done, self.seen):
            mine[threads, column + 1] = np.maximum(mine[threads, column + 1], count)
            if not read:
                mine[threads, column] = np.maximum(mine[threads, column], count)
        if key[0] == "wgmma":
            self.files.retired(key, count)

    def _warp(self, number: int) -> Any:
        rank, warp = divmod(number, self.c.warps)
        first = rank * self.c.threads + 32 * warp
        return np.arange(first, min(first + 32, (rank + 1) * self.c.threads))

    # -- the rest is told elsewhere -----------------------------------------------------------------------------------
    def touch(self, m: Strand, mode: str, p: Place) -> None:
        """A generic access."""
        self.touched.generic(m, mode, p)

    def ended(self, m: Strand) -> None:
        """A strand is done."""
        self.exit.ended(m)

    def finish(self) -> None:
        """All strands are done."""
        self.exit.finish()


def _wide(row: Any, like: Any) -> Any:
    return row if len(row) == like.shape[1] else np.pad(row, (0, like.shape[1] - len(row)))
