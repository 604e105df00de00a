"""Types of expressions: one small set of rules that the form rules, the printer and the interpreter share.

Integer constants take the type of their context and i32 otherwise; float constants are f32 unless the context is f64.
Integers and floats never mix without a cast, truth values are never numbers, and 16-bit floats are cast to f32 first.
"""

from __future__ import annotations

from collections.abc import Mapping

from amk.dsl.expr import BUILTINS, CASTS, COMPARISONS, Apply, Const, Elem, Expr, Var
from amk.dsl.instructions.pure import PURE
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.nodes import Buffer
from amk.dsl.types import DTYPES

__all__ = ["TypeFault", "infer", "variable_types"]

_RANK = {"i8": 0, "u8": 0, "i32": 1, "u32": 2, "i64": 3, "u64": 4}
_STORED_ONLY = ("f16", "bf16")  # C moves them as integers
_INT_ONLY = frozenset(("//", "%", "&", "|", "^", "<<", ">>", "cdiv"))


class TypeFault(ValueError):
    """An expression whose parts do not agree; the message names the part."""


def variable_types(kernel: KernelDescriptor) -> dict[str, str]:
    """The dtype of every variable of a kernel (names are unique, which is a form rule)."""
    types = dict.fromkeys(BUILTINS, "i32")
    types |= {p.name: p.dtype for p in kernel.scalars}
    for _, s in walk(kernel.body):
        if s.kind == "let" and s.value is not None:
            types[s.name] = s.dtype
        elif s.kind == "for":
            types[s.var] = "i32"
            types |= {c.name: c.dtype for c in s.carry}
    return types


def infer(e: Expr, types: Mapping[str, str], kernel: KernelDescriptor) -> str:
    """The dtype of an expression; "int" or "float" for a constant that still takes its context's type.

    Raises TypeFault.
    """
    if isinstance(e, Const):
        return "bool" if isinstance(e.value, bool) else "int" if isinstance(e.value, int) else "float"
    if isinstance(e, Var):
        if e.name not in types:
            raise TypeFault(f"{e.name!r} is not a variable here")
        return types[e.name]
    if isinstance(e, Elem):
        return _element(e, types, kernel)
    assert isinstance(e, Apply)
    return _applied(e, [infer(a, types, kernel) for a in e.args])


def _element(e: Elem, types: Mapping[str, str], kernel: KernelDescriptor) -> str:
    d = kernel.find(e.buffer)
    if not isinstance(d, Buffer) or d.space != "register":
        raise TypeFault(f"{e.buffer!r} is no register buffer, so {e} is an address and not a value: load it first")
    for i in e.index:
        if family(infer(i, types, kernel)) != "int":
            raise TypeFault(f"the index {i} of {e} is not an integer")
    return d.dtype


def family(dtype: str) -> str:
    """bool, int or float."""
    return dtype if dtype in ("int", "float") else DTYPES[dtype].family


def _applied(e: Apply, args: list[str]) -> str:
    op = e.op
    if op in ("and", "or", "not"):
        return _all(e, args, "bool", "bool")
    if op in CASTS:
        if args[0] == "bool":
            raise TypeFault(f"{e}: a truth value is no number; use select(condition, 1, 0)")
        return op
    if op in PURE:
        return _pure(e, args)
    if op == "select":
        _all(e, args[:1], "bool", "bool")
        return _join(e, args[1], args[2])
    joined = args[0] if op == "neg" else _join(e, args[0], args[1])
    if joined in _STORED_ONLY:
        raise TypeFault(
            f"{e} computes with {joined}, which is stored only: cast to f32, and what comes out to {joined}"
        )
    if op in COMPARISONS:
        return "bool"
    if joined == "bool" or (op in _INT_ONLY and family(joined) != "int") or (op == "/" and family(joined) != "float"):
        raise TypeFault(f"{op!r} in {e} does not take {joined} operands")
    return joined


def _all(e: Apply, args: list[str], wanted: str, result: str) -> str:
    for a, t in zip(e.args, args, strict=False):
        if t != wanted:
            raise TypeFault(f"{a} in {e} is {t}, not {wanted}")
    return result


def _pure(e: Apply, args: list[str]) -> str:
    row = PURE[e.op]
    for a, t, want in zip(e.args, args, row.params, strict=True):
        if t != want and not (t == "float" and family(want) == "float"):
            raise TypeFault(f"{a} in {e} is {t}, and {row.name} takes {want}")
    return row.result


def _join(e: Expr, a: str, b: str) -> str:
    """The common type of two operands."""
    if a == b:
        return a
    if family(a) != family(b):
        raise TypeFault(f"{e} mixes {a} and {b}; cast one of them")
    for x, y in ((a, b), (b, a)):
        if x in ("int", "float"):
            return y
    if a in _RANK and b in _RANK:
        if {a, b} & {"u32", "u64"}:
            raise TypeFault(f"{e} mixes signed {a} and {b}; cast one of them")
        return max(a, b, key=_RANK.__getitem__)
    raise TypeFault(f"{e} mixes {a} and {b}; cast one of them")
