"""The walk of one strand: control, and what each ordering point does to what its threads know.

A generator that pauses where the strand must wait. `active` are the threads that have come here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amk.dsl.expr import Expr
from amk.dsl.kernel import walk
from amk.dsl.nodes import Statement
from amk.harness.events import Unsupported, orders
from amk.harness.faults import Fault
from amk.harness.masks import bits
from amk.harness.steps import Step, Steps
from amk.harness.stretch import Stop, decided, divergence, trips
from amk.harness.wording import point

__all__ = ["Walk"]


class Walk(Steps):
    """One strand of one schedule, from the first statement to the last."""

    def run(self) -> Step:
        """The whole kernel."""
        yield from self.body(self.p.kernel.body, self.strand.threads)
        self._ended()

    # -- control ----------------------------------------------------------------------------------------------------
    def body(self, statements: tuple[Statement, ...], active: int) -> Step:
        """Statements in order: stretches without an ordering point as one run."""
        for ordered, group in self.p.stretches(statements):
            if ordered:
                s: Any = group[0]
                if s.kind == "call":
                    self.do_call(group, active)
                else:
                    steps = getattr(self, "do_" + s.kind)(s, active)
                    if steps is not None:
                        yield from steps
                continue
            run = self.stretches.run(group, active, self.env, self.narrowed)
            self.report(self.memory.apply(self.strand, active, run, self.around()))
            if run.aligned:
                self.strand.align(active)
            for name, pointer in run.registers.items():
                self._touched(name, active, pointer)

    def do_if(self, s: Any, active: int) -> Step:
        self._known(s, s.cond)
        inner = self.p.chosen(s.cond, active, self.env)
        if inner == active:
            yield from self.body(s.body, active)
        elif inner:
            self.narrowed.append((self.p.pointers[id(s)], str(s.cond), inner.bit_count()))
            yield from self.body(s.body, inner)
            self.narrowed.pop()

    def do_for(self, s: Any, active: int) -> Step:
        for e in (s.lo, s.hi, s.step):
            self._known(s, e)
        for inner in trips(self.p, s, active, self.env):
            self.here = None
            if inner != active:
                text = f"{s.var} in range({s.lo}, {s.hi}, {s.step})"
                self.narrowed.append((self.p.pointers[id(s)], f"the trip count of {text}", inner.bit_count()))
            yield from self.body(s.body, inner)
            if inner != active:
                self.narrowed.pop()
        self.here = None

    def do_team(self, s: Any, active: int) -> Step:
        for i, role in enumerate(s.roles):
            mine = active & ((1 << 32 * role.warps[1]) - (1 << 32 * role.warps[0]))
            if mine:
                if role.registers is not None:
                    self.strand.align(mine)
                if mine != active:
                    where = f"{self.p.pointers[id(s)]}/roles/{i}"
                    self.narrowed.append((where, f"the role of warps {role.warps}", mine.bit_count()))
                yield from self.body(role.body, mine)
                if mine != active:
                    self.narrowed.pop()

    def _known(self, s: Statement, e: Expr) -> None:
        """A condition around an ordering point must not depend on data."""
        why = self.p.data(e)
        if not why:
            return
        barrier: Any = next(x for _, x in walk((s,)) if orders(x))
        pointer = self.p.pointers[id(barrier)]
        if barrier.kind != "sync":
            raise Unsupported(f"a {barrier.kind} under {e}, which depends on {why}", pointer)
        message = f"the {barrier.scope} barrier stands under {e}, which depends on {why} and may differ between threads"
        raise Stop(decided("AMK302", pointer, message, {}, self.p.pointers[id(s)]))

    # -- barriers ---------------------------------------------------------------------------------------------------
    def do_sync(self, s: Any, active: int) -> Step | None:
        if s.scope == "warp":
            self._together(s, active, 32, "the warp barrier", "AMK302")
            self.strand.warp_barrier(active)
            return None
        return self._meet(s, active)

    def _meet(self, s: Any, active: int) -> Step:
        kernel, pointer = self.p.kernel, self.p.pointers[id(s)]
        if s.scope == "named":
            self._together(s, active, 32, f"barrier {s.id}", "AMK302")
        elif active != self.strand.threads:
            what = f"the {s.scope} barrier"
            raise Stop(divergence(self.p, "AMK302", what, pointer, active, self.env, self.narrowed))
        need = {"block": kernel.threads, "cluster": kernel.threads * kernel.cluster}.get(s.scope, s.threads)
        place = self.cluster.meeting(self.strand.rank, s.scope, s.id, need)
        signal = self.signal(s, active)
        if need != place.need:
            hint = "give all uses of one barrier the same count"
            raise Stop(
                signal.fault("AMK310", f"{place.what} is for {need} threads here, and for {place.need} elsewhere", hint)
            )
        if s.part != "wait":
            know = self.strand.published(active)
            mine = place.over
            self.arrived[place.index] = mine, s.relaxed
            for f in place.arrive(signal, know.happened() if s.relaxed else know):
                raise Stop(f)
            if s.scope == "block" and place.over > mine:
                self.memory.barrier()
            self.moved = True
        if s.part == "arrive":
            return
        if place.index not in self.arrived:
            raise Stop(
                signal.fault("AMK310", f"{signal.who} waits for {place.what} and has not come to it", "arrive first")
            )
        mine, relaxed = self.arrived.pop(place.index)
        while place.over == mine:
            self.until(s, active, f"{place.what}, to which {place.come} of {place.need} threads have come")
            yield
        self.moved = True
        if relaxed:
            self.strand.learn(active, place.known[mine])
            self.strand.align(active)
        elif active == self.strand.threads:
            self.strand.meet(place.known[mine])
        else:
            self.strand.learn(active, place.known[mine])
            self.strand.warp_barrier(active)

    # -- the end ----------------------------------------------------------------------------------------------------
    def _ended(self) -> None:
        """Nothing of the strand may be in flight when it exits."""
        c = next((c for c in self.memory.flight if c.strand is self.strand), None)
        if c is None:
            return
        part = c.run.issued[0] if c.queue == "cp_async" else c.run.parts[0]
        t, groups = next(bits(part.pattern.threads)), self.strand.committed(c.queue, c.active)
        state = "is not committed" if c.group is None else f"is group {c.group} of {groups}"
        what = {"cp_async": "cp.async", "bulk": "bulk copy"}.get(c.queue, c.queue)
        where = "into" if part.mode == "c" else "of"
        said = f"the {what} of thread {t} {where} {part.text} is in flight: its group {state}"
        message = f"the block can exit while {said}, and no later wait retires it"
        hint = "end with a commit and a wait for 0 pending groups"
        at: Mapping[str, int] = point({**self.env, **c.env}) | {"t": t}
        raise Stop(Fault("AMK308", part.pointer, message, at, (), hint))
