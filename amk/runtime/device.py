"""Which GPUs there are, and whose turn it is: an index comes in, facts and a current context come out.

CUDA starts at the first call that needs it, never on import. The primary context of a device is used, which is the one
of torch and CuPy, and the caller's current context is put back afterwards. A process that was forked after CUDA had
started is told so: the driver itself only says "not initialised". Python's fork forgets the runtime in the child, so
that a call that holds one only compares it with the present one; any other fork is found by the process id.

Raises:  EnvironmentProblem: no driver, no device, a forked process · LaunchError: the driver refused a question
"""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from amk.errors import AmkError, EnvironmentProblem, LaunchError
from amk.runtime.driver import Driver

__all__ = [
    "Device", "DeviceStatus", "Runtime", "current_device", "device", "driver", "ensure_context", "install", "probe",
    "runtime", "target_name",
]  # fmt: skip

_ARCHITECTURE_SPECIFIC = frozenset({(9, 0), (10, 0)})  # wgmma, setmaxnreg and tcgen05 exist only with the suffix `a`


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """What `probe` found; `reason`, `hint`: why there is nothing.

    `driver` is the driver's own version ('580.159.04'), '0.13.0' where only the newest CUDA it supports is known, or
    'none'; `cuda` is that CUDA version ('13.0'), or ''.
    """

    available: bool
    count: int
    driver: str
    reason: str
    hint: str
    names: tuple[str, ...]
    cuda: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """Facts about one GPU. Sizes in bytes, registers of 32 bits, clock in MHz; cubins are built for `target`."""

    index: int
    name: str
    compute_capability: tuple[int, int]
    target: str
    sm_count: int
    l2_bytes: int
    shared_optin_bytes: int
    registers_per_sm: int
    clock_mhz: int
    memory_bytes: int
    pci: str
    uuid: str


@dataclass(slots=True)
class Runtime:
    """CUDA as one process started it: driver, facts, contexts, and the kernels that `amk.runtime.launch` loaded."""

    driver: Driver
    pid: int
    devices: dict[int, Device] = field(default_factory=dict)
    contexts: dict[int, tuple[Any, int]] = field(default_factory=dict)  # object and handle
    modules: dict[Any, Any] = field(default_factory=dict)
    kernels: dict[Any, Any] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)


_RUNTIME: Runtime | None = None
_FORKED = False
_LOCK = threading.Lock()


def _in_forked_child() -> None:
    global _RUNTIME, _FORKED, _LOCK
    _LOCK = threading.Lock()  # a thread that the child does not have may have held it
    if _RUNTIME is not None:
        _RUNTIME, _FORKED = None, True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)


def runtime() -> Runtime:
    """CUDA, started. EnvironmentProblem in a process forked after the start."""
    now = _RUNTIME
    if now is None:
        return _start(None)
    if now.pid != os.getpid():
        raise _forked()
    return now


def driver() -> Driver:
    """The started driver."""
    return runtime().driver


def install(replacement: Driver | None) -> None:
    """Uses another driver from now on (a test's fake); None forgets the one in use and all that was loaded."""
    global _RUNTIME, _FORKED
    with _LOCK:
        _RUNTIME, _FORKED = None, False
    if replacement is not None:
        _start(replacement)


def _start(chosen: Driver | None) -> Runtime:
    global _RUNTIME
    with _LOCK:
        if _FORKED:
            raise _forked()
        if _RUNTIME is None:
            found = chosen or Driver()
            try:
                found.start()
            except LaunchError as fault:
                if fault.status == "CUDA_ERROR_NOT_INITIALIZED":  # the parent started CUDA without us
                    raise _forked() from fault
                raise
            _RUNTIME = Runtime(found, os.getpid())
        return _RUNTIME


def _forked() -> EnvironmentProblem:
    return EnvironmentProblem(
        "this process was forked after CUDA had started, so it cannot use the GPU",
        hint="start workers with the 'spawn' method (multiprocessing.set_start_method('spawn')), or fork before the "
        "first call; checking works in either",
    )


