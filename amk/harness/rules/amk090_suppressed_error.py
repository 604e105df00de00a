"""AMK090: suppression of an error."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix
from amk.harness.rule import Rule
from amk.harness.rules.examples import scattered

__all__ = ["SuppressedError"]


class SuppressedError(Rule):
    """A suppression names a rule whose findings are warnings.

    Why:    An error that a file can switch off is no longer found; a code that no rule has suppresses nothing.
    Proof:  The code of each suppression is looked up in the table of rules.
    Bad:    `"suppress": [{"code": "AMK301", "reason": "it works on my GPU"}]`
    Good:   `"suppress": [{"code": "AMK501", "reason": "this pass reads a column, once"}]`
    Fix:    The suppression is removed. What it was to hide stays, as it did before.
    Source: the IR's definition (kernel)
    """

    code, title = "AMK090", "suppression of an error"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        if not k.kernel.suppress:
            return
        from amk.harness.docs import titles

        for i, s in enumerate(k.kernel.suppress):
            if s.code not in titles():
                from difflib import get_close_matches

                near = get_close_matches(s.code, [c for c, (_, kind) in titles().items() if kind == "warning"], 1, 0.5)
                hint = f"{near[0]}, or see: amk rules" if near else "amk rules"
                yield self.report(k, f"/suppress/{i}", f"no rule has the code {s.code}", hint=hint)
            elif titles()[s.code][1] != "warning":
                message = f"{s.code} ({titles()[s.code][0]}) is an error, and no error is ever suppressed"
                yield self.report(k, f"/suppress/{i}", message, hint="mend the kernel, and remove the suppression")

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """The suppression goes."""
        from amk.dsl.patch import Edit

        yield Fix("remove the suppression", (Edit("remove", d.pointer),), safe=True)

    @staticmethod
    def bad() -> KernelDescriptor:
        return scattered("AMK301", "it works on my GPU")

    @staticmethod
    def good() -> KernelDescriptor:
        return scattered("AMK501", "this pass reads a column, once")
