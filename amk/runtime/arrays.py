"""Arrays of any framework come in, one `ArrayView` goes out: address, shape, strides, dtype, device.

Nothing is copied and no framework is imported: torch tensors and CuPy arrays are read through their own attributes,
other GPU arrays through `__cuda_array_interface__` (2 or 3), and what is left through DLPack. An array that cannot be
used is an ArgumentError that names the argument and the property at fault.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from operator import index
from typing import Any, Literal

import numpy as np

from amk.dsl.types import DTYPES
from amk.errors import AmkError, ArgumentError
from amk.runtime.extents import alignment, extent, overlap, self_overlapping

__all__ = ["ITEM_BYTES", "ArrayView", "alignment", "extent", "is_host", "overlap", "self_overlapping", "view"]

Framework = Literal["numpy", "torch", "cupy", "dlpack", "cai"]

ITEM_BYTES = {name: dtype.nbytes for name, dtype in DTYPES.items()}
_NUMPY = {np.dtype(dtype.numpy): name for name, dtype in DTYPES.items() if name != "bf16"}  # bf16 moves as uint16
_TORCH = {name: "bfloat16" if name == "bf16" else dtype.numpy for name, dtype in DTYPES.items()}
_LEGACY = 1  # the legacy default stream, as DLPack and the array interface spell it


@dataclass(frozen=True, slots=True)
class ArrayView:
    """What amk knows of one argument.

    Units:  `pointer` a byte address; `strides` in elements, negative or 0 allowed; `device` None for the host
    Owner:  the caller's object, kept alive as long as the view
    Stream: the producer's, which may still fill the array (array interface 3, DLPack); None: nothing to wait for
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: int | None
    owner: object
    framework: Framework
    readonly: bool = False
    stream: int | None = None


Reader = Callable[[Any, str, int | None], ArrayView]
_READERS: dict[type, Reader] = {}  # by exact type: one dictionary look-up a call


def is_host(array: ArrayView) -> bool:
    """Whether the array lies in host memory."""
    return array.device is None


def view(obj: object, name: str, *, stream: int | None = None) -> ArrayView:
    """`obj` as an ArrayView; `name` is the argument's, for errors.

    `stream` is the consumer's, told to DLPack producers on a GPU (None: the legacy default stream).
    Raises:  ArgumentError when `obj` is not an array, or one that cannot be used
    """
    reader = _READERS.get(type(obj))
    if reader is None:
        reader = _choose(obj, name)
    found = reader(obj, name, stream)
    if found.pointer % ITEM_BYTES[found.dtype] and 0 not in found.shape:
        raise ArgumentError(
            f"{name} starts at {found.pointer:#x}, not a multiple of its {ITEM_BYTES[found.dtype]}-byte elements",
            hint="pass a copy",
        )
    if not found.pointer and 0 not in found.shape:  # functional tensors, arrays that were given back
        raise ArgumentError(f"{name} has elements, but no memory (its address is 0)")
    return found


def _choose(obj: object, name: str) -> Reader:
    """The reader of a type; those of NumPy, torch and CuPy are remembered, the others look at each object."""
    kind = type(obj)
    if issubclass(kind, np.ndarray):
        return _READERS.setdefault(kind, _read_numpy)
    bases = {(base.__module__, base.__name__) for base in kind.__mro__}
    if ("torch", "Tensor") in bases:
        return _READERS.setdefault(kind, _torch_reader(sys.modules["torch"]))
    if any(module.split(".")[0] == "cupy" and base == "ndarray" for module, base in bases):
        return _READERS.setdefault(kind, _read_cupy)
    if _offers(obj, "__cuda_array_interface__", name):
        return _read_cai
    if _offers(obj, "__dlpack__", name) and _offers(obj, "__dlpack_device__", name):
        return _read_dlpack
    raise ArgumentError(
        f"{name} is not an array but {kind.__module__}.{kind.__qualname__}".replace("builtins.", ""),
        hint="pass a NumPy, torch or CuPy array, or any object with DLPack or __cuda_array_interface__",
    )


def _offers(obj: object, protocol: str, name: str) -> bool:
    """Whether it has the attribute; asking may run the object's own code."""
    try:
        return hasattr(obj, protocol)
    except Exception as cause:  # the object's own code ran
        raise ArgumentError(f"{name} does not give its {protocol}: {cause!r}") from cause


