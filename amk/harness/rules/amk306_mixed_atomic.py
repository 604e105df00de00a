"""AMK306: atomic mixed with plain access."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.builder import KernelBuilder
from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix
from amk.harness.findings import findings
from amk.harness.rule import Rule

__all__ = ["AMK306"]


class AMK306(Rule):
    """An address is updated atomically by one thread and read or written plainly by another, with nothing between.

    Why:    an atomic is indivisible only against other atomics; a plain store in the middle loses updates.
    Proof:  as for data races, with atomics in conflict with plain accesses and not with each other.
    Bad:    every thread adds to `s[0]`, then all read it.
    Good:   a barrier between.
    Fix:    A block barrier goes between the two accesses, where control is the same for all threads.
    Source: PTX ISA, memory consistency model: morally strong operations; CUDA C++ Programming Guide, atomic functions.
    """

    code = "AMK306"
    title = "atomic mixed with plain access"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from findings(self, k, k.order.of("AMK306"))
        yield from findings(self, k, k.coverage.of("AMK306"))

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """A block barrier between the two accesses, where all threads come by."""
        from amk.harness.repair import BLOCK_BARRIER, barriers_between, insert

        if d.related and "byte" in d.counterexample:  # in shared memory
            for place in barriers_between(k.kernel, d.related[0].pointer, d.pointer):
                yield Fix(f"put a block barrier before {place}", insert(place, BLOCK_BARRIER), safe=True)

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
