"""AMK206: uninitialised shared read."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.findings import findings
from amk.harness.rule import Rule
from amk.harness.rules.examples import mirrored
from amk.harness.rules.witnessed import witnessed

__all__ = ["AMK206"]


class AMK206(Rule):
    """A thread reads shared memory that nothing has surely written.

    Why:    shared memory holds what the last block left; the result depends on what ran before.
    Proof:  the walk keeps the set of bytes that are written on every path (stores under conditions on data do not
            count); every read must lie inside it. Asynchronous copies count once their group is retired.
    Bad:    threads beyond the data leave early, and all slots are summed.
    Good:   those threads store a zero.
    Source: https://github.com/pytorch/pytorch/issues/136007 ; CUDA C++ Programming Guide, shared memory.
    """

    code = "AMK206"
    title = "uninitialised shared read"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from witnessed(k, findings(self, k, k.order.of("AMK206")))

    @staticmethod
    def bad() -> KernelDescriptor:
        return mirrored("uninitialised_shared", filled=64)

    @staticmethod
    def good() -> KernelDescriptor:
        return mirrored("uninitialised_shared")
