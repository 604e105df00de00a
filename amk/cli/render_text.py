"""`amk check` for people: each finding with its lines, its values and its way out; then a line for each file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from amk.cli.checked import Checked, author_line, repaired, worded
from amk.cli.output import clean, paint
from amk.harness.diagnostics import Diagnostic, Report, WaitsFor

__all__ = ["details", "summary", "text"]

_COLOUR = {"error": "red", "undecided": "yellow", "warning": "blue"}
_WIDTH = 78  # where the place of a finding ends
_TEXT = 100  # characters of a line of a message
_LINES = 12  # line numbers of findings that are like another
_SNIPPET = 140  # characters of a source line


def text(results: Sequence[Checked]) -> str:
    """The findings, then a line for each file, then the sum."""
    several = len({r.report.target for r in results}) > 1
    parts = [_finding(r, *group, several) for r in results for group in _grouped(r)]
    return "\n".join([*(r.diff for r in results if r.diff), *parts, summary(results, total=bool(parts))]) + "\n"


def summary(results: Sequence[Checked], *, total: bool = True) -> str:
    """What was repaired, a line for each file, and the sum."""
    lines = [line for r in results for line in (*_repairs(r), _status(r))]
    return "\n".join([*lines, *([_sum(results)] if len(results) > 1 or total else [])])


def _grouped(r: Checked) -> list[tuple[Diagnostic, list[Diagnostic]]]:
    """Each finding with those that are like it: of one rule, cured by one repair or written in one line."""
    groups: dict[object, list[Diagnostic]] = {}
    for n, d in enumerate(r.report.diagnostics):
        best = next((f.title for f in d.fixes if f.safe), "")
        same = best or (d.at if d.severity == "warning" else None)
        groups.setdefault((d.code, d.severity, same) if same else n, []).append(d)
    return [(first, others) for first, *others in groups.values()]


def _finding(r: Checked, d: Diagnostic, others: Sequence[Diagnostic], several: bool) -> str:
    line, column = r.at(d.pointer)
    kind = "" if d.severity == "error" else f" ({d.severity})"
    head, place = f"{d.code} {clean(d.title, 200)}{kind}", f"{clean(r.path, 400)}:{line}:{column}"
    gap = " " * max(_WIDTH - len(head) - len(place), 2)
    body = [paint(head, _COLOUR[d.severity]) + gap + place, *_shown(r, d.pointer, d.message)]
    steps = {w.pointer for w in d.cycle}
    for other in (x for x in d.related if x.pointer not in steps):
        note = other.note + (f" ({other.at})" if other.at else "")
        body += _shown(r, other.pointer, note, again=other.pointer == d.pointer)
    body += _cycle(r, d.cycle)
    rows = details(r, d)
    rows += [("and", _alike(r, others))] if others else []
    rows += [("on", clean(r.report.target))] if several else []
    rows.append(("more", f"amk explain {d.code}"))
    return "\n".join([*body, *(f"  {name:<15}  {value}" for name, value in rows)]) + "\n"


def _alike(r: Checked, others: Sequence[Diagnostic]) -> str:
    lines = list(dict.fromkeys(str(r.at(d.pointer)[0]) for d in others))
    more = ", …" if len(lines) > _LINES else ""
    return f"{len(others)} more like it: line {', '.join(lines[:_LINES])}{more}"


def _shown(r: Checked, pointer: str, said: str, *, again: bool = False) -> Iterator[str]:
    """A statement as it stands in the file (if not `again`), and below it what is said about it."""
    line, _ = r.at(pointer)
    source = "" if again else _source(r, pointer, line)
    if source:
        yield paint(f"{line:>6}  |  {source}", "dim")
    from textwrap import wrap

    for part in said.splitlines():
        yield from (f"        |  {x}" for x in wrap(worded(r, part), _TEXT))


def _source(r: Checked, pointer: str, line: int) -> str:
    if r.place is None:
        return clean(r.document.snippet(pointer), _SNIPPET)
    lines = r.document.lines  # of a file that does not read: its line, from the fault on where it is long
    if not 0 < line <= len(lines) or not lines[line - 1].strip():
        return ""
    column, whole = r.place[1], lines[line - 1].strip()
    far = len(whole) > _SNIPPET and column > 1
    return clean("…" + lines[line - 1][column - 1 : column + _SNIPPET] if far else whole, _SNIPPET)


def _cycle(r: Checked, cycle: Sequence[WaitsFor]) -> Iterator[str]:
    """Who waits for whom: each step with its statement, and the last one leading back to the first."""
    if cycle:
        yield "        |  nobody can go on:"
    for n, step in enumerate(cycle, 1):
        back = " (back to 1.)" if n == len(cycle) and step.held_by == cycle[0].who else ""
        written = f" ({step.at})" if step.at else ""
        yield from _shown(r, step.pointer, f"{n}. {step.sentence}{back}{written}")


def details(r: Checked, d: Diagnostic) -> list[tuple[str, str]]:
    """The rows below a finding: values, the author's line, what to try, what a program would do."""
    rows: list[tuple[str, str]] = []
    if d.counterexample:
        from amk.harness.situation import situation

        seen = "" if d.severity == "warning" else f"  ({'' if d.confirmed else 'not '}seen in the interpreter)"
        name = "measured" if d.severity == "warning" else "counterexample"
        rows.append((name, clean(", ".join(situation(d, r.kernel))) + seen))
    if d.at:
        line = author_line(r, d.at)
        rows.append(("written at", clean(d.at, 300) + (f"  {clean(line, _SNIPPET)}" if line else "")))
    rows += [("try", worded(r, x)) for x in d.hint.splitlines()[:4]]
    return rows + ([("repair", worded(r, repaired(d)))] if d.fixes else [])


