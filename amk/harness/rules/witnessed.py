"""From claims that failed to diagnostics, with a run of the interpreter where the provers gave no values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Related
from amk.harness.rule import Rule

__all__ = ["claimed", "witnessed"]


def claimed(rule: Rule, k: Context) -> Iterator[Diagnostic]:
    """The claims of the bounds prover that failed, of this rule's code."""
    found = (
        rule.report(k, f.pointer, f.message, counterexample=f.counterexample, hint=f.hint, severity=f.severity)
        for f in k.bounds.of(rule.code)
    )
    yield from witnessed(k, found)


def witnessed(k: Context, found: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """The findings; an error without values, or about no statement, gets the first thread that shows it in a run."""
    for d in found:
        complete = d.severity != "error" or (d.counterexample and d.pointer in k.statements)
        yield d if complete else _shown(k, d)


def _shown(k: Context, d: Diagnostic) -> Diagnostic:
    from amk.harness.interpret import witness

    shown = witness(k.kernel, d.code, d.counterexample, d.pointer if d.pointer in k.statements else None)
    if shown is None:
        return d
    values, pointer = shown
    there = Related(pointer, "where a thread runs into it", getattr(k.statements.get(pointer), "at", None))
    related = d.related if d.pointer in k.statements else (*d.related, there)
    return Diagnostic(d.code, d.title, d.severity, d.message, d.pointer, d.at, related, values, False, d.hint)
