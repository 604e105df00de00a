"""Device memory of our own: host views come in, `DeviceBuffer`s come out, and results go back into host views.

Allocation and release are ordered on a stream, so a buffer may be closed right after the launch that uses it. Copies
between host and device wait for the stream: the caller may change or read the host array on return.

Raises:  LaunchError: out of memory, a copy inside a graph capture, any status of the driver
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from math import prod
from types import TracebackType
from typing import Any

import numpy as np

from amk.errors import AmkError, LaunchError
from amk.runtime.arrays import ArrayView
from amk.runtime.device import driver, ensure_context
from amk.runtime.extents import as_numpy, extent
from amk.runtime.streams import relaxed_capture

__all__ = ["DeviceBuffer", "allocate", "to_device", "to_host"]

_NO_POOL = frozenset({"CUDA_ERROR_NOT_SUPPORTED", "CUDA_ERROR_NOT_PERMITTED"})  # vGPU, some containers


class DeviceBuffer:
    """`nbytes` of memory on `device`, usable by work on `stream`. Close it, or use it as a context manager."""

    __slots__ = ("_pid", "_pooled", "device", "nbytes", "pointer", "stream")

    def __init__(self, pointer: int, nbytes: int, device: int, stream: int, pooled: bool) -> None:
        self.pointer, self.nbytes, self.device, self.stream = pointer, nbytes, device, stream
        self._pooled, self._pid = pooled, os.getpid()

    def array(self, shape: Sequence[int], dtype: str) -> ArrayView:
        """The buffer as a contiguous array, which keeps it alive."""
        strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
        return ArrayView(self.pointer, tuple(shape), tuple(strides), dtype, self.device, self, "cai")

    def like(self, view: ArrayView) -> ArrayView:
        """The buffer as the copy of a host array with the same strides, which keeps it alive."""
        at = self.pointer + view.pointer - extent(view)[0]
        return ArrayView(at, view.shape, view.strides, view.dtype, self.device, self, "cai")

    def close(self, stream: int | None = None) -> None:
        """Gives the memory back after the work now on `stream` (default: its own). A second close does nothing."""
        pointer, self.pointer = self.pointer, 0
        if not pointer:
            return
        with ensure_context(self.device) as api:
            if self._pooled:
                api.free_async(pointer, self.stream if stream is None else stream)
                return
            api.sync_stream(self.stream if stream is None else stream)
            api.free(pointer)

    def __enter__(self) -> DeviceBuffer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        """Nobody closed it, and its stream may be gone by now: wait for the device, then free."""
        if not getattr(self, "pointer", 0) or self._pid != os.getpid():  # a forked child owns nothing here
            return
        warnings.warn(f"a device buffer of {self.nbytes} bytes was not closed", ResourceWarning, stacklevel=2)
        try:
            with ensure_context(self.device) as api, relaxed_capture():
                api.synchronize()
                api.free(self.pointer)
        except (AmkError, TypeError, AttributeError):  # the interpreter or the driver is shutting down
            return


def allocate(nbytes: int, device: int, stream: int) -> DeviceBuffer:
    """Uninitialised memory for work on `stream`; of 0 bytes, a buffer with the address 0."""
    if nbytes == 0:
        return DeviceBuffer(0, 0, device, stream, pooled=False)
    with ensure_context(device) as api, relaxed_capture():
        try:
            return DeviceBuffer(api.alloc_async(nbytes, stream), nbytes, device, stream, pooled=True)
        except LaunchError as fault:
            if fault.status not in _NO_POOL:
                raise
        return DeviceBuffer(api.alloc(nbytes), nbytes, device, stream, pooled=False)


def to_device(view: ArrayView, device: int, stream: int, *, packed: bool = True) -> DeviceBuffer:
    """A copy of a host array, in row-major order whatever its strides are, or with those strides (`like` views it)."""
    array = as_numpy(view)
    host = array
    if not array.flags.c_contiguous:
        host, inner = _staged(view, packed)
        inner[...] = array
    with ensure_context(device) as api:
        _not_captured(stream)
        buffer = allocate(host.nbytes, device, stream)
        if buffer.nbytes:
            try:
                api.copy_to_device(buffer.pointer, host.ctypes.data, buffer.nbytes, stream)
                api.sync_stream(stream)  # pinned memory is still being read when the copy returns
            except LaunchError:
                buffer.close()
                raise
    return buffer


def to_host(buffer: DeviceBuffer, view: ArrayView, stream: int, *, packed: bool = True) -> None:
    """Copies what `to_device` made of `view` back into the host array, its elements alone, and waits."""
    target = as_numpy(view)
    if target.size == 0:
        return
    landing, inner = (target, target) if target.flags.c_contiguous else _staged(view, packed)
    with ensure_context(buffer.device) as api:
        _not_captured(stream)
        api.copy_to_host(landing.ctypes.data, buffer.pointer, landing.nbytes, stream)
        api.sync_stream(stream)
    if inner is not target:
        target[...] = inner


def _staged(view: ArrayView, packed: bool) -> tuple[Any, Any]:
    """Host memory laid out as the device's copy, and the array in it."""
    dtype = as_numpy(view).dtype
    if packed:
        made = np.empty(view.shape, dtype)
        return made, made
    low, high = extent(view)
    flat = np.zeros((high - low) // dtype.itemsize, dtype)
    steps = [s * dtype.itemsize for s in view.strides]
    return flat, np.lib.stride_tricks.as_strided(flat[(view.pointer - low) // dtype.itemsize :], view.shape, steps)


def _not_captured(stream: int) -> None:
    if driver().capture_status(stream) != "none":
        raise LaunchError(
            "an argument lies on the host, and copies of host memory cannot be captured into a graph",
            status="CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
            hint="put the arguments on the GPU before the capture begins",
        )
