"""The tile form of a written tensor: one tile enumerated, all sizes by the lemmas in `numbering`.

The number of a tile is a block index, the variable of a loop that walks over the tiles, or made of such numbers; an
index may run backwards (`size - 1 - index`). A box of a tensor map is written as far as it lies inside the tensor, and
needs no other guard. Where sites stand under `bz == 0` (of an axis that always has a block), one block of it stands for
all, and the axis is left out. Loops that start at the thread and step by all of them are loops over rounds.

Anything that does not fit answers False, and the caller enumerates whole grids instead.
"""

from __future__ import annotations

from itertools import product
from math import gcd, prod

from amk.dsl.evaluate import function_of
from amk.dsl.expr import Apply, Const, Expr, Var, apply, has_elements, integers, names
from amk.dsl.nodes import Param
from amk.dsl.record import replace
from amk.harness.columns import Tables
from amk.harness.coverage import Site, linear, rebuilt
from amk.harness.events import Program
from amk.harness.numbering import BLOCKS, Axis, covers, multiple, numbers

__all__ = ["tile_form"]


def tile_form(p: Program, tensor: Param, sites: list[Site]) -> bool:
    """Whether the sites together write every element of the tensor exactly once, for all sizes."""
    shape = tuple(map(p.inline, tensor.shape or ()))
    if any(len(s.index) != len(shape) for s in sites):
        return False
    sites = [_upright(_by_rounds(p, s), shape) for s in sites]
    pinned = [_pinned(p, s) for s in sites]
    if any(x != pinned[0] for x in pinned):
        return False
    sites = [replace(s, conds=tuple(c for c in s.conds if _first(c) not in pinned[0])) for s in sites]
    loops = [numbers(p, s.loops) for s in sites]
    if any(x is None or loops[0] is None or x[1] != loops[0][1] for x in loops):
        return False
    placed = [(s, x[0], _split(s, x[0], shape)) for s, x in zip(sites, loops, strict=True) if x is not None]
    axes = placed[0][2][0] if placed[0][2] else None
    if axes is None or any(x is None or x[0] != axes for _, _, x in placed):
        return False
    counts = {n: c for n, c in loops[0][1].items() if n not in pinned[0]} if loops[0] is not None else {}
    walks = {n: c for n, c in counts.items() if n not in (*BLOCKS, "rank")}
    atomic = all(s.mode == "a" for s in sites)
    if not covers(p, axes, shape, counts, atomic=atomic) and not _fixed_grid(p, axes, shape, walks):
        return False
    tile = _Tile(p.threads, [n for _, n in axes])
    for s, constant, split in placed:
        inner = _guards(p, s, constant, axes, shape)
        if inner is None or split is None or not tile.add(s, constant, split[1], inner):
            return False
    return tile.whole()


def _by_rounds(p: Program, s: Site) -> Site:
    """The site with loops `range(lo, hi, step)` whose start depends on the thread as loops over rounds q under a guard.

    The variable is `lo + q * step`, which the index has in its place. With lo >= 0 and a constant step, a thread takes
    the rounds q of [0, cdiv(hi, step)) in which that is below hi, and no others.
    """
    loops, conds = [], list(s.conds)
    for loop in s.loops:
        lo, hi, step = (p.inline(e) for e in (loop.lo, loop.hi, loop.step))
        mine = loop.var in p.thread_loops and names(lo) == {"t"} and "t" not in names(hi) and not has_elements(lo)
        if mine and isinstance(step, Const) and int(step.value) > 0 and min(Tables(p.threads).column({}, lo)) >= 0:
            q = f"{loop.var}#"
            conds.append(apply("<", lo + Var(q) * step, hi))
            loop = loop.model_copy(update={"var": q, "lo": Const(0), "hi": apply("cdiv", hi, step), "step": Const(1)})
        loops.append(loop)
    return replace(s, loops=tuple(loops), conds=tuple(conds))


def _pinned(p: Program, s: Site) -> frozenset[str]:
    """The block indices that are 0 at a site, of axes that always have a block."""
    grid = dict(zip(BLOCKS, map(p.inline, p.kernel.grid3), strict=True))
    least = {q.name: q.min for q in p.kernel.scalars}
    found = filter(None, map(_first, s.conds))
    return frozenset(b for b in found if isinstance(e := grid[b], Const | Var) and _at_least_one(e, least))


def _at_least_one(e: Const | Var, least: dict[str, int]) -> bool:
    return (int(e.value) if isinstance(e, Const) else least.get(e.name, 0)) >= 1


