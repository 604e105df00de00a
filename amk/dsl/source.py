"""Reads untrusted JSON text, and says where in it something stands.

In: text or bytes that anybody may have written. Out: plain JSON data (`read_json`, `read_object`), the line and column
of a value (`locate`, `Locator`), a `DescriptorError` with both (`raise_at`), and text that is safe to print (`escape`).

A sound file takes the fast path: a few C-speed passes that bound size, nodes and strings before any object is built,
then the standard parser with hooks, which stops by itself at deep nesting. Only when one of those objects does the
position-aware walk run; it finds the first fault, or finds that there is none. Lines and columns count from 1, in
characters; a line ends at U+000A.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NoReturn, TypeAlias, Union

from amk.errors import DescriptorError

__all__ = [
    "JSON", "MAX_BYTES", "MAX_DEPTH", "MAX_NAME", "MAX_NODES", "MAX_STRING", "Locator", "escape", "locate", "raise_at",
    "read_json", "read_object",
]  # fmt: skip

JSON: TypeAlias = Union[bool, int, float, str, list["JSON"], dict[str, "JSON"], None]  # noqa: UP007 (a recursive alias)

MAX_BYTES = 16 << 20  # of one file
MAX_DEPTH = 64  # objects and arrays inside each other
MAX_STRING = 65536  # characters of one string
MAX_NAME = 64  # characters of a key of an object, as of an identifier
MAX_NODES = 400_000  # values in one file
MAX_NUMBER = 64  # characters of a number: a double needs 24, and conversion of longer ones can be slow
INT_MIN, INT_MAX = -(1 << 63), (1 << 63) - 1

_CONTROL = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # C0 without tab, line feed and carriage return; DEL; C1
_BAD_CHARACTER = re.compile(f"[{_CONTROL}\ud800-\udfff]")
_BAD_RAW = re.compile("[\x7f-\x9f\ud800-\udfff]")
# Escapes that may decode to one of the above; the walk decides (`\\u0000` after a backslash is harmless).
_BAD_ESCAPE = re.compile(r"\\(?:[bf]|u(?:00[0189]|007[fF]|[dD][89a-fA-F]))")

_STRING = r'"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+'
_OPEN_STRING = re.compile(_STRING)
_TOKEN = re.compile(
    rf"(?P<string>{_STRING}\")"
    r"|(?P<number>-?(?:0|[1-9][0-9]*+)(?P<real>(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)(?![\w.+-]))"
    r"|(?P<word>-?[^\W\d]\w*+)|(?P<mark>[\[\]{},:])"
)
_SPACE = re.compile(r"[ \t\n\r]*+")
_WORDS = frozenset({"true", "false", "null"})

_TERMINAL = re.compile(
    r"(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # titles and links
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # colours and cursor movement
    r"|\x1b[ -/]*[0-~]?"
)
_BREAKS = re.compile("[\t\n\r\x0b\x0c\x85\u2028\u2029]+")
# Besides controls: marks that reorder or hide text on a screen, and halves of surrogate pairs, which no stream encodes.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def escape(text: str, limit: int = 80) -> str:
    """`text` for a message: no control characters or terminal sequences, one line, at most `limit` characters."""
    head = _TERMINAL.sub("", text[: 8 * limit])
    clean = _UNPRINTABLE.sub("", _BREAKS.sub(" ", head))
    if len(clean) > limit or len(text) > 8 * limit:
        return clean[: max(limit - 1, 0)] + "…"
    return clean


class _Fault(Exception):
    """The first thing wrong in a text, at a character offset."""

    def __init__(self, offset: int, message: str, hint: str, pointer: str = "") -> None:
        super().__init__(message)
        self.offset, self.message, self.hint, self.pointer = offset, message, hint, pointer


class _Objection(ValueError):
    """A hook of the fast parser objects; the walk will say where and why."""


def read_json(text: str | bytes, *, name: str = "<input>") -> JSON:
    """The JSON value in `text`; raises DescriptorError with line and column. `name` is shown in messages."""
    decoded = _decode(text, name) if isinstance(text, bytes) else text
    if len(decoded) > MAX_BYTES:
        _report(decoded, _too_large(len(decoded)), name)
    try:
        if not _looks_clean(decoded):
            _Walk(decoded).run()
        return _parse(decoded)
    except _Fault as fault:
        _report(decoded, fault, name)
    except (ValueError, RecursionError) as error:
        _explain(decoded, error, name)


def read_object(text: str | bytes, *, name: str = "<input>") -> dict[str, JSON]:
    """As `read_json`, for a file whose outermost value must be an object."""
    data = read_json(text, name=name)
    if isinstance(data, dict):
        return data
    decoded = text.decode() if isinstance(text, bytes) else text
    kind = "an array" if isinstance(data, list) else "a single value"
    raise_at(decoded, "", f"the file holds {kind}, not an object", hint="start it with { and end it with }", name=name)


def _decode(data: bytes, name: str) -> str:
    if len(data) > MAX_BYTES:
        _report("", _too_large(len(data)), name)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before, wide = data[: error.start].decode("utf-8"), data[:4]
        hint = "save it as UTF-8" + (" (it looks like UTF-16)" if wide[:2] in (b"\xff\xfe", b"\xfe\xff") else "")
        message = f"byte 0x{data[error.start]:02x} is not UTF-8"
        _report(before, _Fault(len(before), message, hint), name)


def _too_large(size: int) -> _Fault:
    return _Fault(0, f"the file is larger than {MAX_BYTES} bytes ({size})", "split it into several files")


def _looks_clean(text: str) -> bool:
    """True if no size limit can be exceeded and no forbidden character can occur; False means: look closely."""
    if text.startswith("\ufeff") or text.count(",") + text.count("[") + text.count("{") >= MAX_NODES:
        return False
    if "\x7f" in text if text.isascii() else _BAD_RAW.search(text):
        return False
    if "\\" in text and _BAD_ESCAPE.search(text):
        return False
    # A string above the limit spans at least one whole half-limit window that holds no quote of its own.
    half, text = MAX_STRING // 2, text.replace('\\"', "__")
    return all(text.find('"', at, at + half) >= 0 for at in range(0, len(text) - half, half))


def _depth(data: JSON) -> int:
    """Levels of objects and arrays, level by level: no recursion."""
    depth, level = 0, [data] if isinstance(data, (dict, list)) else []
    while level:
        depth += 1
        values = (x.values() if isinstance(x, dict) else x for x in level)
        level = [y for inner in values for y in inner if type(y) is dict or type(y) is list]
    return depth


def _parse(text: str) -> JSON:
    keys: set[str] = set()

    def pairs(items: list[tuple[str, JSON]]) -> dict[str, JSON]:
        found = dict(items)
        if len(found) != len(items):
            raise _Objection
        keys.update(found)
        return found

    data: JSON = json.loads(
        text, object_pairs_hook=pairs, parse_int=_integer, parse_float=_real, parse_constant=_refuse_constant
    )
    if max(map(len, keys), default=0) > MAX_NAME or _depth(data) > MAX_DEPTH:
        raise _Objection
    return data


def _integer(digits: str) -> int:
    # The length first: most are short, and a million digits must cost nothing.
    if len(digits) < 19:
        return int(digits)
    if len(digits) > 20 or not INT_MIN <= (value := int(digits)) <= INT_MAX:
        raise _Objection
    return value


def _real(digits: str) -> float:
    if len(digits) > MAX_NUMBER or not math.isfinite(value := float(digits)):
        raise _Objection
    return value


def _refuse_constant(_: str) -> NoReturn:
    raise _Objection


def _explain(text: str, error: Exception, name: str) -> NoReturn:
    """The fast parser refused `text`: finds out where and why."""
    try:
        _Walk(text).run()
    except _Fault as fault:
        _report(text, fault, name)
    # The walk and the parser disagree; the parser's word stands.
    offset = error.pos if isinstance(error, json.JSONDecodeError) else 0
    _report(text, _Fault(offset, "this is not JSON that can be read", "check the text at this place"), name)


def _report(text: str, fault: _Fault, name: str) -> NoReturn:
    line, column = _line_column(text, fault.offset)
    _raise(fault.message, name, line, column, code="AMK001", pointer=fault.pointer, hint=fault.hint)


def _raise(message: str, name: str, line: int, column: int, *, code: str, pointer: str, hint: str) -> NoReturn:
    full = f"{message} ({escape(name, 300)}, line {line}, column {column})"
    raise DescriptorError(full, code=code, pointer=pointer, line=line, column=column, hint=hint) from None


def _line_column(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


@dataclass(slots=True)
class _Frame:
    """An object or array that is still open."""

    pointer: str
    keys: set[str] | None  # None: an array
    count: int = 0
    comma: bool = False
    opened: int = 0

    @property
    def close(self) -> str:
        return "]" if self.keys is None else "}"


@dataclass(slots=True)
class _Walk:
    """Reads the text token by token without recursion; `places` maps each JSON pointer to its value's offset."""

    text: str
    at: int = 0
    nodes: int = 0
    places: dict[str, int] = field(default_factory=dict)
    stack: list[_Frame] = field(default_factory=list)

    def run(self) -> None:
        """Raises _Fault at the first thing that `read_json` does not accept."""
        if self.text.startswith("\ufeff"):
            raise _Fault(0, "the file starts with a byte order mark", "save it as UTF-8 without BOM")
        self.value("", self.token())
        while self.stack:
            self.member(self.stack[-1])
        self.at = self.skip()
        if self.at < len(self.text):
            hint = "keep one JSON value in a file, and delete the rest"
            raise _Fault(self.at, "more text follows after the end of the value", hint)

    def skip(self) -> int:
        found = _SPACE.match(self.text, self.at)
        return found.end() if found else self.at

    def token(self) -> re.Match[str]:
        self.at = self.skip()
        if found := _TOKEN.match(self.text, self.at):
            self.at = found.end()
            return found
        raise self.fault(self.at, *_unreadable(self.text, self.at, self.stack))

    def fault(self, offset: int, message: str, hint: str) -> _Fault:
        return _Fault(offset, message, hint, self.stack[-1].pointer if self.stack else "")

    def member(self, frame: _Frame) -> None:
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
        self.stack.append(_Frame(pointer, set() if token[0] == "{" else None, opened=token.start()))

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
        hook = _real if token["real"] else _integer
        try:
            hook(token[0])
        except _Objection:
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


