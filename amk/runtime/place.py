"""Where a call runs: the word or number that a caller gives comes in, a GPU's index (None: the CPU executor) comes out.

Environment:  AMK_BACKEND=cpu (the CPU executor, whatever the caller says)
"""

from __future__ import annotations

import os
from functools import lru_cache

from amk.dsl.target import Target
from amk.errors import ArgumentError, EnvironmentProblem

__all__ = ["CPU_TARGET", "device_index", "device_target", "target_of"]

CPU_TARGET = "sm_80"  # the CPU executor runs any kernel; the oldest target asks for the least


def device_index(device: str | int) -> int | None:
    """The GPU to use, or None for the CPU executor."""
    if os.environ.get("AMK_BACKEND", "").lower() == "cpu" or device == "cpu":
        return None
    if isinstance(device, int):
        return device
    from amk.runtime.device import current_device, probe

    if device == "auto":
        return current_device() if probe().available else None
    if device.startswith("cuda"):
        status = probe()
        if not status.available:
            raise EnvironmentProblem(f"no CUDA device: {status.reason}", hint="use device='cpu', or see `amk doctor`")
        return int(device.partition(":")[2] or current_device())
    raise ArgumentError(f"unknown device {device!r}", hint="'auto', 'cpu', 'cuda' or the index of a GPU")


@lru_cache(maxsize=64)
def device_target(index: int) -> Target:
    """The target of a GPU of this machine."""
    return Target.detect(index)


def target_of(index: int | None) -> Target:
    """The target of a GPU, or of the CPU executor (None)."""
    return Target.find(CPU_TARGET) if index is None else device_target(index)
