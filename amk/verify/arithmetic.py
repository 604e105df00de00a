"""Duties of the operators in a term: integer sums fit their type, and `//`, `%`, `cdiv` and shifts have operands for
which C and mathematics agree. The sides of a selection are judged under its condition."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.expr import Apply, Const, Expr, Var, has_elements, parts
from amk.verify.claims import Claims
from amk.verify.dtypes import INTEGERS, family, span

__all__ = ["ALL", "INDICES", "NARROW", "terms"]

GROWING = frozenset(("+", "-", "*", "neg", "<<"))
DIVIDING = frozenset(("//", "%", "cdiv"))
ALL, INDICES, NARROW = "all", "indices", "narrow"  # sums that must fit: all, those without data, those of 32 bits


def terms(c: Claims, e: Expr, at: str, sums: str) -> None:
    """The duties of every operator in a term."""
    if isinstance(e, (Var, Const)):
        return
    if isinstance(e, Apply) and e.op in ("select", "and", "or"):
        terms(c, e.args[0], at, sums)
        for x, side in zip(e.args[1:], _sides(e), strict=True):
            mark = c.mark()
            c.suppose(c.inline(side), side)
            terms(c, x, at, sums)
            c.back(mark)
        return
    for x in parts(e):
        terms(c, x, at, sums if isinstance(e, Apply) else ALL)
    if isinstance(e, Apply):
        for rule, claim, goal, text in _operator(c, e, sums):
            c.claim(rule, at, claim, goal, text)
            if rule == "AMK208" and isinstance(goal, Apply) and goal.op == ">=" and isinstance(goal.args[1], Const):
                c.learn(goal.args[0], int(goal.args[1].value))


def _sides(e: Apply) -> tuple[Expr, ...]:
    """The conditions under which the later operands of a selection, an `and` or an `or` are evaluated."""
    cond = e.args[0]
    other: Expr = Const(not cond.value) if isinstance(cond, Const) else Apply("not", (cond,))
    return (cond, other) if e.op == "select" else (cond,) if e.op == "and" else (other,)


def _operator(c: Claims, e: Apply, sums: str) -> Iterator[tuple[str, str, Expr, str]]:
    if e.op in DIVIDING or e.op in ("<<", ">>"):
        for text, goal in _operands(c, e):
            yield "AMK208", text, goal, text
    if (e.op in GROWING or e.op in ("i32", "u32")) and (sums != INDICES or not has_elements(e)):
        yield from _fits(c, e, sums)


def _operands(c: Claims, e: Apply) -> Iterator[tuple[str, Expr]]:
    dtype = c.types.of(e)
    if dtype not in INTEGERS and dtype != "int":
        return
    (x, y), (a, b) = e.args, map(c.inline, e.args)
    if e.op in DIVIDING:
        yield f"{y} >= 1", Apply(">=", (b, Const(1)))
        if e.op != "cdiv" or dtype[0] == "u":
            yield f"{x} >= 0", Apply(">=", (a, Const(0)))
        return
    top = 63 if c.types.of(x) in ("i64", "u64") else 31
    yield f"{y} >= 0", Apply(">=", (b, Const(0)))
    yield f"{y} <= {top}", Apply("<=", (b, Const(top)))
    yield f"{x} >= 0", Apply(">=", (a, Const(0)))


def _fits(c: Claims, e: Apply, sums: str) -> Iterator[tuple[str, str, Expr, str]]:
    cast = e.op in ("i32", "u32")
    if cast and family(c.types.of(e.args[0])) == "float":
        return
    dtype = e.op if cast else c.types.of(e)
    dtype = "i32" if dtype == "int" else dtype
    limits = span(dtype)
    if limits is None or (sums == NARROW and dtype not in ("i32", "u32")):
        return
    inner, (low, high) = c.inline(e.args[0] if cast else e), limits
    goal = Apply("and", (Apply("<=", (Const(low), inner)), Apply("<=", (inner, Const(high)))))
    yield "AMK204", f"{e} fits {dtype}", goal, f"{low} <= {e} and {e} <= {high}"
