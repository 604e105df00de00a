"""`check`: every rule over a kernel on a target. `certify`: a certificate, or the reason why there is none.

In: a KernelDescriptor, and the target's name or data. Out: a Report, or a Certificate that nothing else can make.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.target import Target
from amk.errors import InternalError, Refused, Undecided
from amk.harness.context import Context, ProverChoice
from amk.harness.diagnostics import UNUSABLE, Diagnostic, Report

__all__ = ["Certificate", "Reference", "certify", "check"]

Reference = Callable[[KernelDescriptor], str | None]
Meaning = Literal["checked", "not checked"]


def check(kernel: KernelDescriptor, target: Target | str | None = None, *, prover: ProverChoice = "auto") -> Report:
    """Every finding of every rule. A kernel that does not read or lies outside the fragment stops early."""
    start = time.perf_counter()
    k = Context(kernel, _target(kernel, target), prover)
    found = _run(k)
    confirmed = tuple(_replayed(kernel, d) for d in found)
    usable = _stage(found) == "all"
    facts = k.bounds.facts if usable else ()
    proofs = tuple(k.bounds.obligations if usable else ()) + tuple(k.obligations)
    spent = (time.perf_counter() - start) * 1000
    return Report(kernel.name, kernel.hash, k.target.name, confirmed, proofs, facts, spent)


def _target(kernel: KernelDescriptor, target: Target | str | None) -> Target:
    if isinstance(target, Target):
        return target
    return Target.find(target or kernel.target)


def _run(k: Context) -> list[Diagnostic]:
    """All rules; a kernel whose terms nest beyond what the engines can walk is outside the fragment."""
    try:
        return _rules(k)
    except RecursionError:
        message = "expressions nest too deeply once named values are put in place"
        return [Diagnostic("AMK008", "outside the checked fragment", "error", message, hint="split the computation")]


def _rules(k: Context) -> list[Diagnostic]:
    """The form rules first: what they refuse, the engines do not understand."""
    from amk.harness.rules import RULES

    found: list[Diagnostic] = []
    for rule in (r for r in RULES if r.code < "AMK009"):
        found += rule().check(k)
        if _stage(found) != "all":
            return found
    domain = [d for r in RULES if r.code == "AMK009" for d in r().check(k)]
    if domain:  # nothing satisfies it, so everything would hold in it
        return found + domain
    return found + [d for r in RULES if r.code > "AMK009" for d in r().check(k)] + _own_faults(k)


def _stage(found: list[Diagnostic]) -> str:
    stop = UNUSABLE | {"AMK007", "AMK008"}
    return "form" if any(d.code in stop and d.severity == "error" for d in found) else "all"


def _own_faults(k: Context) -> list[Diagnostic]:
    return [
        Diagnostic("AMK901", "provers disagree", f.severity, f.message, f.pointer, counterexample=f.counterexample)
        for f in k.bounds.of("AMK901")
    ]


def _replayed(kernel: KernelDescriptor, d: Diagnostic) -> Diagnostic:
    """The finding, confirmed where the interpreter shows the same fault at the same values."""
    if not d.counterexample or d.severity != "error":
        return d
    try:
        from amk.harness.interpret import confirm
    except ImportError:
        return d
    return replace(d, confirmed=bool(confirm(kernel, d.counterexample, d.code)))


# ---------------------------------------------------------------------------------------------------------- certificate
_TOKEN = object()


@dataclass(frozen=True)
class Certificate:
    """A kernel that the harness accepted on a target, and the report that says why. Made by `certify` alone."""

    kernel: KernelDescriptor
    target: Target
    report: Report
    meaning: Meaning
    digest: str
    token: object = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.token is not _TOKEN:
            raise InternalError("a certificate is made by certify() alone", hint="call amk.harness.check.certify")
        object.__setattr__(self, "token", None)

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        return {
            "kernel": self.kernel.hash, "name": self.kernel.name, "target": self.target.name, "meaning": self.meaning,
            "digest": self.digest, "report": self.report.to_dict(),
        }  # fmt: skip

    def to_json(self) -> str:
        """The certificate as JSON text."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"


def certify(
    kernel: KernelDescriptor, target: Target | str | None = None, *, reference: Reference | None = None
) -> Certificate:
    """The certificate of a kernel without any fault; Refused or Undecided (with the report) otherwise.

    Bounds are proved by Z3. `reference` runs the kernel against its operator and returns what differs, or None.
    """
    made_for = _target(kernel, target)
    report = check(kernel, made_for, prover="z3")
    if report.ok and reference is not None and (wrong := reference(kernel)) is not None:
        fault = Diagnostic("AMK403", "wrong result", "error", wrong)
        report = replace(report, diagnostics=(*report.diagnostics, fault))
    if not report.ok:
        raise _refusal(report)
    meaning: Meaning = "not checked" if reference is None else "checked"
    return Certificate(kernel, made_for, report, meaning, _digest(report, made_for, meaning), _TOKEN)


def _refusal(report: Report) -> Refused:
    first = (report.errors or report.undecided)[0]
    message = f"{report.kernel} is refused on {report.target}: {first.code} {first.message}"
    kind = Refused if report.errors else Undecided
    return kind(message, report=report, hint=first.hint)


def _digest(report: Report, target: Target, meaning: str) -> str:
    """Everything that the certificate says but the time it took."""
    said = {**report.to_dict(), "milliseconds": 0, "meaning": meaning, "target": target.dumps()}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
