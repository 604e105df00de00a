"""AMK312: block of a cluster that is not there."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix, Related
from amk.harness.findings import findings
from amk.harness.rule import Rule
from amk.harness.rules.examples_async import peers

__all__ = ["AMK312"]


class AMK312(Rule):
    """A block reaches the shared memory or an mbarrier of another that need not have started, or may have ended.

    Why:    shared memory belongs to a block while it runs; what reaches it before or after is an error of the device,
            at best.
    Proof:  who reaches another block must know that it has started; and of the threads of the block that is reached,
            one must know before it ends that this is over.
    Bad:    each of two blocks arrives on an mbarrier of the other and ends.
    Good:   both pass a cluster barrier before they end.
    Fix:    A cluster barrier that orders execution alone goes to the end.
    Source: CUDA C++ Programming Guide, Distributed Shared Memory; PTX ISA, barrier.cluster.
    """

    code = "AMK312"
    title = "block of a cluster that is not there"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        last = f"/body/{len(k.kernel.body) - 1}"
        end = Related(last, "the block ends behind this", getattr(k.statements.get(last), "at", None))
        for d in findings(self, k, k.order.of("AMK312")):
            yield d if d.related else d._replace(related=(end,))

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """A cluster barrier at the end, which keeps every block until all have come."""
        from amk.harness.repair import CLUSTER_BARRIER, insert

        end = f"/body/{len(k.kernel.body)}"
        yield Fix("put a cluster barrier at the end", insert(end, CLUSTER_BARRIER), safe=True)

    @staticmethod
    def bad() -> KernelDescriptor:
        return peers("gone", lambda k, bar: None)

    @staticmethod
    def good() -> KernelDescriptor:
        return peers("stays", lambda k, bar: k.sync("cluster", relaxed=True))
