"""Integer terms as sums: a constant, and how often each atom is added. Named values are put in place.

An atom is a variable, or what is no sum of smaller terms (a quotient, a remainder, a product of two variables, ...).
Two addresses whose atoms agree differ by a constant, which an instruction adds for nothing.
"""

from __future__ import annotations

from amk.dsl.expr import Apply, Const, Expr, Var
from amk.dsl.record import field, record

__all__ = ["Sum", "Sums"]

Sum = tuple[int, dict[Expr, int]]
_ZERO: Sum = (0, {})


@record()
class Sums:
    """The sums of one kernel's terms; `lets` grows as named values are met."""

    lets: dict[str, Expr] = field(default_factory=dict)
    known: dict[Expr, Sum] = field(default_factory=dict)

    def of(self, e: Expr) -> Sum:
        """The term as a sum. The result is shared: nobody changes it."""
        found = self.known.get(e)
        if found is None:
            found = self.known[e] = self._of(e)
        return found

    def _of(self, e: Expr) -> Sum:
        if isinstance(e, Const):
            return (int(e.value), {}) if type(e.value) is int else _ZERO
        if isinstance(e, Var):
            value = self.lets.get(e.name)
            return (0, {e: 1}) if value is None else self.of(value)
        if isinstance(e, Apply):
            if e.op in ("+", "-"):
                return _added(self.of(e.args[0]), self.of(e.args[1]), 1 if e.op == "+" else -1)
            if e.op == "*":
                return self._product(e)
            if e.op in ("i32", "i64", "u32"):
                return self.of(e.args[0])
        return 0, {e: 1}

    def _product(self, e: Apply) -> Sum:
        for one, other in ((e.args[0], e.args[1]), (e.args[1], e.args[0])):
            times, atoms = self.of(one)
            if not atoms:
                c, rest = self.of(other)
                return (c * times, {x: n * times for x, n in rest.items()}) if times else _ZERO
        return 0, {e: 1}


def _added(a: Sum, b: Sum, sign: int) -> Sum:
    if not b[1]:
        return a[0] + sign * b[0], a[1]
    out = dict(a[1])
    for x, n in b[1].items():
        if total := out.get(x, 0) + sign * n:
            out[x] = total
        else:
            del out[x]
    return a[0] + sign * b[0], out
