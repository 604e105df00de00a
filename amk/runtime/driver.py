"""The one seam to the CUDA driver: plain integers and names go in and come out, and every status is checked.

Nothing outside this file calls `cuda.bindings.driver`, so a test replaces the whole GPU by one object of the same
interface (`amk.runtime.device.install`). Addresses, streams and events are integers (streams: 0 and 1 the legacy
default stream, 2 the per-thread one); contexts, modules and functions are opaque objects.

Raises:  LaunchError with `status`, the driver's own name of the fault · EnvironmentProblem when there is no driver
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import struct
from importlib import metadata
from typing import Any, Literal

from amk.errors import EnvironmentProblem, LaunchError

__all__ = [
    "HINTS", "LAUNCH_CONFIG", "NOT_LOADABLE", "STREAM_OFFSET", "Capture", "CaptureMode", "Driver", "toolkit_version",
]  # fmt: skip

Capture = Literal["none", "active", "invalidated", "legacy"]
CaptureMode = Literal["global", "thread", "relaxed"]

_CAPTURES: tuple[Capture, ...] = ("none", "active", "invalidated")  # in the driver's own numbering
_MODES: tuple[CaptureMode, ...] = ("global", "thread", "relaxed")
_FORK_HINT = "in a forked process CUDA cannot be used: start it with multiprocessing's 'spawn' method"
# CUlaunchConfig (cuda.h): grid x y z, block x y z, dynamic shared bytes, stream, attributes and how many.
LAUNCH_CONFIG = struct.Struct("<7I4xQQI4x")
STREAM_OFFSET = 32
_LAUNCH_EX = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_INSTALL = 'pip install "cuda-python>=12.9,<14"'

HINTS: dict[str, str] = {
    "CUDA_ERROR_NOT_INITIALIZED": _FORK_HINT,
    "CUDA_ERROR_NO_DEVICE": "no GPU is visible: look at CUDA_VISIBLE_DEVICES and nvidia-smi",
    "CUDA_ERROR_INVALID_VALUE": "grid, block, shared memory or address is outside what this device allows",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "a block needs more registers, threads or shared memory than one SM has",
    "CUDA_ERROR_OUT_OF_MEMORY": "free GPU memory, or use smaller arguments",
    "CUDA_ERROR_ILLEGAL_ADDRESS": "an argument was freed or is too small; the process cannot use this device any more",
    "CUDA_ERROR_LAUNCH_FAILED": "the kernel faulted; the process cannot use this device any more",
    "CUDA_ERROR_INVALID_CONTEXT": "the context of the device is gone; do not reset the device after the first call",
    "CUDA_ERROR_CONTEXT_IS_DESTROYED": "the device was reset after the first call; start a new process",
    "CUDA_ERROR_STREAM_CAPTURE_ISOLATION": "work that was not captured cannot be waited for in a graph capture",
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": "call once before the graph capture begins",
    "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED": "the graph capture was broken earlier: end it and capture again",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "kernel module and libcuda differ in version: reboot or reinstall the driver",
}
# These say that the binary does not suit the device or the driver: name both, and the compiler's version.
_BINARY = frozenset({
    "CUDA_ERROR_NO_BINARY_FOR_GPU", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "CUDA_ERROR_INVALID_PTX",
    "CUDA_ERROR_INVALID_IMAGE", "CUDA_ERROR_INVALID_SOURCE", "CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
})  # fmt: skip
# The binary is at fault, not the state of the device: one from the cache may be damaged or from another driver.
NOT_LOADABLE = _BINARY | {
    "CUDA_ERROR_NOT_FOUND", "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND", "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED",
}  # fmt: skip


def toolkit_version() -> str:
    """Version of the installed NVRTC wheel, or 'unknown'; loads no library."""
    for wheel in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"):
        try:
            return metadata.version(wheel)
        except metadata.PackageNotFoundError:
            continue
    return "unknown"


_RELEASE = re.compile(r"NVRM version:.*?\b([0-9]{3,6}\.[0-9]{1,6}(?:\.[0-9]{1,6})?)\b")


class Driver:
    """`cuda.bindings.driver`, checked. Call `start` first; contexts are the caller's business."""

    def __init__(self) -> None:
        try:
            from cuda.bindings import driver as api
        except ImportError as cause:
            raise EnvironmentProblem(f"cuda-python is not usable: {cause}", hint=_INSTALL) from cause
        self._api: Any = api
        self._launch: Any = api.cuLaunchKernel
        self._current: Any = None
        self._launch_ex: Any = None

    def start(self) -> None:
        """cuInit. EnvironmentProblem when there is no libcuda."""
        try:
            result = self._api.cuInit(0)
        except (RuntimeError, OSError) as cause:  # cuda.pathfinder: DynamicLibNotFoundError
            raise EnvironmentProblem(
                "there is no NVIDIA driver (libcuda) on this machine",
                hint="install the NVIDIA driver, or use device='cpu'; `amk check` needs neither",
            ) from cause
        self._check(result, "starting CUDA")
        self._current = self._api.cuCtxGetCurrent
        found = self._check(self._api.cuGetProcAddress(b"cuLaunchKernelEx", 11080, 0), "finding cuLaunchKernelEx")
        self._launch_ex = _LAUNCH_EX(int(found[0]))

    def _check(self, result: tuple[Any, ...], doing: str) -> Any:
        """The values behind the status, or LaunchError."""
        if result[0] != 0:
            raise self._fault(result[0], doing)
        return result[1] if len(result) == 2 else result[1:]

    def _fault(self, status: Any, doing: str) -> LaunchError:
        name = getattr(status, "name", None) or f"CUDA_ERROR_{int(status)}"
        hint = HINTS.get(name, "")
        if name in _BINARY:
            hint = (
                f"the binary comes from NVRTC {toolkit_version()}, the driver supports CUDA {self._version_text()}: "
                "compile to machine code (cubin) for this device's own architecture, or update the driver"
            )
        return LaunchError(f"{doing}: the driver answered {name}", status=name, hint=hint)

    def _version_text(self) -> str:
        try:
            version = self.version()
        except Exception:  # the hint must not hide the fault
            return "unknown"
        return f"{version // 1000}.{version % 1000 // 10}"

    # -- devices -----------------------------------------------------------------------------------------------------

    def version(self) -> int:
        """Newest CUDA that the driver supports, as 1000 * major + 10 * minor."""
        return int(self._check(self._api.cuDriverGetVersion(), "reading the driver's version"))

    def release(self) -> str | None:
        """The driver's own version, as nvidia-smi shows it ('580.159.04'); None where the system does not say."""
        try:
            with open("/proc/driver/nvidia/version", encoding="ascii", errors="replace") as file:
                found = _RELEASE.search(file.read(4096))
        except OSError:
            return None
        return found[1] if found else None

    def device_count(self) -> int:
        return int(self._check(self._api.cuDeviceGetCount(), "counting devices"))

    def device_name(self, index: int) -> str:
        return _text(self._check(self._api.cuDeviceGetName(256, self._device(index)), f"naming device {index}"))

    def attribute(self, index: int, name: str) -> int:
        """CU_DEVICE_ATTRIBUTE_`name` of device `index`."""
        which = getattr(self._api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self._check(self._api.cuDeviceGetAttribute(which, self._device(index)), f"reading {name}"))

    def total_memory(self, index: int) -> int:
        """Bytes."""
        return int(self._check(self._api.cuDeviceTotalMem(self._device(index)), "reading the size of memory"))

    def pci(self, index: int) -> str:
        return _text(self._check(self._api.cuDeviceGetPCIBusId(32, self._device(index)), "reading the PCI address"))

    def uuid(self, index: int) -> str:
        """As nvidia-smi prints it: GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx."""
        raw = bytes(self._check(self._api.cuDeviceGetUuid(self._device(index)), "reading the UUID").bytes).hex()
        return "GPU-" + "-".join((raw[:8], raw[8:12], raw[12:16], raw[16:20], raw[20:]))

    def _device(self, index: int) -> Any:
        return self._check(self._api.cuDeviceGet(index), f"opening device {index}")

    def pointer_device(self, pointer: int) -> int:
        """Index of the device that holds an address."""
        which = self._api.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        return int(self._check(self._api.cuPointerGetAttribute(which, pointer), "asking which device holds an address"))

    # -- contexts ----------------------------------------------------------------------------------------------------

    def retain_primary(self, index: int) -> Any:
        doing = f"opening the primary context of device {index}"
        return self._check(self._api.cuDevicePrimaryCtxRetain(self._device(index)), doing)

    def current(self) -> int:
        """Handle of the calling thread's context, 0 for none."""
        status, context = self._current()
        if status:
            raise self._fault(status, "reading the current context")
        return int(context)

    def push(self, context: Any) -> None:
        self._check(self._api.cuCtxPushCurrent(context), "entering a context")

    def pop(self) -> None:
        self._check(self._api.cuCtxPopCurrent(), "leaving a context")

    def context_device(self) -> int:
        """Index of the device of the current context (CUdevice is the index)."""
        return int(self._check(self._api.cuCtxGetDevice(), "reading the current device"))

    def synchronize(self) -> None:
        """Waits for everything in the current context. For measuring and for tests, never on the path of a call."""
        self._check(self._api.cuCtxSynchronize(), "waiting for the device")

    # -- modules -----------------------------------------------------------------------------------------------------

    def load_module(self, image: bytes) -> Any:
        return self._check(self._api.cuModuleLoadData(image), "loading a kernel")

    def function(self, module: Any, name: str) -> Any:
        """The entry point, loaded at once: lazy loading would otherwise fall into the first launch."""
        function = self._check(self._api.cuModuleGetFunction(module, name.encode()), f"finding kernel {name!r}")
        with contextlib.suppress(AttributeError, RuntimeError):  # bindings or a driver from before CUDA 12.4
            self._check(self._api.cuFuncLoad(function), f"loading kernel {name!r}")
        return function

    def function_attribute(self, function: Any, name: str) -> int:
        """CU_FUNC_ATTRIBUTE_`name` (the most threads a block may have is MAX_THREADS_PER_BLOCK)."""
        return int(self._check(self._api.cuFuncGetAttribute(self._func(name), function), f"reading {name}"))

    def set_function_attribute(self, function: Any, name: str, value: int) -> None:
        self._check(self._api.cuFuncSetAttribute(function, self._func(name), value), f"setting {name} to {value}")

    def _func(self, name: str) -> Any:
        return getattr(self._api.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")

    def launch(self, function: Any, x: int, y: int, z: int, block: int, shared: int, stream: int, params: int) -> None:
        """`params`: address of a void*[], one address an argument; the driver copies the values before it returns."""
        result = self._launch(function, x, y, z, block, 1, 1, shared, stream, params, 0)
        if result[0] != 0:
            raise self._fault(result[0], f"launching grid ({x}, {y}, {z}), {block} threads, {shared} shared bytes")

    def launch_together(
        self, function: Any, x: int, y: int, z: int, block: int, shared: int, stream: int, params: int
    ) -> None:
        """The same for blocks that have to run at once; the driver refuses a grid that does not fit on the device."""
        result = self._api.cuLaunchCooperativeKernel(function, x, y, z, block, 1, 1, shared, stream, params)
        if result[0] != 0:
            raise self._fault(result[0], f"launching grid ({x}, {y}, {z}), {block} threads, all blocks at once")

    def function_handle(self, function: Any) -> int:
        """What `launch_prepared` takes."""
        return int(function)

    def launch_prepared(self, function: int, config: int, params: int) -> None:
        """`config`: address of a `LAUNCH_CONFIG`. Four integers by ctypes take half the time of eleven by cuda.bindings
        (0.45 and 0.87 us on the host this was written on); the driver copies everything before it returns."""
        status = self._launch_ex(config, function, params, None)
        if status:
            raise self._fault(self._api.CUresult(status), "launching a prepared kernel")

    def encode_map(
        self, dtype: str, pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], box: tuple[int, ...],
        swizzle: int, nan: bool,
    ) -> bytes:  # fmt: skip
        """The 128 bytes of a CUtensorMap. Extents, box and byte strides innermost first, which has no stride."""
        api = self._api
        names = {
            "i8": "UINT8", "u8": "UINT8", "i32": "INT32", "u32": "UINT32", "i64": "INT64", "u64": "UINT64",
            "f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "f64": "FLOAT64",
        }  # fmt: skip
        found = self._check(
            api.cuTensorMapEncodeTiled(
                getattr(api.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{names[dtype]}"), len(shape), pointer,
                [api.cuuint64_t(n) for n in shape],
                [api.cuuint64_t(n) for n in strides or (16,)],  # a list even where there is one dimension
                [api.cuuint32_t(n) for n in box], [api.cuuint32_t(1)] * len(shape),
                api.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
                getattr(api.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{f'{swizzle}B' if swizzle else 'NONE'}"),
                api.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                api.CUtensorMapFloatOOBfill(int(nan)),
            ),
            f"encoding a tensor map of {dtype} {shape}, strides {strides} bytes, box {box}",
        )  # fmt: skip
        return ctypes.string_at(int(found.getPtr()), 128)

    # -- memory ------------------------------------------------------------------------------------------------------

    def alloc_async(self, nbytes: int, stream: int) -> int:
        return int(self._check(self._api.cuMemAllocAsync(nbytes, stream), f"allocating {nbytes} bytes"))

    def free_async(self, pointer: int, stream: int) -> None:
        self._check(self._api.cuMemFreeAsync(pointer, stream), "freeing memory")

    def alloc(self, nbytes: int) -> int:
        return int(self._check(self._api.cuMemAlloc(nbytes), f"allocating {nbytes} bytes"))

    def free(self, pointer: int) -> None:
        self._check(self._api.cuMemFree(pointer), "freeing memory")

    def copy_to_device(self, target: int, source: int, nbytes: int, stream: int) -> None:
        self._check(self._api.cuMemcpyHtoDAsync(target, source, nbytes, stream), f"copying {nbytes} bytes to the GPU")

    def copy_to_host(self, target: int, source: int, nbytes: int, stream: int) -> None:
        self._check(self._api.cuMemcpyDtoHAsync(target, source, nbytes, stream), f"copying {nbytes} bytes to the host")

    def copy_on_device(self, target: int, source: int, nbytes: int, stream: int) -> None:
        self._check(self._api.cuMemcpyDtoDAsync(target, source, nbytes, stream), f"copying {nbytes} bytes on the GPU")

    def fill(self, pointer: int, byte: int, nbytes: int, stream: int) -> None:
        self._check(self._api.cuMemsetD8Async(pointer, byte, nbytes, stream), f"filling {nbytes} bytes")

    # -- streams and events ------------------------------------------------------------------------------------------

    def create_stream(self) -> int:
        """A stream that does not wait for the legacy default stream (CU_STREAM_NON_BLOCKING)."""
        return int(self._check(self._api.cuStreamCreate(1), "creating a stream"))

    def destroy_stream(self, stream: int) -> None:
        self._check(self._api.cuStreamDestroy(stream), "destroying a stream")

    def sync_stream(self, stream: int) -> None:
        self._check(self._api.cuStreamSynchronize(stream), "waiting for a stream")

    def create_event(self, timing: bool = False) -> int:
        flags = 0 if timing else 2  # CU_EVENT_DISABLE_TIMING: cheaper to record
        return int(self._check(self._api.cuEventCreate(flags), "creating an event"))

    def destroy_event(self, event: int) -> None:
        """Allowed while a wait is pending: the driver frees it when it has completed."""
        self._check(self._api.cuEventDestroy(event), "destroying an event")

    def record(self, event: int, stream: int) -> None:
        self._check(self._api.cuEventRecord(event, stream), "recording an event")

    def wait(self, stream: int, event: int) -> None:
        """Makes `stream` wait for `event`; the host does not wait."""
        self._check(self._api.cuStreamWaitEvent(stream, event, 0), "ordering two streams")

    def sync_event(self, event: int) -> None:
        self._check(self._api.cuEventSynchronize(event), "waiting for an event")

    def elapsed_ms(self, start: int, end: int) -> float:
        return float(self._check(self._api.cuEventElapsedTime(start, end), "reading a time"))

    def capture_status(self, stream: int) -> Capture:
        """'legacy': asked of the legacy stream while another stream of the context is captured in global mode."""
        result = self._api.cuStreamIsCapturing(stream)
        if getattr(result[0], "name", "") == "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT":
            return "legacy"
        return _CAPTURES[int(self._check(result, "asking whether a stream is captured"))]

    def exchange_capture_mode(self, mode: CaptureMode) -> CaptureMode:
        """Sets what the calling thread may do during captures; returns what it was."""
        wanted = self._api.CUstreamCaptureMode(_MODES.index(mode))
        old = self._check(self._api.cuThreadExchangeStreamCaptureMode(wanted), "setting the capture mode")
        return _MODES[int(old)]


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode(errors="replace")
