"""One schedule of all blocks of a cluster: memories, mbarriers, meetings, and strands that take turns.

Each strand runs until it must wait. If none can go on, those that are left wait for ever, unless a strand waits for
only some of its warps: then its warps are walked apart, since the others need not wait (`Split`).
"""

from __future__ import annotations

from amk.harness.events import Env, Program
from amk.harness.faults import Fault, Second
from amk.harness.knowledge import covering, widened
from amk.harness.masks import bits
from amk.harness.memory import Memory, Record
from amk.harness.phases import Meeting, Phases
from amk.harness.strand import Strand
from amk.harness.stretch import Stretches
from amk.harness.waiting import cycle_of
from amk.harness.walk import Walk
from amk.harness.wording import point

__all__ = ["Cluster", "Split", "first_split"]


class Split(Exception):
    """The warps of a block must be walked as more strands than they were."""

    def __init__(self, split: tuple[int, ...], stuck: Fault) -> None:
        super().__init__("the warps must be walked apart")
        self.split, self.stuck = split, stuck


def first_split(p: Program) -> tuple[int, ...]:
    """The warps that every team keeps together, as sets of threads."""
    parts = [p.everyone]
    for _, s in p.statements:
        for role in s.roles if s.kind == "team" else ():
            parts = _cut(parts, role_threads(role.warps))
    return tuple(parts)


def role_threads(warps: tuple[int, int]) -> int:
    """The threads of the warps of a role."""
    return (1 << 32 * warps[1]) - (1 << 32 * warps[0])


def _cut(parts: list[int], threads: int) -> list[int]:
    return [x for part in parts for x in (part & threads, part & ~threads) if x]


class Cluster:
    """The state of one schedule. `faults` come with the rank of the block that shows them."""

    def __init__(self, stretches: Stretches, sizes: Env, split: tuple[int, ...]) -> None:
        self.p, self.stretches, self.split = stretches.p, stretches, split
        self.faults: list[tuple[Fault, int]] = []
        kernel = self.p.kernel
        ranks, keeps = range(kernel.cluster), kernel.cluster > 1 or self.p.asynchronous
        self.memory = [Memory(self.p, r, keeps) for r in ranks]
        self.strands = [Strand(r * len(split) + i, r, part) for r in ranks for i, part in enumerate(split)]
        self.phases: dict[tuple[int, str, int], Phases] = {}
        for r in ranks:
            for b in kernel.barriers:
                for slot in range(b.slots):
                    self.phases[r, b.name, slot] = Phases(len(self.phases), r, b.name, slot, b.count)
        self.meetings: dict[tuple[int, str, int], Meeting] = {}
        self.remote: list[
            tuple[int, Strand, int, Phases | None, str]
        ] = []  # block reached, by whom, when or on what, where
        self.walks = [Walk(self, x, {**sizes, "rank": x.rank}) for x in self.strands]

    def add(self, fault: Fault, rank: int = 0) -> None:
        self.faults.append((fault, rank))

    def meeting(self, rank: int, scope: str, number: int, need: int) -> Meeting:
        """The barrier of a scope: of the block, of a number, or of the cluster."""
        key = (-1 if scope == "cluster" else rank, scope, number)
        found = self.meetings.get(key)
        if found is None:
            what = {"block": "the block barrier", "cluster": "the cluster barrier"}.get(scope, f"barrier {number}")
            found = self.meetings[key] = Meeting(len(self.phases) + len(self.meetings), what, need)
        return found

    # -- the schedule -----------------------------------------------------------------------------------------------
    def go(self) -> None:
        """Runs all strands to their end. Raises Split, or Stop where they cannot go on."""
        waiting = [(w, w.run()) for w in self.walks]
        while waiting:
            left = []
            for w, steps in waiting:
                w.moved = False
                if next(steps, self) is not self:
                    left.append((w, steps))
                else:
                    w.moved = True
            if left and not any(w.moved for w, _ in waiting):
                return self._stuck([w for w, _ in left])
            waiting = left
        self._exits()

    def _stuck(self, left: list[Walk]) -> None:
        first = left[0]
        said = "; ".join(f"{w} waits for {w.blocked}" for w in left)
        done = len(self.walks) - len(left)
        message = f"deadlock: {said}" + (f"; {done} of {len(self.walks)} groups of warps have ended" if done else "")
        at = point(first.env) | {"t": (first.waiting & -first.waiting).bit_length() - 1}
        seconds = tuple(Second(w.pointer, f"{w} waits here for {w.blocked}") for w in left[1:])
        hint = "follow what each waits for: an arrival, or its bytes, is missing or comes after the wait"
        fault = Fault("AMK307", first.pointer, message, at, seconds, hint, cycle=cycle_of(self.p, left))
        for w in left:
            warps = widened(w.waiting) & w.strand.threads
            if warps != w.strand.threads:
                raise Split(tuple(_cut(list(self.split), warps)), fault)
        self.add(fault, first.strand.rank)

    # -- the end ----------------------------------------------------------------------------------------------------
    def _exits(self) -> None:
        """Shared memory of a block is gone once its threads are: one of them must know that peers are done with it."""
        for rank, by, count, phases, pointer in self.remote:
            if not any(self._knows(x, by, count, phases) for x in self.strands if x.rank == rank):
                message = f"block {rank} of the cluster can end before block {by.rank} has reached its shared memory"
                hint = "end with a cluster barrier (relaxed is enough), which keeps every block until all are done"
                at = point(next(w.env for w in self.walks if w.strand is by))
                self.add(Fault("AMK312", pointer, message, at, (), hint), rank)
                return

        for memory in self.memory:
            for r in memory.records:
                if r.bar >= 0 and not self._over(r, memory.rank):
                    part = r.run.parts[0]
                    t = next(bits(part.pattern.threads))
                    message = (
                        f"the block can exit while the copy of thread {t} into {part.text} is in flight: no thread has "
                        f"waited for the mbarrier on which it completes"
                    )
                    at = point(r.env) | {"t": t}
                    hint = "let a thread wait for that phase before the block ends"
                    return self.add(Fault("AMK308", part.pointer, message, at, (), hint), memory.rank)

    def _over(self, r: Record, rank: int) -> bool:
        """Whether some thread of a block knows that a copy into its memory has landed."""
        views = (v for x in self.strands if x.rank == rank for v in (x.common, *x.parts.values()))
        return any(v.past.get(r.bar, 0) > r.phase for v in views)

    @staticmethod
    def _knows(x: Strand, by: Strand, count: int, phases: Phases | None) -> bool:
        for view in (x.common, *x.parts.values()):
            if phases is not None:
                if view.past.get(phases.index, 0) > count:
                    return True
            elif covering(view.seen, by.index, count):
                return True
        return False

    def started(self, rank: int, strand: Strand, active: int) -> bool:
        """Whether the active threads know that a block of the cluster has started."""
        return any(strand.has_seen(active, x.index, 0) for x in self.strands if x.rank == rank)
