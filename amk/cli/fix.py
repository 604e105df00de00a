"""`amk check --fix` and `--diff`: files come in, their repaired text goes back whole or not at all.

Standard input is answered on standard output, so that an editor can pass a buffer through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import TYPE_CHECKING

from amk.cli.inputs import Document, read_document
from amk.cli.output import clean, complain_line
from amk.errors import AmkError, InputError

if TYPE_CHECKING:
    from amk.dsl.target import Target
    from amk.harness.context import ProverChoice
    from amk.harness.diagnostics import Report
    from amk.harness.mend import Repair

__all__ = ["Outcome", "refuse_mixture", "repair"]


@dataclass(frozen=True)
class Outcome:
    """A file after (or, with a `diff`, before) its repairs, and a report for each target. `failed`: not written."""

    document: Document
    reports: tuple[Report, ...]
    repairs: tuple[Repair, ...] = ()
    diff: str = ""
    failed: str = ""


def refuse_mixture(paths: Sequence[str]) -> None:
    """The repaired text of standard input goes to standard output, where nothing else may stand."""
    if "-" in paths and len(paths) > 1:
        raise InputError("with --fix, standard input stands alone", hint="amk check --fix - < old > new")


def repair(d: Document, targets: Sequence[Target | None], prover: ProverChoice, *, write: bool) -> Outcome:
    """The repairs of one file, written back or as a diff."""
    from amk.harness.mend import mend

    found = mend(d.text, targets, prover=prover)
    if not write:
        return Outcome(d, found.before, found.repairs, _diff(d, found.text) if found.repairs else "")
    new = Document(d.path, found.text.encode())
    if not found.repairs or d.path == "<stdin>":
        return Outcome(new, found.reports, found.repairs)
    try:
        _write(d, new.data)
    except AmkError as fault:
        complain_line(f"amk: error: {clean(fault.message)}")
        return Outcome(d, found.before, failed=fault.message)
    return Outcome(new, found.reports, found.repairs)


def _diff(d: Document, text: str) -> str:
    """The changed lines as `patch` and `git apply` read them."""
    old, new = d.text.splitlines(keepends=True), text.splitlines(keepends=True)
    name = d.path.lstrip("/")
    lines = unified_diff(old, new, f"a/{name}", f"b/{name}")
    return "".join(x if x.endswith("\n") else x + "\n\\ No newline at end of file\n" for x in lines)


def _write(d: Document, data: bytes) -> None:
    from amk.dsl.files import replace_bytes
    from amk.errors import EnvironmentProblem

    if read_document(d.path).data != d.data:
        hint = "run the command again"
        raise EnvironmentProblem(f"{d.path} was changed by somebody else meanwhile; it is left as it is", hint=hint)
    try:
        replace_bytes(d.path, data)
    except (OSError, ValueError) as e:
        why = e.strerror if isinstance(e, OSError) else str(e)
        raise EnvironmentProblem(f"cannot write {d.path}: {why}", hint="choose a file that can be written") from None
