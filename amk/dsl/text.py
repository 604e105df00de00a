"""The text of expressions: a strict, Python-like grammar with an exact round trip (`parse(str(e)) == e`).

In: text (untrusted) or a term. Out: the term, or ExprError with the column of the fault; or the text. People and
language models read and write this; parentheses stand only where the precedences need them.
"""

from __future__ import annotations

import re
from functools import lru_cache

from amk.dsl.expr import BINARY, COMPARISONS, FUNCTIONS, Apply, Const, Elem, Expr, ExprError, Var

__all__ = ["parse", "show"]

NOT_LEVEL, NEG_LEVEL, ATOM = 3, 11, 12
MAX_TEXT, MAX_DEPTH, MAX_OPERATORS, MAX_INT = 65536, 100, 200, 2**63 - 1


# ------------------------------------------------------------------------------------------------------------ print
def show(e: Expr, outer: int = 0) -> str:
    """The text of a term that stands where operators weaker than `outer` need parentheses."""
    if isinstance(e, Const):
        return _literal(e.value, outer)
    if isinstance(e, Var):
        return e.name
    if isinstance(e, Elem):
        return f"{e.buffer}[{', '.join(map(show, e.index))}]"
    assert isinstance(e, Apply)
    level, text = _apply_text(e)
    return f"({text})" if level < outer else text


def _apply_text(e: Apply) -> tuple[int, str]:
    level = BINARY.get(e.op)
    if level is not None:
        left = show(e.args[0], level + (e.op in COMPARISONS))
        return level, f"{left} {e.op} {show(e.args[1], level + 1)}"
    if e.op == "not":
        return NOT_LEVEL, f"not {show(e.args[0], NOT_LEVEL)}"
    if e.op == "neg":
        inner = show(e.args[0], ATOM)
        return NEG_LEVEL, f"-({inner})" if inner[0] in "-0123456789i" and isinstance(e.args[0], Const) else f"-{inner}"
    return ATOM, f"{e.op}({', '.join(map(show, e.args))})"


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
