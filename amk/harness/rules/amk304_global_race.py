"""AMK304: global race."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import cdiv
from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.findings import findings
from amk.harness.rule import Rule

__all__ = ["AMK304"]


class AMK304(Rule):
    """A thread reads an element of a tensor that another thread of the grid writes.

    Why:    blocks run in any order, and nothing in a kernel orders them; in-place kernels that read a neighbour differ
            from run to run.
    Proof:  a read of a written tensor is fine where the same thread writes that element (equal index terms, tiles
            without overlap), unless one of the two is asynchronous; otherwise all threads of whole grids are
            enumerated, what a tensor map reads and writes included.
    Bad:    `y[i] = y[i + 1]` in place.
    Good:   `y[i] = y[i] + y[i]`.
    Limits: the second way decides kernels of constant sizes; others stay undecided (AMK401) if it finds nothing.
    Source: CUDA C++ Programming Guide, thread hierarchy; PTX ISA, memory consistency model.
    """

    code = "AMK304"
    title = "global race"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from findings(self, k, k.coverage.of("AMK304"))

    @staticmethod
    def bad() -> KernelDescriptor:
        return _kernel(1)

    @staticmethod
    def good() -> KernelDescriptor:
        return _kernel(0)


def _kernel(shift: int) -> KernelDescriptor:
    k = KernelBuilder("global_race", target="sm_80", threads=128)
    n = k.size("n")
    y, a = k.tensor("y", "f32", (n,), access="readwrite"), k.registers("a", "f32", (1,))
    i = k.let("i", k.bx * 128 + k.t)
    with k.when(i < n):
        k.load(a[0], y[i + shift], when=i + shift < n, other=0.0)
        k.store(y[i], a[0] + a[0])
    return k.finish(grid=(cdiv(n, 128),))
