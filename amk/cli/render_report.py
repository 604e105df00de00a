"""Findings for people and for machines: results of `amk check` come in, text, JSON, SARIF or GitHub commands come out.

Every format keeps the line and column of the statement in its file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import Any

from amk import __version__
from amk.cli.inputs import Document
from amk.cli.output import clean, paint
from amk.harness.diagnostics import Diagnostic, Report

__all__ = ["FORMATS", "Checked", "github", "json_text", "text"]

_COLOUR = {"error": "red", "undecided": "yellow", "warning": "blue"}
_WIDTH = 78  # where the place of a finding ends
_TEXT = 100  # characters of a line of a message
_SNIPPET = 140  # characters of a source line


@dataclass(frozen=True)
class Checked:
    """One file on one target. `place` is where a file that does not read is at fault."""

    document: Document
    report: Report
    code: int
    place: tuple[int, int] | None = None
    certificate: str = ""
    meaning: str = ""
    refused: str = ""
    hidden: int = 0

    @property
    def path(self) -> str:
        return self.document.path

    def at(self, pointer: str) -> tuple[int, int]:
        """Line and column of a statement."""
        return self.place or self.document.place(pointer)

    def filtered(self, select: tuple[str, ...], ignore: tuple[str, ...], *, strict: bool) -> Checked:
        """Only what is to be shown; only warnings that are shown count under `strict`."""
        shown = self.report.shown(select, ignore)
        code = 1 if strict and shown.warnings and self.code in (0, 3) else self.code
        hidden = len(self.report.diagnostics) - len(shown.diagnostics)
        return replace(self, report=shown, code=code, hidden=hidden)


# --------------------------------------------------------------------------------------------------------------- text
def text(results: Sequence[Checked]) -> str:
    """For people: each finding with its line, counterexample and way out; then a line for each file, then the sum."""
    parts = [_finding(r, d) for r in results for d in r.report.diagnostics]
    lines = [_status(r) for r in results]
    return "\n".join([*parts, *lines, *([_sum(results)] if len(results) > 1 or parts else [])]) + "\n"


def _finding(r: Checked, d: Diagnostic) -> str:
    line, column = r.at(d.pointer)
    kind = "" if d.severity == "error" else f" ({d.severity})"
    head, place = f"{d.code} {clean(d.title, 200)}{kind}", f"{clean(r.path, 400)}:{line}:{column}"
    gap = " " * max(_WIDTH - len(head) - len(place), 2)
    body = [paint(head, _COLOUR[d.severity]) + gap + place, *_snippet(r, line, column)]
    body += [f"        |  {x}" for said in d.message.splitlines() for x in wrap(clean(said), _TEXT)]
    return "\n".join(body + _details(r, d)) + "\n"


def _snippet(r: Checked, line: int, column: int) -> list[str]:
    lines = r.document.lines
    if not 0 < line <= len(lines) or not lines[line - 1].strip():
        return []
    first = lines[line - 1].strip()
    if len(first) > _SNIPPET and column > 1:  # a file on one line: what stands at the column
        first = "…" + lines[line - 1][column - 1 : column + _SNIPPET]
    # a statement with a body starts with a brace alone: what it is stands below
    shown = " ".join(x.strip() for x in lines[line - 1 : line + 8]) if first in ("{", "[") else first
    return [paint(f"{line:>6}  |  {clean(shown, _SNIPPET)}", "dim")]


def _details(r: Checked, d: Diagnostic) -> list[str]:
    rows: list[tuple[str, str]] = []
    for other in d.related:
        line, column = r.at(other.pointer)
        rows.append(("with", f"line {line}:{column}  {clean(other.note, 400)}" + _written(other.at)))
    if d.counterexample:
        values = "  ".join(f"{clean(k)}={v}" for k, v in d.counterexample.items())
        rows.append(("counterexample", values + ("  (seen in the interpreter)" if d.confirmed else "")))
    if d.at:
        rows.append(("written at", clean(d.at, 300)))
    rows += [("try", clean(x)) for x in d.hint.splitlines()[:4]]
    rows += [("on", clean(r.report.target))] if r.report.target else []
    rows.append(("more", f"amk explain {d.code}"))
    return [f"  {name:<15}  {value}" for name, value in rows]


def _written(at: str | None) -> str:
    return f"  ({clean(at, 300)})" if at else ""


def _status(r: Checked) -> str:
    path, report = clean(r.path, 400), r.report
    name = f"{path}  {clean(report.target)}".rstrip()
    hidden = f", {r.hidden} hidden" if r.hidden else ""
    if not report.kernel:
        return f"{name}: {paint('cannot be used' if r.code == 2 else 'not checked', 'red')}"
    time = f", {report.milliseconds:.1f} ms"
    if r.code in (0, 1) and report.ok and not r.hidden and not r.refused:
        return f"{name}: {paint('ok', 'green')}, {_proved(report)}{_also(report)}{time}{_certified(r)}"
    words = f"{_count(len(report.errors), 'error')}, {len(report.undecided)} undecided{_also(report)}{hidden}"
    refused = f"; not certified: {clean(r.refused.splitlines()[0], 200)}" if r.refused else ""
    return f"{name}: {_verdict(r.code)}, {words}{time}{refused}"


def _verdict(code: int) -> str:
    word, colour = {0: ("ok", "green"), 3: ("undecided", "yellow")}.get(code, ("refused", "red"))
    return paint(word, colour)


def _proved(report: Report) -> str:
    by = Counter(o.by for o in report.obligations)
    how = ", ".join(f"{n} {who}" for who, n in sorted(by.items()))
    return _count(len(report.obligations), "claim") + " proved" + (f" ({how})" if how else "")


def _also(report: Report) -> str:
    return f", {_count(len(report.warnings), 'warning')}" if report.warnings else ""


def _certified(r: Checked) -> str:
    return f"\n  certificate {r.certificate[:16]}, meaning: {clean(r.meaning, 200)}" if r.certificate else ""


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _sum(results: Sequence[Checked]) -> str:
    found = Counter(d.severity for r in results for d in r.report.diagnostics)
    files = len({r.path for r in results})
    return (
        f"{_count(files, 'file')}: {_count(found['error'], 'error')}, {found['undecided']} undecided, "
        f"{_count(found['warning'], 'warning')}"
    )


# --------------------------------------------------------------------------------------------------------------- JSON
def json_text(results: Sequence[Checked]) -> str:
    """One object with a result for each file and target; see docs/cli.md."""
    from amk.cli.check import worst

    data = {"amk": __version__, "exit_code": worst([r.code for r in results]), "results": [_result(r) for r in results]}
    return json.dumps(data, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _result(r: Checked) -> dict[str, Any]:
    data = r.report.to_dict()
    for found, d in zip(data["diagnostics"], r.report.diagnostics, strict=True):
        found["line"], found["column"] = r.at(d.pointer)
        for other in found.get("related", ()):
            other["line"], other["column"] = r.at(other["pointer"])
    extra = {"certificate": r.certificate, "meaning": r.meaning, "refused": r.refused, "hidden": r.hidden}
    return {"file": r.path, "exit_code": r.code, **data, **{k: v for k, v in extra.items() if v}}


# ------------------------------------------------------------------------------------------------------------- GitHub
def github(results: Sequence[Checked]) -> str:
    """Workflow commands, which GitHub shows beside the line."""
    return "".join(_command(r, d) for r in results for d in r.report.diagnostics)


def _command(r: Checked, d: Diagnostic) -> str:
    line, column = r.at(d.pointer)
    fields = {"file": clean(r.path, 1000), "line": line, "col": column, "title": f"{d.code} {clean(d.title, 200)}"}
    where = ",".join(f"{k}={_percent(str(v), property=True)}" for k, v in fields.items())
    said = [*d.message.splitlines(), *_details(r, d)]
    level = "warning" if d.severity == "warning" else "error"
    return f"::{level} {where}::{_percent(chr(10).join(clean(x) for x in said))}\n"


def _percent(value: str, *, property: bool = False) -> str:
    out = value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return out.replace(":", "%3A").replace(",", "%2C") if property else out


def _sarif(results: Sequence[Checked]) -> str:
    from amk.cli.sarif import sarif

    return json.dumps(sarif(results), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


FORMATS: dict[str, Callable[[Sequence[Checked]], str]] = {
    "text": text, "json": json_text, "sarif": _sarif, "github": github,
}  # fmt: skip
