"""The cells of shared memory that an operand touches, by which threads."""

from __future__ import annotations

from math import gcd
from typing import Any

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Swizzle
from amk.dsl.nodes import Buffer
from amk.dsl.types import nbytes
from amk.verify.address import first_bytes, strides_in
from amk.verify.lanes import ones
from amk.verify.memory import Touch
from amk.verify.outcome import Wrong

__all__ = ["Cells"]


class Cells:
    """The shared segment of a block, in cells of as many bytes as divide every element's place and size."""

    def __init__(self, kernel: KernelDescriptor) -> None:
        self.buffers = {b.name: b for b in kernel.buffers if b.space == "shared"}
        self.first = first_bytes(kernel)
        self.size = gcd(*(x for b in self.buffers.values() for x in (self.first[b.name], nbytes(b.dtype)))) or 1
        self._strides = {n: strides_in(b) for n, b in self.buffers.items()}
        self._touches: dict[tuple[Any, ...], Touch] = {}
        self._same: dict[frozenset[tuple[int, int]], Touch] = {}

    def touch(self, buffer: str, index: tuple[Any, ...], width: int, mask: int, what: str, at: str) -> Touch:
        """What the threads of a mask touch at an index, whose parts are numbers or one number a thread.

        Raises:  Wrong for an index outside the buffer
        """
        key = (buffer, index, width, mask)
        found = self._touches.get(key)
        if found is None:
            cells = self._cells(self.buffers[buffer], index, width, mask, what, at)
            found = self._touches[key] = self._same.setdefault(frozenset(cells.items()), Touch(cells))
        return found

    def _cells(self, b: Buffer, index: tuple[Any, ...], width: int, mask: int, what: str, at: str) -> dict[int, int]:
        tops = (*b.shape[:-1], b.shape[-1] - width + 1)
        cells: dict[int, int] = {}
        for t in ones(mask):
            mine = [i[t] if isinstance(i, tuple) else i for i in index]
            if not all(0 <= i < n for i, n in zip(mine, tops, strict=True)):
                raise Wrong("AMK202", at, f"{what} of thread {t} has the index {tuple(mine)} in {b.shape}", {"t": t})
            for k in range(width):
                for c in self._element(b, [*mine[:-1], mine[-1] + k]):
                    cells[c] = cells.get(c, 0) | 1 << t
        return cells

    def _element(self, b: Buffer, index: list[int]) -> range:
        flat = sum(i * s for i, s in zip(index, self._strides[b.name], strict=True))
        if isinstance(b.layout, Swizzle):
            flat ^= (flat >> b.layout.base + b.layout.shift & (1 << b.layout.bits) - 1) << b.layout.base
        size = nbytes(b.dtype)
        first = self.first[b.name] + flat * size
        return range(first // self.size, (first + size) // self.size)
