"""Expressions as C text that computes what the harness proved: the same operations, in the types that `infer` gives.

Python and C agree on `+ - *` and comparisons; every other mixture of operators is printed with parentheses. Integer
constants take the type of their context, so that no operation is done in a narrower type than the checker assumed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from math import inf, isnan

from amk.dsl.expr import CASTS, COMPARISONS, Apply, Const, Elem, Expr, Var
from amk.dsl.infer import TypeFault, infer, variable_types
from amk.dsl.instructions import PURE
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.types import DTYPES
from amk.errors import InternalError

__all__ = ["ExprPrinter", "literal", "unsupported"]

ATOM, UNARY, MUL, ADD, COMPARE, AND, OR, LOOSE = 9, 8, 7, 6, 5, 4, 3, 0
_LEVEL = {"*": MUL, "/": MUL, "//": MUL, "%": MUL, "+": ADD, "-": ADD, "and": AND, "or": OR} | dict.fromkeys(
    COMPARISONS, COMPARE
)
_SPELLING = {"//": "/", "and": "&&", "or": "||"}
_PRELUDE = {"min": "amk_min", "max": "amk_max", "cdiv": "amk_cdiv"}
_SUFFIX = {"i64": "LL", "u32": "u", "u64": "ULL"}
_STORED_ONLY = frozenset(("f16", "bf16"))  # moved as integers, so that C's operators would mean something else
_Printed = tuple[int, str]


def unsupported(what: str) -> InternalError:
    """The printer met something that the harness should have refused before."""
    return InternalError(
        f"cannot print {what}", hint="check the kernel before it is printed; if you did, send the file"
    )


# ------------------------------------------------------------------------------------------------------------ literals
def literal(value: int | float | bool, dtype: str) -> str:
    """A constant of a dtype as C text, exact to the bit."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if dtype in _STORED_ONLY:
        return _half(float(value), dtype)
    if isinstance(value, float) or dtype in ("f32", "f64"):
        return _float(float(value), dtype)
    return _integer(value, dtype)


def _integer(value: int, dtype: str) -> str:
    wide = dtype == "i32" and not -(2**31) <= value < 2**31
    suffix = "LL" if wide else _SUFFIX.get(dtype, "")
    if value in (-(2**31), -(2**63)):  # C has no negative literals: 2147483648 alone would be a long
        return f"({value + 1}{suffix} - 1)"
    return f"{value}{suffix}"


def _float(value: float, dtype: str) -> str:
    double = dtype == "f64"
    v = value if double else _single(value)
    if isnan(v) or v in (inf, -inf):
        bits = struct.unpack("<q", struct.pack("<d", v))[0] if double else struct.unpack("<i", struct.pack("<f", v))[0]
        return (
            f"__longlong_as_double({_integer(bits, 'i64')})" if double else f"__int_as_float({_integer(bits, 'i32')})"
        )
    text = repr(v) if double else next(t for p in range(1, 10) if _single(float(t := f"{v:.{p}g}")) == v)
    text = text if any(c in text for c in ".e") else f"{text}.0"
    return text if double else f"{text}f"


