"""Mutations of statements: dropped, moved, repeated, guarded and unguarded; barriers, waits and loops."""

from __future__ import annotations

import copy
from random import Random

from amk.dsl.expr import Apply, Const
from amk.dsl.text import parse
from amk.harness.mutation_data import Data, Draw, statements

__all__ = ["STATEMENTS"]

_ROWS = (
    ("cp.async.4", "cp.async.8", "cp.async.16"), ("shfl.down", "shfl.up"), ("shfl.bfly", "shfl.idx"),
    ("ldmatrix.x1", "ldmatrix.x2", "ldmatrix.x4"), ("ldmatrix.x1.trans", "ldmatrix.x2.trans", "ldmatrix.x4.trans"),
    ("ldmatrix.x2", "ldmatrix.x2.trans"), ("ldmatrix.x4", "ldmatrix.x4.trans"),
    ("mma.m16n8k16.bf16", "mma.m16n8k8.bf16"), ("bulk.store", "bulk.reduce.add"),
    ("wgmma.m64n8k16.bf16.k.k", "wgmma.m64n16k16.bf16.k.k", "wgmma.m64n8k16.f16.k.k"),
    ("vote.all", "vote.any", "vote.ballot"), ("match.any", "match.all"), ("redux.add", "redux.min", "redux.max"),
)  # fmt: skip
_ORDER = ("sync", "wait", "commit", "fence", "arrive")


def _drop(rng: Random, data: Data) -> str:
    rare = rng.random() < 0.5  # what orders threads is rare, and the best place to err
    kinds = (*_ORDER, "assume") if rare else ("store", "load", "call", "atomic", "if", "for")
    found = statements(data, *kinds)
    if not found:
        return ""
    pointer, body, i = rng.choice(found)
    return f"{body.pop(i)['kind']} at {pointer}"


def _unguard(rng: Random, data: Data) -> str:
    found = statements(data, "if")
    if not found:
        return ""
    pointer, body, i = rng.choice(found)
    cond = body[i]["cond"]
    body[i : i + 1] = body[i]["body"]
    return f"`if {cond}` at {pointer} becomes its body"


def _wrap(rng: Random, data: Data) -> str:
    found = statements(data, "sync") if rng.random() < 0.7 else statements(data, *_ORDER, "call")
    if not found:
        return ""
    pointer, body, i = rng.choice(found)
    body[i] = {"kind": "if", "cond": "t < 16", "body": [body[i]]}
    return f"{body[i]['body'][0]['kind']} at {pointer} only where t < 16"


def _only(rng: Random, data: Data) -> str:
    """A statement for some threads or blocks alone."""
    found = [x for x in statements(data) if x[1][x[2]]["kind"] != "let"]
    if not found:
        return ""
    pointer, body, i = rng.choice(found)
    threads = data["threads"]
    cond = rng.choice(("t < 1", "t % 32 < 31", f"t < {threads - 1}", "t % 2 == 0", f"t >= {threads // 2}", "bx < 1"))
    body[i] = {"kind": "if", "cond": cond, "body": [body[i]]}
    return f"{body[i]['body'][0]['kind']} at {pointer} only where {cond}"


def _swap(rng: Random, data: Data) -> str:
    found = [x for x in statements(data) if x[2] + 1 < len(x[1])]
    if not found:
        return ""
    pointer, body, i = rng.choice(found)
    body[i], body[i + 1] = body[i + 1], body[i]
    return f"{body[i + 1]['kind']} at {pointer} and the {body[i]['kind']} after it"


def _shift(rng: Random, data: Data) -> str:
    """An ordering point, or any other statement, some places up or down in its body."""
    ordering = [x for x in statements(data, *_ORDER) if len(x[1]) > 1]
    found = ordering if ordering and rng.random() < 0.5 else [x for x in statements(data) if len(x[1]) > 1]
    if not found:
        return ""
    pointer, body, i = rng.choice(found)
    to = rng.choice([j for j in range(max(0, i - 6), min(len(body), i + 7)) if j != i])
    body.insert(to, body.pop(i))
    return f"{body[to]['kind']} at {pointer}, {abs(to - i)} {'up' if to < i else 'down'}"


