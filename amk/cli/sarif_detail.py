"""What a SARIF result carries beside its place: a fingerprint, the threads of a fault, and repairs as text edits."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from amk.cli.checked import Checked, worded
from amk.cli.output import clean
from amk.harness.diagnostics import Diagnostic, Fix
from amk.harness.situation import situation, threads

__all__ = ["fingerprint", "fixes", "flows"]

Location = Callable[[Checked, str], dict[str, Any]]


def fingerprint(r: Checked, d: Diagnostic) -> str:
    """The same finding in a file that was formatted anew or got other statements: rule, kernel, target and what the
    statement itself says, but neither its line nor its number."""
    parts = (d.code, r.report.kernel, r.report.target, _said(r, d.pointer), *(_said(r, x.pointer) for x in d.related))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _said(r: Checked, pointer: str) -> str:
    """A statement without its body and its author's place, in one spelling; a pointer that leads nowhere as it is."""
    value = r.document.value(pointer) if pointer else None
    if isinstance(value, dict):
        value = {k: v for k, v in value.items() if k not in ("at", "body", "roles")}
    return json.dumps(value, sort_keys=True) if value is not None else pointer


def flows(r: Checked, d: Diagnostic, location: Location) -> list[dict[str, Any]]:
    """The threads of a fault between two of them, or of a deadlock, each with the statement that it has reached."""
    if d.cycle:
        paths = [_path(r, w.who, w.pointer, w.sentence, location) for w in d.cycle]
        said = "a cycle of waits: nobody can go on"
    elif d.related and (who := threads(d)) is not None:
        other, here = d.related[0], d.message
        paths = [_path(r, who[1], other.pointer, other.note, location), _path(r, who[0], d.pointer, here, location)]
        said = ", ".join(situation(d, r.kernel))
    else:
        return []
    return [{"message": {"text": clean(said)}, "threadFlows": paths}]


def _path(r: Checked, who: str, pointer: str, said: str, location: Location) -> dict[str, Any]:
    place = {**location(r, pointer), "message": {"text": worded(r, said)}}
    return {"id": clean(who, 200), "locations": [{"location": place}]}


def fixes(r: Checked, fix: Fix, artifact: Callable[[str], dict[str, str]]) -> list[dict[str, Any]]:
    """A repair as one replacement of text; nothing if it does not fit the file."""
    from amk.harness.mend import applied

    old = r.document.text
    try:
        new = applied(old, fix)
    except (KeyError, ValueError):
        return []
    start = _common(old, new)
    tail = _common(old[start:][::-1], new[start:][::-1])
    end = len(old) - tail
    (line, column), (last, until) = r.document.place_of(start), r.document.place_of(end)
    region = {"startLine": line, "startColumn": column, "endLine": last, "endColumn": until}
    change = {"deletedRegion": region, "insertedContent": {"text": new[start : len(new) - tail]}}
    changes = [{"artifactLocation": artifact(r.path), "replacements": [change]}]
    return [{"description": {"text": worded(r, fix.title)}, "artifactChanges": changes}]


def _common(a: str, b: str) -> int:
    """How many characters two texts begin with together: halved again and again, as comparing slices is quick."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
