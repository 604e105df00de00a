"""AMK306: atomic mixed with plain access."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.builder import KernelBuilder
from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.findings import findings
from amk.harness.rule import Rule

__all__ = ["AMK306"]


class AMK306(Rule):
    """An address is updated atomically by one thread and read or written plainly by another, with nothing between.

    Why:    an atomic is indivisible only against other atomics; a plain store in the middle loses updates.
    Proof:  as for data races, with atomics in conflict with plain accesses and not with each other.
    Bad:    every thread adds to `s[0]`, then all read it.
    Good:   a barrier between.
    Source: PTX ISA, memory consistency model: morally strong operations; CUDA C++ Programming Guide, atomic functions.
    """

    code = "AMK306"
    title = "atomic mixed with plain access"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from findings(self, k, k.order.of("AMK306"))
        yield from findings(self, k, k.coverage.of("AMK306"))

    @staticmethod
    def bad() -> KernelDescriptor:
        return _kernel(False)

    @staticmethod
    def good() -> KernelDescriptor:
        return _kernel(True)


def _kernel(barrier: bool) -> KernelDescriptor:
    k = KernelBuilder("mixed_atomic", target="sm_80", threads=64)
    s, a = k.shared("s", "i32", (1,)), k.registers("a", "i32", (1,))
    with k.when(k.t < 1):
        k.store(s[0], 0)
    k.sync()
    k.atomic("add", s[0], 1)
    if barrier:
        k.sync()
    k.load(a[0], s[0])
    return k.finish(grid=(1,))
