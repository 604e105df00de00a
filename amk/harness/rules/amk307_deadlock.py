"""AMK307: deadlock."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Related
from amk.harness.findings import findings
from amk.harness.rule import Rule
from amk.harness.rules.examples_async import copied

__all__ = ["AMK307"]


class AMK307(Rule):
    """Threads wait for a barrier or an mbarrier that nothing will ever complete.

    Why:    the kernel hangs, and with it the stream; no tool that runs it can say more than that.
    Proof:  one schedule is walked for every size and block of the cutoff. Whether it gets stuck does not depend on the
            schedule (AMK310 holds that), so what stands still in it stands still in all; the message says who waits for
            what, and what is missing there.
    Bad:    512 bytes are expected of a copy that brings 256.
    Good:   as many are expected as come.
    Source: PTX ISA, mbarrier and cp.async.bulk; https://github.com/mirage-project/mirage/pull/705
    """

    code = "AMK307"
    title = "deadlock"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        for d in findings(self, k, k.order.of("AMK307")):
            yield d if d.related else d._replace(related=tuple(_arrivals(k, d.pointer)))

    @staticmethod
    def bad() -> KernelDescriptor:
        return copied("deadlock", expected=512)

    @staticmethod
    def good() -> KernelDescriptor:
        return copied("no_deadlock")


def _arrivals(k: Context, pointer: str) -> Iterator[Related]:
    """What arrives on the mbarrier that a statement waits for, where one alone is stuck."""
    from amk.harness.waiting import completes

    waits = k.statements.get(pointer)
    name = waits.barrier.buffer if waits is not None and waits.kind == "wait" and waits.barrier is not None else ""
    for place, s in k.statements.items():
        if name and completes(s, name):
            yield Related(place, "this arrives on it, or lets a copy complete on it", s.at)
