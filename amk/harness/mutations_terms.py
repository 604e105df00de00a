"""Mutations of expressions: constants, comparisons, guards, indices, operators and variables."""

from __future__ import annotations

from random import Random

from amk.dsl.expr import Apply, Const, Elem, Expr, Var
from amk.dsl.text import parse
from amk.harness.mutation_data import Data, Draw, rewrite, statements

__all__ = ["TERMS"]

_FLIP = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_OTHER = {
    "+": "-", "-": "+", "*": "+", "//": "%", "%": "//", "cdiv": "//", "min": "max", "max": "min", "<": ">", ">": "<",
    "<=": ">=", ">=": "<=", "==": "!=", "!=": "==", "and": "or", "or": "and", "^": "+",
}  # fmt: skip


def _constant(rng: Random, data: Data) -> str:
    delta = rng.choice((-1, 1))

    def change(e: Expr) -> Expr | None:
        return Const(e.value + delta) if isinstance(e, Const) and type(e.value) is int else None

    return rewrite(rng, data, change)


def _scale(rng: Random, data: Data) -> str:
    """A constant halved, doubled or made nothing."""
    factor = rng.choice((0.5, 2, 2, 0))

    def change(e: Expr) -> Expr | None:
        return Const(int(e.value * factor)) if isinstance(e, Const) and type(e.value) is int and e.value else None

    return rewrite(rng, data, change)


def _slots(rng: Random, data: Data) -> str:
    """The divisor of a remainder, such as the slots of a ring, or what it is compared with."""
    delta = rng.choice((-1, 1))

    def change(e: Expr) -> Expr | None:
        if not (isinstance(e, Apply) and e.op in ("%", "==", "//") and isinstance(c := e.args[1], Const)):
            return None
        return Apply(e.op, (e.args[0], Const(c.value + delta))) if type(c.value) is int else None

    return rewrite(rng, data, change)


def _compare(rng: Random, data: Data) -> str:
    def change(e: Expr) -> Expr | None:
        return Apply(_FLIP[e.op], e.args) if isinstance(e, Apply) and e.op in _FLIP else None

    return rewrite(rng, data, change)


def _conjunct(rng: Random, data: Data) -> str:
    keep = rng.choice((0, 1))

    def change(e: Expr) -> Expr | None:
        return e.args[keep] if isinstance(e, Apply) and e.op == "and" else None

    return rewrite(rng, data, change)


def _negate(rng: Random, data: Data) -> str:
    """A condition that holds where it did not."""
    found = [(f"{pointer}/{n}", body[i], n) for pointer, body, i in statements(data) for n in ("cond", "when")
             if isinstance(body[i].get(n), str)]  # fmt: skip
    if not found:
        return ""
    where, s, n = rng.choice(found)
    old = s[n]
    s[n] = str(Apply("not", (parse(old),)))
    return f"{old} at {where}"


def _guard(rng: Random, data: Data) -> str:
    """A guarded load without its guard."""
    found = [x for x in statements(data, "load") if "when" in x[1][x[2]]]
    if not found:
        return ""
    pointer, body, i = rng.choice(found)
    body[i].pop("other", None)
    return f"`when {body[i].pop('when')}` at {pointer}"


def _index(rng: Random, data: Data) -> str:
    """One dimension of one access, moved by a constant, or by a thread or block too many."""
    by = rng.choice((Const(1), Const(-1), Const(2), Const(-2), Const(32), Var("t"), Var("bx")))
    dimension = rng.randrange(4)

    def change(e: Expr) -> Expr | None:
        if not isinstance(e, Elem) or dimension >= len(e.index):
            return None
        moved = Apply("+", (e.index[dimension], by))
        return Elem(e.buffer, (*e.index[:dimension], moved, *e.index[dimension + 1 :]))

    return rewrite(rng, data, change)


def _turn(rng: Random, data: Data) -> str:
    """Two dimensions of an access, or the two operands of an operator, the other way round."""

    def change(e: Expr) -> Expr | None:
        if isinstance(e, Elem) and len(e.index) > 1:
            return Elem(e.buffer, (*e.index[:-2], e.index[-1], e.index[-2]))
        if isinstance(e, Apply) and len(e.args) == 2 and e.op in ("-", "//", "%", "<", "<=", ">", ">=", "cdiv"):
            return Apply(e.op, e.args[::-1])
        return None

    return rewrite(rng, data, change)


def _operator(rng: Random, data: Data) -> str:
    def change(e: Expr) -> Expr | None:
        return Apply(_OTHER[e.op], e.args) if isinstance(e, Apply) and e.op in _OTHER else None

    return rewrite(rng, data, change)


def _term(rng: Random, data: Data) -> str:
    """One operand in place of the whole."""
    keep = rng.choice((0, 1))
    arithmetic = ("+", "-", "*", "//", "%", "^", "min", "max", "cdiv")

    def change(e: Expr) -> Expr | None:
        return e.args[keep] if isinstance(e, Apply) and len(e.args) == 2 and e.op in arithmetic else None

    return rewrite(rng, data, change)


def _variable(rng: Random, data: Data) -> str:
    """A size, an index or a named value in place of another."""
    sizes = [p["name"] for p in data.get("params", ()) if not p.get("shape")]
    lets = [body[i]["name"] for _, body, i in statements(data, "let") if "view" not in body[i]]
    new = rng.choice(("t", "bx", "by", "bz", *sizes, *lets))

    def change(e: Expr) -> Expr | None:
        return Var(new) if isinstance(e, Var) and e.name != new else None

    return rewrite(rng, data, change)


TERMS: dict[str, Draw] = {
    "constant": _constant, "scale": _scale, "divisor": _slots, "comparison": _compare, "conjunct": _conjunct,
    "negate": _negate, "guard": _guard, "index": _index, "turn": _turn, "operator": _operator, "term": _term,
    "variable": _variable,
}  # fmt: skip
