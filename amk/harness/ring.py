"""Loops over a size: how many iterations stand for every trip count (the argument is in `amk/harness/cutoff.py`).

In: a Program. Out: the trip count up to which such loops must be walked, and afterwards whether they were.
A loop qualifies where its variable reaches addresses and conditions in two ways only: under `% c`, or as a carried
value that goes round, which is a function of the iteration modulo the period P; or in a comparison that is linear in
the iteration and turns within a proved number of iterations of the first (S) or of the last (E). All else is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, lcm
from typing import Any, NamedTuple

from amk.dsl.expr import BUILTINS, COMPARISONS, Apply, Const, Expr, Var, names, parts, subst, subterms
from amk.dsl.kernel import children, expressions, walk
from amk.dsl.nodes import For, Statement
from amk.harness.affine import Facts, Poly, scaled_sum
from amk.harness.cycles import Cycles, cycles_of
from amk.harness.events import BLOCKS, GRID, Env, Program, Unsupported
from amk.harness.intervals import Interval

__all__ = ["Nest", "Rings", "check_trips", "rings", "symbolic"]

_LIMIT = 160  # iterations walked for one loop; a longer ring or look-ahead is refused
_DISTANCES: tuple[int, ...] = (*range(9), 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128)
_J = Var("#j")  # the iteration, counted from zero


class Nest(NamedTuple):
    """A loop over a size, and the one inside it, with how far each is walked: see `cutoff`."""

    outer: For
    inner: For | None
    window: int  # iterations of the inner loop within which anything has to do with anything else
    starts: int  # states from which the inner loop is walked

    def most(self, n: int) -> int:
        """Rounds of the outer loop that stand for all more, where the inner one takes n iterations."""
        return self.starts + 1 + -(-self.window // max(n, 1))


class Rings(NamedTuple):
    """What the loops over a size ask of sizes and blocks."""

    tops: dict[int, int]  # by loop: iterations up to which each trip count is a case of its own
    periods: dict[int, int]  # by loop: above that, only the remainder counts
    loops: tuple[For, ...]  # all loops, in program order
    moving: frozenset[str]  # variables and carried values that follow loops over a size
    cycles: dict[str, Interval]  # carried values that go round
    ends: dict[Expr, list[Expr]]  # by comparison with a loop: the terms that say when it turns
    starts: list[tuple[Expr, int]]  # terms of which only the remainder counts
    nests: tuple[Nest, ...]

    def wanted(self, p: Program, env: Env) -> bool:
        """Whether a choice of trip counts of nested loops is walked, or another stands for it."""
        return all(_wanted(p, nest, env) for nest in self.nests)


def rings(p: Program) -> Rings:
    """Every loop over a size, read. Raises Unsupported where an address or a condition follows one in another way."""
    nests = [(s, _inner(p, s, pointer), pointer) for pointer, s in _outermost(p, p.kernel.body, "/body")]
    found: list[_Ring] = []
    cycles: dict[str, Interval] = {}
    going = [cycles_of(p, s, below[0] if below else None) for s, below, _ in nests]
    for (s, below, pointer), goes in zip(nests, going, strict=True):
        cycles |= goes.values
        for loop, where in ((s, pointer), *((below,) if below else ())):
            found.append(_Ring(p, loop, where, goes, below is None))
    for r in found:
        r.scan()
    period = lcm(*(r.period for r in found))
    first, last = (max((getattr(r, x) for r in found), default=0) for x in ("first", "last"))
    groups = max((s.pending for _, s in p.statements if s.kind == "wait"), default=0)
    around = 2 * period + first + last + groups + 2
    made = [_nest(p, s, below, goes, around, period) for (s, below, _), goes in zip(nests, going, strict=True)]
    limit = max((n.window if n.inner else around for n in made), default=0)
    if limit > _LIMIT:
        said = f"a ring of {period} slots and a look-ahead of {first + last} iterations"
        raise Unsupported(f"{said}: more than {_LIMIT} iterations would have to be walked")
    ends: dict[Expr, list[Expr]] = {}
    for r in found:
        for e, x in r.ends:
            ends.setdefault(e, []).append(x)
    tops, periods = {}, {}
    for n in made:
        tops[id(n.outer)], periods[id(n.outer)] = around - period, period
        if n.inner is not None:
            every = 1 if n.starts == 1 else period
            tops[id(n.inner)], periods[id(n.inner)] = n.window, every
            tops[id(n.outer)], periods[id(n.outer)] = n.most(1), 1
    moving = frozenset(n for r in found for n in r.moving) - cycles.keys()
    loops = tuple(s for _, s in p.statements if s.kind == "for")
    starts = [(e, n * period) for r in found for e, n in r.starts() if not r.nested]
    return Rings(tops, periods, loops, moving, cycles, ends, starts, tuple(n for n in made if n.inner is not None))


def _nest(p: Program, outer: For, below: tuple[For, str] | None, goes: Cycles, around: int, period: int) -> Nest:
    """How far a loop and the one inside it are walked."""
    if below is None:
        return Nest(outer, None, around, 1)
    ahead = around - 2 * period  # first, last, groups and 2
    if goes.alike and period == goes.period:
        return Nest(outer, below[0], 2 * goes.slots + ahead, 1)
    return Nest(outer, below[0], around, goes.starts)


def _wanted(p: Program, nest: Nest, env: Env) -> bool:
    """No round, one, and as many as bring every start and every neighbour."""
    assert nest.inner is not None
    rounds, n = (_trips(p, s, env) for s in (nest.outer, nest.inner))
    return rounds in (0, 1, nest.most(n))


def _trips(p: Program, s: For, env: Env) -> int:
    return len(range(*(p.value(e, env) for e in (s.lo, s.hi, s.step))))


def _outermost(p: Program, body: tuple[Statement, ...], pointer: str) -> Iterator[tuple[str, For]]:
    """The loops over a size that stand in no other."""
    for i, s in enumerate(body):
        here = f"{pointer}/{i}"
        if s.kind == "for" and p.matters(s) and symbolic(p, s):
            yield here, s
            continue
        for below, inner in children(s):
            yield from _outermost(p, inner, here + below)


def _inner(p: Program, s: For, pointer: str) -> tuple[For, str] | None:
    """The one loop over a size inside another."""
    inside = [(x, q) for q, x in walk(s.body, pointer + "/body") if x.kind == "for" and p.matters(x)]
    for x, q in inside:
        if names(p.inline(x.lo)) & _follows(s) or names(p.inline(x.hi)) & _follows(s):
            raise Unsupported(f"an inner trip count that depends on the loop over {s.var}", q)
    found = [(x, q) for x, q in inside if symbolic(p, x)]
    if len(found) > 1:
        what = "several loops over a size inside a loop over a size, all with shared memory or barriers"
        raise Unsupported(what, found[1][1])
    return found[0] if found else None


def _follows(s: For) -> set[str]:
    return {s.var, *(c.name for c in s.carry)}


def check_trips(p: Program, r: Rings) -> None:
    """The walk must have run each loop over a size past what is walked exactly, or through all that its bounds allow.

    Beyond `limit - period` iterations one trip count of each remainder stands for all, and sizes need not have each.
    """
    for pointer, s in p.statements:
        if s.kind == "for" and p.matters(s) and symbolic(p, s):
            found, limit = p.rounds.get(id(s), 0), r.tops[id(s)] + 1
            if found < limit and not _bounded(p, s, found) and not (limit > 2 and _short(p, s, r, found)):
                raise Unsupported(f"a trip count of {limit} or more, which no size tried gives to {s.var}", pointer)


def _short(p: Program, s: For, r: Rings, found: int) -> bool:
    """Whether the outer loop of a nest was walked as far as the shortest inner one asks."""
    return any(s is n.outer and found >= n.most(1) for n in r.nests)


def _bounded(p: Program, s: Any, found: int) -> bool:
    """Whether a constant in a `min`, or the largest sizes, keep the trip count at what was walked."""
    lo, hi, step = (p.inline(e) for e in (s.lo, s.hi, s.step))
    tops = [x for x in hi.args if isinstance(x, Const)] if isinstance(hi, Apply) and hi.op == "min" else []
    if isinstance(lo, Const) and isinstance(step, Const):
        first, by = int(lo.value), int(step.value)
        if any(len(range(first, int(x.value), by)) <= found for x in tops):
            return True
    used = names(lo) | names(hi) | names(step)
    if used & {*BLOCKS, *GRID}:
        used = used.union(*map(names, p.kernel.grid))
    small = all(q.max <= 4096 for q in p.kernel.scalars if q.name in used)
    return small and not used & {"t", *BLOCKS} and _walked_max(p, s) <= found


def _walked_max(p: Program, s: Any) -> int:
    """Iterations at the largest sizes."""
    env: Env = {q.name: q.max // q.multiple_of * q.multiple_of for q in p.kernel.scalars} | {"bx": 0, "by": 0, "bz": 0}
    env |= dict(zip(("gx", "gy", "gz"), (p.value(e, env) for e in p.kernel.grid3), strict=True))
    return len(range(p.value(s.lo, env), p.value(s.hi, env), p.value(s.step, env)))


def symbolic(p: Program, s: Any) -> bool:
    used = frozenset().union(*(names(p.inline(e)) for e in (s.lo, s.hi, s.step)))
    return bool(used & ({x.name for x in p.kernel.scalars} | set(BUILTINS) - {"t"}))


class _Ring:
    """How the variable of one symbolic loop, and what it carries, reach addresses and conditions."""

    def __init__(self, p: Program, s: For, pointer: str, goes: Cycles, single: bool) -> None:
        self.p, self.s, self.pointer, self.nested = p, s, pointer, not single
        self.period, self.first, self.last = goes.period, goes.before, 0
        self.ends: list[tuple[Expr, Expr]] = []
        self.steps: dict[str, int] = {}  # names that grow by a constant each iteration
        self.cycles = goes.values
        step = p.inline(s.step)
        if isinstance(step, Const):
            self.steps[s.var] = int(step.value)
        for c in s.carry:
            grows = _increment(p.inline(c.next), c.name)
            if grows is not None:
                self.steps[c.name] = grows
        self.moving = frozenset({s.var, s.var + "#", *(c.name for c in s.carry)} - self.cycles.keys())
        self._facts: Facts | None = None

    # -- terms ------------------------------------------------------------------------------------------------------
    def scan(self) -> None:
        """Finds P, S and E; Unsupported where an address or a condition follows the loop in another way."""
        inside = {id(x) for _, x in walk(self.s.body)}
        for pointer, x in self.p.statements:
            if x is self.s:
                continue
            compared = id(x) in inside  # what is carried can be read after the loop, where its value has no bound
            for e in self.p.deciding(x):
                self._scan(e, pointer, False)
            if x.kind == "load" and x.when is not None and self.p.operands(x) and not self.p.data(x.when):
                self._scan(self.p.inline(x.when), pointer, compared)
            if x.kind in ("for", "if") and self.p.matters(x):
                for _, e in expressions(x):
                    self._scan(self.p.inline(e), pointer, compared and x.kind == "if")

    def _scan(self, e: Expr, pointer: str, condition: bool) -> None:
        if not names(e) & self.moving:
            return
        if isinstance(e, Apply) and (n := _modulus(e)):
            return self._turn(e, n, pointer)
        if isinstance(e, Apply) and e.op in COMPARISONS and condition and not self._nested(e):
            return self._compare(e, pointer)
        if isinstance(e, Var) or not parts(e):
            raise Unsupported(f"{e} of a loop over a size stands in a shared address or condition without % ", pointer)
        for x in parts(e):
            self._scan(x, pointer, condition)

    def _nested(self, e: Expr) -> bool:
        return any(isinstance(x, Apply) and _modulus(x) and names(x) & self.moving for x in subterms(e))

    def _turn(self, e: Apply, n: int, pointer: str) -> None:
        for x in subterms(e.args[0]):
            if isinstance(x, Apply) and x.op == "//" and isinstance(x.args[1], Const):
                n *= int(x.args[1].value)
        for name in names(e) & self.moving:
            step = self.steps.get(name)
            if not step:
                raise Unsupported(f"{name}, which does not grow by a constant, in {e}", pointer)
            self.period = lcm(self.period, n // gcd(n, step))

    # -- comparisons ------------------------------------------------------------------------------------------------
    def _compare(self, e: Apply, pointer: str) -> None:
        """Within how many iterations of the first or the last the comparison turns, for every size and thread."""
        if any(not self.steps.get(n) for n in names(e) & self.moving):
            raise Unsupported(f"{e} depends on a carried value that does not grow by a constant", pointer)
        if self.p.data(e):
            return  # the walk does not know its value and takes both sides
        facts = self._known()
        left, right = (facts.poly(self._by_iteration(x)) for x in e.args)
        gap = scaled_sum(left, 1, right, -1)
        slope = gap.pop((_J,), 0)
        if not slope or any(_J.name in names(x) for m in gap for x in m):
            raise Unsupported(f"the condition {e} is not linear in the loop", pointer)
        end = self._counted_from_end(gap, slope)
        if (d := self._within(gap, abs(slope))) is not None:
            self.first = max(self.first, d + 1)
            self.ends.append((e, facts.term(gap)))
        elif end is not None and (d := self._within(*end)) is not None:
            self.last = max(self.last, d + int(end[1] > abs(slope)))
            self.ends.append((e, facts.term(end[0])))
        else:
            said = f"{e} turns in an iteration that neither constants nor the trip count fix within {_DISTANCES[-1]}"
            raise Unsupported(said, pointer)

    def _by_iteration(self, e: Expr) -> Expr:
        """The term with the loop variable and what grows beside it as functions of the iteration."""
        starts = {self.s.var: self.s.lo, **{c.name: c.init for c in self.s.carry}}
        return subst(e, {n: self.p.inline(starts[n]) + _J * by for n, by in self.steps.items()})

    def _counted_from_end(self, gap: Poly, slope: int) -> tuple[Poly, int] | None:
        """The same, counted from the end: `gap + slope * trips` is bounded (times the step, as trips round up)."""
        by = self.steps.get(self.s.var, 0)
        if by <= 0:
            return None
        facts = self._known()
        length = scaled_sum(facts.poly(self.p.inline(self.s.hi)), 1, facts.poly(self.p.inline(self.s.lo)), -1)
        return scaled_sum(gap, by, length, slope), abs(slope) * by

    def starts(self) -> list[tuple[Expr, int]]:
        """Where the variable and what is carried begin, each with what it grows by."""
        begin = {self.s.var: self.s.lo, **{c.name: c.init for c in self.s.carry}}
        return [(self.p.inline(begin[n]), abs(by)) for n, by in self.steps.items() if by]

    def _within(self, gap: Poly, unit: int) -> int | None:
        """The least d of a few with |gap| <= d * unit, proved for all values."""
        facts = self._known()
        lo, hi = facts.span(gap)
        if max(-lo, hi) <= _DISTANCES[-1] * unit:
            return min(d for d in _DISTANCES if max(-lo, hi) <= d * unit)

        def shown(d: int) -> bool:
            return all(facts.prove_poly(scaled_sum({(): d * unit}, 1, gap, sign)) for sign in (1, -1))

        return next(filter(shown, _DISTANCES), None) if shown(_DISTANCES[-1]) else None

    def _known(self) -> Facts:
        """Ranges of everything but the iteration."""
        if self._facts is None:
            kernel = self.p.kernel
            whole = [q for q in kernel.scalars if q.dtype not in ("f32", "f64", "f16", "bf16")]
            ranges = {q.name: (q.min, q.max) for q in whole} | {"t": (0, kernel.threads - 1)} | self.cycles
            ranges |= dict.fromkeys((*BLOCKS, *GRID), (0, 2**31 - 1))
            self._facts = Facts(ranges, {q.name: q.multiple_of for q in whole})
            for _, s in self.p.statements:
                if s.kind == "for":
                    self._inner(s, self._facts)
        return self._facts

    def _inner(self, s: For, facts: Facts) -> None:
        """Ranges of other loops' variables: constant bounds, or rounds of a loop whose bounds follow the thread."""
        if values := self.p.fixed.get(s.var):
            facts.ranges[s.var] = min(values), max(values)
        step = self.p.inline(s.step)
        if s.var in self.p.thread_loops and isinstance(step, Const) and int(step.value) > 0:
            least, most = facts.interval(self.p.inline(s.lo))[0], facts.interval(self.p.inline(s.hi))[1]
            facts.ranges[s.var + "#"] = 0, max(0, -(-(most - least) // int(step.value)))


def _increment(e: Expr, name: str) -> int | None:
    """c where the term is `name + c`."""
    if isinstance(e, Apply) and e.op == "+" and e.args[0] == Var(name) and isinstance(e.args[1], Const):
        return int(e.args[1].value)
    return None


def _modulus(e: Apply) -> int:
    if e.op == "%" and isinstance(e.args[1], Const):
        return int(e.args[1].value)
    if e.op == "&" and isinstance(e.args[1], Const) and int(e.args[1].value) & (int(e.args[1].value) + 1) == 0:
        return int(e.args[1].value) + 1
    return 0
