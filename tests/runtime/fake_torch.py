"""A torch without a GPU: tensors over NumPy memory that say they lie on a GPU, with the attributes that amk reads."""

from __future__ import annotations

import contextlib
import sys
import types
from typing import Any

import numpy as np


class Device:
    def __init__(self, kind: str, index: int | None) -> None:
        self.type, self.index = kind, index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))


class Tensor:
    is_quantized = requires_grad = False
    layout = "strided"

    def __init__(self, array: Any, device: int | None = 0, *, dtype: str | None = None, neg: bool = False) -> None:
        self.array, self.index = array, device
        self.dtype, self.neg = sys.intern(dtype or f"torch.{array.dtype}"), neg  # torch has one object for each

    shape = property(lambda self: self.array.shape)
    is_cuda = property(lambda self: self.index is not None)
    device = property(lambda self: Device("cpu" if self.index is None else "cuda", self.index))

    def get_device(self) -> int:
        return -1 if self.index is None else self.index

    def stride(self) -> tuple[int, ...]:
        return tuple(s // self.array.itemsize for s in self.array.strides)

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def is_neg(self) -> bool:
        return self.neg

    def is_conj(self) -> bool:
        return False

    def new_empty(self, shape: tuple[int, ...]) -> Tensor:
        return Tensor(np.full(shape, np.nan, np.float32), self.index)

    def detach(self) -> Tensor:
        return self

    def clone(self, memory_format: object = None) -> Tensor:
        return Tensor(np.array(self.array, order="C"), self.index)

    def copy_(self, other: Tensor) -> None:
        self.array[...] = other.array


class Parameter(Tensor):
    requires_grad = True


Tensor.__module__, Tensor.__qualname__ = "torch", "Tensor"


def module() -> Any:
    """The module, whose current stream on device d is `streams[d]` (at first 0x100 + d)."""
    torch: Any = types.ModuleType("torch")
    for name in ("bool", "int8", "uint8", "float16", "bfloat16", "float32", "int32", "float64", "int64", "uint32"):
        setattr(torch, name, sys.intern(f"torch.{name}"))
    torch.strided, torch.contiguous_format = "strided", "contiguous"
    torch.Tensor, torch.nn = Tensor, types.SimpleNamespace(Parameter=Parameter)
    torch.streams, torch.current = {0: 0x100, 1: 0x101}, 0
    torch._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda device: torch.streams[device])
    torch.no_grad = contextlib.nullcontext
    torch.made_on = []

    @contextlib.contextmanager
    def inside(handle: int) -> Any:
        before, torch.streams[0] = torch.streams[0], handle
        yield
        torch.streams[0] = before

    torch.cuda = types.SimpleNamespace(
        is_initialized=lambda: True,
        current_device=lambda: torch.current,
        ExternalStream=lambda handle: handle,
        stream=inside,
    )

    def empty(shape: tuple[int, ...], dtype: str, device: str) -> Tensor:
        torch.made_on.append(torch.streams[0])
        index = None if device == "cpu" else int(device.partition(":")[2])
        return Tensor(np.full(shape, np.nan, np.float32), index)

    torch.empty = empty
    return torch
