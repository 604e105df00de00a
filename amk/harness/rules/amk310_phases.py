"""AMK310: mbarrier or barrier used against its protocol."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.findings import findings
from amk.harness.rule import Rule
from amk.harness.rules.examples_async import copied

__all__ = ["AMK310"]


class AMK310(Rule):
    """An arrival, a copy or a wait can count for another phase than the one it is meant for, or comes before the
    barrier is ready.

    Why:    an mbarrier keeps one bit of its phase, and a barrier none: what arrives too early or too late is not
            noticed, it completes the wrong phase. The kernel then hangs, or reads what has not landed, at some sizes.
    Proof:  an arrival must know that the phases before its own are over; a wait that all but the last before its own
            are; no phase may be over before those who waited for the last one have seen it; nobody uses an mbarrier
            without knowing that it is initialised; no phase gets more arrivals than are declared. Where this holds,
            every schedule matches the same arrivals with the same waits.
    Bad:    two threads arrive on an mbarrier declared for one.
    Good:   one does.
    Source: PTX ISA, mbarrier; confluence as in Weft (Sharma, Bauer and Aiken, PLDI 2015).
    """

    code = "AMK310"
    title = "mbarrier or barrier used against its protocol"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from findings(self, k, k.order.of("AMK310"))

    @staticmethod
    def bad() -> KernelDescriptor:
        return copied("two_arrive", arrivals=2, expected=128)

    @staticmethod
    def good() -> KernelDescriptor:
        return copied("one_arrives")
