"""Register files as arrays [*shape, blocks, threads], and indexing that stays a view where it can.

An index is one of three kinds: the same for all lanes (a plain view), dependent on unrolled axes only (slices, or a
table lookup over leading axes), or different from lane to lane (a gather).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from amk.dsl.expr import Elem
from amk.dsl.nodes import Buffer
from amk.dsl.types import DTYPES

if TYPE_CHECKING:
    from amk.harness.interp_machine import Machine

__all__ = ["Registers", "poison"]

Key = tuple[bool, tuple[Any, ...]]


def poison(array: Any) -> Any:
    """Fills an array with NaN or, for integers, with a number that nobody means."""
    if array.dtype.kind == "f":
        array[...] = np.nan
    elif array.dtype.kind in "iu":
        array[...] = np.array(0x7FC1, np.int64).astype(array.dtype)  # NaN where the bits are bf16
    return array


class Registers:
    """All register buffers of a batch of blocks."""

    def __init__(self, machine: Machine, buffers: list[Buffer]) -> None:
        self.m = machine
        lanes = (machine.nb, machine.nt)
        self.arrays = {b.name: poison(np.zeros((*b.shape, *lanes), DTYPES[b.dtype].numpy)) for b in buffers}
        self.valid = {b.name: np.zeros((*b.shape, *lanes), np.bool_) for b in buffers} if machine.detect else {}

    def read(self, e: Elem) -> Any:
        """The element as a value: integers wide, floats as they are."""
        name, index = self.m.operand(e)
        array = self.arrays[name]
        _, key = self._key(name, index)
        if self.m.detect:
            self.m.check(~self.valid[name][key], "uninitialised", f"{e} is read before it is written")
        got = array[key]
        return got.astype(np.int64) if got.dtype.kind in "iu" and self._is_int(name) else got

    def write(self, name: str, index: tuple[Any, ...], value: Any) -> None:
        """The element := value in the active lanes."""
        lanes, key = self._key(name, index)
        self._put(self.arrays[name], lanes, key, value)
        if self.m.detect:
            self._put(self.valid[name], lanes, key, True)

    def write_run(self, name: str, index: tuple[Any, ...], values: Any) -> None:
        """Neighbouring elements := the values (first axis), in all lanes and unchecked."""
        last = index[-1]
        if all(np.ndim(i) == 0 for i in index) and values.ndim == 3:
            self.arrays[name][(*map(int, index[:-1]), slice(int(last), int(last) + len(values)))] = values
            return
        for e, value in enumerate(values):
            self.write(name, (*index[:-1], last + e), value)

    def _is_int(self, name: str) -> bool:
        dtype = self.m.declared(name).dtype
        return DTYPES[dtype].family == "int" and dtype != "u64"

    def _put(self, array: Any, lanes: bool, key: tuple[Any, ...], value: Any) -> None:
        mask = self.m.mask
        if mask is None:
            array[key] = value
        elif lanes:
            shape = np.broadcast_shapes(*(np.shape(k) for k in key), mask.shape)
            live = np.broadcast_to(mask, shape)
            array[tuple(np.broadcast_to(k, shape)[live] for k in key)] = np.broadcast_to(value, shape)[live]
        else:
            old = array[key]
            array[key] = np.where(mask, value, old)

    def _key(self, name: str, index: tuple[Any, ...]) -> Key:
        """(differs by lane, index into the array)."""
        array = self.arrays[name]
        if self.m.detect:
            self._bounds(name, index, array.shape)
        if all(np.ndim(i) == 0 for i in index):
            return False, tuple(map(int, index))
        if all(np.ndim(i) == 0 or (np.ndim(i) > 2 and i.shape[-2:] == (1, 1)) for i in index):
            return False, _sliced(index) or tuple(i if np.ndim(i) == 0 else i[..., 0, 0] for i in index)
        clipped = tuple(np.clip(i, 0, n - 1) for i, n in zip(index, array.shape, strict=False))
        return True, (*clipped, self.m.rows, self.m.cols)

    def _bounds(self, name: str, index: tuple[Any, ...], shape: tuple[int, ...]) -> None:
        for d, (i, n) in enumerate(zip(index, shape, strict=False)):
            wide = np.asarray(i)
            bad = (wide < 0) | (wide >= n)
            first = int(wide[bad].flat[0]) if np.any(bad) else 0
            said = f"register {name}: index {first} in dimension {d}, outside 0..{n - 1}"
            self.m.check(bad, "bounds", said, value=wide, operand=name, dimension=d, limit=n)


def _sliced(index: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """A basic index over unrolled axes, or None: each array varies along one axis of its own, in order, evenly."""
    out: list[Any] = []
    last: int | None = None
    for i in index:
        if np.ndim(i) == 0:
            out.append(int(i))
            continue
        wide = [d for d, n in enumerate(i.shape[:-2]) if n > 1]
        if len(wide) > 1:
            return None
        axis = i.ndim - 3 - (wide[0] if wide else 0)  # counted from the right, so that leading axes do not matter
        part = _progression(i.reshape(-1))
        if part is None or (last is not None and axis >= last):
            return None
        out.extend([None] * (0 if last is None else last - axis - 1))
        out.append(part)
        last = axis
    return (*out, *([None] * (last or 0)))


def _progression(values: Any) -> slice | None:
    """The slice that an evenly rising, non-negative list of indices is."""
    found = values.tolist()
    first, step = found[0], found[1] - found[0] if len(found) > 1 else 1
    stop = first + step * len(found)
    if first < 0 or step < 1 or found != list(range(first, stop, step)):
        return None
    return slice(first, stop, step)
