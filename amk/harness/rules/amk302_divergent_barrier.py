"""AMK302: barrier under divergent control."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import Expr, eq
from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix, Related
from amk.harness.findings import findings
from amk.harness.rule import Rule

__all__ = ["AMK302"]


class AMK302(Rule):
    """A barrier that some threads of the block (or of the warp) do not reach.

    Why:    the block hangs, or the barrier pairs with another one and orders nothing.
    Proof:  conditions and trip counts around a barrier are typed: constants, arguments and block indices are the same
            for all threads; those on the thread are evaluated for every thread; those on data are refused.
    Bad:    a block barrier under `t % 2 == 0`.
    Good:   the barrier under a condition on the block index, or outside.
    Fix:    The barrier is taken out of the branch, which is cut in two where it stands in the middle.
    Source: https://github.com/tile-ai/tilelang/issues/1026 ; PTX ISA, barrier.sync.
    """

    code = "AMK302"
    title = "barrier under divergent control"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        threads = Related("/threads", "the number of threads decides")
        for d in findings(self, k, k.order.of("AMK302")):
            yield d if d.related else d._replace(related=(threads,))

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """The barrier behind or before its branch; a branch with it in the middle is cut in two."""
        from amk.harness.repair import moved_out

        for edits in moved_out(k.statements, d.pointer):
            yield Fix("take the barrier out of the branch", edits, safe=True)

    @staticmethod
    def bad() -> KernelDescriptor:
        return _kernel(KernelBuilder.t)

    @staticmethod
    def good() -> KernelDescriptor:
        return _kernel(KernelBuilder.bx)


def _kernel(who: Expr) -> KernelDescriptor:
    k = KernelBuilder("divergent_barrier", target="sm_80", threads=32)
    with k.when(eq(who % 2, 0)):
        k.sync()
    return k.finish(grid=(4,))
