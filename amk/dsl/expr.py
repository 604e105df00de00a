"""Expressions: four immutable kinds, their operators, and an exact text form (`parse(str(e)) == e`).

Integers follow Python here and C in print: `//` and `%` mean the same in both once the harness has proved their
operands non-negative. Nothing in an expression reads memory: `Elem` is an address as an operand, and as a value it may
name registers only (a form rule).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from amk.dsl.instructions.pure import PURE

__all__ = [
    "BUILTINS", "FUNCTIONS", "Apply", "Const", "Elem", "Expr", "ExprError", "ExprLike", "Var", "apply", "as_expr",
    "both", "cdiv", "eq", "maximum", "minimum", "names", "ne", "negate", "parse", "parts", "select", "subst",
    "subterms",
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
NOT_LEVEL, NEG_LEVEL, ATOM = 3, 11, 12
MAX_TEXT, MAX_DEPTH, MAX_OPERATORS, MAX_INT = 65536, 100, 200, 2**63 - 1


class ExprError(ValueError):
    """Text outside the grammar; `column` counts from 0 inside the expression."""

    def __init__(self, message: str, column: int = 0) -> None:
        super().__init__(message)
        self.column = column


class Expr:
    """A pure term. `==` is structural equality; `eq(a, b)` builds the comparison."""

    __slots__ = ("_hash", "_text")
    _hash: int
    _text: str | None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("expressions are immutable")

    def __hash__(self) -> int:
        return self._hash

    def __bool__(self) -> bool:
        raise TypeError(f"'{self}' has no truth value while a kernel is built; use select(...) or `with k.when(...)`")

    def __str__(self) -> str:
        if self._text is None:
            _set(self, "_text", _show(self))
        return self._text  # type: ignore[return-value]

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

    def __init__(self, value: int | float | bool) -> None:
        _set(self, "value", value)
        _set(self, "_hash", hash((type(value), value)))
        _set(self, "_text", None)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Const) or type(other.value) is not type(self.value) or other.value != self.value:
            return False
        return not isinstance(self.value, float) or str(other) == str(self)  # 0.0 and -0.0 differ

    __hash__ = Expr.__hash__


class Var(Expr):
    """A name: a parameter, a Let, a loop variable, a carried value or one of BUILTINS."""

    __slots__ = ("name",)
    name: str

    def __init__(self, name: str) -> None:
        _set(self, "name", name)
        _set(self, "_hash", hash(("var", name)))
        _set(self, "_text", name)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Var) and other.name == self.name)

    __hash__ = Expr.__hash__


class Apply(Expr):
    """An operator or function applied to terms."""

    __slots__ = ("args", "op")
    op: str
    args: tuple[Expr, ...]

    def __init__(self, op: str, args: tuple[Expr, ...]) -> None:
        _set(self, "op", op)
        _set(self, "args", args)
        _set(self, "_hash", hash((op, args)))
        _set(self, "_text", None)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Apply) and other._hash == self._hash and other.op == self.op and other.args == self.args
        )

    __hash__ = Expr.__hash__


class Elem(Expr):
    """`buffer[index]`: an address as an operand (dst, src), the element itself where a register buffer is a value."""

    __slots__ = ("buffer", "index")
    buffer: str
    index: tuple[Expr, ...]

    def __init__(self, buffer: str, index: tuple[Expr, ...]) -> None:
        _set(self, "buffer", buffer)
        _set(self, "index", index)
        _set(self, "_hash", hash(("elem", buffer, index)))
        _set(self, "_text", None)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Elem)
            and other._hash == self._hash
            and other.buffer == self.buffer
            and other.index == self.index
        )

    __hash__ = Expr.__hash__


# ------------------------------------------------------------------------------------------------------------ print
def _show(e: Expr, outer: int = 0) -> str:
    if isinstance(e, Const):
        return _literal(e.value, outer)
    if isinstance(e, Var):
        return e.name
    if isinstance(e, Elem):
        return f"{e.buffer}[{', '.join(map(_show, e.index))}]"
    assert isinstance(e, Apply)
    level, text = _apply_text(e)
    return f"({text})" if level < outer else text


def _apply_text(e: Apply) -> tuple[int, str]:
    level = BINARY.get(e.op)
    if level is not None:
        left = _show(e.args[0], level + (e.op in COMPARISONS))
        return level, f"{left} {e.op} {_show(e.args[1], level + 1)}"
    if e.op == "not":
        return NOT_LEVEL, f"not {_show(e.args[0], NOT_LEVEL)}"
    if e.op == "neg":
        inner = _show(e.args[0], ATOM)
        return NEG_LEVEL, f"-({inner})" if inner[0] in "-0123456789i" and isinstance(e.args[0], Const) else f"-{inner}"
    return ATOM, f"{e.op}({', '.join(map(_show, e.args))})"


def _literal(value: int | float | bool, outer: int) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value)
    return f"({text})" if text[0] == "-" and outer > NEG_LEVEL else text


# ------------------------------------------------------------------------------------------------------------ parse
_TOKEN = re.compile(
    r"[ \t]*(?:(?P<num>(?:\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+))|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<op><<|>>|<=|>=|==|!=|//|[-+*/%&|^<>()\[\],]))"
)
_Token = tuple[str, str, int]


def _tokens(text: str) -> list[_Token]:
    out: list[_Token] = []
    at, end = 0, len(text.rstrip(" \t"))
    while at < end:
        m = _TOKEN.match(text, at)
        if m is None:
            raise ExprError(f"unexpected character {text[at]!r} in expression", at)
        kind = m.lastgroup or ""
        out.append((kind, m[kind], m.start(kind)))
        at = m.end()
    out.append(("end", "", end))
    return out


class _Parser:
    """Precedence climbing over the tokens of one expression."""

    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.at = 0
        self.depth = 0
        operators = sum(1 for kind, text, _ in self.tokens if kind == "op" and text in BINARY)
        if operators > MAX_OPERATORS:  # chains nest to the left without nesting in the text
            raise ExprError(f"expression has more than {MAX_OPERATORS} operators; name parts of it with let")

    def fail(self, message: str) -> ExprError:
        return ExprError(message, self.tokens[self.at][2])

    def take(self, text: str) -> None:
        if self.tokens[self.at][1] != text or self.tokens[self.at][0] == "end":
            found = self.tokens[self.at][1] or "the end"
            raise self.fail(f"expected {text!r}, found {found!r}")
        self.at += 1

    def whole(self) -> Expr:
        e = self.term(0)
        if self.tokens[self.at][0] != "end":
            raise self.fail(f"unexpected {self.tokens[self.at][1]!r} after the expression")
        return e

    def term(self, floor: int) -> Expr:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fail(f"expression nests deeper than {MAX_DEPTH}")
        left = self.prefix(floor)
        compared = False
        while True:
            op = self.tokens[self.at][1]
            level = BINARY.get(op) if self.tokens[self.at][0] != "end" else None
            if level is None or level < floor:
                break
            if op in COMPARISONS:
                if compared:
                    raise self.fail("comparisons do not chain; join them with 'and'")
                compared = True
            self.at += 1
            left = Apply(op, (left, self.term(level + 1)))
        self.depth -= 1
        return left

    def prefix(self, floor: int) -> Expr:
        text = self.tokens[self.at][1]
        if text == "not":
            if floor > NOT_LEVEL:
                raise self.fail("'not' needs parentheses here")
            self.at += 1
            return Apply("not", (self.term(NOT_LEVEL),))
        if text == "-":
            self.at += 1
            number = self.tokens[self.at][0] == "num"  # a minus before a literal belongs to the literal
            inner = self.term(NEG_LEVEL) if self.tokens[self.at][1] == "-" else self.atom()
            return Const(-inner.value) if number and isinstance(inner, Const) else Apply("neg", (inner,))
        return self.atom()

    def atom(self) -> Expr:
        kind, text, _ = self.tokens[self.at]
        if kind == "num":
            value = self.number(text)
            self.at += 1
            return value
        if text == "(":
            self.at += 1
            e = self.term(0)
            self.take(")")
            return e
        if kind != "name" or text in ("and", "or", "not"):
            raise self.fail(f"expected a value, found {text or 'the end'!r}")
        self.at += 1
        if text in ("true", "false"):
            return Const(text == "true")
        follow = self.tokens[self.at][1]
        if follow == "(":
            return self.call(text)
        return Elem(text, self.listed("[", "]")) if follow == "[" else Var(text)

    def number(self, text: str) -> Expr:
        if text.isdigit():
            if len(text) > 19 or int(text) > MAX_INT:
                raise self.fail("integer outside 64 bits")
            return Const(int(text))
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise self.fail("float literal overflows")
        return Const(value)

    def call(self, name: str) -> Expr:
        arity = FUNCTIONS.get(name)
        if arity is None:
            raise self.fail(f"unknown function {name!r}; known: {', '.join(sorted(FUNCTIONS))}")
        args = self.listed("(", ")")
        if len(args) != arity:
            raise self.fail(f"{name} takes {arity} arguments, not {len(args)}")
        return Apply(name, args)

    def listed(self, opening: str, closing: str) -> tuple[Expr, ...]:
        self.take(opening)
        out = [self.term(0)]
        while self.tokens[self.at][1] == ",":
            self.at += 1
            out.append(self.term(0))
        self.take(closing)
        return tuple(out)


@lru_cache(maxsize=1 << 16)
def parse(text: str) -> Expr:
    """The tree of a text; equal texts are parsed once. Raises ExprError with the column of the fault."""
    if len(text) > MAX_TEXT:
        raise ExprError(f"expression longer than {MAX_TEXT} characters")
    if text.isidentifier() and text.isascii() and text not in ("true", "false", "and", "or", "not"):
        return Var(text)
    return _Parser(text).whole()


def as_expr(value: ExprLike) -> Expr:
    """A term of anything that can stand for one: a term, a number, or text of the grammar."""
    if isinstance(value, Expr):
        return value
    return parse(value) if isinstance(value, str) else Const(value)


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
    a = tuple(map(as_expr, args))
    if op == "neg" and isinstance(a[0], Const) and not isinstance(a[0].value, bool):
        return Const(-a[0].value)
    if op == "select" and isinstance(a[0], Const):
        return a[1] if a[0].value else a[2]
    if op in ("and", "or"):
        return _fold_logic(op, a)
    if len(a) == 2 and op in FOLD and all(isinstance(x, Const) and type(x.value) is int for x in a):
        return _fold_ints(op, a)
    simpler = _neutral(op, a)
    return Apply(op, a) if simpler is None else simpler


def _fold_ints(op: str, a: tuple[Expr, ...]) -> Expr:
    x, y = a[0].value, a[1].value  # type: ignore[attr-defined]
    if (op in ("//", "%", "cdiv") and y <= 0) or (op in ("<<", ">>") and not 0 <= y < 63):
        return Apply(op, a)  # left standing: the harness says what is wrong with it
    return Const(FOLD[op](x, y))


def _fold_logic(op: str, a: tuple[Expr, ...]) -> Expr:
    neutral = op == "and"
    for x, y in (a, a[::-1]):
        if isinstance(x, Const) and isinstance(x.value, bool):
            return y if x.value is neutral else Const(not neutral)
    return Apply(op, a)


def _neutral(op: str, a: tuple[Expr, ...]) -> Expr | None:
    left, right = a[0], a[-1]
    if right == _ZERO and op in ("+", "-", "^", "|", "<<", ">>"):
        return left
    if left == _ZERO and op in ("+", "^", "|"):
        return right
    if op == "*" and _ZERO in (left, right):
        return _ZERO
    if right == _ONE and op in ("*", "//"):
        return left
    return right if left == _ONE and op == "*" else None


_ZERO, _ONE = Const(0), Const(1)


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
    """The quotient rounded up, of non-negative `a` by positive `b`."""
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


def subst(e: Expr, env: Mapping[str, Expr]) -> Expr:
    """The term with variables replaced; folds what becomes constant."""
    if isinstance(e, Var):
        return env.get(e.name, e)
    if isinstance(e, Apply):
        return apply(e.op, *(subst(x, env) for x in e.args)) if names(e) & env.keys() else e
    if isinstance(e, Elem):
        return Elem(e.buffer, tuple(subst(x, env) for x in e.index))
    return e
