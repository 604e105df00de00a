"""Terms for all threads of a block at once: a number where they agree, else a tuple with one number a thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from amk.dsl.expr import Apply, Const, Elem, Expr, Var, names
from amk.verify.values import DATA, OPS, NoValue

__all__ = ["Lanes", "ones"]

Value = Any  # a number, a tuple of numbers, or DATA


def ones(mask: int) -> Iterator[int]:
    """The threads (or cells) of a bit mask, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class Lanes:
    """The threads 0 to n - 1 of a block. Values are remembered by what their names stand for."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.everyone = (1 << threads) - 1
        self.numbers = tuple(range(threads))
        self._values: dict[tuple[Any, ...], Value] = {}
        self._masks: dict[tuple[Any, ...], int] = {}
        self._order: dict[Expr, tuple[str, ...]] = {}

    def of(self, e: Expr, known: Mapping[str, Value]) -> Value:
        """The value of a term. Raises NoValue."""
        if isinstance(e, Const):
            return e.value
        key = self._key(e, known)
        found = self._values.get(key)
        if found is None:
            found = self._values[key] = self._find(e, known)
        return found

    def mask(self, e: Expr, known: Mapping[str, Value]) -> int:
        """The threads for which a condition holds. Raises NoValue."""
        key = self._key(e, known)
        found = self._masks.get(key)
        if found is None:
            value = self.of(e, known)
            if isinstance(value, tuple):
                found = sum(1 << t for t, x in enumerate(value) if x)
            else:
                found = self.everyone if value else 0
            self._masks[key] = found
        return found

    def _key(self, e: Expr, known: Mapping[str, Value]) -> tuple[Any, ...]:
        order = self._order.get(e)
        if order is None:
            order = self._order[e] = tuple(sorted(names(e) - {"t"}))
        try:
            return (e, *[known[n] for n in order])
        except KeyError as missing:
            raise NoValue(f"{missing.args[0]} in {e}") from None

    def _find(self, e: Expr, known: Mapping[str, Value]) -> Value:
        if isinstance(e, Var):
            return self.numbers if e.name == "t" else known[e.name]
        if isinstance(e, Elem):
            return DATA
        assert isinstance(e, Apply)
        of = OPS.get(e.op)
        if of is None:
            return DATA
        if e.op in ("select", "and", "or"):
            return self._lazy(e, known)
        a = [self.of(x, known) for x in e.args]
        if any(x is DATA for x in a):
            return DATA
        try:
            if not any(isinstance(x, tuple) for x in a):
                return of(*a)
            rows = zip(*(x if isinstance(x, tuple) else (x,) * self.threads for x in a), strict=True)
            return tuple([of(*row) for row in rows])
        except (ZeroDivisionError, ValueError, OverflowError, TypeError):
            raise NoValue(str(e)) from None

    def _lazy(self, e: Apply, known: Mapping[str, Value]) -> Value:
        """A selection: a side that no thread takes may have no value, and one that some take has theirs alone."""
        first = self.of(e.args[0], known)
        if first is DATA:
            return DATA
        if not isinstance(first, tuple):
            if e.op == "select":
                return self.of(e.args[1 if first else 2], known)
            return self.of(e.args[1], known) if bool(first) is (e.op == "and") else bool(first)
        sides = [self._side(x, known) for x in e.args[1:]]
        if any(x is DATA for x in sides):
            return DATA
        out = []
        for t, c in enumerate(first):
            if e.op == "select":
                out.append(_at(sides[0 if c else 1], t))
            else:
                out.append(_at(sides[0], t) if bool(c) is (e.op == "and") else bool(c))
        return tuple(out)

    def _side(self, e: Expr, known: Mapping[str, Value]) -> Value:
        """A side's value thread by thread where it has none for all of them (a division under its own guard)."""
        try:
            return self.of(e, known)
        except NoValue:
            return tuple(self._one(e, known, t) for t in range(self.threads))

    def _one(self, e: Expr, known: Mapping[str, Value], t: int) -> Any:
        from amk.verify.values import evaluate

        try:
            return evaluate(e, {**{n: _at(v, t) for n, v in known.items()}, "t": t})
        except NoValue:
            return None  # must not be asked for: comparing or adding it raises


def _at(value: Value, t: int) -> Any:
    return value[t] if isinstance(value, tuple) else value
