"""Terms over many threads at once: one column of values a term, every distinct subterm evaluated once.

In: a length, and the column (or the one value) of each variable. Out: `of(term)`, the term's column. The copies of an
unrolled access share almost all of their subterms, so this costs a list operation or two a copy, where compiling
each with `function_of` costs a hundred times that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import repeat
from typing import Any

from amk.dsl.evaluate import function_of
from amk.dsl.expr import FOLD, Apply, Const, Expr, Var, names

__all__ = ["Columns", "Tables"]

Column = list[int]
Value = Column | int  # one number: the same in every row
_SAME: dict[str, Callable[[Any], int]] = {
    "neg": lambda a: -a, "not": lambda a: not a, "i32": int, "i64": int, "u32": int,
}  # fmt: skip


class Columns:
    """`rows` values of each term, under the given values of its variables."""

    def __init__(self, rows: int, variables: Mapping[str, Value]) -> None:
        self.rows = rows
        self.variables = dict(variables)
        self._memo: dict[Expr, Value] = {}

    def of(self, e: Expr) -> Column:
        """The term's values. Raises as `function_of` does."""
        found = self.value(e)
        return found if isinstance(found, list) else [found] * self.rows

    def value(self, e: Expr) -> Value:
        """As `of`, a single number where no row differs."""
        if isinstance(e, Const) and isinstance(e.value, int):
            return e.value
        found = self._memo.get(e)
        if found is None:
            found = self._memo[e] = self._value(e)
        return found

    def _value(self, e: Expr) -> Value:
        if isinstance(e, Var) and e.name in self.variables:
            return self.variables[e.name]
        if isinstance(e, Apply) and len(e.args) == 2 and e.op in FOLD:
            return self._mapped(FOLD[e.op], e.args)
        if isinstance(e, Apply) and e.op in _SAME:
            return self._mapped(_SAME[e.op], e.args)
        return self._row_by_row(e)

    def _mapped(self, f: Callable[..., int], args: tuple[Expr, ...]) -> Value:
        values = [self.value(a) for a in args]
        if any(isinstance(v, list) for v in values):
            return list(map(f, *(v if isinstance(v, list) else repeat(v) for v in values)))
        return f(*values)

    def _row_by_row(self, e: Expr) -> Value:
        """Selections and what stands right of `and` and `or` are evaluated only where they count."""
        used = tuple(sorted(names(e) & self.variables.keys()))
        f = function_of((e,), used)
        given = [self.variables[n] for n in used]
        if not any(isinstance(v, list) for v in given):
            return int(f(*given)[0])
        rows: Iterable[tuple[int, ...]] = zip(*(v if isinstance(v, list) else repeat(v) for v in given), strict=False)
        return [f(*row)[0] for row in rows]


class Tables:
    """Terms over all threads of a block, a table for each value of the loop variables that a term uses."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._made: dict[tuple[tuple[str, int], ...], Columns] = {}

    def column(self, values: Mapping[str, int], e: Expr) -> Column:
        """The term's value for each thread, under the given values of the loop variables."""
        mine = tuple((v, x) for v, x in values.items() if v in names(e))
        if mine not in self._made:
            self._made[mine] = Columns(self.threads, {"t": list(range(self.threads)), **dict(mine)})
        return self._made[mine].of(e)
