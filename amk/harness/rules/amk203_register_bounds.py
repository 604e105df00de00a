"""AMK203: register index out of bounds."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.rule import Rule
from amk.harness.rules.examples import example
from amk.harness.rules.witnessed import claimed

__all__ = ["RegisterBounds"]


class RegisterBounds(Rule):
    """Every register index lies inside its array for all values of its variables.

    Why:    Past its end a register array is another value, or the compiler assumes that the access never happens.
    Proof:  The same claims as for tensors, with a constant shape.
    Bad:    `a[4]` of four registers.
    Good:   `a[3]`.
    Source: ISO C, 6.5.6: arithmetic past an array is undefined
    """

    code, title = "AMK203", "register index out of bounds"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from claimed(self, k)

    @staticmethod
    def bad() -> KernelDescriptor:
        return example(body=[{"kind": "store", "dst": "a[4]", "values": ["0.0"]}])

    @staticmethod
    def good() -> KernelDescriptor:
        return example(body=[{"kind": "store", "dst": "a[3]", "values": ["0.0"]}])
