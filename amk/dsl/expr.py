"""Expressions: four immutable kinds, their operators, and the walks over them. `text` has their text form.

Integers follow Python here and C in print: `//` and `%` mean the same in both once the harness has proved their
operands non-negative. Nothing in an expression reads memory: `Elem` is an address as an operand, and as a value it may
name registers only (a form rule).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from amk.dsl.instructions.pure import PURE

__all__ = [
    "BUILTINS", "FUNCTIONS", "Apply", "Const", "Elem", "Expr", "ExprError", "ExprLike", "Var", "apply", "as_expr",
    "both", "cdiv", "eq", "has_elements", "integers", "maximum", "minimum", "names", "ne", "negate", "parts", "select",
    "subst", "subterms",
]  # fmt: skip

BUILTINS = ("t", "bx", "by", "bz", "gx", "gy", "gz", "rank")  # thread, block, grid size, rank in the cluster
CASTS = ("i32", "i64", "u32", "f32", "f64")
FUNCTIONS: dict[str, int] = {
    "min": 2, "max": 2, "cdiv": 2, "select": 3, **dict.fromkeys(CASTS, 1), **{p.name: p.arity for p in PURE.values()},
}  # fmt: skip
BINARY: dict[str, int] = {
    "or": 1, "and": 2, "<": 4, "<=": 4, ">": 4, ">=": 4, "==": 4, "!=": 4, "|": 5, "^": 6, "&": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "//": 10, "%": 10,
}  # fmt: skip
COMPARISONS = frozenset(("<", "<=", ">", ">=", "==", "!="))


class ExprError(ValueError):
    """Text outside the grammar; `column` counts from 0 inside the expression."""

    def __init__(self, message: str, column: int = 0) -> None:
        super().__init__(message)
        self.column = column


class Expr:
    """A pure term. `==` is structural equality; `eq(a, b)` builds the comparison."""

    __slots__ = ("_hash", "_key", "_text")
    _hash: int
    _key: tuple[Any, ...]
    _text: str | None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("expressions are immutable")

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Expr) and self._hash == other._hash and self._key == other._key)

    def __bool__(self) -> bool:
        raise TypeError(f"'{self}' has no truth value while a kernel is built; use select(...) or `with k.when(...)`")

    def __str__(self) -> str:
        text = self._text
        if text is None:
            from amk.dsl.text import show

            text = show(self)
            _set(self, "_text", text)
        return text

    def __repr__(self) -> str:
        return f"<{self}>"

    def __add__(self, other: ExprLike) -> Expr:
        return apply("+", self, other)

    def __radd__(self, other: ExprLike) -> Expr:
        return apply("+", other, self)

    def __sub__(self, other: ExprLike) -> Expr:
        return apply("-", self, other)

    def __rsub__(self, other: ExprLike) -> Expr:
        return apply("-", other, self)

    def __mul__(self, other: ExprLike) -> Expr:
        return apply("*", self, other)

    def __rmul__(self, other: ExprLike) -> Expr:
        return apply("*", other, self)

    def __truediv__(self, other: ExprLike) -> Expr:
        return apply("/", self, other)

    def __floordiv__(self, other: ExprLike) -> Expr:
        return apply("//", self, other)

    def __mod__(self, other: ExprLike) -> Expr:
        return apply("%", self, other)

    def __xor__(self, other: ExprLike) -> Expr:
        return apply("^", self, other)

    def __and__(self, other: ExprLike) -> Expr:
        return apply("&", self, other)

    def __or__(self, other: ExprLike) -> Expr:
        return apply("|", self, other)

    def __lshift__(self, other: ExprLike) -> Expr:
        return apply("<<", self, other)

    def __rshift__(self, other: ExprLike) -> Expr:
        return apply(">>", self, other)

    def __neg__(self) -> Expr:
        return apply("neg", self)

    def __lt__(self, other: ExprLike) -> Expr:
        return apply("<", self, other)

    def __le__(self, other: ExprLike) -> Expr:
        return apply("<=", self, other)

    def __gt__(self, other: ExprLike) -> Expr:
        return apply(">", self, other)

    def __ge__(self, other: ExprLike) -> Expr:
        return apply(">=", self, other)


_set = object.__setattr__
ExprLike = Expr | int | float | str


class Const(Expr):
    """A literal: integer, float or truth value (the three are different constants even where Python's `==` agrees)."""

    __slots__ = ("value",)
    value: int | float | bool

    def __new__(cls, value: int | float | bool) -> Const:
        kind = type(value)
        key = "const", kind, repr(value) if kind is float else value  # -0.0 != 0.0
        found: Const | None = _TABLE.get(key)
        return found if found is not None else _made(cls, key, ("value",), (value,))

    def __reduce__(self) -> tuple[type[Const], tuple[int | float | bool]]:
        return Const, (self.value,)


class Var(Expr):
    """A name: a parameter, a Let, a loop variable, a carried value or one of BUILTINS."""

    __slots__ = ("name",)
    name: str

    def __new__(cls, name: str) -> Var:
        key = "var", name
        found: Var | None = _TABLE.get(key)
        return found if found is not None else _made(cls, key, ("name",), (name,))

    def __reduce__(self) -> tuple[type[Var], tuple[str]]:
        return Var, (self.name,)


class Apply(Expr):
    """An operator or function applied to terms."""

    __slots__ = ("args", "op")
    op: str
    args: tuple[Expr, ...]

    def __new__(cls, op: str, args: tuple[Expr, ...]) -> Apply:
        key = "apply", op, args
        found: Apply | None = _TABLE.get(key)
        return found if found is not None else _made(cls, key, ("op", "args"), (op, args))

    def __reduce__(self) -> tuple[type[Apply], tuple[str, tuple[Expr, ...]]]:
        return Apply, (self.op, self.args)


class Elem(Expr):
    """`buffer[index]`: an address as an operand (dst, src), the element itself where a register buffer is a value."""

    __slots__ = ("buffer", "index")
    buffer: str
    index: tuple[Expr, ...]

    def __new__(cls, buffer: str, index: tuple[Expr, ...]) -> Elem:
        key = "elem", buffer, index
        found: Elem | None = _TABLE.get(key)
        return found if found is not None else _made(cls, key, ("buffer", "index"), (buffer, index))

    def __reduce__(self) -> tuple[type[Elem], tuple[str, tuple[Expr, ...]]]:
        return Elem, (self.buffer, self.index)


# Equal terms are mostly one object, so that comparing them seldom walks them. When the table is full it starts anew:
# two equal objects may then exist, and `==` compares their keys.
_TABLE: dict[tuple[Any, ...], Any] = {}
_FULL = 1 << 18
_T = TypeVar("_T", bound=Expr)


def _made(cls: type[_T], key: tuple[Any, ...], fields: tuple[str, ...], values: tuple[Any, ...]) -> _T:
    """A term that is not in the table."""
    if len(_TABLE) >= _FULL:
        _TABLE.clear()
    e = object.__new__(cls)
    _set(e, "_key", key)
    _set(e, "_hash", hash(key))
    _set(e, "_text", None)
    for name, value in zip(fields, values, strict=True):
        _set(e, name, value)
    _TABLE[key] = e
    return e


def as_expr(value: ExprLike) -> Expr:
    """A term of anything that can stand for one: a term, a number, or text of the grammar."""
    if isinstance(value, Expr):
        return value
    if not isinstance(value, str):
        return Const(value)
    from amk.dsl.text import parse

    return parse(value)


# ------------------------------------------------------------------------------------------- construct and traverse
FOLD: dict[str, Callable[[int, int], int | bool]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "//": lambda a, b: a // b,
    "%": lambda a, b: a % b, "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b, "min": min, "max": max, "cdiv": lambda a, b: -(-a // b),
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
}  # fmt: skip


def apply(op: str, *args: ExprLike) -> Expr:
    """`op(args)`, integer constants folded and neutral elements dropped (for builders; the parser keeps all)."""
    a = tuple([x if isinstance(x, Expr) else as_expr(x) for x in args])
    if op == "neg" and isinstance(a[0], Const) and not isinstance(a[0].value, bool):
        return Const(-a[0].value)
    if op == "select" and isinstance(a[0], Const):
        return a[1] if a[0].value else a[2]
    if op in ("and", "or"):
        return _fold_logic(op, a)
    if len(a) != 2 or (type(a[0]) is not Const and type(a[1]) is not Const):
        return Apply(op, a)
    if op in FOLD and (ints := integers(*a)) is not None:
        return _fold_ints(op, *ints)
    simpler = _neutral(op, *a)
    return Apply(op, a) if simpler is None else simpler


def integers(*terms: Expr) -> tuple[int, ...] | None:
    """The values of terms that are integer constants; None where one is none."""
    found = [e.value for e in terms if type(e) is Const and type(e.value) is int]
    return tuple(found) if len(found) == len(terms) else None


def _fold_ints(op: str, x: int, y: int) -> Expr:
    if (op in ("//", "%", "cdiv") and y <= 0) or (op in ("<<", ">>") and not 0 <= y < 63):
        return Apply(op, (Const(x), Const(y)))  # left standing: the harness says what is wrong with it
    return Const(FOLD[op](x, y))


def _fold_logic(op: str, a: tuple[Expr, ...]) -> Expr:
    neutral = op == "and"
    for x, y in (a, a[::-1]):
        if isinstance(x, Const) and isinstance(x.value, bool):
            return y if x.value is neutral else Const(not neutral)
    return Apply(op, a)


def _neutral(op: str, left: Expr, right: Expr) -> Expr | None:
    """What is left where one side is 0 or 1 and has no effect, or takes all."""
    first, last = _small(left), _small(right)
    if last == 0 and op in ("+", "-", "^", "|", "<<", ">>"):
        return left
    if first == 0 and op in ("+", "^", "|"):
        return right
    if op == "*" and 0 in (first, last):
        return _ZERO
    if last == 1 and op in ("*", "//"):
        return left
    return right if first == 1 and op == "*" else None


def _small(e: Expr) -> int | None:
    """The value of an integer constant."""
    return e.value if type(e) is Const and type(e.value) is int else None


_ZERO = Const(0)


def eq(a: ExprLike, b: ExprLike) -> Expr:
    """The comparison `a == b` as a term."""
    return apply("==", a, b)


def ne(a: ExprLike, b: ExprLike) -> Expr:
    """The comparison `a != b` as a term."""
    return apply("!=", a, b)


def both(*conditions: ExprLike) -> Expr:
    """All conditions hold (true when there is none)."""
    out: Expr = Const(True)
    for c in conditions:
        out = apply("and", out, c)
    return out


def negate(condition: ExprLike) -> Expr:
    """`not condition`."""
    c = as_expr(condition)
    return Const(not c.value) if isinstance(c, Const) else Apply("not", (c,))


def select(cond: ExprLike, yes: ExprLike, no: ExprLike) -> Expr:
    """`yes` where the condition holds, else `no`."""
    return apply("select", cond, yes, no)


def cdiv(a: ExprLike, b: ExprLike) -> Expr:
    """The quotient by positive `b`, rounded up."""
    return apply("cdiv", a, b)


def minimum(a: ExprLike, b: ExprLike) -> Expr:
    """The smaller of two terms."""
    return apply("min", a, b)


def maximum(a: ExprLike, b: ExprLike) -> Expr:
    """The larger of two terms."""
    return apply("max", a, b)


def parts(e: Expr) -> tuple[Expr, ...]:
    """The direct subterms of a term."""
    return e.args if isinstance(e, Apply) else e.index if isinstance(e, Elem) else ()


@lru_cache(maxsize=1 << 16)
def names(e: Expr) -> frozenset[str]:
    """The variables in a term (names of buffers are not variables)."""
    if isinstance(e, Var):
        return frozenset((e.name,))
    return frozenset().union(*map(names, parts(e)))


@lru_cache(maxsize=1 << 16)
def subterms(e: Expr) -> tuple[Expr, ...]:
    """The term and everything inside it, outermost first."""
    return (e, *(x for part in parts(e) for x in subterms(part)))


@lru_cache(maxsize=1 << 16)
def has_elements(e: Expr) -> bool:
    """Whether an element of a buffer stands in the term."""
    return isinstance(e, Elem) or any(map(has_elements, parts(e)))


def subst(e: Expr, env: Mapping[str, Expr]) -> Expr:
    """The term with variables replaced; folds what becomes constant."""
    if isinstance(e, Var):
        return env.get(e.name, e)
    if isinstance(e, Apply):
        return e if env.keys().isdisjoint(names(e)) else apply(e.op, *(subst(x, env) for x in e.args))
    if isinstance(e, Elem):
        return Elem(e.buffer, tuple(subst(x, env) for x in e.index))
    return e
