"""Kernel arguments: Python values come in, the address of the driver's `void*[]` comes out.

The layout is worked out once for a signature; a call is one `struct.pack_into` into a buffer of its thread.
"""

from __future__ import annotations

import ctypes
import numbers
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from math import isinf
from typing import Any

import numpy as np

from amk.errors import ArgumentError

__all__ = ["Packer", "as_float32", "as_real", "prepare"]

# Type: struct code, bytes, alignment. `tmap` is the 128 bytes of a CUtensorMap, which the hardware wants at 64.
_TYPES = {
    "ptr": ("Q", 8, 8), "i32": ("i", 4, 4), "u32": ("I", 4, 4), "i64": ("q", 8, 8), "f32": ("f", 4, 4),
    "f64": ("d", 8, 8), "tmap": ("128s", 128, 64),
}  # fmt: skip
_ALIGN = 64


@dataclass(slots=True)
class _Buffer:
    """What one thread writes into; `start` skips to an aligned address."""

    memory: ctypes.Array[ctypes.c_char]
    start: int
    addresses: ctypes.Array[ctypes.c_void_p]
    params: int


class Packer:
    """Packs the arguments of one signature. Any number of threads may use it at once."""

    def __init__(self, signature: Sequence[str]) -> None:
        self.signature = tuple(signature)
        text, self._offsets, self._bytes = _layout(self.signature)
        self._pack = struct.Struct(text).pack_into
        self._local = threading.local()

    def pack(self, values: Sequence[Any]) -> int:
        """Address of the `void*[]`; valid for this thread until its next `pack`.

        Raises:  ArgumentError for a wrong count, or a value that its type does not hold (an i32 above 2^31 - 1)
        """
        try:
            buffer: _Buffer = self._local.buffer
        except AttributeError:
            buffer = self._local.buffer = self._allocate()
        try:
            self._pack(buffer.memory, buffer.start, *values)
        except (struct.error, OverflowError, TypeError) as cause:
            raise self._fault(values, cause) from cause
        return buffer.params

    def _allocate(self) -> _Buffer:
        memory = ctypes.create_string_buffer(self._bytes + _ALIGN)
        base = ctypes.addressof(memory)
        start = -base % _ALIGN
        addresses = (ctypes.c_void_p * max(1, len(self._offsets)))(*(base + start + o for o in self._offsets))
        return _Buffer(memory, start, addresses, ctypes.addressof(addresses))

    def _fault(self, values: Sequence[Any], cause: Exception) -> ArgumentError:
        """Names the first argument that does not fit."""
        if len(values) != len(self.signature):
            return ArgumentError(f"the kernel takes {len(self.signature)} arguments, not {len(values)}")
        for index, (kind, value) in enumerate(zip(self.signature, values, strict=True)):
            try:
                struct.pack("<" + _TYPES[kind][0], value)
            except (struct.error, OverflowError, TypeError):
                return ArgumentError(f"kernel argument {index} is {value!r}, which is not a value of type {kind}")
        return ArgumentError(f"kernel arguments do not fit: {cause}")


def as_float32(value: object, name: str) -> float:
    """A real number that float32 can hold (or rounds, NaN and infinity too). ArgumentError for anything else."""
    found = as_real(value, name)
    try:
        struct.pack("<f", found)
    except OverflowError as cause:
        raise ArgumentError(f"{name} is outside float32") from cause
    return found


def as_real(value: object, name: str) -> float:
    """A real number as float64. An array is one only where reading it waits for no device: NumPy's, of no dimensions.

    Raises:  ArgumentError for what is not a real number, or is finite and too large
    """
    if isinstance(value, np.ndarray) and value.shape == ():
        value = value[()]
    if not isinstance(value, (numbers.Real, np.bool_)):
        kind = f"{type(value).__module__}.{type(value).__qualname__}".replace("builtins.", "")
        raise ArgumentError(f"{name} is {kind}, not a real number", hint=f"pass a float: {name} is read on the host")
    try:
        found = float(value)
    except OverflowError as cause:
        raise ArgumentError(f"{name} is outside float64") from cause
    if isinf(found) and value != found:  # a wider float
        raise ArgumentError(f"{name} is outside float64")
    return found


def prepare(signature: Sequence[str]) -> Packer:
    """A packer for parameter types 'ptr', 'i32', 'u32', 'i64', 'f32', 'f64', 'tmap' (128 bytes), in order.

    Raises:  ArgumentError for another type
    """
    for kind in signature:
        if kind not in _TYPES:
            raise ArgumentError(f"no kernel parameter has type {kind!r}", hint=f"one of {', '.join(_TYPES)}")
    return Packer(signature)


def _layout(signature: Sequence[str]) -> tuple[str, tuple[int, ...], int]:
    """Struct format, byte offset of each argument, bytes in all."""
    text, offsets, at = "<", [], 0
    for kind in signature:
        code, size, align = _TYPES[kind]
        gap = -at % align
        text += f"{gap}x{code}" if gap else code
        offsets.append(at + gap)
        at += gap + size
    return text, tuple(offsets), at
