"""The slow and exact reader of JSON: token by token, without recursion, with the place of every value.

In: a text. Out: the first `Fault` in it, with its offset and what to do, or `places`, the offset of each JSON pointer.
`amk.dsl.source` asks it only when the fast parser objects, or when somebody wants to know where a value stands.
"""

from __future__ import annotations

import json
import math
import re

from amk.dsl.printable import escape
from amk.dsl.record import field, record

__all__ = [
    "MAX_DEPTH", "MAX_NAME", "MAX_NODES", "MAX_STRING", "Fault", "Objection", "Walk", "integer", "line_column", "real",
]  # fmt: skip

MAX_DEPTH = 64  # objects and arrays inside each other
MAX_STRING = 65536  # characters of one string
MAX_NAME = 64  # characters of a key of an object, as of an identifier
MAX_NODES = 400_000  # values in one file
MAX_NUMBER = 64  # characters of a number: a double needs 24, and conversion of longer ones can be slow
INT_MIN, INT_MAX = -(1 << 63), (1 << 63) - 1

_CONTROL = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # C0 without tab, line feed and carriage return; DEL; C1
_BAD_CHARACTER = re.compile(f"[{_CONTROL}\ud800-\udfff]")

_STRING = r'"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+'
_OPEN_STRING = re.compile(_STRING)
_TOKEN = re.compile(
    rf"(?P<string>{_STRING}\")"
    r"|(?P<number>-?(?:0|[1-9][0-9]*+)(?P<real>(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)(?![\w.+-]))"
    r"|(?P<word>-?[^\W\d]\w*+)|(?P<mark>[\[\]{},:])"
)
_SPACE = re.compile(r"[ \t\n\r]*+")
_WORDS = frozenset({"true", "false", "null"})


class Fault(Exception):
    """The first thing wrong in a text, at a character offset."""

    def __init__(self, offset: int, message: str, hint: str, pointer: str = "") -> None:
        super().__init__(message)
        self.offset, self.message, self.hint, self.pointer = offset, message, hint, pointer


class Objection(ValueError):
    """A hook of the fast parser objects; the walk will say where and why."""


def integer(digits: str) -> int:
    """A whole number of JSON text that fits 64 bits; Objection for another."""
    # The length first: most are short, and a million digits must cost nothing.
    if len(digits) < 19:
        return int(digits)
    if len(digits) > 20 or not INT_MIN <= (value := int(digits)) <= INT_MAX:
        raise Objection
    return value


def real(digits: str) -> float:
    """A finite number of JSON text; Objection for another."""
    if len(digits) > MAX_NUMBER or not math.isfinite(value := float(digits)):
        raise Objection
    return value


