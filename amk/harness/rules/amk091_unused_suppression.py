"""AMK091: unused suppression."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix
from amk.harness.rule import Rule
from amk.harness.rules.examples import scattered
from amk.harness.suppressions import covers

__all__ = ["UnusedSuppression"]


class UnusedSuppression(Rule):
    """Every suppression is about a warning that is there.

    Why:    One that is left over hides the next finding of its code, which nobody has looked at.
    Proof:  The findings of all other rules are compared with each suppression. This rule cannot be suppressed.
    Bad:    A suppression of AMK501 in a kernel whose accesses are coalesced.
    Good:   No suppression there.
    Fix:    The suppression is removed.
    Source: the IR's definition (kernel)
    """

    code, title = "AMK091", "unused suppression"
    severity = "warning"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        if not k.kernel.suppress:
            return
        from amk.harness.docs import titles

        for i, s in enumerate(k.kernel.suppress):
            if titles().get(s.code, ("", ""))[1] == "warning" and not any(covers(s, d) for d in k.found):
                where = f" at {s.pointer} or below" if s.pointer else ""
                message = f"no {s.code} ({titles()[s.code][0]}) is found{where}: the suppression hides nothing"
                yield self.report(k, f"/suppress/{i}", message, hint="remove it, or correct its code or pointer")

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """The suppression goes."""
        from amk.dsl.patch import Edit

        yield Fix("remove the suppression", (Edit("remove", d.pointer),), safe=True)

    @staticmethod
    def bad() -> KernelDescriptor:
        return scattered("AMK501", "this pass reads a column, once", column=False)

    @staticmethod
    def good() -> KernelDescriptor:
        return scattered("AMK501", "this pass reads a column, once")
