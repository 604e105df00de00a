"""AMK202: shared index out of bounds."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.builder import KernelBuilder
from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.findings import findings
from amk.harness.rule import Rule
from amk.harness.rules.witnessed import claimed, witnessed

__all__ = ["AMK202"]


class AMK202(Rule):
    """A thread indexes a shared array outside its declared shape, or the shared memory of a block that is not there.

    Why:    the bytes beyond an array belong to the next one or to nobody; neighbours are silently overwritten.
    Proof:  every shared access is evaluated for all threads at every value that its index can take (trip counts by the
            finite cutoff), and each index is held against its own dimension, vectors to their last element. Peers and
            masks of a multicast are proved to name blocks of the cluster, for all sizes.
    Bad:    `s[t + 1]` of 128 threads in an array of 128.
    Good:   `s[t]`, or an array of 129.
    Source: PTX ISA, state spaces: shared; CUDA C++ Programming Guide, shared memory.
    """

    code = "AMK202"
    title = "shared index out of bounds"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from claimed(self, k)
        yield from witnessed(k, findings(self, k, k.order.of("AMK202")))

    @staticmethod
    def bad() -> KernelDescriptor:
        return _kernel(1)

    @staticmethod
    def good() -> KernelDescriptor:
        return _kernel(0)


def _kernel(shift: int) -> KernelDescriptor:
    k = KernelBuilder("shared_bounds", target="sm_80", threads=128)
    s = k.shared("s", "i32", (128,))
    k.store(s[k.t + shift], k.t)
    return k.finish(grid=(1,))