def probe() -> DeviceStatus:
    """What GPUs this process can use. Never raises; starts CUDA where it can."""
    try:
        api = driver()
        names = tuple(api.device_name(i) for i in range(api.device_count()))
        version, release = api.version(), api.release()
    except AmkError as fault:
        return DeviceStatus(False, 0, "none", fault.message, fault.hint, ())
    except Exception as fault:  # a broken installation must not stop `amk doctor`
        return DeviceStatus(False, 0, "none", f"CUDA does not start: {fault!r}", "reinstall cuda-python", ())
    cuda = f"{version // 1000}.{version % 1000 // 10}"
    text = release or f"0.{cuda}"
    if not names:
        hint = "look at CUDA_VISIBLE_DEVICES and nvidia-smi"
        return DeviceStatus(False, 0, text, "the driver sees no GPU", hint, (), cuda)
    return DeviceStatus(True, len(names), text, "", "", names, cuda)


def device(index: int) -> Device:
    """The facts of device `index`, read once. EnvironmentProblem if there is no such device."""
    now = runtime()
    found = now.devices.get(index)
    if found is None:
        found = now.devices[index] = _read(now.driver, index)
    return found


def _read(api: Driver, index: int) -> Device:
    count = api.device_count()
    if not 0 <= index < count:
        raise EnvironmentProblem(f"there is no GPU {index}", hint=f"this process sees {count}: 0 to {count - 1}")
    capability = (
        api.attribute(index, "COMPUTE_CAPABILITY_MAJOR"),
        api.attribute(index, "COMPUTE_CAPABILITY_MINOR"),
    )
    return Device(
        index=index,
        name=api.device_name(index),
        compute_capability=capability,
        target=target_name(capability),
        sm_count=api.attribute(index, "MULTIPROCESSOR_COUNT"),
        l2_bytes=api.attribute(index, "L2_CACHE_SIZE"),
        shared_optin_bytes=api.attribute(index, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        registers_per_sm=api.attribute(index, "MAX_REGISTERS_PER_MULTIPROCESSOR"),
        clock_mhz=api.attribute(index, "CLOCK_RATE") // 1000,
        memory_bytes=api.total_memory(index),
        pci=api.pci(index),
        uuid=api.uuid(index),
    )


def target_name(capability: tuple[int, int]) -> str:
    """(9, 0) gives 'sm_90a', (8, 6) gives 'sm_86'."""
    major, minor = capability
    return f"sm_{major}{minor}{'a' if capability in _ARCHITECTURE_SPECIFIC else ''}"


def current_device() -> int:
    """The caller's current device: torch's if torch has started CUDA, else that of the current context, else 0."""
    torch = sys.modules.get("torch")  # torch may have chosen a device without having made its context current yet
    if torch is not None and torch.cuda.is_initialized():
        return int(torch.cuda.current_device())
    api = driver()
    return api.context_device() if api.current() else 0


class ensure_context:  # used as `with ensure_context(1):`; a class, since a generator costs a microsecond
    """Makes the primary context of device `index` current inside the block, and the caller's own afterwards."""

    __slots__ = ("_context", "_driver", "_handle", "_pushed")

    def __init__(self, index: int) -> None:
        now = runtime()
        self._driver, self._pushed = now.driver, False
        self._context, self._handle = now.contexts.get(index) or _open(now, index)

    def __enter__(self) -> Driver:
        if self._driver.current() != self._handle:
            self._driver.push(self._context)
            self._pushed = True
        return self._driver

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pushed:
            self._pushed = False
            self._driver.pop()


def _open(now: Runtime, index: int) -> tuple[Any, int]:
    """The primary context, retained once and for the life of the process."""
    with now.lock:
        if index not in now.contexts:
            device(index)  # for its error about an index that does not exist
            context = now.driver.retain_primary(index)
            now.contexts[index] = (context, int(context))
        return now.contexts[index]
