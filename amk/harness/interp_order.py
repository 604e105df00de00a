"""Barriers, shuffles and asynchronous copies of a machine; copies land as late as the kernel allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from amk.dsl.expr import Const
from amk.dsl.instructions import ROWS
from amk.dsl.instructions.lanes import sources
from amk.dsl.instructions.warp import ALL_LANES, COLLECTIVES, members_of
from amk.dsl.nodes import Call, Commit, Sync, Wait
from amk.dsl.types import nbytes
from amk.errors import Refused

if TYPE_CHECKING:
    from amk.harness.interp_machine import Machine

__all__ = ["Order"]

_TRUE = Const(True)


@dataclass(slots=True)
class Copy:
    """Asynchronous copies that have not landed: values for a place, and each lane's group."""

    place: Any
    values: Any
    group: Any


class Order:
    """Barrier epochs, group counts and copies in flight."""

    def __init__(self, machine: Machine) -> None:
        self.m = machine
        self.block_epoch = np.zeros(machine.nb, np.int64)
        self.warp_epoch = np.zeros((machine.nb, machine.warps), np.int64)
        self.committed = np.zeros((machine.nb, machine.nt), np.int64)
        self.copies: list[Copy] = []

    def finish(self) -> None:
        """Copies in flight at the end are a fault."""
        if self.copies and self.m.detect:
            lanes = self.copies[0].place.lanes
            self.m.fail("async", "the kernel ends with an asynchronous copy in flight", lanes, 0)

    def _whole(self, group: int, what: str) -> Any:
        """Which groups of threads (warps: 32, or the block) are here; some but not all of one is a fault."""
        live = self.m.active()
        n = -(-self.m.nt // group)
        parts = np.zeros((self.m.nb, n, group), np.int64)
        parts.reshape(self.m.nb, -1)[:, : self.m.nt] = live
        here = parts.sum(axis=2)
        size = np.minimum(group, self.m.nt - group * np.arange(n))
        if what == "instruction" and group == 32:
            size = np.full(n, 32)
        bad = (here > 0) & (here < size)
        if self.m.detect and bad.any():
            row, g = np.argwhere(bad)[0]
            missing = np.flatnonzero(parts[row, g] == 0)[0] + g * group
            text = f"{what} of {group} threads is reached by {int(here[row, g])} of them"
            self.m.report("divergence", text, int(row), int(missing), {"reached": int(here[row, g])})
        return here > 0

    def sync(self, s: Sync) -> None:
        """A barrier of the block or of each warp."""
        if s.scope == "block" and not s.relaxed:
            self.block_epoch += self._whole(self.m.nt, "barrier")[:, 0]
        elif s.scope == "warp" and not s.relaxed:
            self.warp_epoch += self._whole(32, "barrier")
        else:
            raise Refused(f"the interpreter does not execute {s.scope} barriers", hint="run this kernel on a GPU")

    def commit(self, s: Commit) -> None:
        """Closes the open group of each active thread."""
        self._queue(s.queue)
        self.committed += self.m.active()

    def wait(self, s: Wait) -> None:
        """Copies of all but the newest `pending` groups of each active thread land."""
        self._queue(s.queue)
        live, left = self.m.active(), []
        for c in self.copies:
            x = c.place.lanes
            done = live[x.b, x.t] & (c.group < self.committed[x.b, x.t] - s.pending)
            left += self._landed(c, done)
        self.copies = left

    def _landed(self, c: Copy, done: Any) -> list[Copy]:
        """Lands a part of a copy; the rest."""
        if done.any():
            self._land(c, done)
        if done.all():
            return []
        return [_some(c, ~done) if done.any() else c]

    def _queue(self, queue: str | None) -> None:
        if queue != "cp_async":
            raise Refused("the interpreter knows waits on cp_async groups only", hint="run this kernel on a GPU")

    def _land(self, c: Copy, done: Any) -> None:
        part = c if done.all() else _some(c, done)
        part.place.put(part.values)
        if self.m.detect:
            x = part.place.lanes
            now = self.m.spread(np.ones(len(x.b), np.bool_), x)
            self.m.memory.shadow(part.place.name).land(part.place.at, self.m.lanes(now).repeat(part.place.width))

    def call(self, s: Call) -> None:
        """One instruction of the table."""
        row = ROWS.get(s.row)
        if row is not None and row.completes == "cp_async":
            self._copy(s)
        elif row is not None and row.name.startswith("shfl."):
            self._shuffle(s)
        elif row is not None and row.name.startswith(COLLECTIVES):
            self._collective(s)
        else:
            raise Refused(f"the interpreter does not execute {s.row!r}", hint="run this kernel on a GPU")

    def _copy(self, s: Call) -> None:
        """Starts an asynchronous copy: the source is read now, the destination changes when it lands."""
        row, src = ROWS[s.row], s.refs["src"]
        width = row.operand("dst").nbytes // nbytes(self.m.declared(src.buffer).dtype)
        when = np.broadcast_to(self.m.value(s.args.get("when", _TRUE)), (self.m.nb, self.m.nt))
        lanes = self.m.lanes(self.m.mask)
        on = self.m.flat(when, lanes)
        to = self.m.memory.place(s.refs["dst"], lanes, width)
        self.m.memory.touch("issue", to)
        values = np.zeros((width, len(lanes.b)), to.array.dtype)
        if on.any():
            values[:, on] = self.m.under(when, lambda m: self.m.memory.load(src, width, lanes.only(on)))
        self.copies.append(Copy(to, row.numpy()(values, on), self.committed[lanes.b, lanes.t].copy()))

    # -- lanes of a warp --------------------------------------------------------------------------------------------
    def _members(self, s: Call) -> int:
        """The lanes that a call names; of each warp exactly these are here, or none."""
        members = members_of(s)
        if members == ALL_LANES:
            self._whole(32, "instruction")
            return members
        live = np.zeros((self.m.nb, self.m.warps, 32), np.bool_)
        live.reshape(self.m.nb, -1)[:, : self.m.nt] = self.m.active()
        wrong = (live != (members >> np.arange(32) & 1 == 1)) & live.any(axis=2, keepdims=True)
        if self.m.detect and wrong.any():
            row, w, lane = map(int, np.argwhere(wrong)[0])
            said = "reaches it and is not named in" if live[row, w, lane] else "is missing of"
            text = f"{s.row} of some lanes: lane {lane} {said} the mask {members:#010x}"
            self.m.report("divergence", text, row, 32 * w + lane, {"reached": int(live[row, w].sum())})
        return members

    def _given(self, s: Call, name: str, dtype: str | None = None) -> Any:
        """An argument for every lane of whole warps, or one for all."""
        value = self.m.value(s.args[name], dtype) if dtype else self.m.value(s.args[name])
        if not np.ndim(value) and dtype is None:
            return value
        pad = ((0, 0), (0, 32 * self.m.warps - self.m.nt))
        return np.pad(np.broadcast_to(value, (self.m.nb, self.m.nt)), pad)

    def _shuffle(self, s: Call) -> None:
        row, members = ROWS[s.row], self._members(s)
        name, index = self.m.operand(s.refs["dst"])
        value, which = self._given(s, "value", self.m.declared(name).dtype), self._given(s, row.args[1].name)
        if self.m.detect and members != ALL_LANES:
            self._there(s, which, members)
        self.m.registers.write(name, index, row.numpy()(value, which)[:, : self.m.nt])

    def _there(self, s: Call, which: Any, members: int) -> None:
        """No lane reads one that takes no part."""
        source = sources(s.row, which, 32 * self.m.warps)[..., : self.m.nt]
        absent = (source >= 0) & (source < 32) & (members >> (source & 31) & 1 == 0) & self.m.active()
        if absent.any():
            b, t = map(int, np.argwhere(absent)[0])
            lane = int(np.broadcast_to(source, absent.shape)[b, t])
            self.m.report("divergence", f"{s.row} reads lane {lane}, which takes no part", b, t, {"lane": lane})

    def _collective(self, s: Call) -> None:
        """A vote, a match or a reduction."""
        row, members = ROWS[s.row], self._members(s)
        name, index = self.m.operand(s.refs["dst"])
        wanted = row.args[0].dtype
        value = self._given(s, "value", self.m.declared(name).dtype if wanted == "same" else wanted)
        self.m.registers.write(name, index, row.numpy()(value, members)[:, : self.m.nt])


def _some(c: Copy, keep: Any) -> Copy:
    """The part of a copy that belongs to some lanes."""
    p = c.place
    key = tuple(k[:, keep] for k in p.key)
    at = p.at.reshape(p.width, -1)[:, keep].reshape(-1)
    return Copy(type(p)(p.name, p.array, key, at, p.width, p.lanes.only(keep)), c.values[:, keep], c.group[keep])
