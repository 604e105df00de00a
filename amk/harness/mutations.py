"""Mutations: one small change of a kernel, drawn from a seed. What they make may be right, faulty or nonsense.

In: a kernel and a random source. Out: a kernel that differs in its hash, and a line that says what was done.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from pydantic import ValidationError

from amk.dsl.expr import Apply, Const, Elem, Expr, ExprError, parts
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.text import parse

__all__ = ["MUTATIONS", "mutate"]

Data = dict[str, Any]
Draw = Callable[[Random, Data], str]  # changes the data in place; '' where there is nothing to change
Site = tuple[str, Any, Any]  # where, and the container and key of an expression
_TEXTS = ("value", "view", "dst", "src", "when", "other", "lo", "hi", "step", "until", "cond", "fact", "barrier")
_LISTS = ("values", "args", "refs")
_FLIP = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_TRIES = 64


def mutate(kernel: KernelDescriptor, rng: Random) -> tuple[KernelDescriptor, str]:
    """A kernel that differs from this one in one place, and what was done. Raises ValueError where nothing can."""
    for _ in range(_TRIES):
        data = copy.deepcopy(kernel.to_dict(places=False))
        name = rng.choice(_NAMES)
        try:
            said = MUTATIONS[name](rng, data)
            mutant = KernelDescriptor.model_validate(data) if said else kernel
        except (ValidationError, ExprError):
            continue
        if mutant.hash != kernel.hash:
            return mutant, f"{name}: {said}"
    raise ValueError(f"no mutation applies to {kernel.name}")


# ---------------------------------------------------------------------------------------------------------- statements
def _bodies(body: list[Data], pointer: str = "/body") -> Iterator[tuple[str, list[Data]]]:
    yield pointer, body
    for i, s in enumerate(body):
        if "body" in s:
            yield from _bodies(s["body"], f"{pointer}/{i}/body")
        for j, role in enumerate(s.get("roles", ())):
            yield from _bodies(role["body"], f"{pointer}/{i}/roles/{j}/body")


def _statements(data: Data, *kinds: str) -> list[tuple[str, list[Data], int]]:
    """Every statement of these kinds (of any, where none is named): its pointer, its body and its place there."""
    return [
        (f"{pointer}/{i}", body, i)
        for pointer, body in _bodies(data["body"])
        for i, s in enumerate(body) if not kinds or s["kind"] in kinds
    ]  # fmt: skip


def _drop(rng: Random, data: Data) -> str:
    rare = rng.random() < 0.5  # what orders threads is rare, and the best place to err
    kinds = ("sync", "commit", "wait") if rare else ("sync", "store", "load", "call", "commit", "wait", "atomic")
    found = _statements(data, *kinds)
    if not found:
        return ""
    pointer, body, i = rng.choice(found)
    return f"{body.pop(i)['kind']} at {pointer}"


def _unguard(rng: Random, data: Data) -> str:
    found = _statements(data, "if")
    if not found:
        return ""
    pointer, body, i = rng.choice(found)
    cond = body[i]["cond"]
    body[i : i + 1] = body[i]["body"]
    return f"`if {cond}` at {pointer} becomes its body"


def _wrap(rng: Random, data: Data) -> str:
    found = _statements(data, "sync") if rng.random() < 0.7 else _statements(data, "sync", "wait", "commit", "call")
    if not found:
        return ""
    pointer, body, i = rng.choice(found)
    body[i] = {"kind": "if", "cond": "t < 16", "body": [body[i]]}
    return f"{body[i]['body'][0]['kind']} at {pointer} only where t < 16"


def _swap(rng: Random, data: Data) -> str:
    found = [x for x in _statements(data) if x[2] + 1 < len(x[1])]
    if not found:
        return ""
    pointer, body, i = rng.choice(found)
    body[i], body[i + 1] = body[i + 1], body[i]
    return f"{body[i + 1]['kind']} at {pointer} and the {body[i]['kind']} after it"


def _move(rng: Random, data: Data) -> str:
    """Out of a loop, before or after it; or into one from beside it."""
    found = _statements(data, "for")
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


def _pending(rng: Random, data: Data) -> str:
    found = [x for x in _statements(data, "wait") if "barrier" not in x[1][x[2]]]
    if not found:
        return ""
    pointer, body, i = rng.choice(found)
    old = body[i].get("pending", 0)
    body[i]["pending"] = old + rng.choice((-1, 1))
    return f"{old} to {body[i]['pending']} at {pointer}"


# --------------------------------------------------------------------------------------------------------- expressions
def _sites(data: Data) -> Iterator[Site]:
    for pointer, body, i in _statements(data):
        s = body[i]
        if s["kind"] == "for":  # defaults are left out of the data
            s.setdefault("lo", "0")
            s.setdefault("step", "1")
        yield from ((f"{pointer}/{n}", s, n) for n in _TEXTS if isinstance(s.get(n), str))
        for n in _LISTS:
            inner = s.get(n, ())
            keys = list(inner) if isinstance(inner, dict) else range(len(inner))
            yield from ((f"{pointer}/{n}/{key}", inner, key) for key in keys)
        for j, c in enumerate(s.get("carry", ())):
            yield from ((f"{pointer}/carry/{j}/{n}", c, n) for n in ("init", "next"))
    yield from ((f"/grid/{i}", data["grid"], i) for i in range(len(data["grid"])))
    for j, p in enumerate(data.get("params", ())):
        for n in ("shape", "strides"):
            yield from ((f"/params/{j}/{n}/{i}", p[n], i) for i in range(len(p.get(n) or ())))


def _rewrite(rng: Random, data: Data, change: Callable[[Expr], Expr | None]) -> str:
    """Changes one subterm for which `change` has an answer, chosen evenly among places, then among its subterms."""
    sites = []
    for where, box, key in _sites(data):
        e = parse(box[key])
        if paths := [p for p, x in _paths(e) if change(x) is not None]:
            sites.append((where, box, key, e, paths))
    if not sites:
        return ""
    where, box, key, e, paths = rng.choice(sites)
    box[key] = str(_replaced(e, rng.choice(paths), change))
    return f"{e} to {box[key]} at {where}"


def _paths(e: Expr, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Expr]]:
    yield path, e
    for i, x in enumerate(parts(e)):
        yield from _paths(x, (*path, i))


def _replaced(e: Expr, path: tuple[int, ...], change: Callable[[Expr], Expr | None]) -> Expr:
    if not path:
        new = change(e)
        return e if new is None else new
    inner = list(parts(e))
    inner[path[0]] = _replaced(inner[path[0]], path[1:], change)
    if isinstance(e, Apply):
        return Apply(e.op, tuple(inner))
    return Elem(e.buffer, tuple(inner)) if isinstance(e, Elem) else e


def _constant(rng: Random, data: Data) -> str:
    delta = rng.choice((-1, 1))

    def change(e: Expr) -> Expr | None:
        return Const(e.value + delta) if isinstance(e, Const) and type(e.value) is int else None

    return _rewrite(rng, data, change)


def _slots(rng: Random, data: Data) -> str:
    """The divisor of a remainder, such as the slots of a ring, or what it is compared with."""
    delta = rng.choice((-1, 1))

    def change(e: Expr) -> Expr | None:
        if not (isinstance(e, Apply) and e.op in ("%", "==", "//") and isinstance(c := e.args[1], Const)):
            return None
        return Apply(e.op, (e.args[0], Const(c.value + delta))) if type(c.value) is int else None

    return _rewrite(rng, data, change)


def _compare(rng: Random, data: Data) -> str:
    def change(e: Expr) -> Expr | None:
        return Apply(_FLIP[e.op], e.args) if isinstance(e, Apply) and e.op in _FLIP else None

    return _rewrite(rng, data, change)


def _conjunct(rng: Random, data: Data) -> str:
    keep = rng.choice((0, 1))

    def change(e: Expr) -> Expr | None:
        return e.args[keep] if isinstance(e, Apply) and e.op == "and" else None

    return _rewrite(rng, data, change)


def _guard(rng: Random, data: Data) -> str:
    """A guarded load without its guard."""
    found = [x for x in _statements(data, "load") if "when" in x[1][x[2]]]
    if not found:
        return ""
    pointer, body, i = rng.choice(found)
    body[i].pop("other", None)
    return f"`when {body[i].pop('when')}` at {pointer}"


# -------------------------------------------------------------------------------------------------------- declarations
def _grid(rng: Random, data: Data) -> str:
    i, delta = rng.randrange(len(data["grid"])), rng.choice((-1, -1, 1))
    old = parse(data["grid"][i])
    data["grid"][i] = str(Apply("+" if delta > 0 else "-", (old, Const(1))))
    return f"{old} to {data['grid'][i]}"


def _shape(rng: Random, data: Data) -> str:
    if not data.get("buffers"):
        return ""
    b = rng.choice(data["buffers"])
    i, delta = rng.randrange(len(b["shape"])), rng.choice((-1, -1, 1))
    old = list(b["shape"])
    b["shape"] = [n + delta if j == i else n for j, n in enumerate(old)]
    return f"{b['name']}{old} to {b['shape']}"


def _layout(rng: Random, data: Data) -> str:
    shared = [b for b in data.get("buffers", ()) if b["space"] == "shared"]
    if not shared:
        return ""
    b = rng.choice(shared)
    old = dict(b["layout"]) if b.get("layout") else None
    choices: list[Data | None] = [None, {"kind": "padded", "pad": rng.choice((1, 2, 4))}]
    choices.append({"kind": "swizzle", "bits": rng.choice((1, 2)), "base": rng.choice((0, 1, 2)), "shift": 3})
    if old:
        choices += [{**old, n: v + d} for n, v in old.items() if type(v) is int for d in (-1, 1)]
    b["layout"] = rng.choice(choices)
    return f"{b['name']}: {old} to {b['layout']}"


def _weaken(rng: Random, data: Data) -> str:
    """A promise about an argument that no longer holds."""
    found = [(p, n) for p in data.get("params", ()) for n in ("multiple_of", "align") if p.get(n, 1) > 1]
    if not found:
        return ""
    p, n = rng.choice(found)
    old = p[n]
    p[n] = rng.choice((1, max(1, old // 2)))
    return f"{n} of {p['name']}, {old} to {p[n]}"


def _width(rng: Random, data: Data) -> str:
    """The width of a load."""
    found = [(pointer, body[i]) for pointer, body, i in _statements(data, "load")]
    if not found:
        return ""
    pointer, s = rng.choice(found)
    old = s.get("width", 1)
    s["width"] = rng.choice((old * 2, max(1, old // 2)))
    return f"{old} to {s['width']} at {pointer}"


MUTATIONS: dict[str, Draw] = {
    "drop": _drop, "unguard": _unguard, "wrap": _wrap, "swap": _swap, "move": _move, "pending": _pending,
    "constant": _constant, "divisor": _slots, "comparison": _compare, "conjunct": _conjunct, "guard": _guard,
    "grid": _grid, "shape": _shape, "layout": _layout, "weaken": _weaken, "width": _width,
}  # fmt: skip
_WEIGHTS = {"drop": 3, "constant": 5, "swap": 2, "divisor": 2, "comparison": 2, "move": 2, "shape": 2, "wrap": 2}
_NAMES = [n for n in MUTATIONS for _ in range(_WEIGHTS.get(n, 1))]
