"""Where statements stand in a body: which comes first, what both stand in, and whether a barrier is between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from amk.dsl.expr import Expr, names
from amk.dsl.nodes import Statement
from amk.harness.coverage import conjuncts
from amk.harness.events import Program
from amk.harness.register_use import destinations

__all__ = ["Place", "Places"]


class Place(NamedTuple):
    """A statement, the bodies that it stands in with its position in each, and the nodes that these belong to."""

    s: Any
    pointer: str
    chain: tuple[tuple[tuple[Statement, ...], int], ...]  # outermost first
    around: tuple[Any, ...]  # around[i] is the statement whose body chain[i + 1] is

    def meet(self, other: Place) -> int:
        """How deep the innermost body lies that both stand in."""
        d = 0
        while d + 1 < min(len(self.chain), len(other.chain)):
            (a, i), (b, j) = self.chain[d], other.chain[d]
            if a is not b or i != j or self.chain[d + 1][0] is not other.chain[d + 1][0]:
                break
            d += 1
        return d

    def before(self, other: Place) -> bool:
        """Whether it comes first in that body."""
        d = self.meet(other)
        return self.chain[d][1] < other.chain[d][1]

    def barrier_before(self, other: Place) -> bool:
        """Whether a block barrier stands between the two, in that body."""
        d = self.meet(other)
        body, first = self.chain[d]
        between = body[first + 1 : other.chain[d][1]]
        return any(x.kind == "sync" and x.scope == "block" and x.part == "both" for x in between)


class Places:
    """All statements of a program with their places, and the threads that run them."""

    def __init__(self, p: Program) -> None:
        self.p = p
        self.all = list(self._walk(p.kernel.body, (), ()))

    def _walk(
        self, body: tuple[Statement, ...], chain: tuple[tuple[tuple[Statement, ...], int], ...], around: tuple[Any, ...]
    ) -> Iterator[Place]:
        for i, s in enumerate(body):
            here = (*chain, (body, i))
            yield Place(s, self.p.pointers[id(s)], here, around)
            if s.kind == "team":
                for role in s.roles:
                    yield from self._walk(role.body, here, (*around, role))
            elif s.kind in ("for", "if"):
                yield from self._walk(s.body, here, (*around, s))

    def threads(self, around: tuple[Any, ...]) -> int | None:
        """The threads that run what stands in some nodes, once each; None where that is not for the thread to say."""
        out = self.p.everyone
        for node in around:
            if getattr(node, "kind", "role") != "if":
                return None
            cond = self.p.inline(node.cond)
            if self.p.data(node.cond) or not names(cond) <= {"t"}:
                return None
            out &= self.p.chosen(cond, out, {})
        return out

    def alone(self, place: Place) -> bool:
        """Whether one thread of every block runs the statement, once."""
        threads = self.threads(place.around)
        return threads is not None and threads.bit_count() == 1

    def conditions(self, place: Place, depth: int) -> Iterator[Expr]:
        """Each condition around a statement that is asked inside the body of that depth."""
        for node in place.around[depth:]:
            if getattr(node, "kind", "") == "if":
                yield from conjuncts(self.p.inline(node.cond))

    def writers(self, name: str) -> list[Place]:
        """The statements that write an array of registers."""
        kernel = self.p.kernel
        return [x for x in self.all if any(kernel.resolve(r).buffer == name for r, _ in destinations(kernel, x.s))]
