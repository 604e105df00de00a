"""Which blocks and rounds of loops take which tiles: each tile once, for all sizes, by a few lemmas.

Numbers that run by themselves, each from 0 to below a count, and independent of the others:
- a block index, up to the grid; the rank in a cluster (blocks stand as clusters here, see `by_cluster`);
- the variable of a loop `range(0, count)` of the whole block, which walks over tiles;
- the variable of a loop `range(bx, count, gx)` (persistent blocks): `bx + j * gx` with `bx < gx` is the division of the
  number by gx with remainder, so blocks and rounds take each number below the count once. The block index is used up.

The tiles of an axis are counted by such numbers as
- digits: `rest * n + x`, x a number below n, is the division by n, so (rest, x) and the sum are a bijection;
- one number, which counts the tiles of the axis;
- a raster of two axes: row and column of the i-th of R x C tiles are a bijection from [0, R*C) to [0, R) x [0, C).
  *Plain*, `i // C, i % C`: division with remainder.
  *In groups of g rows*, with `w = C * g`, `first = i // w * g`, `rest = i % w` and `h = min(g, R - first)`, it is
  `first + rest % h, rest // h`. Proof: groups start at the rows 0, g, 2g, ..., and all but the last have g rows and w
  tiles, so `i // w` is the group of tile i, `first` is below R, and h >= 1. `rest` runs over [0, h * C): that is w
  where h = g, and what the groups before leave, R * C - first * C, in the last one. Division of `rest` by h takes it to
  each (column in [0, C), row in [0, h)) once. Groups have no row in common, and together they have all.

`tests/harness/test_numbering.py` counts each of these at small sizes.
"""

from __future__ import annotations

from itertools import permutations
from typing import NamedTuple

from amk.dsl.expr import Apply, Const, Expr, Var, apply, integers, names, subst
from amk.dsl.nodes import For, Param
from amk.harness.coverage import linear, rebuilt
from amk.harness.events import Program

__all__ = ["BLOCKS", "Axis", "Raster", "covers", "multiple", "numbers", "raster"]

BLOCKS = ("bx", "by", "bz")
Axis = tuple[Expr, int]  # number of the tile and its size; (0, size) where a dimension is not tiled


def numbers(p: Program, loops: tuple[For, ...]) -> tuple[dict[str, range], dict[str, Expr]] | None:
    """The constant loops, and the numbers that run by themselves with their counts; None for any other loop."""
    grid = dict(zip(BLOCKS, (_exact(p.inline(e)) for e in p.kernel.grid3), strict=True))
    known = dict(zip(("gx", "gy", "gz"), grid.values(), strict=True))
    constant: dict[str, range] = {}
    counts = {**grid, "rank": Const(p.kernel.cluster)}
    for loop in loops:
        lo, hi, step = (subst(p.inline(e), known) for e in (loop.lo, loop.hi, loop.step))
        if loop.until is not None:
            return None
        if (ints := integers(lo, hi, step)) is not None:
            constant[loop.var] = range(*ints)
        elif names(hi) & {"t", *counts, *(x.var for x in loops)}:
            return None
        elif (lo, step) == (Const(0), Const(1)):
            counts[loop.var] = hi
        elif isinstance(lo, Var) and lo.name in BLOCKS and counts.get(lo.name) == _exact(step):
            del counts[lo.name]
            counts[loop.var] = hi
        else:
            return None
    return constant, counts


def _exact(e: Expr) -> Expr:
    """A quotient whose divisor is a factor of all of the dividend, as the term that it is (of so many clusters)."""
    if isinstance(e, Apply) and e.op == "//" and (by := integers(e.args[1])) is not None and by[0] > 0:
        whole = _divided(e.args[0], by[0])
        return e if whole is None else whole
    return e


def covers(
    p: Program, axes: tuple[Axis, ...], shape: tuple[Expr, ...], counts: dict[str, Expr], *, atomic: bool
) -> bool:
    """Whether the numbers take each tile of the axes once; under atomics, the same number of blocks each."""
    counts = dict(counts)
    open_: list[_Open] = []
    for (e, tile), size in zip(axes, shape, strict=True):
        if e == Const(0):
            continue
        rest, digits = _digits(e, counts)
        if isinstance(rest, Var) and rest.name in counts:
            if not tiles(p, counts.pop(rest.name), size, tile * digits):
                return False
        elif rest == Const(0):
            if not tiles(p, Const(digits), size, tile):
                return False
        else:
            open_.append(_Open(rest, size, tile * digits))
    if open_ and not _rastered(p, open_, counts):
        return False
    left = {n: c for n, c in counts.items() if c != Const(1)}
    return not left if not atomic else all(n in (*BLOCKS, "rank") for n in left)


class _Open(NamedTuple):
    """An axis whose tile number is no number that runs by itself."""

    number: Expr
    size: Expr
    tile: int


