"""Carried values that go round: slots and parities of rings, through one loop or through a loop inside a loop.

In: a nest of loops over sizes. Out: which carried values depend on themselves alone, what they can be, after how many
iterations they come round, and whether all slots of the ring are alike.

*All slots alike.* Let the rotation take each slot to the next (and turn the parity that goes with it where it wraps).
If it commutes with every step and every start of the carried values, and if slots stand only as the first index of
arrays of as many slots, and parities only in waits for the mbarrier of their slot, then what happens from any state
on is what happens from the first, with the slots renamed: one start stands for all. It is tried on every state that
is reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import lcm
from typing import Any, NamedTuple

from amk.dsl.evaluate import function_of
from amk.dsl.expr import Elem, Expr, Var, names, subterms
from amk.dsl.kernel import expressions
from amk.dsl.nodes import For
from amk.harness.events import Program
from amk.harness.intervals import Interval

__all__ = ["Cycles", "cycles_of"]

_MOST = 512  # states that are followed
State = tuple[int, ...]


class Cycles(NamedTuple):
    """What goes round in a nest of loops."""

    values: dict[str, Interval]  # by carried name: least and greatest
    before: int  # iterations before the states repeat
    period: int  # iterations after which they do
    slots: int  # of the largest ring
    alike: bool  # whether one start stands for all
    starts: int  # states in which the inner loop can start


_NONE = Cycles({}, 0, 1, 1, True, 1)


class _Level:
    """The carried values of one loop that depend on known ones alone: their starts and steps as functions."""

    def __init__(self, p: Program, loop: For, names_: tuple[str, ...], before: tuple[str, ...]) -> None:
        by = {c.name: c for c in loop.carry}
        self.names = names_
        self.start = function_of(tuple(p.inline(by[n].init) for n in names_), before)
        self.nexts = tuple(p.inline(by[n].next) for n in names_)


def cycles_of(p: Program, outer: For, inner: For | None) -> Cycles:
    """What goes round in a loop, or in a loop and the one inside it."""
    mine, deeper = _closed(p, outer, inner)
    if not mine and not deeper:
        return _NONE
    return _Walk(p, outer, inner, mine, deeper).result()


def _closed(p: Program, outer: For, inner: For | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The carried names that depend on constants and on each other: the largest such sets."""
    a = {c.name: c for c in outer.carry}
    b = {c.name: c for c in inner.carry} if inner is not None else {}
    while True:
        known = a.keys() | b.keys()
        lost = {n for n, c in a.items() if names(p.inline(c.init)) or _other(p.inline(c.next), known, n)}
        lost |= {
            n for n, c in b.items() if not names(p.inline(c.init)) <= a.keys() or _other(p.inline(c.next), b.keys(), n)
        }
        if not lost:
            return tuple(a), tuple(b)
        a, b = ({n: c for n, c in x.items() if n not in lost} for x in (a, b))


def _other(e: Expr, known: Iterable[str], name: str) -> bool:
    """Whether the term depends on what is not known, or only grows."""
    return bool(names(e) - set(known)) or _grows(e, name) or any(isinstance(x, Elem) for x in (e, *subterms(e)))


def _grows(e: Expr, name: str) -> bool:
    return getattr(e, "op", "") == "+" and Var(name) in getattr(e, "args", ())


def _same(*v: int) -> State:
    return v


