"""Whole-number constants that the type of their place cannot hold.

A term is proved with the number that its text says; C would store another one: `int q = 3000000000LL` is negative, and
an unsigned value compared with -1 is compared with the largest one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amk.dsl.evaluate import function_of
from amk.dsl.expr import COMPARISONS, Apply, Const, Expr, subterms
from amk.dsl.infer import infer
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.types import DTYPES
from amk.harness.intervals import Interval, of_dtype

__all__ = ["too_large"]

_I32 = of_dtype("i32")
_NARROW = frozenset(("i8", "u8", "u32", "u64"))  # a constant that i32 holds may still not fit these


def too_large(kernel: KernelDescriptor, types: Mapping[str, str], e: Expr, wanted: str) -> str | None:
    """What is wrong with a constant in a term of which the types agree, or None."""
    if not (wanted in _NARROW or _NARROW.intersection(types.values()) or any(map(_suspect, subterms(e)))):
        return None
    if _is_whole(wanted) and not _fits(e, of_dtype(wanted)):
        return f"{e} does not fit {wanted}"
    return next((said for x in subterms(e) if isinstance(x, Apply) and (said := _operand(x, types, kernel))), None)


def _suspect(e: Expr) -> bool:
    """A constant beyond i32, or a value that is made unsigned."""
    if type(e) is Const:
        return type(e.value) is int and not _I32[0] <= e.value <= _I32[1]
    return type(e) is Apply and e.op == "u32"


def _operand(e: Apply, types: Mapping[str, str], kernel: KernelDescriptor) -> str | None:
    """A constant beside an operand of a type that cannot hold it; a signed comparison is made in a type that can."""
    args = e.args[1:] if e.op == "select" else e.args
    if len(args) < 2:  # a cast takes what it is given, and has a claim
        return None
    kinds = [infer(a, types, kernel) for a in args]
    joined = next((k for k in kinds if _is_whole(k)), "int")
    if not (_is_whole(joined) or joined in kinds) or (e.op in COMPARISONS and joined[0] != "u"):
        return None
    limits = of_dtype("i32" if joined == "int" else joined)
    return next((f"{a} in {e} does not fit {joined}" for a in args if not _fits(a, limits)), None)


def _is_whole(dtype: str) -> bool:
    return dtype in DTYPES and DTYPES[dtype].family == "int"


def _fits(e: Expr, limits: Interval) -> bool:
    """Whether a term without names has a value in the limits (others have claims of their own)."""
    try:
        value: Any = function_of((e,), ())()[0]
    except (ValueError, ZeroDivisionError, OverflowError):
        return True
    return type(value) is not int or limits[0] <= value <= limits[1]
