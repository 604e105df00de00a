"""AMK404: access contract broken."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.operands import contract_faults
from amk.harness.rule import Rule
from amk.harness.rules.examples import example

__all__ = ["AccessContract"]


class AccessContract(Rule):
    """A tensor is used only as its declaration says: read, written, both, or accumulated.

    Why:    The launcher places, shares and zeroes tensors by that declaration.
    Proof:  Every access to a tensor, by itself or through a tensor map, is compared with its `access`.
    Bad:    A store to a tensor declared `read`.
    Good:   Declare it `write`.
    Source: the IR's definition (types)
    """

    code, title = "AMK404", "access contract broken"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        for pointer, s in k.statements.items():
            for message in contract_faults(k.kernel, s):
                yield self.report(k, pointer, message, hint="change the tensor's access, or the statement")

    @staticmethod
    def bad() -> KernelDescriptor:
        return example([{"kind": "store", "dst": "x[i]", "values": ["0.0"]}])

    @staticmethod
    def good() -> KernelDescriptor:
        return example([{"kind": "store", "dst": "z[i]", "values": ["0.0"]}])
