"""Advice on vector accesses: elements side by side that a thread moves one by one, in a loop or one statement after the
other, where a wider access would be aligned for every thread, iteration and size.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from math import gcd
from typing import TYPE_CHECKING, Any

from amk.dsl.expr import Const, Elem, Expr, Var, has_elements, names
from amk.dsl.kernel import children
from amk.dsl.layout import Swizzle
from amk.dsl.layout import strides as strides_of
from amk.dsl.nodes import Buffer, Param, Statement
from amk.dsl.types import nbytes
from amk.harness.advice_warp import Shared, quiet, shared_accesses
from amk.harness.coverage import Site, linear
from amk.harness.events import Program
from amk.harness.faults import Fault

if TYPE_CHECKING:
    from amk.harness.context import Context

__all__ = ["run_length", "side_by_side", "widths"]

_WIDTHS, _BYTES = (16, 8, 4, 2), 16  # elements, and bytes at most, of one access


@quiet
def widths(ctx: Context) -> Iterator[Fault]:
    """Copies of single elements where each thread moves several neighbours in a row and a vector would fit."""
    p = ctx.program
    found = [(s.pointer, s.tensor, run_length(p, s)) for s in ctx.single_accesses]
    found += [(s.pointer, s.operand.ref.buffer, _shared_run(p, s)) for s in shared_accesses(p, p.kernel.body)]
    found += [(p.pointers[id(run[0])], _ref(run[0]).buffer, len(run)) for run in ctx.side_by_side]
    for pointer, name, n in found:
        if n > 1:
            message = f"each thread moves {n} neighbouring elements of '{name}' one by one; width {n} would do"
            yield Fault("AMK505", pointer, message, {"width": n}, (), f"use width={n} (alignment and sizes allow it)")


# ------------------------------------------------------------------------------------------------------------ in loops
def run_length(p: Program, s: Site) -> int:
    """Elements of a global array that a thread moves in a row through the innermost loop, if a vector may take them."""
    return _in_loop(p, s.tensor, s.index, s.width, s.loops, s.conds)


def _shared_run(p: Program, s: Shared) -> int:
    o = s.operand
    if o.mode not in ("r", "w") or o.tile or o.dense:
        return 1
    r = p.kernel.resolve(o.ref)
    return _in_loop(p, r.buffer, tuple(map(p.inline, r.index)), o.width, s.loops, s.conds)


def _in_loop(
    p: Program, name: str, index: tuple[Expr, ...], width: int, loops: tuple[Any, ...], conds: tuple[Expr, ...]
) -> int:  # fmt: skip
    if width != 1 or not loops:
        return 1
    loop = loops[-1]
    lo, hi, step = (p.inline(e) for e in (loop.lo, loop.hi, loop.step))
    if any(map(has_elements, index)):
        return 1  # an index that may change on the way
    if lo != Const(0) or step != Const(1) or not isinstance(hi, Const) or any(loop.var in names(c) for c in conds):
        return 1
    form = linear(index[-1])
    if form.pop(Var(loop.var), 0) != 1 or any(loop.var in names(e) for e in (*form, *index[:-1])):
        return 1
    return next((w for w in _WIDTHS if int(hi.value) % w == 0 and _aligned(p, name, form, w)), 1)


# -------------------------------------------------------------------------------------------------- one after the other
def side_by_side(p: Program, body: tuple[Statement, ...]) -> Iterator[list[Any]]:
    """Statements that follow each other and move neighbouring elements between an array and neighbouring registers."""
    for key, same in groupby(body, lambda s: _kind(p, s)):
        if key is not None and len(run := list(same)) > 1:
            yield from _runs(p, run)
    for s in body:
        for _, inner in children(s):
            yield from side_by_side(p, inner)


def _kind(p: Program, s: Statement) -> tuple[Any, ...] | None:
    """What must be alike: the arrays, all indices but the last, and the condition.

    None of what moves no single element, and where an index or condition reads a register: the statement before may
    have changed it.
    """
    if s.kind == "load" and s.width == 1 and p.kernel.space(s.src) != "register":
        terms = [e for e in (s.when, s.other, s.peer) if e is not None]
    elif s.kind == "store" and len(s.values) == 1 and p.kernel.space(s.dst) != "register":
        terms = [s.peer] if s.peer is not None else []
    else:
        return None
    found = [p.kernel.resolve(r) for r in _both(s)]
    if any(map(has_elements, (*(e for r in found for e in r.index), *terms))):
        return None
    return (s.kind, *((r.buffer, r.index[:-1]) for r in found), *terms)


def _ref(s: Any) -> Elem:
    ref: Elem = s.src if s.kind == "load" else s.dst
    return ref


def _runs(p: Program, run: list[Any]) -> Iterator[list[Any]]:
    """The longest vectors, from left to right."""
    forms = [[linear(p.inline(p.kernel.resolve(x).index[-1])) for x in _both(s)] for s in run]
    i = 0
    while i < len(run):
        name = p.kernel.resolve(_ref(run[i])).buffer
        fits = (w for w in _WIDTHS if _steps(forms[i : i + w], w) and _aligned(p, name, forms[i][0], w))
        w = next(fits, 1)
        if w > 1:
            yield run[i : i + w]
        i += w


def _both(s: Any) -> tuple[Elem, ...]:
    """The element in memory, and the register of a load."""
    return (s.src, s.dst) if s.kind == "load" else (s.dst,)


def _steps(forms: list[list[dict[Expr, int]]], w: int) -> bool:
    """Whether `w` statements move one element after the other."""
    return len(forms) == w and all(
        _plus(a, n) == b for n, x in enumerate(forms) for a, b in zip(forms[0], x, strict=True)
    )


def _plus(form: dict[Expr, int], n: int) -> dict[Expr, int]:
    moved = {**form, Const(1): form.get(Const(1), 0) + n}
    return {x: k for x, k in moved.items() if k}


# ----------------------------------------------------------------------------------------------------------- alignment
def _aligned(p: Program, name: str, form: dict[Expr, int], w: int) -> bool:
    """Whether vectors of `w` elements of an array begin at their multiples: base, rows, and the last index."""
    d = p.kernel.declarations[name]
    assert isinstance(d, (Param, Buffer))
    size = w * nbytes(d.dtype)
    if size > _BYTES or not all(n % w == 0 for n in form.values()):
        return False
    if isinstance(d, Param):
        *rows, last = map(p.inline, p.kernel.strides_of(d))
        return d.align % size == 0 and last == Const(1) and all(_divides(p, e, w) for e in rows)
    *steps, one = strides_of(d.shape, d.layout)
    apart = isinstance(d.layout, Swizzle) and w > 1 << d.layout.base
    return not apart and p.kernel.shared_offsets[name] % size == 0 and one == 1 and all(n % w == 0 for n in steps)


def _divides(p: Program, e: Expr, by: int) -> bool:
    """Whether a size or pitch is a multiple for all sizes: each product of its sum has a factor that is."""
    for x, n in linear(e).items():
        factors = [x]
        while any(f for f in factors if getattr(f, "op", "") == "*"):
            factors = [g for f in factors for g in (f.args if getattr(f, "op", "") == "*" else (f,))]  # type: ignore[attr-defined]
        q = gcd(n, by)
        for f in factors:
            d = p.kernel.find(f.name) if isinstance(f, Var) else None
            q = gcd(q * (d.multiple_of if isinstance(d, Param) else int(f.value) if isinstance(f, Const) else 1), by)
        if q != by:
            return False
    return True
