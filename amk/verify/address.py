"""Where an element lies: in a tensor by its strides, in the shared segment by its buffer's layout."""

from __future__ import annotations

from math import prod

from amk.dsl.expr import Apply, Const, Expr
from amk.dsl.instructions import Operand
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Padded, Strided, Swizzle
from amk.dsl.nodes import Buffer, Call
from amk.dsl.types import nbytes

MBARRIER = 8  # bytes of one

__all__ = ["byte_offset", "combined", "elements_of", "first_bytes", "shared_size", "strides_in", "width"]


def combined(index: tuple[Expr, ...], strides: tuple[Expr, ...]) -> Expr:
    """The sum of index times stride."""
    out: Expr = Const(0)
    for i, s in zip(index, strides, strict=True):
        out = out + i * s
    return out


def strides_in(b: Buffer) -> tuple[int, ...]:
    """Elements between neighbours of each dimension, before a swizzle."""
    if isinstance(b.layout, Strided):
        return b.layout.strides
    row = b.shape[-1] + (b.layout.pad if isinstance(b.layout, Padded) else 0)
    return (*(row * prod(b.shape[k + 1 : -1]) for k in range(len(b.shape) - 1)), 1)


def byte_offset(kernel: KernelDescriptor, b: Buffer, index: tuple[Expr, ...]) -> Expr:
    """The byte of an element in the block's shared segment."""
    flat = combined(index, tuple(map(Const, strides_in(b))))
    if isinstance(b.layout, Swizzle):
        rows = Apply(">>", (flat, Const(b.layout.base + b.layout.shift)))
        key = Apply("&", (rows, Const((1 << b.layout.bits) - 1)))
        flat = Apply("^", (flat, Apply("<<", (key, Const(b.layout.base)))))
    return flat * nbytes(b.dtype) + first_bytes(kernel)[b.name]


def elements_of(b: Buffer) -> int:
    """Elements of storage, gaps included. A swizzle moves elements inside whole periods."""
    last = 1 + sum((n - 1) * s for n, s in zip(b.shape, strides_in(b), strict=True))
    if isinstance(b.layout, Swizzle):
        period = 1 << (b.layout.bits + b.layout.base + b.layout.shift)
        last = (last + period - 1) // period * period
    return last


def first_bytes(kernel: KernelDescriptor) -> dict[str, int]:
    """The first byte of each shared buffer: one after the other, each at its alignment."""
    return _placed(kernel)[0]


def shared_size(kernel: KernelDescriptor) -> int:
    """Bytes of shared memory of a block."""
    return _placed(kernel)[1]


def _placed(kernel: KernelDescriptor) -> tuple[dict[str, int], int]:
    at, out = 0, {}
    for b in kernel.buffers:
        if b.space == "shared":
            at += -at % b.align
            out[b.name] = at
            at += elements_of(b) * nbytes(b.dtype)
    for m in kernel.barriers:
        at += -at % MBARRIER
        out[m.name] = at
        at += m.slots * MBARRIER
    return out, at


def width(s: Call, o: Operand, dtype: str) -> int:
    """Elements of a run of bytes, or of registers, from the operand's element on."""
    e = s.args.get(o.counted)
    run = int(e.value) if isinstance(e, Const) else 0
    return max(1, (run if o.counted else o.nbytes) // nbytes(dtype))
