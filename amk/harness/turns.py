"""Where terms and conditions of sizes and blocks turn: what of a size or a block can make a difference.

In: a term. Out, in a `Turns`: *gaps*, sums of multiples of sizes and blocks with a window each, outside of which
nothing changes; and *periods*, such that only the remainder of a size or a block counts beside the gaps.
Every term is read as such a sum and a rest. The rest is bounded, and is known from the remainders, the thread and the
variables of loops: floor(x / d) is x / d less a rest that `x % d` decides. A comparison of two terms can change only
where the difference of the sums lies within the bounds of the rests. What has no such form is refused.
Source: quasi-affine terms as in Feautrier, "Dataflow analysis of array and scalar references" (1991).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from fractions import Fraction
from itertools import product
from math import ceil, floor, gcd, lcm
from typing import NamedTuple

from amk.dsl.expr import COMPARISONS, Apply, Const, Elem, Expr, Var, names, subterms
from amk.dsl.nodes import For
from amk.harness.affine import CASTS, Facts
from amk.harness.events import BLOCKS, GRID, Env, Program, Unsupported
from amk.harness.intervals import combine
from amk.harness.ring import Rings

__all__ = ["MOST", "Reader", "Turns", "Vector", "normal"]

MOST = 4096  # values in a window, or in a range that is tried whole
_CASES, _FLOATS = 16, ("f32", "f64", "f16", "bf16")
Vector = tuple[tuple[str, int], ...]  # factors of sizes (in units of their divisor) and blocks, none of them 0
Window = tuple[int, int]  # the sum counts from the first to the last; below is one case, and above is one


class Turns:
    """The gaps and periods of some terms, and the constants that floats are compared with."""

    def __init__(self) -> None:
        self.gaps: dict[Vector, dict[Window, str]] = {}  # with the term that each window comes from
        self.periods: dict[str, int] = {}
        self.floats: dict[str, set[float]] = {}

    @property
    def used(self) -> frozenset[str]:
        """The sizes and blocks that count."""
        return frozenset(n for v in self.gaps for n, _ in v) | self.periods.keys() | self.floats.keys()

    def add(self, other: Turns) -> None:
        """Takes in the turns of other terms."""
        for v, windows in other.gaps.items():
            self.gaps.setdefault(v, {}).update(windows)
        for n, m in other.periods.items():
            self.periods[n] = lcm(self.periods.get(n, 1), m)
        for n, values in other.floats.items():
            self.floats.setdefault(n, set()).update(values)

    def gap(self, by: Mapping[str, Fraction], lo: Fraction, hi: Fraction, said: str) -> None:
        """A sum that counts from lo to hi."""
        if not by:
            return
        by = dict(sorted(by.items()))
        scale = lcm(*(c.denominator for c in by.values()))
        found = normal({n: int(c * scale) for n, c in by.items()}, ceil(lo * scale), floor(hi * scale))
        self.gaps.setdefault(found[0], {}).setdefault(found[1], said)

    def key(self, scales: Mapping[str, int]) -> Callable[[Env], Hashable]:
        """The class of sizes and a block, as a function: those of one class are alike in all the terms."""
        gaps = [(v, list(windows)) for v, windows in self.gaps.items()]
        periods, floats = list(self.periods.items()), [(n, sorted(v)) for n, v in self.floats.items()]

        def at(env: Env) -> Hashable:
            out: list[Hashable] = [env[n] // scales.get(n, 1) % m for n, m in periods]
            for v, windows in gaps:
                total = sum([env[n] // scales.get(n, 1) * c for n, c in v])
                out += [min(max(total, lo - 1), hi + 1) for lo, hi in windows]
            out += [(env[n] > v, env[n] == v) for n, values in floats for v in values]
            return tuple(out)

        return at


def normal(by: Mapping[str, int], lo: int, hi: int) -> tuple[Vector, Window]:
    """A sum without a common factor, its first factor positive, and where it counts."""
    g = gcd(*by.values()) * (1 if next(iter(by.values())) > 0 else -1)
    lo, hi = (lo, hi) if g > 0 else (-hi, -lo)
    return tuple((n, c // g) for n, c in by.items()), (-(-lo // abs(g)), hi // abs(g))


class _Form(NamedTuple):
    """A sum of multiples of sizes and blocks, and the bounds of the rest (one case of a term)."""

    by: Mapping[str, Fraction]
    lo: Fraction
    hi: Fraction

    def sum(self, other: _Form, sign: int = 1) -> _Form:
        by = dict(self.by)
        for n, c in other.by.items():
            by[n] = by.get(n, Fraction(0)) + sign * c
        ends = (other.lo, other.hi) if sign > 0 else (-other.hi, -other.lo)
        return _Form({n: c for n, c in by.items() if c}, self.lo + ends[0], self.hi + ends[1])

    def times(self, c: Fraction) -> _Form:
        lo, hi = sorted((self.lo * c, self.hi * c))
        return _Form({n: x * c for n, x in self.by.items()} if c else {}, lo, hi)


def _rest(lo: int, hi: int) -> _Form:
    return _Form({}, Fraction(lo), Fraction(hi))


class Reader:
    """Reads the terms of one program."""

    def __init__(self, p: Program, rings: Rings) -> None:
        self.p, self.rings = p, rings
        self.params = {q.name: q for q in p.kernel.scalars}
        self.scales = {n: q.multiple_of for n, q in self.params.items() if q.multiple_of > 1}
        self.grid = dict(zip(GRID, p.kernel.grid3, strict=True))
        self.outer = frozenset(self.params) | {*BLOCKS, *GRID}
        ranges = {"t": (0, p.threads - 1), **rings.cycles}
        ranges["rank"] = (0, p.kernel.cluster - 1)
        self.local = Facts(ranges, {})
        for s in rings.loops:
            self._range(s)
        self.into, self.pointer = Turns(), ""
        self.term: Expr = Const(0)

    def _range(self, s: For) -> None:
        """The values of a loop's variable where its bounds depend on the thread and other loops alone."""
        lo, hi, step = (self.p.inline(e) for e in (s.lo, s.hi, s.step))
        if not (names(lo) | names(hi) | names(step)) & (self.outer | self.rings.moving):
            least, most = self.local.interval(lo)[0], self.local.interval(hi)[1]
            self.local.ranges[s.var] = least, max(least, most - 1)
            if s.var in self.p.thread_loops and isinstance(step, Const) and int(step.value) > 0:
                self.local.ranges[s.var + "#"] = 0, max(0, -(-(most - least) // int(step.value)))

    # -- what is asked ----------------------------------------------------------------------------------------------
    def condition(self, e: Expr, pointer: str = "") -> Turns:
        """Who passes a condition."""
        self._start(e, pointer)
        self._truth(e)
        return self.into

    def value(self, e: Expr, pointer: str = "") -> Turns:
        """The value of a term, for all threads."""
        self._start(e, pointer)
        self._bounded(e)
        return self.into

    def remainder(self, e: Expr, m: int, pointer: str = "") -> Turns:
        """The value of a term modulo m."""
        self._start(e, pointer)
        for f in self._forms(e):
            self._remainder(f, m)
        return self.into

    def trips(self, lo: Expr, hi: Expr, by: Expr, top: int, period: int, pointer: str = "") -> Turns:
        """The trip count of a loop up to `top`, and modulo the period of its ring."""
        self._start(hi, pointer)
        step = self._constant(by)
        for f, g in product(self._forms(hi), self._forms(lo)):
            length = f.sum(g, -1)
            self.into.gap(self._still(length), -length.hi, top * step - length.lo, str(hi))
            self._remainder(length, step * period)
        return self.into

    def below(self, block: str) -> Turns:
        """Whether the grid has a block."""
        e = self.grid["g" + block[1]]
        self._start(e, "")
        term = Apply("<", (Var(block), e))
        if isinstance(e, Apply) and e.op in ("cdiv", "//") and isinstance(e.args[1], Const):
            # block < x // d where d * (block + 1) <= x, and block < cdiv(x, d) where d * block < x
            whole = int(e.op == "//")
            term = Apply("<", (e.args[1] * (Var(block) + whole), e.args[0] + whole))
        self._compared(term)
        return self.into

    def _start(self, e: Expr, pointer: str) -> None:
        self.into, self.term, self.pointer = Turns(), e, pointer

    def _refuse(self, why: str) -> Unsupported:
        return Unsupported(f"{self.term}: {why}", self.pointer)

    def is_bool(self, name: str) -> bool:
        """Whether an axis is an argument of type bool."""
        return name in self.params and self.params[name].dtype == "bool"

    def _constant(self, e: Expr) -> int:
        forms = self._forms(e)
        if len(forms) != 1 or forms[0].by or forms[0].lo != forms[0].hi or forms[0].lo <= 0:
            raise self._refuse(f"the step {e} of a loop with shared memory or barriers must be a constant above 0")
        return int(forms[0].lo)

    # -- conditions -------------------------------------------------------------------------------------------------
    def _truth(self, e: Expr) -> None:
        if isinstance(e, Apply) and e.op in ("and", "or", "not"):
            for x in e.args:
                self._truth(x)
        elif isinstance(e, Apply) and e.op in COMPARISONS:
            self._compared(e)
        else:
            for f in self._forms(e):
                self._turn(f)

    def _compared(self, e: Apply) -> None:
        if e in self.rings.ends:
            for x in self.rings.ends[e]:
                self._bounded(x)
            return
        if floats := {n for n in names(e) if n in self.params and self.params[n].dtype in _FLOATS}:
            return self._float(e, floats)
        for f, g in product(self._forms(e.args[0]), self._forms(e.args[1])):
            self._turn(f.sum(g, -1))

    def _turn(self, f: _Form) -> None:
        """Where the sign of a term can change."""
        self.into.gap(self._still(f), -f.hi, -f.lo, str(self.term))

    def _float(self, e: Apply, floats: set[str]) -> None:
        sides = dict(zip(map(type, e.args), e.args, strict=False))
        var, const = sides.get(Var), sides.get(Const)
        if not (isinstance(var, Var) and isinstance(const, Const)):
            raise self._refuse(f"{', '.join(sorted(floats))} may be compared with a constant, and nothing else")
        self.into.floats.setdefault(var.name, set()).add(float(const.value))

    def _bounded(self, e: Expr) -> None:
        """The value counts: all that it can be is tried."""
        for f in self._forms(e):
            lo, hi = self._span(self._still(f))
            if hi - lo > MOST:
                raise self._refuse(f"{e} has more than {MOST} values; bring it below a constant with % or min")
            self.into.gap(f.by, lo, hi, str(self.term))

    def _span(self, by: Mapping[str, Fraction]) -> tuple[Fraction, Fraction]:
        ends = [sorted((c * self.range(n)[0], c * self.range(n)[1])) for n, c in by.items()]
        return sum((x[0] for x in ends), Fraction(0)), sum((x[1] for x in ends), Fraction(0))

    def range(self, name: str) -> tuple[int, int]:
        """Of a size in units of its divisor, or a block: the least and the greatest value."""
        q = self.params.get(name)
        if q is not None:
            return (0, 1) if q.dtype == "bool" else (-(-q.min // q.multiple_of), q.max // q.multiple_of)
        return 0, 2**31 - 1

    # -- terms ------------------------------------------------------------------------------------------------------
    def _still(self, f: _Form) -> Mapping[str, Fraction]:
        """The sum, which must not follow a loop over a size."""
        moving = next((n for n in f.by if n.startswith("~")), None)
        if moving is not None:
            raise self._refuse(f"{moving[1:]} of a loop over a size may stand under % or in a comparison of its own")
        return f.by

    def _forms(self, e: Expr) -> list[_Form]:
        """The cases of a term; which of them holds is a matter of the gaps."""
        if not names(e) & (self.outer | self.rings.moving) and not any("/" in n for n in names(e)):
            if any(isinstance(x, Elem) for x in subterms(e)):
                raise self._refuse("it depends on data")
            if isinstance(e, Const) and type(e.value) is float:
                raise self._refuse(f"the number {e.value} stands among integers")
            return [_rest(*self.local.interval(e))]
        if isinstance(e, Var):
            return self._forms(self.grid[e.name]) if e.name in GRID else [self._variable(e.name)]
        if not isinstance(e, Apply):
            raise self._refuse("it depends on data")
        if e.op in (*COMPARISONS, "and", "or", "not"):
            self._truth(e)
            return [_rest(0, 1)]
        found = {(tuple(sorted(f.by.items())), f.lo, f.hi): f for f in self._apply(e)}
        if len(found) > _CASES:
            raise self._refuse(f"more than {_CASES} cases of min, max and select: name fewer of them in one term")
        return list(found.values())

    def _variable(self, name: str) -> _Form:
        if name in self.rings.moving:
            return _Form({"~" + name: Fraction(1)}, Fraction(0), Fraction(0))
        size, _, unit = name.partition("/")
        q = self.params.get(size)
        if q is not None and q.dtype in _FLOATS:
            raise self._refuse(f"{name} may be compared with a constant, and nothing else")
        scale = 1 if unit or q is None else q.multiple_of
        return _Form({size: Fraction(scale)}, Fraction(0), Fraction(0))

    def _apply(self, e: Apply) -> Iterable[_Form]:
        if e.op == "select":
            self._truth(e.args[0])
            return [*self._forms(e.args[1]), *self._forms(e.args[2])]
        if e.op in CASTS:
            return self._forms(e.args[0])
        if e.op == "neg":
            return [f.times(Fraction(-1)) for f in self._forms(e.args[0])]
        if len(e.args) != 2:
            raise self._refuse(f"{e.op} of a size or a block")
        return (x for f, g in product(*map(self._forms, e.args)) for x in self._joined(e.op, f, g))

    def _joined(self, op: str, f: _Form, g: _Form) -> Iterable[_Form]:
        if op in ("+", "-"):
            return [f.sum(g, 1 if op == "+" else -1)]
        if not f.by and not g.by:
            ends = [(ceil(x.lo), floor(x.hi)) for x in (f, g)]
            corners = [x * y for x in ends[0] for y in ends[1]]
            return [_rest(min(corners), max(corners)) if op == "*" else _rest(*combine(op, tuple(ends)))]
        if op in ("min", "max"):
            self._turn(f.sum(g, -1))
            return f, g
        if op in ("*", "&") and not f.by:
            f, g = g, f
        if g.by or g.lo != g.hi or g.lo.denominator != 1:
            raise self._refuse(f"{op} joins a size or a block with what is no constant")
        return [self._by(op, f, int(g.lo))]

    def _by(self, op: str, f: _Form, c: int) -> _Form:
        """An operator with a constant on the right."""
        if op == "*" or (op == "<<" and 0 <= c < 63):
            return f.times(Fraction(c if op == "*" else 1 << c))
        if op == ">>" and 0 <= c < 63:
            op, c = "//", 1 << c
        if op in ("//", "cdiv") and c > 0:
            self._remainder(f, c)
            least, most = (-(c - 1), 0) if op == "//" else (0, c - 1)
            return f.times(Fraction(1, c)).sum(_Form({}, Fraction(least, c), Fraction(most, c)))
        if op == "%" and c > 0:
            self._remainder(f, c)
            return _rest(0, c - 1)
        if op == "&" and c >= 0:
            self._remainder(f, 1 << c.bit_length())
            return _rest(0, c)
        raise self._refuse(f"{op} {c} of a size or a block; use + - * // % min max and comparisons")

    def _remainder(self, f: _Form, m: int) -> None:
        """What of the sizes and blocks decides the term modulo m."""
        for n, c in f.by.items():
            if not n.startswith("~"):  # of the iteration, the ring has seen to that
                period = m * c.denominator // gcd(c.numerator, m * c.denominator)
                self.into.periods[n] = lcm(self.into.periods.get(n, 1), period)
