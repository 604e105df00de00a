"""`check`: every rule over a kernel on a target.

In: a KernelDescriptor, and the target's name or data. Out: a Report.
"""

from __future__ import annotations

import time

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.target import Target
from amk.harness.context import Context, ProverChoice
from amk.harness.diagnostics import UNUSABLE, Diagnostic, Report
from amk.harness.suppressions import settled

__all__ = ["check", "made_for"]


def check(
    kernel: KernelDescriptor, target: Target | str | None = None, *, prover: ProverChoice = "auto", replay: bool = True
) -> Report:
    """Every finding of every rule. A kernel that does not read or lies outside the fragment stops early.

    Without `replay` no counterexample is run in the interpreter: none is confirmed, and the rest is the same.
    """
    start = time.perf_counter()
    k = Context(kernel, made_for(kernel, target), prover)
    found = _run(k)
    stands, meant = settled(kernel, (_replayed(kernel, d) if replay else d for d in found))
    usable = _stage(found) == "all"
    facts = k.bounds.facts if usable else ()
    proofs = tuple(k.bounds.obligations if usable else ()) + tuple(k.obligations)
    cases = tuple(k.order.cases) if usable and "order" in vars(k) else ()
    spent = (time.perf_counter() - start) * 1000
    return Report(kernel.name, kernel.hash, k.target.name, stands, proofs, facts, spent, meant, cases)


def made_for(kernel: KernelDescriptor, target: Target | str | None) -> Target:
    """The target that is meant; by default the kernel's own."""
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
    k.found = found + [d for r in RULES if r.code > "AMK009" and r.code not in _LAST for d in r().check(k)]
    return k.found + [d for r in RULES if r.code in _LAST for d in r().check(k)] + _own_faults(k)


_LAST = ("AMK091",)  # looks at what all others found


def _stage(found: list[Diagnostic]) -> str:
    stop = UNUSABLE | {"AMK007", "AMK008"}
    return "form" if any(d.code in stop and d.severity == "error" for d in found) else "all"


def _own_faults(k: Context) -> list[Diagnostic]:
    return [
        Diagnostic(
            "AMK901",
            "provers disagree",
            f.severity,
            f.message,
            f.pointer,
            counterexample=f.counterexample,
            hint="send the descriptor to the authors of amk: one of its provers is wrong",
        )
        for f in k.bounds.of("AMK901")
    ]


def _replayed(kernel: KernelDescriptor, d: Diagnostic) -> Diagnostic:
    """The finding with its byte, confirmed where the interpreter shows the same fault at the same values."""
    if not d.counterexample or d.severity != "error":
        return d
    from amk.harness.address import located

    try:
        from amk.harness.interpret import confirm
    except ImportError:
        return located(kernel, d)
    return located(kernel, d._replace(confirmed=bool(confirm(kernel, d.counterexample, d.code))))
