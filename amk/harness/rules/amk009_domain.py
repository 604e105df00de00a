"""AMK009: domain is empty."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.rule import Rule
from amk.harness.rules.examples import example, small

__all__ = ["Domain"]


class Domain(Rule):
    """Some sizes satisfy the ranges, the divisors and the assumptions.

    Why:    In an empty domain everything is proved, and nothing is true.
    Proof:  The smallest and the largest sizes are tried, then Z3 looks for any.
    Bad:    A size in [1, 7] that is a multiple of 8.
    Good:   A domain with sizes in it.
    Source: de Moura and Bjorner, Z3 (TACAS 2008)
    """

    code, title = "AMK009", "domain is empty"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        for f in k.bounds.of(self.code):
            yield self.report(k, f.pointer, f.message, hint=f.hint, severity=f.severity)

    @staticmethod
    def bad() -> KernelDescriptor:
        params = small()["params"]
        return example(params=[{**params[0], "max": 7, "multiple_of": 8}, *params[1:]])

    @staticmethod
    def good() -> KernelDescriptor:
        return example()
