"""Reads untrusted JSON text, and says where in it something stands.

In: text or bytes that anybody may have written. Out: plain JSON data (`read_json`, `read_object`), the line and column
of a value (`locate`, `Locator`), and a `DescriptorError` with both (`raise_at`).

A sound file takes the fast path: a few C-speed passes that bound size, nodes and strings before any object is built,
then the standard parser with hooks, which stops by itself at deep nesting. Only when one of those objects does the
position-aware walk run (`json_walk`); it finds the first fault, or finds that there is none. Lines and columns count
from 1, in characters; a line ends at U+000A.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from contextlib import suppress
from itertools import accumulate
from typing import NoReturn, TypeAlias, Union

from amk.dsl.json_places import places
from amk.dsl.json_walk import (
    MAX_DEPTH,
    MAX_NAME,
    MAX_NODES,
    MAX_STRING,
    Fault,
    Objection,
    Walk,
    integer,
    line_column,
    real,
)
from amk.dsl.printable import escape
from amk.errors import DescriptorError

__all__ = [
    "JSON", "MAX_BYTES", "MAX_DEPTH", "MAX_NAME", "MAX_NODES", "MAX_STRING", "Locator", "escape", "locate", "raise_at",
    "read_json", "read_object",
]  # fmt: skip

JSON: TypeAlias = Union[bool, int, float, str, list["JSON"], dict[str, "JSON"], None]  # noqa: UP007 (a recursive alias)

MAX_BYTES = 16 << 20  # of one file
_BAD_RAW = re.compile("[\x7f-\x9f\ud800-\udfff]")
# Escapes that may decode to one of the above; the walk decides (`\\u0000` after a backslash is harmless).
_BAD_ESCAPE = re.compile(r"\\(?:[bf]|u(?:00[0189]|007[fF]|[dD][89a-fA-F]))")


def read_json(text: str | bytes, *, name: str = "<input>") -> JSON:
    """The JSON value in `text`; raises DescriptorError with line and column. `name` is shown in messages."""
    decoded = _decode(text, name) if isinstance(text, bytes) else text
    if len(decoded) > MAX_BYTES:
        _report(decoded, _too_large(len(decoded)), name)
    try:
        if not _looks_clean(decoded):
            Walk(decoded).run()
        return _parse(decoded)
    except Fault as fault:
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
        _report(before, Fault(len(before), message, hint), name)


def _too_large(size: int) -> Fault:
    return Fault(0, f"the file is larger than {MAX_BYTES} bytes ({size})", "split it into several files")


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
            raise Objection
        keys.update(found)
        return found

    data: JSON = json.loads(
        text, object_pairs_hook=pairs, parse_int=integer, parse_float=real, parse_constant=_refuse_constant
    )
    if max(map(len, keys), default=0) > MAX_NAME or _depth(data) > MAX_DEPTH:
        raise Objection
    return data


def _refuse_constant(_: str) -> NoReturn:
    raise Objection


def _explain(text: str, error: Exception, name: str) -> NoReturn:
    """The fast parser refused `text`: finds out where and why."""
    try:
        Walk(text).run()
    except Fault as fault:
        _report(text, fault, name)
    # The walk and the parser disagree; the parser's word stands.
    offset = error.pos if isinstance(error, json.JSONDecodeError) else 0
    _report(text, Fault(offset, "this is not JSON that can be read", "check the text at this place"), name)


def _report(text: str, fault: Fault, name: str) -> NoReturn:
    line, column = line_column(text, fault.offset)
    _raise(fault.message, name, line, column, code="AMK001", pointer=fault.pointer, hint=fault.hint)


def _raise(message: str, name: str, line: int, column: int, *, code: str, pointer: str, hint: str) -> NoReturn:
    full = f"{message} ({escape(name, 300)}, line {line}, column {column})"
    raise DescriptorError(full, code=code, pointer=pointer, line=line, column=column, hint=hint) from None


class Locator:
    """Finds values of one text by JSON pointer; reads the text once, at the first question."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._places: dict[str, int] | None = None
        self._lines: list[int] = []

    def __call__(self, pointer: str) -> tuple[int, int]:
        """Line and column of the value at `pointer`, or of its nearest ancestor that exists."""
        return self.place(self.span(pointer)[0])

    def span(self, pointer: str) -> tuple[int, int]:
        """Where the value at `pointer`, or its nearest ancestor, begins and ends, in characters from 0."""
        places = self._map()
        while pointer and pointer not in places:
            pointer = pointer.rpartition("/")[0]
        start = places.get(pointer, 0)
        try:
            return start, json.JSONDecoder().raw_decode(self._text, start)[1]
        except (ValueError, RecursionError):  # of a text that does not read
            return start, start

    def exact(self, pointer: str) -> bool:
        """Whether there is a value at `pointer` itself."""
        return pointer in self._map()

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of a character."""
        self._map()
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1

    def _map(self) -> dict[str, int]:
        if self._places is None:
            self._places = _places(self._text)
            self._lines = [0, *accumulate(len(line) + 1 for line in self._text.split("\n"))][:-1]
        return self._places


def _places(text: str) -> dict[str, int]:
    with suppress(ValueError, RecursionError, Objection, Fault):
        if _looks_clean(text):
            _parse(text)
            return places(text)
    walk = Walk(text)
    with suppress(Fault):  # of a text that does not read, what stands before the fault can still be found
        walk.run()
    return walk.places


def locate(text: str, pointer: str) -> tuple[int, int]:
    """Line and column of the value at a JSON pointer (RFC 6901), or of its nearest ancestor that exists."""
    return Locator(text)(pointer)


def raise_at(
    text: str, pointer: str, message: str, *, code: str = "AMK001", hint: str = "", name: str = "<input>"
) -> NoReturn:
    """Raises DescriptorError at the value that `pointer` names. What `message` quotes must have passed `escape`."""
    line, column = locate(text, pointer)
    _raise(message, name, line, column, code=code, pointer=pointer, hint=hint)