def _unreadable(text: str, at: int, stack: list[_Frame]) -> tuple[str, str]:
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


def _closing(text: str, stack: list[_Frame]) -> str:
    if not stack:
        return "add a value"
    line, column = _line_column(text, stack[-1].opened)
    return f"add {stack[-1].close} for what opened at line {line}, column {column}"


def _broken_string(text: str, at: int) -> tuple[str, str]:
    found = _OPEN_STRING.match(text, at)
    end = found.end() if found else at
    if end >= len(text) or text[end] == "\\":
        return "the text ends inside a string", 'add the closing "'
    return f"a string holds U+{ord(text[end]):04X}, which must be escaped", r"write \n for a line break, or delete it"


class Locator:
    """Finds values of one text by JSON pointer; reads the text once, at the first question."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._places: dict[str, int] | None = None
        self._lines: list[int] = []

    def __call__(self, pointer: str) -> tuple[int, int]:
        """Line and column of the value at `pointer`, or of its nearest ancestor that exists."""
        places = self._map()
        while pointer and pointer not in places:
            pointer = pointer.rpartition("/")[0]
        offset = places.get(pointer, 0)
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1

    def _map(self) -> dict[str, int]:
        if self._places is None:
            walk = _Walk(self._text)
            with suppress(_Fault):  # of a text that does not read, what stands before the fault can still be found
                walk.run()
            self._places = walk.places
            self._lines = [0, *accumulate(len(line) + 1 for line in self._text.split("\n"))][:-1]
        return self._places


def locate(text: str, pointer: str) -> tuple[int, int]:
    """Line and column of the value at a JSON pointer (RFC 6901), or of its nearest ancestor that exists."""
    return Locator(text)(pointer)


def raise_at(
    text: str, pointer: str, message: str, *, code: str = "AMK001", hint: str = "", name: str = "<input>"
) -> NoReturn:
    """Raises DescriptorError at the value that `pointer` names. What `message` quotes must have passed `escape`."""
    line, column = locate(text, pointer)
    _raise(message, name, line, column, code=code, pointer=pointer, hint=hint)
