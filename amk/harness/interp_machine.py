"""The machine: executes statements for all threads of a batch of blocks in lock step, under a mask.

Lock step is one legal schedule. Shadow memory says when another would differ; with a seed, the statements between two
ordering points run for random subsets of the threads, one subset after another, so that results differ as well.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from amk.dsl.expr import Elem, Expr, parse
from amk.dsl.instructions import ROWS
from amk.dsl.kernel import KernelDescriptor, children, walk
from amk.dsl.nodes import (
    Assume,
    Atomic,
    Buffer,
    Call,
    Commit,
    For,
    If,
    Let,
    Load,
    Statement,
    Store,
    Sync,
    Wait,
)  # fmt: skip
from amk.dsl.types import nbytes
from amk.errors import Refused
from amk.harness.interp_expr import Compiler, narrow
from amk.harness.interp_fault import Fault
from amk.harness.interp_memory import GlobalMemory, Memory
from amk.harness.interp_registers import Registers
from amk.harness.interp_shadow import Lanes
from amk.harness.interp_unroll import Unroll

__all__ = ["Machine", "Program"]


@dataclass
class Program:
    """What all batches of one launch share."""

    kernel: KernelDescriptor
    detect: bool
    grid: tuple[int, int, int]
    scalars: dict[str, Any]
    tensors: GlobalMemory
    max_lane_ops: int | None = None
    seed: int | None = None
    watch: frozenset[str] | None = None
    spent: int = 0
    lock: Any = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.compiler = Compiler(self.kernel, self.detect)
        self.pointers = {id(s): p for p, s in walk(self.kernel.body)}
        self.unroll = Unroll(self.compiler, self.detect)
        self._ordering: dict[int, bool] = {}

    def spend(self, lanes: int) -> None:
        """Counts work, and refuses to go beyond the budget."""
        self.spent += lanes
        if self.max_lane_ops is not None and self.spent > self.max_lane_ops:
            raise Refused(
                f"the interpreter stopped after {self.max_lane_ops} lane operations",
                hint="run smaller sizes, fewer blocks, or raise max_lane_ops",
            )

    def orders(self, s: Statement) -> bool:
        """Whether threads may meet inside a statement."""
        known = self._ordering.get(id(s))
        if known is None:
            warp = s.kind == "call" and s.row in ROWS and ROWS[s.row].issuer != "thread"
            known = warp or s.kind == "sync" or any(self.orders(x) for _, body in children(s) for x in body)
            self._ordering[id(s)] = known
        return known


@dataclass(slots=True)
class Copy:
    """Asynchronous copies that have not landed: values for a place, and each lane's group."""

    place: Any
    values: Any
    group: Any