def _single(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return inf if value > 0 else -inf


def _half(value: float, dtype: str) -> str:
    """The bits of a 16-bit float, rounded to nearest even (bf16: the upper half of the f32)."""
    if dtype == "f16":
        return str(struct.unpack("<H", struct.pack("<e", value))[0])
    bits = int(struct.unpack("<I", struct.pack("<f", value))[0])
    return str((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF)


# --------------------------------------------------------------------------------------------------------- expressions
class ExprPrinter:
    """Spells the expressions of one kernel."""

    def __init__(self, kernel: KernelDescriptor) -> None:
        self.kernel = kernel
        self.types = variable_types(kernel)
        self._inferred: dict[Expr, str] = {}

    def type_of(self, e: Expr) -> str:
        """The dtype of a term ("int" or "float" for a constant that takes its context's)."""
        found = self._inferred.get(e)
        if found is None:
            try:
                found = self._inferred[e] = infer(e, self.types, self.kernel)
            except TypeFault as fault:
                raise unsupported(f"{str(e)[:60]}: {fault}") from None
        return found

    def expr(self, e: Expr, want: str = "i32") -> str:
        """The term where a value of dtype `want` stands."""
        return self._print(e, want)[1]

    def _inside(self, e: Expr, want: str, allowed: Callable[[int], bool]) -> str:
        """A subterm, in parentheses unless its level is allowed there."""
        level, text = self._print(e, want)
        return text if allowed(level) else f"({text})"

    def _print(self, e: Expr, want: str) -> _Printed:
        if isinstance(e, Const):
            text = literal(e.value, want)
            return (COMPARE if text[0] == "-" else ATOM), text  # a sign takes parentheses inside arithmetic
        if isinstance(e, Var):
            return ATOM, e.name
        if isinstance(e, Elem):
            return ATOM, self.register(e)
        assert isinstance(e, Apply)
        found = self.type_of(e)
        if found == "float" and want in _STORED_ONLY:
            return ATOM, f"amk_to_{want}({self._apply(e, 'f32')[1]})"
        dtype = want if found in ("int", "float") else found
        return self._apply(e, dtype)

    def register(self, ref: Elem) -> str:
        """An element of a register array, views replaced by what they view."""
        e = self.kernel.resolve(ref)
        return e.buffer + "".join(f"[{self.expr(i)}]" for i in e.index)

    def _apply(self, e: Apply, dtype: str) -> _Printed:
        if e.op in ("and", "or"):
            return self._logic(e)
        if e.op in ("not", "neg"):
            inner = self._inside(e.args[0], dtype, lambda level: level == ATOM)
            return (UNARY, f"!{inner}") if e.op == "not" else (COMPARE, f"-{inner}")
        if e.op in CASTS:
            return self._cast(e)
        if e.op == "select":
            c, yes, no = (self._inside(a, t, _tight) for a, t in zip(e.args, ("bool", dtype, dtype), strict=True))
            return LOOSE, f"{c} ? {yes} : {no}"
        return self._function(e, dtype) or self._binary(e, dtype)

    def _logic(self, e: Apply) -> _Printed:
        level = _LEVEL[e.op]
        left = self._inside(e.args[0], "bool", lambda x: x >= COMPARE or x == level)
        right = self._inside(e.args[1], "bool", lambda x: x >= COMPARE)
        return level, f"{left} {_SPELLING[e.op]} {right}"

    def _cast(self, e: Apply) -> _Printed:
        (a,) = e.args
        t = self.type_of(a)
        t = {"int": "i32", "float": "f32"}.get(t, t)  # a cast is no context: its constant is what it is elsewhere
        if t in _STORED_ONLY:
            return self._widened(e.op, f"amk_{t}_to_f32({self.expr(a, t)})")
        return UNARY, f"({DTYPES[e.op].c}){self._inside(a, t, lambda level: level == ATOM)}"

    @staticmethod
    def _widened(to: str, text: str) -> _Printed:
        """A 16-bit float as f32, and from there to another type."""
        return (ATOM, text) if to == "f32" else (UNARY, f"({DTYPES[to].c}){text}")

    def _function(self, e: Apply, dtype: str) -> _Printed | None:
        if e.op in PURE:
            row = PURE[e.op]
            return ATOM, f"{row.c}({', '.join(self.expr(a, t) for a, t in zip(e.args, row.params, strict=True))})"
        if e.op not in _PRELUDE:
            return None
        return ATOM, f"{_PRELUDE[e.op]}<{DTYPES[dtype].c}>({', '.join(self.expr(a, dtype) for a in e.args)})"

    def _binary(self, e: Apply, dtype: str) -> _Printed:
        operand = self._operands(e) if e.op in COMPARISONS else dtype
        level, sign = _LEVEL.get(e.op, LOOSE), _SPELLING.get(e.op, e.op)
        if level in (MUL, ADD):
            left = self._inside(e.args[0], operand, lambda x: x >= level)
            return level, f"{left} {sign} {self._inside(e.args[1], operand, lambda x: x > level)}"
        left, right = (self._inside(a, operand, _tight if level else _closed) for a in e.args)
        if e.op in ("<<", ">>") and self.type_of(e.args[0]) not in ("int", operand):
            left = f"({DTYPES[operand].c})({left})"  # C shifts in the type of the left operand alone
        return level, f"{left} {sign} {right}"

    def _operands(self, e: Apply) -> str:
        """The type in which a comparison is done, as far as its constants must know it."""
        found = [self.type_of(a) for a in e.args]
        typed = [t for t in found if t not in ("int", "float")]
        return typed[0] if typed else "i32" if "int" in found else "f32"


def _tight(level: int) -> bool:
    """Arithmetic and anything tighter stands bare beside a comparison."""
    return level >= ADD


def _closed(level: int) -> bool:
    """Only single terms stand bare beside a shift or a bit operation, where C's precedence surprises."""
    return level >= UNARY
