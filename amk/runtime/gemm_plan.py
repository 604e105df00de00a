"""The warm path of a GEMM call, whole: a call seen before goes from arrays to one driver call, with nothing rebuilt.

A plan holds what shapes, strides, alignment and device decide. It is made after the general path (`gemm_call`) has
checked and run such a call, so finding a plan by its key repeats all of those checks. What a key cannot hold is looked
at in each call: dtype and negative bit, the distance of C from A and B, a fork, the current context, the stream.
A call that is unusual in any way finds no plan, and the general path decides: nothing has happened until then.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from amk.errors import ArgumentError
from amk.runtime import device as devices
from amk.runtime.arrays import ArrayView
from amk.runtime.device import Runtime, ensure_context, runtime
from amk.runtime.driver import LAUNCH_CONFIG, STREAM_OFFSET
from amk.runtime.extents import extent
from amk.runtime.launch import launch_stream, release
from amk.runtime.params import as_float32
from amk.runtime.streams import stream_handle, torch_stream

if TYPE_CHECKING:
    from amk.runtime.gemm_call import GemmCall

__all__ = ["Plan", "Plans"]

ALIGN = 15  # addresses are told apart by their last four bits: no kernel asks for more than 16 bytes
KEPT = 4096  # keys that one object keeps; a program with more kinds of calls than that starts afresh
# What a call writes into its block: the stream (then no launch attributes), three addresses, alpha and beta.
_CALL = struct.Struct("<Q16x3Q2f")
_POINTERS = LAUNCH_CONFIG.size
_SCALARS = {"alpha": _POINTERS + 24, "beta": _POINTERS + 28}
_FIXED = {"i32": ctypes.c_int32, "u32": ctypes.c_uint32, "i64": ctypes.c_int64}


@dataclass(slots=True)
class Block:
    """One launch in memory: CUlaunchConfig, then the changing arguments; `params` is the void*[] of all arguments."""

    memory: ctypes.Array[ctypes.c_char]
    config: int
    params: int
    alive: tuple[Any, ...]


@dataclass(slots=True)
class Plan:
    """One prepared launch. `a_near`, `b_near`: open intervals of C's distance, in bytes, in which they may overlap."""

    call: GemmCall
    runtime: Runtime
    device: int
    context: int
    function: int
    shared: int
    grid: tuple[int, int, int]
    scalars: Mapping[str, Any]
    swap: bool
    zeroed: int
    a_near: tuple[int, int]
    b_near: tuple[int, int]
    spare: list[Block] = field(default_factory=list)

    def launch(self, a: int, b: int, c: int, alpha: float, beta: float, stream: int) -> None:
        """Puts the launch on `stream`; the context is current. A block is one call's at a time, so threads and signal
        handlers that come in between take another."""
        if self.zeroed:
            self.runtime.driver.fill(c, 0, self.zeroed, stream)
        try:
            block = self.spare.pop()
        except IndexError:
            block = self._block()
        try:
            _CALL.pack_into(block.memory, STREAM_OFFSET, stream, a, b, c, alpha, beta)
        except OverflowError as cause:
            raise ArgumentError(f"alpha = {alpha!r} or beta = {beta!r} is outside float32") from cause
        self.runtime.driver.launch_prepared(self.function, block.config, block.params)
        self.spare.append(block)  # the driver has copied everything

    def _block(self) -> Block:
        memory = ctypes.create_string_buffer(_POINTERS + _CALL.size)
        base = ctypes.addressof(memory)
        LAUNCH_CONFIG.pack_into(memory, 0, *self.grid, self.call.kernel.threads, 1, 1, self.shared, 0, 0, 0)
        first, second = (8, 0) if self.swap else (0, 8)  # a column-major C: the kernel's A is the caller's B
        at = {"A": _POINTERS + first, "B": _POINTERS + second, "C": _POINTERS + 16, **_SCALARS}
        fixed = {p.name: _FIXED[p.dtype](self.scalars[p.name]) for p in self.call.kernel.params if p.name not in at}
        addresses = [
            ctypes.addressof(fixed[p.name]) if p.name in fixed else base + at[p.name] for p in self.call.kernel.params
        ]
        table = (ctypes.c_void_p * len(addresses))(*addresses)
        return Block(memory, base, ctypes.addressof(table), (table, fixed))


@dataclass(slots=True)
class _Torch:
    """What the warm path needs of torch, found when the first plan of tensors is made; it imports nothing itself."""

    kinds: frozenset[type] = frozenset()  # a subclass may change what its attributes mean: not for the warm path
    float32: Any = None
    stream: Callable[[int], int] = int


_TORCH = _Torch()