class Machine:
    """State of a batch of blocks (rows) and their threads (columns)."""

    def __init__(self, program: Program, blocks: Any, linear: Any) -> None:
        self.program, self.kernel, self.detect = program, program.kernel, program.detect
        self.nb, self.nt = len(blocks), program.kernel.threads
        self.blocks, self.linear = blocks, linear
        self.rows, self.cols = np.arange(self.nb)[:, None], np.arange(self.nt)
        self.mask: Any = None
        self.current: Statement | None = None
        self.env: dict[str, Any] = self._names()
        self.views: dict[str, tuple[str, tuple[Any, ...]]] = {}
        self.rng = None if program.seed is None else np.random.default_rng((program.seed, int(linear[0])))
        buffers = program.kernel.buffers
        self.registers = Registers(self, [b for b in buffers if b.space == "register"])
        self.memory = Memory(self, [b for b in buffers if b.space == "shared"], program.tensors)
        self.warps = -(-self.nt // 32)
        self.block_epoch = np.zeros(self.nb, np.int64)
        self.warp_epoch = np.zeros((self.nb, self.warps), np.int64)
        self.committed = np.zeros((self.nb, self.nt), np.int64)
        self.copies: list[Copy] = []
        self._steps = {kind: getattr(self, f"_{kind}", None) for kind in _KINDS}

    def _names(self) -> dict[str, Any]:
        env: dict[str, Any] = dict(self.program.scalars)
        env |= dict(zip(("gx", "gy", "gz"), self.program.grid, strict=True))
        axes = zip(("bx", "by", "bz"), np.asarray(self.blocks, np.int64).T, strict=True)
        env |= {name: column[:, None] for name, column in axes}
        return env | {"t": self.cols, "rank": 0}

    # -- values -----------------------------------------------------------------------------------------------------
    def value(self, e: Expr, want: str = "") -> Any:
        """An expression for all lanes."""
        return self.program.compiler.value(e, want)(self)

    def under(self, cond: Any, make: Any) -> Any:
        """A value computed where only the lanes of `cond` are checked."""
        if not self.detect:
            return make(self)
        kept = self.mask
        self.mask = np.broadcast_to(cond, np.broadcast_shapes(np.shape(cond), (self.nb, self.nt))) & (
            True if kept is None else kept
        )
        try:
            return make(self)
        finally:
            self.mask = kept

    def operand(self, ref: Elem) -> tuple[str, tuple[Any, ...]]:
        """Buffer and index values of an operand, views resolved."""
        index = tuple(self.value(i) for i in ref.index)
        base = self.views.get(ref.buffer)
        if base is None:
            return ref.buffer, index
        lead = len(base[1]) - len(index)
        return base[0], (*base[1][:lead], *(b + i for b, i in zip(base[1][lead:], index, strict=True)))

    def lanes(self, mask: Any) -> Lanes:
        """The active lanes as a list."""
        live = np.ones((self.nb, self.nt), np.bool_) if mask is None else np.broadcast_to(mask, (self.nb, self.nt))
        b, t = np.nonzero(live)
        if not self.detect:
            return Lanes(b, t, b, b, b, b, b)
        block, w = self.linear[b], t // 32
        return Lanes(
            b, t, block * self.nt + t, block * self.warps + w, block, self.block_epoch[b], self.warp_epoch[b, w]
        )

    def flat(self, value: Any, lanes: Lanes) -> Any:
        """A value lane by lane."""
        v = np.asarray(value)
        return v if v.ndim == 0 else np.broadcast_to(v, (self.nb, self.nt))[lanes.b, lanes.t]

    def spread(self, flat: Any, lanes: Lanes) -> Any:
        """A list of lane values as an array over all lanes (others hold anything)."""
        out = np.zeros((self.nb, self.nt), flat.dtype)
        out[lanes.b, lanes.t] = flat
        return out

    # -- faults -----------------------------------------------------------------------------------------------------
    def check(self, bad: Any, kind: str, message: str, value: Any = None) -> None:
        """Raises a fault if `bad` holds in an active lane."""
        if not np.any(bad):
            return
        live = np.broadcast_to(bad, np.broadcast_shapes(np.shape(bad), (self.nb, self.nt)))
        live = live if self.mask is None else live & self.mask
        if live.any():
            spot = np.unravel_index(int(np.argmax(live)), live.shape)
            values = {} if value is None else {"value": np.broadcast_to(value, live.shape)[spot].item()}
            self._raise(kind, message, int(spot[-2]), int(spot[-1]), values)

    def fail(self, kind: str, message: str, lanes: Lanes, lane: int, **values: object) -> None:
        """Raises a fault of one lane of a list."""
        lane %= len(lanes.b)
        self._raise(kind, message, int(lanes.b[lane]), int(lanes.t[lane]), values)

    def _raise(self, kind: Any, message: str, row: int, thread: int, values: dict[str, Any]) -> None:
        watch = self.program.watch
        if watch is not None and kind not in watch and kind != "bounds":  # execution cannot go on past the bounds
            return
        x, y, z = (int(v) for v in self.blocks[row])
        pointer = self.program.pointers.get(id(self.current), "")
        raise Fault(kind, message, pointer=pointer, block=(x, y, z), threads=(thread,), values=values)

    # -- control ----------------------------------------------------------------------------------------------------
    def launch(self) -> None:
        """Runs the whole body; copies in flight at the end are a fault."""
        self.body(self.kernel.body)
        if self.copies and self.detect:
            lanes = self.copies[0].place.lanes
            self.fail("async", "the kernel ends with an asynchronous copy in flight", lanes, 0)

    def body(self, body: tuple[Statement, ...]) -> None:
        """Runs statements in order (in random sub-batches of threads between ordering points, with a seed)."""
        if self.rng is None:
            for s in body:
                self.step(s)
            return
        at = 0
        while at < len(body):
            end = at
            while end < len(body) and not self.program.orders(body[end]):
                end += 1
            self._scattered(body[at:end])
            if end < len(body):
                self.step(body[end])
            at = end + 1

    def _scattered(self, part: tuple[Statement, ...]) -> None:
        rng, kept = self.rng, self.mask
        assert rng is not None
        if not part:
            return
        team = rng.integers(0, 3, (self.nb, self.nt if rng.random() < 0.5 else self.warps))
        if team.shape[1] != self.nt:
            team = np.repeat(team, 32, axis=1)[:, : self.nt]
        self.rng = None
        try:
            for which in rng.permutation(3):
                self._masked(team == which if kept is None else kept & (team == which), part)
        finally:
            self.rng, self.mask = rng, kept

    def _masked(self, mask: Any, body: tuple[Statement, ...]) -> None:
        """Runs statements under a mask, unless it is empty."""
        if not mask.any():
            return
        kept, self.mask = self.mask, None if mask.all() else mask
        try:
            self.body(body)
        finally:
            self.mask = kept

    def step(self, s: Statement) -> None:
        """Runs one statement."""
        self.current = s
        run = self._steps.get(s.kind)
        if run is None:
            raise Refused(f"the interpreter does not execute {s.kind!r} statements", hint="run this kernel on a GPU")
        self.program.spend(self.nb * self.nt)
        run(s)

    def set(self, name: str, value: Any) -> None:
        """A variable := value in the active lanes."""
        old = self.env.get(name)
        if self.mask is not None and old is not None:
            value = np.where(self.mask, value, old)
        self.env[name] = value

    def _let(self, s: Let) -> None:
        if s.view is not None:
            self._view(s.name, s.view)
            return
        value = narrow(self.value(_given(s.value), s.dtype), s.dtype)
        if s.uniform and self.detect:
            self._uniform(s.name, value)
        self.set(s.name, value)

    def _view(self, name: str, view: Elem) -> None:
        buffer, index = self.operand(view)
        old = self.views.get(name)
        if self.mask is not None and old is not None and len(old[1]) == len(index):
            index = tuple(np.where(self.mask, i, o) for i, o in zip(index, old[1], strict=True))
        self.views[name] = (buffer, index)

    def _uniform(self, name: str, value: Any) -> None:
        full = np.broadcast_to(value, (self.nb, self.nt))
        live = np.ones_like(full, np.bool_) if self.mask is None else self.mask
        for w in range(self.warps):
            part, on = full[:, 32 * w : 32 * w + 32], live[:, 32 * w : 32 * w + 32]
            first = np.take_along_axis(part, on.argmax(axis=1)[:, None], axis=1)
            bad = np.zeros(full.shape, np.bool_)
            bad[:, 32 * w : 32 * w + 32] = on & (part != first)
            self.check(bad, "divergence", f"{name} is declared uniform and differs inside a warp")

    def _if(self, s: If) -> None:
        cond = self.value(s.cond)
        if np.ndim(cond) == 0:
            if cond:
                self.body(s.body)
            return
        mask = np.broadcast_to(cond, (self.nb, self.nt))
        self._masked(mask if self.mask is None else mask & self.mask, s.body)

    def _for(self, s: For) -> None:
        if s.until is not None:
            raise Refused("the interpreter does not execute early exits of loops", hint="run this kernel on a GPU")
        if self.program.unroll.wide(self, s):
            return
        lo, hi, step = self.value(s.lo), self.value(s.hi), self.value(s.step)
        for c in s.carry:
            self.set(c.name, narrow(self.value(c.init, c.dtype), c.dtype))
        if np.ndim(lo) == np.ndim(hi) == np.ndim(step) == 0:
            for v in range(int(lo), int(hi), int(step)):
                self._turn(s, v)
        else:
            self._ragged(s, lo, hi, step)

    def _turn(self, s: For, v: Any) -> None:
        self.env[s.var] = v
        self.body(s.body)
        self.current = s
        for name, value in [(c.name, narrow(self.value(c.next, c.dtype), c.dtype)) for c in s.carry]:
            self.set(name, value)

    def _ragged(self, s: For, lo: Any, hi: Any, step: Any) -> None:
        """A loop whose trip count differs between lanes."""
        kept = self.mask
        v = np.broadcast_to(lo, (self.nb, self.nt))
        live = (v < hi) if kept is None else (v < hi) & kept
        try:
            while live.any():
                self.mask = None if live.all() else live
                self._turn(s, v)
                v = v + step
                live = live & (v < hi)
        finally:
            self.mask = kept

    def _assume(self, s: Assume) -> None:
        self.check(np.logical_not(self.value(s.fact)), "assume", f"the assumption {s.fact} does not hold")

    # -- data -------------------------------------------------------------------------------------------------------
    def _load(self, s: Load) -> None:
        if self.mask is None and s.when is None and not self.detect:
            name, index = self.operand(s.dst)
            got = self.memory.load_dense(s.src, s.width)
            for e in range(s.width):
                self.registers.write(name, (*index[:-1], index[-1] + e), got[e])
            return
        kept = self.mask
        on = self.active() if s.when is None else self.active() & self.value(s.when)
        off = self.active() & ~on
        try:
            self._load_lanes(s, on)
            if s.other is not None and off.any():
                self.mask = off
                self._fill(s)
        finally:
            self.mask = kept

    def _load_lanes(self, s: Load, on: Any) -> None:
        if not on.any():
            return
        self.mask = on
        lanes = self.lanes(on)
        got = self.memory.load(s.src, s.width, lanes)
        name, index = self.operand(s.dst)
        for e in range(s.width):
            self.registers.write(name, (*index[:-1], index[-1] + e), self.spread(got[e], lanes))

    def _fill(self, s: Load) -> None:
        name, index = self.operand(s.dst)
        value = self.value(_given(s.other), self.kernel.declarations[name].dtype)  # type: ignore[union-attr]
        for e in range(s.width):
            self.registers.write(name, (*index[:-1], index[-1] + e), value)

    def active(self) -> Any:
        """The mask as an array."""
        return np.ones((self.nb, self.nt), np.bool_) if self.mask is None else self.mask

    def _store(self, s: Store) -> None:
        d = self.kernel.find(s.dst.buffer)
        values = [np.asarray(self.value(v, d.dtype)) for v in s.values]  # type: ignore[union-attr]
        if isinstance(d, Buffer) and d.space == "register":
            name, index = self.operand(s.dst)
            for e, v in enumerate(values):
                self.registers.write(name, (*index[:-1], index[-1] + e), v)
        else:
            self.memory.store(s.dst, values, self.lanes(self.mask))

    def _atomic(self, s: Atomic) -> None:
        d = self.kernel.find(s.dst.buffer)
        value = self.value(s.value, d.dtype)  # type: ignore[union-attr]
        self.memory.atomic(s.op, s.dst, value, self.lanes(self.mask))

    # -- order ------------------------------------------------------------------------------------------------------
    def _whole(self, group: int, what: str) -> Any:
        """Which groups of threads (warps: 32, or the block) are here; some but not all of one is a fault."""
        live = self.active()
        n = -(-self.nt // group)
        parts = np.zeros((self.nb, n, group), np.int64)
        parts.reshape(self.nb, -1)[:, : self.nt] = live
        here = parts.sum(axis=2)
        size = np.minimum(group, self.nt - group * np.arange(n))
        if what == "instruction" and group == 32:
            size = np.full(n, 32)
        bad = (here > 0) & (here < size)
        if self.detect and bad.any():
            row, g = np.argwhere(bad)[0]
            missing = np.flatnonzero(parts[row, g] == 0)[0] + g * group
            text = f"{what} of {group} threads is reached by {int(here[row, g])} of them"
            self._raise("divergence", text, int(row), int(missing), {"reached": int(here[row, g])})
        return here > 0

    def _sync(self, s: Sync) -> None:
        if s.scope == "block" and not s.relaxed:
            self.block_epoch += self._whole(self.nt, "barrier")[:, 0]
        elif s.scope == "warp" and not s.relaxed:
            self.warp_epoch += self._whole(32, "barrier")
        else:
            raise Refused(f"the interpreter does not execute {s.scope} barriers", hint="run this kernel on a GPU")

    def _commit(self, s: Commit) -> None:
        self._queue(s.queue)
        self.committed += self.active()

    def _wait(self, s: Wait) -> None:
        self._queue(s.queue)
        live, left = self.active(), []
        for c in self.copies:
            x = c.place.lanes
            done = live[x.b, x.t] & (c.group < self.committed[x.b, x.t] - s.pending)
            if done.any():
                self._land(c, done)
            if not done.all():
                left.append(_some(c, ~done) if done.any() else c)
        self.copies = left

    def _queue(self, queue: str | None) -> None:
        if queue != "cp_async":
            raise Refused("the interpreter knows waits on cp_async groups only", hint="run this kernel on a GPU")

    def _land(self, c: Copy, done: Any) -> None:
        part = c if done.all() else _some(c, done)
        part.place.put(part.values)
        if self.detect:
            x = part.place.lanes
            now = self.spread(np.ones(len(x.b), np.bool_), x)
            self.memory.shadow(part.place.name).land(part.place.at, self.lanes(now).repeat(part.place.width))

    def _call(self, s: Call) -> None:
        row = ROWS.get(s.row)
        if row is not None and row.completes == "cp_async":
            self._copy(s)
        elif row is not None and row.name.startswith("shfl."):
            self._shuffle(s)
        else:
            raise Refused(f"the interpreter does not execute {s.row!r}", hint="run this kernel on a GPU")

    def _copy(self, s: Call) -> None:
        """Starts an asynchronous copy: the source is read now, the destination changes when it lands."""
        row, src = ROWS[s.row], s.refs["src"]
        width = row.operand("dst").nbytes // nbytes(self.kernel.find(src.buffer).dtype)  # type: ignore[union-attr]
        when = np.broadcast_to(self.value(s.args.get("when", parse("true"))), (self.nb, self.nt))
        lanes = self.lanes(self.mask)
        on = self.flat(when, lanes)
        to = self.memory.place(s.refs["dst"], lanes, width)
        self.memory.touch("issue", to)
        values = np.zeros((width, len(lanes.b)), to.array.dtype)
        if on.any():
            values[:, on] = self.under(when, lambda m: self.memory.load(src, width, lanes.only(on)))
        self.copies.append(Copy(to, row.numpy()(values, on), self.committed[lanes.b, lanes.t].copy()))

    def _shuffle(self, s: Call) -> None:
        row = ROWS[s.row]
        self._whole(32, "instruction")
        name, index = self.operand(s.refs["dst"])
        dtype = self.kernel.declarations[name].dtype  # type: ignore[union-attr]
        pad = ((0, 0), (0, 32 * self.warps - self.nt))
        value = np.pad(np.broadcast_to(self.value(s.args["value"], dtype), (self.nb, self.nt)), pad)
        which = self.value(s.args[row.args[1].name])
        if np.ndim(which):
            which = np.pad(np.broadcast_to(which, (self.nb, self.nt)), pad)
        self.registers.write(name, index, row.numpy()(value, which)[:, : self.nt])


def _given(e: Expr | None) -> Expr:
    """An expression that must be there."""
    assert e is not None
    return e


def _some(c: Copy, keep: Any) -> Copy:
    """The part of a copy that belongs to some lanes."""
    p = c.place
    key = tuple(k[:, keep] for k in p.key)
    at = p.at.reshape(p.width, -1)[:, keep].reshape(-1)
    return Copy(type(p)(p.name, p.array, key, at, p.width, p.lanes.only(keep)), c.values[:, keep], c.group[keep])


_KINDS = ("let", "load", "store", "atomic", "call", "for", "if", "sync", "commit", "wait", "assume")
