"""Boxes of tensors and runs of shared memory: which elements a copy moves, in the order in which it moves them."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from amk.dsl.layout import Layout
from amk.dsl.nodes import Buffer
from amk.harness.interp_memory import shared_offset

__all__ = ["clipped", "element_order", "fill_value", "inside", "run_of", "tile_of"]


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


@lru_cache(maxsize=256)
def _order(shape: tuple[int, ...], layout: Layout | None) -> Any:
    buffer = Buffer.model_construct(name="_", space="shared", dtype="f32", shape=shape, layout=layout, align=16)
    index = tuple(np.indices(shape, np.int64))
    return np.asarray(shared_offset(buffer, index)).reshape(shape)


def element_order(b: Buffer) -> Any:
    """Where each element lies in the storage of a shared buffer, by its logical index."""
    return _order(b.shape, b.layout)


def inside(b: Buffer, start: tuple[int, ...], count: int) -> bool:
    """Whether a run of so many elements from an index tuple on stays in the buffer."""
    if any(not 0 <= i < n for i, n in zip(start, b.shape, strict=True)):
        return False
    return int(np.ravel_multi_index(start, b.shape)) + count <= prod(b.shape)


def run_of(b: Buffer, start: tuple[int, ...], count: int) -> Any:
    """Storage indices of `count` elements in logical order from an index tuple on."""
    first = int(np.ravel_multi_index(start, b.shape))
    return element_order(b).reshape(-1)[first : first + count]


def tile_of(b: Buffer, start: tuple[int, ...], tile: tuple[int, ...]) -> Any:
    """Storage indices of a tile in the last dimensions, in the tile's shape; None where it leaves the buffer."""
    lead = len(start) - len(tile)
    if lead < 0 or any(not 0 <= i < n for i, n in zip(start, b.shape, strict=True)):
        return None
    ends = [i + n for i, n in zip(start[lead:], tile, strict=True)]
    if any(e > n for e, n in zip(ends, b.shape[lead:], strict=True)):
        return None
    key = (*start[:lead], *(slice(i, e) for i, e in zip(start[lead:], ends, strict=True)))
    return element_order(b)[key]
