"""A strand: neighbouring warps of one block that are at the same place, run in lock step until something holds them.

A strand is a Machine of one block whose place in the program is kept in frames, so that it can stop at a barrier, an
mbarrier or a warpgroup instruction, be split where its warps go different ways, and be joined again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from amk.dsl.nodes import For, If, Let, Load, Statement, Store, Team
from amk.errors import Refused
from amk.harness.interp_cluster import Cluster
from amk.harness.interp_data import Data
from amk.harness.interp_expr import narrow, ndim
from amk.harness.interp_issue import Issue
from amk.harness.interp_machine import Machine
from amk.harness.interp_meet import Meet
from amk.harness.interp_shadow import Lanes
from amk.harness.interp_views import StrandMemory, StrandRegisters

__all__ = ["Frame", "Strand"]

HEAD = -1  # of a loop: its condition comes next


@dataclass
class Frame:
    """A body that is being run: by the lanes of `mask` (None: all), in a loop by those of `live`."""

    body: tuple[Statement, ...]
    mask: Any
    live: Any
    at: int = 0
    loop: For | None = None
    v: Any = 0
    hi: Any = 0
    step: Any = 1


class Strand(Machine):
    """Threads low to low + nt of the block of a rank. `ready` says whether what it waits for has come."""

    memory: StrandMemory
    order: Issue

    def __init__(self, cluster: Cluster, rank: int, warps: tuple[int, int]) -> None:
        self.cluster, self.rank, self.span = cluster, rank, warps
        self.program, self.kernel, self.detect = cluster.program, cluster.kernel, cluster.program.detect
        self.low = 32 * warps[0]
        self.nb, self.nt = 1, min(32 * warps[1], cluster.threads) - self.low
        self.base = rank * cluster.threads + self.low  # of its first thread, in the cluster
        self.blocks = [cluster.blocks[rank]]
        self.linear = np.array([cluster.first + rank], np.int64)
        self.rows, self.cols, self.warps = np.zeros((1, 1), np.int64), np.arange(self.nt), warps[1] - warps[0]
        self.mask, self.current, self.rng = None, None, cluster.rng
        self.views = {}
        self.env = {**self.program.scalars, **dict(zip(("gx", "gy", "gz"), self.program.grid, strict=True))}
        self.env |= dict(zip(("bx", "by", "bz"), self.blocks[0], strict=True))
        self.env |= {"t": (self.cols + self.low)[None], "rank": rank}
        self.registers, self.memory = StrandRegisters(self), StrandMemory(self)
        self.order, self.meet = Issue(self), Meet(self)
        self.stack = [Frame(self.kernel.body, None, None)]
        self.ready: Callable[[], bool] | None = None
        self.why, self.token = "", -1
        self.parts: list[Strand] = []
        data = Data(self)
        self._steps = {
            "let": self._let, "if": self._if, "for": self._for, "assume": self._assume, "load": self._from(data.load),
            "store": self._from(data.store), "atomic": data.atomic, "sync": self.order.sync,
            "commit": self.order.commit, "wait": self.order.wait, "call": self.order.call, "fence": self.order.fence,
            "arrive": self.order.arrive,
        }  # fmt: skip

    def _from(self, run: Callable[[Any], None]) -> Callable[[Any], None]:
        """A load or store, in the block that it names."""

        def move(s: Load | Store) -> None:
            if s.peer is None:
                run(s)
                return
            kept, self.memory.where, self.mask = self.mask, self.value(s.peer), self.active()
            try:
                run(s)
            finally:
                self.mask, self.memory.where = kept, None

        return move

    # -- lanes ------------------------------------------------------------------------------------------------------
    def lanes(self, mask: Any) -> Lanes:
        """The active lanes as a list; `gid` numbers threads of the cluster."""
        t = self.cols if mask is None else np.flatnonzero(np.broadcast_to(mask, (1, self.nt))[0])
        b = np.zeros(len(t), np.int64)
        return Lanes(b, t, t + self.base, b, b, b, b)

    def threads(self) -> Any:
        """The active threads, numbered in the strand."""
        return self.cols if self.mask is None else np.flatnonzero(self.mask[0])

    def each(self, value: Any) -> Any:
        """A value for every lane of the strand."""
        if ndim(value) == 2 and value.shape[1] == self.nt:
            return value[0]
        return np.broadcast_to(value, (1, self.nt))[0]

    def report(self, kind: Any, message: str, row: int, thread: int, values: dict[str, Any]) -> None:
        super().report(kind, message, row, thread + self.low, values)

    def wrong(self, kind: str, message: str, thread: int | None = None) -> None:
        """Raises a fault at the current statement, of a thread of the strand."""
        first = self.threads()
        t = thread if thread is not None else int(first[0]) if len(first) else 0
        self.report(kind, message, 0, t, {})

    def by_warp(self, flags: Any) -> Any:
        """For each warp, whether a flag holds in one of its lanes."""
        return np.logical_or.reduceat(self.each(flags), np.arange(0, self.nt, 32))

    # -- going on ---------------------------------------------------------------------------------------------------
    @property
    def done(self) -> bool:
        """Whether nothing is left to run."""
        return not self.stack

    def advance(self) -> None:
        """Runs until something holds it (`ready`), it is split (`parts`) or it is done."""
        self.ready = None
        while self.stack and not self.parts:
            f = self.stack[-1]
            if f.at == HEAD:
                self._head(f)
                continue
            if f.at == len(f.body):
                self._end(f)
                continue
            s, self.mask = f.body[f.at], f.live
            if not self.program.holds(s):
                self._run(f)
            elif not self._compound(s, f) and not self.meet.pass_by(s):
                return
            self.mask = None

    def _run(self, f: Frame) -> None:
        """The next statement, or with a seed all that hold nobody, by some threads before others."""
        first = f.at
        f.at += 1
        if self.rng is None:
            self.step(f.body[first])
            return
        while f.at < len(f.body) and not self.program.holds(f.body[f.at]):
            f.at += 1
        self.body(f.body[first : f.at])

    def _compound(self, s: Statement, f: Frame) -> bool:
        """Enters a statement with bodies; False for one without."""
        self.current = s
        if isinstance(s, If):
            self._branch(s, f)
        elif isinstance(s, For):
            self._enter(s, f)
        elif isinstance(s, Team):
            self._role(s, f)
        else:
            return False
        return True

    def _branch(self, s: If, f: Frame) -> None:
        cond = self.value(s.cond)
        if ndim(cond) == 0:
            f.at += 1
            if cond:
                self.stack.append(Frame(s.body, f.live, f.live))
            return
        mask = np.broadcast_to(cond, (1, self.nt)) & (True if f.live is None else f.live)
        flags = self.by_warp(mask)
        if flags.any() and not flags.all():
            self.split(flags)
            return
        f.at += 1
        if flags.any():
            mask = None if mask.all() else mask
            self.stack.append(Frame(s.body, mask, mask))

    def _role(self, s: Team, f: Frame) -> None:
        which = np.full(self.warps, -1)
        for i, r in enumerate(s.roles):
            which[max(0, r.warps[0] - self.span[0]) : max(0, r.warps[1] - self.span[0])] = i
        if (which != which[0]).any():
            self.split(which)
            return
        f.at += 1
        if which[0] >= 0:
            self.stack.append(Frame(s.roles[which[0]].body, f.live, f.live))

    def _enter(self, s: For, f: Frame) -> None:
        lo, hi, step = self.value(s.lo), self.value(s.hi), self.value(s.step)
        if np.any(np.asarray(step) < 1):
            raise Refused(f"the step {s.step} of the loop over {s.var} is not positive")
        for c in s.carry:
            self.env[c.name] = narrow(self.value(c.init, c.dtype), c.dtype)
        f.at += 1
        self.stack.append(Frame(s.body, f.live, f.live, HEAD, s, lo, hi, step))

    def _head(self, f: Frame) -> None:
        assert f.loop is not None
        if ndim(f.v) == ndim(f.hi) == 0 and f.loop.until is None:
            if not f.v < f.hi:
                self.stack.pop()
                return
        else:
            live = np.broadcast_to(f.v < f.hi, (1, self.nt)) & (True if f.mask is None else f.mask)
            flags = self.by_warp(live)
            if not flags.any():
                self.stack.pop()
                return
            if not flags.all():
                self.split(flags)
                return
            f.live = None if live.all() else live
        self.env[f.loop.var] = f.v
        f.at = 0

    def _end(self, f: Frame) -> None:
        s = f.loop
        if s is None:
            self.stack.pop()
            return
        self.program.spend(self.nt)
        self.current, self.mask = s, f.live
        uneven = ndim(f.v) or ndim(f.hi) or s.until is not None
        over = None if s.until is None else self.value(s.until)
        for name, value in [(c.name, narrow(self.value(c.next, c.dtype), c.dtype)) for c in s.carry]:
            if uneven and f.live is not None:
                self.set(name, value)
            else:
                self.env[name] = value
        self.mask = None
        if over is not None:
            kept = np.ones((1, self.nt), np.bool_) if f.live is None else f.live
            f.mask = kept & np.logical_not(over)
        f.v, f.at = f.v + f.step, HEAD

    def _let(self, s: Let) -> None:
        # A Let is seen only inside the body it stands in, by the lanes that run that: a number needs no old value kept.
        if s.view is not None:
            found = self.operand(s.view)
            if any(map(ndim, found[1])):
                self._view(s.name, s.view)
            else:
                self.views[s.name] = found
            return
        assert s.value is not None
        value = narrow(self.value(s.value, s.dtype), s.dtype)
        if s.uniform and self.detect:
            self._uniform(s.name, value)
        if ndim(value):
            self.set(s.name, value)
        else:
            self.env[s.name] = value

    # -- splitting and joining --------------------------------------------------------------------------------------
    def split(self, flags: Any) -> None:
        """Cuts the strand wherever the flags of neighbouring warps differ; the parts do the current statement again."""
        cuts = [0, *(i for i in range(1, self.warps) if flags[i] != flags[i - 1]), self.warps]
        self.parts = [self._part(a, b) for a, b in pairwise(cuts)]

    def _part(self, first: int, end: int) -> Strand:
        lo, hi = 32 * first, min(32 * end, self.nt)

        def cut(v: Any) -> Any:
            return v[..., lo:hi] if ndim(v) and v.shape[-1] == self.nt and self.nt > 1 else v

        out = Strand(self.cluster, self.rank, (self.span[0] + first, self.span[0] + end))
        out.env = {n: cut(v) for n, v in self.env.items()} | {"t": out.env["t"]}
        out.views = {n: (b, tuple(map(cut, i))) for n, (b, i) in self.views.items()}
        out.stack = [
            replace(f, mask=cut(f.mask), live=cut(f.live), v=cut(f.v), hi=cut(f.hi), step=cut(f.step))
            for f in self.stack
        ]
        out.token = self.token
        return out

    def place(self) -> tuple[Any, ...] | None:
        """Where it is, comparable between strands; None inside a loop whose lanes differ."""
        if any(ndim(x) for f in self.stack for x in (f.v, f.hi, f.step)):
            return None
        return (self.rank, self.token, *((id(f.body), f.at, f.v, f.hi, f.step) for f in self.stack))

    def joined(self, other: Strand) -> Strand:
        """This strand and the one of the next warps, which is at the same place."""

        def both(a: Any, b: Any) -> Any:
            if a is b or (ndim(a) == ndim(b) == 0 and a == b):
                return a
            if ndim(a) > 2 or ndim(b) > 2:
                return a
            return np.concatenate([np.broadcast_to(a, (1, self.nt)), np.broadcast_to(b, (1, other.nt))], axis=1)

        def masks(a: Any, b: Any) -> Any:
            return None if a is None and b is None else both(True if a is None else a, True if b is None else b)

        out = Strand(self.cluster, self.rank, (self.span[0], other.span[1]))
        out.env = {n: both(v, other.env.get(n, v)) for n, v in {**other.env, **self.env}.items()} | {"t": out.env["t"]}
        for n, (b, i) in self.views.items():
            if n in other.views:
                out.views[n] = (b, tuple(map(both, i, other.views[n][1])))
        out.stack = [
            replace(f, mask=masks(f.mask, g.mask), live=masks(f.live, g.live))
            for f, g in zip(self.stack, other.stack, strict=True)
        ]
        out.token = self.token
        return out
