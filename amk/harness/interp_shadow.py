"""Shadow memory: who touched each element last, and whether a barrier stands between two accesses.

Two accesses conflict when different threads make them, one of them writes, and neither a block barrier nor (inside one
warp) a warp barrier lies between them. Each element keeps one record for plain writes, one for reads and one for atomic
updates; a record is replaced by a later access that is ordered after it and merged ("many") with one that is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Lanes", "Record", "Shadow"]

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
NONE, MANY = -1, -2


@dataclass(frozen=True, slots=True)
class Lanes:
    """Active lanes of a batch of blocks: row and column in the batch, and identities in the whole grid."""

    b: Ints
    t: Ints
    gid: Ints
    warp: Ints
    block: Ints
    block_epoch: Ints
    warp_epoch: Ints

    def repeat(self, n: int) -> Lanes:
        """Every lane `n` times, the whole list after itself."""
        return self if n == 1 else Lanes(*(np.tile(getattr(self, f), n) for f in self.__slots__))

    def only(self, keep: Bools) -> Lanes:
        """The lanes where `keep` holds."""
        return Lanes(*(getattr(self, f)[keep] for f in self.__slots__))


class Record:
    """The last access of one class (write, read or atomic) of every element."""

    def __init__(self, size: int) -> None:
        self.gid = np.full(size, NONE, np.int64)
        self.warp, self.block = self.gid.copy(), self.gid.copy()
        self.block_epoch, self.warp_epoch = np.zeros(size, np.int64), np.zeros(size, np.int64)

    def _free(self, at: Ints, x: Lanes) -> Bools:
        """Elements whose record is empty, the lane's own, or ordered before the lane's access."""
        own = self.gid[at]
        past_block = (self.block[at] == x.block) & (self.block_epoch[at] < x.block_epoch)
        past_warp = (self.warp[at] == x.warp) & (self.warp_epoch[at] < x.warp_epoch)
        free: Bools = (own == NONE) | (own == x.gid) | past_block | past_warp
        return free

    def conflict(self, at: Ints, x: Lanes) -> Bools:
        """Lanes whose access of `at` is not ordered after the record."""
        bad: Bools = ~self._free(at, x)
        return bad

    def add(self, at: Ints, x: Lanes) -> Bools:
        """Records the accesses; returns the lanes that share their element with another thread of the batch."""
        free = self._free(at, x)
        clash = ~free
        before = at[clash]
        kept = (self.warp[before] == x.warp[clash], self.block[before] == x.block[clash])
        self.gid[at], self.warp[at], self.block[at] = x.gid, x.warp, x.block
        self.block_epoch[at], self.warp_epoch[at] = x.block_epoch, x.warp_epoch
        shared = self.gid[at] != x.gid
        mixed_warp, mixed_block = self.warp[at] != x.warp, self.block[at] != x.block
        self.gid[at[shared]] = self.gid[before] = MANY
        self.warp[at[mixed_warp]] = self.block[at[mixed_block]] = MANY
        self.warp[before[~kept[0]]] = self.block[before[~kept[1]]] = MANY
        clashed: Bools = shared
        return clashed


class Shadow:
    """Records of one array, with the state of asynchronous copies and which elements hold values."""

    def __init__(self, size: int, *, initialised: bool) -> None:
        self.write, self.read, self.atomic = Record(size), Record(size), Record(size)
        self.valid = np.full(size, initialised, np.bool_)
        self.pending = np.full(size, NONE, np.int64)
        self.copied = np.zeros(size, np.bool_)

    def access(self, mode: str, at: Ints, x: Lanes) -> tuple[str, Any] | None:
        """Checks and records one batch of accesses; returns (kind, bad lanes) for the first fault."""
        flying = self.pending[at] != NONE
        if flying.any():
            return "async", flying
        for record in self._opponents(mode):
            bad = record.conflict(at, x)
            if bad.any():
                return ("async" if record is self.write and self.copied[at[bad]].any() else "race"), bad
        together = getattr(self, mode).add(at, x)
        if mode == "write":
            if together.any():
                return "race", together
            self.copied[at] = False
        if mode != "read":
            self.valid[at] = True
        return None

    def _opponents(self, mode: str) -> tuple[Record, ...]:
        if mode == "read":
            return self.write, self.atomic
        return (self.write, self.read, self.atomic) if mode == "write" else (self.write, self.read)

    def issue(self, at: Ints, x: Lanes) -> tuple[str, Any] | None:
        """An asynchronous copy towards `at` starts: a write that has not landed."""
        fault = self.access("write", at, x)
        if fault is None:
            self.pending[at], self.valid[at] = x.gid, False
        return fault

    def land(self, at: Ints, x: Lanes) -> None:
        """The copies towards `at` are complete for their issuing threads."""
        self.write.add(at, x)
        self.pending[at], self.copied[at], self.valid[at] = NONE, True, True
