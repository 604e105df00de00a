"""Clocks for measurements: a call comes in, its time in microseconds comes out.

`CudaEventClock` times on the GPU, `HostClock` on the host. `describe` says what was measured on, for the record.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, Protocol

from amk.runtime.buffers import DeviceBuffer, allocate
from amk.runtime.device import device, ensure_context, probe

__all__ = ["Clock", "CudaEventClock", "HostClock", "sm_clock_mhz"]

FLUSH_BYTES = 256 << 20  # several times the largest L2 (60 MB on H200, 126 MB on B200)


class Clock(Protocol):
    """What `measure_pair` needs: a time, a cold cache, and what to write into the record."""

    def time(self, call: Callable[[], None], calls: int) -> float:
        """Microseconds for one of `calls` calls made back to back."""
        ...

    def flush(self) -> None:
        """Makes the caches cold: the next call reads its arguments from memory."""
        ...

    def now(self) -> float:
        """Seconds of a steady clock, for the length of the warm-up."""
        ...

    def describe(self) -> dict[str, object]:
        """Device, driver, SM clock in MHz (None: unknown), name of this clock."""
        ...


class HostClock:
    """Wall time of the host, for the CPU executor. There is no way to flush its caches, so `flush` does nothing."""

    def time(self, call: Callable[[], None], calls: int) -> float:
        start = time.perf_counter_ns()
        for _ in range(calls):
            call()
        return (time.perf_counter_ns() - start) / calls / 1e3

    def flush(self) -> None:
        return

    def now(self) -> float:
        return time.perf_counter()

    def describe(self) -> dict[str, object]:
        return {"clock": "host", "device": "cpu", "driver": "none", "sm_clock_mhz": None}


class CudaEventClock:
    """Time between two events on `stream` of device `index`; the calls must put their work on that stream.

    The whole device is waited for after each sample, so that work hidden on another stream cannot run on into the next.
    Close it, or use it as a context manager: it holds the 256 MiB that `flush` overwrites.
    """

    def __init__(self, index: int = 0, stream: int = 0) -> None:
        self.index, self.stream = index, stream
        with ensure_context(index) as api:
            self._start, self._end = api.create_event(timing=True), api.create_event(timing=True)
        self._scratch: DeviceBuffer | None = None

    def time(self, call: Callable[[], None], calls: int) -> float:
        with ensure_context(self.index) as api:
            api.record(self._start, self.stream)
            for _ in range(calls):
                call()
            api.record(self._end, self.stream)
            api.synchronize()
            return api.elapsed_ms(self._start, self._end) * 1e3 / calls

    def flush(self) -> None:
        """Overwrites more than the L2 holds, on the stream; the host goes on, so its launch cost hides behind it."""
        if self._scratch is None:
            size = max(FLUSH_BYTES, 2 * device(self.index).l2_bytes)
            self._scratch = allocate(size, self.index, self.stream)
        with ensure_context(self.index) as api:
            api.fill(self._scratch.pointer, 0, self._scratch.nbytes, self.stream)

    def now(self) -> float:
        return time.perf_counter()

    def describe(self) -> dict[str, object]:
        facts = device(self.index)
        return {
            "clock": "cuda events",
            "device": facts.name,
            "target": facts.target,
            "driver": probe().driver,
            "sm_clock_mhz": sm_clock_mhz(facts.uuid),
        }

    def close(self) -> None:
        """Gives the memory and the events back."""
        with ensure_context(self.index) as api:
            for event in (self._start, self._end):
                api.destroy_event(event)
        if self._scratch is not None:
            self._scratch.close()

    def __enter__(self) -> CudaEventClock:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def sm_clock_mhz(uuid: str) -> int | None:
    """The SM clock that NVML reports at this moment, None where there is no NVML."""
    for source in (_core_clock, _pynvml_clock):
        with contextlib.suppress(Exception):  # a missing library or a refusing driver must not stop a measurement
            return source(uuid)
    return None


def _core_clock(uuid: str) -> int:
    from cuda.core import system

    return int(system.Device(uuid=uuid).get_clock("sm").get_current_mhz())


def _pynvml_clock(uuid: str) -> int:
    import pynvml as raw  # type: ignore[import-not-found, import-untyped, unused-ignore]

    nvml: Any = raw
    nvml.nvmlInit()
    try:
        return int(nvml.nvmlDeviceGetClockInfo(nvml.nvmlDeviceGetHandleByUUID(uuid), nvml.NVML_CLOCK_SM))
    finally:
        nvml.nvmlShutdown()
