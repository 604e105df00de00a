"""Who touched each element of an array last, and through which proxy, by columns of vector clocks.

A *column* stands for a thread, an mbarrier, or the groups of a queue; an access is over for those whose clock of its
column has reached the access's. An element keeps its last write, and the set of reads since that no later read knew of.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["Sets", "Trace"]

NONE = -1
Pairs = tuple[tuple[int, int], ...]  # (column, clock)


class Sets:
    """Sets of reads, numbered; 0 is the empty one."""

    def __init__(self) -> None:
        self.pairs: list[Pairs] = [()]
        self._numbers: dict[Pairs, int] = {(): 0}

    def number(self, pairs: Pairs) -> int:
        """The number of a set."""
        found = self._numbers.get(pairs)
        if found is None:
            found = self._numbers[pairs] = len(self.pairs)
            self.pairs.append(pairs)
        return found

    def merged(self, old: int, new: Pairs, knows: Any) -> int:
        """The set with more reads; `knows` (clocks by column) drops those that the new ones come after."""
        fresh = {c for c, _ in new}
        kept = tuple(p for p in self.pairs[old] if p[0] not in fresh and knows[p[0]] < p[1])
        return self.number(tuple(sorted((*kept, *new))))


class Trace:
    """The last accesses of every element of one array; `cluster` tells those of different clusters apart."""

    def __init__(self, size: int, *, initialised: bool) -> None:
        self.who = np.full(size, NONE, np.int64)
        self.clock = np.zeros(size, np.int64)
        self.cluster = np.full(size, NONE, np.int64)
        self.readers = np.zeros(size, np.int64)
        self.reading = np.full(size, NONE, np.int64)  # the cluster of the readers
        self.valid = np.full(size, initialised, np.bool_)
        self.flying, self.copied, self.proxy, self.atomic = (np.zeros(size, np.bool_) for _ in range(4))

    def writes(self, at: Any) -> Iterator[tuple[int, int, bool, bool, int, Any]]:
        """(column, clock, async proxy or not, by a copy or not, cluster, an element) of each last write of elements."""
        if not len(at):
            return
        keys = np.stack([self.who[at], self.clock[at], self.proxy[at], self.copied[at], self.cluster[at]])
        if (keys == keys[:, :1]).all():
            kinds, first = keys[:, :1], np.zeros(1, np.int64)
        else:
            kinds, first = np.unique(keys, axis=1, return_index=True)
        for (who, clock, proxy, copied, cluster), i in zip(kinds.T.tolist(), first.tolist(), strict=True):
            if who != NONE:
                yield who, clock, bool(proxy), bool(copied), cluster, at[i]

    def wrote(self, at: Any, who: Any, clock: Any, cluster: int, *, proxy: bool, copied: bool) -> None:
        """Notes a write."""
        self.who[at], self.clock[at], self.cluster[at] = who, clock, cluster
        self.proxy[at], self.copied[at], self.atomic[at] = proxy, copied, False
        self.readers[at], self.reading[at] = 0, NONE
