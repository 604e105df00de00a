"""How long the elements of register arrays live, in a numbering of the statements.

An array lives in units: by the indices that are constants at every use, all other dimensions together. A fill with
constants starts no life, since the compiler fills where it reads. A load into a unit that was read starts a new one.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from amk.dsl.expr import Const, Elem
from amk.dsl.nodes import Buffer
from amk.dsl.record import field, record, replace
from amk.dsl.types import nbytes

__all__ = ["Life", "Lives", "Loop", "most"]

Span = tuple[int, int]
Unit = tuple[str, tuple[int | None, ...]]  # an array, and its constant indices


@record()
class Loop:
    """A loop that is kept: how deep, inside which, where it starts and ends, and what is held all through it.

    `held` counts registers by what for and for which; `carried` are those of carried values alone.
    """

    depth: int
    parent: int
    start: int
    end: int = 0
    carried: int = 0
    held: dict[tuple[object, ...], int] = field(default_factory=dict)


@record()
class Life:
    """First and last use of a value, and the innermost loops of its uses; `needed` is the first read."""

    first: int
    last: int
    read_first: bool
    loops: set[int] = field(default_factory=set)
    read: bool = False
    needed: int = 0

    def used(self, now: int, inner: int, write: bool) -> None:
        """One more use."""
        if not write and not self.read:
            self.read, self.needed = True, now
        self.last = now
        self.loops.add(inner)

    def span(self, loops: list[Loop]) -> Span:
        """First and last statement; what a loop carries, or what is used in it and outside, lives all through it."""
        inside: set[int] = set()
        for i in self.loops:
            while i and i not in inside:
                inside.add(i)
                i = loops[i].parent
        first, last = self.first, self.last
        for i in sorted(inside, reverse=True):
            if first < loops[i].start or last > loops[i].end or self.read_first:
                first, last = min(first, loops[i].start), max(last, loops[i].end)
        return first, last


class Spanned(NamedTuple):
    """A life of a unit of `array`: where, where it would be if loads waited for their first use, the unit's registers,
    and whether the unit had a life before."""

    array: str
    span: Span
    sunk: Span
    registers: int
    again: bool


class _Use(NamedTuple):
    x: Elem
    now: int
    inner: int
    write: bool
    load: bool
    fill: bool


class Lives:
    """The uses of a kernel's register arrays, collected first: only then is known which indices are constants."""

    def __init__(self, buffers: tuple[Buffer, ...]) -> None:
        self.buffers = {b.name: b for b in buffers if b.space == "register"}
        self._fixed = {name: [True] * len(b.shape) for name, b in self.buffers.items()}
        self._uses: list[_Use] = []

    def use(self, x: Elem, now: int, inner: int, *, write: bool, width: int = 1, load: bool = False,
            fill: bool = False) -> None:  # fmt: skip
        """A use of an element and its `width` - 1 neighbours, at a statement inside a loop; other names are skipped."""
        fixed = self._fixed.get(x.buffer)
        if fixed is None:
            return
        self._uses.append(_Use(x, now, inner, write, load, fill))
        for i, at in enumerate(x.index[: len(fixed)]):
            if fixed[i] and not isinstance(at, Const):
                fixed[i] = False
        if width > 1:
            fixed[-1] = False

    def units(self, loops: list[Loop]) -> list[Spanned]:
        """Every life of every unit."""
        lives: dict[Unit, list[Life]] = {}
        for u in self._uses:
            found = lives.setdefault(self._unit(u.x), [])
            if u.fill and not found:
                continue
            if not found or (u.load and found[-1].read and found[-1].loops == {u.inner}):
                found.append(Life(u.now, u.now, not u.write))
            found[-1].used(u.now, u.inner, u.write)
        return [self._spanned(unit, life, loops, n > 0) for unit, of in lives.items() for n, life in enumerate(of)]

    def whole(self, loops: list[Loop]) -> list[tuple[Span, int]]:
        """Every array as one, from its first use to its last: what surely has room if it is held."""
        lives: dict[str, Life] = {}
        for u in self._uses:
            life = lives.setdefault(u.x.buffer, Life(u.now, u.now, not u.write))
            life.used(u.now, u.inner, u.write)
        return [(life.span(loops), self._registers(name, ())) for name, life in lives.items()]

    def _unit(self, x: Elem) -> Unit:
        fixed = self._fixed[x.buffer]
        at = (int(i.value) if f and isinstance(i, Const) else None for f, i in zip(fixed, x.index, strict=False))
        return x.buffer, tuple(at)

    def _spanned(self, unit: Unit, life: Life, loops: list[Loop], again: bool) -> Spanned:
        late = replace(life, first=life.needed) if life.needed > life.first else life
        return Spanned(unit[0], life.span(loops), late.span(loops), self._registers(*unit), again)

    def _registers(self, name: str, at: tuple[int | None, ...]) -> int:
        b = self.buffers[name]
        shape = [n for n, fixed in zip(b.shape, at, strict=True) if fixed is None] if at else b.shape
        return -(-prod(shape) * nbytes(b.dtype) // 4)


def most(spans: list[tuple[Span, int]], low: int = 0, high: int = 1 << 62) -> int:
    """Registers of all that lives at the worst statement from `low` to `high`."""
    events: dict[int, int] = {}
    for (first, last), n in spans:
        if last >= low and first <= high:
            start = max(first, low)
            events[start] = events.get(start, 0) + n
            events[last + 1] = events.get(last + 1, 0) - n
    live = worst = 0
    for at in sorted(events):
        live += events[at]
        if at <= high and live > worst:
            worst = live
    return worst
