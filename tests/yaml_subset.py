"""The part of YAML that the files of this repository use, read strictly: anything else is a ValueError.

Mappings and lists in blocks, plain or double-quoted scalars, `[a, b]`, `|` texts and whole-line comments. amk needs no
YAML at run time, and a dependency for three small files would be one more to trust.
"""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["load"]

_KEY = re.compile(r"([A-Za-z0-9_.$-]+|\"[^\"]*\"):(?: (.*))?$")


def load(text: str) -> Any:
    """The value of a document."""
    lines = [x for x in text.split("\n")]
    reader = _Reader(lines)
    value = reader.block(0)
    if reader.peek() is not None:
        raise ValueError(f"line {reader.at + 1} is left over: {lines[reader.at]!r}")
    return value


class _Reader:
    def __init__(self, lines: list[str]) -> None:
        self.lines, self.at = lines, 0

    def peek(self) -> tuple[int, str] | None:
        """Indent and text of the next line that says something."""
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.strip() and not line.strip().startswith("#"):
                if "\t" in line:
                    raise ValueError(f"line {self.at + 1} has a tab")
                return len(line) - len(line.lstrip(" ")), line.strip()
            self.at += 1
        return None

    def block(self, indent: int) -> Any:
        first = self.peek()
        if first is None or first[0] < indent:
            return None
        return self.listed(first[0]) if first[1].startswith("- ") else self.mapped(first[0])

    def listed(self, indent: int) -> list[Any]:
        out: list[Any] = []
        while (line := self.peek()) is not None and line[0] == indent and line[1].startswith("- "):
            inside = line[1][2:]
            if _KEY.match(inside):  # a mapping that begins on the line of its dash
                self.lines[self.at] = " " * (indent + 2) + inside
                out.append(self.mapped(indent + 2))
            else:
                self.at += 1
                out.append(_scalar(inside))
        return out

    def mapped(self, indent: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        while (line := self.peek()) is not None and line[0] == indent and not line[1].startswith("- "):
            found = _KEY.match(line[1])
            if found is None:
                raise ValueError(f"line {self.at + 1} is no key: {line[1]!r}")
            key, rest = found[1].strip('"'), found[2] or ""
            if key in out:
                raise ValueError(f"line {self.at + 1} has the key {key!r} again")
            self.at += 1
            out[key] = self.text(indent) if rest == "|" else _scalar(rest) if rest else self.block(indent + 1)
        return out

    def text(self, indent: int) -> str:
        found: list[str] = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.strip() and len(line) - len(line.lstrip(" ")) <= indent:
                break
            found.append(line)
            self.at += 1
        deep = min(len(x) - len(x.lstrip(" ")) for x in found if x.strip())
        return "\n".join(x[deep:] for x in found).rstrip("\n") + "\n"


def _scalar(text: str) -> Any:
    if text.startswith('"'):
        return json.loads(text)
    if text.startswith("["):
        if not text.endswith("]"):
            raise ValueError(f"a list goes on: {text!r}")
        return [_scalar(x.strip()) for x in text[1:-1].split(",") if x.strip()]
    if text[:1] in "{&*!>'%@`" or " #" in text or ": " in text.replace("${{ ", ""):
        raise ValueError(f"not in the subset: {text!r}")
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d+", text) else text
