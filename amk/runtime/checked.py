"""Launches of checked builds: hidden arguments go in, the record comes out, and what failed is raised as KernelFault.

A checked launch waits for the kernel: its stream is synchronised, and it cannot be captured into a graph.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from amk.dsl.kernel import KernelDescriptor, walk
from amk.errors import KernelFault, LaunchError
from amk.harness.interp_fault import Fault
from amk.runtime.arrays import ArrayView
from amk.runtime.extents import extent
from amk.synth.fault_record import RECORD_BYTES, first_fault

__all__ = ["hidden_types", "kernel_fault", "watched"]


def hidden_types(kernel: KernelDescriptor) -> list[str]:
    """Types of the parameters after the declared ones: the record, and two ends of each tensor."""
    return ["ptr", *(["i64"] * 2 * len(kernel.tensors))]


@contextmanager
def watched(kernel: KernelDescriptor, views: Mapping[str, ArrayView], device: int, stream: int) -> Iterator[list[int]]:
    """The hidden arguments of one launch on `stream`; afterwards waits for it and reads the record.

    Args:    the context of `device` is current
    Raises:  KernelFault for the first thing that failed; LaunchError in a capture
    """
    from amk.runtime.device import driver
    from amk.runtime.launch import allocate, is_capturing

    if is_capturing(stream):
        raise LaunchError(
            "a checked build reads its record after each launch, which a graph capture does not allow",
            status="CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", hint="capture the kernel without checked=True",
        )  # fmt: skip
    api, found = driver(), ctypes.create_string_buffer(RECORD_BYTES)
    with allocate(RECORD_BYTES, device, stream) as record:
        api.fill(record.pointer, 0, RECORD_BYTES, stream)
        yield [record.pointer, *(end for p in kernel.tensors for end in _ends(views[p.name]))]
        api.copy_to_host(ctypes.addressof(found), record.pointer, RECORD_BYTES, stream)
        api.sync_stream(stream)
    failed = first_fault(kernel, found.raw)
    if failed is not None:
        raise kernel_fault(kernel, *failed)


def _ends(v: ArrayView) -> tuple[int, int]:
    """The bytes of an array, counted from its first element: the first one, and the first one behind."""
    low, high = extent(v)
    return low - v.pointer, high - v.pointer


def kernel_fault(kernel: KernelDescriptor, fault: Fault, count: int = 1) -> KernelFault:
    """A fault of the device's record or of the interpreter, as the error that the caller sees."""
    at = next((s.at for pointer, s in walk(kernel.body) if pointer == fault.pointer and s.at), "")
    more = f" (the first of {count})" if count > 1 else ""
    values = {name: fault.values.get(name) for name in ("dimension", "index", "limit")}
    values["index"] = fault.values.get("value", values["index"])  # as the interpreter calls that of a register
    return KernelFault(
        f"kernel {kernel.name!r}: {fault}{f', at {at}' if at else ''}{more}", kind=fault.kind, pointer=fault.pointer,
        at=at, block=fault.block, thread=fault.threads[0] if fault.threads else None,
        operand=str(fault.values.get("operand", "")), count=count, hint=_HINTS.get(fault.kind, _HINT),
        **{name: v if isinstance(v, int) else None for name, v in values.items()},
    )  # fmt: skip


_HINT = "the outputs of this call mean nothing; `amk check` says what is proved of this kernel"
_HINTS = {"assume": "pass sizes that the kernel's facts allow: `amk check --json` lists them"}
