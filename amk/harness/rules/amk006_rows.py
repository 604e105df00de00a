"""AMK006: instruction misused."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.operands import row_faults
from amk.harness.order_form import order_faults
from amk.harness.rule import Rule
from amk.harness.rules.examples import example

__all__ = ["Rows"]


class Rows(Rule):
    """Every call names a row of the instruction table, with its operands and arguments; so do barriers and roles.

    Why:    An instruction without an operand, or with an argument out of range, means something else.
    Proof:  The call is compared with its row: roles, argument names, constants and their ranges. Barriers, waits and
            arrivals are compared with what the hardware has; the roles of a team cover each warp once.
    Bad:    `shfl.down` by 40 lanes.
    Good:   A constant from 0 to 31.
    Source: PTX ISA, the section that the row names
    """

    code, title = "AMK006", "instruction misused"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        for pointer, s in k.statements.items():
            if s.kind == "call":
                for message in row_faults(k.kernel, s):
                    yield self.report(k, pointer, message, hint="see its row in amk/dsl/instructions")
            for said in order_faults(k.kernel, s):
                yield self.report(k, pointer, said.message, hint=said.hint)

    @staticmethod
    def bad() -> KernelDescriptor:
        call = {"kind": "call", "row": "shfl.down", "refs": {"dst": "a[0]"}, "args": {"value": "1.0", "delta": "40"}}
        return example(body=[call])

    @staticmethod
    def good() -> KernelDescriptor:
        call = {"kind": "call", "row": "shfl.down", "refs": {"dst": "a[0]"}, "args": {"value": "1.0", "delta": "4"}}
        return example(body=[call])
