"""The repairs that the rules propose for a report's findings; `mend` tries them.

In: a kernel and its report. Out: the report with `fixes` in its diagnostics. A report without findings costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.target import Target
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix, Report

__all__ = ["proposed"]

MOST_FIXES = 6  # alternatives of one finding
MOST_FINDINGS = 100  # that repairs are proposed for: a file may be made to have any number


def proposed(kernel: KernelDescriptor, report: Report, target: Target | str | None = None) -> Report:
    """The report with the repairs that the rules propose, not tried yet."""
    if not report.diagnostics:
        return report
    from amk.harness.rules import RULES

    rules = {r.code: r() for r in RULES}
    place = target if isinstance(target, Target) else Target.find(target or kernel.target)
    k = Context(kernel, place, found=list(report.diagnostics[:MOST_FINDINGS]))

    def with_fixes(d: Diagnostic) -> Diagnostic:
        if d.code not in rules or d.severity == "undecided":
            return d
        return d._replace(fixes=_first(rules[d.code].fixes(k, d)))

    first, rest = report.diagnostics[:MOST_FINDINGS], report.diagnostics[MOST_FINDINGS:]
    return report._replace(diagnostics=(*map(with_fixes, first), *rest))


def _first(fixes: Iterable[Fix]) -> tuple[Fix, ...]:
    """The first few that differ."""
    out: list[Fix] = []
    for fix in fixes:
        if all(fix.edits != other.edits for other in out):
            out.append(fix)
        if len(out) == MOST_FIXES:
            break
    return tuple(out)
