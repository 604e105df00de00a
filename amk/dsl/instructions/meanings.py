"""NumPy meanings of the rows, imported only when a kernel is executed. Lanes are the last axis, 32 to a warp."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["copy", "fma", "shuffle_bfly", "shuffle_down", "shuffle_idx", "shuffle_up"]

Array = NDArray[Any]


def fma(a: Array, b: Array, c: Array) -> Array:
    """float32(a * b + c) by way of float64: the product is exact there, so only a double rounding can differ."""
    wide = np.multiply(a, b, dtype=np.float64)
    return np.add(wide, c, dtype=np.float64).astype(np.float32)


def copy(src: Array, when: Array) -> Array:
    """The source where `when` holds, zero elsewhere."""
    return np.where(when, src, np.zeros((), src.dtype))


def _take(value: Array, source: Array) -> Array:
    """`value[source]` inside each group of 32 lanes; a source outside 0..31 leaves the lane's own value."""
    lanes = value.reshape(*value.shape[:-1], -1, 32)
    own = np.arange(32)
    picked = np.broadcast_to(np.where((source < 0) | (source > 31), own, source), lanes.shape)
    return np.take_along_axis(lanes, picked, axis=-1).reshape(value.shape)


def shuffle_down(value: Array, delta: int) -> Array:
    """Lane i receives lane i + delta."""
    return _take(value, np.arange(32) + delta)


def shuffle_up(value: Array, delta: int) -> Array:
    """Lane i receives lane i - delta."""
    return _take(value, np.arange(32) - delta)


def shuffle_bfly(value: Array, mask: int) -> Array:
    """Lane i receives lane i ^ mask."""
    return _take(value, np.arange(32) ^ mask)


def shuffle_idx(value: Array, lane: Array) -> Array:
    """Lane i receives lane `lane` (taken modulo 32)."""
    wanted = np.broadcast_to(np.asarray(lane), value.shape).reshape(*value.shape[:-1], -1, 32)
    return _take(value, wanted & 31)
