"""Ordering of one block: races, initialisation, shared bounds, barrier uniformity and cp.async groups, by simulation.

One schedule is walked for every block and size of the finite set of `cutoff`. Control that reaches a barrier is the
same for all threads (or refused), so one walk serves all warps, and two accesses conflict exactly when no barrier
orders them (`interval`). Stretches without an ordering point are computed once for each value of what they depend on.
In: a Context. Out: faults, each with a counterexample; whatever is outside the fragment is a fault AMK008.
Source: `docs/soundness.md`, section on ordering; barrier intervals as in GPUVerify (Betts et al., OOPSLA 2012).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from amk.dsl.expr import Expr
from amk.dsl.instructions import ROWS
from amk.dsl.kernel import walk
from amk.dsl.nodes import Buffer, Statement
from amk.harness.cutoff import samples
from amk.harness.events import Env, Footprint, Operand, Program, Unsupported, bits, free_terms
from amk.harness.initial import uninitialised_registers
from amk.harness.interval import Fault, Interval, Run, Second, conflict
from amk.harness.ring import check_trips, trip_limit

if TYPE_CHECKING:
    from amk.harness.context import Context

__all__ = ["OrderResult", "simulate"]

_ORDERING = ("sync", "commit", "wait", "arrive", "fence", "team")


@dataclass
class OrderResult:
    """What the simulation found; `samples` counts the blocks simulated."""

    faults: list[Fault] = field(default_factory=list)
    samples: int = 0

    def of(self, *codes: str) -> list[Fault]:
        """The faults of these codes."""
        return [f for f in self.faults if f.code in codes]

    def add(self, fault: Fault) -> None:
        """Keeps a fault unless one with the same code and places is known."""
        key = (fault.code, fault.pointer, tuple(s.pointer for s in fault.related))
        if all((f.code, f.pointer, tuple(s.pointer for s in f.related)) != key for f in self.faults):
            self.faults.append(fault)


class Stop(Exception):
    """The walk of one sample cannot go on."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


def simulate(ctx: Context) -> OrderResult:
    """Walks every sample until one is faulty; smaller sizes come first, so the counterexample is small."""
    result = OrderResult()
    try:
        p = Program(ctx.kernel)
        for fault in uninitialised_registers(p):
            result.add(fault)
        _simulate(p, result)
    except Unsupported as e:
        result.add(Fault("AMK008", e.pointer, f"outside what the ordering check decides: {e.message}"))
    except (ValueError, ZeroDivisionError, KeyError, OverflowError) as e:
        message = f"outside what the ordering check decides: {e or type(e).__name__}"
        result.add(Fault("AMK008", "", message))
    return result


def _simulate(p: Program, result: OrderResult) -> None:
    if not any(map(p.matters, p.kernel.body)):
        return
    memo: dict[Any, Any] = {}
    trips = trip_limit(p)
    found = len(result.faults)
    for sizes in samples(p, trips):
        result.samples += 1
        walk = Walk(p, memo, result)
        try:
            walk.body(p.kernel.body, p.everyone, dict(sizes))
            walk.finish(sizes)
        except Stop as stop:
            result.add(stop.fault)
        if len(result.faults) > found:
            return
    check_trips(p, trips)


