"""The formats of `amk check`: results come in, text, JSON, SARIF or GitHub commands come out.

Every format keeps the line and column of the statement in its file, and counts what the kernel suppresses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from amk import __version__
from amk.cli.checked import Checked
from amk.cli.render_text import text
from amk.harness.diagnostics import Diagnostic

__all__ = ["FORMATS", "json_text"]


def json_text(results: Sequence[Checked]) -> str:
    """One object with a result for each file and target; see docs/cli.md."""
    from amk.cli.check import worst

    data = {"amk": __version__, "exit_code": worst([r.code for r in results]), "results": [_result(r) for r in results]}
    return json.dumps(data, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _result(r: Checked) -> dict[str, Any]:
    data = r.report.to_dict()
    for found in (*data["diagnostics"], *data.get("suppressed", ())):
        _place(r, found)
    repairs = [_repair(r, x.finding) | {"fix": x.fix.to_dict()} for x in r.repairs]
    extra = {
        "certificate": r.certificate, "meaning": r.meaning, "refused": r.refused, "hidden": r.hidden,
        "repairs": repairs, "diff": r.diff,
        "measured": {k: v for k, v in r.measured.to_dict().items() if k != "diagnostics"} if r.measured else None,
    }  # fmt: skip
    return {"file": r.path, "exit_code": r.code, **data, **{k: v for k, v in extra.items() if v}}


def _place(r: Checked, found: dict[str, Any]) -> None:
    """Line and column of a finding, where it ends, and of its other places."""
    found["line"], found["column"], found["end_line"], found["end_column"] = r.region(found["pointer"])
    for other in (*found.get("related", ()), *found.get("cycle", ())):
        other["line"], other["column"] = r.at(other["pointer"])


def _repair(r: Checked, d: Diagnostic) -> dict[str, Any]:
    """A finding that was repaired; its pointer was right before that."""
    return {k: v for k, v in d.to_dict().items() if k in ("code", "title", "severity", "message", "pointer", "at")}


def _sarif(results: Sequence[Checked]) -> str:
    from amk.cli.sarif import sarif

    return json.dumps(sarif(results), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _github(results: Sequence[Checked]) -> str:
    from amk.cli.render_github import github

    return github(results)


FORMATS: dict[str, Callable[[Sequence[Checked]], str]] = {
    "text": text, "json": json_text, "sarif": _sarif, "github": _github,
}  # fmt: skip