def line_column(text: str, offset: int) -> tuple[int, int]:
    """Line and column of a character, from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


@record()
class Frame:
    """An object or array that is still open."""

    pointer: str
    keys: set[str] | None  # None: an array
    count: int = 0
    comma: bool = False
    opened: int = 0

    @property
    def close(self) -> str:
        return "]" if self.keys is None else "}"


@record()
class Walk:
    """Reads the text token by token without recursion; `places` maps each JSON pointer to its value's offset."""

    text: str
    at: int = 0
    nodes: int = 0
    places: dict[str, int] = field(default_factory=dict)
    stack: list[Frame] = field(default_factory=list)

    def run(self) -> None:
        """Raises Fault at the first thing that `read_json` does not accept."""
        if self.text.startswith("\ufeff"):
            raise Fault(0, "the file starts with a byte order mark", "save it as UTF-8 without BOM")
        self.value("", self.token())
        while self.stack:
            self.member(self.stack[-1])
        self.at = self.skip()
        if self.at < len(self.text):
            hint = "keep one JSON value in a file, and delete the rest"
            raise Fault(self.at, "more text follows after the end of the value", hint)

    def skip(self) -> int:
        found = _SPACE.match(self.text, self.at)
        return found.end() if found else self.at

    def token(self) -> re.Match[str]:
        self.at = self.skip()
        if found := _TOKEN.match(self.text, self.at):
            self.at = found.end()
            return found
        raise self.fault(self.at, *_unreadable(self.text, self.at, self.stack))

    def fault(self, offset: int, message: str, hint: str) -> Fault:
        return Fault(offset, message, hint, self.stack[-1].pointer if self.stack else "")

    def member(self, frame: Frame) -> None:
        """One step inside an open object or array: its end, a comma, or the next member."""
        token = self.token()
        if token[0] == frame.close:
            if frame.comma:
                raise self.fault(token.start(), f"a comma stands before the closing {token[0]}", "delete the comma")
            self.stack.pop()
        elif frame.count and not frame.comma:
            if token[0] != ",":
                what = f"a comma or {frame.close} is missing before {_shown(token)}"
                raise self.fault(token.start(), what, f"add a comma, or close what opened with {frame.close}")
            frame.comma = True
        else:
            key = str(frame.count) if frame.keys is None else self.key(frame.keys, token)
            frame.count, frame.comma = frame.count + 1, False
            pointer = f"{frame.pointer}/{key.replace('~', '~0').replace('/', '~1')}"
            self.value(pointer, token if frame.keys is None else self.token())

    def key(self, keys: set[str], token: re.Match[str]) -> str:
        if token.lastgroup != "string":
            raise self.fault(token.start(), f"a key is expected here, not {_shown(token)}", 'write "key": value')
        key = self.string(token)
        if len(key) > MAX_NAME:
            raise self.fault(
                token.start(), f"the key {_quote(key)} has {len(key)} characters", f"use at most {MAX_NAME}"
            )
        if key in keys:
            raise self.fault(token.start(), f"the key {_quote(key)} occurs twice in one object", "keep one of them")
        keys.add(key)
        if (colon := self.token())[0] != ":":
            raise self.fault(colon.start(), f"a colon is missing after the key {_quote(key)}", 'write "key": value')
        return key

    def value(self, pointer: str, token: re.Match[str]) -> None:
        self.places[pointer] = token.start()
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise self.fault(
                token.start(), f"the file holds more than {MAX_NODES} values", "split it into several files"
            )
        kind = token.lastgroup
        if kind == "string":
            self.string(token)
        elif kind == "number":
            self.number(token)
        elif kind == "word":
            self.word(token)
        else:
            self.open(pointer, token)

    def open(self, pointer: str, token: re.Match[str]) -> None:
        if token[0] not in "[{":
            raise self.fault(
                token.start(), f"a value is expected here, not {_shown(token)}", "add it, or delete the mark"
            )
        if len(self.stack) >= MAX_DEPTH:
            what = f"objects and arrays are nested more than {MAX_DEPTH} deep"
            raise self.fault(token.start(), what, "flatten the file")
        self.stack.append(Frame(pointer, set() if token[0] == "{" else None, opened=token.start()))

    def string(self, token: re.Match[str]) -> str:
        try:
            value: str = json.loads(token[0])
        except json.JSONDecodeError as error:
            hint = r"write \\ for a backslash, or one of \" \/ \n \r \t \uXXXX"
            raise self.fault(token.start() + error.pos, "this escape is not JSON", hint) from None
        if len(value) > MAX_STRING:
            raise self.fault(token.start(), f"a string has {len(value)} characters", f"use at most {MAX_STRING}")
        if bad := _BAD_CHARACTER.search(value):
            what = "half of a surrogate pair" if "\ud800" <= bad[0] <= "\udfff" else "a control character"
            raise self.fault(token.start(), f"a string holds U+{ord(bad[0]):04X}, {what}", "delete it")
        return value

    def number(self, token: re.Match[str]) -> None:
        hook = real if token["real"] else integer
        try:
            hook(token[0])
        except Objection:
            limits = "a finite 64-bit float, in at most 64 characters" if token["real"] else "-2^63 to 2^63 - 1"
            raise self.fault(token.start(), f"the number {_shown(token)} is out of range", f"use {limits}") from None

    def word(self, token: re.Match[str]) -> None:
        if (word := token[0]) in _WORDS:
            return
        if word.lstrip("-") in ("NaN", "Infinity"):
            raise self.fault(token.start(), f"{word} is not a JSON number", "use a finite number, or a string")
        hint = f"write {word.lower()}" if word in ("True", "False") else "put names and expressions in double quotes"
        raise self.fault(
            token.start(), f"{_shown(token)} is not a JSON value", "write null" if word == "None" else hint
        )


def _quote(text: str) -> str:
    return f'"{escape(text, 40)}"'


def _shown(token: re.Match[str]) -> str:
    return escape(token[0][:1000], 40)


def _unreadable(text: str, at: int, stack: list[Frame]) -> tuple[str, str]:
    """What stands at `at`, where no token starts, and what to do about it."""
    if at >= len(text):
        if not text.strip(" \t\n\r"):
            return "the file is empty", "write a JSON object: {…}"
        return "the text ends before the value is complete", _closing(text, stack)
    character = text[at]
    if character == '"':
        return _broken_string(text, at)
    if character in "/#":
        return "JSON has no comments", "delete the comment"
    if character == "'":
        return "strings stand in double quotes", "write \"…\" instead of '…'"
    if character in "+-.0123456789":
        return "this is not a JSON number", "write it like 12, -3 or 0.5e-3"
    return f"U+{ord(character):04X} cannot stand here", "check the text at this place"


def _closing(text: str, stack: list[Frame]) -> str:
    if not stack:
        return "add a value"
    line, column = line_column(text, stack[-1].opened)
    return f"add {stack[-1].close} for what opened at line {line}, column {column}"


def _broken_string(text: str, at: int) -> tuple[str, str]:
    found = _OPEN_STRING.match(text, at)
    end = found.end() if found else at
    if end >= len(text) or text[end] == "\\":
        return "the text ends inside a string", 'add the closing "'
    return f"a string holds U+{ord(text[end]):04X}, which must be escaped", r"write \n for a line break, or delete it"
