"""What a thread has to hold in each stretch of straight code: liveness over the descriptor, nothing compiled.

In: a kernel. Out: one `Stretch` for each piece of code between branches, barriers and loop heads. Named values are put
in place, since the compiler computes them again where that is cheaper than keeping them.
Source: Appel and Palsberg, "Modern Compiler Implementation" (2002), chapter 10, liveness; the live ranges that
        `nvdisasm -plr` prints for what ptxas makes of golden kernels and random schedules (benchmarks/registers.py)
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from amk.dsl.expr import Const, Elem, Expr, has_elements, integers, names, subterms
from amk.dsl.kept import Kept, Piece
from amk.dsl.kernel import KernelDescriptor, children
from amk.dsl.lives import Lives, Loop, Spanned, most
from amk.dsl.nodes import Buffer, Call, For, If, Let, Load, Param, Statement, Store
from amk.dsl.types import nbytes

__all__ = ["Liveness", "Stretch", "liveness"]


class Stretch(NamedTuple):
    """4-byte registers that a stretch of straight code needs, by what for.

    data:      elements of register arrays: `sunk` if each load waits until its value is needed, `filled` those that
               loads here fill, `streamed` the most of one array, `reused` what loads fill again of the same elements,
               `unrolled` what copies of loads by unrolling fill beyond that
    carried:   loop variables, bounds and carried values of the loops around
    shared:    addresses in shared memory that the loops around keep, `globals` in global memory, `guards` sides of
               comparisons, `values` unchanging parts of what moves
    moving:    global addresses computed here, `moving_shared` those in shared memory
    depth:     loops around that are kept
    """

    data: int
    sunk: int
    filled: int
    streamed: int
    reused: int
    unrolled: int
    carried: int
    shared: int
    globals: int
    guards: int
    values: int
    moving: int
    moving_shared: int
    depth: int


class Liveness(NamedTuple):
    """Every stretch that no other exceeds in every respect; and the registers of whole register arrays and carried
    values at the worst statement, which no compiler can compute again."""

    stretches: tuple[Stretch, ...]
    data: int


@lru_cache(maxsize=16)
def liveness(kernel: KernelDescriptor) -> Liveness:
    """The liveness of a kernel."""
    w = _Walk(kernel)
    w.block(kernel.body)
    w.kept.piece.end = w.kept.loops[0].end = w.now + 1
    loops = w.kept.loops
    units, held = w.lives.units(loops), [_held(i, loops) for i in range(len(loops))]
    kept: list[Stretch] = []
    for s in sorted({_measured(p, units, held[p.loop], loops[p.loop].depth) for p in w.pieces}, reverse=True):
        if not any(all(x >= y for x, y in zip(k, s, strict=True)) for k in kept):
            kept.append(s)
    return Liveness(tuple(kept), most([*w.lives.whole(loops), *w.carried()]))


class _Walk:
    """Numbers the statements, and notes what each uses."""

    def __init__(self, kernel: KernelDescriptor) -> None:
        self.kernel, self.now = kernel, 0
        self.kept, self.lives = Kept(kernel), Lives(kernel.buffers)
        self.pieces = [self.kept.piece]

    def carried(self) -> list[tuple[tuple[int, int], int]]:
        """Where carried values live, and their registers."""
        return [((k.start, k.end), k.carried) for k in self.kept.loops]

    def block(self, body: Iterable[Statement]) -> None:
        for s in body:
            self.now += 1
            if isinstance(s, For):
                self._for(s)
            elif isinstance(s, Let):
                self._let(s)
            elif isinstance(s, Load):
                self._load(s)
            elif isinstance(s, Store):
                self._store(s)
            elif isinstance(s, Call):
                self._call(s)
            else:
                self._other(s)

    def _other(self, s: Statement) -> None:
        if s.kind == "atomic":
            self._read(s.value)
            self._operand(s.dst)
            if s.old is not None:
                self._use(s.old, write=True, load=True)
        elif s.kind == "wait" and s.flag is not None and s.value is not None:
            self._operand(s.flag)
            self._read(s.value)
        elif isinstance(s, If):
            self._read(s.cond)
            if self.kept.inner:
                self.kept.guard(s.cond)
        elif s.kind == "sync" and s.scope != "warp":
            self._cut(self.kept.piece.copies, self.now)
        for _, body in children(s):
            self._inside(body, self.kept.inner, self.kept.piece.copies)

    def _cut(self, copies: int, start: int) -> None:
        """Here one stretch ends and the next begins."""
        self.kept.piece.end = start - 1
        self.kept.piece = Piece(self.kept.inner, copies, start)
        self.pieces.append(self.kept.piece)

    def _inside(self, body: tuple[Statement, ...], loop: int, copies: int) -> None:
        """A body behind a branch; a loop takes one number more, for what its next iteration starts with."""
        outer, around = self.kept.piece.copies, self.kept.inner
        self.kept.inner = loop
        self._cut(copies, self.now)
        self.block(body)
        self.now += loop != around
        self.kept.inner = around
        self._cut(outer, self.now + 1)

    def _let(self, s: Let) -> None:
        k = self.kept
        if s.view is not None:
            k.depth[s.name] = max(k.depth.get(s.view.buffer, 0), *map(k.moves, s.view.index), 0)
        elif s.value is not None and has_elements(s.value):
            self._read(s.value)
            k.depth[s.name] = k.loops[k.inner].depth
        elif s.value is not None:
            k.sums.lets[s.name] = s.value
            k.depth[s.name] = k.moves(s.value)
            if names(s.value) <= k.uniform:
                k.uniform.add(s.name)

    def _load(self, s: Load) -> None:
        if s.when is not None:
            self._guard(s.when)
        piece, d = self.kept.piece, self.kernel.find(s.dst.buffer)
        from_memory = self.kernel.space(s.src) != "register"
        if from_memory and isinstance(d, (Buffer, Param)):
            size = max(1, s.width * nbytes(d.dtype) // 4)
            piece.unrolled += size * (piece.copies - min(self.kept.copies(s.dst.index), piece.copies))
            piece.loaded.add(d.name)
        self._operand(s.src)
        self._use(s.dst, write=True, width=s.width, load=from_memory)

    def _store(self, s: Store) -> None:
        for v in s.values:
            self._read(v)
        if self.kernel.space(s.dst) == "register":
            fill = all(isinstance(v, Const) for v in s.values)
            self._use(s.dst, write=True, width=len(s.values), fill=fill)
        else:
            self._operand(s.dst)

    def _call(self, s: Call) -> None:
        for role, x in s.refs.items():
            if self.kernel.space(x) == "register":
                self._use(x, write=role == "dst")
            else:
                self._operand(x)
        for name, e in s.args.items():
            if name == "when":
                self._guard(e)
            else:
                self._read(e)

    def _for(self, s: For) -> None:
        k = self.kept
        for c in s.carry:
            self._read(c.init)
        trips, copies = _trips(s), k.piece.copies
        if s.unroll == "full" and trips is not None:
            k.unrolling[s.var] = trips
            k.piece.copies = copies * trips
            self.block(s.body)
            k.piece.copies = copies
            del k.unrolling[s.var]
            return
        loop, at = self._opened(s, trips), len(k.loops) - 1
        again = s.unroll if isinstance(s.unroll, int) else 1
        self._inside(s.body, at, again if trips is None else min(again, trips))
        around, k.inner, loop.end = k.inner, at, self.now
        for c in s.carry:
            self._read(c.next)
        k.inner = around

    def _opened(self, s: For, trips: int | None) -> Loop:
        """A loop that is kept, and what it holds for itself."""
        k = self.kept
        loop = Loop(k.loops[k.inner].depth + 1, k.inner, self.now)
        k.loops.append(loop)
        loop.held["carry", s.var] = 1
        if trips is None and not k.free(k.sums.of(s.hi)[1]):
            loop.held["carry", s.hi] = 1
        k.depth[s.var] = loop.depth
        for c in s.carry:
            k.depth[c.name] = loop.depth
            loop.held["carry", c.name] = size = -(-nbytes(c.dtype) // 4)
            loop.carried += size
        return loop

    # -- operands ---------------------------------------------------------------------------------------------------
    def _guard(self, e: Expr) -> None:
        self._read(e)
        self.kept.guard(e)

    def _operand(self, x: Elem) -> None:
        for e in _elements(x)[1:]:
            self._use(e, write=False)
        self.kept.operand(x)

    def _read(self, e: Expr) -> None:
        for x in _elements(e):
            self._use(x, write=False)

    def _use(self, x: Elem, *, write: bool, width: int = 1, load: bool = False, fill: bool = False) -> None:
        if x.buffer in self.kernel.views:
            x = self.kernel.resolve(x)
        self.lives.use(x, self.now, self.kept.inner, write=write, width=width, load=load, fill=fill)


@lru_cache(maxsize=1 << 14)
def _elements(e: Expr) -> tuple[Elem, ...]:
    """The elements in a term, outermost first."""
    return tuple(x for x in subterms(e) if isinstance(x, Elem)) if has_elements(e) else ()


def _trips(s: For) -> int | None:
    """Iterations of a loop with constant bounds."""
    bounds = integers(s.lo, s.hi, s.step)
    return len(range(*bounds)) if bounds is not None and bounds[2] else None


def _held(at: int, loops: list[Loop]) -> dict[object, int]:
    """Registers that a loop and those around it hold, by what for."""
    held: dict[tuple[object, ...], int] = {}
    while at:
        for key, n in loops[at].held.items():
            held[key] = max(n, held.get(key, 0))
        at = loops[at].parent
    kinds: dict[object, int] = dict.fromkeys(("carry", "shared", "global", "guard", "value"), 0)
    for key, n in held.items():
        kinds[key[0]] += n
    return kinds


def _measured(p: Piece, units: list[Spanned], held: dict[object, int], depth: int) -> Stretch:
    """What a stretch needs, and the loops around it hold."""
    here = [u for u in units if u.span[0] <= p.end and u.span[1] >= p.start]
    filled: dict[str, int] = {}
    for u in here:
        if u.array in p.loaded:
            filled[u.array] = filled.get(u.array, 0) + u.registers
    reused = sum(u.registers for u in here if u.again and u.array in p.loaded and u.span[0] > p.start)
    data = most([(u.span, u.registers) for u in here], p.start, p.end)
    sunk = most([(u.sunk, u.registers) for u in here], p.start, p.end)
    return Stretch(
        data=data, sunk=sunk, filled=sum(filled.values()), streamed=max(filled.values(), default=0),
        reused=reused, unrolled=p.unrolled, carried=held["carry"], shared=held["shared"], globals=held["global"],
        guards=held["guard"] + sum(p.guards.values()), values=held["value"], moving=sum(p.globals.values()),
        moving_shared=sum(p.shared.values()), depth=depth,
    )  # fmt: skip
