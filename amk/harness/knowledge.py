"""What threads know of what others have done: clocks of strands, and phases of mbarriers that are over.

A *strand* is a set of whole warps of one block that take the same path; its events are counted. An *entry* says that
all events of some threads of a strand up to a count are over, in one of three strengths:
seen    they have happened (a relaxed barrier says as much)
done    and their effects on memory are visible (any other synchronisation)
fenced  and visible to the asynchronous proxy
Source: vector clocks (Mattern, 1989), with a clock for a set of threads as in FastTrack's epochs (Flanagan and Freund,
PLDI 2009); the lemmas are in `docs/soundness.md`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

_Key = TypeVar("_Key")

__all__ = ["Clocks", "Know", "Warps", "covering", "told", "widened"]

Clocks = dict[tuple[int, int], int]  # by strand and threads: the count of events before which all are known


@lru_cache(maxsize=4096)
def widened(threads: int) -> int:
    """The threads of every warp that has one of these."""
    out, warp = 0, 0
    while threads >> warp:
        if threads >> warp & 0xFFFFFFFF:
            out |= 0xFFFFFFFF << warp
        warp += 32
    return out


class Warps:
    """A count for each warp of a strand, kept by count: mostly all warps have the same."""

    __slots__ = ("counts",)

    def __init__(self, threads: int) -> None:
        self.counts = {0: threads}  # with the threads that have it, whole warps

    def put(self, warps: int, count: int) -> None:
        """Gives some warps a count."""
        if warps:
            self.counts = {n: left for n, held in self.counts.items() if (left := held & ~warps)}
            self.counts[count] = self.counts.get(count, 0) | warps

    def lift(self, warps: int, count: int) -> None:
        """Gives those of some warps a count that have a lower one."""
        lower = 0
        for n, held in self.counts.items():
            if n < count:
                lower |= held
        self.put(lower & warps, count)

    def above(self, count: int) -> int:
        """The threads of the warps with a higher count."""
        out = 0
        for n, held in self.counts.items():
            if n > count:
                out |= held
        return out


class Know:
    """What some threads know. Of mbarriers: phases that are over (`past`), and whose copies are visible (`bars`)."""

    __slots__ = ("bars", "done", "fenced", "past", "seen")

    def __init__(self) -> None:
        self.seen: Clocks = {}
        self.done: Clocks = {}
        self.fenced: Clocks = {}
        self.bars: dict[int, int] = {}
        self.past: dict[int, int] = {}

    def join(self, other: Know) -> None:
        """Takes in what others know."""
        if other.seen:
            _join(self.seen, other.seen)
        if other.done:
            _join(self.done, other.done)
        if other.fenced:
            _join(self.fenced, other.fenced)
        if other.bars:
            _join(self.bars, other.bars)
        if other.past:
            _join(self.past, other.past)

    def copy(self) -> Know:
        out = Know()
        out.seen, out.done, out.fenced = dict(self.seen), dict(self.done), dict(self.fenced)
        out.bars, out.past = dict(self.bars), dict(self.past)
        return out

    def happened(self) -> Know:
        """What of it needs no memory to be handed over: that events have happened and phases are over."""
        out = Know()
        out.seen, out.past = dict(self.seen), dict(self.past)
        return out


def _join(mine: dict[_Key, int], other: dict[_Key, int]) -> None:
    if not mine:
        mine.update(other)
        return
    for key, n in other.items():
        if mine.get(key, -1) < n:
            mine[key] = n


def told(clocks: Clocks, strand: int, threads: int, count: int) -> None:
    """Adds that some threads of a strand have come so far, in place of what it implies; nothing if that is implied."""
    implied = []
    for key, n in clocks.items():
        if key[0] == strand:
            if n >= count and not threads & ~key[1]:
                return
            if n <= count and not key[1] & ~threads:
                implied.append(key)
    for key in implied:
        del clocks[key]
    clocks[strand, threads] = count


def covering(clocks: Clocks, strand: int, count: int, together: bool = False) -> int:
    """The threads of a strand whose event number `count` is known.

    `together`: the event was one of whole warps, so knowing one thread's is knowing its warp's.
    """
    out = 0
    for (s, threads), n in clocks.items():
        if s == strand and n > count:
            out |= widened(threads) if together else threads
    return out
