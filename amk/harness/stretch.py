"""Stretches of a schedule without an ordering point: what they touch, and the conflicts inside them.

In: consecutive statements, the threads that reach them and the values of what is around them. Out: a Run. A stretch is
walked once for each value of the terms that decide what it touches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from amk.dsl.expr import Elem
from amk.dsl.instructions import ROWS
from amk.dsl.instructions.warp import ALL_LANES, members_of
from amk.dsl.nodes import Buffer, Statement
from amk.dsl.types import nbytes
from amk.harness.events import Env, Operand, Program, TooCoarse, Unsupported, Values, free_terms
from amk.harness.faults import Fault, Second
from amk.harness.footprint import Address, Footprint, Pattern
from amk.harness.masks import bits
from amk.harness.regions import Regions
from amk.harness.touched import Run, conflict
from amk.harness.wording import Access, InFlight, in_flight, point, race

__all__ = ["Narrowed", "Stop", "Stretches", "divergence", "partial_group", "trips"]

Narrowed = list[tuple[str, str, int]]  # pointer, condition and threads left (-1: unknown) of each divergence around


Inner = Callable[[], Mapping[str, int]]


class Stop(Exception):
    """The walk of one sample cannot go on."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class Stretches:
    """The stretches of a program, each remembered."""

    def __init__(self, program: Program) -> None:
        self.p = program
        self._values: dict[tuple[int, int], Values] = {}  # of the terms that decide what a group touches
        self._runs: dict[tuple[Any, ...], Run] = {}
        self._footprints: dict[tuple[Any, ...], Footprint] = {}
        self._patterns: dict[tuple[Any, ...], Pattern] = {}
        self._places: dict[int, tuple[Address, Buffer, tuple[int, ...]]] = {}
        self._regions = Regions(program)

    def run(self, group: tuple[Statement, ...], active: int, env: Env, narrowed: Narrowed, role: str = "") -> Run:
        """What the statements touch (of calls, by the operand of one role), with the faults among them."""
        name = id(group[0]), len(group)  # statements outlive the walk; tuples of them need not
        values = self._values.get(name)
        if values is None:
            values = self._values[name] = self.p.values(free_terms(self.p, group))
        key = (name, active, role, values(env))
        found = self._runs.get(key)
        if found is None:
            found = self._runs[key] = _Stretch(self, env, narrowed, role).walk(group, active)
        return found

    def footprint(self, s: Statement, o: Operand, active: int, env: Env, inner: Inner, must: bool) -> Footprint:
        """The cells of an operand at this point."""
        if o.tile or o.dense or o.anywhere:
            region = self._regions.region(s, o, active, env)
            return Footprint(o.mode, self.p.pointers[id(s)], o.ref, region, 0, region.mask, inner(), must)
        place = self._places.get(id(o))
        if place is None:
            place = self._places[id(o)] = self._place(s, o)
        address, b, tops = place
        values, by = address.at(env, self.p.value)
        key = (id(o), active, values, by, must)
        found = self._footprints.get(key)
        if found is None:
            pattern = self._pattern(address, o.width * nbytes(b.dtype), active, values)
            for n, lo, hi, top in zip(by[1:], pattern.lowest, pattern.highest, tops, strict=True):
                if n + lo < 0 or n + hi >= top:
                    raise Stop(self._outside(s, o, address, active, env, b, tops))
            if (pattern.first + by[0]) % self.p.cell:
                raise TooCoarse
            shift = (pattern.first + by[0]) // self.p.cell
            pointer, mask = self.p.pointers[id(s)], pattern.mask << shift
            found = Footprint(o.mode, pointer, o.ref, pattern, shift, mask, inner(), must)
            self._footprints[key] = found
        return found

    def _place(self, s: Statement, o: Operand) -> tuple[Address, Buffer, tuple[int, ...]]:
        for e in o.ref.index:
            if why := self.p.data(e):
                raise Unsupported(f"{o.ref}: a shared address that depends on {why}", self.p.pointers[id(s)])
        b = self.p.kernel.find(o.ref.buffer)
        assert isinstance(b, Buffer)
        return self.p.address(o), b, (*b.shape[:-1], b.shape[-1] - o.width + 1)

    def _pattern(self, address: Address, size: int, active: int, values: tuple[Any, ...]) -> Pattern:
        key = (id(address.column), size, active, values)
        found = self._patterns.get(key)
        if found is None:
            pairs = zip(address.column.at(values), address.column.classes, strict=True)
            held = [(x, threads & active) for x, (_, threads) in pairs if threads & active]
            if any((x[0] - held[0][0][0]) % self.p.cell for x, _ in held):
                raise TooCoarse
            found = self._patterns[key] = Pattern(held, size // self.p.cell, self.p.cell)
        return found

    def _outside(
        self, s: Statement, o: Operand, address: Address, active: int, env: Env, b: Buffer, tops: tuple[int, ...]
    ) -> Fault:
        values, by = address.at(env, self.p.value)
        for x, (_, threads) in zip(address.column.at(values), address.column.classes, strict=True):
            index = tuple(a + n for a, n in zip(x[1:], by[1:], strict=True))
            if threads & active and not all(0 <= i < n for i, n in zip(index, tops, strict=True)):
                break
        at = point(env) | {"t": next(bits(threads & active))}
        upto = f" (and the next {o.width - 1})" if o.width > 1 else ""
        message = f"{o.ref} has index {index}{upto} in '{b.name}' of shape {b.shape}, for thread {at['t']}"
        return Fault("AMK202", self.p.pointers[id(s)], message, at, (), _smaller(o.ref, b))


def _smaller(ref: Elem, b: Buffer) -> str:
    """What to do about an index beyond a shared array."""
    index = ", ".join(map(str, ref.index))
    return f"keep [{index}] below {list(b.shape)}: another index, a guard on the thread, or a larger '{b.name}'"


class _Stretch:
    """One walk through one stretch."""

    def __init__(self, stretches: Stretches, env: Env, narrowed: Narrowed, role: str) -> None:
        self.all, self.p, self.env, self.narrowed, self.role = stretches, stretches.p, env, narrowed, role
        self.outer, self.out = frozenset(env), Run()
        self._inner: dict[str, int] | None = None  # what the loops of the stretch have set, until they move on

    def walk(self, group: tuple[Statement, ...], active: int) -> Run:
        """The run of the statements; leaves the environment as it was."""
        before = dict(self.env)
        for s in group:
            self._collect(s, active, True)
        self.env.clear()
        self.env.update(before)
        self._conflicts()
        return self.out

    def _collect(self, s: Any, active: int, must: bool) -> None:
        if not self.p.matters(s):
            return
        if s.kind == "if":
            self._branch(s, active, must)
        elif s.kind == "for":
            self._loop(s, active, must)
        else:
            self._statement(s, active, must)

    def _branch(self, s: Any, active: int, must: bool) -> None:
        known = not self.p.data(s.cond)
        inner = self.p.chosen(s.cond, active, self.env) if known else active
        self.narrowed.append((self.p.pointers[id(s)], str(s.cond), inner.bit_count() if known else -1))
        if inner:
            for x in s.body:
                self._collect(x, inner, must and known)
        self.narrowed.pop()

    def _loop(self, s: Any, active: int, must: bool) -> None:
        for e in (s.lo, s.hi, s.step):
            if why := self.p.data(e):
                raise Unsupported(
                    f"a loop over shared memory whose trip count depends on {why}", self.p.pointers[id(s)]
                )
        self.narrowed.append((self.p.pointers[id(s)], f"the trip count {s.hi}", 0))
        for inner in trips(self.p, s, active, self.env):
            self._inner = None
            for x in s.body:
                self._collect(x, inner, must)
        self._inner = None
        self.narrowed.pop()

    def _statement(self, s: Any, active: int, must: bool) -> None:
        if s.kind == "call":
            self._call(s, active)
        threads, sure = active, must
        if s.kind == "load" and s.when is not None:
            known = not self.p.data(s.when)
            sure, threads = must and known, self.p.chosen(s.when, active, self.env) if known else active
        for name in self.p.touches(s):
            self.out.registers.setdefault(name, self.p.pointers[id(s)])
        for o in self.p.operands(s) if threads else ():
            if not self.role or o.role == self.role:
                first = threads & self._first(o.lanes)
                self.out.add(self.all.footprint(s, o, first, self.env, self.inner, sure))

    def _first(self, lanes: int) -> int:
        """The first lanes of every warp."""
        return sum(((1 << lanes) - 1) << 32 * w for w in range(-(-self.p.threads // 32))) if lanes < 32 else -1

    def inner(self) -> dict[str, int]:
        """The values of the loops inside the stretch, for a counterexample."""
        if self._inner is None:
            self._inner = {n: v for n, v in point(self.env).items() if n not in self.outer}
        return self._inner

    def _call(self, s: Any, active: int) -> None:
        row, pointer = ROWS.get(s.row), self.p.pointers[id(s)]
        if row is None:
            raise Unsupported(f"the instruction {s.row}", pointer)
        if row.issuer != "warp":
            return
        members = members_of(s)
        self.out.aligned |= members == ALL_LANES  # else only some lanes have come so far
        unsure = next((c for _, c, n in self.narrowed if n < 0), None)
        if unsure is not None:
            wanted = "all 32 threads" if members == ALL_LANES else f"the lanes {members:#010x}"
            message = f"{s.row} needs {wanted} of a warp, and {unsure} depends on data"
            raise Stop(decided("AMK305", pointer, message, {}, self.narrowed[-1][0]))
        if members != ALL_LANES:
            if (fault := unmatched(self.p, s.row, members, pointer, active, self.env, self.narrowed)) is not None:
                raise Stop(fault)
        elif (w := partial_group(active, self.p.threads)) is not None:
            what = f"{s.row}, an instruction of whole warps,"
            raise Stop(divergence(self.p, "AMK305", what, pointer, active, self.env, self.narrowed, w))

    # -- conflicts --------------------------------------------------------------------------------------------------
    def _conflicts(self) -> None:
        """Conflicts inside one stretch, each access against itself and against those before it."""
        run, env, done = self.out, dict(self.env), 0
        for i, f in enumerate(run.parts):
            if f.mode in "wcW" and f.shared:
                run.faults += self._pair(f, f, env)
            written = f.mode in "wcaW"
            if f.mask & done or written:
                for g in run.parts[:i]:
                    if g.mask & f.mask and (written or g.mode != f.mode):
                        run.faults += self._pair(g, f, env)
            done |= f.mask if f.mode not in "rR" else 0

    def _pair(self, old: Footprint, new: Footprint, env: Mapping[str, int]) -> Iterator[Fault]:
        asynchronous = old.mode in "cW" and old is not new
        if hit := conflict(old, new, 0, same=asynchronous):
            a, b = Access(old, env, env.get("rank", 0)), Access(new, env, env.get("rank", 0))
            if asynchronous and new.mode in "ra":
                yield in_flight(self.p, a, b, hit, InFlight(None, 0, "", 0))
            else:
                yield race(self.p, a, b, hit, "", True)


def trips(p: Program, s: Any, active: int, env: Env) -> Iterator[int]:
    """Runs `env` through the iterations of a loop and gives the threads that take part in each."""
    if s.until is not None:
        raise Unsupported("a loop that synchronises or uses shared memory and stops early", p.pointers[id(s)])
    plan = p.plans.get(id(s))
    if plan is None:
        held = [c for c in s.carry if c.name not in p.tainted]
        plan = p.plans[id(s)] = held, [c.name for c in held], p.values(tuple([c.next for c in held]))
    carried, named, following = plan
    for c in carried:
        env[c.name] = p.value(c.init, env)
    if p.thread_dependent(s.lo) or p.thread_dependent(s.hi):
        rounds = _thread_rounds(p, s, active, env)
    else:
        rounds = _uniform_rounds(p, s, active, env)
    for count, inner in enumerate(rounds, 1):
        p.rounds[id(s)] = max(p.rounds.get(id(s), 0), count)
        yield inner
        env.update(zip(named, following(env), strict=True))


def _uniform_rounds(p: Program, s: Any, active: int, env: Env) -> Iterator[int]:
    values = p.fixed.get(s.var) or range(p.value(s.lo, env), p.value(s.hi, env), p.value(s.step, env))
    if len(values) > _MOST_ROUNDS:
        raise Unsupported(f"{len(values)} iterations of the loop over {s.var}, at sizes that count", p.pointers[id(s)])
    for v in values:
        env[s.var] = env["#" + s.var] = v
        yield active
    env.pop("#" + s.var, None)


def _thread_rounds(p: Program, s: Any, active: int, env: Env) -> Iterator[int]:
    """Bounds that depend on the thread: the variable is `lo + round * step`, which `Program` put in its place."""
    cond = p.thread_loops[s.var]
    for j in range(_MOST_ROUNDS):
        env[s.var + "#"] = j
        inner = p.chosen(cond, active, env)
        if not inner:
            return
        yield inner
    raise Unsupported(f"more than {_MOST_ROUNDS} iterations of the loop over {s.var}", p.pointers[id(s)])


_MOST_ROUNDS = 1 << 20  # walking more takes minutes


# ----------------------------------------------------------------------------------------------------------- divergence
def partial_group(active: int, threads: int, size: int = 32) -> int | None:
    """The first warp (or group of `size` threads) that is only partly active."""
    whole = (1 << size) - 1
    for w in range(-(-threads // size)):
        if active >> size * w & whole not in (0, whole):
            return w
    return None


def divergence(
    p: Program, code: str, what: str, pointer: str, active: int, env: Env, narrowed: Narrowed, warp: int | None = None,
    size: int = 32,
) -> Fault:  # fmt: skip
    """Threads of the block, or of a warp (or warpgroup), are missing where all must be."""
    total, have = p.threads, active.bit_count()
    where, cond, _ = narrowed[-1] if narrowed else ("", "the thread count", 0)
    if warp is not None:
        total, have = size, (active >> size * warp & (1 << size) - 1).bit_count()
    of = f"{'warp' if size == 32 else 'warpgroup'} {warp}" if warp is not None else "the block"
    missing = next(bits(p.everyone & ~active), p.threads)
    message = (
        f"{what} is reached by {have} of {total} threads of {of}: {cond} decides, and thread {missing} is not there"
    )
    return decided(code, pointer, message, point(env) | {"t": next(bits(active)), "t2": missing}, where)


def unmatched(
    p: Program, row: str, members: int, pointer: str, active: int, env: Env, narrowed: Narrowed
) -> Fault | None:
    """The first warp whose lanes that come are not those that a mask names."""
    for w in range(-(-p.threads // 32)):
        here = active >> 32 * w & ALL_LANES
        if here in (0, members):
            continue
        lane = next(bits(here ^ members))
        said = "comes and is not named" if here >> lane & 1 else "is named and does not come"
        where, cond, _ = narrowed[-1] if narrowed else ("", "the thread count", 0)
        message = f"{row} names lanes {members:#010x} of a warp: lane {lane} of warp {w} {said} ({cond} decides)"
        fault = decided("AMK305", pointer, message, point(env) | {"t": next(bits(here)) + 32 * w}, where)
        return fault._replace(hint="name in `members` exactly the lanes for which the conditions around it hold")
    return None


def decided(code: str, pointer: str, message: str, at: Mapping[str, int], where: str) -> Fault:
    """A fault of the condition around a statement."""
    related = (Second(where, "what decides"),) if where else ()
    hint = "move it out of the branch, or make the condition the same for all threads"
    return Fault(code, pointer, message, at, related, hint)
