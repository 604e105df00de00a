"""Layouts: from an index tuple to an element offset, as terms of the IR (so the checker sees what is printed).

A buffer without a layout is row-major. Offsets count elements. `Fragment` is a builder's tool: it says which element
of a tile a lane's register holds, as ordinary index terms.
"""

from __future__ import annotations

from math import prod
from typing import Annotated, Literal, NamedTuple

from amk.dsl.expr import Const, Expr, ExprLike, apply, as_expr
from amk.dsl.fields import whole
from amk.dsl.model import Field, Model

__all__ = ["Fragment", "Layout", "Padded", "Strided", "Swizzle", "extent", "offset", "row_major", "spanned"]

_Small = Annotated[int, whole(0, 1 << 20)]


class Strided(Model):
    """Explicit strides in elements, one a dimension."""

    kind: Literal["strided"] = "strided"
    strides: tuple[_Small, ...]


class Padded(Model):
    """Row-major with `pad` unused elements after each row of the last dimension."""

    kind: Literal["padded"] = "padded"
    pad: _Small


class Swizzle(Model):
    """Row-major, then `offset ^= ((offset >> base + shift) & (2**bits - 1)) << base`.

    Groups of `2**base` elements stay contiguous; a bijection because `shift >= bits`.
    """

    kind: Literal["swizzle"] = "swizzle"
    bits: Annotated[int, whole(1, 5)]
    base: Annotated[int, whole(0, 8)]
    shift: Annotated[int, whole(1, 12)]


def spanned(span: int, size: int) -> Swizzle:
    """The layout in which TMA leaves rows of `span` bytes (32, 64 or 128), of elements of `size` bytes.

    Source: CUDA C++ Programming Guide, Tensor Memory Access, swizzle modes: the 16-byte chunks of a row are permuted by
    address bits 7 and up, so the array starts at a multiple of 8 * span bytes, where the pattern repeats.
    """
    return Swizzle(bits=(span // 16).bit_length() - 1, base=(16 // size).bit_length() - 1, shift=3)


Layout = Annotated[Strided | Padded | Swizzle, Field(discriminator="kind")]


def row_major(shape: tuple[int, ...], pad: int = 0) -> tuple[int, ...]:
    """Strides of a row-major array whose rows are `pad` elements longer than its last extent."""
    pitch = shape[-1] + pad
    return (*(pitch * prod(shape[i + 1 : -1]) for i in range(len(shape) - 1)), 1)


def strides(shape: tuple[int, ...], layout: Layout | None) -> tuple[int, ...]:
    """Strides in elements, before any swizzle."""
    if isinstance(layout, Strided):
        return layout.strides
    return row_major(shape, layout.pad if isinstance(layout, Padded) else 0)


def linear(index: tuple[ExprLike, ...], stride: tuple[ExprLike, ...]) -> Expr:
    """The sum of index times stride."""
    out: Expr = Const(0)
    for i, s in zip(index, stride, strict=True):
        out = out + as_expr(i) * s
    return out


def offset(shape: tuple[int, ...], layout: Layout | None, index: tuple[ExprLike, ...]) -> Expr:
    """Element offset of an index tuple, as a term (a Const for constant indices)."""
    flat = linear(index, strides(shape, layout))
    if not isinstance(layout, Swizzle):
        return flat
    key = apply("&", flat >> (layout.base + layout.shift), (1 << layout.bits) - 1)
    return flat ^ (key << layout.base)


def extent(shape: tuple[int, ...], layout: Layout | None) -> int:
    """Elements of storage, gaps included (0 for an empty shape)."""
    if not all(shape):
        return 0
    top = 1 + sum((n - 1) * s for n, s in zip(shape, strides(shape, layout), strict=True))
    if not isinstance(layout, Swizzle):
        return top
    period = 1 << (layout.base + layout.shift + layout.bits)
    return -(-top // period) * period  # the XOR moves elements inside a period, so the last one is kept whole


class Fragment(NamedTuple):
    """A tile spread over the threads of a block: `rows x cols` thread grid, each thread owning `tm x tn` elements.

    A thread's elements come in `vec`-wide column groups and `row_vec`-high row groups, `rows * row_vec` and
    `cols * vec` apart, so that neighbouring threads read neighbouring vectors.
    """

    rows: int
    cols: int
    tm: int
    tn: int
    vec: int = 1
    row_vec: int = 1

    def coords(self, row: ExprLike, col: ExprLike, i: ExprLike, j: ExprLike) -> tuple[Expr, Expr]:
        """Row and column in the tile of register (i, j) of the thread at (row, col) of the thread grid."""
        return self._axis(row, i, self.rows, self.row_vec), self._axis(col, j, self.cols, self.vec)

    @staticmethod
    def _axis(thread: ExprLike, register: ExprLike, threads: int, vec: int) -> Expr:
        r = as_expr(register)
        return r // vec * (threads * vec) + as_expr(thread) * vec + r % vec
