"""Integer terms as polynomials over atoms, their intervals from the ranges of variables, and their divisors.

A size that is a multiple of m is m times a quotient, so divisibility is visible in the coefficients.

Source: Moore, "Interval Analysis" (1966).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from amk.dsl.expr import Apply, Const, Elem, Expr, Var, apply
from amk.harness.intervals import WIDE, Interval, combine, multiple, times

__all__ = ["CASTS", "Mono", "Poly", "Terms", "product", "scaled_sum"]

Mono = tuple[Expr, ...]
Poly = dict[Mono, int]  # () is the constant term
CASTS = frozenset(("i32", "i64", "u32"))
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


class Terms:
    """Ranges and divisors of variables, and what they say about a term."""

    def __init__(self, ranges: Mapping[str, Interval], scales: Mapping[str, int]) -> None:
        self.ranges = dict(ranges)
        self.scales = {n: m for n, m in scales.items() if m > 1}
        for n, m in self.scales.items():
            lo, hi = self.ranges[n]
            self.ranges[f"{n}/{m}"] = (-(-lo // m), hi // m)
        self.elements: dict[str, Interval] = {}
        self._polys: dict[Expr, Poly] = {}
        self._spans: dict[Expr, Interval] = {}

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
