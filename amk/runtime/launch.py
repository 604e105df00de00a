"""Loading and launching: a cubin and an entry name come in, a `Loaded` kernel comes out, and its launches go out.

A cubin is loaded once for each device. Loading works inside a graph capture, from any thread, on any device, whatever
the caller's current one is. A launch that the device cannot do is refused before the driver is asked, and every answer
of the driver is looked at, so no launch is lost in silence.

Raises:  LaunchError: not loadable, not launchable · ArgumentError: arguments that do not fit the signature
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from amk.errors import LaunchError
from amk.runtime.buffers import DeviceBuffer, allocate, to_device, to_host
from amk.runtime.device import Runtime, device, ensure_context, runtime
from amk.runtime.params import Packer, prepare
from amk.runtime.streams import (
    current_stream,
    is_capturing,
    launch_stream,
    relaxed_capture,
    release,
    stream_handle,
    wait_for,
)

__all__ = [
    "DeviceBuffer", "Loaded", "Packer", "allocate", "current_stream", "is_capturing", "launch_stream", "load",
    "prepare", "relaxed_capture", "release", "stream_handle", "to_device", "to_host", "wait_for",
]  # fmt: skip

MAX_GRID_X = 2**31 - 1  # CUDA C++ Programming Guide, Technical Specifications per Compute Capability, every device
MAX_GRID_YZ = 65535


@dataclass(frozen=True, slots=True)
class Loaded:
    """One entry point on one device. Bytes for `shared` (dynamic), `static_shared` and `local`; registers a thread."""

    kernel_name: str
    device: int
    shared: int
    max_threads: int
    registers: int
    static_shared: int
    local: int
    function: Any
    module: Any

    def launch(
        self, grid: tuple[int, int, int], block: int, args: int | Sequence[Any], stream: int, *, together: bool = False
    ) -> None:
        """Puts one launch on `stream`; does not wait. A grid with a 0 in it is no launch.

        Args:    `args` the address that `Packer.pack` gave, or a sequence of ctypes values; `together`: all blocks have
                 to run at once
        Raises:  LaunchError, before the driver is asked, for a grid or block outside the limits
        """
        x, y, z = grid
        if x == 0 or y == 0 or z == 0:
            return
        fits = 0 < x <= MAX_GRID_X and 0 < y <= MAX_GRID_YZ and 0 < z <= MAX_GRID_YZ
        if not fits or not 0 < block <= self.max_threads:
            raise self._outside(grid, block)
        params, keep = (args, None) if isinstance(args, int) else _addresses(args)
        with ensure_context(self.device) as api:
            start = api.launch_together if together else api.launch
            start(self.function, x, y, z, block, self.shared, stream, params)
        del keep  # until here the driver may read the array of addresses

    def _outside(self, grid: tuple[int, int, int], block: int) -> LaunchError:
        if not 0 < block <= self.max_threads:
            what = f"a block of {block} threads; at {self.registers} registers the driver allows {self.max_threads}"
            hint = "use fewer threads, or bound the registers with the kernel's launch bounds"
        else:
            what = f"a grid of {grid}; the limits are x {MAX_GRID_X}, y {MAX_GRID_YZ}, z {MAX_GRID_YZ}"
            hint = "split the batch, or fold it into grid x"
        message = f"kernel {self.kernel_name!r} was asked to run {what}"
        return LaunchError(message, status="CUDA_ERROR_INVALID_VALUE", hint=hint)


def _addresses(values: Sequence[Any]) -> tuple[int, object]:
    """The `void*[]` of ctypes values, and what keeps it alive."""
    array = (ctypes.c_void_p * max(1, len(values)))(*(ctypes.addressof(value) for value in values))
    return ctypes.addressof(array), array


def load(cubin: bytes, kernel_name: str, device: int, dynamic_shared_bytes: int = 0) -> Loaded:
    """The kernel of `cubin` on device `device`, ready to launch with `dynamic_shared_bytes`; one object for one key.

    Raises:  LaunchError when the binary does not suit the device or its driver, or asks for too much shared memory.
             Nothing is remembered of a failed load
    """
    now = runtime()
    key = (device, hashlib.sha256(cubin).digest(), kernel_name, dynamic_shared_bytes)
    found: Loaded | None = now.kernels.get(key)
    if found is not None:
        return found
    with now.lock:
        if key not in now.kernels:
            with ensure_context(device), relaxed_capture():
                now.kernels[key] = _load(now, key, cubin)
        kernel: Loaded = now.kernels[key]
        return kernel


def _load(now: Runtime, key: tuple[int, bytes, str, int], cubin: bytes) -> Loaded:
    index, digest, name, shared = key
    api = now.driver
    module = _module(now, index, digest, name, cubin)
    function = api.function(module, name)
    static = api.function_attribute(function, "SHARED_SIZE_BYTES")
    allowed = api.function_attribute(function, "MAX_DYNAMIC_SHARED_SIZE_BYTES")  # at first 48 KiB less the static part
    if shared > allowed:
        _allow_shared(now, index, name, function, static, shared)
    return Loaded(
        kernel_name=name,
        device=index,
        shared=shared,
        max_threads=api.function_attribute(function, "MAX_THREADS_PER_BLOCK"),
        registers=api.function_attribute(function, "NUM_REGS"),
        static_shared=static,
        local=api.function_attribute(function, "LOCAL_SIZE_BYTES"),
        function=function,
        module=module,
    )


def _module(now: Runtime, index: int, digest: bytes, name: str, cubin: bytes) -> Any:
    if (index, digest) not in now.modules:
        try:
            now.modules[index, digest] = now.driver.load_module(cubin)
        except LaunchError as fault:
            where = device(index)
            message = f"{name!r} does not load on GPU {index} ({where.name}, {where.target}): {fault.message}"
            raise LaunchError(message, status=fault.status, hint=fault.hint) from fault
    return now.modules[index, digest]


def _allow_shared(now: Runtime, index: int, name: str, function: Any, static: int, shared: int) -> None:
    """Raises the kernel's own limit; it is never lowered, since another `Loaded` of this function may need it."""
    limit = device(index).shared_optin_bytes
    if static + shared > limit:
        raise LaunchError(
            f"kernel {name!r} needs {static + shared} bytes of shared memory a block, GPU {index} has {limit}",
            status="CUDA_ERROR_INVALID_VALUE",
            hint="use fewer stages or a smaller tile, and check the descriptor against this GPU's target",
        )
    now.driver.set_function_attribute(function, "MAX_DYNAMIC_SHARED_SIZE_BYTES", shared)
