"""Clusters as blocks of blocks: the kernel with `bx` as the number of the cluster, and the rank as what it is.

In a cluster of C the blocks stand next to each other along x: block `bx * C + rank` is the one of a rank in cluster
`bx`, and the grid has `gx // C` clusters (AMK102 shows that C divides it). The engines walk one cluster with all its
ranks.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from amk.dsl.expr import Apply, Const, Elem, Expr, Var, apply, names
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Carry, Role, Statement

__all__ = ["block_of", "by_cluster"]

_BX, _GX, _RANK = Var("bx"), Var("gx"), Var("rank")


@lru_cache(maxsize=8)
def by_cluster(kernel: KernelDescriptor) -> KernelDescriptor:
    """The kernel in terms of clusters; itself without any."""
    c = kernel.cluster
    if c == 1:
        return kernel
    grid = (apply("//", kernel.grid[0], c), *kernel.grid[1:])
    return kernel.replaced(grid=grid, body=_body(kernel.body, c))


def block_of(cluster: int, at: dict[str, int], rank: int) -> dict[str, int]:
    """A point in terms of clusters, in terms of blocks."""
    return at if cluster == 1 else {**at, "bx": at.get("bx", 0) * cluster + rank, "rank": rank}


def _body(body: tuple[Statement, ...], c: int) -> tuple[Statement, ...]:
    return tuple(_statement(s, c) for s in body)


def _statement(s: Any, c: int) -> Any:
    """The statement with every term rewritten (itself where none changes)."""
    held = {n: getattr(s, n) for n in type(s).model_fields}
    made = {n: _field(v, c) for n, v in held.items()}
    changed = {n: v for n, v in made.items() if v is not held[n]}
    return s.model_copy(update=changed) if changed else s


def _field(v: Any, c: int) -> Any:
    if isinstance(v, Expr):
        return _term(v, c)
    if isinstance(v, tuple) and v and not isinstance(v[0], (int, str)):
        new = tuple(_field(x, c) for x in v)
        return v if all(a is b for a, b in zip(new, v, strict=True)) else new
    if isinstance(v, dict):
        out = {k: _field(x, c) for k, x in v.items()}
        return v if all(out[k] is x for k, x in v.items()) else out
    if isinstance(v, (Role, Carry)) or hasattr(v, "kind"):
        return _statement(v, c)
    return v


@lru_cache(maxsize=4096)
def _term(e: Expr, c: int) -> Expr:
    if not names(e) & {"bx", "gx"}:
        return e
    if isinstance(e, Apply) and e.args[-1] == Const(c) and e.op in ("//", "%") and e.args[0] in (_BX, _GX):
        if e.args[0] == _GX:
            return _GX if e.op == "//" else Const(0)
        return _BX if e.op == "//" else _RANK
    if isinstance(e, Var):
        return _BX * c + _RANK if e.name == "bx" else _GX * c if e.name == "gx" else e
    if isinstance(e, Elem):
        return Elem(e.buffer, tuple(_term(i, c) for i in e.index))
    assert isinstance(e, Apply)
    return apply(e.op, *(_term(a, c) for a in e.args))
