"""Races, uninitialised reads, copies touched too early, and proxies: accesses held against the clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from amk.harness.interp_trace import NONE, Pairs, Sets, Trace

if TYPE_CHECKING:
    from amk.harness.interp_clocks import Clocks
    from amk.harness.interp_memory import Place
    from amk.harness.interp_strand import Strand

__all__ = ["Touch"]

GIDS = 1 << 16  # more than a cluster has threads


class Touch:
    """The traces of shared memory of a cluster, and those of tensors, which all clusters share."""

    def __init__(self, clocks: Clocks) -> None:
        self.k = clocks
        c = clocks.c
        self.id, self.tensors = c.first, c.program.tensors
        self.shared = {n: Trace(c.size * size, initialised=False) for n, size in c.extents.items()}
        self.sets = Sets()

    def trace(self, name: str) -> Trace:
        """The trace of a shared array or a tensor."""
        found = self.shared.get(name) or self.tensors.traces.get(name)
        if found is None:
            found = self.tensors.traces[name] = Trace(self.tensors.arrays[name].size, initialised=True)
        return found

    def _skip(self, name: str) -> bool:
        """Tensors that a kernel only reads, or that no memory stands behind."""
        if name in self.shared:
            return False
        p = self.k.c.kernel.declarations[name]
        return self.tensors.hollow or getattr(p, "access", "") == "read"

    # -- generic accesses -------------------------------------------------------------------------------------------
    def generic(self, m: Strand, mode: str, p: Place) -> None:
        """Ordinary loads and stores, and the targets of cp.async (mode "issue")."""
        if self._skip(p.name):
            return
        x, at = self.trace(p.name), p.at
        gid = np.tile(p.lanes.gid, p.width)
        self._flying(m, p.name, x, at, gid)
        if mode in ("read", "atomic"):
            self._initialised(m, p.name, x, at, gid)
        self._after_write(m, p.name, x, at, gid, mode)
        if mode == "read":
            self._reads(x, at, gid)
            return
        self._after_reads(m, p.name, x, at, gid)
        x.wrote(at, gid, self.k.done[gid, gid], self.id, proxy=False, copied=False)
        if mode == "atomic":
            x.atomic[at] = True
        elif (x.who[at] != gid).any():
            self._wrong(m, "race", p.name, at, gid, x.who[at] != gid, "is written by two threads at once")
        x.valid[at], x.flying[at] = mode != "issue", mode == "issue"

    def _wrong(self, m: Strand, kind: str, name: str, at: Any, gid: Any, bad: Any, text: str) -> None:
        i = int(np.argmax(bad))
        element = int(at[i])
        if name in self.k.c.extents:
            element %= self.k.c.extents[name]
        m.report(kind, f"{name}, element {element}, {text}", 0, int(gid[i]) - m.base, {"element": element})

    def _flying(self, m: Strand, name: str, x: Trace, at: Any, gid: Any) -> None:
        bad = x.flying[at]
        if bad.any():
            self._wrong(m, "async", name, at, gid, bad, "is touched while a copy to it is in flight")

    def _initialised(self, m: Strand, name: str, x: Trace, at: Any, gid: Any) -> None:
        bad = ~x.valid[at] & ~x.flying[at]
        if bad.any():
            self._wrong(m, "uninitialised", name, at, gid, bad, "is read before it is written")

    def _after_write(self, m: Strand, name: str, x: Trace, at: Any, gid: Any, mode: str) -> None:
        who = x.who[at]
        column = np.where(who < 0, 0, who)
        known = (x.cluster[at] == self.id) & ((who == gid) | (self.k.done[gid, column] >= x.clock[at]))
        bad = (who != NONE) & ~known
        if mode == "atomic":
            bad &= ~x.atomic[at]
        if bad.any():
            copied = bool(x.copied[at][bad].any())
            text = "by a thread that need not see the copy to it" if copied else "by two threads unordered"
            self._wrong(m, "async" if copied else "race", name, at, gid, bad, f"is touched {text}")

    def _after_reads(self, m: Strand, name: str, x: Trace, at: Any, gid: Any) -> None:
        readers = x.readers[at]
        some = np.flatnonzero(readers)
        if not len(some):
            return
        _, first = np.unique(
            _paired(readers[some], gid[some]) * np.where(x.reading[at][some] == self.id, 1, -1), return_index=True
        )
        for i in some[first].tolist():
            late = self._unknown(int(readers[i]), int(gid[i]), int(x.reading[at[i]]))
            if late is not None:
                kind = "race" if late < self.k.n else "async"
                self._wrong(m, kind, name, at[i : i + 1], gid[i : i + 1], np.ones(1), "is written while it may be read")

    def _unknown(self, number: int, g: int, cluster: int) -> int | None:
        """The column of a read of a set that thread g does not know to be over."""
        if cluster != self.id:
            return 0
        row = self.k.done[g]
        return next((c for c, clock in self.sets.pairs[number] if c != g and row[c] < clock), None)

    def _reads(self, x: Trace, at: Any, gid: Any) -> None:
        left = np.arange(len(at))
        while len(left):  # one reader an element at a time
            _, first = np.unique(at[left], return_index=True)
            now = left[first]
            self._note(x, at[now], gid[now])
            left = np.delete(left, first)

    def _note(self, x: Trace, at: Any, gid: Any) -> None:
        x.readers[at[x.reading[at] != self.id]] = 0
        kinds, which = np.unique(_paired(x.readers[at], gid), return_inverse=True)
        new = []
        for old, g in (divmod(kind, GIDS) for kind in kinds.tolist()):
            new.append(self.sets.merged(old, ((g, int(self.k.done[g, g])),), self.k.done[g]))
        x.readers[at], x.reading[at] = np.array(new)[which.reshape(-1)], self.id

    # -- asynchronous accesses --------------------------------------------------------------------------------------
    def _ordered(self, m: Strand, me: int, name: str, x: Trace, at: Any) -> None:
        """Holds an asynchronous access of thread `me` against the last writes."""
        gid = np.full(len(at), me)
        self._flying(m, name, x, at, gid)
        for who, clock, proxy, copied, cluster, where in x.writes(at):
            one, mine = np.array([where]), gid[:1]
            if cluster != self.id or (who != me and self.k.done[me, who] < clock):
                kind = "async" if copied else "race"
                self._wrong(m, kind, name, one, mine, np.ones(1), "is moved by a copy that need not see the last write")
            elif not proxy and self.k.fenced[me, who] < clock:
                text = "is written by ordinary stores and moved by a copy with no fence between"
                self._wrong(m, "proxy", name, one, mine, np.ones(1), text)

    def source(self, m: Strand, me: int, what: Any, pairs: Pairs) -> None:
        """A copy reads a part of shared memory or of a tensor."""
        if hasattr(what, "p"):
            if not self._skip(what.p.name):
                self.read(m, me, what.p.name, what.elements(), pairs)
        else:
            self.read(m, me, what.name, what.at, pairs)

    def read(self, m: Strand, me: int, name: str, at: Any, pairs: Pairs) -> None:
        """Asynchronous reads that thread `me` starts, over when the clocks of the pairs say so."""
        x = self.trace(name)
        self._ordered(m, me, name, x, at)
        self._initialised(m, name, x, at, np.full(len(at), me))
        if not pairs or not len(at):
            return
        x.readers[at[x.reading[at] != self.id]] = 0
        for old in np.unique(x.readers[at]).tolist():
            x.readers[at[x.readers[at] == old]] = self.sets.merged(old, pairs, self.k.done[me])
        x.reading[at] = self.id

    def target(
        self, m: Strand, me: int, name: str, at: Any, column: int, clock: int, *, flying: bool, adds: bool = False
    ) -> None:
        """An asynchronous write that thread `me` starts, over when the clock of the column says so."""
        if name not in self.shared and self.tensors.hollow:
            return
        x = self.trace(name)
        if not (adds and x.atomic[at].all()):  # reductions do not disturb each other
            self._ordered(m, me, name, x, at)
        self._after_reads(m, name, x, at, np.full(len(at), me))
        x.wrote(at, column, clock, self.id, proxy=True, copied=True)
        x.atomic[at] = adds
        x.valid[at], x.flying[at] = not flying, flying

    def landed(self, name: str, at: Any) -> None:
        """A copy is there."""
        x = self.trace(name)
        x.valid[at], x.flying[at] = True, False

    def land(self, name: str, at: Any, gid: Any) -> None:
        """Copies of cp.async are over for the threads that issued them."""
        x = self.trace(name)
        x.wrote(at, gid, self.k.done[gid, gid], self.id, proxy=False, copied=True)
        x.valid[at], x.flying[at] = True, False


def _paired(numbers: Any, gid: Any) -> Any:
    """One number for a set of reads and a thread."""
    return numbers * GIDS + gid
