"""Findings about blocks that speak to each other, with a run of a small grid that shows what goes wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amk.dsl.nodes import Param
from amk.dsl.types import DTYPES
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Related

__all__ = ["shown"]

SIZES = (2, 3, 70, 200)  # of everything, tried in turn: that blocks meet takes several of them


def shown(k: Context, found: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """The findings; an error gets values, the first with which a run goes wrong if one does."""
    for d in found:
        yield d if d.severity != "error" else _with_values(k, d)


def _with_values(k: Context, d: Diagnostic) -> Diagnostic:
    from amk.harness.interpret import witness

    tried = [{p.name: _near(p, n) for p in k.kernel.scalars if DTYPES[p.dtype].family == "int"} for n in SIZES]
    for sizes in tried:
        hit = witness(k.kernel, d.code, sizes)
        if hit is not None:
            values, pointer = hit
            there = Related(pointer, "where a thread runs into it", getattr(k.statements.get(pointer), "at", None))
            return d._replace(counterexample=values, related=d.related or (there,))
    return d._replace(counterexample={**tried[0], "bx": 0})  # the first block; no run of it went wrong


def _near(p: Param, n: int) -> int:
    """The value of the domain next to a number, from below where there is one."""
    n = min(max(n, p.min), p.max) // p.multiple_of * p.multiple_of
    return n if n >= p.min else n + p.multiple_of
