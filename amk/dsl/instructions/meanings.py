"""NumPy meanings of the rows, imported only when a kernel is executed (those of warps: lanes.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from amk.dsl.instructions.fragments import (
    decode,
    ldmatrix,
    ldmatrix_trans,
    mma_bf16,
    mma_f16,
    mma_tf32,
    stmatrix,
    stmatrix_trans,
    wgmma,
)

__all__ = [
    "add", "bf16_bits", "bf16x2", "copy", "exp2", "f16", "f16x2", "fma", "ldmatrix", "ldmatrix_trans", "maximum",
    "minimum", "mma_bf16", "mma_f16", "mma_tf32", "nothing", "stmatrix", "stmatrix_trans", "tile", "wgmma",
]  # fmt: skip

Array = NDArray[Any]


def fma(a: Array, b: Array, c: Array) -> Array:
    """float32(a * b + c) by way of float64: the product is exact there, so only a double rounding can differ."""
    wide = np.multiply(a, b, dtype=np.float64)
    return np.add(wide, c, dtype=np.float64).astype(np.float32)


def copy(src: Array, when: Array) -> Array:
    """The source where `when` holds, zero elsewhere."""
    return np.where(when, src, np.zeros((), src.dtype))


def nothing() -> None:
    """Changes no value."""


def exp2(x: Array) -> Array:
    """2 ** x, as exact as float32 is (the hardware errs by 2 units in the last place, and flushes subnormals)."""
    return np.exp2(x, dtype=np.float32)


def bf16_bits(x: Array) -> Array:
    """float32 rounded to nearest even to bfloat16, as its 16 bits."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(x), 0x7FFF, rounded).astype(np.uint16)


def bf16x2(low: Array, high: Array) -> Array:
    """Two bfloat16 in one 32-bit register."""
    return bf16_bits(low).astype(np.uint32) | bf16_bits(high).astype(np.uint32) << 16


def f16(x: Array) -> Array:
    """float32 rounded to nearest even to float16; what is too large becomes infinite."""
    with np.errstate(over="ignore"):
        return np.asarray(x, np.float32).astype(np.float16)


def f16x2(low: Array, high: Array) -> Array:
    """Two float16 in one 32-bit register."""
    a, b = (f16(x).view(np.uint16).astype(np.uint32) for x in (low, high))
    return a | b << 16


def tile(values: Array) -> Array:
    """What a copy of a box or a run of bytes leaves: the same elements."""
    return values


def add(old: Array, new: Array, dtype: str) -> Array:
    """Element by element, bf16 as its bits; integers wrap."""
    if dtype == "bf16":
        return bf16_bits(decode(old, dtype) + decode(new, dtype))
    with np.errstate(over="ignore"):
        return np.add(old, new)


def minimum(old: Array, new: Array, dtype: str) -> Array:
    """The smaller of each (integers)."""
    return np.minimum(old, new)


def maximum(old: Array, new: Array, dtype: str) -> Array:
    """The larger of each (integers)."""
    return np.maximum(old, new)
