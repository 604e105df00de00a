"""Which cells of shared memory an access touches, and which threads touch them: a pattern, shifted.

An address is a sum of a part that follows the thread and a part that does not. The first gives a pattern of cells,
computed once for all the copies of an unrolled access and all the slots of a ring; the second shifts it. Cells are bits
of an integer, so a shift is one.
Source: `docs/soundness.md`, section on ordering; two-thread reduction as in GPUVerify (Betts et al., OOPSLA 2012).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from amk.dsl.expr import Const, Elem, Expr, Var, apply, names
from amk.harness.masks import Column, bits

__all__ = ["Address", "Footprint", "Form", "Operand", "Pattern", "Region", "added"]

Form = tuple[dict[Expr, int], int]  # a sum: factors of terms that are no sums, and a constant; not to be changed
Terms = tuple[tuple[Expr, int], ...]


class Operand(NamedTuple):
    """One shared operand of a statement: `width` elements of each thread, or a tile, or a dense run of bytes.

    Modes: r, w, a (atomic), c (cp.async); through the asynchronous proxy R (read) and W (write).
    """

    ref: Elem
    mode: str
    width: int
    role: str = ""
    lanes: int = 32  # of each warp, from the first on, whose addresses count
    tile: tuple[int, ...] = ()  # elements in the last dimensions
    step: tuple[int, ...] = ()  # what divides the first indices of the tile
    dense: int = 0  # bytes
    align: int = 0  # bytes
    anywhere: bool = False  # in its array: the index depends on data


class _Owned:
    """Cells by thread."""

    __slots__ = ("_warps",)
    threads: int
    _warps: list[tuple[int, int]]

    def owners(self) -> dict[int, int]:
        raise NotImplementedError

    def by_warp(self) -> list[tuple[int, int]]:
        """Each warp's threads and the cells that they touch, in order of warps."""
        if not self._warps:
            cells = self._spread()
            warps = (self.threads & 0xFFFFFFFF << 32 * w for w in range(-(-self.threads.bit_length() // 32)))
            self._warps = [(w, sum_of(cells, w)) for w in warps if w]
        return self._warps

    def _spread(self) -> list[tuple[int, int]]:
        raise NotImplementedError


def sum_of(cells: list[tuple[int, int]], threads: int) -> int:
    """The cells that some threads touch."""
    out = 0
    for mask, owners in cells:
        if owners & threads:
            out |= mask
    return out


class Region(_Owned):
    """Cells of an operand that is a tile or a dense run, for each class of threads that issues one."""

    __slots__ = ("_owners", "held", "lanes", "mask", "threads")

    def __init__(self, held: Iterable[tuple[int, int]]) -> None:
        self.held = list(held)  # cells and threads
        self.mask = self.lanes = self.threads = 0
        for cells, threads in self.held:
            self.mask |= cells
            self.threads |= threads
            self.lanes += cells.bit_count() * threads.bit_count()
        self._owners: dict[int, int] = {}
        self._warps: list[tuple[int, int]] = []

    def _spread(self) -> list[tuple[int, int]]:
        return self.held

    def owners(self) -> dict[int, int]:
        """Threads of each cell, built only when masks collide."""
        if not self._owners:
            for cells, threads in self.held:
                for cell in bits(cells):
                    self._owners[cell] = self._owners.get(cell, 0) | threads
        return self._owners


class Pattern(_Owned):
    """Cells and threads of an access, counted from its lowest cell."""

    __slots__ = ("_owners", "cells", "first", "highest", "lanes", "lowest", "mask", "run", "threads")

    def __init__(self, points: Iterable[tuple[tuple[int, ...], int]], run: int, unit: int) -> None:
        held = list(points)  # byte and indices, with the threads that have them
        columns = list(zip(*(x for x, _ in held), strict=True))
        self.first = min(columns[0])  # byte
        self.lowest, self.highest = tuple(map(min, columns[1:])), tuple(map(max, columns[1:]))
        self.run = run  # cells of one thread
        self.cells = [((x[0] - self.first) // unit, threads) for x, threads in held]
        self.lanes = run * sum(threads.bit_count() for _, threads in held)
        self.mask, self.threads, whole = 0, 0, (1 << run) - 1
        for _, threads in held:
            self.threads |= threads
        for cell in {cell for cell, _ in self.cells}:
            self.mask |= whole << cell
        self._owners: dict[int, int] = {}
        self._warps: list[tuple[int, int]] = []

    def _spread(self) -> list[tuple[int, int]]:
        whole = (1 << self.run) - 1
        return [(whole << cell, threads) for cell, threads in self.cells]

    def owners(self) -> dict[int, int]:
        """Threads of each cell, built only when masks collide."""
        if not self._owners:
            for first, threads in self.cells:
                for cell in range(first, first + self.run):
                    self._owners[cell] = self._owners.get(cell, 0) | threads
        return self._owners


class Footprint(NamedTuple):
    """The cells one statement touches at one point of the schedule, with the threads that touch them."""

    mode: str  # of the operand, or l: a copy that has landed
    pointer: str
    ref: Elem
    pattern: Pattern | Region
    shift: int  # cells
    mask: int
    env: Mapping[str, int]
    must: bool = True

    def owner(self, cell: int) -> int:
        """The threads that touch a cell of the mask."""
        return self.pattern.owners()[cell - self.shift]

    def by_warp(self) -> list[tuple[int, int]]:
        """Each warp's threads that touch anything, and the cells that they touch."""
        return [(threads, cells << self.shift) for threads, cells in self.pattern.by_warp()]

    @property
    def text(self) -> str:
        """The operand as its author wrote it."""
        return str(self.ref)

    @property
    def shared(self) -> bool:
        """Whether a cell has two threads."""
        return self.pattern.lanes != self.mask.bit_count()


class Address:
    """Byte address and indices of an operand: what follows the thread, and what shifts it."""

    __slots__ = ("_constants", "_free", "column", "terms")

    def __init__(self, forms: Iterable[Form], columns: dict[Any, Column], threads: int) -> None:
        split = [_split(form) for form in forms]
        varying = tuple(v for v, _, _ in split)
        found = columns.get(varying)
        if found is None:
            found = columns[varying] = Column(tuple(map(_sum, varying)), threads)
        self.column = found
        self._free = [
            (i, x.name if isinstance(x, Var) else "", x, n) for i, (_, free, _) in enumerate(split) for x, n in free
        ]
        self._constants = [c for _, _, c in split]
        self.terms = tuple(dict.fromkeys((*found.keys, *(x for _, _, x, _ in self._free))))  # all that decide

    def at(
        self, env: Mapping[str, Any], value: Callable[[Expr, Mapping[str, Any]], Any]
    ) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """The values that the pattern depends on, and what is added to address and indices."""
        by = self._constants.copy()
        for i, name, x, n in self._free:
            by[i] += (env[name] if name else value(x, env)) * n
        return tuple([value(x, env) for x in self.column.keys]), tuple(by)


def added(a: Form, b: Form, times: int) -> Form:
    """a + b * times."""
    if not a[0] and times == 1:
        return b[0], a[1] + b[1]
    terms = dict(a[0])
    for x, c in b[0].items():
        terms[x] = terms.get(x, 0) + c * times
    return {x: c for x, c in terms.items() if c}, a[1] + b[1] * times


def _split(form: Form) -> tuple[Terms, Terms, int]:
    """The terms in which the thread stands, the others, and the constant."""
    varying = tuple([item for item in form[0].items() if "t" in names(item[0])])
    free = tuple([item for item in form[0].items() if "t" not in names(item[0])]) if len(varying) < len(form[0]) else ()
    return varying, free, form[1]


def _sum(terms: Terms) -> Expr:
    out: Expr = Const(0)
    for x, c in terms:
        out = apply("+", out, apply("*", x, c))
    return out