def _move(rng: Random, data: Data) -> str:
    """Out of a loop, before or after it; or into one from beside it."""
    found = statements(data, "for")
    if not found:
        return ""
    pointer, body, i = rng.choice(found)
    inner, first = body[i]["body"], rng.random() < 0.5
    if rng.random() < 0.5:
        if len(inner) < 2:
            return ""
        moved = inner.pop(0 if first else -1)
        body.insert(i if first else i + 1, moved)
        return f"{moved['kind']} out of the loop at {pointer}, to {'before' if first else 'after'} it"
    beside = i - 1 if first else i + 1
    if not 0 <= beside < len(body):
        return ""
    moved = body.pop(beside)
    inner.insert(0 if first else len(inner), moved)
    return f"{moved['kind']} into the loop at {pointer}, from {'before' if first else 'after'} it"


def _repeat(rng: Random, data: Data) -> str:
    """A statement twice, the second time at once or at the end of its body."""
    found = [x for x in statements(data) if x[1][x[2]]["kind"] not in ("let", "for")]
    if not found:
        return ""
    pointer, body, i = rng.choice(found)
    at = rng.choice((i + 1, len(body)))
    body.insert(at, copy.deepcopy(body[i]))
    return f"{body[i]['kind']} at {pointer} again{'' if at == i + 1 else ' at the end'}"


def _scope(rng: Random, data: Data) -> str:
    """A barrier of the warp instead of the block, or back."""
    found = statements(data, "sync")
    if not found:
        return ""
    pointer, body, i = rng.choice(found)
    old = body[i].get("scope", "block")
    body[i]["scope"] = "warp" if old == "block" else "block"
    return f"{old} to {body[i]['scope']} at {pointer}"


def _pending(rng: Random, data: Data) -> str:
    found = [x for x in statements(data, "wait") if "barrier" not in x[1][x[2]]]
    if not found:
        return ""
    pointer, body, i = rng.choice(found)
    old = body[i].get("pending", 0)
    body[i]["pending"] = old + rng.choice((-1, 1, 2))
    return f"{old} to {body[i]['pending']} at {pointer}"


def _bound(rng: Random, data: Data) -> str:
    """A bound or the step of a loop."""
    found = statements(data, "for")
    if not found:
        return ""
    pointer, body, i = rng.choice(found)
    s, field = body[i], rng.choice(("lo", "hi", "hi", "step"))
    old = parse(s.get(field, "1" if field == "step" else "0"))
    one = Const(1)
    choices = {
        "+ 1": Apply("+", (old, one)), "- 1": Apply("-", (old, one)), "doubled": Apply("*", (old, Const(2))),
        "halved": Apply("//", (old, Const(2))),
    }  # fmt: skip
    how = rng.choice(list(choices))
    s[field] = str(choices[how])
    return f"{field} {old} {how} at {pointer}"


def _carry(rng: Random, data: Data) -> str:
    """A carried value: where it starts, or what it becomes."""
    found = [
        (pointer, j, c) for pointer, body, i in statements(data, "for") for j, c in enumerate(body[i].get("carry", ()))
    ]
    if not found:
        return ""
    pointer, j, c = rng.choice(found)
    init, following = c["init"], c["next"]
    others = [x["next"] for p, _, x in found if p == pointer and x is not c]
    changes = [("init", f"({init}) + 1"), ("init", f"({init}) - 1"), ("next", init), ("next", c["name"])]
    changes += [("next", f"({following}) + 1"), *(("next", x) for x in others)]
    field, new = rng.choice(changes)
    old, c[field] = c[field], str(parse(new))
    return f"{field} of {c['name']}, {old} to {c[field]} at {pointer}/carry/{j}"


def _width(rng: Random, data: Data) -> str:
    """The width of a load."""
    found = [(pointer, body[i]) for pointer, body, i in statements(data, "load")]
    if not found:
        return ""
    pointer, s = rng.choice(found)
    old = s.get("width", 1)
    s["width"] = rng.choice((old * 2, max(1, old // 2)))
    return f"{old} to {s['width']} at {pointer}"


def _copy(rng: Random, data: Data) -> str:
    """The width of an asynchronous copy, the way of a shuffle, or another row of the same operands."""
    found = [
        (pointer, body[i], [r for family in _ROWS if body[i]["row"] in family for r in family if r != body[i]["row"]])
        for pointer, body, i in statements(data, "call")
    ]
    found = [x for x in found if x[2]]
    if not found:
        return ""
    pointer, s, others = rng.choice(found)
    old, s["row"] = s["row"], rng.choice(others)
    return f"{old} to {s['row']} at {pointer}"


STATEMENTS: dict[str, Draw] = {
    "drop": _drop, "unguard": _unguard, "wrap": _wrap, "only": _only, "swap": _swap, "shift": _shift, "move": _move,
    "repeat": _repeat, "scope": _scope, "pending": _pending, "bound": _bound, "carry": _carry, "width": _width,
    "copy": _copy,
}  # fmt: skip