class Walk:
    """One block of one sample."""

    def __init__(self, program: Program, memo: dict[Any, Any], result: OrderResult) -> None:
        self.p, self.memo, self.result = program, memo, result
        self.interval = Interval(program)
        self.narrowed: list[tuple[str, str, int]] = []  # pointer, condition and threads left, of each divergence

    # -- control ----------------------------------------------------------------------------------------------------
    def body(self, statements: tuple[Statement, ...], active: int, env: Env) -> None:
        """Statements in order: stretches without an ordering point as one run."""
        for ordered, group in self._split(statements):
            if not ordered:
                self._stretch(group, active, env)
            else:
                getattr(self, "do_" + group[0].kind)(group[0], active, env)

    def _split(self, statements: tuple[Statement, ...]) -> list[tuple[bool, tuple[Statement, ...]]]:
        key = ("split", id(statements))
        if key not in self.memo:
            out: list[tuple[bool, tuple[Statement, ...]]] = []
            for s in statements:
                if not self.p.matters(s):
                    continue
                ordered = self._ordering(s)
                if ordered or not out or out[-1][0]:
                    out.append((ordered, (s,)))
                else:
                    out[-1] = (False, (*out[-1][1], s))
            self.memo[key] = out
        found: list[tuple[bool, tuple[Statement, ...]]] = self.memo[key]
        return found

    def _ordering(self, s: Statement) -> bool:
        return any(x.kind in _ORDERING for _, x in walk((s,)))

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
        pointer, barrier = next((q, x) for q, x in walk((s,), "") if x.kind in _ORDERING)
        pointer = self.p.pointers[id(barrier)]
        if barrier.kind != "sync":
            raise Unsupported(f"a {barrier.kind} under {e}, which depends on {why}", pointer)
        message = f"the {barrier.scope} barrier stands under {e}, which depends on {why} and may differ between threads"
        self._stop("AMK302", pointer, message, {}, self.p.pointers[id(s)])

    # -- ordering points --------------------------------------------------------------------------------------------
    def do_sync(self, s: Any, active: int, env: Env) -> None:
        pointer = self.p.pointers[id(s)]
        if s.scope not in ("block", "warp") or s.relaxed:
            raise Unsupported(f"a {'relaxed ' if s.relaxed else ''}{s.scope} barrier", pointer)
        if s.scope == "block":
            if active != self.p.everyone:
                self._divergent("AMK302", "the block barrier", pointer, active, env)
            return self.interval.block()
        if (w := partial_warp(active, self.p.threads)) is not None:
            self._divergent("AMK302", "the warp barrier", pointer, active, env, w)
        self.interval.warps(active)

    def do_commit(self, s: Any, active: int, env: Env) -> None:
        self._whole_queue(s, active)
        self.interval.commit()

    def do_wait(self, s: Any, active: int, env: Env) -> None:
        self._whole_queue(s, active)
        self.interval.wait(s.pending, self.p.pointers[id(s)])

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
        if not self.interval.flight:
            return
        c = self.interval.flight[0]
        t = next(bits(c.part.cells[0][1]))
        state = "is not committed" if c.group is None else f"is group {c.group} of {self.interval.groups}"
        message = (
            f"the block can exit while the cp.async of thread {t} into {c.part.text} is in flight: its group {state}"
        )
        hint = "end with a commit and a wait for 0 pending groups"
        at = {n: v for n, v in (*env.items(), *c.env.items()) if "#" not in n and type(v) is int}
        raise Stop(Fault("AMK308", c.part.pointer, message + ", and no later wait retires it", at | {"t": t}, (), hint))

    def _divergent(self, code: str, what: str, pointer: str, active: int, env: Env, warp: int | None = None) -> None:
        total, have = self.p.threads, active.bit_count()
        where, cond, _ = self.narrowed[-1] if self.narrowed else ("", "the thread count", 0)
        if warp is not None:
            total, have = 32, (active >> 32 * warp & 0xFFFFFFFF).bit_count()
        of = f"warp {warp}" if warp is not None else "the block"
        missing = next(bits(self.p.everyone & ~active), self.p.threads)
        message = (
            f"{what} is reached by {have} of {total} threads of {of}: {cond} decides, and thread {missing} is not there"
        )
        self._stop(code, pointer, message, _ints(env) | {"t": next(bits(active)), "t2": missing}, where)

    def _stop(self, code: str, pointer: str, message: str, at: Mapping[str, int], where: str) -> None:
        related = (Second(where, "what decides"),) if where else ()
        hint = "move it out of the branch, or make the condition the same for all threads"
        raise Stop(Fault(code, pointer, message, at, related, hint))

    # -- stretches --------------------------------------------------------------------------------------------------
    def _stretch(self, group: tuple[Statement, ...], active: int, env: Env) -> None:
        """A stretch without ordering points happens; computed once for each value of what it depends on."""
        slot = ("terms", id(group))
        if slot not in self.memo:
            self.memo[slot] = free_terms(self.p, group)
        values = tuple(self.p.value(e, env) for e in self.memo[slot])
        key = (id(group), active, values)
        if key not in self.memo:
            self.memo[key] = self._run(group, active, env)
        for fault in self.interval.apply(self.memo[key], _shown(env)):
            self.result.add(fault)

    def _run(self, group: tuple[Statement, ...], active: int, env: Env) -> Run:
        run = Run()
        outer = frozenset(env)
        for s in group:
            self._collect(s, active, env, run, outer, True)
        for n in env.keys() - outer:
            del env[n]
        self._inside(run, env)
        return run

    def _collect(self, s: Any, active: int, env: Env, run: Run, outer: frozenset[str], must: bool) -> None:
        if not self.p.matters(s):
            return
        if s.kind == "if":
            self._branch(s, active, env, run, outer, must)
        elif s.kind == "for":
            self._loop(s, active, env, run, outer, must)
        else:
            self._statement(s, active, env, run, outer, must)

    def _branch(self, s: Any, active: int, env: Env, run: Run, outer: frozenset[str], must: bool) -> None:
        known = not self.p.data(s.cond)
        inner = self.p.chosen(s.cond, active, env) if known else active
        count = inner.bit_count() if known else -1
        self.narrowed.append((self.p.pointers[id(s)], str(s.cond), count))
        if inner:
            for x in s.body:
                self._collect(x, inner, env, run, outer, must and known)
        self.narrowed.pop()

    def _loop(self, s: Any, active: int, env: Env, run: Run, outer: frozenset[str], must: bool) -> None:
        for e in (s.lo, s.hi, s.step):
            if why := self.p.data(e):
                raise Unsupported(
                    f"a loop over shared memory whose trip count depends on {why}", self.p.pointers[id(s)]
                )
        self.narrowed.append((self.p.pointers[id(s)], f"the trip count {s.hi}", 0))
        for inner in trips(self.p, s, active, env):
            for x in s.body:
                self._collect(x, inner, env, run, outer, must)
        self.narrowed.pop()

    def _statement(self, s: Any, active: int, env: Env, run: Run, outer: frozenset[str], must: bool) -> None:
        if s.kind == "call":
            self._call(s, active, env)
        threads, sure = active, must
        if s.kind == "load" and s.when is not None:
            sure = not self.p.data(s.when)
            threads = self.p.chosen(s.when, active, env) if sure else active
        for o in self.p.operands(s):
            if threads:
                inner = {n: v for n, v in env.items() if n not in outer and type(v) is int and "#" not in n}
                run.add(self._footprint(s, o, threads, env, inner, run, must and sure))

    def _call(self, s: Any, active: int, env: Env) -> None:
        row, pointer = ROWS.get(s.row), self.p.pointers[id(s)]
        if row is None or row.completes not in ("now", "cp_async") or row.issuer not in ("thread", "warp"):
            raise Unsupported(f"the instruction {s.row}", pointer)
        if row.issuer != "warp":
            return
        if self.p.operands(s):
            raise Unsupported(f"the shared operands of {s.row}", pointer)
        unsure = next((c for _, c, n in self.narrowed if n < 0), None)
        if unsure is not None:
            message = f"{s.row} needs all 32 threads of a warp, and {unsure} depends on data"
            self._stop("AMK305", pointer, message, {}, self.narrowed[-1][0])
        if (w := partial_warp(active, self.p.threads)) is not None:
            self._divergent("AMK305", f"{s.row}, an instruction of whole warps,", pointer, active, env, w)

    def _footprint(
        self, s: Statement, o: Operand, active: int, env: Env, inner: Mapping[str, int], run: Run, must: bool
    ) -> Footprint:
        for e in o.ref.index:
            if why := self.p.data(e):
                raise Unsupported(f"{o.ref}: a shared address that depends on {why}", self.p.pointers[id(s)])
        column = self.p.address(o)
        values = tuple(self.p.value(k, env) for k in column.keys)
        key = (id(o), active, values, must)
        if key not in self.memo:
            self.memo[key] = self._cells(s, o, active, env, inner, must, column.at(values), column.classes, run)
        found: Footprint = self.memo[key]
        return found

    def _cells(
        self, s: Statement, o: Operand, active: int, env: Env, inner: Mapping[str, int], must: bool,
        points: list[tuple[Any, ...]], classes: list[tuple[tuple[Any, ...], int]], run: Run,
    ) -> Footprint:  # fmt: skip
        b = self.p.kernel.find(o.ref.buffer)
        assert isinstance(b, Buffer)
        unit = self.p.cell
        held = [(x, th & active) for x, (_, th) in zip(points, classes, strict=True) if th & active]
        if not _inside([x for x, _ in held], b.shape, o.width):
            self._outside(s, o, held, b, env)
        cells = [(x[0] // unit, th) for x, th in held]
        size = o.width * _nbytes(b) // self.p.cell
        f = Footprint(o.mode, self.p.pointers[id(s)], str(o.ref), size, cells, inner, must)
        for cell, _ in cells:
            f.mask |= ((1 << size) - 1) << cell
        return f

    def _outside(self, s: Statement, o: Operand, held: list[tuple[Any, int]], b: Buffer, env: Env) -> None:
        point, threads = next(h for h in held if not _inside([h[0]], b.shape, o.width))
        index, at = point[1:], _ints(env) | {"t": next(bits(threads))}
        upto = f" (and the next {o.width - 1})" if o.width > 1 else ""
        message = f"{o.ref} has index {index}{upto} in '{b.name}' of shape {b.shape}, for thread {at['t']}"
        raise Stop(
            Fault("AMK202", self.p.pointers[id(s)], message, at, (), "check the index against the declared shape")
        )

    def _inside(self, run: Run, env: Env) -> None:
        """Conflicts inside one stretch, each access against itself and against those before it."""
        shown, done = _shown(env), 0
        for i, f in enumerate(run.parts):
            if f.mode in "wc" and f.run * sum(t.bit_count() for _, t in f.cells) != f.mask.bit_count():
                run.faults += self._pair(f, f, shown)
            written = f.mode in "wca"
            if f.mask & done or written:
                for g in run.parts[:i]:
                    if g.mask & f.mask and (written or g.mode != f.mode):
                        run.faults += self._pair(g, f, shown)
            done |= f.mask if f.mode != "r" else 0

    def _pair(self, old: Footprint, new: Footprint, env: Mapping[str, int]) -> Iterator[Fault]:
        asynchronous = old.mode == "c" and old is not new
        if hit := conflict(old, new, 0, same=asynchronous):
            if asynchronous and new.mode in "ra":
                from amk.harness.interval import Copy

                yield self.interval._in_flight(Copy(old, env), new, hit, env)
            else:
                yield self.interval.race(old, new, hit, env, env)


def trips(p: Program, s: Any, active: int, env: Env) -> Iterator[int]:
    """Runs `env` through the iterations of a loop and gives the threads that take part in each."""
    if s.until is not None:
        raise Unsupported("a loop that synchronises or uses shared memory and stops early", p.pointers[id(s)])
    carried = [c for c in s.carry if c.name not in p.tainted]
    for c in carried:
        env[c.name] = p.value(c.init, env)
    if p.thread_dependent(s.lo) or p.thread_dependent(s.hi):
        rounds = _thread_rounds(p, s, active, env)
    else:
        rounds = _uniform_rounds(p, s, active, env)
    for count, inner in enumerate(rounds, 1):
        p.rounds[id(s)] = max(p.rounds.get(id(s), 0), count)
        yield inner
        env.update([(c.name, p.value(c.next, env)) for c in carried])


def _uniform_rounds(p: Program, s: Any, active: int, env: Env) -> Iterator[int]:
    for v in range(p.value(s.lo, env), p.value(s.hi, env), p.value(s.step, env)):
        env[s.var] = env["#" + s.var] = v
        yield active
    env.pop("#" + s.var, None)


def _thread_rounds(p: Program, s: Any, active: int, env: Env) -> Iterator[int]:
    """Bounds that depend on the thread: the variable is `lo + round * step`, which `Program` put in its place."""
    j = 0
    cond = p.thread_loops[s.var]
    while True:
        env[s.var + "#"] = j
        inner = p.chosen(cond, active, env)
        if not inner:
            return
        yield inner
        j += 1


def partial_warp(active: int, threads: int) -> int | None:
    """The first warp that is only partly active."""
    for w in range(-(-threads // 32)):
        if active >> 32 * w & 0xFFFFFFFF not in (0, 0xFFFFFFFF):
            return w
    return None


def _inside(points: list[tuple[int, ...]], shape: tuple[int, ...], width: int) -> bool:
    """Whether every point (address, then indices) lies in the shape, `width` elements from it included."""
    if not points:
        return True
    tops = (*shape[:-1], shape[-1] - width + 1)
    return all(min(i) >= 0 and max(i) < n for i, n in zip(list(zip(*points, strict=True))[1:], tops, strict=True))


def _nbytes(b: Buffer) -> int:
    from amk.dsl.types import nbytes

    return nbytes(b.dtype)


def _ints(env: Mapping[str, Any]) -> dict[str, int]:
    return {n: v for n, v in env.items() if "#" not in n and type(v) is int}


def _shown(env: Mapping[str, Any]) -> dict[str, int]:
    return {n: v for n, v in env.items() if type(v) is int and not n.endswith("#")}
