"""Cells of operands that are tiles or dense runs: of TMA and bulk copies, and of wgmma.

In: a statement, its operand, the active threads. Out: a Region. What a tile's layout makes of it is computed once for
each place of the tile in its period and shifted from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

from amk.dsl.evaluate import function_of
from amk.dsl.expr import Var
from amk.dsl.layout import Swizzle, extent, offset, strides
from amk.dsl.nodes import Buffer, Statement
from amk.dsl.types import nbytes
from amk.harness.events import Env, Operand, Program, Unsupported
from amk.harness.faults import Fault
from amk.harness.footprint import Region
from amk.harness.masks import Column, bits
from amk.harness.wording import point

__all__ = ["Misplaced", "Regions"]

_EVEN = "let it depend on the warpgroup (t // 128) and not on the thread or on data"


class Misplaced(Exception):
    """An operand that lies outside its buffer, or where its instruction cannot take it."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class Regions:
    """The tiles and runs of a program, each remembered."""

    def __init__(self, program: Program) -> None:
        self.p = program
        self._places: dict[int, tuple[Buffer, Column]] = {}
        self._regions: dict[tuple[Any, ...], Region] = {}
        self._cells: dict[tuple[Any, ...], int] = {}

    def region(self, s: Statement, o: Operand, active: int, env: Env) -> Region:
        """The cells of an operand, for each class of active threads that has the same indices."""
        if o.anywhere:
            return self._whole(o, active)
        place = self._places.get(id(o))
        if place is None:
            place = self._places[id(o)] = self._place(s, o)
        b, column = place
        values = tuple(self.p.value(k, env) for k in column.keys)
        key = (id(o), active, values)
        found = self._regions.get(key)
        if found is None:
            held = []
            for index, (_, threads) in zip(column.at(values), column.classes, strict=True):
                if threads & active:
                    self._inside(s, o, b, index, env | {"t": next(bits(threads & active))})
                    cells = self._tile(b, index, o.tile) if o.tile else self._run(s, o, b, index)
                    held.append((cells, threads & active))
            self._one(s, o, held if o.tile else [], env)
            found = self._regions[key] = Region(held)
        return found

    def _whole(self, o: Operand, active: int) -> Region:
        """Every cell of an array, for all threads: any of them may touch any of its elements."""
        b = self.p.kernel.find(o.ref.buffer)
        assert isinstance(b, Buffer)
        key = (id(o), active)
        found = self._regions.get(key)
        if found is None:
            at, size = self.p.kernel.shared_offsets[b.name], nbytes(b.dtype)
            steps = zip(b.shape, strides(b.shape, b.layout), strict=True)
            flat: Iterable[int] = map(sum, product(*(range(0, n * step, step) for n, step in steps)))
            if isinstance(b.layout, Swizzle):  # permutes what lies inside its rows
                flat = range(extent(b.shape, b.layout))
            cells = {(at + size * i) // self.p.cell for i in flat}
            found = self._regions[key] = Region([(sum(1 << c for c in cells), active)])
        return found

    def _place(self, s: Statement, o: Operand) -> tuple[Buffer, Column]:
        ref = self.p.kernel.resolve(o.ref)
        b = self.p.kernel.declarations[ref.buffer]
        assert isinstance(b, Buffer)
        for e in ref.index:
            if why := self.p.data(e):
                raise Unsupported(f"{o.ref}: a shared address that depends on {why}", self.p.pointers[id(s)])
        if len(ref.index) != len(b.shape) or len(o.tile) > len(b.shape):
            raise Unsupported(f"{o.ref} has {len(ref.index)} indices for {len(b.shape)} dimensions")
        return b, Column(tuple(map(self.p.inline, ref.index)), self.p.threads)

    def _inside(self, s: Statement, o: Operand, b: Buffer, index: tuple[int, ...], env: Env) -> None:
        lead = len(b.shape) - len(o.tile)
        extents = (1,) * lead + o.tile
        if any(i < 0 or i + n > top for i, n, top in zip(index, extents, b.shape, strict=True)):
            size = f"a tile of {o.tile}" if o.tile else f"a run of {o.dense} bytes"
            message = f"{o.ref}, {size}, starts at {index} in '{b.name}' of shape {b.shape}, for thread {env['t']}"
            self._refuse("AMK202", s, message, env, "check the indices against the declared shape")
        for i, n in zip(index[lead:], o.step, strict=False):
            if i % n:
                message = f"{o.ref} starts at {index}: the instruction takes tiles at multiples of {o.step}"
                self._refuse("AMK205", s, message, env, "move the tile, or the buffer's origin")

    def _one(self, s: Statement, o: Operand, held: list[tuple[int, int]], env: Env) -> None:
        """A tile is the same for all threads of a warpgroup, which issue one instruction."""
        for _, threads in held:
            for w in range(0, self.p.threads, 128):
                here = threads >> w & (1 << 128) - 1
                if here not in (0, (1 << 128) - 1):
                    message = f"{o.ref} names different tiles in one warpgroup, and one instruction takes one"
                    self._refuse("AMK317", s, message, env | {"t": w + next(bits(here))}, _EVEN)

    def _refuse(self, code: str, s: Statement, message: str, env: Env, hint: str) -> None:
        raise Misplaced(Fault(code, self.p.pointers[id(s)], message, point(env), (), hint))

    # -- cells ------------------------------------------------------------------------------------------------------
    def _run(self, s: Statement, o: Operand, b: Buffer, index: tuple[int, ...]) -> int:
        """A dense run of bytes; a swizzle permutes what lies in rows that the run has whole."""
        size = nbytes(b.dtype)
        flat = sum(i * n for i, n in zip(index, strides(b.shape, b.layout), strict=True))
        at = self.p.kernel.shared_offsets[b.name] + size * flat
        end = self.p.kernel.shared_offsets[b.name] + size * extent(b.shape, b.layout)
        env: Env = {"t": 0}
        if at % o.align:
            message = f"{o.ref} starts at byte {at} of shared memory; {o.align} must divide it"
            self._refuse("AMK205", s, message, env, "declare the buffer with a larger alignment, or move the start")
        if at + o.dense > end:
            message = f"{o.ref} and the next {o.dense} bytes leave '{b.name}' of shape {b.shape}, at {index}"
            self._refuse("AMK202", s, message, env, "check the box against the declared shape")
        if isinstance(b.layout, Swizzle):
            row = size << (b.layout.base + b.layout.bits)
            if at % row or o.dense % row:
                raise Unsupported(f"{o.ref} moves parts of swizzled rows of {row} bytes", self.p.pointers[id(s)])
        cell = self.p.cell
        return ((1 << o.dense // cell) - 1) << at // cell

    def _tile(self, b: Buffer, index: tuple[int, ...], tile: tuple[int, ...]) -> int:
        """A tile in the last dimensions."""
        lead = len(b.shape) - len(tile)
        pitch = [n * nbytes(b.dtype) for n in strides(b.shape, b.layout)]
        before = sum(i * n for i, n in zip(index[:lead], pitch, strict=False))
        period = 1
        if isinstance(b.layout, Swizzle):
            period = nbytes(b.dtype) << (b.layout.base + b.layout.shift + b.layout.bits)
        if before % period or before % self.p.cell:
            return self._enumerated(b, index[:lead], index[lead:], tile)
        zero = (0,) * lead
        return self._enumerated(b, zero, index[lead:], tile) << before // self.p.cell

    def _enumerated(self, b: Buffer, lead: tuple[int, ...], at: tuple[int, ...], tile: tuple[int, ...]) -> int:
        key = (b.name, lead, at, tile)
        found = self._cells.get(key)
        if found is not None:
            return found
        found, size, cell = 0, nbytes(b.dtype), self.p.cell
        together = (1 << b.layout.base) if isinstance(b.layout, Swizzle) else tile[-1]
        if at[-1] % together or tile[-1] % together:
            together = 1
        base = self.p.kernel.shared_offsets[b.name]
        names = tuple(f"i{i}" for i in range(len(b.shape)))
        place = function_of((offset(b.shape, b.layout, tuple(map(Var, names))),), names)
        for outer in product(*(range(i, i + n) for i, n in zip(at[:-1], tile[:-1], strict=True))):
            for last in range(at[-1], at[-1] + tile[-1], together):
                byte = base + size * place(*lead, *outer, last)[0]
                found |= ((1 << -(-together * size // cell)) - 1) << byte // cell
        self._cells[key] = found
        return found
