"""Ordering of one block: races, initialisation, shared bounds, barrier uniformity and cp.async groups, by simulation.

One schedule is walked for every block and size of the finite set of `cutoff`. Control that reaches a barrier is the
same for all threads (or refused), so one walk serves all warps, and two accesses conflict exactly when no barrier
orders them (`epoch`). Stretches without an ordering point are computed once for each value of what they depend on.
In: a Context. Out: faults, each with a counterexample; whatever is outside the fragment is a fault AMK008.
Source: `docs/soundness.md`, section on ordering; barrier intervals as in GPUVerify (Betts et al., OOPSLA 2012).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from amk.dsl.expr import Expr
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.nodes import Statement
from amk.harness.cutoff import samples
from amk.harness.diagnostics import Obligation
from amk.harness.epoch import Epoch
from amk.harness.events import ORDERING, Env, Program, Unsupported
from amk.harness.faults import Fault
from amk.harness.initial import uninitialised_registers
from amk.harness.masks import bits
from amk.harness.opaque import opaque
from amk.harness.ring import check_trips, rings
from amk.harness.stretch import Narrowed, Stop, Stretches, decided, divergence, ints, partial_warp, trips

if TYPE_CHECKING:
    from amk.harness.context import Context

__all__ = ["OrderResult", "simulate"]


class OrderResult:
    """What the simulation found; `samples` counts the blocks simulated."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.samples = 0

    def of(self, *codes: str) -> list[Fault]:
        """The faults of these codes."""
        return [f for f in self.faults if f.code in codes]

    def add(self, fault: Fault) -> None:
        """Keeps a fault unless one with the same code and places is known."""
        key = (fault.code, fault.pointer, tuple(s.pointer for s in fault.related))
        if all((f.code, f.pointer, tuple(s.pointer for s in f.related)) != key for f in self.faults):
            self.faults.append(fault)


def simulate(ctx: Context) -> OrderResult:
    """Walks every sample until one is faulty; smaller sizes come first, so the counterexample is small."""
    result = OrderResult()
    try:
        _walk_all(ctx.program, result)
    except Unsupported as e:
        if result.faults or (why := _wrong_for_more(ctx)) is not None:
            said = f"outside what the ordering check decides: {e.message}" + ("" if result.faults else why or "")
            result.add(Fault("AMK008", e.pointer, said))
    except _NO_VALUE as e:
        message = f"outside what the ordering check decides: {e or type(e).__name__}"
        result.add(Fault("AMK008", "", message))
    if not result.faults:
        ctx.obligations += _shown(ctx.kernel)
    return result


_NO_VALUE = (ValueError, ZeroDivisionError, KeyError, OverflowError)


def _walk_all(p: Program, result: OrderResult) -> None:
    for fault in uninitialised_registers(p):
        result.add(fault)
    _simulate(p, result)


def _wrong_for_more(ctx: Context) -> str | None:
    """None where nothing goes wrong though trip counts that the cutoff cannot read are any numbers of their intervals;
    else what does, as far as it is known."""
    kernel, result = opaque(ctx.kernel), OrderResult()
    if kernel is None:
        return ""
    try:
        _walk_all(Program(kernel), result)
    except (Unsupported, *_NO_VALUE):
        return ""
    return f"; and if that may be any number: {result.faults[0].message}" if result.faults else None


def _shown(kernel: KernelDescriptor) -> Iterator[Obligation]:
    """What a walk without a fault shows, for all sizes by the cutoff."""

    def claim(code: str, text: str) -> Obligation:
        return Obligation(code, "", text, "enumeration")

    kinds = {s.kind for _, s in walk(kernel.body)}
    for b in kernel.buffers:
        if b.space == "shared":
            yield claim("AMK202", f"every access to '{b.name}' is inside it")
            yield claim("AMK206", f"every element of '{b.name}' is written before it is read")
            yield claim("AMK301", f"no two threads race for an element of '{b.name}'")
        else:
            yield claim("AMK207", f"every register of '{b.name}' is written before it is read")
    if "sync" in kinds:
        yield claim("AMK302", "every barrier is reached by all threads that it waits for")
    if "commit" in kinds:
        yield claim("AMK303", "every asynchronous copy has landed before what it wrote is read or overwritten")


def _simulate(p: Program, result: OrderResult) -> None:
    if not any(map(p.matters, p.kernel.body)):
        return
    ring, stretches = rings(p), Stretches(p)
    found = len(result.faults)
    for sizes in samples(p, ring):
        result.samples += 1
        walk = Walk(stretches, result)
        try:
            walk.body(p.kernel.body, p.everyone, dict(sizes))
            walk.finish(sizes)
        except Stop as stop:
            result.add(stop.fault)
        if len(result.faults) > found:
            return
    check_trips(p, ring)