def _repairs(r: Checked) -> list[str]:
    """What was repaired, or would be, and where else to mend it."""
    out = []
    for repair in r.repairs:
        d = repair.finding
        source = f" (mend {clean(d.at, 200)} too, which wrote it)" if d.at else ""
        word = "would repair" if r.diff else "repaired"
        out.append(f"{clean(r.path, 400)}: {word} {d.code} {clean(d.title, 200)}: {clean(repair.fix.title)}{source}")
    return out


def _status(r: Checked) -> str:
    path, report = clean(r.path, 400), r.report
    name = f"{path}  {clean(report.target)}".rstrip()
    hidden = f", {r.hidden} hidden" if r.hidden else ""
    if not report.kernel:
        return f"{name}: {paint('cannot be used' if r.code == 2 else 'not checked', 'red')}"
    time = f", {report.milliseconds:.1f} ms"
    if r.code in (0, 1) and report.ok and not r.hidden and not r.refused:
        return f"{name}: {paint('ok', 'green')}, {_proved(report)}{_also(report)}{time}{_certified(r)}{_measured(r)}"
    words = f"{_count(len(report.errors), 'error')}, {len(report.undecided)} undecided{_also(report)}{hidden}"
    refused = f"; not certified: {clean(r.refused.splitlines()[0], 200)}" if r.refused else ""
    return f"{name}: {_verdict(r.code)}, {words}{time}{refused}{_measured(r)}"


def _verdict(code: int) -> str:
    word, colour = {0: ("ok", "green"), 3: ("undecided", "yellow")}.get(code, ("refused", "red"))
    return paint(word, colour)


def _proved(report: Report) -> str:
    by = Counter(o.by for o in report.obligations)
    how = ", ".join(f"{n} {who}" for who, n in sorted(by.items()))
    return _count(len(report.obligations), "claim") + " proved" + (f" ({how})" if how else "")


def _also(report: Report) -> str:
    warnings = f", {_count(len(report.warnings), 'warning')}" if report.warnings else ""
    return warnings + (f", {len(report.suppressed)} suppressed" if report.suppressed else "")


def _certified(r: Checked) -> str:
    return f"\n  certificate {r.certificate[:16]}, meaning: {clean(r.meaning, 200)}" if r.certificate else ""


def _measured(r: Checked) -> str:
    return f"\n  measured: {r.measured}" if r.measured else ""


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _sum(results: Sequence[Checked]) -> str:
    found = Counter(d.severity for r in results for d in r.report.diagnostics)
    meant = sum(len(r.report.suppressed) for r in results)
    files = len({r.path for r in results})
    return (
        f"{_count(files, 'file')}: {_count(found['error'], 'error')}, {found['undecided']} undecided, "
        f"{_count(found['warning'], 'warning')}" + (f", {meant} suppressed" if meant else "")
    )
