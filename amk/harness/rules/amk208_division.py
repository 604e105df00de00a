"""AMK208: operands of division or shift."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.rule import Rule
from amk.harness.rules.examples import example
from amk.harness.rules.witnessed import claimed

__all__ = ["Division"]


class Division(Rule):
    """Divisors and steps are positive, dividends and shifted values not negative, shift counts below the width.

    Why:    C rounds towards zero where mathematics rounds down, and a division by zero or a long shift means nothing.
            A loop whose step is not positive does not end.
            `cdiv` of signed integers rounds up on both sides, so its dividend may have any sign.
    Proof:  One claim an operand under the guards that stand around it, in statements and in the strides of tensors.
    Bad:    `(i - n) // 2`.
    Good:   `max(i - n, 0) // 2`, or a guard.
    Source: ISO C, 6.5.5 and 6.5.7
    """

    code, title = "AMK208", "operands of division or shift"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from claimed(self, k)

    @staticmethod
    def bad() -> KernelDescriptor:
        return example(body=[{"kind": "let", "name": "q", "value": "(t - 5) // 2"}])

    @staticmethod
    def good() -> KernelDescriptor:
        return example(body=[{"kind": "let", "name": "q", "value": "max(t - 5, 0) // 2"}])
