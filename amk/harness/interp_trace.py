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
        who = self.who[at]
        some = np.flatnonzero(who != NONE)
        if not len(some):
            return
        at = at[some]
        clock, proxy, copied, cluster = self.clock[at], self.proxy[at], self.copied[at], self.cluster[at]
        keys = (cluster << 48) ^ (who[some] << 32) ^ (clock << 2) ^ (proxy * 2 + copied)
        first = [0] if (keys == keys[0]).all() else np.unique(keys, return_index=True)[1].tolist()
        for i in first:
            yield int(who[some[i]]), int(clock[i]), bool(proxy[i]), bool(copied[i]), int(cluster[i]), at[i]

    def wrote(self, at: Any, who: Any, clock: Any, cluster: int, *, proxy: bool, copied: bool) -> None:
        """Notes a write."""
        self.who[at], self.clock[at], self.cluster[at] = who, clock, cluster
        self.proxy[at], self.copied[at], self.atomic[at] = proxy, copied, False
        self.readers[at], self.reading[at] = 0, NONE
