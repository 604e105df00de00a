"""The tile form of a written tensor: one tile enumerated, all sizes by the lemma in `coverage`.

The number of a tile is a block index, or the variable of a loop of the whole block that walks over the tiles; an index
may run backwards (`size - 1 - index`).

Anything that does not fit answers False, and the caller enumerates whole grids instead.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import gcd

from amk.dsl.evaluate import function_of
from amk.dsl.expr import Apply, Const, Expr, Var, has_elements, integers, names
from amk.dsl.nodes import Param
from amk.harness.columns import Tables
from amk.harness.coverage import Site, linear, rebuilt
from amk.harness.events import Program

__all__ = ["multiple", "tile_form"]

_BLOCKS = ("bx", "by", "bz")
Axis = tuple[Expr, int]  # number of the tile and its size; (0, size) where a dimension is not tiled


def tile_form(p: Program, tensor: Param, sites: list[Site]) -> bool:
    """Whether the sites together write every element of the tensor exactly once, for all sizes."""
    shape = tuple(map(p.inline, tensor.shape or ()))
    if any(len(s.index) != len(shape) for s in sites):
        return False
    sites = [_upright(s, shape) for s in sites]
    loops = [_loops(p, s) for s in sites]
    walks = loops[0][1] if loops[0] is not None else {}
    split = [x and _split(s, x[0], shape) for s, x in zip(sites, loops, strict=True)]
    axes = split[0][0] if split[0] else None
    if axes is None or any(not x or x[0] != axes for x in split) or any(x and x[1] != walks for x in loops):
        return False
    if not _grid_fits(p, axes, shape, walks, all(s.mode == "a" for s in sites)):
        return False
    hits: list[int] = []
    tables = Tables(p.threads)
    for s, x, y in zip(sites, split, loops, strict=True):
        assert x and y is not None
        inner = _guards(p, s, y[0], axes, shape)
        if inner is None:
            return False
        found = _tile(tables, s, y[0], x[1], axes, inner)
        if found is None:
            return False
        hits += found
    total = 1
    for _, n in axes:
        total *= n
    return len(hits) == total and len(set(hits)) == total


def _upright(s: Site, shape: tuple[Expr, ...]) -> Site:
    """The site with `size - 1 - index` where an index runs backwards: that is a bijection, so nothing changes."""
    index = []
    for d, (e, size) in enumerate(zip(s.index, shape, strict=True)):
        backwards = any(n < 0 for x, n in linear(e).items() if names(x) & {*_BLOCKS, *(x.var for x in s.loops)})
        single = s.width == 1 or d < len(shape) - 1
        index.append(rebuilt(linear(size - 1 - e)) if backwards and single else e)
    return replace(s, index=tuple(index))


def _loops(p: Program, s: Site) -> tuple[dict[str, range], dict[str, Expr]] | None:
    """The constant loops around a site, and the trip counts of those that walk over tiles; None for any other loop."""
    constant: dict[str, range] = {}
    walks: dict[str, Expr] = {}
    for loop in s.loops:
        bounds = [p.inline(e) for e in (loop.lo, loop.hi, loop.step)]
        if loop.until is not None:
            return None
        if (ints := integers(*bounds)) is not None:
            constant[loop.var] = range(*ints)
        elif (bounds[0], bounds[2]) == (Const(0), Const(1)) and "t" not in names(bounds[1]):
            walks[loop.var] = bounds[1]
        else:
            return None
    return constant, walks


def _split(
    s: Site, constant: dict[str, range], shape: tuple[Expr, ...]
) -> tuple[tuple[Axis, ...], tuple[Expr, ...]] | None:
    """Each index as an axis (number of the tile, its size) and the part inside the tile."""
    local = {"t", *constant}
    if any(map(has_elements, s.index)):
        return None
    axes, rels = [], []
    for e, size in zip(s.index, shape, strict=True):
        form = linear(e)
        outer = {x: n for x, n in form.items() if names(x) and not names(x) & local}
        inner = {x: n for x, n in form.items() if x not in outer}
        axis = _axis(outer, size)
        if axis is None or any(not names(x) <= local for x in inner):
            return None
        axes.append(axis)
        rels.append(rebuilt(inner))
    return tuple(axes), tuple(rels)


def _axis(outer: dict[Expr, int], size: Expr) -> Axis | None:
    if not outer:
        return (Const(0), int(size.value)) if isinstance(size, Const) else None
    tile = gcd(*outer.values())
    return rebuilt({x: n // tile for x, n in outer.items()}), tile


def _grid_fits(
    p: Program, axes: tuple[Axis, ...], shape: tuple[Expr, ...], walks: dict[str, Expr], atomic: bool
) -> bool:
    """Each block (and trip of a walk) one tile, each tile one block; under atomics the same number of blocks each."""
    grid = dict(zip(_BLOCKS, map(p.inline, p.kernel.grid3), strict=True))
    if all(isinstance(e, Const) for e in (*grid.values(), *shape)) and any(_nonlinear(e) for e, _ in axes):
        return not walks and _fixed_grid(p, axes, shape)
    walks = dict(walks)
    for (e, tile), size in zip(axes, shape, strict=True):
        if e == Const(0):
            continue
        if not isinstance(e, Var):
            return False
        count = walks.pop(e.name) if e.name in walks else grid.pop(e.name, Const(0))
        if not _tiles(p, count, size, tile):
            return False
    if walks:  # every trip meets the same elements, or there is none
        return False
    return atomic or all(e == Const(1) for e in grid.values())


def _nonlinear(e: Expr) -> bool:
    return not isinstance(e, (Const, Var))


def _fixed_grid(p: Program, axes: tuple[Axis, ...], shape: tuple[Expr, ...]) -> bool:
    """Fixed sizes: the tile numbers of all blocks, enumerated, are each tile once."""
    terms = tuple(e for e, _ in axes)
    if frozenset().union(*map(names, terms)) - set(_BLOCKS):
        return False
    sizes = [int(p.value(e, {})) for e in p.kernel.grid3]
    if sizes[0] * sizes[1] * sizes[2] > 1 << 20:
        return False
    f = function_of(terms, _BLOCKS)
    found = [f(*at) for at in product(*map(range, sizes))]
    wanted = product(*(range(-(-int(p.value(n, {})) // t)) for n, (_, t) in zip(shape, axes, strict=True)))
    return sorted(found) == sorted(wanted)


def _tiles(p: Program, blocks: Expr, size: Expr, tile: int) -> bool:
    if isinstance(size, Const) and isinstance(blocks, Const):
        return blocks.value == -(-int(size.value) // tile)
    if tile == 1 and blocks == size:
        return True
    up = (Apply("cdiv", (size, Const(tile))), (size + (tile - 1)) // tile)
    return blocks in up or (multiple(p, size, tile) and blocks == size // tile)


def multiple(p: Program, size: Expr, n: int) -> bool:
    """Whether a size is known to be a multiple of n."""
    if isinstance(size, Const):
        return int(size.value) % n == 0
    if n == 1:
        return True
    d = p.kernel.find(size.name) if isinstance(size, Var) else None
    return isinstance(d, Param) and d.multiple_of % n == 0


def _guards(
    p: Program, s: Site, constant: dict[str, range], axes: tuple[Axis, ...], shape: tuple[Expr, ...]
) -> list[Expr] | None:
    """The conditions on the thread alone, if all others are `index < size` and every ragged dimension has one."""
    local = {"t", *constant}
    inner: list[Expr] = []
    guarded: set[int] = set()
    for c in s.conds:
        if has_elements(c):
            return None
        if names(c) <= local:
            inner.append(c)
        elif (d := _bound(c, s, shape)) is not None:
            guarded.add(d)
        else:
            return None
    for d, ((e, tile), size) in enumerate(zip(axes, shape, strict=True)):
        if e != Const(0) and d not in guarded and not multiple(p, size, tile):
            return None
        if d == len(axes) - 1 and s.width > 1 and (tile % s.width or not multiple(p, size, s.width)):
            return None
    return inner


def _bound(c: Expr, s: Site, shape: tuple[Expr, ...]) -> int | None:
    """The dimension whose `index < size` a condition is."""
    if not isinstance(c, Apply) or c.op not in ("<", ">", "<=", ">="):
        return None
    low, high = c.args if c.op[0] == "<" else c.args[::-1]
    form = linear(high - low + (1 if len(c.op) == 2 else 0))
    for d, (e, size) in enumerate(zip(s.index, shape, strict=True)):
        last = d == len(shape) - 1
        if form in [linear(size - e - w) for w in ((0, s.width - 1) if last else (0,))]:
            return d
    return None


def _tile(
    tables: Tables, s: Site, constant: dict[str, range], rels: tuple[Expr, ...], axes: tuple[Axis, ...],
    inner: list[Expr],
) -> list[int] | None:  # fmt: skip
    """Positions in the tile that a site writes; None where one lies outside or a vector is not whole."""
    out: list[int] = []
    for chosen in product(*constant.values()):
        values = dict(zip(constant, chosen, strict=True))
        marks = [tables.column(values, c) for c in inner]
        picked = [all(x) for x in zip(*marks, strict=True)] if marks else None
        flat = [0] * tables.threads
        for d, (rel, (_, size)) in enumerate(zip(rels, axes, strict=True)):
            width = s.width if d == len(axes) - 1 else 1
            column = tables.column(values, rel)
            kept = column if picked is None else [x for x, yes in zip(column, picked, strict=True) if yes]
            if kept and (min(kept) < 0 or max(kept) > size - width):
                return None
            if width > 1 and any(x % width for x in column):
                return None
            flat = [x * size + y for x, y in zip(flat, column, strict=True)]
        kept = flat if picked is None else [x for x, yes in zip(flat, picked, strict=True) if yes]
        out += [x + w for x in kept for w in range(s.width)] if s.width > 1 else kept
    return out
