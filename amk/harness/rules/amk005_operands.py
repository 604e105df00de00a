"""AMK005: operand misused."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.instructions import ROWS
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Buffer, Param, Statement
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.form import operands
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
        for pointer, message in map_faults(k.kernel):
            yield self.report(k, pointer, message, hint="see TensorMap in `amk schema`")
        for pointer, s in k.statements.items():
            for message in dict.fromkeys(operand_faults(k.kernel, s)):
                yield self.report(k, pointer, message, hint=_hint(k, s))

    @staticmethod
    def bad() -> KernelDescriptor:
        return example([{"kind": "load", "dst": "a[0]", "src": "x[i, 0]"}])

    @staticmethod
    def good() -> KernelDescriptor:
        return example()


_TAKES = {
    "load": "a load takes registers as dst, global or shared memory as src, at most 16 bytes, and `other` with `when`",
    "store": "a store takes 1, 2, 4, 8 or 16 values, to memory at most 16 bytes",
    "atomic": "an atomic takes global or shared memory",
    "let": "a let takes a value, or a view of an array without a swizzle",
}


def _hint(k: Context, s: Statement) -> str:
    """What the statement takes, and how its operands are declared."""
    row = ROWS.get(s.row) if s.kind == "call" else None
    takes = f"{row.name} takes " + ", ".join(f"{o.role} in {o.space} memory" for o in row.operands) if row else ""
    known = {ref.buffer: k.kernel.find(ref.buffer) for _, ref in operands(s)}
    declared = [f"{name}{_shape(d)}" for name, d in known.items() if isinstance(d, (Param, Buffer))]
    said = takes or _TAKES.get(s.kind, "an operand takes an index for each dimension")
    return said + (f"; declared are {' and '.join(declared)}" if declared else "")


def _shape(d: Param | Buffer) -> str:
    return f"[{', '.join(map(str, d.shape))}] of {d.dtype}" if d.shape else f", a scalar of {d.dtype}"
