"""Intervals of the values that the loops of a nest carry, found and proved together.

The loops hand their values on, so each value has a list of intervals that could hold it, from the narrowest on. All are
supposed at once; whichever does not hold what its value starts with, or what a round makes of it, goes on to its next
one, until all hold: an induction over the rounds of all loops. What runs out of intervals is known by its type alone.
Source: Flanagan and Leino, "Houdini, an annotation assistant for ESC/Java" (FME 2001).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from amk.dsl.expr import Apply, Const, Expr, Var, has_elements, subst, subterms
from amk.dsl.kernel import walk
from amk.dsl.nodes import Carry, For
from amk.verify.claims import Claims
from amk.verify.dtypes import family, span
from amk.verify.values import bounds

__all__ = ["settled"]

MOST = 40  # intervals of one value that are tried
Interval = tuple[int, int]


def settled(c: Claims, s: For) -> frozenset[str]:
    """Narrows what is known of the values that a loop and the loops in it carry; returns those that it speaks of.

    A loop without others in it is left to a proof that also uses the conditions around.
    """
    loops = list(_loops(s))
    carried = [x for loop in loops for x in loop.carry if family(x.dtype) == "int"]
    if len(loops) < 2 or not carried:
        return frozenset()
    for x in carried:
        c.logic.declare(x.name, x.dtype)
    lets = _lets(c, s, {x.name for x in carried})
    terms = {x.name: tuple(subst(e, lets) for e in (x.init, x.next)) for x in carried}
    choices = {x.name: list(_intervals(c, x, terms[x.name], terms.values())) for x in carried}
    while wrong := _first_wrong(c, terms, choices):
        choices[wrong].pop(0)
    for name, left in choices.items():
        if left:
            c.logic.box[name] = left[0]
    return frozenset(name for name, left in choices.items() if left)


def _loops(s: For) -> Iterator[For]:
    yield s
    yield from (x for _, x in walk(s.body) if x.kind == "for")


def _lets(c: Claims, s: For, carried: Set[str]) -> dict[str, Expr]:
    """What the names of the nest stand for, over the values at the start of a round."""
    out = {n: e for n, e in c.env.items() if n not in carried}
    for _, x in walk(s.body):
        if x.kind == "let" and x.value is not None:
            out[x.name] = subst(x.value, out)
    return out


def _intervals(c: Claims, x: Carry, mine: tuple[Expr, ...], every: Iterable[tuple[Expr, ...]]) -> Iterator[Interval]:
    """Intervals between constants of the terms, the narrowest first."""
    parts = (e for pair in every for term in pair for e in subterms(term))
    consts = {int(e.value) for e in parts if isinstance(e, Const) and type(e.value) is int}
    first, (least, most) = bounds(mine[0], c.logic.box), span(x.dtype) or (0, 0)
    lows = {0} | ({first[0]} if first[0] is not None else set())
    highs = {k - d for k in consts for d in (0, 1)} | ({first[1]} if first[1] is not None else set())
    found = [(a, b) for a in lows for b in highs if least <= a <= b <= most]
    yield from sorted(found, key=lambda p: (p[1] - p[0], -p[0]))[:MOST]


def _first_wrong(c: Claims, terms: dict[str, tuple[Expr, ...]], choices: dict[str, list[Interval]]) -> str:
    """A value whose interval does not hold; "" where all do."""
    supposed = [_inside(Var(n), left[0]) for n, left in choices.items() if left]
    for name, left in choices.items():
        if not left:
            continue
        for e in terms[name]:
            if has_elements(e) or not c.logic.holds(_inside(e, left[0]), supposed):
                return name
    return ""


def _inside(e: Expr, ends: Interval) -> Expr:
    return Apply("and", (Apply("<=", (Const(ends[0]), e)), Apply("<=", (e, Const(ends[1])))))
