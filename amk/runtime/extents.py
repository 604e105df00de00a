"""Where an array lies: an `ArrayView` comes in, byte ranges and verdicts about overlap come out.

`overlap` is exact: NumPy solves the equation of two strided arrays sharing a byte, within a bounded amount of work, and
beyond that bound the answer is the cautious one (they overlap). Nothing here reads the memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from amk.dsl.types import DTYPES, nbytes

if TYPE_CHECKING:
    from amk.runtime.arrays import ArrayView

__all__ = ["alignment", "as_numpy", "extent", "overlap", "self_overlapping"]

_WORK = 10_000  # candidate solutions that NumPy may try, about a millisecond
_ENUMERATE = 1 << 16  # elements up to which self-overlap is settled by listing the offsets
_MAX_ALIGNMENT = 256  # what cudaMalloc gives; no instruction asks for more


def alignment(array: ArrayView) -> int:
    """The greatest power of two, at most 256, that divides the address of element 0; in bytes."""
    return min(array.pointer & -array.pointer, _MAX_ALIGNMENT) if array.pointer else _MAX_ALIGNMENT


def extent(array: ArrayView) -> tuple[int, int]:
    """Byte addresses [low, high) that the array lies in; empty arrays give an empty range."""
    low = high = 0
    for size, stride in zip(array.shape, array.strides, strict=True):
        if size == 0:
            return array.pointer, array.pointer
        reach = (size - 1) * stride
        low, high = (low + reach, high) if reach < 0 else (low, high + reach)
    item = nbytes(array.dtype)
    return array.pointer + low * item, array.pointer + (high + 1) * item


def overlap(a: ArrayView, b: ArrayView) -> bool:
    """Whether some byte belongs to both. Disjoint column blocks of one wider matrix do not overlap."""
    if a.device != b.device:
        return False
    (a_low, a_high), (b_low, b_high) = extent(a), extent(b)
    if a_low >= a_high or b_low >= b_high or a_high <= b_low or b_high <= a_low:
        return False
    try:
        shares: Any = np.shares_memory  # its stub knows only the bounds 0 and -1
        return bool(shares(as_numpy(a), as_numpy(b), max_work=_WORK))
    except np.exceptions.TooHardError:
        return True


def self_overlapping(array: ArrayView) -> bool:
    """Whether two elements share an address (stride 0, or a sliding window): such an array cannot be written."""
    dims = sorted((abs(stride), size) for size, stride in zip(array.shape, array.strides, strict=True) if size != 1)
    if any(size == 0 for _, size in dims):
        return False
    reach, nested = 0, True
    for stride, size in dims:
        nested = nested and stride > reach
        reach += stride * (size - 1)
    return not nested and _collides(dims)


def _collides(dims: list[tuple[int, int]]) -> bool:
    """By listing every offset; above the bound the cautious answer."""
    count = int(np.prod([size for _, size in dims], dtype=object))
    if count > _ENUMERATE or dims[0][0] == 0:
        return True
    offsets = np.zeros(1, dtype=np.int64)
    for stride, size in dims:
        offsets = np.add.outer(offsets, np.arange(size, dtype=np.int64) * stride).ravel()
    return len(np.unique(offsets)) < count


class _Interface:
    """An array as NumPy takes it; keeps the owner alive as the base of the NumPy array."""

    def __init__(self, array: ArrayView) -> None:
        self.owner = array.owner
        item = nbytes(array.dtype)
        self.__array_interface__: dict[str, Any] = {
            "data": (array.pointer, array.readonly),
            "shape": array.shape,
            "strides": tuple(stride * item for stride in array.strides),
            "typestr": np.dtype(DTYPES[array.dtype].numpy).str,
            "version": 3,
        }


def as_numpy(array: ArrayView) -> Any:
    """A NumPy array over the same memory (bf16 as uint16). Of a GPU array only the shape and strides may be used."""
    return np.asarray(_Interface(array))
