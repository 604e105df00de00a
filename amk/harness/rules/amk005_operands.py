"""AMK005: operand misused."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.maps import map_faults
from amk.harness.operands import operand_faults
from amk.harness.rule import Rule
from amk.harness.rules.examples import example

__all__ = ["Operands"]


class Operands(Rule):
    """Every operand has the rank, the space, the width and the layout that its statement takes.

    Why:    An address of the wrong space or rank is another address, and a tile that is laid out otherwise than the
            instruction reads it is another tile.
    Proof:  Each operand is resolved through its views and compared with its declaration; a tensor map with its tensor;
            the array of a TMA box with the swizzle of its map, that of a wgmma tile with the layout of its row.
    Bad:    `x[i, 0]` of a vector.
    Good:   One index a dimension; views take as many as they leave open.
    Source: the IR's definition (nodes); CUDA Driver API, cuTensorMapEncodeTiled; PTX ISA, wgmma matrix descriptors
    """

    code, title = "AMK005", "operand misused"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        hint = "see `amk schema` for what each statement takes"
        for pointer, message in map_faults(k.kernel):
            yield self.report(k, pointer, message, hint="see TensorMap in `amk schema`")
        for pointer, s in k.statements.items():
            for message in dict.fromkeys(operand_faults(k.kernel, s)):
                yield self.report(k, pointer, message, hint=hint)

    @staticmethod
    def bad() -> KernelDescriptor:
        return example([{"kind": "load", "dst": "a[0]", "src": "x[i, 0]"}])

    @staticmethod
    def good() -> KernelDescriptor:
        return example()
