"""Whole numbers that stand where floats are meant: the commonest slip of a writer who thinks in Python."""

from __future__ import annotations

from collections.abc import Mapping

from amk.dsl.expr import COMPARISONS, Apply, Const, Expr
from amk.dsl.infer import TypeFault, family, infer
from amk.dsl.kernel import KernelDescriptor

__all__ = ["floated"]

_ARITHMETIC = frozenset(("+", "-", "*", "/", "min", "max", "neg", *COMPARISONS))


def floated(e: Expr, wanted: str, types: Mapping[str, str], kernel: KernelDescriptor) -> Expr:
    """The term with each integer constant that meets floats written as one (where a double holds it exactly).

    `wanted` is the dtype of the place where the term stands.
    """
    if isinstance(e, Const):
        whole = type(e.value) is int and _is_float(wanted) and int(float(e.value)) == e.value
        return Const(float(e.value)) if whole else e
    if not isinstance(e, Apply) or e.op not in (*_ARITHMETIC, "select"):
        return e
    start = 1 if e.op == "select" else 0
    inside = [_type(a, types, kernel) for a in e.args[start:]]
    here = next((t for t in inside if _is_float(t)), "" if e.op in COMPARISONS else wanted)
    args = (*(floated(a, "bool", types, kernel) for a in e.args[:start]), *e.args[start:])
    return Apply(e.op, (*args[:start], *(floated(a, here, types, kernel) for a in args[start:])))


def _type(e: Expr, types: Mapping[str, str], kernel: KernelDescriptor) -> str:
    try:
        return infer(e, types, kernel)
    except TypeFault:  # of a part that mixes: it is a float once its own constants are
        return next((t for a in getattr(e, "args", ()) if _is_float(t := _type(a, types, kernel))), "")


def _is_float(dtype: str) -> bool:
    return bool(dtype) and dtype not in ("index", "int") and (dtype == "float" or family(dtype) == "float")
