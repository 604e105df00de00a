"""Advice on global memory: sectors of each access, and copies that a wider access would do at once.

Sectors are counted for every residue that pitches can have: a row that begins in the middle of a sector touches one
more. What the best of them wastes is the pattern's fault, and judged; the worst is told. Bases begin a sector.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from amk.dsl.expr import Const, Expr, Var, apply, has_elements, names, subst
from amk.dsl.nodes import Param
from amk.dsl.traffic import SECTOR, Lanes
from amk.dsl.traffic import sectors as sectors_of
from amk.dsl.types import nbytes
from amk.harness.advice_warp import Warp, first_values, quiet
from amk.harness.columns import Columns
from amk.harness.coverage import Site, global_sites, linear, rebuilt
from amk.harness.events import Program, Unsupported
from amk.harness.faults import Fault

if TYPE_CHECKING:
    from amk.harness.context import Context

__all__ = ["Warp", "sectors", "widths"]

MATERIAL = 4  # sectors that a request wastes: a line of 128 bytes
MOST_SIZES = 64  # values of sizes tried for an access


class _Request(NamedTuple):
    """Sectors at the best and at the worst of the sizes that decide, the fewest for the bytes, and the worst sizes."""

    best: int
    worst: int
    least: int
    sizes: dict[str, int]

    @property
    def wasteful(self) -> bool:
        """Whether even the best moves twice what the bytes need, and a line more."""
        return self.best >= max(2 * self.least, self.least + MATERIAL)


@quiet
def sectors(ctx: Context) -> Iterator[Fault]:
    """Accesses that move at least twice the sectors their bytes need; alike ones are told once."""
    p = ctx.program
    found: dict[tuple[object, ...], list[tuple[Site, _Request]]] = {}
    for s in _sites(p):
        n = _request(ctx.warp, s)
        if n is not None and n.wasteful and _run_length(p, s) == 1:  # else AMK505 says it better
            found.setdefault((s.tensor, s.mode, n.best, n.least, _stride(p, s)), []).append((s, n))
    for (*_, stride), same in found.items():
        (s, _), n = same[0], max((n for _, n in same), key=lambda n: n.worst)
        message = (
            f"a warp's {'load from' if s.mode == 'r' else 'store to'} '{s.tensor}' moves "
            f"{f'{n.best} to {n.worst}' if n.best < n.worst else n.worst} sectors where {n.least} would do"
            f"{f': stride {stride} elements between neighbouring lanes' if stride else ''}"
            f"{f' (and {len(same) - 1} more like it)' if len(same) > 1 else ''}"
        )
        hint = "let neighbouring threads take neighbouring elements of the last dimension"
        yield Fault("AMK501", s.pointer, message, {"sectors": n.worst, "ideal": n.least} | n.sizes, (), hint)


@quiet
def widths(ctx: Context) -> Iterator[Fault]:
    """Copies of single elements where each thread moves several neighbours in a row and a vector would fit."""
    p = ctx.program
    for s in _sites(p):
        n = _run_length(p, s)
        if n > 1:
            message = f"each thread moves {n} neighbouring elements of '{s.tensor}' one by one; width {n} would do"
            hint = f"use width={n} (the tensor's alignment and sizes allow it)"
            yield Fault("AMK505", s.pointer, message, {"width": n}, (), hint)


def _sites(p: Program) -> list[Site]:
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


# ---------------------------------------------------------------------------------------------------------- sectors
def _request(warp: Warp, s: Site) -> _Request | None:
    """The sectors of a request over all residues of its pitches; None where addresses are not known."""
    kernel = warp.p.kernel
    d = kernel.declarations[s.tensor]
    assert isinstance(d, Param)
    steps = tuple(map(warp.p.inline, kernel.strides_of(d)))
    index = warp.columns(s.index, s)
    if not index:
        return None
    size = nbytes(d.dtype)
    made: _Request | None = None
    for sizes in _sizes(warp, steps, size):
        pitches = Columns(1, {**warp.typical, **sizes})
        moved, least = sectors_of(_addresses(index, [pitches.of(e)[0] * size for e in steps]), size * s.width)
        if made is None:
            made = _Request(moved, moved, least, {})
        elif moved > made.worst:
            made = made._replace(worst=moved, sizes=sizes)
        elif moved < made.best:
            made = made._replace(best=moved)
        if not made.wasteful:
            return made
    return made


def _addresses(index: list[Lanes], pitches: list[int]) -> Lanes:
    """Byte address of each lane."""
    rows = zip(*index, strict=True)
    return [None if None in r else sum(i * n for i, n in zip(r, pitches, strict=True) if i is not None) for r in rows]


def _sizes(warp: Warp, steps: tuple[Expr, ...], size: int) -> Iterator[dict[str, int]]:
    """Values of the sizes in pitches, one for each position in a sector that they can move a row to."""
    choices: list[list[tuple[str, int]]] = []
    for name in sorted(frozenset().union(*map(names, steps))):
        q = warp.p.kernel.find(name)
        assert isinstance(q, Param)
        unit = q.multiple_of * size
        low = warp.typical[name]
        values = [low + q.multiple_of * i for i in range(SECTOR // gcd(unit, SECTOR))]
        choices.append([(name, v) for v in values if v <= q.max] or [(name, low)])
    for n, chosen in enumerate(product(*choices)):
        if n < MOST_SIZES:
            yield dict(chosen)


def _stride(p: Program, s: Site) -> str:
    """The distance of lanes 0 and 1 as a term of the sizes."""
    start = first_values(p, s.loops)
    zero, one = ([linear(subst(e, {"t": Const(t)} | start)) for e in s.index] for t in (0, 1))
    d = p.kernel.declarations[s.tensor]
    assert isinstance(d, Param)
    out: Expr = Const(0)
    for a, b, stride in zip(one, zero, map(p.inline, p.kernel.strides_of(d)), strict=True):
        moved = rebuilt({x: a.get(x, 0) - b.get(x, 0) for x in {**a, **b} if a.get(x, 0) != b.get(x, 0)})
        out = out + apply("*", moved, stride)
    return "" if names(out) - {q.name for q in p.kernel.scalars} or out == Const(0) else str(out)


# ----------------------------------------------------------------------------------------------------------- widths
def _run_length(p: Program, s: Site) -> int:
    """Elements a thread moves in a row through the innermost loop from 0, if a vector may take them."""
    d = p.kernel.declarations[s.tensor]
    assert isinstance(d, Param)
    if s.width != 1 or not s.loops:
        return 1
    loop = s.loops[-1]
    bounds = [p.inline(e) for e in (loop.lo, loop.hi, loop.step)]
    if bounds[0] != Const(0) or bounds[2] != Const(1) or not isinstance(bounds[1], Const):
        return 1
    form = linear(s.index[-1])
    if form.get(Var(loop.var)) != 1 or any(loop.var in names(c) for c in s.conds):
        return 1
    return max((w for w in (2, 4, 8, 16) if _fits(p, d, s, form, loop.var, w, int(bounds[1].value))), default=1)


def _fits(p: Program, d: Param, s: Site, form: dict[Expr, int], var: str, w: int, trips: int) -> bool:
    """Whether vectors of `w` elements stay aligned: base, rows, the other terms of the index, and the loop itself."""
    size = w * nbytes(d.dtype)
    others = all(n % w == 0 for x, n in form.items() if x != Var(var))
    outer = any(var in names(e) for e in s.index[:-1])
    *rows, last = map(p.inline, p.kernel.strides_of(d))
    return (
        trips % w == 0 and size <= 16 and d.align % size == 0 and others and not outer and last == Const(1)
        and all(_divided(p, e, w) for e in rows) and _divided(p, p.inline((d.shape or ())[-1]), w)
    )  # fmt: skip


def _divided(p: Program, e: Expr, by: int) -> bool:
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
