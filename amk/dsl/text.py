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
# The last alternative is any other character, so that nothing is skipped; only blanks and tabs stand between words.
_WORD = re.compile(
    r"[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|[0-9]+|[A-Za-z_][A-Za-z0-9_]*"
    r"|<<|>>|<=|>=|==|!=|//|[^ \t]"
)
_SIGNS = frozenset((*"-+*/%&|^<>()[],", "<<", ">>", "<=", ">=", "==", "!=", "//"))
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_DIGITS = frozenset("0123456789")
_LEAST = str(MAX_INT + 1)  # after a minus, the least integer there is
_END = ""  # follows the last word


class _Parser:
    """Precedence climbing over the words of one expression."""

    __slots__ = ("at", "depth", "text", "words")

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0
        self.words = _WORD.findall(text)
        for i, word in enumerate(self.words):
            if word not in _SIGNS and word[0] not in _LETTERS and word[0] not in _DIGITS:
                self.at = i
                raise self.fail(f"unexpected character {word!r} in expression")
        if len(self.words) > MAX_OPERATORS and sum(word in BINARY for word in self.words) > MAX_OPERATORS:
            # chains nest to the left without nesting in the text
            raise ExprError(f"expression has more than {MAX_OPERATORS} operators; name parts of it with let")
        self.words.append(_END)

    def fail(self, message: str) -> ExprError:
        """The fault, at the column of the word that was reached."""
        columns = [m.start() for m in _WORD.finditer(self.text)]
        return ExprError(message, columns[self.at] if self.at < len(columns) else len(self.text.rstrip(" \t")))

    def take(self, word: str) -> None:
        found = self.words[self.at]
        if found != word:
            raise self.fail(f"expected {word!r}, found {found or 'the end'!r}")
        self.at += 1

    def whole(self) -> Expr:
        e = self.term(0)
        if self.words[self.at] != _END:
            raise self.fail(f"unexpected {self.words[self.at]!r} after the expression")
        return e

    def term(self, floor: int) -> Expr:
        """A term of operators that bind at least as tightly as `floor`."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fail(f"expression nests deeper than {MAX_DEPTH}")
        left, compared, words = self.prefix(floor), False, self.words
        while True:
            op = words[self.at]
            level = BINARY.get(op)
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
        word = self.words[self.at]
        if word == "not":
            if floor > NOT_LEVEL:
                raise self.fail("'not' needs parentheses here")
            self.at += 1
            return Apply("not", (self.term(NOT_LEVEL),))
        if word == "-":
            self.at += 1
            follow = self.words[self.at]
            number = follow != _END and follow[0] in _DIGITS  # a minus before a literal belongs to the literal
            if follow == _LEAST:  # which is no literal without it
                self.at += 1
                return Const(-MAX_INT - 1)
            inner = self.term(NEG_LEVEL) if follow == "-" else self.atom(follow)
            return Const(-inner.value) if number and isinstance(inner, Const) else Apply("neg", (inner,))
        return self.atom(word)

    def atom(self, word: str) -> Expr:
        """What the word that was reached begins: a literal, a name, a call, an element or parentheses."""
        if word == "(":
            self.at += 1
            e = self.term(0)
            self.take(")")
            return e
        first = word[:1]
        if first in _DIGITS:
            value = self.number(word)
            self.at += 1
            return value
        if first not in _LETTERS or word in ("and", "or", "not"):
            raise self.fail(f"expected a value, found {word or 'the end'!r}")
        self.at += 1
        if word in ("true", "false"):
            return Const(word == "true")
        follow = self.words[self.at]
        if follow == "(":
            return self.call(word)
        return Elem(word, self.listed("[", "]")) if follow == "[" else Var(word)

    def number(self, word: str) -> Expr:
        if word.isdigit():
            if len(word) > 19 or int(word) > MAX_INT:
                raise self.fail("integer outside 64 bits")
            return Const(int(word))
        value = float(word)
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
        while self.words[self.at] == ",":
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
