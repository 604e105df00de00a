"""What the launcher brings for a launch: the workspace of a kernel, and where its blocks count their start.

One allocation on the stream of the launch, zeroed before it and given back after it, in the order of the stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

from amk.dsl.evaluate import function_of
from amk.dsl.expr import Expr, names
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.types import nbytes
from amk.errors import ArgumentError
from amk.runtime.arrays import ArrayView

__all__ = ["workspace"]

ALIGN = 256  # bytes, of each tensor


@contextmanager
def workspace(
    kernel: KernelDescriptor, views: Mapping[str, ArrayView], scalars: Mapping[str, Any], device: int, stream: int
) -> Iterator[tuple[dict[str, ArrayView], Sequence[int]]]:
    """The arrays of a launch with those of the workspace that are missing, and the address of the count of blocks.

    Args:    the context of `device` is current
    Raises:  ArgumentError for a workspace with strides of its own; LaunchError: out of memory
    """
    from amk.runtime.device import driver
    from amk.runtime.launch import allocate

    missing = [p for p in kernel.tensors if p.name not in views]
    shapes = {p.name: tuple(_value(e, scalars) for e in p.shape or ()) for p in missing}
    at, places = ALIGN, {}  # the count comes first
    for p in missing:
        if p.strides is not None:
            raise ArgumentError(f"argument {p.name!r} has strides of its own", hint="pass an array for it")
        places[p.name] = at
        at += -(-prod(shapes[p.name]) * nbytes(p.dtype) // ALIGN) * ALIGN
    with allocate(at, device, stream) as memory:
        driver().fill(memory.pointer, 0, at, stream)
        out = dict(views)
        for p in missing:
            shape = shapes[p.name]
            steps = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
            out[p.name] = ArrayView(memory.pointer + places[p.name], shape, steps, p.dtype, device, memory, "cai")
        yield out, [memory.pointer] if kernel.dispatch == "in_order" else []


def _value(e: Expr, scalars: Mapping[str, Any]) -> int:
    used = tuple(sorted(names(e)))
    return int(function_of((e,), used)(*(scalars[n] for n in used))[0])
