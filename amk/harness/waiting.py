"""Who waits for whom when nothing can go on.

In: the walks that are stuck, each at a wait. Out: the shortest chain of waits that leads back to where it began; or, if
nobody is left who could bring a thing about, the chain that ends there. What a walk could still do is read off the
statements that it would come to: those behind its wait, and those of the loops around it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from amk.dsl.instructions import ROWS
from amk.harness.diagnostics import WaitsFor
from amk.harness.masks import bits

if TYPE_CHECKING:
    from amk.harness.events import Program
    from amk.harness.walk import Walk

__all__ = ["NOBODY", "completes", "cycle_of"]

NOBODY = "nobody who is left"


def cycle_of(p: Program, left: Sequence[Walk]) -> tuple[WaitsFor, ...]:
    """The steps of the deadlock, in order."""
    reach = _Reach(p)
    holders = {i: [j for j, x in enumerate(left) if reach.holds(x, w)] for i, w in enumerate(left)}
    chain = _shortest(holders)
    steps = []
    for n, i in enumerate(chain):
        after = chain[(n + 1) % len(chain)]
        held = _who(left[after]) if after in holders[i] else NOBODY
        steps.append(WaitsFor(_who(left[i]), left[i].blocked, held, left[i].pointer))
    return tuple(steps)


def _shortest(holders: dict[int, list[int]]) -> list[int]:
    """The shortest way from a walk back to itself; else the way from the first to one that nobody holds up."""
    ways = [way for start in holders if (way := _way(holders, start, back=True))]
    return min(ways, key=len) if ways else _way(holders, 0, back=False)


def _way(holders: dict[int, list[int]], start: int, *, back: bool) -> list[int]:
    """Breadth first from a walk: to itself again, or to one without a holder."""
    before: dict[int, int] = {}
    queue = deque([start])
    while queue:
        here = queue.popleft()
        if not back and not holders[here]:
            return _traced(before, start, here)
        for there in holders[here]:
            if back and there == start:
                return _traced(before, start, here)
            if there != start and there not in before:
                before[there] = here
                queue.append(there)
    return [] if back else [start]


def _traced(before: dict[int, int], start: int, end: int) -> list[int]:
    way = [end]
    while way[-1] != start:
        way.append(before[way[-1]])
    return way[::-1]


class _Reach:
    """What each walk could still do."""

    def __init__(self, p: Program) -> None:
        self.p = p
        self.order = [(p.pointers[id(s)], s) for _, s in p.statements]
        self.place = {pointer: i for i, (pointer, _) in enumerate(self.order)}
        self.loops = [pointer for pointer, s in self.order if s.kind == "for"]

    def holds(self, x: Walk, w: Walk) -> bool:
        """Whether `x` could bring about what `w` waits for."""
        waited: Any = self.order[self.place[w.pointer]][1]
        if waited.kind == "sync":
            here: Any = self.order[self.place[x.pointer]][1]
            met = here.kind == "sync" and (here.scope, here.id) == (waited.scope, waited.id)
            return not met and (waited.scope == "cluster" or x.strand.rank == w.strand.rank)
        return any(completes(s, waited.barrier.buffer) for s in self._ahead(x))

    def _ahead(self, x: Walk) -> Iterator[Any]:
        """The statements that a walk would come to, conditions on data aside."""
        around = [loop + "/" for loop in self.loops if x.pointer.startswith(loop + "/")]
        for i, (pointer, s) in enumerate(self.order):
            if (i > self.place[x.pointer] or pointer.startswith(tuple(around))) and self._comes(x, pointer):
                yield s

    def _comes(self, x: Walk, pointer: str) -> bool:
        """Whether some thread of a walk takes the roles and branches around a statement."""
        for outer, s in self.order:
            if not pointer.startswith(outer + "/"):
                continue
            if s.kind == "team":
                first, end = s.roles[int(pointer[len(outer) :].split("/")[2])].warps
                if not x.strand.threads >> 32 * first & (1 << 32 * (end - first)) - 1:
                    return False
            elif s.kind == "if" and not self._chosen(x, s.cond):
                return False
        return True

    def _chosen(self, x: Walk, cond: Any) -> bool:
        try:
            return bool(self.p.chosen(cond, x.strand.threads, x.env))
        except (ValueError, KeyError, ZeroDivisionError, OverflowError):  # of names that have no value yet
            return True


def completes(s: Any, name: str) -> bool:
    """Whether a statement arrives on an mbarrier, or lets a copy complete on it."""
    if s.kind == "arrive":
        return bool(s.barrier.buffer == name)
    roles = [o.role for o in ROWS[s.row].operands if o.space == "barrier"] if s.kind == "call" else []
    return s.kind == "call" and s.row != "mbarrier.init" and any(s.refs[r].buffer == name for r in roles if r in s.refs)


def _who(w: Walk) -> str:
    """Whole warps by their numbers, else the first thread and how many there are."""
    warps = sorted({t // 32 for t in bits(w.waiting)})
    of = f" of block {w.strand.rank}" if w.p.kernel.cluster > 1 else ""
    if w.waiting.bit_count() < 32 * len(warps):
        first, more = next(bits(w.waiting)), w.waiting.bit_count() - 1
        return f"thread {first}" + (f" and {more} more" if more else "") + of
    if len(warps) > 1 and warps[-1] - warps[0] == len(warps) - 1:
        return f"warps {warps[0]} to {warps[-1]}{of}"
    return ("warps " if len(warps) > 1 else "warp ") + ", ".join(map(str, warps)) + of
