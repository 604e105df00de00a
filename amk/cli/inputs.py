"""What a command was given: paths come in, descriptors with their text come out; target names become Targets."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from amk.dsl.record import record
from amk.errors import DescriptorError, InputError

if TYPE_CHECKING:
    from amk.dsl.kernel import KernelDescriptor
    from amk.dsl.source import Locator
    from amk.dsl.target import Target

__all__ = ["SUFFIX", "Document", "find_files", "find_targets", "read_document", "read_kernel"]

SUFFIX = ".amk.json"
_BODY = r'(?s)"(?:body|roles)"\s*:.*(?=\})'
_LEFT_OUT = r',\s*"at"\s*:\s*"[^"]*"(?=\s*\})'


@record(frozen=True)
class Document:
    """A descriptor file: the path as it was given, and its bytes."""

    path: str
    data: bytes

    @cached_property
    def kernel(self) -> KernelDescriptor:
        """The kernel in it; DescriptorError with line and column if it does not read."""
        from amk.dsl.kernel import KernelDescriptor

        return KernelDescriptor.from_json(self.data, name=self.path)

    @cached_property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")

    def value(self, pointer: str) -> Any:
        """The JSON value at a pointer; None where there is none."""
        found = self._value
        try:
            for part in pointer.split("/")[1:]:
                found = found[int(part) if isinstance(found, list) else part]
        except (ValueError, KeyError, IndexError, TypeError):
            return None
        return found

    @cached_property
    def _value(self) -> Any:
        import json

        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            return None

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    def place(self, pointer: str) -> tuple[int, int]:
        """Line and column of a JSON pointer, from 1."""
        return self._locator(pointer)

    def place_of(self, offset: int) -> tuple[int, int]:
        """Line and column of a character."""
        return self._locator.place(offset)

    def region(self, pointer: str) -> tuple[int, int, int, int]:
        """Line and column where the value at a pointer begins and, exclusively, where it ends.

        Of a statement with a body, and of the whole file, only the first line.
        """
        start, end = self._locator.span(pointer)
        line, column = self._locator.place(start)
        last, until = self._locator.place(end)
        if last > line and (not pointer or '"body"' in self.text[start:end]):
            last, until = line, len(self.lines[line - 1]) + 1
        return line, column, last, until

    def snippet(self, pointer: str) -> str:
        """The value at a pointer as it stands in the file, on one line without bodies and places; '' for all of it."""
        if not pointer or not self._locator.exact(pointer):
            return ""
        start, end = self._locator.span(pointer)
        text = re.sub(_LEFT_OUT, "", re.sub(_BODY, "…", self.text[start:end], count=1))
        text = " ".join(text.split()).replace("{ ", "{").replace(" }", "}").replace("[ ", "[").replace(" ]", "]")
        name = pointer.rpartition("/")[2]
        return ("" if name.isdigit() else f'"{name}": ') + text

    @cached_property
    def _locator(self) -> Locator:
        from amk.dsl.source import Locator

        return Locator(self.text)


def find_files(paths: Sequence[str]) -> Iterator[str]:
    """Named files as they are, folders as the `*.amk.json` in them (in a fixed order), `-` as standard input."""
    for path in paths:
        if path != "-" and os.path.isdir(path):
            yield from _in_folder(path)
        else:
            yield path


def _in_folder(folder: str) -> list[str]:
    found = sorted(
        os.path.join(base, name) for base, _, names in os.walk(folder) for name in names if name.endswith(SUFFIX)
    )
    if not found:
        raise InputError(f"the folder {folder} has no *{SUFFIX} file", hint="name the files, or end their names so")
    return found


def read_document(path: str) -> Document:
    """The bytes of a file or of standard input; no more than a descriptor may have."""
    from amk.dsl.files import read_bytes
    from amk.dsl.source import MAX_BYTES

    if path == "-" and sys.stdin is None:
        raise DescriptorError("standard input is closed", hint="give the path of a descriptor file")
    if path == "-":
        return Document("<stdin>", sys.stdin.buffer.read(MAX_BYTES + 1))
    try:
        return Document(path, read_bytes(path, MAX_BYTES + 1))
    except (OSError, ValueError) as e:
        why = e.strerror if isinstance(e, OSError) else str(e)
        raise DescriptorError(f"cannot read {path}: {why}", hint="give the path of a descriptor file") from None


def read_kernel(path: str) -> KernelDescriptor:
    """The kernel in a file."""
    return read_document(path).kernel


def find_targets(names: Sequence[str]) -> tuple[Target | None, ...]:
    """Targets by name or file; `all` is every architecture; nothing named is (None,): the descriptor's own."""
    from amk.dsl.target import Target

    out: list[Target] = []
    for name in names:
        if name == "all":
            out += [t for t in Target.all() if t.name == t.architecture.name]
        else:
            out.append(_target(name))
    return tuple({t.name: t for t in out}.values()) or (None,)


def _target(name: str) -> Target:
    from amk.dsl.target import Target

    return Target.load(name) if name.endswith(".json") else Target.find(name)