class _Walk:
    """Every state that is reached."""

    def __init__(
        self, p: Program, outer: For, inner: For | None, mine: tuple[str, ...], deeper: tuple[str, ...]
    ) -> None:
        self.p, self.mine, self.deeper = p, mine, deeper
        first = _Level(p, outer, mine, ())
        self.begin: State = tuple(map(int, first.start()))
        if inner is None:
            self.enter, self.step, self.leave = _same, function_of(first.nexts, mine), _same
            self.deeper = mine
        else:
            second = _Level(p, inner, deeper, mine)
            self.enter, self.step = second.start, function_of(second.nexts, deeper)
            self.leave = function_of(first.nexts, (*mine, *deeper))
        self.single = inner is None
        starts = {c.name: p.inline(c.init) for c in inner.carry} if inner is not None else {}
        self.sources = {n: e.name for n, e in starts.items() if isinstance(e, Var)}
        self.outside: list[State] = []
        self.inside: dict[State, State] = {}  # with the state after one step
        self.before, self.period = 0, 1

    def result(self) -> Cycles:
        """Follows all states; without a ring where there are too many."""
        todo = [self.begin]
        while todo:
            o = todo.pop()
            if o in self.outside:
                continue
            self.outside.append(o)
            if len(self.outside) + len(self.inside) > _MOST:
                return _NONE
            for v in self._orbit(tuple(map(int, self.enter(*o)))):
                if not self.single:
                    todo.append(tuple(map(int, self.leave(*o, *v))))
        values = self._values()
        rings = self._rings(values)
        alike = bool(rings) and self._alike(rings)
        return Cycles(
            values, self.before, self.period, max((n for n, _ in rings.values()), default=1), alike, len(self.outside)
        )

    def _orbit(self, start: State) -> list[State]:
        seen: dict[State, int] = {}
        v = start
        while v not in seen and len(seen) < _MOST:
            seen[v] = len(seen)
            following: State = tuple(map(int, self.step(*v)))
            self.inside[v] = following
            v = following
        if v in seen:
            self.before = max(self.before, seen[v])
            self.period = lcm(self.period, len(seen) - seen[v])
        return list(seen)

    def _values(self) -> dict[str, Interval]:
        out: dict[str, Interval] = {}
        for held, states in ((self.mine, self.outside), (self.deeper, list(self.inside))):
            for i, n in enumerate(held):
                at = [s[i] for s in states]
                low, high = out.get(n, (at[0], at[0])) if at else (0, 0)
                out[n] = min(low, *at), max(high, *at)
        return out

    # -- whether slots are alike ------------------------------------------------------------------------------------
    def _rings(self, values: dict[str, Interval]) -> dict[str, tuple[int, str]]:
        """Slots, each with the extent of its arrays; and parities, with the extent and the slot they go with.

        Empty where a name stands anywhere else.
        """
        slots: dict[str, int] = {}
        parities: dict[str, str] = {}
        every = values.keys()
        for _, s in self.p.statements:
            for ref in _operands(self.p, s):
                first = ref.index[0] if ref.index else None
                if isinstance(first, Var) and first.name in every:
                    top = _extent(self.p, ref)
                    if slots.setdefault(first.name, top) != top:
                        return {}
                if any(names(i) & every for i in (ref.index[1:] if isinstance(first, Var) else ref.index)):
                    return {}
            if (
                s.kind == "wait"
                and s.barrier is not None
                and s.parity is not None
                and names(self.p.inline(s.parity)) & every
            ):
                index, parity = self.p.inline(s.barrier.index[0]), self.p.inline(s.parity)
                if not (isinstance(index, Var) and isinstance(parity, Var)):
                    return {}
                if parities.setdefault(parity.name, index.name) != index.name:
                    return {}
            elif self.p.matters(s) and any(names(e) & every for e in _conditions(self.p, s)):
                return {}
        if set(slots) & set(parities) or any(b not in slots for b in parities.values()):
            return {}
        full = {n: (top, "") for n, top in slots.items()} | {n: (slots[b], b) for n, b in parities.items()}
        return self._paired(full, every)

    def _paired(self, rings: dict[str, tuple[int, str]], every: Iterable[str]) -> dict[str, tuple[int, str]]:
        """With the names of the outer loop that are not used themselves, and start those of the inner one."""
        out = dict(rings)
        for n, (size, slot) in rings.items():
            source = self.sources.get(n)
            if source is not None:
                mate = self.sources.get(slot, "")
                if out.setdefault(source, (size, mate)) != (size, mate):
                    return {}
        return out if out.keys() >= set(every) else {}

    def _alike(self, rings: dict[str, tuple[int, str]]) -> bool:
        def turn(held: tuple[str, ...], v: State) -> State:
            at = dict(zip(held, v, strict=True))
            return tuple(
                (x + 1) % rings[n][0] if not rings[n][1] else x ^ (at.get(rings[n][1], -1) == rings[n][0] - 1)
                for n, x in at.items()
            )

        def same(f: Any, ins: tuple[str, ...], outs: tuple[str, ...], v: State) -> bool:
            return tuple(map(int, f(*turn(ins, v)))) == turn(outs, tuple(map(int, f(*v))))

        if not all(same(self.step, self.deeper, self.deeper, v) for v in self.inside):
            return False
        if self.single:
            return True
        both = (*self.mine, *self.deeper)
        if not all(same(self.enter, self.mine, self.deeper, o) for o in self.outside):
            return False
        return all(
            tuple(map(int, self.leave(*turn(self.mine, o), *turn(self.deeper, v))))
            == turn(self.mine, tuple(map(int, self.leave(*o, *v))))
            for o in self.outside
            for v in self.inside
            if both
        )


def _operands(p: Program, s: Any) -> Iterator[Elem]:
    """Operands in shared memory and of mbarriers, indices in place."""
    refs = [o.ref for o in p.operands(s)]
    barriers = {b.name for b in p.kernel.barriers}
    for _, e in expressions(s):
        if isinstance(e, Elem) and e.buffer in barriers:
            refs.append(e)
    for ref in refs:
        full = p.kernel.resolve(ref)
        yield Elem(full.buffer, tuple(map(p.inline, full.index)))


def _extent(p: Program, ref: Elem) -> int:
    d = p.kernel.declarations[ref.buffer]
    return d.slots if d.kind == "barrier" else d.shape[0] if d.kind == "buffer" else 0


def _conditions(p: Program, s: Any) -> Iterator[Expr]:
    if s.kind == "if":
        yield p.inline(s.cond)
    elif s.kind == "for":
        yield from map(p.inline, (s.lo, s.hi, s.step))
    elif s.kind == "load" and s.when is not None:
        yield p.inline(s.when)
    elif s.kind == "arrive":
        yield from (p.inline(e) for e in (s.bytes, s.peer) if e is not None)
    elif s.kind == "call":
        yield from map(p.inline, s.args.values())
