"""Tier 0 of the bounds prover: facts that are known to be >= 0, and what follows from them.

In: integer terms and conditions. Out: `prove(term)`, true only if the term is >= 0 wherever the facts hold.

A fact is tightened by the gcd of its coefficients (`K - c - 1 >= 0` with all multiples of 4 is `K - c - 4 >= 0`).
Products of sizes are atoms' products; `p >= 0` is also shown by `w * (p + 1) >= 1` for a `w >= 0`, which is how a
quotient by a size gets its bound.

Source: Cooper, "Theorem proving in arithmetic without multiplication" (1972), the gcd tightening of integer facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd

from amk.dsl.expr import Apply, Expr, has_elements, names
from amk.harness.intervals import Interval
from amk.harness.terms import CASTS, Mono, Poly, Terms, product, scaled_sum

__all__ = ["CASTS", "Facts", "Mono", "Poly", "scaled_sum"]

BUDGET, DEPTH, SPLITS = 600, 4, 3


def tight(p: Poly) -> Poly:
    """A fact `p >= 0` over integers, its constant rounded down to the gcd of the other coefficients."""
    g = gcd(*(c for m, c in p.items() if m))
    return p if g < 2 else {**p, (): p.get((), 0) // g * g}


class Facts(Terms):
    """Ranges and divisors of variables, and the facts on the path to the current statement."""

    def __init__(self, ranges: Mapping[str, Interval], scales: Mapping[str, int]) -> None:
        super().__init__(ranges, scales)
        self.path: list[Poly] = []
        self._about: dict[Expr, tuple[Poly, ...]] = {}
        self._meanings: dict[tuple[Expr, bool], tuple[Poly, ...]] = {}
        self._left = 0

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
            found = tuple(self._definition(atom)) if isinstance(atom, Apply) else ()
            if not found and isinstance(atom, Apply) and atom.op in ("//", "%"):
                return tuple(self._on_path(atom))
            self._about[atom] = found
        return found

    def _on_path(self, e: Apply) -> Iterator[Poly]:
        """What a quotient or a remainder is where facts of the path alone say that its divisor is positive."""
        me: Poly = {(e,): 1}
        a, d = self.poly(e.args[0]), self.poly(e.args[1])
        if not self._known(scaled_sum(d, 1, {(): 1}, -1)):
            return
        if e.op == "%":
            yield scaled_sum(scaled_sum(d, 1, me, -1), 1, {(): 1}, -1)
        else:
            excess = scaled_sum(a, 1, product(d, me), -1)
            yield from (excess, scaled_sum(scaled_sum(d, 1, excess, -1), 1, {(): 1}, -1))
        if e.op == "%" or self._known(a):
            yield me
        if self._known(a):
            yield scaled_sum(a, 1, me, -1)

    def _known(self, p: Poly) -> bool:
        """The polynomial is >= 0 by its interval, or a fact says so."""
        return self.span(p)[0] >= 0 or tight(p) in self.path

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
        if self._eliminate(p, DEPTH) or self._multiplied(p):
            return True
        atom = next((x for m in p for x in m if isinstance(x, Apply) and x.op in ("select", "min", "max")), None)
        if atom is None or not splits:
            return False
        return all(self._case(p, atom, cond, value, splits - 1) for cond, value in _cases(atom))

    def _multiplied(self, p: Poly) -> bool:
        """p >= 0 because w * (p + 1) >= 1 for some w >= 0 by which an atom of p is multiplied in a fact."""
        mine = {x for m in p for x in m}
        known = (*self.path, *(f for x in mine for f in self.about(x)))
        by = dict.fromkeys(w for f in known for m in f if len(m) == 2 and not mine.isdisjoint(m) for w in m)
        for w in by:
            if self._atom(w)[0] >= 0:
                scaled = scaled_sum(product({(w,): 1}, scaled_sum(p, 1, {(): 1}, 1)), 1, {(): 1}, -1)
                self._left = BUDGET
                if self._eliminate(scaled, DEPTH):
                    return True
        return False

    def _case(self, p: Poly, atom: Apply, cond: tuple[Expr, bool], value: Expr, splits: int) -> bool:
        depth = len(self.path)
        self.know(*cond)
        try:
            if any(self.span(f)[1] < 0 for f in self.path[depth:]):
                return True  # the case does not occur
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
