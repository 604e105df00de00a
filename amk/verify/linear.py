"""Terms as sums: constants times what is no sum."""

from __future__ import annotations

from amk.dsl.expr import Apply, Const, Expr, Var, has_elements

__all__ = ["growth", "linear"]


def linear(e: Expr) -> dict[Expr, int]:
    """The term as atoms with their factors; the constant stands under Const(1), and zero is the empty sum."""
    if isinstance(e, Const) and type(e.value) is int:
        return {Const(1): e.value} if e.value else {}
    if isinstance(e, Apply):
        if e.op in ("+", "-"):
            return _added(linear(e.args[0]), linear(e.args[1]), 1 if e.op == "+" else -1)
        if e.op == "neg":
            return _added({}, linear(e.args[0]), -1)
        if e.op == "*":
            for x, y in (e.args, e.args[::-1]):
                if isinstance(y, Const) and type(y.value) is int:
                    return _added({}, linear(x), y.value)
        if e.op == "<<" and isinstance(e.args[1], Const) and 0 <= int(e.args[1].value) < 63:
            return _added({}, linear(e.args[0]), 1 << int(e.args[1].value))
    return {e: 1}


def _added(a: dict[Expr, int], b: dict[Expr, int], factor: int) -> dict[Expr, int]:
    out = dict(a)
    for atom, n in b.items():
        out[atom] = out.get(atom, 0) + factor * n
    return {atom: n for atom, n in out.items() if n}


def growth(name: str, after: Expr) -> int | None:
    """The constant by which a round changes a value, if it does: `after` is what it becomes, over its own name."""
    if has_elements(after):
        return None
    form = linear(after)
    by = form.pop(Const(1), 0)
    return by if form == {Var(name): 1} else None
