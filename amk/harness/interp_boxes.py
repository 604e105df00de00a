"""Boxes of tensors, and where boxes, runs and tiles lie in shared memory: by address, as the hardware finds them.

A copy knows a start, a length and perhaps a swizzle, and wgmma a descriptor; neither knows the layout of an array.
Where that is another one, elements land where nobody looks for them, here as there. Swizzles permute groups of 16
bytes by bits 7 to 9 of their address in the block's shared memory. Source: PTX ISA, tensor swizzling modes and
Asynchronous Warpgroup Level Matrix Shared Memory Layout.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from amk.dsl.layout import Swizzle, extent, strides
from amk.dsl.nodes import Buffer
from amk.dsl.types import nbytes
from amk.harness.interp_memory import shared_offset

__all__ = ["clipped", "fill_value", "first_of", "run_of", "tile_of"]

Index = tuple[int, ...]


def clipped(start: tuple[int, ...], box: tuple[int, ...], shape: tuple[int, ...]) -> tuple[tuple[slice, ...], ...]:
    """(part of the tensor, part of the box) that lie inside both; empty slices where nothing does."""
    tensor, part = [], []
    for at, size, n in zip(start, box, shape, strict=True):
        low, high = min(max(at, 0), n), min(max(at + size, 0), n)
        tensor.append(slice(low, high))
        part.append(slice(low - at, high - at) if high > low else slice(0, 0))
    return tuple(tensor), tuple(part)


def fill_value(fill: str, dtype: Any, bf16: bool) -> Any:
    """What is read outside of a tensor."""
    if fill == "zero":
        return np.zeros((), dtype)
    return np.asarray(0x7FFF, np.uint16) if bf16 else np.asarray(np.nan).astype(dtype)


# ------------------------------------------------------------------------------------------------------ shared memory
def _swizzled(byte: Any, span: int) -> Any:
    """Addresses under a swizzle over `span` bytes (0: none)."""
    return byte ^ ((byte >> 7 & (span // 16 - 1)) << 4) if span else byte


def _elements(b: Buffer, byte: Any, base: int) -> Any:
    """Storage indices of addresses; None where one is outside of the array."""
    at = (byte - base) // nbytes(b.dtype)
    if at.size and (at.min() < 0 or at.max() >= extent(b.shape, b.layout)):
        return None
    return at


def first_of(b: Buffer, start: Index) -> int | None:
    """Where the element of an index tuple lies in the storage of its array; None outside of it."""
    if any(not 0 <= i < n for i, n in zip(start, b.shape, strict=True)):
        return None
    return int(shared_offset(b, start))


@lru_cache(maxsize=1024)
def run_of(b: Buffer, first: int, count: int, base: int, span: int = 0) -> Any:
    """Storage indices of `count` elements in a row from `first` on, under a swizzle; None outside of the array.

    `base` is the address of the array in bytes.
    """
    if not isinstance(b.layout, Swizzle):
        inside = first + count <= extent(b.shape, b.layout)
    else:
        inside = first + count <= prod(b.shape)
    byte = base + (first + np.arange(count)) * nbytes(b.dtype)
    return _elements(b, _swizzled(byte, span), base) if inside else None


@lru_cache(maxsize=1024)
def tile_of(b: Buffer, start: Index, tile: Index, base: int) -> Any:
    """Storage indices of the elements of a wgmma operand, in the tile's shape, as its descriptor says; None outside.

    The descriptor has the start, the bytes between groups of 8 rows and between chunks of 64 columns (both of the
    array's pitch), and the swizzle of the layout; rows of a group are as many bytes apart as that goes over.
    """
    assert isinstance(b.layout, Swizzle)
    lead = len(start) - len(tile)
    if lead < 0 or any(not 0 <= i < n for i, n in zip(start, b.shape, strict=True)):
        return None
    if any(i + n > m for i, n, m in zip(start[lead:], tile, b.shape[lead:], strict=True)):
        return None
    size, span = nbytes(b.dtype), 16 << b.layout.bits
    pitch = [n * size for n in strides(b.shape, b.layout)]
    *chunk, row, col = np.ix_(*map(np.arange, tile))
    byte = base + sum(i * n for i, n in zip(start, pitch, strict=True)) + row // 8 * 8 * pitch[-2] + row % 8 * span
    byte = byte + col * size + (chunk[0] * pitch[-3] if chunk else 0)
    return _elements(b, _swizzled(byte, span), base)
