"""The machine: executes statements for all threads of a batch of blocks in lock step, under a mask.

Lock step is one legal schedule. Shadow memory says when another would differ; with a seed, the statements between two
ordering points run for random subsets of the threads, one subset after another, so that results differ as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from amk.dsl.expr import Elem, Expr
from amk.dsl.nodes import Assume, Buffer, For, If, Let, Param, Statement
from amk.errors import Refused
from amk.harness.interp_data import Data
from amk.harness.interp_expr import narrow
from amk.harness.interp_fault import Fault
from amk.harness.interp_memory import Memory
from amk.harness.interp_order import Order
from amk.harness.interp_program import Program
from amk.harness.interp_registers import Registers
from amk.harness.interp_shadow import Lanes

__all__ = ["Machine"]


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
        self.order, data = Order(self), Data(self)
        self._steps: dict[str, Callable[[Any], None]] = {
            "let": self._let, "if": self._if, "for": self._for, "assume": self._assume, "load": data.load,
            "store": data.store, "atomic": data.atomic, "sync": self.order.sync, "commit": self.order.commit,
            "wait": self.order.wait, "call": self.order.call,
        }  # fmt: skip

    def _names(self) -> dict[str, Any]:
        env: dict[str, Any] = dict(self.program.scalars)
        env |= dict(zip(("gx", "gy", "gz"), self.program.grid, strict=True))
        axes = zip(("bx", "by", "bz"), np.asarray(self.blocks, np.int64).T, strict=True)
        env |= {name: column[:, None] for name, column in axes}
        size = self.kernel.cluster
        return env | {"t": self.cols, "rank": env["bx"] % size if size > 1 else 0}

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

    def declared(self, name: str) -> Param | Buffer:
        """The tensor or array that a name stands for, views resolved. (Maps and barriers are refused before a run.)"""
        d = self.kernel.find(name)
        assert isinstance(d, (Param, Buffer)), name
        return d

    def operand(self, ref: Elem) -> tuple[str, tuple[Any, ...]]:
        """Buffer and index values of an operand, views resolved."""
        index = tuple(self.value(i) for i in ref.index)
        base = self.views.get(ref.buffer)
        if base is None:
            return ref.buffer, index
        lead = len(base[1]) - len(index)
        return base[0], (*base[1][:lead], *(b + i for b, i in zip(base[1][lead:], index, strict=True)))

    def active(self) -> Any:
        """The mask as an array."""
        return np.ones((self.nb, self.nt), np.bool_) if self.mask is None else self.mask

    def lanes(self, mask: Any) -> Lanes:
        """The active lanes as a list."""
        live = np.ones((self.nb, self.nt), np.bool_) if mask is None else np.broadcast_to(mask, (self.nb, self.nt))
        b, t = np.nonzero(live)
        if not self.detect:
            return Lanes(b, t, b, b, b, b, b)
        block, w = self.linear[b], t // 32
        return Lanes(
            b,
            t,
            block * self.nt + t,
            block * self.warps + w,
            block,
            self.order.block_epoch[b],
            self.order.warp_epoch[b, w],
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
    def check(self, bad: Any, kind: str, message: str, value: Any = None, **values: object) -> None:
        """Raises a fault if `bad` holds in an active lane."""
        if not np.any(bad):
            return
        live = np.broadcast_to(bad, np.broadcast_shapes(np.shape(bad), (self.nb, self.nt)))
        live = live if self.mask is None else live & self.mask
        if live.any():
            spot = np.unravel_index(int(np.argmax(live)), live.shape)
            values |= {} if value is None else {"value": np.broadcast_to(value, live.shape)[spot].item()}
            self.report(kind, message, int(spot[-2]), int(spot[-1]), values)

    def fail(self, kind: str, message: str, lanes: Lanes, lane: int, **values: object) -> None:
        """Raises a fault of one lane of a list."""
        lane %= len(lanes.b)
        self.report(kind, message, int(lanes.b[lane]), int(lanes.t[lane]), values)

    def report(self, kind: Any, message: str, row: int, thread: int, values: dict[str, Any]) -> None:
        """Raises a fault of one thread, if its kind is watched for."""
        watch = self.program.watch
        if (
            watch is not None and kind not in watch and kind not in ("bounds", "assume")
        ):  # nothing after these means anything
            return
        x, y, z = (int(v) for v in self.blocks[row])
        pointer = self.program.pointers.get(id(self.current), "")
        raise Fault(kind, message, pointer=pointer, block=(x, y, z), threads=(thread,), values=values)

    # -- control ----------------------------------------------------------------------------------------------------
    def launch(self) -> None:
        """Runs the whole body."""
        self.body(self.kernel.body)
        self.order.finish()

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
        assert s.value is not None
        value = narrow(self.value(s.value, s.dtype), s.dtype)
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
        if self.program.unroll.wide(self, s):
            return
        lo, hi, step = self.value(s.lo), self.value(s.hi), self.value(s.step)
        if np.any(np.asarray(step) < 1):
            raise Refused(f"the step {s.step} of the loop over {s.var} is not positive")
        for c in s.carry:
            self.set(c.name, narrow(self.value(c.init, c.dtype), c.dtype))
        if np.ndim(lo) == np.ndim(hi) == np.ndim(step) == 0 and s.until is None:
            for v in range(int(lo), int(hi), int(step)):
                self._turn(s, v)
        else:
            self._ragged(s, lo, hi, step)

    def _turn(self, s: For, v: Any) -> Any:
        """One round; gives the lanes that leave the loop after it."""
        self.program.spend(self.nb * self.nt)
        self.env[s.var] = v
        self.body(s.body)
        self.current = s
        over = False if s.until is None else self.value(s.until)
        for name, value in [(c.name, narrow(self.value(c.next, c.dtype), c.dtype)) for c in s.carry]:
            self.set(name, value)
        return over

    def _ragged(self, s: For, lo: Any, hi: Any, step: Any) -> None:
        """A loop whose trip count may differ between lanes."""
        kept = self.mask
        v = np.broadcast_to(lo, (self.nb, self.nt))
        live = (v < hi) if kept is None else (v < hi) & kept
        try:
            while live.any():
                self.mask = None if live.all() else live
                over = self._turn(s, v)
                v = v + step
                live = live & (v < hi) & np.logical_not(over)
        finally:
            self.mask = kept

    def _assume(self, s: Assume) -> None:
        self.check(np.logical_not(self.value(s.fact)), "assume", f"the assumption {s.fact} does not hold")
