"""Whose stream a launch goes to, and what it waits for: views come in, a stream handle and ordered work come out.

A stream is its raw handle (0 and 1 the legacy default stream, 2 the per-thread one). Nothing waits on the host.
Raises:  ArgumentError for something that is not a stream · LaunchError when a graph capture forbids the wait
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from amk.errors import ArgumentError, LaunchError
from amk.runtime.arrays import ArrayView
from amk.runtime.device import driver

__all__ = [
    "current_stream", "is_capturing", "launch_stream", "relaxed_capture", "release", "stream_handle", "torch_stream",
    "wait_for",
]  # fmt: skip

_RAW: dict[str, Callable[[int], int]] = {}  # framework to "current stream of a device", found once


def stream_handle(stream: object) -> int:
    """The raw handle of an int, of a torch, CuPy or cuda.core stream, or of anything with `__cuda_stream__`."""
    if isinstance(stream, int) and not isinstance(stream, bool) and stream >= 0:
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int((protocol() if callable(protocol) else protocol)[1])
    for attribute in ("cuda_stream", "ptr"):  # torch, CuPy
        handle = getattr(stream, attribute, None)
        if isinstance(handle, int):
            return handle
    raise ArgumentError(
        f"stream is not a CUDA stream: {stream!r}", hint="pass a raw handle, or a torch, CuPy or cuda.core stream"
    )


def current_stream(views: Sequence[ArrayView]) -> int:
    """The current stream of the framework that made the first GPU array: torch before CuPy, else legacy default."""
    for framework in ("torch", "cupy"):
        for view in views:
            if view.framework == framework and view.device is not None:
                return _framework_stream(framework, view.device)
    return 0


def _framework_stream(framework: str, device: int) -> int:
    raw = _RAW.get(framework)
    if raw is None:
        raw = _RAW[framework] = torch_stream() if framework == "torch" else _cupy_stream()
    return raw(device)


def torch_stream() -> Callable[[int], int]:
    """torch's query for the current stream of a device."""
    torch: Any = sys.modules["torch"]  # a torch tensor was given, so it is there
    # The raw query, used by Inductor and Triton, makes no stream object; the public one is several times slower.
    raw: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return raw or (lambda device: int(torch.cuda.current_stream(device).cuda_stream))


def _cupy_stream() -> Callable[[int], int]:
    cupy: Any = sys.modules["cupy"]

    def raw(device: int) -> int:
        with cupy.cuda.Device(device):  # CuPy keeps one current stream for each device
            return int(cupy.cuda.get_current_stream().ptr)

    return raw


def launch_stream(views: Sequence[ArrayView], stream: object = None) -> int:
    """The stream to launch on, made to wait for the streams that may still fill the arguments; nothing else waits.

    `stream` given: that one, and only array-interface and DLPack producers are waited for, as its caller orders the
    rest. None: `current_stream`, and where torch and CuPy arrays are mixed, the current streams of both are waited for.
    Needs the context of the device to be current.
    """
    chosen = current_stream(views) if stream is None else stream_handle(stream)
    for producer in _producers(views, stream):
        wait_for(producer, chosen)
    return chosen


def release(views: Sequence[ArrayView], chosen: int, stream: object = None) -> None:
    """After the launch: the producers' streams wait for it, so that memory they take back is not reused under it.

    `chosen` is what `launch_stream` gave for the same `views` and `stream`. In a capture the graph's owner sees to it.
    """
    for producer in _producers(views, stream):
        if not is_capturing(chosen):
            wait_for(chosen, producer)


def _producers(views: Sequence[ArrayView], stream: object) -> set[int]:
    """Streams with unfinished business in `views`. One framework alone is ordered by its current stream."""
    found, made = set(), set()
    for view in views:
        if view.device is None:
            continue
        if view.stream is not None:
            found.add(view.stream)
        elif view.framework in ("torch", "cupy"):
            made.add((view.framework, view.device))
    if stream is None and len(made) > 1:
        found.update(_framework_stream(framework, device) for framework, device in made)
    return found


def wait_for(producer: int, stream: int) -> None:
    """Work put on `stream` from now on starts after what `producer` holds now. LaunchError if a capture forbids it."""
    if producer == stream or (producer < 2 and stream < 2):  # 0 and 1 are both the legacy default stream
        return
    api = driver()
    if api.capture_status(stream) != "none" and api.capture_status(producer) != "active":
        raise LaunchError(
            f"stream {stream:#x} is captured into a graph, but an argument still depends on stream {producer:#x}, "
            "which is not",
            status="CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
            hint="fill the arguments before the capture begins, or on the captured stream",
        )
    event = api.create_event()
    try:
        api.record(event, producer)
        api.wait(stream, event)
    finally:
        api.destroy_event(event)


def is_capturing(stream: int) -> bool:
    """Whether work on `stream` is recorded into a graph (or broken by a failed capture) and does not run."""
    return driver().capture_status(stream) != "none"


@contextmanager
def relaxed_capture() -> Iterator[None]:
    """Lets this thread load modules and allocate inside the block although some stream is being captured.

    Such calls put nothing on the captured stream, yet the default mode forbids them, and breaks the capture.
    """
    api = driver()
    before = api.exchange_capture_mode("relaxed")
    try:
        yield
    finally:
        api.exchange_capture_mode(before)
