"""Intervals of integer operators, and the divisors that they keep. In Python's meaning of // and %."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from amk.dsl.expr import Apply, Const, Expr
from amk.dsl.types import DTYPES

__all__ = ["WIDE", "Interval", "combine", "multiple", "of_dtype", "times"]

Interval = tuple[int, int]
WIDE: Interval = (-(1 << 200), 1 << 200)
_LOGIC = frozenset(("<", "<=", ">", ">=", "==", "!=", "and", "or", "not"))


def of_dtype(dtype: str) -> Interval:
    """Every value of an integer type; WIDE for other types."""
    d = DTYPES.get(dtype)
    if d is None or d.family == "float":
        return WIDE
    if d.family == "bool":
        return 0, 1
    bits = 8 * d.nbytes
    return (0, (1 << bits) - 1) if dtype[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)


def times(a: Interval, b: Interval) -> Interval:
    """The interval of a product."""
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def combine(op: str, a: tuple[Interval, ...]) -> Interval:
    """The interval of an operator's result; WIDE where nothing is known."""
    if op in _LOGIC:
        return 0, 1
    if op in ("min", "max"):
        pick = min if op == "min" else max
        return pick(a[0][0], a[1][0]), pick(a[0][1], a[1][1])
    if op == "select":
        return min(a[1][0], a[2][0]), max(a[1][1], a[2][1])
    if op in ("i32", "i64", "u32"):
        return of_dtype(op)
    if op in ("//", "cdiv", "%"):
        return _divided(op, a[0], a[1]) if min(a[1]) >= 1 else WIDE  # both ends: of an empty range, AMK009 tells
    return _bitwise(op, a[0], a[1]) if op in ("&", "|", "^", "<<", ">>") else WIDE


def _divided(op: str, a: Interval, b: Interval) -> Interval:
    if op == "%":
        return 0, min(b[1] - 1, a[1]) if a[0] >= 0 else b[1] - 1
    up = op == "cdiv"
    corners = [-(-x // y) if up else x // y for x in a for y in b]
    return min(corners), max(corners)


def _bitwise(op: str, a: Interval, b: Interval) -> Interval:
    if op in ("<<", ">>"):
        if b[0] < 0 or b[1] > 62:
            return WIDE
        corners = [x << y if op == "<<" else x >> y for x in a for y in b]
        return min(corners), max(corners)
    if op == "&" and max(a[0], b[0]) >= 0:
        return 0, min(x[1] for x in (a, b) if x[0] >= 0)
    if min(a[0], b[0]) < 0:
        return WIDE
    return 0, (1 << max(a[1], b[1]).bit_length()) - 1


def multiple(e: Expr, of: Callable[[Expr], int]) -> int:
    """A divisor of an atom, given the divisors of its parts."""
    if not isinstance(e, Apply):
        return 1
    if e.op in ("min", "max"):
        return gcd(of(e.args[0]), of(e.args[1]))
    if e.op == "select":
        return gcd(of(e.args[1]), of(e.args[2]))
    if e.op == "%":
        return gcd(of(e.args[0]), of(e.args[1])) or 1
    if e.op in ("^", "|"):
        return _low_bit(gcd(of(e.args[0]), of(e.args[1])))
    if e.op == "&":
        return max(_low_bit(of(a)) for a in e.args)
    if e.op == "<<" and isinstance(e.args[1], Const):
        return of(e.args[0]) << int(e.args[1].value)
    return 1


def _low_bit(n: int) -> int:
    return n & -n if n else 1 << 30
