"""From the faults of an engine to the diagnostics of a rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Related
from amk.harness.faults import Fault
from amk.harness.rule import Rule

__all__ = ["findings", "unsupported"]


def findings(rule: Rule, k: Context, faults: Iterable[Fault]) -> Iterator[Diagnostic]:
    """Each fault as a finding of the rule, with the places its author wrote."""
    for f in faults:
        related = tuple(Related(s.pointer, s.note, _at(k, s.pointer)) for s in f.related)
        d = rule.report(
            k, f.pointer, f.message, counterexample=f.counterexample, related=related, hint=f.hint, severity=f.severity
        )
        yield d._replace(cycle=tuple(w._replace(at=_at(k, w.pointer)) for w in f.cycle)) if f.cycle else d


def unsupported(k: Context, faults: Iterable[Fault]) -> Iterator[Diagnostic]:
    """What an engine cannot decide is an error of its own: nothing is accepted that was not checked."""
    for f in faults:
        hint = f.hint or "write it without this; docs/soundness.md lists what is checked"
        at = _at(k, f.pointer)
        yield Diagnostic("AMK008", "unsupported", "error", f.message, f.pointer, at, (), f.counterexample, False, hint)


def _at(k: Context, pointer: str) -> str | None:
    return getattr(k.statements.get(pointer), "at", None)
