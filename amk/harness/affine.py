"""Tier 0 of the bounds prover: polynomials over integer atoms, intervals, and facts that are known to be >= 0.

In: integer terms and conditions. Out: `prove(term)`, true only if the term is >= 0 wherever the facts hold.

A size that is a multiple of m is m times a quotient, so divisibility is visible in the coefficients; a fact is then
tightened by the gcd of its coefficients (`K - c - 1 >= 0` with all multiples of 4 is `K - c - 4 >= 0`).

Source: Cooper, "Theorem proving in arithmetic without multiplication" (1972), the gcd tightening of integer facts;
Moore, "Interval Analysis" (1966).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd

from amk.dsl.expr import Apply, Const, Elem, Expr, Var, apply, has_elements, names
from amk.harness.intervals import WIDE, Interval, combine, multiple, times

__all__ = ["Facts", "Mono", "Poly", "scaled_sum"]

Mono = tuple[Expr, ...]
Poly = dict[Mono, int]  # () is the constant term
CASTS = frozenset(("i32", "i64", "u32"))
BUDGET, DEPTH, SPLITS = 600, 4, 3
MAX_TERMS = 64


def scaled_sum(a: Poly, x: int, b: Poly, y: int) -> Poly:
    """a*x + b*y."""
    out = dict(a) if x == 1 else {m: c * x for m, c in a.items()} if x else {}
    for m, c in b.items():
        n = out.get(m, 0) + c * y
        if n:
            out[m] = n
        else:
            out.pop(m, None)
    return out


def product(a: Poly, b: Poly) -> Poly:
    """a * b, monomials with sorted factors."""
    out: Poly = {}
    for m, c in a.items():
        for n, d in b.items():
            key = tuple(sorted(m + n, key=str)) if m and n else m or n
            out[key] = out.get(key, 0) + c * d
    return {m: c for m, c in out.items() if c}


def tight(p: Poly) -> Poly:
    """A fact `p >= 0` over integers, its constant rounded down to the gcd of the other coefficients."""
    g = gcd(*(c for m, c in p.items() if m))
    return p if g < 2 else {**p, (): p.get((), 0) // g * g}


class Facts:
    """Ranges and divisors of variables, and the facts on the path to the current statement."""

    def __init__(self, ranges: Mapping[str, Interval], scales: Mapping[str, int]) -> None:
        self.ranges = dict(ranges)
        self.scales = {n: m for n, m in scales.items() if m > 1}
        for n, m in self.scales.items():
            lo, hi = self.ranges[n]
            self.ranges[f"{n}/{m}"] = (-(-lo // m), hi // m)
        self.elements: dict[str, Interval] = {}
        self.path: list[Poly] = []
        self._polys: dict[Expr, Poly] = {}
        self._spans: dict[Expr, Interval] = {}
        self._about: dict[Expr, tuple[Poly, ...]] = {}
        self._meanings: dict[tuple[Expr, bool], tuple[Poly, ...]] = {}
        self._left = 0

    # -- normal form ------------------------------------------------------------------------------------------------
    def poly(self, e: Expr) -> Poly:
        """The term as a polynomial; what is neither sum nor product becomes an atom."""
        found = self._polys.get(e)
        if found is None:
            found = self._polys[e] = self._normal(e)
        return found

    def _normal(self, e: Expr) -> Poly:
        if isinstance(e, Const) and isinstance(e.value, int):
            return {(): int(e.value)} if e.value else {}
        if isinstance(e, Var):
            m = self.scales.get(e.name)
            return {(Var(f"{e.name}/{m}"),): m} if m else {(e,): 1}
        if not isinstance(e, Apply):
            return {(e,): 1}
        op = e.op
        if op in CASTS and self._integer(e.args[0]):
            return self.poly(e.args[0])
        if op == "neg":
            return scaled_sum({}, 0, self.poly(e.args[0]), -1)
        if op in ("+", "-"):
            return scaled_sum(self.poly(e.args[0]), 1, self.poly(e.args[1]), 1 if op == "+" else -1)
        if op == "*":
            a, b = self.poly(e.args[0]), self.poly(e.args[1])
            return product(a, b) if len(a) * len(b) <= MAX_TERMS else {(e,): 1}
        return self._divided(e)

    def _integer(self, e: Expr) -> bool:
        """Only integer variables and operators (a cast of anything else says nothing about its value)."""
        if isinstance(e, Const):
            return type(e.value) is int
        if isinstance(e, Apply):
            return e.op not in ("/", "f32", "f64", "fma") and all(map(self._integer, e.args))
        return isinstance(e, Var) and e.name in self.ranges

    def _divided(self, e: Apply) -> Poly:
        d = e.args[1].value if len(e.args) > 1 and isinstance(e.args[1], Const) else None
        if type(d) is not int or d < (0 if e.op in ("<<", ">>") else 1):
            return {(e,): 1}
        if e.op == "<<" and d < 63:
            return scaled_sum(self.poly(e.args[0]), 1 << d, {}, 0)
        if e.op == ">>" and d < 63:
            return self._quotient(self.poly(e.args[0]), 1 << d)
        if e.op == "cdiv":
            return self._quotient(scaled_sum(self.poly(e.args[0]), 1, {(): d - 1}, 1), d)
        if e.op == "&" and d & (d + 1) == 0:
            return self._remainder(self.poly(e.args[0]), d + 1)
        if e.op == "//":
            return self._quotient(self.poly(e.args[0]), d)
        return self._remainder(self.poly(e.args[0]), d) if e.op == "%" else {(e,): 1}

    def _quotient(self, p: Poly, d: int) -> Poly:
        """floor(p / d): what d divides comes out, and the rest is an atom unless it lies in [0, d)."""
        whole, rest = {m: c // d for m, c in p.items() if c % d == 0}, {m: c for m, c in p.items() if c % d}
        lo, hi = self.span(rest)
        if rest and not (lo >= 0 and hi < d):
            whole = scaled_sum(whole, 1, {(Apply("//", (self.term(rest), Const(d))),): 1}, 1)
        return whole

    def _remainder(self, p: Poly, d: int) -> Poly:
        rest = {m: c % d if m == () else c for m, c in p.items() if c % d}
        lo, hi = self.span(rest)
        return rest if lo >= 0 and hi < d else {(Apply("%", (self.term(rest), Const(d))),): 1}

    @staticmethod
    def term(p: Poly) -> Expr:
        """The polynomial as a term."""
        out: Expr = Const(0)
        for m in sorted(p, key=str):
            part: Expr = Const(p[m])
            for x in m:
                part = apply("*", part, x)
            out = apply("+", out, part)
        return out

    # -- intervals --------------------------------------------------------------------------------------------------
    def span(self, p: Poly) -> Interval:
        """Bounds of a polynomial from the ranges alone."""
        lo = hi = p.get((), 0)
        for m, c in p.items():
            if m:
                a, b = self._mono(m)
                lo, hi = (lo + c * a, hi + c * b) if c > 0 else (lo + c * b, hi + c * a)
        return lo, hi

    def interval(self, e: Expr) -> Interval:
        """Bounds of a term from the ranges alone."""
        return self.span(self.poly(e))

    def _mono(self, m: Mono) -> Interval:
        out = self._atom(m[0])
        for x in m[1:]:
            out = times(out, self._atom(x))
        return out

    def _atom(self, e: Expr) -> Interval:
        found = self._spans.get(e)
        if found is None:
            found = self._atom_span(e)
            if not isinstance(e, Var):
                self._spans[e] = found
        return found

    def _atom_span(self, e: Expr) -> Interval:
        if isinstance(e, Var):
            return self.ranges.get(e.name, WIDE)
        if isinstance(e, Elem):
            return self.elements.get(e.buffer, WIDE)
        return combine(e.op, tuple(self.interval(a) for a in e.args)) if isinstance(e, Apply) else WIDE

    def divisor(self, e: Expr) -> int:
        """A number that divides the term for all values (0 for the term 0)."""
        return self.divisor_of(self.poly(e))

    def divisor_of(self, p: Poly) -> int:
        out = 0
        for m, c in p.items():
            part = c
            for x in m:
                part *= multiple(x, self.divisor)
            out = gcd(out, part)
        return out

    # -- facts ------------------------------------------------------------------------------------------------------
    def know(self, cond: Expr, holds: bool = True) -> None:
        """Adds what a condition (or its negation) says; parts with no affine meaning add nothing."""
        found = self._meanings.get((cond, holds))
        if found is None:
            found = self._meanings[cond, holds] = tuple(tight(p) for p in self.meaning(cond, holds))
        self.path.extend(found)

    def meaning(self, cond: Expr, holds: bool = True) -> Iterator[Poly]:
        """The polynomials that are >= 0 where the condition holds (or does not)."""
        if not isinstance(cond, Apply):
            return
        if cond.op == "not":
            yield from self.meaning(cond.args[0], not holds)
        elif cond.op == ("and" if holds else "or"):
            for a in cond.args:
                yield from self.meaning(a, holds)
        elif cond.op in _FLIP and all(map(self._comparable, cond.args)):
            yield from self._compared(cond.op if holds else _FLIP[cond.op], *map(self.poly, cond.args))

    def _comparable(self, e: Expr) -> bool:
        return names(e) <= self.ranges.keys() and not has_elements(e)

    def _compared(self, op: str, a: Poly, b: Poly) -> Iterator[Poly]:
        if op == "!=":  # says something only at the end of an interval
            lo, hi = self.span(scaled_sum(a, 1, b, -1))
            op = ">" if lo >= 0 else "<" if hi <= 0 else op
        if op in ("<", "<=", "=="):
            yield scaled_sum(scaled_sum(b, 1, a, -1), 1, {(): 1}, -1 if op == "<" else 0)
        if op in (">", ">=", "=="):
            yield scaled_sum(scaled_sum(a, 1, b, -1), 1, {(): 1}, -1 if op == ">" else 0)

    def about(self, atom: Expr) -> tuple[Poly, ...]:
        """What the definition of an atom says."""
        found = self._about.get(atom)
        if found is None:
            found = self._about[atom] = tuple(self._definition(atom)) if isinstance(atom, Apply) else ()
        return found

    def _definition(self, e: Apply) -> Iterator[Poly]:
        me: Poly = {(e,): 1}
        if e.op in ("min", "max"):
            for x in e.args:
                yield scaled_sum(self.poly(x), 1 if e.op == "min" else -1, me, -1 if e.op == "min" else 1)
        if e.op not in ("//", "%", "cdiv"):
            return
        a, d = self.poly(e.args[0]), self.poly(e.args[1])
        if self.span(d)[0] < 1:
            return
        if e.op == "%":
            yield scaled_sum(scaled_sum(d, 1, me, -1), 1, {(): 1}, -1)
            if self.span(a)[0] >= 0:
                yield scaled_sum(a, 1, me, -1)
            return
        excess = scaled_sum(product(d, me), 1, a, -1) if e.op == "cdiv" else scaled_sum(a, 1, product(d, me), -1)
        yield excess
        yield scaled_sum(scaled_sum(d, 1, excess, -1), 1, {(): 1}, -1)

    # -- proof ------------------------------------------------------------------------------------------------------
    def prove(self, e: Expr) -> bool:
        """The term is >= 0 wherever the facts hold. False means only: not shown."""
        return self.prove_poly(self.poly(e))

    def prove_poly(self, p: Poly) -> bool:
        if self.span(p)[0] >= 0:
            return True
        self._left = BUDGET
        return self._split(p, SPLITS)

    def _split(self, p: Poly, splits: int) -> bool:
        if self._eliminate(p, DEPTH):
            return True
        atom = next((x for m in p for x in m if isinstance(x, Apply) and x.op in ("select", "min", "max")), None)
        if atom is None or not splits:
            return False
        return all(self._case(p, atom, cond, value, splits - 1) for cond, value in _cases(atom))

    def _case(self, p: Poly, atom: Apply, cond: tuple[Expr, bool], value: Expr, splits: int) -> bool:
        depth = len(self.path)
        self.know(*cond)
        try:
            return self._split(self._replaced(p, atom, self.poly(value)), splits)
        finally:
            del self.path[depth:]

    @staticmethod
    def _replaced(p: Poly, atom: Expr, value: Poly) -> Poly:
        out: Poly = {}
        for m, c in p.items():
            part: Poly = {(): c}
            for x in m:
                part = product(part, value if x == atom else {(x,): 1})
            out = scaled_sum(out, 1, part, 1)
        return out

    def _eliminate(self, p: Poly, depth: int) -> bool:
        """p >= 0 by its interval, or after taking away a multiple of a fact that cancels a harmful monomial."""
        self._left -= 1
        if self.span(p)[0] >= 0:
            return True
        if not depth or self._left < 0:
            return False
        facts = [*reversed(self.path), *(f for x in dict.fromkeys(x for m in p for x in m) for f in self.about(x))]
        for m, c in p.items():
            if not m or self._mono(m)[0 if c > 0 else 1] * c >= 0:
                continue
            for f in facts:
                d = f.get(m, 0)
                if d * c > 0:
                    g = gcd(c, d)
                    if self._eliminate(scaled_sum(p, abs(d) // g, f, -(abs(c) // g)), depth - 1):
                        return True
        return False


_FLIP = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


def _cases(e: Apply) -> tuple[tuple[tuple[Expr, bool], Expr], ...]:
    """The two cases of a selection: what holds in it, and its value there."""
    if e.op == "select":
        return ((e.args[0], True), e.args[1]), ((e.args[0], False), e.args[2])
    less, (a, b) = Apply("<=", e.args), e.args
    return ((less, True), a if e.op == "min" else b), ((less, False), b if e.op == "min" else a)
