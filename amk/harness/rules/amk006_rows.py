"""AMK006: instruction misused."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.instructions import ROWS
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Call
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
                    yield self.report(k, pointer, message, hint=_hint(s))
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


def _families() -> list[str]:
    """The first words of instructions."""
    return sorted({n.split(".")[0] for n in ROWS})


def _hint(s: Call) -> str:
    """The nearest instruction, or what this one takes."""
    row = ROWS.get(s.row)
    if row is None:
        from difflib import get_close_matches

        near = get_close_matches(s.row, ROWS, 3, 0.4)
        return f"did you mean {' or '.join(near)}?" if near else f"instructions are {', '.join(_families())}"
    roles = ", ".join(f"{o.role} ({o.space})" for o in row.operands)
    args = [
        a.name + (" (constant)" if a.constant else "") + (f" from {a.low} to {a.high}" if a.high is not None else "")
        for a in row.args
    ]
    return f"{row.name} takes refs {roles}" + (f", and args {', '.join(args)}" if args else "")