class Walk:
    """One block of one sample."""

    def __init__(self, stretches: Stretches, result: OrderResult) -> None:
        self.p, self.stretches, self.result = stretches.p, stretches, result
        self.epoch = Epoch(self.p)
        self.narrowed: Narrowed = []

    # -- control ----------------------------------------------------------------------------------------------------
    def body(self, statements: tuple[Statement, ...], active: int, env: Env) -> None:
        """Statements in order: stretches without an ordering point as one run."""
        for ordered, group in self.p.stretches(statements):
            if ordered:
                getattr(self, "do_" + group[0].kind)(group[0], active, env)
                continue
            run = self.stretches.run(group, active, env, self.narrowed, self.epoch)
            for fault in self.epoch.apply(run, dict(env)):
                self.result.add(fault)

    def do_if(self, s: Any, active: int, env: Env) -> None:
        self._known(s, s.cond)
        inner = self.p.chosen(s.cond, active, env)
        if inner == active:
            self.body(s.body, active, env)
        elif inner:
            with_ = (self.p.pointers[id(s)], str(s.cond), inner.bit_count())
            self.narrowed.append(with_)
            self.body(s.body, inner, env)
            self.narrowed.pop()

    def do_for(self, s: Any, active: int, env: Env) -> None:
        for e in (s.lo, s.hi, s.step):
            self._known(s, e)
        for inner in trips(self.p, s, active, env):
            if inner != active:
                text = f"{s.var} in range({s.lo}, {s.hi}, {s.step})"
                self.narrowed.append((self.p.pointers[id(s)], f"the trip count of {text}", inner.bit_count()))
            self.body(s.body, inner, env)
            if inner != active:
                self.narrowed.pop()

    def _known(self, s: Statement, e: Expr) -> None:
        """A condition around an ordering point must not depend on data."""
        why = self.p.data(e)
        if not why:
            return
        barrier: Any = next(x for _, x in walk((s,)) if x.kind in ORDERING)
        pointer = self.p.pointers[id(barrier)]
        if barrier.kind != "sync":
            raise Unsupported(f"a {barrier.kind} under {e}, which depends on {why}", pointer)
        message = f"the {barrier.scope} barrier stands under {e}, which depends on {why} and may differ between threads"
        raise Stop(decided("AMK302", pointer, message, {}, self.p.pointers[id(s)]))

    # -- ordering points --------------------------------------------------------------------------------------------
    def do_sync(self, s: Any, active: int, env: Env) -> None:
        pointer = self.p.pointers[id(s)]
        if s.scope not in ("block", "warp") or s.relaxed:
            raise Unsupported(f"a {'relaxed ' if s.relaxed else ''}{s.scope} barrier", pointer)
        if s.scope == "block":
            if active != self.p.everyone:
                raise Stop(divergence(self.p, "AMK302", "the block barrier", pointer, active, env, self.narrowed))
            return self.epoch.block()
        if (w := partial_warp(active, self.p.threads)) is not None:
            raise Stop(divergence(self.p, "AMK302", "the warp barrier", pointer, active, env, self.narrowed, w))
        self.epoch.warps(active)

    def do_commit(self, s: Any, active: int, env: Env) -> None:
        self._whole_queue(s, active)
        self.epoch.commit()

    def do_wait(self, s: Any, active: int, env: Env) -> None:
        self._whole_queue(s, active)
        self.epoch.wait(s.pending, self.p.pointers[id(s)])

    def _whole_queue(self, s: Any, active: int) -> None:
        pointer = self.p.pointers[id(s)]
        if s.queue != "cp_async":
            raise Unsupported(f"a {s.kind} on {s.queue or 'an mbarrier'}", pointer)
        if active != self.p.everyone:
            raise Unsupported(f"a {s.kind} that only {active.bit_count()} of {self.p.threads} threads reach", pointer)

    def do_arrive(self, s: Any, active: int, env: Env) -> None:
        raise Unsupported("mbarriers", self.p.pointers[id(s)])

    def do_fence(self, s: Any, active: int, env: Env) -> None:
        raise Unsupported(f"a fence for {s.what}", self.p.pointers[id(s)])

    def do_team(self, s: Any, active: int, env: Env) -> None:
        raise Unsupported("a team of roles", self.p.pointers[id(s)])

    def finish(self, env: Env) -> None:
        """Nothing may be in flight when the block exits."""
        if not self.epoch.flight:
            return
        c = self.epoch.flight[0]
        part = c.run.issued[0]
        t = next(bits(part.pattern.cells[0][1]))
        state = "is not committed" if c.group is None else f"is group {c.group} of {self.epoch.groups}"
        said = f"the cp.async of thread {t} into {part.text} is in flight: its group {state}"
        message = f"the block can exit while {said}, and no later wait retires it"
        hint = "end with a commit and a wait for 0 pending groups"
        at = ints({**env, **c.env}) | {"t": t}
        raise Stop(Fault("AMK308", part.pointer, message, at, (), hint))
