"""What a thread knows of flags at a statement: that one has at least a value, or that all blocks have counted.

A fact comes from a wait, from a flag loaded with acquire under a condition on what was loaded, or from the old value of
a count under a condition on that. The thread itself has read the flag, or a thread of its block has before a barrier
that both pass (lemma 10 in `docs/soundness.md`). The value may have gone through shared memory: stored there by the
thread that has it, once in the whole kernel, and loaded after a barrier.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from amk.dsl.expr import Apply, Const, Elem, Expr, has_elements, subst
from amk.dsl.flags import flag_of
from amk.dsl.nodes import Atomic, Load, Wait
from amk.harness.coverage import linear
from amk.harness.message_sites import Place, Places

__all__ = ["Fact", "Facts"]

_LEAST = {">=": 0, "==": 0, ">": 1}


class Fact(NamedTuple):
    """A flag has at least a value; `at` is where that was learnt, and `cond` what was asked of the value, if it was."""

    flag: str
    of: tuple[Expr, ...]  # its index
    least: Expr
    at: Place
    cond: Expr | None = None


class Facts:
    """The facts of one kernel."""

    def __init__(self, places: Places) -> None:
        self.places, self.p = places, places.p
        self.kernel = places.p.kernel
        self.grid = dict(zip(("gx", "gy", "gz"), self.kernel.grid3, strict=True))
        self.sources = [
            x for x in places.all if isinstance(x.s, (Wait, Load, Atomic)) and flag_of(self.kernel, x.s) is not None
        ]

    def plain(self, e: Expr) -> Expr:
        """The term with named values and grid sizes in place."""
        return self.p.inline(subst(self.p.inline(e), self.grid))

    def at(self, reader: Place) -> Iterator[Fact]:
        """Every fact that holds where a statement runs."""
        for x in self.sources:
            d = x.meet(reader)
            if not x.before(reader):
                continue
            ref = self.kernel.resolve(_given_ref(flag_of(self.kernel, x.s)))
            if any(map(has_elements, map(self.plain, ref.index))):
                continue
            if isinstance(x.s, Wait):
                if self._known(x, reader, d):
                    yield self._fact(x, self.plain(_given(x.s.value)), None)
                continue
            held = x.s.dst if isinstance(x.s, Load) else x.s.old
            if held is not None and x.s.order in ("acquire", "acq_rel"):
                for value, place in self._copies(x, held, self._common(ref)):
                    if place.before(reader) and not place.around[place.meet(reader) :]:
                        yield from self._under(x, value, reader, place.meet(reader))

    def _fact(self, x: Place, least: Expr, cond: Expr | None) -> Fact:
        ref = self.kernel.resolve(_given_ref(flag_of(self.kernel, x.s)))
        return Fact(ref.buffer, tuple(map(self.plain, ref.index)), least, x, cond)

    def _common(self, ref: Elem) -> bool:
        """Whether an operand is the same element for all threads of a block."""
        return not any(self.p.data(i) or self.p.thread_dependent(i) for i in ref.index)

    def _known(self, x: Place, reader: Place, d: int) -> bool:
        """Whether the thread itself has run a statement, or one of its block before a barrier."""
        inner = x.around[d:]
        if not inner:
            return True
        same = self._common(self.kernel.resolve(_given_ref(x.s.flag)))
        return same and bool(self.places.threads(inner)) and x.barrier_before(reader)

    def _under(self, x: Place, value: Elem, reader: Place, d: int) -> Iterator[Fact]:
        """What the conditions on a value around a statement say."""
        for c in self.places.conditions(reader, d):
            if isinstance(c, Apply) and c.op in _LEAST and c.args[0] == value:
                least = self.plain(c.args[1] + _LEAST[c.op])
                yield self._fact(x, least, c)

    def _copies(self, x: Place, held: Elem, common: bool) -> Iterator[tuple[Elem, Place]]:
        """The registers that have the value, each with where it gets it; of other threads if it is about one flag."""
        if self.places.writers(held.buffer) != [x]:
            return
        yield held, x
        if not common:
            return
        for s in self.places.all:
            if s.s.kind != "store" or s.s.values != (held,) or self.kernel.space(s.s.dst) != "shared":
                continue
            if len(s.chain) != len(x.chain) or s.meet(x) != len(x.chain) - 1 or not x.before(s):
                continue
            if self.places.threads(x.around[self._outer(x) :]) is None or self._stores(s.s.dst.buffer) != 1:
                continue
            yield from ((y.s.dst, y) for y in self.places.all if self._takes(y, s))

    def _outer(self, x: Place) -> int:
        """Where the conditions on the thread alone begin, of those around a statement."""
        n = len(x.around)
        while n and self.places.threads(x.around[n - 1 :]) is not None:
            n -= 1
        return n

    def _takes(self, y: Place, s: Place) -> bool:
        """Whether a load has the value of a store to shared memory, of the one thread that stores, by a barrier."""
        if y.s.kind != "load" or y.s.src != s.s.dst or y.s.when is not None or y.s.width > 1 or y.s.peer is not None:
            return False
        if any(not isinstance(i, Const) for i in y.s.src.index) or self.places.writers(y.s.dst.buffer) != [y]:
            return False
        d = s.meet(y)
        inner = self.places.threads(s.around[d:])
        return s.before(y) and s.barrier_before(y) and inner is not None and inner.bit_count() == 1

    def _stores(self, name: str) -> int:
        """The statements that write a shared array."""
        return sum(o.mode != "r" for x in self.places.all for o in self.p.operands(x.s) if o.ref.buffer == name)

    def same(self, a: Expr, b: Expr) -> bool:
        """Whether two terms are the same sum."""
        return linear(self.plain(a)) == linear(self.plain(b))


def _given(e: Expr | None) -> Expr:
    assert e is not None
    return e


def _given_ref(e: Elem | None) -> Elem:
    assert e is not None
    return e
