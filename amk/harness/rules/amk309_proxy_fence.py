"""AMK309: write that the asynchronous proxy need not see."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix
from amk.harness.findings import findings
from amk.harness.rule import Rule
from amk.harness.rules.examples_async import stored

__all__ = ["AMK309"]


class AMK309(Rule):
    """Shared memory written by ordinary stores is read or overwritten by TMA, a bulk copy or wgmma with no fence
    between.

    Why:    these go through another path to memory (the asynchronous proxy), for which a barrier alone is no order: now
            and then they move what stood there before.
    Proof:  each thread's knowledge has three strengths: that an access has happened, that it is visible, and that it is
            fenced. A fence raises what its thread knows to be visible; barriers and arrivals hand it on.
    Bad:    store, barrier, bulk copy to global memory.
    Good:   store, fence, barrier, bulk copy.
    Fix:    A fence goes behind the write.
    Source: PTX ISA, memory consistency model: proxies, and fence.proxy.async.
    """

    code = "AMK309"
    title = "write that the asynchronous proxy need not see"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from findings(self, k, k.order.of("AMK309"))

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """A fence straight behind the write, by the threads that wrote."""
        from amk.harness.repair import ASYNC_FENCE, insert, sibling

        for r in d.related[:1]:
            if r.pointer in k.statements:
                body, index = sibling(r.pointer)
                edits = insert(f"{body}/{index + 1}", ASYNC_FENCE)
                yield Fix(f"put a fence for the asynchronous proxy behind {r.pointer}", edits, safe=True)

    @staticmethod
    def bad() -> KernelDescriptor:
        return stored("unfenced", False)

    @staticmethod
    def good() -> KernelDescriptor:
        return stored("fenced", True)
