"""Where a call runs: the word or number that a caller gives comes in, a GPU's index (None: the CPU executor) comes out.

Environment:  AMK_BACKEND=cpu (the CPU executor, whatever the caller says)
"""

from __future__ import annotations

import contextlib
import os
from functools import lru_cache
from operator import index
from typing import SupportsIndex

from amk.dsl.target import Target
from amk.errors import ArgumentError, EnvironmentProblem

__all__ = ["CPU_TARGET", "checked_device", "device_index", "device_target", "target_of"]

CPU_TARGET = "sm_80"  # the CPU executor runs any kernel; the oldest target asks for the least


def checked_device(device: object) -> str | int:
    """What a caller may say: "auto", "cpu", "cuda", or a GPU's index, which "cuda:N" becomes. ArgumentError for others.

    Nothing is asked of the machine.
    """
    if isinstance(device, str):
        word, colon, number = device.partition(":")
        if device in ("auto", "cpu", "cuda"):
            return device
        if word == "cuda" and colon and number.isascii() and number.isdigit() and len(number) < 10:
            return int(number)
    elif isinstance(device, SupportsIndex) and not isinstance(device, bool):
        with contextlib.suppress(TypeError):  # an array
            found = index(device)
            if found >= 0:
                return found
    raise ArgumentError(f"unknown device {device!r:.60}", hint="'auto', 'cpu', 'cuda', 'cuda:N' or the index of a GPU")


def device_index(device: object) -> int | None:
    """The GPU to use, or None for the CPU executor.

    Raises:  ArgumentError as `checked_device` does; EnvironmentProblem for a GPU that is not there
    """
    wanted = checked_device(device)
    if os.environ.get("AMK_BACKEND", "").lower() == "cpu" or wanted == "cpu":
        return None
    from amk.runtime import device as devices

    status = devices.probe()
    if not status.available:
        if wanted == "auto":
            return None
        raise EnvironmentProblem(f"no CUDA device: {status.reason}", hint="use device='cpu', or see `amk doctor`")
    return devices.device(wanted).index if isinstance(wanted, int) else devices.current_device()


@lru_cache(maxsize=64)
def device_target(gpu: int) -> Target:
    """The target of a GPU of this machine."""
    return Target.detect(gpu)


def target_of(gpu: int | None) -> Target:
    """The target of a GPU, or of the CPU executor (None)."""
    return Target.find(CPU_TARGET) if gpu is None else device_target(gpu)
