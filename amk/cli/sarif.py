"""SARIF 2.1.0 (OASIS standard, 2020): what code-scanning services and editors read."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from amk import __version__
from amk.cli.checked import Checked
from amk.cli.output import clean
from amk.harness.diagnostics import Diagnostic, Related

__all__ = ["sarif"]

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
RULES_AT = "urn:amk:rule:"  # no page of a rule has a public address; `help` carries its text
_LEVEL = {"error": "error", "undecided": "error", "warning": "warning"}


def sarif(results: Sequence[Checked]) -> dict[str, Any]:
    """The log of one run."""
    from amk.harness.docs import pages

    known = pages()
    found = {d.code: d for r in results for d in r.report.diagnostics}
    codes = sorted(found)
    driver = {
        "name": "amk", "version": __version__, "semanticVersion": __version__,
        "rules": [_rule(found[c], known.get(c, "")) for c in codes],
    }  # fmt: skip
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": all(r.code != 4 for r in results)}],
        "results": _results(results, codes),
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(d: Diagnostic, page: str) -> dict[str, Any]:
    told = {"text": page, "markdown": page} if page else {"text": f"amk explain {d.code}"}
    return {
        "id": d.code,
        "name": "".join(w.capitalize() for w in clean(d.title).split()),
        "shortDescription": {"text": clean(d.title, 200)},
        "help": told,
        "helpUri": RULES_AT + d.code,
        "defaultConfiguration": {"level": _LEVEL[d.severity]},
    }


def _results(results: Sequence[Checked], codes: list[str]) -> list[dict[str, Any]]:
    out, seen = [], Counter[str]()
    for r in results:
        for d in r.report.diagnostics:
            mark = _fingerprint(r, d)
            out.append(_result(r, d, codes.index(d.code), f"{mark}:{seen[mark]}"))
            seen[mark] += 1
    return out


def _result(r: Checked, d: Diagnostic, rule: int, mark: str) -> dict[str, Any]:
    out: dict[str, Any] = {
        "ruleId": d.code,
        "ruleIndex": rule,
        "level": _LEVEL[d.severity],
        "message": {"text": _message(r, d)},
        "locations": [_location(r, d.pointer)],
        "partialFingerprints": {"amkFinding/v1": mark},
        "properties": {"target": r.report.target, "pointer": d.pointer, "severity": d.severity},
    }
    if d.counterexample:
        out["properties"] |= {"counterexample": dict(d.counterexample), "confirmed": d.confirmed}
    if d.related:
        out["relatedLocations"] = [_related(r, i, x) for i, x in enumerate(d.related, 1)]
    return out


def _message(r: Checked, d: Diagnostic) -> str:
    said = [clean(x) for x in d.message.splitlines()]
    if d.counterexample:
        said.append("Counterexample: " + ", ".join(f"{clean(k)}={v}" for k, v in d.counterexample.items()))
    return "\n".join(said + ([f"Try: {clean(d.hint)}"] if d.hint else []))


def _location(r: Checked, pointer: str) -> dict[str, Any]:
    line, column = r.at(pointer)
    place = {"artifactLocation": _file(r.path), "region": {"startLine": line, "startColumn": column}}
    return {"physicalLocation": place, "logicalLocations": [{"fullyQualifiedName": pointer or "/", "kind": "member"}]}


def _related(r: Checked, number: int, other: Related) -> dict[str, Any]:
    return {"id": number, "message": {"text": clean(other.note, 400)}, **_location(r, other.pointer)}


def _file(path: str) -> dict[str, str]:
    """Relative to the folder where amk ran, as services want it; absolute if it stands elsewhere."""
    if path == "<stdin>":
        return {"uri": "stdin"}
    try:
        inside = os.path.relpath(path)
    except (OSError, ValueError):  # the folder where amk runs is gone, or on another drive than the file
        return {"uri": quote(PurePath(path).as_posix())}
    if not inside.startswith(".."):
        return {"uri": quote(PurePath(inside).as_posix()), "uriBaseId": "%SRCROOT%"}
    return {"uri": PurePath(os.path.abspath(path)).as_uri()}


def _fingerprint(r: Checked, d: Diagnostic) -> str:
    """The same finding after lines have moved: rule, kernel, target and statement, but no line."""
    parts = (d.code, r.report.kernel, r.report.target, d.pointer)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
