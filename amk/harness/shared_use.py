"""What statements touch in shared memory, and which of them are ordering points."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from amk.dsl.expr import Const, Elem
from amk.dsl.instructions import ROWS
from amk.dsl.instructions import Operand as RowOperand
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Strided, Swizzle
from amk.dsl.nodes import Buffer, Param, Statement, TensorMap
from amk.dsl.types import nbytes
from amk.harness.faults import Unsupported
from amk.harness.footprint import Operand

__all__ = ["LATER", "box_alignment", "contiguous", "one_group", "orders", "owned_registers", "shared_operands"]

_KINDS = ("sync", "commit", "wait", "arrive", "fence", "team")
LATER = ("barrier", "bulk", "wgmma")  # completions whose issue is an event of its own


def orders(s: Statement) -> bool:
    """Whether a statement itself is an ordering point: a barrier, a wait, or work that completes on one."""
    if s.kind in ("load", "store"):
        return s.peer is not None
    if s.kind == "call":
        row = ROWS.get(s.row)
        return row is not None and (row.completes in LATER or row.name == "mbarrier.init")
    return s.kind in _KINDS and getattr(s, "flag", None) is None  # flags are between blocks


def contiguous(b: Buffer, o: Operand) -> None:
    """A vector access moves neighbouring bytes, so its elements must be neighbours in the layout."""
    if o.width == 1:
        return
    if isinstance(b.layout, Swizzle) and (1 << b.layout.base) % o.width:
        raise Unsupported(f"{o.ref} moves {o.width} elements, but the swizzle of {b.name!r} keeps "
                          f"only {1 << b.layout.base} together")  # fmt: skip
    if isinstance(b.layout, Strided) and b.layout.strides[-1] != 1:
        raise Unsupported(f"{o.ref} moves {o.width} elements that the layout of {b.name!r} does not keep together")


def one_group(a: Statement, b: Statement) -> bool:
    """Whether two neighbouring calls are wgmma on the same registers, or copies that complete alike on one mbarrier."""
    if a.kind != "call" or b.kind != "call" or not (a.row in ROWS and b.row in ROWS):
        return False
    how = ROWS[a.row].completes
    if how != ROWS[b.row].completes:
        return False
    if how == "wgmma":
        return a.refs.get("acc") == b.refs.get("acc")
    plain = not any(o.space == "shared" and o.mode == "read" for o in ROWS[a.row].operands)
    return how == "barrier" and a.row == b.row and a.refs.get("bar") == b.refs.get("bar") and a.args == b.args and plain


def owned_registers(kernel: KernelDescriptor, statements: list[tuple[str, Statement]]) -> Iterator[str]:
    """The register arrays of instructions that complete later."""
    for _, s in statements:
        if s.kind == "call" and s.row in ROWS and ROWS[s.row].completes == "wgmma":
            for o in ROWS[s.row].operands:
                if o.space == "register" and o.role in s.refs and (d := kernel.find(s.refs[o.role].buffer)) is not None:
                    yield d.name


def shared_operands(kernel: KernelDescriptor, s: Statement) -> Iterator[Operand]:
    if s.kind == "load":
        yield Operand(s.src, "r", s.width)
        yield Operand(s.dst, "w", s.width)
    elif s.kind == "store":
        yield Operand(s.dst, "w", len(s.values))
    elif s.kind == "atomic":
        yield Operand(s.dst, "a", 1)
    elif s.kind == "call" and s.row in ROWS:
        yield from _row_operands(kernel, s)


def _row_operands(kernel: KernelDescriptor, s: Any) -> Iterator[Operand]:
    row = ROWS[s.row]
    for o in row.operands:
        ref = s.refs.get(o.role)
        d = kernel.find(ref.buffer) if ref is not None else None
        if ref is None or not isinstance(d, (Buffer, Param)):
            continue
        size = nbytes(d.dtype)
        mode = "r" if o.mode == "read" else "c" if row.completes == "cp_async" else "w"
        mode = mode.upper() if o.proxy == "async" else mode
        dense = _box_bytes(kernel, s.refs[o.box]) if o.box in s.refs else _counted(s, o.counted)
        width = max(1, o.nbytes // size)
        align = box_alignment(kernel, s, o)
        yield Operand(ref, mode, width, o.role, o.lanes, o.tile, o.step, dense, align)


def box_alignment(kernel: KernelDescriptor, s: Any, o: RowOperand) -> int:
    """Bytes that divide where an operand starts: of a swizzled box, one period of the swizzle, eight of its rows."""
    m = kernel.declarations.get(s.refs[o.box].buffer) if o.box in s.refs else None
    return max(o.align, 8 * m.swizzle) if isinstance(m, TensorMap) else o.align


def _box_bytes(kernel: KernelDescriptor, ref: Elem) -> int:
    """Bytes of the box of a tensor map."""
    m = kernel.declarations.get(ref.buffer)
    tensor = kernel.declarations.get(m.tensor) if isinstance(m, TensorMap) else None
    return prod(m.box) * nbytes(tensor.dtype) if isinstance(m, TensorMap) and isinstance(tensor, Param) else 0


def _counted(s: Any, name: str) -> int:
    e = s.args.get(name)
    return int(e.value) if isinstance(e, Const) else 0