def _read_numpy(obj: Any, name: str, stream: int | None) -> ArrayView:
    if isinstance(obj, np.ma.MaskedArray):
        raise ArgumentError(f"{name} is a masked array, and its mask would be ignored", hint="pass x.filled(value)")
    array = obj if type(obj) is np.ndarray else np.asarray(obj)  # a subclass may say anything of its shape
    dtype = _NUMPY.get(array.dtype) or _numpy_dtype(array.dtype, name)
    interface = array.__array_interface__
    pointer, readonly = interface["data"]
    strides = _elements(array.strides, array.shape, array.itemsize, name)
    return ArrayView(pointer, array.shape, strides, dtype, None, obj, "numpy", readonly)


def _numpy_dtype(dtype: Any, name: str) -> str:
    """bf16 (the ml_dtypes package), or the error that says why not."""
    if dtype.name == "bfloat16":
        return "bf16"
    if dtype.newbyteorder("=") in _NUMPY:
        raise ArgumentError(
            f"{name} has its bytes in the order of another machine ({dtype.str})",
            hint=f"pass {name}.astype({name}.dtype.newbyteorder('='))",
        )
    raise _unsupported(str(dtype), name)


def _unsupported(dtype: str, name: str) -> ArgumentError:
    return ArgumentError(f"{name} has dtype {dtype}", hint=f"supported are {', '.join(sorted(ITEM_BYTES))}")


