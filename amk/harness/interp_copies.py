"""TMA and bulk copies of a strand: boxes of tensor maps and runs of bytes, in and out of shared memory."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from amk.dsl.expr import Elem
from amk.dsl.instructions import ROWS
from amk.dsl.nodes import Buffer, Call, Param, TensorMap
from amk.dsl.types import nbytes
from amk.errors import Refused
from amk.harness.interp_boxes import clipped, fill_value, first_of, run_of
from amk.harness.interp_expr import ndim
from amk.harness.interp_flight import Flight, Work

if TYPE_CHECKING:
    from amk.harness.interp_strand import Strand

__all__ = ["Copies"]

Index = tuple[int, ...]


class _Shared:
    """A dense run of elements in the shared memory of one block, under the swizzle of a map."""

    def __init__(self, strand: Strand, ref: Elem, t: int, count: int, rank: int, *, align: int, span: int = 0) -> None:
        name, start = lane_of(strand, ref, t)
        b, base = strand.declared(name), strand.kernel.shared_offsets[name]
        assert isinstance(b, Buffer)
        first, self.name, self.size = first_of(b, start), name, nbytes(b.dtype)
        at = None if first is None else run_of(b, first, count, base, span)
        if at is None:
            strand.wrong("bounds", f"{count} elements from {name}{list(start)} on leave the array", t)
            raise Refused(f"{ref} leaves its array")
        if not 0 <= rank < strand.cluster.size:
            strand.wrong("bounds", f"the cluster has no block of rank {rank}", t)
            raise Refused(f"the cluster has no block of rank {rank}")
        if strand.detect and (b.align < align or (base + (first or 0) * self.size) % align):
            strand.wrong("alignment", f"{name}{list(start)} is not aligned to {align} bytes", t)
        self.at = at + rank * strand.cluster.extents[name]
        self.store = strand.cluster.shared[name].reshape(-1)

    def get(self) -> Any:
        return self.store[self.at]

    def put(self, values: Any) -> None:
        self.store[self.at] = np.ascontiguousarray(values).reshape(-1).view(self.store.dtype)


class _Global:
    """A box of a tensor, or a run of its elements as a box of one dimension."""

    def __init__(self, strand: Strand, p: Param, start: Index, box: Index, fill: str = "zero") -> None:
        self.p, self.tensors = p, strand.program.tensors
        self.array = self.tensors.arrays[p.name]
        self.start, self.box, self.fill = start, box, fill_value(fill, self.array.dtype, p.dtype == "bf16")
        self.key: tuple[Any, ...]
        self.part: tuple[slice, ...]
        self.key, self.part = clipped(start, box, self.array.shape)

    def get(self) -> Any:
        out = np.full(self.box, self.fill, self.array.dtype)
        out[self.part] = self.array[self.key]
        return out

    def put(self, values: Any, combine: Callable[..., Any] | None = None) -> None:
        new = np.ascontiguousarray(values).reshape(-1).view(self.array.dtype).reshape(self.box)[self.part]
        with np.errstate(over="ignore"):
            self.array[self.key] = new if combine is None else combine(self.array[self.key], new, self.p.dtype)
        if self.p.name in self.tensors.counts:
            self.tensors.counts[self.p.name].reshape(self.array.shape)[self.key] += 1

    def elements(self) -> Any:
        """Their numbers in the tensor."""
        if not all(s.stop > s.start for s in self.key):
            return np.zeros(0, np.int64)
        axes = np.ix_(*(np.arange(s.start, s.stop) for s in self.key))
        return np.ravel_multi_index(np.broadcast_arrays(*axes), self.array.shape).reshape(-1)


class _Run(_Global):
    """A run of elements that are neighbours in memory, through the tensor's last dimensions."""

    def __init__(self, strand: Strand, p: Param, start: Index, count: int, t: int) -> None:
        self.p, self.tensors = p, strand.program.tensors
        self.array = self.tensors.arrays[p.name]
        shape = self.array.shape
        fine = all(0 <= i < n for i, n in zip(start, shape, strict=True))
        first = int(np.ravel_multi_index(start, shape)) if fine else 0
        if not fine or first + count > prod(shape):
            strand.wrong("bounds", f"{count} elements from {p.name}{list(start)} on leave the tensor", t)
            raise Refused(f"a bulk copy leaves {p.name}")
        self.at = np.arange(first, first + count)
        steps = self.tensors.strides[p.name]
        place = np.zeros(count, np.int64)
        for i, n in zip(np.unravel_index(self.at, shape), steps, strict=True):
            place += i * n
        if not (place == place[0] + np.arange(count)).all():
            strand.wrong("bounds", f"{count} elements from {p.name}{list(start)} on run over gaps between its rows", t)
            raise Refused(f"a bulk copy runs over gaps in {p.name}")
        self.key, self.part, self.box = np.unravel_index(self.at, shape), (slice(None),), (count,)
        self.fill = np.zeros((), self.array.dtype)

    def elements(self) -> Any:
        return self.at


