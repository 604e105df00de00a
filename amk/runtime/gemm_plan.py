"""The steady state of a GEMM call: everything that only shapes, strides and devices decide, worked out once.

A plan is found by a tuple comparison; what is left of a call is the check that C overlaps nothing, packing, and the
launch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from amk.runtime.arrays import ArrayView
from amk.runtime.device import ensure_context
from amk.runtime.extents import extent
from amk.runtime.launch import Loaded, Packer, launch_stream, load, release

if TYPE_CHECKING:
    from amk.runtime.gemm_call import GemmCall

__all__ = ["Plan", "plan_key", "plan_of"]

ALIGN = 15  # pointers are told apart by their last four bits: no kernel asks for more than 16 bytes


def plan_key(a: ArrayView, b: ArrayView, c: ArrayView, beta: float) -> tuple[Any, ...]:
    """All that decides which kernel runs and how its arguments are filled."""
    return (
        a.shape, a.strides, a.device, a.pointer & ALIGN, b.shape, b.strides, b.device, b.pointer & ALIGN,
        c.shape, c.strides, c.device, c.pointer & ALIGN, beta != 0.0, a.dtype, b.dtype, c.dtype, c.readonly,
    )  # fmt: skip


@dataclass(slots=True)
class Plan:
    """One prepared launch. `slots` are the positions of the first, second and third pointer, alpha and beta."""

    call: GemmCall
    loaded: Loaded
    packer: Packer
    values: tuple[Any, ...]
    slots: tuple[int, int, int, int, int]
    swap: bool
    grid: tuple[int, int, int]
    ranges: tuple[tuple[int, int], ...]

    def disjoint(self, a: ArrayView, b: ArrayView, c: ArrayView) -> bool:
        """C's bytes lie outside the ranges of A and of B (else the slow path looks closer)."""
        (a0, a1), (b0, b1), (c0, c1) = self.ranges
        low, high = c.pointer + c0, c.pointer + c1
        return (high <= a.pointer + a0 or a.pointer + a1 <= low) and (high <= b.pointer + b0 or b.pointer + b1 <= low)

    def launch(self, a: ArrayView, b: ArrayView, c: ArrayView, alpha: float, beta: float, stream: object) -> None:
        """Packs and launches on the caller's stream."""
        values = list(self.values)
        first, second, third, at_alpha, at_beta = self.slots
        values[first], values[second] = (b.pointer, a.pointer) if self.swap else (a.pointer, b.pointer)
        values[third], values[at_alpha] = c.pointer, alpha
        if at_beta >= 0:
            values[at_beta] = beta
        arrays = (a, b, c)
        with ensure_context(self.loaded.device):
            chosen = launch_stream(arrays, stream)
            self.loaded.launch(self.grid, self.call.kernel.threads, self.packer.pack(values), chosen)
            release(arrays, chosen, stream)


def plan_of(call: GemmCall, scalars: dict[str, Any], swap: bool, a: ArrayView, b: ArrayView, c: ArrayView) -> Plan:
    """The plan of a call that has just run."""
    assert call.device is not None
    names = [p.name for p in call.kernel.params]
    slots = tuple(names.index(n) if n in names else -1 for n in ("A", "B", "C", "alpha", "beta"))
    with ensure_context(call.device):
        loaded = load(call.binary.cubin, call.kernel.name, call.device, call.binary.shared_bytes)
    ranges = tuple((lo - v.pointer, hi - v.pointer) for v in (a, b, c) for lo, hi in (extent(v),))
    values = tuple(scalars.get(n, 0) for n in names)
    return Plan(call, loaded, call.packer, values, slots, swap, call.grid(scalars), ranges)  # type: ignore[arg-type]
