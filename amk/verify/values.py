"""The value of a term at a point, in Python's integers, and its bounds over a box: the verifier's own two readings."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from amk.dsl.expr import Apply, Const, Elem, Expr, Var, parts

__all__ = ["DATA", "OPS", "Box", "NoValue", "bounds", "evaluate"]

Box = Mapping[str, tuple[int, int]]
Span = tuple[int | None, int | None]  # None: no bound on that side
NONE: Span = (None, None)


class NoValue(Exception):
    """A term has no value at this point: a name without one, a division by zero, a shift that means nothing."""


class _Data:
    """The value of what only a run knows: an element of a register array."""

    def __repr__(self) -> str:
        return "DATA"


DATA = _Data()


def _cdiv(a: int, b: int) -> int:
    return -(-a // b)


def _whole(a: float) -> int:
    return int(a)


OPS: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift,
    ">>": operator.rshift, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
    "!=": operator.ne, "neg": operator.neg, "not": operator.not_, "and": lambda a, b: a and b,
    "or": lambda a, b: a or b, "min": min, "max": max, "cdiv": _cdiv, "select": lambda c, a, b: a if c else b,
    "i32": _whole, "i64": _whole, "u32": _whole, "f32": float, "f64": float,
}  # fmt: skip


def evaluate(e: Expr, at: Mapping[str, Any]) -> Any:
    """The value of a term; DATA where it follows an element. Raises NoValue."""
    if isinstance(e, Const):
        return e.value
    if isinstance(e, Var):
        if e.name not in at:
            raise NoValue(e.name)
        return at[e.name]
    if isinstance(e, Elem):
        return DATA
    assert isinstance(e, Apply)
    return _apply(e, [evaluate(a, at) for a in _needed(e, at)])


def _needed(e: Apply, at: Mapping[str, Any]) -> tuple[Expr, ...]:
    """The operands that count: a side that is not taken may have no value."""
    if e.op in ("select", "and", "or"):
        first = evaluate(e.args[0], at)
        if first is not DATA:
            if e.op == "select":
                return (Const(True), e.args[1], e.args[1]) if first else (Const(True), e.args[2], e.args[2])
            if bool(first) is (e.op == "or"):
                return (Const(bool(first)), Const(bool(first)))
    return e.args


def _apply(e: Apply, a: list[Any]) -> Any:
    if any(x is DATA for x in a):
        return DATA
    of = OPS.get(e.op)
    if of is None:
        return DATA  # a function of floating-point values
    try:
        return of(*a)
    except (ZeroDivisionError, ValueError, OverflowError, TypeError):
        raise NoValue(str(e)) from None


# -------------------------------------------------------------------------------------------------------------- bounds
def bounds(e: Expr, box: Box) -> Span:
    """An interval that holds the term's integer value wherever names lie in the box."""
    if isinstance(e, Const):
        return (int(e.value), int(e.value)) if type(e.value) is int else NONE
    if isinstance(e, Var):
        return box.get(e.name, NONE)
    if not isinstance(e, Apply):
        return NONE
    return _of(e.op, [bounds(a, box) for a in parts(e)])


def _of(op: str, a: list[Span]) -> Span:
    if op == "neg":
        return _minus((0, 0), a[0])
    if op in ("i32", "i64", "u32"):
        return a[0]
    if op == "+":
        return _plus(a[0], a[1])
    if op == "-":
        return _minus(a[0], a[1])
    if op == "select":
        return _either(a[1], a[2])
    if op in ("min", "max"):
        return _least(a[0], a[1]) if op == "min" else _minus((0, 0), _least(*(_minus((0, 0), x) for x in a)))
    (p, q), (r, s) = a if len(a) == 2 else (NONE, NONE)
    if op == "%" and r is not None and r >= 1:
        return 0, None if s is None else s - 1
    if p is None or q is None or r is None or s is None:
        return (0, None) if op in ("//", "cdiv", "*", ">>") and _nonnegative(a) and _divides(op, r) else NONE
    if op == "*" or (op in ("//", "cdiv") and r >= 1) or (op in ("<<", ">>") and r >= 0 and s < 64):
        corners = [OPS[op](x, y) for x in (p, q) for y in (r, s)]
        return min(corners), max(corners)
    if op in ("&", "|", "^") and min(p, r) >= 0:
        return 0, min(q, s) if op == "&" else (1 << max(q, s).bit_length()) - 1
    return NONE


def _divides(op: str, least: int | None) -> bool:
    return op not in ("//", "cdiv") or (least is not None and least >= 1)


def _nonnegative(a: list[Span]) -> bool:
    return all(x[0] is not None and x[0] >= 0 for x in a)


def _plus(a: Span, b: Span) -> Span:
    return (
        None if a[0] is None or b[0] is None else a[0] + b[0],
        None if a[1] is None or b[1] is None else a[1] + b[1],
    )


def _minus(a: Span, b: Span) -> Span:
    return _plus(a, (None if b[1] is None else -b[1], None if b[0] is None else -b[0]))


def _either(a: Span, b: Span) -> Span:
    low = None if a[0] is None or b[0] is None else min(a[0], b[0])
    return low, None if a[1] is None or b[1] is None else max(a[1], b[1])


def _least(a: Span, b: Span) -> Span:
    low = None if a[0] is None or b[0] is None else min(a[0], b[0])
    highs = [x for x in (a[1], b[1]) if x is not None]
    return low, min(highs) if highs else None
