"""AMK317: operand that differs inside its warpgroup."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Related
from amk.harness.findings import findings
from amk.harness.rule import Rule
from amk.harness.rules.examples_async import multiplied

__all__ = ["AMK317"]


class AMK317(Rule):
    """A tile or the scale of a wgmma that is not the same in all 128 threads that issue it.

    Why:    one product is made for the whole warpgroup; where its threads name different tiles, or only some of them
            ask for the old sums, the result is undefined.
    Proof:  the threads that reach it are enumerated with the first indices of its tiles and its `scale_d`; each must
            have one value in a warpgroup. A value that depends on loaded data is not known to be the same.
    Bad:    a tile that starts at column `t // 64 * 16`.
    Good:   a tile that starts at column 0 for all threads.
    Source: PTX ISA, wgmma.mma_async (the operands are the same for all threads of the warpgroup).
    """

    code = "AMK317"
    title = "operand that differs inside its warpgroup"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        for d in findings(self, k, k.order.of("AMK317")):
            there = Related(d.pointer, "where another thread of the warpgroup brings another value", d.at)
            yield d if d.related else d._replace(related=(there,))

    @staticmethod
    def bad() -> KernelDescriptor:
        return multiplied("uneven", True, column="t//64*16")

    @staticmethod
    def good() -> KernelDescriptor:
        return multiplied("even", True)
