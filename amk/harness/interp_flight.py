"""Asynchronous work that has been issued and is not over: copies on mbarriers, and groups of the queues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from amk.harness.interp_cluster import Slot

__all__ = ["Flight", "Group", "Work"]


@dataclass(eq=False)
class Flight:
    """A copy that completes on an mbarrier; `move` takes it from source to destination."""

    slot: Slot
    bytes: int
    move: Callable[[], None]
    pointer: str
    rank: int
    thread: int
    touched: list[Any] = field(default_factory=list)  # what the clocks have to be told when it lands
    known: Any = None  # what its thread had seen


@dataclass(eq=False)
class Work:
    """One operation of a group: `read` takes its sources and returns what then writes the destination."""

    read: Callable[[], Callable[[], None]]
    pointer: str
    write: Callable[[], None] | None = None

    def fetch(self) -> None:
        """Reads the sources, if that has not happened."""
        if self.write is None:
            self.write = self.read()

    def finish(self) -> None:
        """Reads and writes."""
        self.fetch()
        assert self.write is not None
        self.write()


@dataclass(eq=False)
class Group:
    """The operations between two commits of a queue; `fetched` once its sources are read, `over` once all is."""

    number: int  # of its queue, from 1
    closed: bool = False
    fetched: bool = False
    over: bool = False
    work: list[Work] = field(default_factory=list)

    def fetch(self) -> None:
        for w in () if self.fetched else self.work:
            w.fetch()
        self.fetched = True

    def finish(self) -> None:
        for w in () if self.over else self.work:
            w.finish()
        self.fetched = self.over = True
