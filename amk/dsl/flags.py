"""Which statements speak to other blocks through flags, and what their operands have to be.

A flag is an element of a workspace tensor of 32-bit integers, zero at the start of a launch. It is read with acquire,
written with release, or counted with an ordered atomic.
"""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.expr import Elem
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.nodes import Atomic, Load, Param, Statement, Store

__all__ = ["communicates", "flag_faults", "flag_of", "flags"]


def flag_of(kernel: KernelDescriptor, s: Statement) -> Elem | None:
    """The flag that a statement reads, sets, counts or waits for; None for one that does nothing of the kind."""
    if s.kind == "wait":
        return s.flag
    if s.kind == "load":
        return s.src if s.order != "weak" else None
    if s.kind == "store":
        return s.dst if s.order != "weak" else None
    if s.kind == "atomic" and kernel.space(s.dst) == "global":
        return s.dst if s.order != "relaxed" or s.old is not None else None
    return None


def flags(kernel: KernelDescriptor) -> frozenset[str]:
    """The tensors that are used as flags."""
    found = (flag_of(kernel, s) for _, s in walk(kernel.body))
    return frozenset(kernel.resolve(ref).buffer for ref in found if ref is not None)


def communicates(kernel: KernelDescriptor) -> bool:
    """Whether blocks tell each other anything, or say that they do not."""
    narrow = any(s.kind == "atomic" and s.scope == "block" for _, s in walk(kernel.body))
    return narrow or any(p.access == "workspace" for p in kernel.tensors) or bool(flags(kernel))


def flag_faults(kernel: KernelDescriptor, s: Statement) -> Iterator[str]:
    """What is wrong with the operands of a statement that speaks to other blocks."""
    ref = flag_of(kernel, s)
    if ref is None:
        if s.kind == "atomic" and (s.order != "relaxed" or s.scope != "device") and kernel.space(s.dst) == "shared":
            yield f"an atomic of {ref or s.dst} with an order or a scope: in shared memory it is of the block, relaxed"
        return
    d = kernel.find(ref.buffer)
    if not isinstance(d, Param) or d.access != "workspace":
        yield f"{ref} is used as a flag, and {ref.buffer} is no workspace tensor"
    elif d.dtype not in ("i32", "u32"):
        yield f"{ref} is used as a flag, and {d.name} is {d.dtype}; a flag is i32 or u32"
    if isinstance(s, Load) and (s.width > 1 or s.peer is not None or s.when is not None):
        yield "a flag is loaded alone: without width, when and peer"
    if isinstance(s, Store) and (len(s.values) > 1 or s.peer is not None):
        yield "a flag is stored alone: one value, and without peer"
    if isinstance(s, Atomic) and s.op != "add":
        yield f"a flag is counted by adding, and this is an atomic {s.op}"