class Plans:
    """The plans of one `AutoMegaKernelGEMM`, and the shapes of the results that they write."""

    def __init__(self) -> None:
        self._plans: dict[Any, Plan] = {}
        self._results: dict[Any, tuple[int, ...]] = {}

    def run(self, A: Any, B: Any, C: Any, alpha: Any, beta: Any, stream: object) -> tuple[Any, Plan] | None:
        """Runs a known call on torch tensors; returns C and the plan, or None when nothing was done."""
        torch = _TORCH
        if type(A) not in torch.kinds or type(B) not in torch.kinds:
            return None
        if type(alpha) is not float:
            alpha = as_float32(alpha, "alpha")
        if type(beta) is not float:
            beta = as_float32(beta, "beta")
        try:
            shape_a, shape_b = A.shape, B.shape
            if C is None:  # with `stream` given, memory of the current stream would come too early
                result = self._results.get((shape_a, shape_b)) if beta == 0.0 and stream is None else None
                if result is None:
                    return None
                C = A.new_empty(result)
            if type(C) not in torch.kinds:
                return None
            a, b, c, place = A.data_ptr(), B.data_ptr(), C.data_ptr(), A.device
            near = (a | b | c) & ALIGN
            plan = self._plans.get(
                (shape_a, A.stride(), shape_b, B.stride(), C.shape, C.stride(), near, beta != 0.0, place)
            )
        except RuntimeError:  # a tensor without memory or without strides: the general path says which
            return None
        if (
            plan is None or not (a and b and c)  # empty, or without memory
            or plan.runtime is not devices._RUNTIME  # forked, or another driver
            or B.device != place or C.device != place
            or A.dtype is not torch.float32 or B.dtype is not torch.float32 or C.dtype is not torch.float32
            or A.is_neg() or B.is_neg() or C.is_neg()  # memory holds the other sign
            or plan.a_near[0] < c - a < plan.a_near[1] or plan.b_near[0] < c - b < plan.b_near[1]
        ):  # fmt: skip
            return None
        chosen = torch.stream(plan.device) if stream is None else stream_handle(stream)
        if plan.runtime.driver.current() == plan.context:
            plan.launch(a, b, c, alpha, beta, chosen)
        else:
            with ensure_context(plan.device):
                plan.launch(a, b, c, alpha, beta, chosen)
        return C, plan

    def run_views(
        self, a: ArrayView, b: ArrayView, c: ArrayView, alpha: float, beta: float, stream: object
    ) -> Plan | None:
        """The same for arrays of any framework, whose streams are waited for."""
        plan = self._plans.get(_key(a, b, c, beta, a.device))
        if (
            plan is None or plan.runtime is not runtime() or not a.device == b.device == c.device
            or not a.dtype == b.dtype == c.dtype == "f32" or c.readonly
            or plan.a_near[0] < c.pointer - a.pointer < plan.a_near[1]
            or plan.b_near[0] < c.pointer - b.pointer < plan.b_near[1]
        ):  # fmt: skip
            return None
        arrays = (a, b, c)
        with ensure_context(plan.device):
            chosen = launch_stream(arrays, stream)
            plan.launch(a.pointer, b.pointer, c.pointer, alpha, beta, chosen)
            release(arrays, chosen, stream)
        return plan

    def add(
        self, call: GemmCall, scalars: Mapping[str, Any], swap: bool, a: ArrayView, b: ArrayView, c: ArrayView,
        beta: float,
    ) -> None:  # fmt: skip
        """Makes the plan of a call that has just run without a copy."""
        plan = _plan_of(call, scalars, swap, a, b, c)
        if plan is None:
            return
        if len(self._plans) >= KEPT:
            self._plans.clear()
            self._results.clear()
        self._plans[_key(a, b, c, beta, a.device)] = plan
        if a.framework == b.framework == c.framework == "torch":
            _meet_torch()
            owner: Any = a.owner
            self._plans[_key(a, b, c, beta, owner.device)] = plan
            self._results[a.shape, b.shape] = c.shape


def _key(a: ArrayView, b: ArrayView, c: ArrayView, beta: float, place: object) -> tuple[Any, ...]:
    """As `Plans.run` spells it: torch's shapes are tuples, and its devices stand for themselves."""
    near = (a.pointer | b.pointer | c.pointer) & ALIGN
    return (a.shape, a.strides, b.shape, b.strides, c.shape, c.strides, near, beta != 0.0, place)


def _plan_of(
    call: GemmCall, scalars: Mapping[str, Any], swap: bool, a: ArrayView, b: ArrayView, c: ArrayView
) -> Plan | None:
    """None where the kernel takes what a plan does not know, or adds into a C that has gaps to leave alone."""
    assert call.device is not None
    known = {"A", "B", "C", "alpha", "beta"}
    if any(p.name not in known and (p.shape is not None or p.dtype not in _FIXED) for p in call.kernel.params):
        return None
    (a0, a1), (b0, b1), (c0, c1) = ((lo - v.pointer, hi - v.pointer) for v in (a, b, c) for lo, hi in (extent(v),))
    size = prod(c.shape) * 4
    added = any(p.access == "add" for p in call.kernel.tensors)
    if added and (c0, c1) != (0, size):
        return None
    with ensure_context(call.device) as api:
        context = api.current()
        loaded = call.load()
        function = api.function_handle(loaded.function)
    return Plan(
        call, runtime(), call.device, context, function, loaded.shared, call.grid(scalars), dict(scalars), swap,
        size if added else 0, (a0 - c1, a1 - c0), (b0 - c1, b1 - c0),
    )  # fmt: skip


def _meet_torch() -> None:
    global _TORCH
    if not _TORCH.kinds:
        torch: Any = sys.modules["torch"]  # its tensors were given
        kinds = frozenset((torch.Tensor, torch.nn.Parameter))
        _TORCH = _Torch(kinds, torch.float32, torch_stream())
