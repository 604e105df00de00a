"""The warp that advice looks at, and the accesses it makes: addresses of its lanes as lists of integers.

Advice is about one warp of a block in the interior of a large problem, at the first iteration of the loops around an
access: it names what the hardware does with the pattern and claims nothing for all sizes. The warp is the first that
takes part in the access. Conditions on the thread alone leave lanes out; those on sizes and blocks are taken to hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

from amk.dsl.expr import Const, Expr, has_elements, names, subst
from amk.dsl.kernel import children
from amk.dsl.nodes import Param, Statement
from amk.dsl.traffic import Lanes
from amk.dsl.types import nbytes
from amk.harness.columns import Columns
from amk.harness.coverage import Site, global_sites, role_conditions
from amk.harness.events import Operand, Program, Unsupported
from amk.harness.faults import Fault

if TYPE_CHECKING:
    from amk.harness.context import Context

__all__ = ["Shared", "Warp", "first_values", "quiet", "shared_accesses", "sites"]

LARGE, LANES = 4096, 32


class Shared(NamedTuple):
    """One shared access with the conditions on the thread around it."""

    pointer: str
    operand: Operand
    conds: tuple[Expr, ...]
    loops: tuple[Any, ...]


def quiet(made: Callable[[Context], Iterator[Fault]]) -> Callable[[Context], Iterator[Fault]]:
    """Advice about what the checker does not know is no advice; the rules for faults say what is unknown."""

    @wraps(made)
    def quietly(ctx: Context) -> Iterator[Fault]:
        try:
            yield from made(ctx)
        except (Unsupported, ValueError, KeyError, ZeroDivisionError, OverflowError):
            return

    return quietly


def sites(p: Program) -> list[Site]:
    """Accesses of single threads; boxes and bulk copies are moved whole, whatever the lanes of a warp do."""
    try:
        return [
            s for s in global_sites(p) if not any(map(has_elements, s.index)) and s.mode != "a" and not _whole(p, s)
        ]
    except Unsupported:
        return []


def _whole(p: Program, s: Site) -> bool:
    d = p.kernel.declarations[s.tensor]
    return bool(s.box) or (isinstance(d, Param) and s.width * nbytes(d.dtype) > 16)


def shared_accesses(
    p: Program, body: tuple[Statement, ...], conds: tuple[Expr, ...] = (), loops: tuple[Any, ...] = ()
) -> Iterator[Shared]:
    """Every access to shared memory, in program order."""
    for s in body:
        if not p.matters(s):
            continue
        more = (*conds, p.inline(s.cond)) if s.kind == "if" else conds
        if s.kind == "load" and s.when is not None:
            more = (*more, p.inline(s.when))
        inside = (*loops, s) if s.kind == "for" else loops
        for o in p.operands(s):
            yield Shared(p.pointers[id(s)], o, more, inside)
        if s.kind == "team":
            for r in s.roles:
                yield from shared_accesses(p, r.body, (*more, *role_conditions(p, r)), inside)
            continue
        for _, inner in children(s):
            yield from shared_accesses(p, inner, more, inside)


def first_values(p: Program, loops: tuple[Any, ...]) -> dict[str, Expr]:
    """First values of loop variables and carried values."""
    out: dict[str, Expr] = {}
    for loop in loops:
        if loop.var not in p.thread_loops:
            out[loop.var] = subst(p.inline(loop.lo), out)
        out[loop.var + "#"] = Const(0)
        out.update({c.name: subst(p.inline(c.init), out) for c in loop.carry})
    return out


class Warp:
    """The warps of an interior block of a large problem, at the first iteration of every loop."""

    def __init__(self, p: Program) -> None:
        self.p = p
        self.typical = {"bx": 1, "by": 1, "bz": 0, "rank": 0, "gx": 64, "gy": 64, "gz": 1}
        for q in p.kernel.scalars:
            if q.dtype not in ("f32", "f64", "f16", "bf16", "bool"):
                step = q.multiple_of
                self.typical[q.name] = min(max(-(-LARGE // step) * step, q.min), q.max // step * step)
        self._inside: dict[tuple[int, ...], tuple[Columns, frozenset[str]]] = {}

    def lanes(self, e: Expr, s: Site | Shared) -> Lanes:
        """The term's value for each lane of the first warp that takes part, None for those that do not; [] where it is
        not known, or no thread takes part."""
        return next(iter(self.columns((e,), s)), [])

    def columns(self, terms: tuple[Expr, ...], s: Site | Shared) -> list[Lanes]:
        """As `lanes`, for several terms of one access."""
        for first in range(0, self.p.threads, LANES):
            columns, fixed = self._in(s.loops, first)
            if any(not names(e) <= columns.variables.keys() or has_elements(e) for e in terms):
                return []
            own = [c for c in s.conds if names(c) <= fixed and not has_elements(c)]  # those on the thread alone
            active = [all(x) for x in zip(*map(columns.of, own), strict=True)] if own else [True] * columns.rows
            if any(active):
                return [[x if on else None for x, on in zip(columns.of(e), active, strict=True)] for e in terms]
        return []

    def _in(self, loops: tuple[Any, ...], first: int) -> tuple[Columns, frozenset[str]]:
        """Values inside these loops, and the names whose values no size or block decides."""
        key = (first, *map(id, loops))
        if key not in self._inside:
            threads = list(range(first, min(first + LANES, self.p.threads)))
            columns = Columns(len(threads), {"t": threads, **self.typical})
            fixed = {"t"}
            for name, e in first_values(self.p, loops).items():
                if names(e) <= columns.variables.keys() and not has_elements(e):
                    columns.variables[name] = columns.value(e)
                    fixed |= {name} if names(e) <= fixed else set()
            self._inside[key] = columns, frozenset(fixed)
        return self._inside[key]
