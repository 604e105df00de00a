"""Sets of threads as bits of an integer, and terms as functions of the thread.

A term is evaluated once for each distinct value of its parts in `t` alone (*thread atoms*: an operand that depends on
`t // 16` costs 16 evaluations for 256 threads), and once for each value of its parts without `t` (so `kt % 3` gives
three evaluations, however long the loop).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from amk.dsl.evaluate import function_of
from amk.dsl.expr import Apply, Elem, Expr, Var, names, parts, subterms

__all__ = ["Column", "bits", "maximal"]


def bits(mask: int) -> Iterator[int]:
    """The positions of the set bits, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def maximal(e: Expr, banned: frozenset[str]) -> Iterator[Expr]:
    """The largest subterms that have variables and none of the banned ones."""
    used = names(e)
    if not used:
        return
    if not used & banned and not any(isinstance(x, Elem) for x in subterms(e)):
        yield e
        return
    for x in parts(e):
        yield from maximal(x, banned)


_T = frozenset(("t",))


class Column:
    """Expressions as functions of the thread: computed once for each distinct atom and each value of the rest."""

    def __init__(self, exprs: tuple[Expr, ...], threads: int) -> None:
        self.atoms: dict[Expr, Var] = {}
        self.uniform: dict[Expr, Var] = {}
        cut = tuple(map(self._cut, exprs))
        held = tuple(v.name for v in (*self.atoms.values(), *self.uniform.values()))
        self._plain = cut == tuple(self.atoms.values())  # nothing but atoms: their values are the answer
        self._at = None if self._plain else function_of(cut, held)
        self.keys = tuple(self.uniform)
        self.classes = self._classes(threads)
        self._memo: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}

    def _cut(self, e: Expr) -> Expr:
        used = names(e)
        if used and "t" not in used:
            return self.uniform.setdefault(e, Var(f"u{len(self.uniform)}"))
        if used == _T and not isinstance(e, Elem):
            return self.atoms.setdefault(e, Var(f"a{len(self.atoms)}"))
        return Apply(e.op, tuple(map(self._cut, e.args))) if isinstance(e, Apply) else e

    def _classes(self, threads: int) -> list[tuple[tuple[Any, ...], int]]:
        if not self.atoms:
            return [((), (1 << threads) - 1)]
        return list(_atom_classes(tuple(self.atoms), threads).items())

    def at(self, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """The value tuple of each class of threads, for values of the thread-free parts `keys`."""
        found = self._memo.get(values)
        if found is None:
            f = self._at
            made = [atoms for atoms, _ in self.classes] if f is None else [f(*a, *values) for a, _ in self.classes]
            found = self._memo[values] = made
        return found


@lru_cache(maxsize=4096)
def _atom_classes(atoms: tuple[Expr, ...], threads: int) -> dict[tuple[Any, ...], int]:
    f = function_of(atoms, ("t",))
    out: dict[tuple[Any, ...], int] = {}
    for t in range(threads):
        key = f(t)
        out[key] = out.get(key, 0) | 1 << t
    return out