class Copies:
    """Issues copies: every active thread one."""

    def __init__(self, strand: Strand) -> None:
        self.m = strand

    def tma(self, s: Call) -> None:
        """A load, store or reduction of a box."""
        for t in map(int, self.m.threads()):
            role = "src" if "bar" in s.refs else "dst"
            name, start = lane_of(self.m, s.refs[role], t)
            m = self.m.kernel.find(name)
            assert isinstance(m, TensorMap)
            p = self.m.declared(m.tensor)
            assert isinstance(p, Param)
            if self.m.detect:
                self._begins(s, m, p, start, t)
            self._issue(s, t, _Global(self.m, p, start, m.box, m.fill), prod(m.box))

    def _begins(self, s: Call, m: TensorMap, p: Param, start: Index, t: int) -> None:
        """Boxes begin at whole 16 bytes of a row; one that is written begins inside (the device faults on others)."""
        if start[-1] * nbytes(p.dtype) % 16:
            self.m.wrong("alignment", f"{s.row}: the box {m.name}{list(start)} begins between 16 bytes", t)
        if "bar" not in s.refs and min(start) < 0:
            self.m.wrong("bounds", f"{s.row}: the box {m.name}{list(start)} begins before the tensor", t)

    def bulk(self, s: Call) -> None:
        """A load, store or reduction of a run of bytes, or a copy into another block."""
        size = self.m.each(self.m.value(s.args["bytes"]))
        for t in map(int, self.m.threads()):
            if "peer" in s.args:
                self._between(s, t, int(size[t]))
                continue
            name, start = lane_of(self.m, s.refs["src" if "bar" in s.refs else "dst"], t)
            p = self.m.declared(name)
            assert isinstance(p, Param)
            count = int(size[t]) // nbytes(p.dtype)
            self._aligned(s, p, start, t)
            shared = self.m.declared(s.refs["dst" if "bar" in s.refs else "src"].buffer)
            self._issue(s, t, _Run(self.m, p, start, count, t), int(size[t]) // nbytes(shared.dtype))

    def _aligned(self, s: Call, p: Param, start: Index, t: int) -> None:
        """The global address of a bulk copy is a multiple of 16 bytes."""
        steps = self.m.program.tensors.strides[p.name]
        byte = sum(i * n for i, n in zip(start, steps, strict=True)) * nbytes(p.dtype)
        if self.m.detect and (byte % 16 or p.align < 16):
            self.m.wrong("alignment", f"{s.row}: {p.name}{list(start)} is not aligned to 16 bytes", t)

    def _issue(self, s: Call, t: int, far: _Global, count: int) -> None:
        if "bar" in s.refs:
            for rank in self._targets(s, t):
                near = self._near(s, "dst", t, count, rank)
                self._load(s, t, rank, near, far)
        else:
            self._store(s, t, self._near(s, "src", t, count, self.m.rank), far)

    def _near(self, s: Call, role: str, t: int, count: int, rank: int) -> _Shared:
        """The shared operand. A swizzled box starts where the pattern of its swizzle does, at eight of its rows."""
        o = ROWS[s.row].operand(role)
        m = self.m.kernel.find(s.refs[o.box].buffer) if o.box else None
        span = m.swizzle if isinstance(m, TensorMap) else 0
        return _Shared(self.m, s.refs[role], t, count, rank, align=max(o.align, 8 * span), span=span)

    def _targets(self, s: Call, t: int) -> list[int]:
        if "mask" not in s.args:
            return [self.m.rank]
        mask = int(self.m.each(self.m.value(s.args["mask"]))[t])
        return [r for r in range(16) if mask >> r & 1]

    def _load(self, s: Call, t: int, rank: int, near: _Shared, far: _Global | _Shared) -> None:
        name, (index,) = lane_of(self.m, s.refs["bar"], t)
        slot = self.m.order.slot(rank, name, index)
        if not slot.ready:
            self.m.wrong("phase", f"{slot} is used before it is initialised", t)
        pointer = self.m.program.pointers.get(id(s), "")
        flight = Flight(
            slot, near.size * len(near.at), lambda: near.put(far.get()), pointer, self.m.rank, t + self.m.low
        )
        clocks = self.m.cluster.clocks
        if clocks is not None:
            clocks.loads(self.m, t, flight, near, far)
        self.m.cluster.flights.append(flight)

    def _between(self, s: Call, t: int, size: int) -> None:
        count = size // nbytes(self.m.declared(s.refs["dst"].buffer).dtype)
        peer = int(self.m.each(self.m.value(s.args["peer"]))[t])
        near = _Shared(self.m, s.refs["dst"], t, count, peer, align=16)
        source = size // nbytes(self.m.declared(s.refs["src"].buffer).dtype)
        self._load(s, t, peer, near, _Shared(self.m, s.refs["src"], t, source, self.m.rank, align=16))

    def _store(self, s: Call, t: int, near: _Shared, far: _Global) -> None:
        combine = ROWS[s.row].numpy() if ".reduce." in s.row else None

        def read() -> Callable[[], None]:
            values = near.get()
            return lambda: far.put(values, combine)

        key = ("bulk", t + self.m.base)
        group = self.m.order.add(key, Work(read, self.m.program.pointers.get(id(s), "")))
        clocks = self.m.cluster.clocks
        if clocks is not None:
            clocks.stores(self.m, t, key, group, near, far, combine is not None)


def lane_of(strand: Strand, ref: Elem, t: int) -> tuple[str, Index]:
    """Name and index tuple of an operand of one thread."""
    name, index = strand.operand(ref)
    return name, tuple(int(i) if ndim(i) == 0 else int(strand.each(i)[t]) for i in index)