def _digits(e: Expr, counts: dict[str, Expr]) -> tuple[Expr, int]:
    """The term without its digits (numbers of constant count, which are used up), and how many values these have."""
    form, total = linear(e), 1
    while (x := _digit(form, counts)) is not None:
        count = _constant(x, counts)
        del counts[x.name]
        form, total = {y: n // count for y, n in form.items() if y != x}, total * count
    return rebuilt(form), total


def _digit(form: dict[Expr, int], counts: dict[str, Expr]) -> Var | None:
    """A number of constant count, added to multiples of that count."""
    for x, n in form.items():
        count = _constant(x, counts)
        if n == 1 and count and len(form) > 1 and not any(m % count for y, m in form.items() if y != x):
            assert isinstance(x, Var)
            return x
    return None


def _constant(x: Expr, counts: dict[str, Expr]) -> int:
    """The count of a number where that is constant, else 0."""
    c = counts.get(x.name) if isinstance(x, Var) else None
    return int(c.value) if isinstance(c, Const) else 0


# --------------------------------------------------------------------------------------------------------------- raster
class Raster(NamedTuple):
    """The number that is spread over rows x cols tiles."""

    number: Expr
    rows: Expr
    cols: Expr


def _rastered(p: Program, axes: list[_Open], counts: dict[str, Expr]) -> bool:
    """Whether two axes are the row and the column of one number's tile."""
    if len(axes) != 2:
        return False
    for row, col in permutations(axes):
        for name, count in counts.items():
            r = raster(row.number, col.number, count)
            if r is None or r.number != Var(name) or count not in (r.rows * r.cols, r.cols * r.rows):
                continue
            if tiles(p, r.rows, row.size, row.tile) and tiles(p, r.cols, col.size, col.tile):
                del counts[name]
                return True
    return False


def raster(row: Expr, col: Expr, count: Expr) -> Raster | None:
    """The raster that two terms are, of which `count` is the number of tiles."""
    return _grouped(row, col) or _plain(row, col, count)


def _plain(row: Expr, col: Expr, count: Expr) -> Raster | None:
    """`i // C, i % C`; R is what the count says."""
    if not (isinstance(row, Apply) and row.op == "//" and isinstance(col, Apply) and col.op == "%"):
        return None
    if row.args != col.args:
        return None
    number, cols = row.args
    if isinstance(count, Const) and isinstance(cols, Const):
        whole, rest = divmod(int(count.value), int(cols.value))
        return None if rest else Raster(number, Const(whole), cols)
    if isinstance(count, Apply) and count.op == "*" and cols in count.args:
        return Raster(number, count.args[0] if count.args[1] == cols else count.args[1], cols)
    return None


def _grouped(row: Expr, col: Expr) -> Raster | None:
    """Down the rows of a group, then one column on: taken apart by the column, and held against the row."""
    if not (isinstance(col, Apply) and col.op == "//"):
        return None
    rest, high = col.args
    least = _least(high)
    if least is None or not (isinstance(rest, Apply) and rest.op == "%"):
        return None
    group, left = least
    number, width = rest.args
    cols, first = _divided(width, group), apply("*", apply("//", number, width), group)
    rows = rebuilt(linear(left + first))  # so that left is rows - first
    if cols is None or names(rows) & names(number) or linear(row) != linear(first + apply("%", rest, high)):
        return None
    return Raster(number, rows, cols)


def _least(e: Expr) -> tuple[int, Expr] | None:
    """(g, x) of `min(g, x)`, or of a selection that says the same."""
    if not isinstance(e, Apply):
        return None
    if e.op == "min":
        for g, x in (e.args, e.args[::-1]):
            if (found := integers(g)) is not None and found[0] >= 1:
                return found[0], x
    if e.op == "select" and isinstance(e.args[0], Apply) and e.args[0].op in ("<", "<="):
        low, high = e.args[0].args
        found = integers(high)
        if found is not None and found[0] >= 1 and e.args[1:] == (low, high):
            return found[0], low
    return None


def _divided(e: Expr, by: int) -> Expr | None:
    """The term without a factor."""
    form = linear(e)
    return rebuilt({x: n // by for x, n in form.items()}) if form and not any(n % by for n in form.values()) else None


# ---------------------------------------------------------------------------------------------------------------- tiles
def tiles(p: Program, count: Expr, size: Expr, tile: int) -> bool:
    """Whether a count of tiles is what a size takes."""
    if isinstance(size, Const) and isinstance(count, Const):
        return count.value == -(-int(size.value) // tile)
    if tile == 1 and count == size:
        return True
    up = (Apply("cdiv", (size, Const(tile))), (size + (tile - 1)) // tile)
    return count in up or (multiple(p, size, tile) and count == size // tile)


def multiple(p: Program, size: Expr, n: int) -> bool:
    """Whether a size is known to be a multiple of n."""
    if isinstance(size, Const):
        return int(size.value) % n == 0
    if n == 1:
        return True
    d = p.kernel.find(size.name) if isinstance(size, Var) else None
    return isinstance(d, Param) and d.multiple_of % n == 0
