"""Edits of a descriptor's JSON that leave the rest of its text as its author wrote it.

In: a text that reads, and edits in the words of JSON Patch (RFC 6902: add, remove, replace, move). Out: the new text,
with untouched values, their order and their lines as they were; and where a value of the old text stands in the new.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

__all__ = ["Edit", "patched", "relocated"]

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()
_STEP = "  "  # by which a line of a new inner array is further in


class Edit(NamedTuple):
    """One operation. `path` and `source` (JSON's `from`, of a move) are JSON pointers, each into the text so far.

    add: the value comes before what stands at an index of an array (`-` or its length: at the end), or becomes a member
    of an object. move: as a remove of `source`, then an add of what it was at `path`.
    """

    op: Literal["add", "remove", "replace", "move"]
    path: str
    value: Any = None
    source: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The operation as RFC 6902 writes it."""
        out: dict[str, Any] = {"op": self.op, "path": self.path}
        if self.op in ("add", "replace"):
            out["value"] = self.value
        return {**out, "from": self.source} if self.op == "move" else out


class _Member(NamedTuple):
    """A member of an array or object: where it begins (at its key, if it has one), its value, and its end."""

    key: str
    at: int
    value: int
    end: int


class _Container(NamedTuple):
    """An array or object in the text, from its opening to behind its closing mark."""

    start: int
    end: int
    members: list[_Member]

    def find(self, key: str) -> int:
        """The position of a member; KeyError where there is none."""
        for i, m in enumerate(self.members):
            if m.key == key:
                return i
        raise KeyError(key)


def patched(text: str, edits: Iterable[Edit]) -> str:
    """The text after all edits. KeyError for a path that is not there; ValueError for a text that does not read."""
    for e in edits:
        if e.op == "move":
            moved, indent = _value_text(text, e.source)
            text = _added(_removed(text, e.source), e.path, moved, indent)
        elif e.op == "remove":
            text = _removed(text, e.path)
        elif e.op == "replace":
            start, end = _span(text, e.path)
            text = text[:start] + _dumped(e.value) + text[end:]
        else:
            text = _added(text, e.path, _dumped(e.value), None)
    return text


def relocated(pointer: str, edits: Iterable[Edit]) -> str | None:
    """Where the value at a pointer stands after the edits; None if it is gone."""
    for e in edits:
        if e.op == "move" and _below(pointer, e.source):
            pointer = e.path + pointer[len(e.source) :]
            continue
        if e.op in ("remove", "move"):
            gone = e.source if e.op == "move" else e.path
            if _below(pointer, gone):
                return None
            pointer = _shifted(pointer, gone, -1)
        if e.op in ("add", "move"):
            pointer = _shifted(pointer, e.path, 1)
    return pointer


def _below(pointer: str, top: str) -> bool:
    return pointer == top or pointer.startswith(top + "/")


def _shifted(pointer: str, place: str, by: int) -> str:
    """The pointer after a member of the same array came or went at `place`."""
    parent, _, last = place.rpartition("/")
    if not last.isdigit() or not pointer.startswith(parent + "/"):
        return pointer
    mine, slash, rest = pointer[len(parent) + 1 :].partition("/")
    if not mine.isdigit() or int(mine) < int(last):
        return pointer
    return f"{parent}/{int(mine) + by}{slash}{rest}"


# ----------------------------------------------------------------------------------------------------------------- read
def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _end(text: str, start: int) -> int:
    return int(_DECODER.raw_decode(text, start)[1])


def _container(text: str, start: int) -> _Container:
    """The array or object that begins at `start`; KeyError for any other value."""
    members = list(_members(text, start))
    return _Container(start, _skip(text, members[-1].end if members else start + 1) + 1, members)


def _members(text: str, start: int) -> Iterator[_Member]:
    """The members of the array or object that begins at `start`, in order."""
    if text[start] not in "[{":
        raise KeyError("no array or object")
    at, number = _skip(text, start + 1), 0
    while text[at] not in "]}":
        begin, key = at, str(number)
        if text[start] == "{":
            key, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)  # the colon
        end = _end(text, at)
        yield _Member(key, begin, at, end)
        at, number = _skip(text, end), number + 1
        at = _skip(text, at + 1) if text[at] == "," else at


def _parts(pointer: str) -> list[str]:
    return [p.replace("~1", "/").replace("~0", "~") for p in pointer.split("/")[1:]]


def _start(text: str, parts: list[str]) -> int:
    at = _skip(text, 0)
    for part in parts:
        found = next((m for m in _members(text, at) if m.key == part), None)
        if found is None:
            raise KeyError(part)
        at = found.value
    return at


def _span(text: str, pointer: str) -> tuple[int, int]:
    start = _start(text, _parts(pointer))
    return start, _end(text, start)


def _value_text(text: str, pointer: str) -> tuple[str, str | None]:
    """The text of a value, and the indent of its line if it begins one."""
    start, end = _span(text, pointer)
    return text[start:end], _indent(text, start)


def _indent(text: str, at: int) -> str | None:
    """The blanks before a value that begins its line; None for one that stands behind others."""
    line = text.rfind("\n", 0, at) + 1
    return text[line:at] if line and not text[line:at].strip(" \t") else None


def _line_indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _break(text: str) -> str:
    """How the lines of a text end."""
    return "\r\n" if "\r\n" in text else "\n"


# ---------------------------------------------------------------------------------------------------------------- write
def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _removed(text: str, pointer: str) -> str:
    *parents, key = _parts(pointer)
    inside = _container(text, _start(text, parents))
    i = inside.find(key)
    if len(inside.members) == 1:
        return text[: inside.start + 1] + text[inside.end - 1 :]
    if i + 1 < len(inside.members):
        return text[: inside.members[i].at] + text[inside.members[i + 1].at :]
    return text[: inside.members[i - 1].end] + text[inside.members[i].end :]


def _added(text: str, pointer: str, value: str, indent: str | None) -> str:
    """The text with a value more; `indent` is that of the line from which it comes, if it began one."""
    *parents, key = _parts(pointer)
    inside = _container(text, _start(text, parents))
    members, is_array = inside.members, text[inside.start] == "["
    if not is_array:
        if any(m.key == key for m in members):
            m = members[inside.find(key)]
            return text[: m.value] + value + text[m.end :]
        value = f"{_dumped(key)}: {value}"
    if not members:
        return text[: inside.start + 1] + _first(text, inside.start, value, indent) + text[inside.end - 1 :]
    i = len(members) if not is_array or key == "-" else int(key) if key.isdigit() else -1
    if not 0 <= i <= len(members):
        raise KeyError(key)
    beside = members[min(i, len(members) - 1)]
    lines = _indent(text, beside.at)
    between = ", " if lines is None else "," + _break(text) + lines
    value = _reindented(value, indent, lines)
    if i < len(members):
        return text[: beside.at] + value + between + text[beside.at :]
    return text[: beside.end] + between + value + text[beside.end :]


def _first(text: str, start: int, value: str, indent: str | None) -> str:
    """The inside of an array that was empty: a value that had a line of its own gets one again."""
    if indent is None:
        return value
    outer = _line_indent(text, start)
    inner = outer + ("\t" if outer.endswith("\t") else _STEP)
    return f"{_break(text)}{inner}{_reindented(value, indent, inner)}{_break(text)}{outer}"


def _reindented(value: str, old: str | None, new: str | None) -> str:
    """The lines of a value after its first, moved as far as the first one is."""
    if old is None or new is None or old == new or "\n" not in value:
        return value
    first, *rest = value.split("\n")
    return "\n".join([first, *(new + x[len(old) :] if x.startswith(old) else x for x in rest)])
