"""What the harness says, as data: diagnostics with counterexamples, obligations and their provers, the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from amk.dsl.expr import Expr
    from amk.dsl.patch import Edit

__all__ = ["Diagnostic", "Fix", "Obligation", "Related", "Report", "Severity", "WaitsFor"]

Severity = Literal["error", "undecided", "warning"]
Prover = Literal["affine", "z3", "enumeration", "structure", "interpreter"]
# Faults that mean "this file cannot be used" rather than "this kernel is wrong" (exit code 2).
UNUSABLE = frozenset(("AMK001", "AMK002", "AMK003", "AMK004", "AMK005", "AMK006"))


class Related(NamedTuple):
    """A second place of a fault (the other access of a race, the barrier that is missing a thread)."""

    pointer: str
    note: str
    at: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        return {"pointer": self.pointer, "note": self.note, **({"at": self.at} if self.at else {})}


class WaitsFor(NamedTuple):
    """One step of a deadlock: somebody waits for what only somebody else, who waits too, could bring about.

    `who` waits at the statement `pointer` (written at `at`) for `what`, which `held_by` would have to do: in words, as
    in "warps 4 to 7", "phase 0 of full[1]", "warp 0". The steps of a cycle stand in order: each `held_by` is the next
    one's `who`, and the last one's is the first one's.
    """

    who: str
    what: str
    held_by: str
    pointer: str = ""
    at: str | None = None

    @property
    def sentence(self) -> str:
        """The step in words."""
        return f"{self.who}: waiting for {self.what}, held by {self.held_by}"

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        out = {"who": self.who, "waits_for": self.what, "held_by": self.held_by, "pointer": self.pointer}
        return {**out, **({"at": self.at} if self.at else {})}


class Fix(NamedTuple):
    """A repair that a program can make: edits of the descriptor, one after the other.

    `safe` says that the edits change nothing that was right: what the kernel computes where it had no fault, which
    arguments it takes. Whether the finding is gone afterwards, another check says (`amk.harness.mend`).
    """

    title: str
    edits: tuple[Edit, ...]
    safe: bool = False

    def to_dict(self) -> dict[str, Any]:
        """JSON data; `patch` is a JSON Patch (RFC 6902)."""
        return {"title": self.title, "safe": self.safe, "patch": [e.to_dict() for e in self.edits]}


class Diagnostic(NamedTuple):
    """One finding.

    `pointer` is the JSON pointer of the statement, `at` the place its author wrote it. `counterexample` maps names
    (sizes, bx, t, loop variables, byte) to integers; `confirmed` says that the interpreter showed it. `cycle` is who
    waits for whom in a deadlock, `fixes` are repairs, the best first, and `suppressed` is the reason that the kernel
    gives for a warning that it means.
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
    cycle: tuple[WaitsFor, ...] = ()
    fixes: tuple[Fix, ...] = ()
    suppressed: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON data; empty fields are left out."""
        out: dict[str, Any] = {"code": self.code, "title": self.title, "severity": self.severity}
        out |= {"message": self.message, "pointer": self.pointer}
        if self.at:
            out["at"] = self.at
        if self.related:
            out["related"] = [r.to_dict() for r in self.related]
        if self.cycle:
            out["cycle"] = [w.to_dict() for w in self.cycle]
        if self.counterexample:
            out |= {"counterexample": dict(self.counterexample), "confirmed": self.confirmed}
        if self.fixes:
            out["fixes"] = [f.to_dict() for f in self.fixes]
        return out | {k: v for k, v in (("hint", self.hint), ("suppressed", self.suppressed)) if v}

    def __str__(self) -> str:
        """One line: where, what, and what to do."""
        place = self.at or self.pointer or "the kernel"
        tried = f"; try: {self.hint}" if self.hint else ""
        return f"{self.code} {self.title} ({self.severity}) at {place}: {self.message}{tried}"


class Obligation(NamedTuple):
    """Something that had to be shown, what showed it, and the conditions of the kernel under which it holds.

    `given` are guards as the kernel writes them, outermost first; the domain of the sizes is not repeated.
    """

    rule: str
    pointer: str
    claim: str
    by: Prover
    given: tuple[Expr, ...] = ()

    def to_dict(self) -> dict[str, str]:
        return {"rule": self.rule, "pointer": self.pointer, "claim": self.claim, "by": self.by}


class Report(NamedTuple):
    """The outcome of a check of one kernel on one target; `suppressed` are warnings that the kernel says it means."""

    kernel: str
    hash: str
    target: str
    diagnostics: tuple[Diagnostic, ...] = ()
    obligations: tuple[Obligation, ...] = ()
    facts: tuple[str, ...] = ()  # what the launcher has to check
    milliseconds: float = 0.0
    suppressed: tuple[Diagnostic, ...] = ()
    cases: tuple[Mapping[str, Any], ...] = ()  # the sizes and blocks at which the order of accesses was walked

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

        def kept(found: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
            wanted = (d for d in found if not chosen or d.code.startswith(chosen))
            return tuple(d for d in wanted if not (dropped and d.code.startswith(dropped)))

        return self._replace(diagnostics=kept(self.diagnostics), suppressed=kept(self.suppressed))

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        return {
            "kernel": self.kernel, "hash": self.hash, "target": self.target, "ok": self.ok,
            "diagnostics": [d.to_dict() for d in self.diagnostics],
            **({"suppressed": [d.to_dict() for d in self.suppressed]} if self.suppressed else {}),
            "obligations": [o.to_dict() for o in self.obligations],
            "facts": list(self.facts), "milliseconds": round(self.milliseconds, 3),
        }  # fmt: skip

    def __str__(self) -> str:
        """A line that says how it ended, then a line for each finding."""
        said = "ok" if self.ok else "refused" if self.errors else "undecided"
        errors, warnings = len(self.errors), len(self.warnings)
        counts = f"{errors} error{'s' * (errors != 1)}, {len(self.undecided)} undecided, "
        counts += f"{warnings} warning{'s' * (warnings != 1)}"
        return "\n".join([f"{self.kernel} on {self.target}: {said}, {counts}", *map(str, self.diagnostics)])
