"""Registers that wgmma works on: not touched while a group that has them is in flight, and fenced before it takes them.

Arrays are looked at as wholes, warp by warp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from amk.dsl.kernel import walk

if TYPE_CHECKING:
    from amk.harness.interp_clocks import Clocks
    from amk.harness.interp_strand import Strand

__all__ = ["Files"]

Key = tuple[str, int]


class Files:
    """State of the register arrays that some wgmma of the kernel names."""

    def __init__(self, clocks: Clocks) -> None:
        self.c = clocks.c
        k = self.c.kernel
        calls = [s for _, s in walk(k.body) if s.kind == "call" and s.row.startswith("wgmma.")]
        refs = [k.resolve(s.refs[r]) for s in calls for r in ("acc", "a") if r in s.refs]
        self.arrays = {e.buffer for e in refs if k.space(e) == "register"}
        self._last: dict[tuple[str, Key], int] = {}  # the last group that takes an array
        self._retired: dict[Key, int] = {}
        self._fenced: set[tuple[str, Key]] = set()

    def _keys(self, m: Strand) -> list[Key]:
        first = m.rank * self.c.warps + m.span[0]
        return [("wgmma", int(w) + first) for w in np.unique(m.threads() // 32)]

    def touch(self, m: Strand, name: str) -> None:
        """An ordinary statement reads or writes the array in the active warps."""
        for key in self._keys(m) if name in self.arrays else ():
            if self._last.get((name, key), 0) > self._retired.get(key, 0):
                m.wrong("wgmma", f"the register {name} is touched while a wgmma that has it is in flight")
            self._fenced.discard((name, key))

    def fence(self, m: Strand) -> None:
        """wgmma.fence of the active warps."""
        self._fenced |= {(name, key) for name in self.arrays for key in self._keys(m)}

    def taken(self, m: Strand, key: Key, group: int, names: tuple[str, ...]) -> None:
        """A wgmma of this group takes arrays of a warp."""
        for name in names:
            if (name, key) not in self._fenced:
                m.wrong("wgmma", f"the register {name} is given to wgmma with no fence before")
            self._last[name, key] = group

    def retired(self, key: Key, count: int) -> None:
        """The first groups of a warp are over."""
        self._retired[key] = max(self._retired.get(key, 0), count)
