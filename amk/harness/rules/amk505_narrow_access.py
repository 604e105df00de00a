"""AMK505: vector width left on the table."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.builder import KernelBuilder
from amk.dsl.kernel import KernelDescriptor
from amk.harness.advice import widths
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.findings import findings
from amk.harness.rule import Rule

__all__ = ["AMK505"]


class AMK505(Rule):
    """A thread moves neighbouring elements one by one where one vector access would be allowed.

    Why:    each access is an instruction and a request; four at once leave the memory system more to overlap.
    Proof:  none needed, this is advice, given only where the loop is unrolled from 0, its variable is the last term of
            the last index, and alignment, sizes and the other terms are multiples of the width.
    Bad:    a loop over `x[t * 4 + j]` for 4 values of j.
    Good:   one load of width 4.
    Source: CUDA C++ Best Practices Guide, vectorised memory access.
    """

    code = "AMK505"
    title = "vector width left on the table"
    severity = "warning"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from findings(self, k, widths(k))

    @staticmethod
    def bad() -> KernelDescriptor:
        return _kernel(1)

    @staticmethod
    def good() -> KernelDescriptor:
        return _kernel(4)


def _kernel(width: int) -> KernelDescriptor:
    k = KernelBuilder("narrow_access", target="sm_80", threads=32)
    x, a = k.tensor("x", "f32", (128,), align=16), k.registers("a", "f32", (4,))
    if width == 4:
        k.load(a[0], x[k.t * 4], width=4)
    else:
        with k.loop("j", 0, 4, unroll="full") as j:
            k.load(a[j.var], x[k.t * 4 + j.var])
    return k.finish(grid=(1,))