def _first(c: Expr) -> str:
    """The block index that a condition says is 0."""
    if not isinstance(c, Apply) or c.op != "==" or c.args[1] != Const(0):
        return ""
    return c.args[0].name if isinstance(c.args[0], Var) and c.args[0].name in BLOCKS else ""


def _upright(s: Site, shape: tuple[Expr, ...]) -> Site:
    """The site with `size - 1 - index` where an index runs backwards: that is a bijection, so nothing changes."""
    index = []
    for d, (e, size) in enumerate(zip(s.index, shape, strict=True)):
        backwards = any(n < 0 for x, n in linear(e).items() if names(x) & {*BLOCKS, *(y.var for y in s.loops)})
        single = s.width == 1 or d < len(shape) - 1
        index.append(rebuilt(linear(size - 1 - e)) if backwards and single else e)
    return replace(s, index=tuple(index))


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


def _fixed_grid(p: Program, axes: tuple[Axis, ...], shape: tuple[Expr, ...], loops: dict[str, Expr]) -> bool:
    """Fixed sizes without a loop over tiles: the tile numbers of all blocks, enumerated, are each tile once."""
    grid = [*map(p.inline, p.kernel.grid3), Const(p.kernel.cluster)]
    order, terms = (*BLOCKS, "rank"), tuple(e for e, _ in axes)
    sizes = integers(*grid, *shape)
    if sizes is None or loops or frozenset().union(*map(names, terms)) - set(order):
        return False
    if prod(sizes[:4]) > 1 << 20:
        return False
    f = function_of(terms, order)
    found = [f(*at) for at in product(*map(range, sizes[:4]))]
    wanted = product(*(range(-(-n // t)) for n, (_, t) in zip(sizes[4:], axes, strict=True)))
    return sorted(found) == sorted(wanted)


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
    if s.box:  # clipped at the edges of the tensor
        return inner
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


class _Tile:
    """The elements of one tile that the sites write, each at most once."""

    def __init__(self, threads: int, sizes: list[int]) -> None:
        self.tables, self.sizes = Tables(threads), sizes
        self.single: list[int] = []
        self.boxes = 0  # a bit for each element

    def whole(self) -> bool:
        """Whether every element was added, and once."""
        found = set(self.single)
        twice = len(found) < len(self.single) or (self.boxes and any(self.boxes >> x & 1 for x in found))
        return not twice and len(found) + self.boxes.bit_count() == prod(self.sizes)

    def add(self, s: Site, constant: dict[str, range], rels: tuple[Expr, ...], inner: list[Expr]) -> bool:
        """Adds what a site writes; False where that lies outside, is no whole vector, or is there already."""
        extents = s.box or (*(1 for _ in self.sizes[1:]), s.width)
        for chosen in product(*constant.values()):
            found = self._starts(dict(zip(constant, chosen, strict=True)), s, extents, rels, inner)
            if found is None:
                return False
            if s.box:
                pattern = self._pattern(extents)
                for x in found:
                    if self.boxes & pattern << x:
                        return False
                    self.boxes |= pattern << x
            else:
                self.single += [x + w for x in found for w in range(s.width)] if s.width > 1 else found
        return True

    def _starts(
        self, values: dict[str, int], s: Site, extents: tuple[int, ...], rels: tuple[Expr, ...], inner: list[Expr]
    ) -> list[int] | None:
        """The first element of each active thread's access."""
        marks = [self.tables.column(values, c) for c in inner]
        picked = [all(x) for x in zip(*marks, strict=True)] if marks else None
        flat = [0] * self.tables.threads
        for rel, size, extent in zip(rels, self.sizes, extents, strict=True):
            column = self.tables.column(values, rel)
            kept = column if picked is None else [x for x, yes in zip(column, picked, strict=True) if yes]
            if kept and (min(kept) < 0 or max(kept) > size - extent):
                return None
            if not s.box and extent > 1 and any(x % extent for x in column):
                return None
            flat = [x * size + y for x, y in zip(flat, column, strict=True)]
        return flat if picked is None else [x for x, yes in zip(flat, picked, strict=True) if yes]

    def _pattern(self, extents: tuple[int, ...]) -> int:
        """The elements of a box, counted from its first one."""
        out, pitch = 1, 1
        for extent, size in zip(reversed(extents), reversed(self.sizes), strict=True):
            out = sum(out << pitch * i for i in range(extent))
            pitch *= size
        return out
