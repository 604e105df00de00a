"""A kernel as data that a mutation changes in place: its statements, the expressions in it, and their subterms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from amk.dsl.expr import Apply, Elem, Expr, parts
from amk.dsl.text import parse

__all__ = ["Data", "Draw", "rewrite", "statements"]

Data = dict[str, Any]
Draw = Callable[[Random, Data], str]  # changes the data in place; '' where there is nothing to change
Site = tuple[str, Any, Any]  # where, and the container and key of an expression
_TEXTS = (
    "value", "view", "dst", "src", "when", "other", "lo", "hi", "step", "until", "cond", "fact", "barrier", "parity",
    "bytes", "peer", "flag", "old",
)  # fmt: skip
_LISTS = ("values", "args", "refs")


def statements(data: Data, *kinds: str) -> list[tuple[str, list[Data], int]]:
    """Every statement of these kinds (of any, where none is named): its pointer, its body and its place there."""
    return [
        (f"{pointer}/{i}", body, i)
        for pointer, body in _bodies(data.get("body", []))
        for i, s in enumerate(body) if not kinds or s["kind"] in kinds
    ]  # fmt: skip


def _bodies(body: list[Data], pointer: str = "/body") -> Iterator[tuple[str, list[Data]]]:
    yield pointer, body
    for i, s in enumerate(body):
        if "body" in s:
            yield from _bodies(s["body"], f"{pointer}/{i}/body")
        for j, role in enumerate(s.get("roles", ())):
            yield from _bodies(role["body"], f"{pointer}/{i}/roles/{j}/body")


def rewrite(rng: Random, data: Data, change: Callable[[Expr], Expr | None]) -> str:
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


def _sites(data: Data) -> Iterator[Site]:
    for pointer, body, i in statements(data):
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
