"""Advice on global memory: sectors of each access.

Sectors are counted for every residue that pitches can have: a row that begins in the middle of a sector touches one
more. What the best of them wastes is the pattern's fault, and judged; the worst is told. Bases begin a sector.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from amk.dsl.expr import Const, Expr, apply, names, subst
from amk.dsl.nodes import Param
from amk.dsl.traffic import SECTOR, Lanes
from amk.dsl.traffic import sectors as sectors_of
from amk.dsl.types import nbytes
from amk.harness.advice_warp import Warp, first_values, quiet
from amk.harness.advice_width import run_length
from amk.harness.columns import Columns
from amk.harness.coverage import Site, linear, rebuilt
from amk.harness.events import Program
from amk.harness.faults import Fault

if TYPE_CHECKING:
    from amk.harness.context import Context

__all__ = ["sectors"]

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
    """Accesses that move at least twice the sectors their bytes need."""
    p = ctx.program
    wider = {p.pointers[id(x)] for run in ctx.side_by_side for x in run}
    for s in ctx.single_accesses:
        n = _request(ctx.warp, s)
        if n is None or not n.wasteful or s.pointer in wider or run_length(p, s) > 1:  # AMK505 says it better
            continue
        stride = _stride(p, s)
        message = (
            f"a warp's {'load from' if s.mode == 'r' else 'store to'} '{s.tensor}' moves "
            f"{f'{n.best} to {n.worst}' if n.best < n.worst else n.worst} sectors where {n.least} would do"
            f"{f': stride {stride} elements between neighbouring lanes' if stride else ''}"
        )
        hint = "let neighbouring threads take neighbouring elements of the last dimension"
        yield Fault("AMK501", s.pointer, message, {"sectors": n.worst, "ideal": n.least} | n.sizes, (), hint)


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
