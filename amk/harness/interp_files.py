"""Registers that wgmma works on: not touched while a group that has them is in flight, and fenced before it takes them.

Each register of each warp is looked at by itself: one half of an array may be read while the other is in flight.
Source: PTX ISA, wgmma.fence: needed between an access of a register by a thread and a wgmma that has it, and between
wgmmas that share one unless both add to it as accumulators of one shape.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from amk.dsl.kernel import walk
from amk.dsl.nodes import Buffer

if TYPE_CHECKING:
    from amk.harness.interp_clocks import Clocks
    from amk.harness.interp_strand import Strand

__all__ = ["OPERAND", "Files"]

Key = tuple[str, int]
TOUCHED, FENCED = -1, 0  # since the last fence: by a thread, by nobody; any other number is the use by a wgmma
OPERAND = 1 << 10  # the use as first operand; as accumulators, it is the number of columns


class Files:
    """State of the register arrays that some wgmma of the kernel names: [register…, warp of the cluster]."""

    def __init__(self, clocks: Clocks) -> None:
        self.c = clocks.c
        k, warps = self.c.kernel, self.c.warps * self.c.size
        calls = [s for _, s in walk(k.body) if s.kind == "call" and s.row.startswith("wgmma.")]
        refs = [k.resolve(s.refs[r]) for s in calls for r in ("acc", "a") if r in s.refs]
        names = {e.buffer for e in refs if k.space(e) == "register"}
        shapes = {n: (*b.shape, warps) for n in names if isinstance(b := k.declarations[n], Buffer)}
        self._use = {n: np.full(shape, TOUCHED) for n, shape in shapes.items()}
        self._last = {n: np.zeros(shape, np.int64) for n, shape in shapes.items()}  # the last group that takes it
        self._retired = np.zeros(warps, np.int64)

    def _warps(self, m: Strand) -> Any:
        """The active warps, numbered in the cluster."""
        first = m.rank * self.c.warps + m.span[0]
        return first + (np.arange(m.warps) if m.mask is None else np.unique(m.threads() // 32))

    def touch(self, m: Strand, name: str, index: tuple[Any, ...]) -> None:
        """An ordinary statement reads or writes registers of the array in the active warps."""
        if name not in self._use:
            return
        warps = self._warps(m)
        at = (*(_column(m, i) for i in _broadcast(index)), warps)
        flying = self._last[name][at] > self._retired[warps]
        if flying.any():
            m.wrong("wgmma", f"the register {name} is touched while a wgmma that has it is in flight")
        self._use[name][at] = TOUCHED

    def fence(self, m: Strand) -> None:
        """wgmma.fence of the active warps."""
        warps = self._warps(m)
        for use in self._use.values():
            use[..., warps] = FENCED

    def taken(self, m: Strand, key: Key, group: int, parts: Iterable[tuple[str, tuple[Any, ...], int]]) -> None:
        """A wgmma of this group takes registers of a warp: (array, index, use) each."""
        for name, index, use in parts:
            at = (*index, key[1])
            before = self._use[name][at]
            if (before == TOUCHED).any():
                m.wrong("wgmma", f"the register {name} is given to wgmma with no fence before")
            if ((before != FENCED) & (before != use)).any():
                m.wrong("wgmma", f"the register {name} goes from one use by wgmma to another with no fence between")
            self._use[name][at], self._last[name][at] = use, group

    def retired(self, key: Key, count: int) -> None:
        """The first groups of a warp are over."""
        self._retired[key[1]] = max(int(self._retired[key[1]]), count)


def _broadcast(index: tuple[Any, ...]) -> tuple[Any, ...]:
    """An index of whole numbers and slices as it is; one that differs by lane or iteration, in one shape."""
    if any(isinstance(i, slice) for i in index) or not any(map(np.ndim, index)):
        return index
    return tuple(np.broadcast_arrays(*index))


def _column(m: Strand, i: Any) -> Any:
    """One dimension of an index, for the active lanes, to be broadcast against warps."""
    if isinstance(i, slice):
        return np.arange(i.start, i.stop)[:, None]
    if np.ndim(i) == 0:
        return i
    lanes = i[..., m.threads()] if i.shape[-1] == m.nt and m.nt > 1 else i
    return lanes.reshape(-1, 1)
