"""The shape of a rule: a code, a title, a manual page (its docstring), and a check over a Context."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix, Related, Severity

__all__ = ["Rule"]


class Rule:
    """Subclasses give `code`, `title`, a docstring that is the manual page, and `check`.

    The docstring has a first sentence, then the sections Why, Proof, Bad, Good and Source, as in the style guide, and
    Fix where `fixes` has safe repairs; `bad()` and `good()` build the smallest kernels that do and do not show the
    fault, and run as tests.
    """

    code: ClassVar[str]
    title: ClassVar[str]
    severity: ClassVar[Severity] = "error"
    device: ClassVar[str] = ""  # the target of `bad()` and `good()`; "": the kernel's own

    def check(self, k: Context) -> Iterator[Diagnostic]:
        """Every finding of this rule."""
        raise NotImplementedError

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """Repairs of one finding of this rule, the best first; `k.found` has the other findings."""
        return iter(())

    @staticmethod
    def bad() -> KernelDescriptor:
        """A kernel that must yield exactly this code among the errors (or warnings, for advice)."""
        raise NotImplementedError

    @staticmethod
    def good() -> KernelDescriptor:
        """The same kernel, mended."""
        raise NotImplementedError

    def report(
        self, k: Context, pointer: str, message: str, *, counterexample: Mapping[str, int] | None = None,
        related: tuple[Related, ...] = (), hint: str = "", severity: Severity | None = None,
    ) -> Diagnostic:  # fmt: skip
        """A finding of this rule at a statement, at another value of the descriptor, or at '' for the whole kernel."""
        s = k.statements.get(pointer)
        return Diagnostic(
            self.code, self.title, severity or self.severity, message, pointer, getattr(s, "at", None), related,
            dict(counterexample or {}), False, hint,
        )  # fmt: skip
