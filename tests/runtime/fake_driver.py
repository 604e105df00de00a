"""A driver without a GPU: N devices, context stacks for each thread, streams, captures, memory, and a log of all calls.

An image is `b"<target>:<kernel>:<registers>:<static shared bytes>"`; it loads only on a device of that target.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from typing import Any

from amk.dsl.evaluate import function_of
from amk.dsl.kernel import KernelDescriptor
from amk.errors import LaunchError
from amk.runtime.arrays import ArrayView
from amk.runtime.driver import HINTS, LAUNCH_CONFIG, Capture, CaptureMode, Driver
from amk.runtime.extents import as_numpy

CAPABILITIES = {"sm_90a": (9, 0), "sm_86": (8, 6), "sm_120": (12, 0)}


class FakeDriver(Driver):
    def __init__(self, targets: tuple[str, ...] = ("sm_90a",), *, pools: bool = True) -> None:
        self.targets, self.pools = targets, pools
        self.log: list[tuple[Any, ...]] = []
        self.capturing: dict[int, Capture] = {}
        self.memory: dict[int, Any] = {}
        self.start_status = ""
        self._local = threading.local()
        self._handles = itertools.count(0x1000, 0x10)
        self._functions: dict[int, tuple[int, Any]] = {}
        self._clock = 0.0
        self._events: dict[int, float] = {}

    # -- helpers of tests
    @property
    def stack(self) -> list[int]:
        if not hasattr(self._local, "stack"):
            self._local.stack, self._local.mode = [], "global"
        stack: list[int] = self._local.stack
        return stack

    @property
    def mode(self) -> CaptureMode:
        _ = self.stack
        mode: CaptureMode = self._local.mode
        return mode

    def calls(self, name: str) -> list[tuple[Any, ...]]:
        return [entry[1:] for entry in self.log if entry[0] == name]

    def fail(self, name: str, doing: str = "fake") -> LaunchError:
        return LaunchError(f"{doing}: the driver answered {name}", status=name, hint=HINTS.get(name, ""))

    def _unsafe(self) -> None:
        if "active" in self.capturing.values() and self.mode != "relaxed":
            self.capturing = dict.fromkeys(self.capturing, "invalidated")
            raise self.fail("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED")

    # -- the interface
    def start(self) -> None:
        self.log.append(("start",))
        if self.start_status:
            raise self.fail(self.start_status)

    def version(self) -> int:
        return 13000

    def release(self) -> str | None:
        return "580.159.04"

    def device_count(self) -> int:
        return len(self.targets)

    def device_name(self, index: int) -> str:
        return f"Fake {self.targets[index]}"

    def attribute(self, index: int, name: str) -> int:
        major, minor = CAPABILITIES[self.targets[index]]
        return {
            "COMPUTE_CAPABILITY_MAJOR": major,
            "COMPUTE_CAPABILITY_MINOR": minor,
            "MULTIPROCESSOR_COUNT": 132,
            "L2_CACHE_SIZE": 60 << 20,
            "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448 if major == 9 else 101376,
            "MAX_REGISTERS_PER_MULTIPROCESSOR": 65536,
            "CLOCK_RATE": 1980000,
        }[name]

    def total_memory(self, index: int) -> int:
        return 1 << 37

    def pci(self, index: int) -> str:
        return f"0000:{index:02x}:00.0"

    def uuid(self, index: int) -> str:
        return f"GPU-{index}"

    def pointer_device(self, pointer: int) -> int:
        return pointer >> 40

    def retain_primary(self, index: int) -> Any:
        self.log.append(("retain", index))
        return 0xC000 + index

    def current(self) -> int:
        return self.stack[-1] if self.stack else 0

    def push(self, context: Any) -> None:
        self.stack.append(context)

    def pop(self) -> None:
        self.stack.pop()

    def context_device(self) -> int:
        return self.current() - 0xC000

    def synchronize(self) -> None:
        self.log.append(("synchronize",))

    def load_module(self, image: bytes) -> Any:
        self._unsafe()
        target, name, registers, static = image.decode().split(":")
        if target != self.targets[self.context_device()]:
            raise self.fail("CUDA_ERROR_NO_BINARY_FOR_GPU")
        self.log.append(("load", self.context_device(), name))
        return {"name": name, "registers": int(registers), "static": int(static), "context": self.current()}

    def function(self, module: Any, name: str) -> Any:
        if name != module["name"]:
            raise self.fail("CUDA_ERROR_NOT_FOUND")
        return module

    def function_attribute(self, function: Any, name: str) -> int:
        return {
            "SHARED_SIZE_BYTES": function["static"],
            "MAX_DYNAMIC_SHARED_SIZE_BYTES": function.get("dynamic", 49152 - function["static"]),
            "MAX_THREADS_PER_BLOCK": min(1024, 65536 // function["registers"] // 32 * 32),
            "NUM_REGS": function["registers"],
            "LOCAL_SIZE_BYTES": 0,
        }[name]

    def set_function_attribute(self, function: Any, name: str, value: int) -> None:
        self.log.append(("set", name, value))
        function["dynamic"] = value

    def launch(self, function: Any, x: int, y: int, z: int, block: int, shared: int, stream: int, params: int) -> None:
        if self.current() != function["context"]:
            raise self.fail("CUDA_ERROR_INVALID_HANDLE")
        if shared > self.function_attribute(function, "MAX_DYNAMIC_SHARED_SIZE_BYTES"):
            raise self.fail("CUDA_ERROR_INVALID_VALUE")
        self.log.append(("launch", function["name"], (x, y, z), block, shared, stream, params, self.context_device()))

    def function_handle(self, function: Any) -> int:
        return self._functions.setdefault(id(function), (next(self._handles), function))[0]

    def launch_prepared(self, function: int, config: int, params: int) -> None:
        text = ctypes.string_at(config, LAUNCH_CONFIG.size)
        x, y, z, block, block_y, block_z, shared, stream, attributes, count = LAUNCH_CONFIG.unpack(text)
        if (block_y, block_z, attributes, count) != (1, 1, 0, 0):
            raise self.fail("CUDA_ERROR_INVALID_VALUE")
        made = next(made for handle, made in self._functions.values() if handle == function)
        self.log.append(("prepared", function))
        self.launch(made, x, y, z, block, shared, stream, params)

    def alloc_async(self, nbytes: int, stream: int) -> int:
        if not self.pools:
            raise self.fail("CUDA_ERROR_NOT_SUPPORTED")
        return self._allocate(nbytes)

    def alloc(self, nbytes: int) -> int:
        self._unsafe()
        return self._allocate(nbytes)

    def _allocate(self, nbytes: int) -> int:
        memory = ctypes.create_string_buffer(nbytes)
        self.memory[ctypes.addressof(memory)] = memory
        return ctypes.addressof(memory)

    def free_async(self, pointer: int, stream: int) -> None:
        self.log.append(("free_async", stream))
        del self.memory[pointer]

    def free(self, pointer: int) -> None:
        self.log.append(("free",))
        del self.memory[pointer]

    def copy_to_device(self, target: int, source: int, nbytes: int, stream: int) -> None:
        ctypes.memmove(target, source, nbytes)

    copy_to_host = copy_on_device = copy_to_device

    def fill(self, pointer: int, byte: int, nbytes: int, stream: int) -> None:
        self.log.append(("fill", nbytes, stream))

    def create_stream(self) -> int:
        return next(self._handles)

    def destroy_stream(self, stream: int) -> None:
        self.log.append(("destroy_stream", stream))

    def sync_stream(self, stream: int) -> None:
        self.log.append(("sync_stream", stream))

    def create_event(self, timing: bool = False) -> int:
        return next(self._handles)

    def destroy_event(self, event: int) -> None:
        self.log.append(("destroy_event", event))

    def record(self, event: int, stream: int) -> None:
        self._clock += 0.004
        self._events[event] = self._clock
        self.log.append(("record", event, stream))

    def wait(self, stream: int, event: int) -> None:
        self.log.append(("wait", stream, event))

    def sync_event(self, event: int) -> None:
        self.log.append(("sync_event", event))

    def elapsed_ms(self, start: int, end: int) -> float:
        return self._events[end] - self._events[start]

    def capture_status(self, stream: int) -> Capture:
        return self.capturing.get(stream, "none")

    def exchange_capture_mode(self, mode: CaptureMode) -> CaptureMode:
        before = self.mode
        self._local.mode = mode
        return before


class ExecutingDriver(FakeDriver):
    """Runs what is launched: "device memory" is host memory, kernels run on the CPU executor, grid and block checked.

    `homes` says on which device an address lies (the default is device 0).
    """

    def __init__(self, targets: tuple[str, ...] = ("sm_90a",)) -> None:
        super().__init__(targets)
        self.kernels: dict[bytes, KernelDescriptor] = {}
        self.homes: dict[int, int] = {}

    def image(self, kernel: KernelDescriptor, target: str) -> bytes:
        """What stands for the kernel's machine code."""
        image = f"{target}:{kernel.name}:64:0:{kernel.hash}".encode()
        self.kernels[image] = kernel
        return image

    def load_module(self, image: bytes) -> Any:
        if image not in self.kernels:
            self.log.append(("refuse", image))
            raise self.fail("CUDA_ERROR_INVALID_IMAGE", "loading a kernel")
        return super().load_module(image.rpartition(b":")[0]) | {"kernel": self.kernels[image]}

    def pointer_device(self, pointer: int) -> int:
        return self.homes.get(pointer, 0)

    def fill(self, pointer: int, byte: int, nbytes: int, stream: int) -> None:
        super().fill(pointer, byte, nbytes, stream)
        ctypes.memset(pointer, byte, nbytes)

    def launch(self, function: Any, x: int, y: int, z: int, block: int, shared: int, stream: int, params: int) -> None:
        from amk.harness.interpret import run

        super().launch(function, x, y, z, block, shared, stream, params)
        if self.capturing.get(stream) == "active":
            return
        kernel = function["kernel"]
        table = (ctypes.c_void_p * len(kernel.params)).from_address(params)
        args: dict[str, Any] = {
            p.name: (ctypes.c_uint64 if p.shape is not None else _C[p.dtype]).from_address(table[i]).value
            for i, p in enumerate(kernel.params)
        }
        names = tuple(p.name for p in kernel.scalars)
        scalars = [args[n] for n in names]
        if (x, y, z) != function_of(kernel.grid3, names)(*scalars) or (block, shared) != (
            kernel.threads, kernel.shared_bytes,
        ):  # fmt: skip
            raise self.fail("CUDA_ERROR_INVALID_VALUE")
        for p in kernel.tensors:
            assert p.shape is not None and args[p.name] % p.align == 0, p.name
            shape = function_of(p.shape, names)(*scalars)
            strides = function_of(kernel.strides_of(p), names)(*scalars)
            args[p.name] = as_numpy(ArrayView(args[p.name], tuple(shape), tuple(strides), p.dtype, None, None, "cai"))
        run(kernel, args)


_C = {"i32": ctypes.c_int32, "u32": ctypes.c_uint32, "i64": ctypes.c_int64, "f32": ctypes.c_float}
