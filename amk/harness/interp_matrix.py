"""ldmatrix, stmatrix, mma.sync and wgmma of a strand: the elements and registers they take; fragments say the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from amk.dsl.expr import Const, Elem
from amk.dsl.instructions import ROWS
from amk.dsl.instructions.fragments import decode, wgmma_a
from amk.dsl.layout import Swizzle
from amk.dsl.nodes import Buffer, Call
from amk.dsl.types import nbytes
from amk.errors import Refused
from amk.harness.interp_boxes import tile_of
from amk.harness.interp_expr import ndim
from amk.harness.interp_files import OPERAND
from amk.harness.interp_flight import Work

if TYPE_CHECKING:
    from amk.harness.interp_strand import Strand

__all__ = ["Matrix"]

_TRUE = Const(True)


class Matrix:
    """The matrix rows."""

    def __init__(self, strand: Strand) -> None:
        self.m = strand

    # -- registers --------------------------------------------------------------------------------------------------
    def _file(self, ref: Elem, count: int) -> tuple[str, tuple[Any, ...]]:
        """Name, and index of `count` neighbouring registers of the whole block."""
        name, index = self.m.operand(ref)
        if any(ndim(i) for i in index):
            raise Refused(f"{ref}: registers of an instruction need one index for all lanes")
        first = tuple(int(i) for i in index)
        shape = self.m.registers.arrays[name].shape
        if any(not 0 <= i < n for i, n in zip(first, shape, strict=False)) or first[-1] + count > shape[-3]:
            self.m.wrong("bounds", f"{count} registers from {name}{list(first)} on leave the array")
            raise Refused(f"{ref} leaves its array")
        return name, (*first[:-1], slice(first[-1], first[-1] + count), 0)

    def _warps(self, ref: Elem, count: int) -> Any:
        """`count` registers of the active warps, [count, warps, 32]."""
        name, key = self._file(ref, count)
        if self.m.detect:
            self._touch(name, key)
            valid = self.m.registers.valid[name][key][..., self.m.threads()]
            if not valid.all():
                self.m.wrong("uninitialised", f"{ref} is read before it is written")
        return self.m.registers.arrays[name][key][..., self.m.threads()].reshape(count, -1, 32)

    def _touch(self, name: str, key: tuple[Any, ...]) -> None:
        if self.m.cluster.clocks is not None:
            self.m.cluster.clocks.files.touch(self.m, name, key[:-1])

    def _set(self, ref: Elem, values: Any) -> None:
        name, key = self._file(ref, len(values))
        self._touch(name, key)
        threads = self.m.threads()
        self.m.registers.arrays[name][key][..., threads] = values.reshape(len(values), -1)  # key gives a view
        if self.m.detect:
            self.m.registers.valid[name][key][..., threads] = True

    # -- warp matrices ----------------------------------------------------------------------------------------------
    def _rows(self, ref: Elem, n: int) -> tuple[Any, int]:
        """The rows of 16 bytes whose addresses the first 8 n lanes of each warp give."""
        m = self.m
        m.order._whole(32, "instruction")
        lanes = m.lanes(m.mask)
        size = 16 // nbytes(m.declared(ref.buffer).dtype)
        return m.memory.place(ref, lanes.only(lanes.t % 32 < 8 * n), size), size

    def load(self, s: Call) -> None:
        """ldmatrix: registers := matrices."""
        row = ROWS[s.row]
        n = row.operand("dst").nbytes // 4
        place, _ = self._rows(s.refs["src"], n)
        self.m.memory.touch("read", place)
        got = np.ascontiguousarray(place.get().T).view(np.uint16)  # [warps * 8 n, 8]
        self._set(s.refs["dst"], row.numpy()(got.reshape(-1, n, 8, 8).swapaxes(0, 1)))

    def store(self, s: Call) -> None:
        """stmatrix: matrices := registers."""
        row, n, m = ROWS[s.row], len(s.args), self.m
        place, size = self._rows(s.refs["dst"], n)
        m.memory.touch("write", place)
        values = [m.each(m.value(s.args[f"v{i}"], "u32"))[m.threads()] for i in range(n)]
        matrices = row.numpy()(np.stack(values).reshape(n, -1, 32))
        rows = np.ascontiguousarray(matrices.swapaxes(0, 1)).reshape(-1, 8)  # [warps * 8 n, 8]
        place.put(rows.view(place.array.dtype).reshape(-1, size).T)

    def mma(self, s: Call) -> None:
        """mma.sync: acc += a b."""
        row = ROWS[s.row]
        self.m.order._whole(32, "instruction")
        a, b = (self._warps(s.refs[r], row.operand(r).nbytes // 4) for r in ("a", "b"))
        self._set(s.refs["acc"], row.numpy()(self._warps(s.refs["acc"], 4), a, b))

    # -- wgmma ------------------------------------------------------------------------------------------------------
    def wgmma(self, s: Call) -> None:
        """Starts one product a warpgroup; its sources are read and its sums written when a wait retires it."""
        scale = self.m.each(self.m.value(s.args.get("scale_d", _TRUE)))
        for t in range(0, self.m.nt, 128):
            self._even(s, "scale_d", scale, t)
            self._product(s, t, bool(scale[t]))

    def _even(self, s: Call, what: str, values: Any, t: int) -> None:
        """An operand of a whole warpgroup is the same in all its threads."""
        if self.m.detect and ndim(values):
            differs = np.flatnonzero(values[t : t + 128] != values[t])
            if len(differs):
                self.m.wrong("divergence", f"{s.row}: {what} differs inside a warpgroup", t + int(differs[0]))

    def _product(self, s: Call, t: int, scale: bool) -> None:
        m, row = self.m, ROWS[s.row]
        _, _, dtype, major_a, major_b = s.row.split(".")
        n = row.operand("acc").nbytes // 2
        threads = slice(t + m.low, t + m.low + 128)
        acc, a = self._owned(s.refs["acc"], n // 2, threads), None
        tiles: list[tuple[str, Any]] = []
        if major_a == "reg":
            held = self._owned(s.refs["a"], 4, threads)
        else:
            a = self._tile(s, "a", t)
            tiles.append(a)
        b = self._tile(s, "b", t)
        tiles.append(b)

        def read() -> Callable[[], None]:
            left = wgmma_a(held, dtype) if a is None else _matrix(self._get(a), dtype, major_a)
            right = _matrix(self._get(b), dtype, major_b).T
            new = row.numpy()(acc, left, np.ascontiguousarray(right), scale)
            acc[...] = new
            return lambda: None

        work, base = Work(read, m.program.pointers.get(id(s), "")), m.rank * m.cluster.warps + m.low // 32 + t // 32
        keys = [("wgmma", base + w) for w in range(4)]
        groups = [m.order.add(key, work) for key in keys]
        if m.cluster.clocks is not None:
            self._taken(s, t, scale)
            uses = [("acc", n // 2, n), *([("a", 4, OPERAND)] if major_a == "reg" else [])]
            parts = [(name, key[:-1], use) for r, count, use in uses for name, key in (self._file(s.refs[r], count),)]
            m.cluster.clocks.multiplies(m, t, tiles, list(zip(keys, groups, strict=True)), parts)

    def _taken(self, s: Call, t: int, scale: bool) -> None:
        """Registers that are read hold values; the sums do from now on."""
        row, m = ROWS[s.row], self.m
        for role, read in (("acc", scale), ("a", row.operand("a").space == "register")):
            if row.operand(role).space == "register":
                name, key = self._file(s.refs[role], row.operand(role).nbytes // 4)
                valid = m.registers.valid[name][(*key, slice(t, t + 128))]
                if read and not valid.all():
                    m.wrong("uninitialised", f"{s.refs[role]} is read before it is written", t)
                valid[...] = True

    def _owned(self, ref: Elem, count: int, threads: slice) -> Any:
        """Registers of a warpgroup as a view, [count, 128]."""
        name, key = self._file(ref, count)
        return self.m.cluster.registers[self.m.rank][name][(*key, threads)]

    def _tile(self, s: Call, role: str, t: int) -> tuple[str, Any]:
        """Name and storage indices (through the cluster) of a tile in shared memory."""
        m, ref, o = self.m, s.refs[role], ROWS[s.row].operand(role)
        name, index = m.operand(ref)
        for i in index:
            self._even(s, role, m.each(i) if ndim(i) else i, t)
        b = m.declared(name)
        assert isinstance(b, Buffer)
        start = tuple(int(i) if ndim(i) == 0 else int(m.each(i)[t]) for i in index)
        widths = (1, 2, 3) if len(o.tile) == 2 else (3,)
        if not isinstance(b.layout, Swizzle) or b.layout.bits not in widths:
            spans = " or ".join(str(16 << n) for n in widths)
            m.wrong("alignment", f"{name} is not swizzled over {spans} bytes, as {s.row} reads it", t)
            raise Refused(f"{s.row} has no descriptor for {name}")
        at = tile_of(b, start, o.tile, m.kernel.shared_offsets[name])
        if at is None:
            m.wrong("bounds", f"the tile {o.tile} from {name}{list(start)} on leaves the array", t)
            raise Refused(f"{ref} leaves its array")
        steps = zip(start[len(start) - len(o.step) :], o.step, strict=True)
        if m.detect and (any(i % n for i, n in steps) or b.align < 128 << b.layout.bits):
            m.wrong("alignment", f"the tile {o.tile} at {name}{list(start)} begins inside a group of its rows", t)
        return name, at + m.rank * m.cluster.extents[name]

    def _get(self, tile: tuple[str, Any]) -> Any:
        return self.m.cluster.shared[tile[0]].reshape(-1)[tile[1]]


def _matrix(tile: Any, dtype: str, major: str) -> Any:
    """float32 [rows of m or n, 16] of a tile: as it lies (k), or chunks of 64 along m or n."""
    wide = decode(tile, dtype)
    return wide if major == "k" else wide.transpose(0, 2, 1).reshape(-1, 16)
