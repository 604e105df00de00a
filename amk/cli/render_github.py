"""`amk check` for GitHub: workflow commands, which a run shows beside the lines of a pull request.

GitHub shows 10 errors and 10 warnings of a step; the rest stands in its log. Source: GitHub Actions documentation,
workflow commands (escaping as in its toolkit).
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from amk.cli.checked import Checked, worded
from amk.cli.output import clean
from amk.cli.render_text import details
from amk.harness.diagnostics import Diagnostic

__all__ = ["github"]


def github(results: Sequence[Checked]) -> str:
    """A command for each finding, and a notice for suppressed ones."""
    commands = [_command(r, d) for r in results for d in r.report.diagnostics]
    return "".join([*commands, *(_suppressed(r) for r in results if r.report.suppressed)])


def _command(r: Checked, d: Diagnostic) -> str:
    line, column, last, until = r.region(d.pointer)
    fields: dict[str, object] = {"file": _file(r.path), "line": line, "endLine": last}
    if last == line:  # GitHub takes columns of one line only
        fields |= {"col": column, "endColumn": max(column, until - 1)}
    fields["title"] = f"{d.code} {clean(d.title, 200)}"
    said = [worded(r, x) for x in d.message.splitlines()]
    said += [f"line {r.at(x.pointer)[0]}: {worded(r, x.note)}" for x in d.related]
    said += [f"line {r.at(x.pointer)[0]}: {clean(x.sentence)}" for x in d.cycle]
    said += [f"{name}: {value}" for name, value in details(r, d)]
    said += [f"on: {clean(r.report.target)}"] if r.report.target else []
    level = "warning" if d.severity == "warning" else "error"
    return _written(level, fields, "\n".join([*said, f"more: amk explain {d.code}"]))


def _suppressed(r: Checked) -> str:
    found = [f"{d.code} {clean(d.title, 200)}: {clean(d.suppressed)}" for d in r.report.suppressed]
    title = f"{len(found)} suppressed on {clean(r.report.target)}"
    return _written("notice", {"file": _file(r.path), "line": 1, "title": title}, "\n".join(found))


def _written(level: str, fields: dict[str, object], message: str) -> str:
    where = ",".join(f"{k}={_percent(str(v), property=True)}" for k, v in fields.items())
    return f"::{level} {where}::{_percent(message)}\n"


def _percent(value: str, *, property: bool = False) -> str:
    out = value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return out.replace(":", "%3A").replace(",", "%2C") if property else out


def _file(path: str) -> str:
    """Relative to the repository, which is where the workflow starts; a file elsewhere as it was named."""
    root = os.environ.get("GITHUB_WORKSPACE") or os.curdir
    try:
        inside = os.path.relpath(path, root)
    except (OSError, ValueError):  # the folder is gone, or on another drive
        return clean(path, 1000)
    return clean(path if path == "<stdin>" or inside.startswith("..") else inside.replace(os.sep, "/"), 1000)
