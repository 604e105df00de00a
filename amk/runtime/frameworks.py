"""What amk asks of the caller's array library: an empty array, a contiguous copy, a copy back. Imports none itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from amk.errors import ArgumentError
from amk.runtime.arrays import ArrayView

__all__ = ["contiguous", "copy_into", "empty"]


@contextmanager
def _on(library: str, stream: object) -> Iterator[Any]:
    """The library module, with `stream` (a raw handle or None) as its current stream."""
    import importlib

    from amk.runtime.streams import stream_handle

    module = importlib.import_module(library)
    if stream is None or library == "numpy":
        yield module
        return
    handle = stream_handle(stream)
    scope = (
        module.cuda.stream(module.cuda.ExternalStream(handle)) if library == "torch"
        else module.cuda.ExternalStream(handle)
    )  # fmt: skip
    with scope:
        yield module


def _library(v: ArrayView) -> str:
    if v.framework in ("numpy", "torch", "cupy"):
        return v.framework
    if v.device is None:
        return "numpy"
    raise ArgumentError(
        f"an array with strides {v.strides} has to be copied, and its library is not known",
        hint="pass a contiguous array, or a torch or CuPy array",
    )


def empty(like: ArrayView, shape: tuple[int, ...], stream: object = None) -> Any:
    """An uninitialised float32 array of the library and device of `like`.

    It is memory for work on `stream`: that of the current stream may still be read by what was put there before.
    """
    if like.framework == "torch":
        with _on("torch", stream if like.device is not None else None) as torch:
            where = "cpu" if like.device is None else f"cuda:{like.device}"
            return torch.empty(shape, dtype=torch.float32, device=where)
    if like.device is None:
        import numpy as np

        return np.empty(shape, np.float32)
    try:
        import cupy
    except ImportError:
        raise ArgumentError("C has to be given for this kind of array", hint="allocate C and pass it") from None
    with _on("cupy", stream) as cupy, cupy.cuda.Device(like.device):
        return cupy.empty(shape, cupy.float32)


def contiguous(v: ArrayView, stream: object) -> Any:
    """A row-major copy, made on `stream` (None: the library's current one)."""
    library = _library(v)
    if library == "numpy":
        import numpy as np

        from amk.runtime.extents import as_numpy

        return np.array(as_numpy(v), order="C")
    with _on(library, stream) as module:
        owner: Any = v.owner
        if library == "torch":
            return owner.detach().clone(memory_format=module.contiguous_format)
        with module.cuda.Device(v.device):
            return module.array(owner, order="C", copy=True)


def copy_into(out: Any, source: Any, stream: object) -> None:
    """`out[...] = source` by their library, on `stream`."""
    if type(out).__module__.startswith("torch"):
        with _on("torch", stream) as torch, torch.no_grad():
            out.copy_(source)
    elif type(out).__module__.startswith("cupy"):
        with _on("cupy", stream):
            out[...] = source
    else:
        out[...] = source
