"""What was found in one file on one target, and how its places are shown: where all formats of `amk check` start."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from amk.cli.inputs import Document
from amk.cli.output import clean
from amk.dsl.record import record, replace
from amk.harness.diagnostics import Diagnostic, Report

if TYPE_CHECKING:
    from amk.dsl.kernel import KernelDescriptor
    from amk.harness.mend import Repair
    from amk.runtime.measured import Measured

__all__ = ["Checked", "author_line", "repaired", "worded"]

# Compiled when first used, as they are for findings alone.
_PLACE = r"([A-Za-z0-9_][\w.-]{0,200}\.py):([0-9]{1,7})"
_POINTER = r"/(?:body|params|buffers|maps|barriers|grid|suppress)(?:/\w+)+"
_MOST = 1 << 20  # bytes of an author's file that is looked into


@record(frozen=True)
class Checked:
    """One file on one target. `place` is where a file that does not read is at fault.

    `repairs` were made before this check, or would be (`diff`: the lines that they would change). `measured` is what
    the binary takes, where it was asked for.
    """

    document: Document
    report: Report
    code: int
    place: tuple[int, int] | None = None
    certificate: str = ""
    meaning: str = ""
    refused: str = ""
    hidden: int = 0
    repairs: tuple[Repair, ...] = ()
    diff: str = ""
    measured: Measured | None = None

    @property
    def path(self) -> str:
        return self.document.path

    @property
    def kernel(self) -> KernelDescriptor | None:
        """The kernel, of a file that reads."""
        return self.document.kernel if self.report.kernel else None

    def at(self, pointer: str) -> tuple[int, int]:
        """Line and column of a statement."""
        return self.place or self.document.place(pointer)

    def region(self, pointer: str) -> tuple[int, int, int, int]:
        """Line and column of a statement, and of its end (exclusive)."""
        if self.place:
            return (*self.place, *self.place)
        return self.document.region(pointer)

    def filtered(self, select: tuple[str, ...], ignore: tuple[str, ...], *, strict: bool) -> Checked:
        """Only what is to be shown; only warnings that are shown count under `strict`."""
        shown = self.report.shown(select, ignore)
        code = 1 if strict and shown.warnings and self.code in (0, 3) else self.code
        hidden = len(self.report.diagnostics) - len(shown.diagnostics)
        return replace(self, report=shown, code=code, hidden=hidden)


def worded(r: Checked, text: str) -> str:
    """Somebody's text on one line, with the line of the file for each JSON pointer in it."""
    return clean(re.sub(_POINTER, lambda m: f"line {r.at(m[0])[0]}", text))


def repaired(d: Diagnostic) -> str:
    """What a program could do about a finding: the first safe repair, else the first."""
    best = next((f for f in d.fixes if f.safe), next(iter(d.fixes), None))
    if best is None:
        return ""
    return f"{best.title}  ({'amk check --fix' if best.safe else 'not safe: see the patch under --json'})"


def author_line(r: Checked, at: str | None) -> str:
    """The line of Python that made a statement, if it can be trusted to be the one: '' otherwise.

    A descriptor is anybody's text, so only a Python file that stands beside it, or where amk runs, is looked into; and
    one that was changed after the descriptor was written may have another line there by now.
    """
    found = re.fullmatch(_PLACE, at or "")
    if found is None or r.path == "<stdin>":
        return ""
    for folder in dict.fromkeys((os.path.dirname(r.path), "")):
        line = _line(os.path.join(folder, found[1]), int(found[2]), r.path)
        if line:
            return line
    return ""


def _line(path: str, number: int, made: str) -> str:
    from amk.dsl.files import read_bytes

    try:
        status = os.stat(path)
        if status.st_size > _MOST or status.st_mtime > os.stat(made).st_mtime:
            return ""
        lines = read_bytes(path, _MOST).decode("utf-8").split("\n")
    except (OSError, ValueError):
        return ""
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""
