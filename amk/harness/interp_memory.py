"""Global and shared memory of a batch of blocks: where an operand lies, whether it may be touched, and its data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from amk.dsl.expr import Elem
from amk.dsl.layout import Swizzle, extent, strides
from amk.dsl.nodes import Buffer, Param
from amk.dsl.types import DTYPES, nbytes
from amk.harness.interp_fault import Fault, FaultKind
from amk.harness.interp_registers import poison
from amk.harness.interp_shadow import Lanes, Shadow

if TYPE_CHECKING:
    from amk.harness.interp_machine import Machine

__all__ = ["GlobalMemory", "Memory", "Place"]


@dataclass
class GlobalMemory:
    """The tensors of one launch with their shadows and write counts, shared by all its blocks."""

    arrays: dict[str, Any]
    strides: dict[str, tuple[int, ...]]
    shadows: dict[str, Shadow] = field(default_factory=dict)
    counts: dict[str, Any] = field(default_factory=dict)
    traces: dict[str, Any] = field(default_factory=dict)  # as shadows, for blocks that run by strands
    hollow: bool = False  # one element stands for all, so that who touched it says nothing


@dataclass(frozen=True, slots=True)
class Place:
    """Elements of one operand, `width` a lane: an index into `array`, and element numbers for the shadow."""

    name: str
    array: Any
    key: tuple[Any, ...]
    at: Any
    width: int
    lanes: Lanes

    def get(self) -> Any:
        """The values, [width, lanes]."""
        return self.array[self.key]

    def put(self, values: Any) -> None:
        """Sets the values."""
        self.array[self.key] = values


class Memory:
    """Memory as one batch of blocks sees it."""

    def __init__(self, machine: Machine, shared: list[Buffer], tensors: GlobalMemory) -> None:
        self.m, self.tensors = machine, tensors
        self.extents = {b.name: extent(b.shape, b.layout) for b in shared}
        self.shared = {
            b.name: poison(np.zeros((machine.nb, self.extents[b.name]), DTYPES[b.dtype].numpy)) for b in shared
        }
        self.shadows = {
            b.name: Shadow(machine.nb * self.extents[b.name], initialised=False) for b in shared if machine.detect
        }

    # -- places -----------------------------------------------------------------------------------------------------
    def place(self, ref: Elem, lanes: Lanes, width: int) -> Place:
        """The elements that an operand names for some lanes, checked for bounds and alignment."""
        name, index = self.m.operand(ref)
        d = self.m.declared(name)
        shape = self.tensors.arrays[name].shape if isinstance(d, Param) else d.shape
        parts = [np.broadcast_to(self.m.flat(i, lanes), len(lanes.b)) for i in index]
        if width > 1:
            parts[-1] = parts[-1] + np.arange(width)[:, None]
        parts = list(np.broadcast_arrays(*parts))
        parts = [p.reshape(width, -1) for p in parts]
        if self.m.detect:
            self._bounds(ref, parts, shape, lanes)
        if isinstance(d, Param):
            return self._global(d, ref, tuple(parts), width, lanes)
        return self._shared(d, ref, parts, width, lanes)

    def _bounds(self, ref: Elem, parts: list[Any], shape: tuple[int, ...], lanes: Lanes) -> None:
        for d, (i, n) in enumerate(zip(parts, shape, strict=True)):
            bad = (i < 0) | (i >= n)
            if bad.any():
                lane = int(np.argmax(bad.any(axis=0)))
                value = int(i[:, lane][bad[:, lane]][0])
                said, where = f"{ref}: index {d} is {value}, outside 0..{n - 1}", {"operand": str(ref), "dimension": d}
                self.m.fail("bounds", said, lanes, lane, **where, index=value, limit=n)

    def _global(self, d: Param, ref: Elem, parts: tuple[Any, ...], width: int, lanes: Lanes) -> Place:
        array = self.tensors.arrays[d.name]
        at = None
        if (self.m.detect and not self.tensors.hollow) or d.name in self.tensors.counts:
            at = np.ravel_multi_index(parts, array.shape).reshape(-1) if parts[0].size else np.zeros(0, np.int64)
        if self.m.detect and (width > 1 or d.offsets == "i32"):
            step = self.tensors.strides[d.name]
            offset = sum(p * s for p, s in zip(parts, step, strict=True))
            if d.offsets == "i32":
                self._narrow(ref, offset, lanes)
            if width > 1:
                size = width * nbytes(d.dtype)
                self._aligned(ref, offset[0] * nbytes(d.dtype), size, d.align, step[-1] == 1, lanes)
        return Place(d.name, array, parts, at, width, lanes)

    def _narrow(self, ref: Elem, offset: Any, lanes: Lanes) -> None:
        """Offsets of a tensor that says that 32 bits suffice."""
        bad = (offset > 2**31 - 1).any(axis=0)
        if bad.any():
            lane = int(np.argmax(bad))
            far = int(offset[:, lane].max())
            self.m.fail("overflow", f"the offset {far} of {ref} leaves 32 bits", lanes, lane, offset=far)

    def _shared(self, b: Buffer, ref: Elem, parts: list[Any], width: int, lanes: Lanes) -> Place:
        offset = shared_offset(b, parts)
        if self.m.detect and width > 1:
            run = bool((offset == offset[0] + np.arange(width)[:, None]).all())
            base = self.m.kernel.shared_offsets[b.name]
            self._aligned(ref, base + offset[0] * nbytes(b.dtype), width * nbytes(b.dtype), b.align, run, lanes)
        at = offset + lanes.b * self.extents[b.name]
        return Place(b.name, self.shared[b.name].reshape(-1), (at,), at.reshape(-1), width, lanes)

    def _aligned(self, ref: Elem, byte: Any, size: int, base: int, contiguous: bool, lanes: Lanes) -> None:
        bad = np.broadcast_to(np.asarray(byte) % size != 0, len(lanes.b)) | (base < size) | (not contiguous)
        if bad.any():
            lane = int(np.argmax(bad))
            self.m.fail("alignment", f"{ref} is not {size} contiguous bytes aligned to {size}", lanes, lane)

    # -- accesses ---------------------------------------------------------------------------------------------------
    def touch(self, mode: str, p: Place) -> None:
        """Shadow checks of one access (mode: read, write, atomic or issue)."""
        if not self.m.detect or (self.tensors.hollow and p.name in self.tensors.arrays):
            return
        shadow = self.shadow(p.name)
        lanes = p.lanes.repeat(p.width)
        if mode in ("read", "atomic"):
            bad = ~shadow.valid[p.at] & (shadow.pending[p.at] < 0)
            if bad.any():
                self._fail("uninitialised", "is read before it is written", p, lanes, bad)
        found = shadow.issue(p.at, lanes) if mode == "issue" else shadow.access(mode, p.at, lanes)
        if found is not None:
            kind, bad = found
            text = "is touched before its copy is visible" if kind == "async" else "is touched by two threads unordered"
            self._fail(kind, text, p, lanes, bad)

    def shadow(self, name: str) -> Shadow:
        """The shadow of a tensor or shared buffer."""
        found = self.shadows.get(name) or self.tensors.shadows.get(name)
        if found is None:
            found = self.tensors.shadows[name] = Shadow(self.tensors.arrays[name].size, initialised=True)
        return found

    def _fail(self, kind: str, text: str, p: Place, lanes: Lanes, bad: Any) -> None:
        lane = int(np.argmax(bad))
        element = int(p.at[lane])
        if p.name in self.extents:
            element %= self.extents[p.name]
        values: dict[str, object] = {"element": element}
        shadow = self.shadow(p.name)
        for mode, record in (("writer", shadow.write), ("reader", shadow.read)):
            gid = int(record.gid[p.at[lane]])
            if gid >= 0:
                values |= {f"{mode}_block": gid // self.m.nt, f"{mode}_thread": gid % self.m.nt}
        self.m.fail(kind, f"{p.name}, element {element}, {text}", lanes, lane, **values)

    def store(self, ref: Elem, values: list[Any], lanes: Lanes) -> None:
        """Memory := values, one an element."""
        p = self.place(ref, lanes, len(values))
        self.touch("write", p)
        if p.name in self.tensors.counts:
            np.add.at(self.tensors.counts[p.name], p.at, 1)
        p.put(np.stack([np.broadcast_to(self.m.flat(v, lanes), len(lanes.b)) for v in values]))

    def load(self, ref: Elem, width: int, lanes: Lanes) -> Any:
        """The values, [width, lanes]."""
        p = self.place(ref, lanes, width)
        self.touch("read", p)
        return p.get()

    def load_dense(self, ref: Elem, width: int) -> Any:
        """The values for all lanes at once, [width, unrolled axes…, blocks, threads], unchecked."""
        name, index = self.m.operand(ref)
        deep = max(2, *(np.ndim(i) for i in index))
        index = (*index[:-1], index[-1] + np.arange(width).reshape(width, *[1] * deep))
        d = self.m.declared(name)
        if isinstance(d, Param):
            return self.tensors.arrays[name][index]
        return _gather(self.shared[name], np.asarray(shared_offset(d, index)), self.m.rows)

    def atomic(self, op: str, ref: Elem, value: Any, lanes: Lanes) -> None:
        """Memory := op(memory, value), one lane after another."""
        p = self.place(ref, lanes, 1)
        self.touch("atomic", p)
        ufunc = {"add": np.add, "min": np.minimum, "max": np.maximum}[op]
        wanted = np.broadcast_to(self.m.flat(value, lanes), len(lanes.b))[None].astype(p.array.dtype)
        with self.m.program.lock:
            ufunc.at(p.array, p.key, wanted)


def shared_offset(b: Buffer, index: Any) -> Any:
    """Element offsets of a shared buffer, its layout applied."""
    flat = sum(i * s for i, s in zip(index, strides(b.shape, b.layout), strict=True))
    if not isinstance(b.layout, Swizzle):
        return flat
    key = (flat >> (b.layout.base + b.layout.shift)) & ((1 << b.layout.bits) - 1)
    return flat ^ (key << b.layout.base)


def _gather(store: Any, offset: Any, rows: Any) -> Any:
    """`store[block, offset]`, cheaper where the offsets are the same in all blocks."""
    if offset.shape[-2] > 1:
        return store[rows, offset]
    got = np.take(store, offset[..., 0, :], axis=1)
    return np.moveaxis(got, 0, -2)


def unwritten(tensors: GlobalMemory) -> None:
    """Raises the fault of the first output element that was not written exactly once."""
    for name, counts in tensors.counts.items():
        wrong: tuple[tuple[FaultKind, Any], ...] = (("unwritten", counts == 0), ("double-write", counts > 1))
        for kind, bad in wrong:
            if bad.any():
                index = tuple(map(int, np.unravel_index(int(np.argmax(bad)), tensors.arrays[name].shape)))
                times = int(counts[np.argmax(bad)])
                raise Fault(kind, f"{name}{list(index)} is written {times} times", values={"index": index})
