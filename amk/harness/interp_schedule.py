"""Which strand runs next, and when work in flight lands: as late as the kernel allows, or at random with a seed."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np

from amk.dsl.flags import communicates
from amk.harness.interp_cluster import Block, Cluster
from amk.harness.interp_flags import at_once
from amk.harness.interp_program import Program
from amk.harness.interp_strand import Strand

__all__ = ["run_cluster"]


def run_cluster(program: Program, blocks: list[Block], first: int) -> None:
    """Runs the blocks of one cluster to their ends; `first` numbers its first block in the grid.

    Raises Fault for a deadlock (always), and for what the clocks find (with `detect`).
    """
    cluster = Cluster(program, blocks, first)
    strands = [Strand(cluster, rank, (0, cluster.warps)) for rank in range(cluster.size)]
    if communicates(program.kernel) and program.kernel.dispatch == "any":
        strands.reverse()
    schedule = (_Late if cluster.rng is None else _Random)(cluster, strands)
    if communicates(program.kernel):
        schedule.hold_back(at_once(program.kernel.dispatch, cluster.size, cluster.rng))
    with np.errstate(all="ignore"):
        schedule.run()


class _Late:
    """Strands in turn; a copy lands only when no strand can go on, the oldest first."""

    def __init__(self, cluster: Cluster, strands: list[Strand]) -> None:
        self.cluster, self.strands = cluster, strands
        self.later: list[Strand] = []  # blocks that start when another one has ended
        self.left = [cluster.threads] * cluster.size

    def hold_back(self, running: int) -> None:
        """Lets so many blocks run at once."""
        self.later = self.strands[running:]
        self.strands = self.strands[:running]

    def run(self) -> None:
        """Until all are done, or nothing moves."""
        while self.strands:
            if self._round() or self._join():
                continue
            if self.cluster.flights:
                self.cluster.land(self.pick(self.cluster.flights))
                continue
            self._stuck()
            return
        self._finish()

    def pick(self, items: list[Any]) -> Any:
        """The next of several that could be."""
        return items[0]

    def _round(self) -> bool:
        """Runs every strand that can go on; whether one did."""
        moved, left = False, []
        for s in self.strands:
            if s.ready is not None and not s.ready():
                left.append(s)
                continue
            s.advance()
            moved = True
            left += self._after(s)
        self.strands = left
        return moved

    def _after(self, s: Strand) -> list[Strand]:
        """What is left of a strand that has stopped: its parts, itself, or nothing."""
        if s.parts:
            return s.parts
        if not s.done:
            return [s]
        self.cluster.everyone.size -= s.nt  # the cluster's barrier waits for those that have not ended
        if self.cluster.everyone.here:
            self.cluster.everyone.full()
        if self.cluster.clocks is not None:
            self.cluster.clocks.ended(s)
        self.left[s.rank] -= s.nt
        return [self.later.pop(0)] if self.later and not self.left[s.rank] else []

    def _join(self) -> bool:
        """Joins neighbours at the same place, so that warpgroups can go on and fewer strands run."""
        if not self.cluster.moved:
            return False
        self.cluster.moved = False
        self.strands.sort(key=lambda s: (s.rank, s.span))
        out: list[Strand] = []
        for place, group in groupby(self.strands, key=lambda s: s.place()):
            for s in group:
                last = out[-1] if out else None
                if place is not None and last is not None and last.place() == place and last.span[1] == s.span[0]:
                    out[-1] = last.joined(s)
                else:
                    out.append(s)
        joined = len(out) < len(self.strands)
        self.strands = out
        return joined

    def _stuck(self) -> None:
        s = next((s for s in self.strands if s.why), self.strands[0])
        f = s.stack[-1]
        pointer = self.cluster.program.pointers.get(id(f.body[f.at]), "")
        waiting = list(dict.fromkeys(x.why for x in self.strands if x.why))
        said = "; ".join(waiting[:4]) + (f"; and {len(waiting) - 4} more" if len(waiting) > 4 else "")
        self.cluster.fault("deadlock", said or "no thread can go on", pointer, s.rank, s.low)

    def _finish(self) -> None:
        """What is still in flight lands after the end."""
        if self.cluster.clocks is not None:
            self.cluster.clocks.finish()
        for flight in list(self.cluster.flights):
            self.cluster.land(flight)
        for groups in self.cluster.groups.values():
            for g in groups:
                g.finish()


class _Random(_Late):
    """Strands in random order, cut into warps now and then; copies land at random times."""

    def __init__(self, cluster: Cluster, strands: list[Strand]) -> None:
        super().__init__(cluster, strands)
        assert cluster.rng is not None
        self.rng = cluster.rng

    def pick(self, items: list[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def _round(self) -> bool:
        able = [s for s in self.strands if s.ready is None or s.ready()]
        flights = self.cluster.flights
        if flights and self.rng.random() < 0.3:
            self.cluster.land(self.pick(flights))
            return True
        self._early()
        if not able:
            return False
        s = self.pick(able)
        if s.warps > 1 and self.rng.random() < 0.5 and s.stack[-1].at >= 0:
            s.split(np.arange(s.warps) // int(self.rng.integers(1, s.warps + 1)))
        else:
            s.advance()
        self.strands.remove(s)
        self.strands += self._after(s)
        return True

    def _early(self) -> None:
        """Now and then a committed group is over before anyone waits for it."""
        groups = self.cluster.groups
        if groups and self.rng.random() < 0.2:
            found = next((g for g in groups[self.pick(list(groups))] if not g.over), None)
            if found is not None and found.closed:
                found.finish()
