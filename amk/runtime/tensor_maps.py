"""Tensor maps of a call: the declared views of its arrays, encoded by the driver, each as 128 bytes by value.

A map depends on the array's address, shape and strides alone, so those of arrays seen before are not encoded again.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import TensorMap
from amk.dsl.types import nbytes
from amk.errors import ArgumentError
from amk.runtime.arrays import ArrayView
from amk.runtime.device import driver

__all__ = ["encoded_maps"]

_ALIGN = 16  # bytes, of the base and of every stride but the last (CUDA driver API, cuTensorMapEncodeTiled)
_EXTENT, _STRIDE = 2**32, 2**40
_NOTHING = bytes(128)


def encoded_maps(kernel: KernelDescriptor, views: Mapping[str, ArrayView]) -> list[bytes]:
    """The maps of a kernel for these arrays, in the order of its declarations. Raises ArgumentError, LaunchError."""
    return [_of(m, views[m.tensor]) for m in kernel.maps]


def _of(m: TensorMap, v: ArrayView) -> bytes:
    if 0 in v.shape:
        return _NOTHING  # nothing is ever copied
    size = nbytes(v.dtype)
    strides = tuple(n * size for n in v.strides[:-1])
    if v.pointer % _ALIGN:
        raise ArgumentError(f"argument {m.tensor!r} is aligned to {v.pointer & -v.pointer} bytes; TMA takes {_ALIGN}")
    if v.strides[-1] != 1 and v.shape[-1] > 1:
        raise ArgumentError(f"argument {m.tensor!r} has stride {v.strides[-1]} in its last dimension; TMA takes 1")
    for extent, stride in zip(v.shape[:-1], strides, strict=True):
        if extent > 1 and (stride % _ALIGN or not 0 < stride < _STRIDE):
            raise ArgumentError(
                f"argument {m.tensor!r} has a stride of {stride} bytes; TMA takes multiples of {_ALIGN}"
            )
    if max(v.shape) >= _EXTENT:
        raise ArgumentError(f"argument {m.tensor!r} has shape {v.shape}; TMA takes extents below 2**32")
    row = size * v.shape[-1]
    steps = tuple(n if e > 1 else -(-row // _ALIGN) * _ALIGN for e, n in zip(v.shape[:-1], strides, strict=True))
    return _encoded(
        v.dtype, v.pointer, tuple(reversed(v.shape)), tuple(reversed(steps)), m.box[::-1], m.swizzle, m.fill
    )


@lru_cache(maxsize=4096)
def _encoded(
    dtype: str, pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], box: tuple[int, ...], swizzle: int,
    fill: str,
) -> bytes:  # fmt: skip
    return driver().encode_map(dtype, pointer, shape, strides, box, swizzle, fill == "nan")
