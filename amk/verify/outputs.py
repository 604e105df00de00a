"""What is written to global memory: every element once, and nobody reads what another thread writes.

tiles   Each index is T*e + r, where e is a block (or a round of a loop that all threads make together) and r is of the
        thread and of constant loops alone. One tile is enumerated: its r are all positions, each once. Z3 shows that
        the tiles reach over the tensor, and that whoever stands inside the tensor passes all conditions on the way.
        Since x -> (x // T, x % T) is a bijection, each element is then written once, for all sizes.
stride  A vector handed out to all threads of a constant grid in turns; Z3 shows the form.
count   Where all sizes are constants: every access of every thread of every block is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from math import gcd, prod
from typing import Any

from amk.dsl.expr import Apply, Const, Expr, Var, names
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Param
from amk.verify.domain import BLOCKS, assumptions
from amk.verify.lanes import Lanes, ones
from amk.verify.linear import linear
from amk.verify.logic import Logic
from amk.verify.sites import Loop, Site, sites
from amk.verify.values import NoValue

__all__ = ["Count", "Outputs", "Written"]

MOST_BLOCKS = 1 << 20
MOST_COUNTED = 4_000_000
Axis = tuple[Expr | None, int]  # the number of the tile (None: not tiled) and its extent


class Written(Exception):
    """An element that is not written once, or read by somebody else: at which sizes, block and thread."""

    def __init__(self, rule: str, where: str, what: str, at: dict[str, int]) -> None:
        super().__init__(what)
        self.rule, self.where, self.what, self.at = rule, where, what, at


class Outputs:
    """The written tensors of one kernel."""

    def __init__(self, kernel: KernelDescriptor, logic: Logic) -> None:
        self.kernel, self.logic = kernel, logic
        self.lanes = Lanes(kernel.threads)
        self.sites = sites(kernel)
        self.grid = dict(zip(BLOCKS, kernel.grid3, strict=True))
        self.facts = (*assumptions(kernel), *(Apply("<", (Var(b), g)) for b, g in self.grid.items()))

    def tensors(self) -> Iterator[tuple[Param, tuple[Site, ...]]]:
        """Tensors that are written, or that should be, with all their accesses."""
        for x in self.kernel.tensors:
            mine = tuple(s for s in self.sites if s.tensor == x.name)
            if x.access != "read" or any(s.mode != "read" for s in mine):
                yield x, mine

    def shown(self, x: Param, mine: tuple[Site, ...], by: str) -> bool:
        """Whether the elements of a tensor are shown to be written once, in the way that is asked for."""
        writes = [s for s in mine if s.mode != "read"]
        if not writes or any(s.open for s in writes):
            return False
        if by == "count":
            return self.constant(x, mine) and not Count(self, x, mine, {}).run()
        return _own_reads(mine) and (self._tiled(x, writes) or self._strided(x, writes))

    def constant(self, x: Param, mine: tuple[Site, ...]) -> bool:
        """Whether no size decides what is accessed."""
        terms = [*self.kernel.grid, *(x.shape or ())]
        for s in mine:
            terms += [*s.index, *s.conds, *(e for loop in s.loops for e in (loop.lo, loop.hi))]
        fixed = {p.name for p in self.kernel.scalars}
        return not any(names(e) & fixed for e in terms) and not any(s.open for s in mine)

    # -- tiles -------------------------------------------------------------------------------------------------------
    def _tiled(self, x: Param, writes: list[Site]) -> bool:
        shape = tuple(x.shape or ())
        parts = [self._split(s, shape) for s in writes]
        if None in parts:
            return False
        axes = parts[0][0] if parts[0] else ()
        walks = parts[0][3] if parts[0] else {}
        if any(p is None or p[0] != axes or p[3] != walks for p in parts):
            return False
        if not self._reaches(axes, shape, walks, all(s.mode == "update" for s in writes)):
            return False
        hits: Counter[tuple[int, ...]] = Counter()
        for s, p in zip(writes, parts, strict=True):
            assert p is not None
            _, inner, constant, _ = p
            local = [c for c in s.conds if names(c) <= {"t", *constant}]
            if not self._guarded(s, shape, axes, constant, walks, local):
                return False
            try:
                found = list(self._positions(s, inner, constant, local))
            except NoValue:
                return False
            hits.update(found)
        size = prod(extent for _, extent in axes)
        inside = all(all(0 <= i < n for i, (_, n) in zip(place, axes, strict=True)) for place in hits)
        return inside and len(hits) == size and all(n == 1 for n in hits.values())

    def _split(
        self, s: Site, shape: tuple[Expr, ...]
    ) -> tuple[tuple[Axis, ...], tuple[Expr, ...], dict[str, range], dict[str, Expr]] | None:
        """Each index as tile and place in the tile; the constant loops, and the loops that go from tile to tile."""
        loops = _loops(s.loops)
        if loops is None:
            return None
        constant, walks = loops
        local = {"t", *constant}
        axes: list[Axis] = []
        inner: list[Expr] = []
        for d, (e, size) in enumerate(zip(s.index, shape, strict=True)):
            form = linear(e)
            moving = {*BLOCKS, *walks}
            if any(n < 0 and names(x) & moving for x, n in form.items()) and (s.width == 1 or d < len(shape) - 1):
                form = linear(size - 1 - e)  # counted from the other end
            outer = {x: n for x, n in form.items() if names(x) and not names(x) & local}
            inside = {x: n for x, n in form.items() if x not in outer}
            if any(not names(x) <= local for x in inside):
                return None
            if outer:
                tile = gcd(*outer.values())
                axes.append((_sum({x: n // tile for x, n in outer.items()}), tile))
            elif isinstance(size, Const):
                axes.append((None, int(size.value)))
            else:
                return None
            inner.append(_sum(inside))
        return tuple(axes), tuple(inner), constant, walks

    def _reaches(self, axes: tuple[Axis, ...], shape: tuple[Expr, ...], walks: dict[str, Expr], atomic: bool) -> bool:
        """Each tile of the tensor belongs to one block (and round), and every tile does."""
        numbers = [e for e, _ in axes if e is not None]
        if not all(isinstance(e, Var) for e in numbers):
            return not walks and not atomic and self._numbered(axes, shape)
        used = [e.name for e in numbers if isinstance(e, Var)]
        counts = {**self.grid, **walks}
        if len(set(used)) < len(used) or not set(used) <= counts.keys() or walks.keys() - set(used):
            return False
        facts = assumptions(self.kernel)
        for (e, tile), size in zip(axes, shape, strict=True):
            if isinstance(e, Var) and not self.logic.holds(Apply("<=", (size, counts[e.name] * tile)), facts):
                return False
        idle = [self.grid[b] for b in BLOCKS if b not in used]
        return atomic or all(self.logic.holds(Apply("==", (g, Const(1))), facts) for g in idle)

    def _numbered(self, axes: tuple[Axis, ...], shape: tuple[Expr, ...]) -> bool:
        """Constant sizes: the tiles of all blocks, enumerated, are all tiles, each once."""
        grid, sizes = list(self.grid.values()), list(shape)
        if not all(isinstance(e, Const) for e in (*grid, *sizes)):
            return False
        counts = [max(0, int(g.value)) for g in grid if isinstance(g, Const)]
        if prod(counts) > MOST_BLOCKS or any(e is None or names(e) - set(BLOCKS) for e, _ in axes):
            return False
        found: Counter[tuple[int, ...]] = Counter()
        one = Lanes(1)
        for at in product(*map(range, counts)):
            known = dict(zip(BLOCKS, at, strict=True))
            found[tuple(one.of(e, known) for e, _ in axes if e is not None)] += 1
        fixed = [int(n.value) for n in sizes if isinstance(n, Const)]
        wanted = [range(-(-n // tile)) for n, (_, tile) in zip(fixed, axes, strict=True)]
        return len(found) == prod(map(len, wanted)) == prod(counts) and set(found) == set(product(*wanted))

    def _guarded(
        self, s: Site, shape: tuple[Expr, ...], axes: tuple[Axis, ...], constant: dict[str, range],
        walks: dict[str, Expr], local: list[Expr],
    ) -> bool:  # fmt: skip
        """Whoever stands inside the tensor passes every condition, and a vector that begins inside ends inside."""
        facts = [*self.facts, *local]
        for var, rounds in constant.items():
            low, high = (min(rounds), max(rounds)) if len(rounds) else (0, 0)
            self.logic.declare(var, "i32", low, high)
            if len(rounds) > 1 and rounds.step > 1:
                facts.append(Apply("==", (Apply("%", (Var(var) - rounds.start, Const(rounds.step))), Const(0))))
        for var, count in walks.items():
            self.logic.declare(var, "i32", 0, 2**31 - 1)
            facts.append(Apply("<", (Var(var), count)))
        begins = [Apply("<", (e, size)) for e, size in zip(s.index, shape, strict=True)]
        begins += [Apply(">=", (e, Const(0))) for e in s.index]
        if s.width > 1 and not self.logic.holds(Apply("<=", (s.index[-1] + s.width, shape[-1])), [*facts, *begins]):
            return False
        return all(self.logic.holds(c, [*facts, *begins]) for c in s.conds if c not in local)

    def _positions(
        self, s: Site, inner: tuple[Expr, ...], constant: dict[str, range], local: list[Expr]
    ) -> Iterator[tuple[int, ...]]:
        """The places in the tile that a site writes."""
        if prod(map(len, constant.values())) * self.kernel.threads > MOST_COUNTED:
            raise NoValue("too much to enumerate")
        for chosen in product(*constant.values()):
            known = dict(zip(constant, chosen, strict=True))
            mask = self.lanes.everyone
            for c in local:
                mask &= self.lanes.mask(c, known)
            columns = [self.lanes.of(e, known) for e in inner]
            for t in ones(mask):
                place = [c[t] if isinstance(c, tuple) else c for c in columns]
                yield from ((*place[:-1], place[-1] + k) for k in range(s.width))

    # -- strides -----------------------------------------------------------------------------------------------------
    def _strided(self, x: Param, writes: list[Site]) -> bool:
        """`for v in range(w*(bx*T + t), n, w*T*G)` with v the index: each multiple of w below n is taken once."""
        s, shape = writes[0], tuple(x.shape or ())
        if len(writes) != 1 or len(shape) != 1 or len(s.loops) != 1 or s.conds or s.index != (Var(s.loops[0].var),):
            return False
        loop, grid = s.loops[0], self.grid
        blocks = grid["bx"]
        if not isinstance(blocks, Const) or any(grid[b] != Const(1) for b in ("by", "bz")):
            return False
        first = (Var("bx") * self.kernel.threads + Var("t")) * s.width
        wide = loop.step == s.width * self.kernel.threads * int(blocks.value)
        claims = [Apply("==", (loop.lo, first)), Apply("==", (loop.hi, shape[0]))]
        if s.width > 1:
            claims.append(Apply("==", (Apply("%", (shape[0], Const(s.width))), Const(0))))
        return wide and all(self.logic.holds(c, self.facts) for c in claims)


def _loops(loops: tuple[Loop, ...]) -> tuple[dict[str, range], dict[str, Expr]] | None:
    """Constant loops with their rounds, and loops from 0 that all threads make together with their counts."""
    constant: dict[str, range] = {}
    walks: dict[str, Expr] = {}
    for x in loops:
        if isinstance(x.lo, Const) and isinstance(x.hi, Const):
            constant[x.var] = range(int(x.lo.value), int(x.hi.value), x.step)
        elif x.lo == Const(0) and x.step == 1 and not names(x.hi) & {"t", *constant, *walks}:
            walks[x.var] = x.hi
        else:
            return None
    return constant, walks


def _sum(form: dict[Expr, int]) -> Expr:
    out: Expr = Const(0)
    for x, n in form.items():
        out = out + x * n
    return out


def _own_reads(mine: tuple[Site, ...]) -> bool:
    """Every read is made by threads that write that element themselves, in order; atomics meet atomics alone."""
    if any(s.mode == "update" for s in mine):
        return all(s.mode == "update" for s in mine)
    if any(s.late for s in mine) and any(s.mode == "read" for s in mine):
        return False
    writes = [s for s in mine if s.mode == "write"]
    return all(
        any(
            (r.index, r.width, r.loops) == (w.index, w.width, w.loops) and set(w.conds) <= set(r.conds)
            for w in writes
        )
        for r in mine if r.mode == "read"
    )  # fmt: skip


class Count:
    """Every access to one tensor at one choice of sizes, counted. `run` is the first fault, or None."""

    def __init__(self, outputs: Outputs, x: Param, mine: tuple[Site, ...], sizes: dict[str, Any]) -> None:
        self.lanes, self.x, self.mine, self.sizes = outputs.lanes, x, mine, sizes
        self.grid = [max(0, self.lanes.of(g, sizes)) for g in outputs.grid.values()]
        self.shape = [self.lanes.of(n, sizes) for n in x.shape or ()]
        self.work = 0
        if any(not s.index for s in mine):
            raise NoValue("boxes are not counted")
        if max(prod(self.grid) * self.lanes.threads, prod(self.shape)) > MOST_COUNTED:
            raise NoValue("too much to count")

    def run(self) -> Written | None:
        """The first element that is written twice, not at all, or read by another thread. Raises NoValue."""
        owner: dict[tuple[int, ...], tuple[str, tuple[int, ...], Site]] = {}
        for place, who, s in self._accesses(("write", "update")):
            before = owner.get(place)
            if before is not None and not s.mode == before[2].mode == "update":
                what = f"{self.x.name}{list(place)} is written twice, also at {before[2].at}"
                return self._fault("AMK402", s, who, what)
            owner[place] = (s.mode, who, s)
        size = prod(self.shape)
        if self.x.access in ("write", "add") and len(owner) < size:
            missing = next(p for p in product(*map(range, self.shape)) if p not in owner)
            written = next(s for s in self.mine if s.mode != "read")
            return self._fault("AMK401", written, (0, 0, 0, 0), f"{self.x.name}{list(missing)} is never written")
        for place, who, s in self._accesses(("read",)):
            if place in owner and (s.late or owner[place][1] != who):
                what = f"{self.x.name}{list(place)} is read, and written at {owner[place][2].at}"
                return self._fault("AMK304", s, who, what)
        return None

    def _fault(self, rule: str, s: Site, who: tuple[int, ...], what: str) -> Written:
        at = {n: int(v) for n, v in self.sizes.items() if type(v) is int}
        return Written(rule, s.at, what, at | dict(zip((*BLOCKS, "t"), who, strict=True)))

    def _accesses(self, modes: tuple[str, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], Site]]:
        for at in product(*map(range, self.grid)):
            known = {**self.sizes, **dict(zip(BLOCKS, at, strict=True))}
            for s in self.mine:
                if s.mode in modes:
                    for t, place in self._site(s, s.loops, known, self.lanes.everyone):
                        yield from (((*place[:-1], place[-1] + k), (*at, t), s) for k in range(s.width))

    def _site(
        self, s: Site, loops: tuple[Loop, ...], known: dict[str, Any], mask: int
    ) -> Iterator[tuple[int, tuple[int, ...]]]:
        if loops:
            yield from self._rounds(s, loops, known, mask)
            return
        for c in s.conds:
            if s.open:
                break  # what data decides is taken to happen
            mask &= self.lanes.mask(c, known)
        columns = [self.lanes.of(e, known) for e in s.index] if mask else []
        self.work += mask.bit_count() * s.width
        if self.work > MOST_COUNTED:
            raise NoValue("too much to count")
        for t in ones(mask):
            yield t, tuple(c[t] if isinstance(c, tuple) else c for c in columns)

    def _rounds(
        self, s: Site, loops: tuple[Loop, ...], known: dict[str, Any], mask: int
    ) -> Iterator[tuple[int, tuple[int, ...]]]:
        loop, q = loops[0], 0
        lo, hi = self.lanes.of(loop.lo, known), self.lanes.of(loop.hi, known)
        each = range(self.lanes.threads)
        firsts = lo if isinstance(lo, tuple) else (lo,) * len(each)
        ends = hi if isinstance(hi, tuple) else (hi,) * len(each)
        while True:
            at = tuple(x + q * loop.step for x in firsts)
            inner = sum(1 << t for t in ones(mask) if at[t] < ends[t])
            if not inner:
                return
            value: Any = at if isinstance(lo, tuple) else at[0]
            yield from self._site(s, loops[1:], {**known, loop.var: value}, inner)
            q += 1
            self.work += 1
            if self.work > MOST_COUNTED:
                raise NoValue("too much to count")
