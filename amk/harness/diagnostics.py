"""What the harness says, as data: diagnostics with counterexamples, obligations and their provers, the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

__all__ = ["Diagnostic", "Obligation", "Related", "Report", "Severity"]

Severity = Literal["error", "undecided", "warning"]
Prover = Literal["affine", "z3", "enumeration", "structure", "interpreter"]
# Faults that mean "this file cannot be used" rather than "this kernel is wrong" (exit code 2).
UNUSABLE = frozenset(("AMK001", "AMK002", "AMK003", "AMK004", "AMK005", "AMK006"))


class Related(NamedTuple):
    """A second place of a fault (the other access of a race, the barrier that is missing a thread)."""

    pointer: str
    note: str
    at: str | None = None


class Diagnostic(NamedTuple):
    """One finding.

    `pointer` is the JSON pointer of the statement, `at` the place its author wrote it. `counterexample` maps names
    (sizes, bx, t, loop variables, byte) to integers; `confirmed` says that the interpreter showed it.
    """

    code: str
    title: str
    severity: Severity
    message: str
    pointer: str = ""
    at: str | None = None
    related: tuple[Related, ...] = ()
    counterexample: Mapping[str, int] = {}
    confirmed: bool = False
    hint: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON data; empty fields are left out."""
        out: dict[str, Any] = {"code": self.code, "title": self.title, "severity": self.severity}
        out |= {"message": self.message, "pointer": self.pointer}
        if self.at:
            out["at"] = self.at
        if self.related:
            out["related"] = [
                {"pointer": r.pointer, "note": r.note, **({"at": r.at} if r.at else {})} for r in self.related
            ]
        if self.counterexample:
            out |= {"counterexample": dict(self.counterexample), "confirmed": self.confirmed}
        return out | ({"hint": self.hint} if self.hint else {})


class Obligation(NamedTuple):
    """Something that had to be shown, and what showed it."""

    rule: str
    pointer: str
    claim: str
    by: Prover

    def to_dict(self) -> dict[str, str]:
        return {"rule": self.rule, "pointer": self.pointer, "claim": self.claim, "by": self.by}


class Report(NamedTuple):
    """The outcome of a check of one kernel on one target."""

    kernel: str
    hash: str
    target: str
    diagnostics: tuple[Diagnostic, ...] = ()
    obligations: tuple[Obligation, ...] = ()
    facts: tuple[str, ...] = ()  # what the launcher has to check
    milliseconds: float = 0.0

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return tuple(d for d in self.diagnostics if d.severity == "error")

    @property
    def undecided(self) -> tuple[Diagnostic, ...]:
        return tuple(d for d in self.diagnostics if d.severity == "undecided")

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        return tuple(d for d in self.diagnostics if d.severity == "warning")

    @property
    def ok(self) -> bool:
        """Nothing refuted and nothing undecided."""
        return not self.errors and not self.undecided

    def exit_code(self, *, strict: bool = False) -> int:
        """0 clean, 1 findings, 2 unusable input, 3 undecided only. Warnings count under `strict`."""
        if any(d.code in UNUSABLE for d in self.errors):
            return 2
        if self.errors or (strict and self.warnings):
            return 1
        return 3 if self.undecided else 0

    def shown(self, select: Iterable[str] = (), ignore: Iterable[str] = ()) -> Report:
        """The report with only the selected codes (prefixes such as AMK3 count). What is hidden is still a fault."""
        chosen, dropped = tuple(select), tuple(ignore)
        kept = tuple(
            d for d in self.diagnostics
            if (not chosen or d.code.startswith(chosen)) and not (dropped and d.code.startswith(dropped))
        )  # fmt: skip
        return self._replace(diagnostics=kept)

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        return {
            "kernel": self.kernel, "hash": self.hash, "target": self.target, "ok": self.ok,
            "diagnostics": [d.to_dict() for d in self.diagnostics],
            "obligations": [o.to_dict() for o in self.obligations],
            "facts": list(self.facts), "milliseconds": round(self.milliseconds, 3),
        }  # fmt: skip
