"""AMK311: registers of a wgmma in flight."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix
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
    Fix:    The fence goes before the instruction, the wait before the registers are touched.
    Source: PTX ISA, wgmma.fence and wgmma.mma_async.
    """

    code = "AMK311"
    title = "registers of a wgmma in flight"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from findings(self, k, k.order.of("AMK311"))

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """A fence straight before the instruction, or a wait before the registers are touched."""
        from amk.harness.repair import WGMMA_FENCE, insert, wait

        s = k.statements.get(d.pointer)
        if s is not None and s.kind == "call" and s.row.startswith("wgmma"):
            yield Fix(f"put a wgmma fence before {d.pointer}", insert(d.pointer, WGMMA_FENCE), safe=True)
        elif s is not None:
            yield Fix(f"wait for wgmma before {d.pointer}", insert(d.pointer, wait("wgmma")), safe=True)

    @staticmethod
    def bad() -> KernelDescriptor:
        return multiplied("no_fence", False)

    @staticmethod
    def good() -> KernelDescriptor:
        return multiplied("with_fence", True)