def _elements(strides: tuple[int, ...], shape: tuple[int, ...], item: int, name: str) -> tuple[int, ...]:
    """Strides in bytes as strides in elements; those of extent 0 and 1 never matter."""
    for stride, size in zip(strides, shape, strict=True):
        if stride % item and size > 1:
            raise ArgumentError(
                f"{name} has strides {strides} bytes, not all multiples of its {item}-byte elements",
                hint="pass a contiguous copy (a field of a structured array is not a plain array)",
            )
    return tuple([stride // item for stride in strides])


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _torch_reader(torch: Any) -> Reader:
    """A reader with torch's own constants at hand, so that a call imports and looks up nothing."""
    dtypes = {getattr(torch, spelled): ours for ours, spelled in _TORCH.items() if hasattr(torch, spelled)}
    strided = torch.strided

    def read(obj: Any, name: str, stream: int | None) -> ArrayView:
        dtype = dtypes.get(obj.dtype)
        # a negative view (x.conj().imag) holds the other sign in memory
        if dtype is None or obj.layout is not strided or obj.is_neg():
            raise _torch_fault(obj, name, dtype, strided)
        device = obj.get_device() if obj.is_cuda else None
        if device is None and obj.device.type != "cpu":
            raise _torch_elsewhere(obj, name)
        try:
            pointer = obj.data_ptr()
        except RuntimeError as cause:  # fake and functional tensors have no memory
            raise ArgumentError(f"{name} is a torch tensor without memory of its own: {cause}") from cause
        return ArrayView(pointer, tuple(obj.shape), obj.stride(), dtype, device, obj, "torch")

    return read


def _torch_elsewhere(obj: Any, name: str) -> ArgumentError:
    kind = obj.device.type
    hint = "it has a shape but no data" if kind == "meta" else "amk runs on CUDA devices and on the host"
    return ArgumentError(f"{name} is a torch tensor on device '{kind}'", hint=hint)


def _torch_fault(obj: Any, name: str, dtype: str | None, strided: object) -> ArgumentError:
    """Why a tensor is not a plain array of numbers."""
    if obj.layout is not strided:
        return ArgumentError(f"{name} is a torch tensor of layout {obj.layout}", hint="pass x.to_dense()")
    if obj.is_quantized:
        return ArgumentError(f"{name} is a quantized torch tensor ({obj.dtype})", hint="pass x.dequantize()")
    if obj.is_conj():
        return ArgumentError(f"{name} is a conjugate view of dtype {obj.dtype}", hint="complex numbers are unsupported")
    if dtype is None:
        return _unsupported(str(obj.dtype), name)
    return ArgumentError(f"{name} is a negative view: memory holds the other sign", hint="pass x.resolve_neg()")


def _read_cupy(obj: Any, name: str, stream: int | None) -> ArrayView:
    dtype = _NUMPY.get(obj.dtype) or _numpy_dtype(obj.dtype, name)
    strides = _elements(obj.strides, obj.shape, obj.itemsize, name)
    return ArrayView(obj.data.ptr, obj.shape, strides, dtype, obj.device.id, obj, "cupy")


def _read_cai(obj: Any, name: str, stream: int | None) -> ArrayView:
    """The CUDA array interface, version 2 or 3."""
    try:
        interface: dict[str, Any] = dict(obj.__cuda_array_interface__)
        version = index(interface.get("version", 0))
        if version < 2:
            raise ArgumentError(
                f"{name} has version {version} of the CUDA array interface", hint="2 and 3 are supported"
            )
        if interface.get("mask") is not None:
            raise ArgumentError(f"{name} has a mask, which would be ignored", hint="pass the plain data")
        dtype = _cai_dtype(obj, interface["typestr"], name)
        shape, (data, readonly) = _integers(interface["shape"]), interface["data"]
        pointer, given = index(data or 0), interface.get("strides")  # None: an empty array without memory
        steps = None if given is None else _integers(given)
        producer = _cai_stream(interface.get("stream"), name)
    except (TypeError, ValueError, KeyError, AttributeError) as cause:
        raise ArgumentError(f"{name} has a CUDA array interface that does not read: {cause!r}") from cause
    if min(shape, default=0) < 0 or not 0 <= pointer < 2**64 or (steps is not None and len(steps) != len(shape)):
        raise ArgumentError(f"{name} has an impossible shape, address or strides: {shape}, {pointer:#x}, {steps}")
    strides = _contiguous(shape) if steps is None else _elements(steps, shape, ITEM_BYTES[dtype], name)
    return ArrayView(pointer, shape, strides, dtype, _device_of(pointer), obj, "cai", bool(readonly), producer)


def _integers(values: Any) -> tuple[int, ...]:
    return tuple(index(n) for n in values)


def _cai_dtype(obj: Any, typestr: str, name: str) -> str:
    dtype = np.dtype(str(typestr))
    if dtype.kind == "V" and str(getattr(obj, "dtype", "")).endswith("bfloat16"):  # '<V2' says only "two bytes"
        return "bf16"
    return _NUMPY.get(dtype) or _numpy_dtype(dtype, name)


def _cai_stream(stream: Any, name: str) -> int | None:
    """1 is the legacy default stream, 2 the per-thread one, anything above a handle."""
    if stream is None:
        return None
    handle = index(stream)
    if handle <= 0:
        raise ArgumentError(
            f"{name} gives stream {handle} in its CUDA array interface, which is ambiguous and not allowed",
            hint="the producer must give None, 1 (legacy default), 2 (per-thread default) or a handle",
        )
    return handle


def _device_of(pointer: int) -> int:
    from amk.runtime.device import current_device, driver

    return driver().pointer_device(pointer) if pointer else current_device()  # an empty array may have no address


def _read_dlpack(obj: Any, name: str, stream: int | None) -> ArrayView:
    """DLPack: through NumPy on the host, through cuda.core on a GPU."""
    try:
        kind, number = _integers(obj.__dlpack_device__())
        if kind not in (1, 2, 3, 13):  # kDLCPU, kDLCUDA, kDLCUDAHost, kDLCUDAManaged
            hint = "the host and CUDA are supported"
            raise ArgumentError(f"{name} lies on a device of DLPack type {kind}", hint=hint)
        return _dlpack_host(obj, name) if kind in (1, 3) else _dlpack_gpu(obj, name, stream, number)
    except (AmkError, MemoryError):
        raise
    except Exception as cause:  # the producer's own code ran
        raise ArgumentError(f"{name} cannot be handed over by DLPack: {str(cause) or repr(cause)}") from cause


def _dlpack_host(obj: Any, name: str) -> ArrayView:
    array = np.from_dlpack(obj)
    read = _read_numpy(array, name, None)
    return ArrayView(read.pointer, read.shape, read.strides, read.dtype, None, array, "dlpack", read.readonly)


def _dlpack_gpu(obj: Any, name: str, stream: int | None, number: int) -> ArrayView:
    """The producer makes `wanted` wait for its work, so `wanted` is the stream that a launch elsewhere waits for."""
    from cuda.core.utils import StridedMemoryView

    wanted = stream or _LEGACY  # DLPack forbids 0
    memory = StridedMemoryView.from_dlpack(obj, stream_ptr=wanted)
    dtype = _NUMPY.get(memory.dtype) or _numpy_dtype(memory.dtype, name)
    shape = tuple(memory.shape)
    strides = tuple(memory.strides) if memory.strides else _contiguous(shape)
    return ArrayView(memory.ptr, shape, strides, dtype, number, memory, "dlpack", memory.readonly, wanted)
