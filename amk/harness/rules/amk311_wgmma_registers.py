"""AMK311: registers of a wgmma in flight."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.findings import findings
from amk.harness.rule import Rule
from amk.harness.rules.examples_async import multiplied

__all__ = ["AMK311"]


class AMK311(Rule):
    """Registers that wgmma works on are touched while it is in flight, or handed to it without a fence.

    Why:    wgmma reads and writes its accumulators asynchronously: a register read before the wait is not the sum
            yet, and one written before the first wgmma need not be seen by it.
    Proof:  the arrays that wgmma takes are its own from issue until a wait has retired its group; any statement that
            touches one takes the next fence ("wgmma") away.
    Bad:    wgmma without a fence before it.
    Good:   fence, wgmma, commit, wait, and then the registers.
    Source: PTX ISA, wgmma.fence and wgmma.mma_async.
    """

    code = "AMK311"
    title = "registers of a wgmma in flight"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from findings(self, k, k.order.of("AMK311"))

    @staticmethod
    def bad() -> KernelDescriptor:
        return multiplied("no_fence", False)

    @staticmethod
    def good() -> KernelDescriptor:
        return multiplied("with_fence", True)
