"""AMK005: operand misused."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.operands import operand_faults
from amk.harness.rule import Rule
from amk.harness.rules.examples import example

__all__ = ["Operands"]


class Operands(Rule):
    """Every operand has the rank, the space and the width that its statement takes.

    Why:    An address of the wrong space or rank is another address.
    Proof:  Each operand is resolved through its views and compared with its declaration.
    Bad:    `x[i, 0]` of a vector.
    Good:   One index a dimension; views take as many as they leave open.
    Source: the IR's definition (nodes)
    """

    code, title = "AMK005", "operand misused"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        for pointer, s in k.statements.items():
            for message in operand_faults(k.kernel, s):
                yield self.report(k, pointer, message, hint="see `amk schema` for what each statement takes")

    @staticmethod
    def bad() -> KernelDescriptor:
        return example([{"kind": "load", "dst": "a[0]", "src": "x[i, 0]"}])

    @staticmethod
    def good() -> KernelDescriptor:
        return example()
