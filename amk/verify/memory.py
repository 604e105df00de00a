"""Shared memory of one block between two block barriers: who touched which cell, what is under way, what is written.

Two accesses of different threads to one cell, one of them a write, need a barrier between that both threads pass: a
block barrier, or a barrier of the warp that both belong to. An asynchronous copy writes at some moment from its issue
to the wait that retires its group, so in that time nobody may touch what it writes, its own thread included; from then
on it is a write of its own thread.
Source: PTX ISA, memory consistency model and cp.async.wait_group.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from amk.verify.lanes import ones
from amk.verify.outcome import Wrong

__all__ = ["Flight", "Layer", "Memory", "Touch"]

WARP = 0xFFFFFFFF


class Touch:
    """The cells that one operand touches, each with the mask of threads that do; equal ones are one object."""

    __slots__ = ("bits", "cells", "crowd")

    def __init__(self, cells: dict[int, int]) -> None:
        self.cells = cells
        self.bits = sum(1 << c for c in cells)
        self.crowd = next((c for c, threads in cells.items() if threads & (threads - 1)), None)


@dataclass
class Layer:
    """What was touched since the last barrier of any warp. `synced` are threads whose warp has met one since."""

    read: int = 0
    written: int = 0
    updated: int = 0
    entries: dict[tuple[str, Touch], str] = field(default_factory=dict)  # mode and cells: where
    synced: int = 0

    def add(self, mode: str, touch: Touch, at: str) -> None:
        self.entries.setdefault((mode, touch), at)
        if mode == "read":
            self.read |= touch.bits
        elif mode == "update":
            self.updated |= touch.bits
        else:
            self.written |= touch.bits

    def rivals(self, mode: str) -> int:
        """Cells at which an access of this mode has to be ordered."""
        if mode == "read":
            return self.written | self.updated
        return self.read | self.written | (0 if mode == "update" else self.updated)


@dataclass(frozen=True)
class Flight:
    """Asynchronous copies of one instruction. `age`: groups committed after its own; None while that is open."""

    touch: Touch
    sure: bool
    at: str
    age: int | None = None


class Memory:
    """The state at one point of one block. Cells are numbered; `name` says of a cell what it is."""

    def __init__(self) -> None:
        self.written = 0  # cells that are surely written
        self.own: dict[int, int] = {}  # and those that some threads surely wrote themselves, in a branch
        self.layers = [Layer()]
        self.flights: list[Flight] = []

    def copy(self) -> Memory:
        out = Memory()
        out.written, out.own, out.flights = self.written, dict(self.own), list(self.flights)
        out.layers = [Layer(x.read, x.written, x.updated, dict(x.entries), x.synced) for x in self.layers]
        return out

    def key(self) -> tuple[Any, ...]:
        """Two states with one key behave alike."""
        layers = tuple((frozenset(x.entries), x.synced) for x in self.layers if x.entries)
        flights = frozenset((f.touch, f.sure, f.age) for f in self.flights)
        return self.written, frozenset(self.own.items()), layers, flights

    # -- accesses ----------------------------------------------------------------------------------------------------
    def access(self, mode: str, touch: Touch, at: str, *, sure: bool = True) -> None:
        """One operand of all threads that reach it: read, write, update (atomic) or copy (asynchronous)."""
        if mode in ("write", "copy") and touch.crowd is not None:
            a, b, *_ = ones(touch.cells[touch.crowd])
            raise Wrong("AMK301", at, f"threads {a} and {b} both write cell {touch.crowd} of shared memory", {"t": a})
        for f in self.flights:
            if f.touch.bits & touch.bits:
                cell = next(ones(f.touch.bits & touch.bits))
                t = next(ones(touch.cells[cell]))
                raise Wrong("AMK303", at, f"the copy of {f.at} into cell {cell} has not landed", {"t": t})
        for layer in self.layers:
            if layer.rivals(mode) & touch.bits:
                self._rivals(layer, mode, touch, at)
        if mode in ("read", "update"):
            self._written(touch, at)
        if mode == "copy":
            self.flights.append(Flight(touch, sure, at))
            return
        self.layers[-1].add(mode, touch, at)
        if mode == "write":
            self._made(touch, sure)

    def _rivals(self, layer: Layer, mode: str, touch: Touch, at: str) -> None:
        for (other, old), where in layer.entries.items():
            if mode == other and mode in ("read", "update"):
                continue
            for cell in ones(old.bits & touch.bits):
                pair = _unordered(old.cells[cell], touch.cells[cell], layer.synced)
                if pair is not None:
                    rule = "AMK306" if "update" in (mode, other) else "AMK301"
                    said = f"thread {pair[0]} ({other}) and thread {pair[1]} ({mode}) meet in cell {cell}"
                    raise Wrong(rule, at, f"{said}, with no barrier between here and {where}", {"t": pair[1]})

    def _written(self, touch: Touch, at: str) -> None:
        missing = touch.bits & ~self.written
        for cell in ones(missing):
            lacking = touch.cells[cell] & ~self.own.get(cell, 0)
            if lacking:
                t = next(ones(lacking))
                raise Wrong("AMK206", at, f"thread {t} reads cell {cell}, which nothing has surely written", {"t": t})

    def _made(self, touch: Touch, sure: bool) -> None:
        if sure:
            self.written |= touch.bits
            return
        for cell, threads in touch.cells.items():
            self.own[cell] = self.own.get(cell, 0) | threads

    # -- ordering ----------------------------------------------------------------------------------------------------
    def block_barrier(self) -> None:
        """Everything before is before everything after."""
        self.layers = [Layer()]

    def warp_barrier(self, threads: int) -> None:
        """What these (whole) warps did is before what they do, each warp for itself."""
        for layer in self.layers:
            layer.synced |= threads
        self.layers.append(Layer())

    def commit(self) -> None:
        """Closes the open group."""
        self.flights = [Flight(f.touch, f.sure, f.at, 0 if f.age is None else f.age + 1) for f in self.flights]

    def wait(self, pending: int) -> None:
        """Retires all groups but the newest `pending`."""
        done = [f for f in self.flights if f.age is not None and f.age >= pending]
        self.flights = [f for f in self.flights if f not in done]
        for f in done:
            self.layers[-1].add("write", f.touch, f.at)
            if f.sure:
                self.written |= f.touch.bits

    def finish(self) -> None:
        """Nothing may be under way when the block ends."""
        for f in self.flights:
            raise Wrong("AMK308", f.at, "the block can end before this copy has landed")


def _unordered(old: int, new: int, synced: int) -> tuple[int, int] | None:
    """Two different threads, one of each mask, that no barrier of their warp has ordered."""
    for t in ones(new):
        others = old & ~(1 << t)
        if synced >> t & 1:
            others &= ~(WARP << (t & ~31))
        if others:
            return next(ones(others)), t
    return None
