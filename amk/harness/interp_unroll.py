"""Loops as array axes: a nest of constant loops over register assignments runs as one NumPy statement.

That is allowed when no iteration can see another's writes: every written register element is named by one and the same
index wherever it occurs in the nest, and that index is different in each iteration.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from amk.dsl.evaluate import function_of
from amk.dsl.expr import Apply, Elem, Expr, Var, names, parts, subterms
from amk.dsl.nodes import For, Load, Statement, Store
from amk.harness.interp_expr import Compiler

if TYPE_CHECKING:
    from amk.harness.interp_machine import Machine

__all__ = ["Unroll"]

MAX_ITERATIONS = 4096


@dataclass(frozen=True, slots=True)
class _Item:
    """One statement of a nest with the loops round it, outermost first."""

    statement: Store | Load
    loops: tuple[For, ...]


class Unroll:
    """Recognises such nests once each and runs them."""

    def __init__(self, compiler: Compiler, detect: bool) -> None:
        self.compiler, self.detect = compiler, detect
        self._plans: dict[int, tuple[_Item, ...] | None] = {}

    def wide(self, m: Machine, loop: For) -> bool:
        """Runs the loop as array axes if it may; says whether it did."""
        if id(loop) not in self._plans:
            self._plans[id(loop)] = self._plan(loop)
        plan = self._plans[id(loop)]
        if plan is None or (m.mask is not None and any(x.statement.kind == "load" for x in plan)):
            return False
        for item in plan:
            m.program.pointers.setdefault(id(item.statement), m.program.pointers.get(id(loop), ""))
            self._run(m, item)
        return True

    def _run(self, m: Machine, item: _Item) -> None:
        trips = 1
        for depth, loop in enumerate(item.loops):
            values = np.arange(*(x.value for x in (loop.lo, loop.hi, loop.step)))
            m.env[loop.var] = values.reshape(-1, *[1] * (len(item.loops) - 1 - depth), 1, 1)
            trips *= len(values)
        if trips:
            m.program.spend((trips - 1) * m.nb * m.nt)
            m.step(item.statement)

    def _plan(self, loop: For) -> tuple[_Item, ...] | None:
        items = self._collect(loop, ())
        if not items or any(self._writes_memory(x.statement) for x in items):
            return None
        return tuple(map(_straightened, items)) if self._independent(items) else None

    def _collect(self, loop: For, outer: tuple[For, ...]) -> list[_Item] | None:
        """The statements of a nest, or None where it holds anything else."""
        if loop.carry or loop.until is not None or not _counted(loop):
            return None
        loops = (*outer, loop)
        out: list[_Item] = []
        for s in loop.body:
            found = self._collect(s, loops) if isinstance(s, For) else self._single(s, loops)
            if found is None:
                return None
            out += found
        return out

    def _single(self, s: Statement, loops: tuple[For, ...]) -> list[_Item] | None:
        if isinstance(s, Store) and len(s.values) == 1:
            return [_Item(s, loops)]
        if isinstance(s, Load) and s.when is None and not self.detect:
            return [_Item(s, loops)]
        return None

    def _writes_memory(self, s: Store | Load) -> bool:
        return self.compiler.kernel.space(s.dst) != "register" or s.dst.buffer in self.compiler.kernel.views

    def _independent(self, items: list[_Item]) -> bool:
        written: dict[str, tuple[tuple[Expr, ...], tuple[For, ...]]] = {}
        for x in items:
            mine = (x.statement.dst.index, x.loops)
            if written.setdefault(x.statement.dst.buffer, mine) != mine or not _injective(x):
                return False
        for x in items:
            for e in _read(x.statement):
                if self._touches(e, written):
                    return False
        return True

    def _touches(self, e: Expr, written: dict[str, tuple[tuple[Expr, ...], tuple[For, ...]]]) -> bool:
        """Whether a term reads a written register other than at its own index."""
        views = self.compiler.kernel.views
        for x in subterms(e):
            if isinstance(x, Elem):
                name = views[x.buffer].buffer if x.buffer in views else x.buffer
                if name in written and (x.buffer in views or written[name][0] != x.index):
                    return True
        return False


def _counted(loop: For) -> bool:
    """Whether its bounds and a positive step are constants (a step of 0 is refused where the loop is walked)."""
    lo, hi, step = (getattr(e, "value", None) for e in (loop.lo, loop.hi, loop.step))
    return type(lo) is int and type(hi) is int and type(step) is int and step > 0


def _read(s: Store | Load) -> list[Expr]:
    """The terms whose value a statement uses."""
    return list(s.values) if isinstance(s, Store) else list(s.src.index)


def _injective(x: _Item) -> bool:
    """Whether each iteration writes elements of its own (indices of loop variables and constants only)."""
    variables = tuple(loop.var for loop in x.loops)
    index = x.statement.dst.index
    if not frozenset().union(*map(names, index)) <= set(variables) or any(
        isinstance(s, Elem) for e in index for s in subterms(e)
    ):
        return False
    ranges = [range(*(b.value for b in (loop.lo, loop.hi, loop.step))) for loop in x.loops]
    total = int(np.prod([len(r) for r in ranges]))
    if not 0 < total <= MAX_ITERATIONS:
        return False
    width = x.statement.width if isinstance(x.statement, Load) else 1
    made = function_of(index, variables)
    seen = set()
    for point in np.ndindex(*(len(r) for r in ranges)):
        *lead, last = made(*(r[i] for r, i in zip(ranges, point, strict=True)))
        seen |= {(*lead, last + e) for e in range(width)}
    return len(seen) == total * width


def _straightened(x: _Item) -> _Item:
    """A statement that walks its innermost loop there and back (`select(i % 2 == 0, j, 7 - j)`), walked in order.

    The iterations are independent, so their order is free: where every use of `j` is inside one term that takes the
    values of `j`'s range for each value of the outer variables, the term becomes `j` itself.
    """
    s, inner = x.statement, x.loops[-1]
    if not isinstance(s, Store):
        return x
    whole = (s.dst, *s.values)
    turns = {
        e for w in whole for e in subterms(w) if isinstance(e, Apply) and e.op == "select" and inner.var in names(e)
    }
    if len(turns) != 1:
        return x
    term, var = turns.pop(), Var(inner.var)
    if any(inner.var in names(_replaced(w, term, Var("_"))) for w in whole) or not _permutes(term, x.loops):
        return x
    dst, *values = (_replaced(w, term, var) for w in whole)
    return _Item(s.model_copy(update={"dst": dst, "values": tuple(values)}), x.loops)


def _replaced(e: Expr, old: Expr, new: Expr) -> Expr:
    """The term with every `old` in it replaced."""
    if e == old:
        return new
    inside = tuple(_replaced(p, old, new) for p in parts(e))
    if isinstance(e, Apply):
        return Apply(e.op, inside)
    return Elem(e.buffer, inside) if isinstance(e, Elem) else e


def _permutes(term: Expr, loops: tuple[For, ...]) -> bool:
    """Whether the term runs through the innermost loop's values, for each value of the outer ones."""
    variables = tuple(loop.var for loop in loops)
    if not names(term) <= set(variables) or any(isinstance(e, Elem) for e in subterms(term)):
        return False
    *outer, inner = (range(*(b.value for b in (loop.lo, loop.hi, loop.step))) for loop in loops)
    made = function_of((term,), variables)
    return all(sorted(made(*point, j)[0] for j in inner) == list(inner) for point in product(*outer))
