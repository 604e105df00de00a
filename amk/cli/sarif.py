"""SARIF 2.1.0 (OASIS standard, 2020): what code-scanning services and editors read."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from amk import __version__
from amk.cli.checked import Checked, worded
from amk.cli.output import clean
from amk.cli.sarif_detail import fingerprint, fixes, flows
from amk.harness.diagnostics import Diagnostic, Related
from amk.harness.situation import situation

__all__ = ["sarif"]

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
RULES_AT = "urn:amk:rule:"  # no page of a rule has a public address; `help` carries its text
_EDITS = 300  # that are written out as repairs: each looks through the whole text
_LEVEL = {"error": "error", "undecided": "error", "warning": "warning"}


def sarif(results: Sequence[Checked]) -> dict[str, Any]:
    """The log of one run."""
    from amk.cli.check import worst

    found = {d.code: d for r in results for d in (*r.report.suppressed, *r.report.diagnostics)}
    code = worst([r.code for r in results])
    run = {
        "tool": {"driver": _driver(found)},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": code != 4, "exitCode": code}],
        "originalUriBaseIds": {"%SRCROOT%": {"description": {"text": "the folder in which amk ran"}}},
        "results": _results(results, sorted(found)),
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _driver(found: dict[str, Diagnostic]) -> dict[str, Any]:
    from amk.harness.docs import manual, titles

    rules = [_rule(found[c], manual(c) if c in titles() else "") for c in sorted(found)]
    return {"name": "amk", "version": __version__, "semanticVersion": __version__, "rules": rules}


def _rule(d: Diagnostic, page: str) -> dict[str, Any]:
    plain = f"amk explain {d.code}"
    return {
        "id": d.code,
        "name": "".join(w.capitalize() for w in clean(d.title).split()),
        "shortDescription": {"text": clean(d.title, 200)},
        "fullDescription": {"text": _first_sentence(page) or clean(d.title, 200)},
        "help": {"text": page, "markdown": page} if page else {"text": plain},
        "helpUri": RULES_AT + d.code,
        "defaultConfiguration": {"level": _LEVEL[d.severity]},
    }


def _first_sentence(page: str) -> str:
    """What a page says first, below its head."""
    paragraphs = [p for p in page.split("\n\n") if p and p[0] not in "#*<"]
    return " ".join(paragraphs[0].split()) if paragraphs else ""


def _results(results: Sequence[Checked], codes: list[str]) -> list[dict[str, Any]]:
    out, seen, left = [], Counter[str](), _EDITS
    for r, d in _all(results):
        mark = fingerprint(r, d)
        out.append(_result(r, d, codes.index(d.code), f"{mark}:{seen[mark]}"))
        best = next((f for f in d.fixes if f.safe), None)
        if best is not None and (left := left - len(best.edits)) >= 0 and (found := fixes(r, best, _file)):
            out[-1]["fixes"] = found
        seen[mark] += 1
    return out


def _all(results: Sequence[Checked]) -> Iterator[tuple[Checked, Diagnostic]]:
    for r in results:
        yield from ((r, d) for d in (*r.report.diagnostics, *r.report.suppressed))


def _result(r: Checked, d: Diagnostic, rule: int, mark: str) -> dict[str, Any]:
    out: dict[str, Any] = {
        "ruleId": d.code,
        "ruleIndex": rule,
        "level": _LEVEL[d.severity],
        "message": {"text": _message(r, d)},
        "locations": [_location(r, d.pointer)],
        "partialFingerprints": {"amkFinding/v2": mark},
        "properties": {"target": r.report.target, "pointer": d.pointer, "severity": d.severity},
    }
    if d.counterexample:
        out["properties"] |= {"counterexample": dict(d.counterexample), "confirmed": d.confirmed}
    if d.related:
        out["relatedLocations"] = [_related(r, i, x) for i, x in enumerate(d.related, 1)]
    if steps := flows(r, d, _location):
        out["codeFlows"] = steps
    if d.suppressed:
        out["suppressions"] = [{"kind": "inSource", "status": "accepted", "justification": clean(d.suppressed)}]
    return out


def _message(r: Checked, d: Diagnostic) -> str:
    said = [worded(r, x) for x in d.message.splitlines()]
    if d.counterexample and d.severity != "warning":
        seen = "" if d.confirmed else " (not seen in the interpreter)"
        said.append(f"Counterexample: {clean(', '.join(situation(d, r.kernel)))}{seen}")
    return "\n".join(said + ([f"Try: {worded(r, d.hint)}"] if d.hint else []))


def _location(r: Checked, pointer: str) -> dict[str, Any]:
    line, column, last, until = r.region(pointer)
    region = {"startLine": line, "startColumn": column, "endLine": last, "endColumn": until}
    place = {"artifactLocation": _file(r.path), "region": region}
    return {"physicalLocation": place, "logicalLocations": [{"fullyQualifiedName": pointer or "/", "kind": "member"}]}


def _related(r: Checked, number: int, other: Related) -> dict[str, Any]:
    return {"id": number, "message": {"text": worded(r, other.note)}, **_location(r, other.pointer)}


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
