"""What a thread has to hold in each stretch of straight code: liveness over the descriptor, nothing compiled.

In: a kernel. Out: one `Stretch` for each piece of code between branches, barriers and loop heads.

A register array lives element by element where every index is a constant, else as a whole: from its first write to its
last read, and through a loop that carries it. A fill with constants starts no life: the compiler fills where it reads.
Named values are put in place, since the compiler computes them again where that is cheaper than keeping them. Kept
through a loop is what no iteration changes and an access or a condition in it needs: two registers for each global
address that differs from another by more than a constant, one for a shared address or one side of a comparison. What is
the same for all threads lies in constant memory or in uniform registers and costs nothing.
Source: Appel and Palsberg, "Modern Compiler Implementation" (2002), chapter 10, liveness; the live ranges that
        `nvdisasm -plr` prints for what ptxas made of the golden kernels and of random schedules (benchmarks/registers.py)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from amk.dsl.expr import Apply, Const, Elem, Expr, Var, has_elements, integers, names, subterms
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Swizzle, strides
from amk.dsl.layout import offset as layout_offset
from amk.dsl.nodes import Atomic, Buffer, Call, For, If, Let, Load, Param, Statement, Store, Sync, Team
from amk.dsl.sums import Sums
from amk.dsl.types import nbytes

__all__ = ["Stretch", "live_data", "stretches"]

_ONE = Const(1)
_COMPARED = frozenset(("<", "<=", ">", ">=", "==", "!="))
Key = tuple[object, ...]
Unit = tuple[str, tuple[int | None, ...]]  # a register array, and its constant indices


class Stretch(NamedTuple):
    """4-byte registers that a stretch of straight code needs, by what for.

    data:        elements of register arrays: `filled` are those that loads here fill, `streamed` the most of one array
    carried:     loop variables, bounds and carried values of the loops around
    shared:      addresses in shared memory kept through the loops around, `globals` in global memory, `guards` sides
                 of comparisons, `values` parts of addresses that move
    moving:      global addresses computed here, `moving_shared` those in shared memory
    unrolled:    what copies of loads by unrolling fill beyond what is declared
    depth:       loops around that are kept
    """

    data: int
    filled: int
    streamed: int
    carried: int
    shared: int
    globals: int
    guards: int
    values: int
    moving: int
    moving_shared: int
    unrolled: int
    depth: int


def stretches(kernel: KernelDescriptor) -> tuple[Stretch, ...]:
    """Every stretch that no other exceeds in every respect."""
    w = _Walk(kernel)
    w.run()
    found = sorted({w.measured(p) for p in w.pieces}, reverse=True)
    kept: list[Stretch] = []
    for s in found:
        if not any(all(x >= y for x, y in zip(k, s, strict=True)) for k in kept):
            kept.append(s)
    return tuple(kept)


def live_data(kernel: KernelDescriptor) -> int:
    """Registers of whole register arrays and carried values at the worst statement: what cannot be computed again."""
    w = _Walk(kernel)
    w.run()
    spans = [(w.span(x), _registers(b.dtype, b.shape)) for name, x in w.whole.items() if (b := w.buffers.get(name))]
    carried = [((x.start, x.end), n) for x in w.loops for key, n in x.held.items() if key[0] == "carry"]
    return _most([*spans, *carried])


# ----------------------------------------------------------------------------------------------------------- the walk
@dataclass
class _Loop:
    """A loop that is kept: where it starts and ends, and what is held all through it."""

    depth: int
    parent: int
    start: int
    end: int = 0
    held: dict[Key, int] = field(default_factory=dict)


@dataclass
class _Piece:
    """A stretch while it is walked: `copies` that unrolling makes of each statement."""

    loop: int
    copies: int
    start: int
    end: int = 0
    moving: dict[Key, int] = field(default_factory=dict)
    guards: dict[Expr, int] = field(default_factory=dict)
    unrolled: int = 0
    loaded: set[str] = field(default_factory=set)


@dataclass
class _Life:
    """First and last use of one value of a register array, and the innermost loops of its uses."""

    first: int
    last: int
    read_first: bool
    loops: set[int] = field(default_factory=set)
    read: bool = False


class _Walk:
    """Numbers the statements, and notes what each stretch and each loop needs."""

    def __init__(self, kernel: KernelDescriptor) -> None:
        self.kernel, self.sums = kernel, Sums()
        self.buffers = {b.name: b for b in kernel.buffers if b.space == "register"}
        self.fixed = {name: [True] * len(b.shape) for name, b in self.buffers.items()}
        self.uses: list[tuple[Elem, int, int, bool, bool, bool]] = []
        self.moved: dict[Expr, int] = {}
        self.uniform = {"bx", "by", "bz", "gx", "gy", "gz", "rank", *(p.name for p in kernel.scalars)}
        self.now, self.inner = 0, 0
        self.loops = [_Loop(0, 0, 0)]
        self.depth: dict[str, int] = {}  # names that some loop changes: depth of the innermost that does
        self.unrolling: dict[str, int] = {}  # variables of loops that become straight code, and their trips
        self.units: dict[Unit, list[_Life]] = {}
        self.whole: dict[str, _Life] = {}
        self.piece = _Piece(0, 1, 0)
        self.pieces = [self.piece]

    def run(self) -> None:
        self.block(self.kernel.body)
        self.piece.end = self.loops[0].end = self.now + 1
        for use in self.uses:
            self._live(*use)

    # -- statements -------------------------------------------------------------------------------------------------
    def block(self, body: Iterable[Statement]) -> None:
        for s in body:
            self.now += 1
            if isinstance(s, Let):
                self._let(s)
            elif isinstance(s, Load):
                self._load(s)
            elif isinstance(s, Store):
                self._store(s)
            elif isinstance(s, Call):
                self._call(s)
            elif isinstance(s, Atomic):
                self._reads(s.value)
                self._operand(s.dst)
            elif isinstance(s, If):
                self._guard(s.cond)
                self._inside(s.body, self.inner, self.piece.copies)
            elif isinstance(s, For):
                self._for(s)
            elif isinstance(s, Team):
                for r in s.roles:
                    self._inside(r.body, self.inner, self.piece.copies)
            elif isinstance(s, Sync) and s.scope != "warp":
                self._cut(self.piece.copies, self.now)

    def _cut(self, copies: int, start: int) -> None:
        """Here one stretch ends and the next begins."""
        self.piece.end = start - 1
        self.piece = _Piece(self.inner, copies, start)
        self.pieces.append(self.piece)

    def _inside(self, body: tuple[Statement, ...], loop: int, copies: int) -> None:
        """A body behind a branch; a loop takes one number more, for what its next iteration starts with."""
        outer, around = self.piece.copies, self.inner
        self.inner = loop
        self._cut(copies, self.now)
        self.block(body)
        self.now += loop != around
        self.inner = around
        self._cut(outer, self.now + 1)

    def _let(self, s: Let) -> None:
        if s.view is not None:
            self.depth[s.name] = max(map(self._moves, s.view.index), default=0)
            if s.view.buffer in self.depth:
                self.depth[s.name] = max(self.depth[s.name], self.depth[s.view.buffer])
        elif s.value is not None and has_elements(s.value):
            self._reads(s.value)
            self.depth[s.name] = self.loops[self.inner].depth
        elif s.value is not None:
            self.sums.lets[s.name] = s.value
            self.depth[s.name] = self._moves(s.value)
            if names(s.value) <= self.uniform:
                self.uniform.add(s.name)

    def _load(self, s: Load) -> None:
        if s.when is not None:
            self._guard(s.when)
        from_memory = self.kernel.space(s.src) != "register"
        if from_memory:
            size = max(1, s.width * nbytes(self._dtype(s.dst)) // 4)
            apart = min(self._copies(s.dst.index), self.piece.copies)
            self.piece.unrolled += size * (self.piece.copies - apart)
            self.piece.loaded.add(self.kernel.resolve(s.dst).buffer)
        self._operand(s.src)
        self._use(s.dst, write=True, width=s.width, anew=from_memory)

    def _store(self, s: Store) -> None:
        for v in s.values:
            self._reads(v)
        if self.kernel.space(s.dst) != "register":
            self._operand(s.dst)
        else:
            fill = all(isinstance(v, Const) for v in s.values)
            self._use(s.dst, write=True, width=len(s.values), fill=fill)

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
                self._reads(e)

    def _for(self, s: For) -> None:
        for c in s.carry:
            self._reads(c.init)
        trips, copies = _trips(s), self.piece.copies
        if s.unroll == "full" and trips is not None:
            self.unrolling[s.var] = trips
            self.piece.copies = copies * trips
            self.block(s.body)
            self.piece.copies = copies
            del self.unrolling[s.var]
            return
        around = self.inner
        loop = _Loop(self.loops[around].depth + 1, around, self.now)
        self.loops.append(loop)
        loop.held["var", s.var] = 1
        if trips is None and not self._free(self.sums.of(s.hi)[1]):
            loop.held["bound", s.hi] = 1
        self.depth[s.var] = loop.depth
        for c in s.carry:
            self.depth[c.name] = loop.depth
            loop.held["carry", c.name] = -(-nbytes(c.dtype) // 4)
        again = s.unroll if isinstance(s.unroll, int) else 1
        self._inside(s.body, len(self.loops) - 1, again if trips is None else min(again, trips))
        self.inner, loop.end = self.loops.index(loop), self.now
        for c in s.carry:
            self._reads(c.next)
        self.inner = around

    # -- values -----------------------------------------------------------------------------------------------------
    def _reads(self, e: Expr) -> None:
        if has_elements(e):
            for x in subterms(e):
                if isinstance(x, Elem):
                    self._use(x, write=False)

    def _use(self, x: Elem, *, write: bool, width: int = 1, anew: bool = False, fill: bool = False) -> None:
        """A register element that is read or written; `anew`: a load, which ends what was read before."""
        if x.buffer in self.kernel.views:
            x = self.kernel.resolve(x)
        fixed = self.fixed.get(x.buffer)
        if fixed is None:
            return
        self.uses.append((x, self.now, self.inner, write, anew, fill))
        for i, at in enumerate(x.index[: len(fixed)]):
            if fixed[i] and not isinstance(at, Const):
                fixed[i] = False
        if width > 1:
            fixed[-1] = False

    def _live(self, x: Elem, now: int, inner: int, write: bool, anew: bool, fill: bool) -> None:
        """One use, after all of them are known."""
        life = self.whole.setdefault(x.buffer, _Life(now, now, not write))
        life.last = now
        life.loops.add(inner)
        fixed = self.fixed[x.buffer]
        at = tuple(int(i.value) if f and isinstance(i, Const) else None for f, i in zip(fixed, x.index, strict=False))
        lives = self.units.setdefault((x.buffer, at), [])
        if fill and not lives:
            return
        if not lives or (anew and lives[-1].read and lives[-1].loops == {inner}):
            lives.append(_Life(now, now, not write))
        life = lives[-1]
        life.last, life.read = now, life.read or not write
        life.loops.add(inner)

    def _moves(self, e: Expr) -> int:
        """Depth of the innermost loop that changes a term."""
        found = self.moved.get(e)
        if found is None:
            depth = self.depth
            found = self.moved[e] = max([depth.get(n, 0) for n in names(e)], default=0)
        return found

    def _free(self, atoms: Iterable[Expr]) -> bool:
        """Whether all threads of a block have the same value, which then takes no register of theirs."""
        return all(names(x) <= self.uniform for x in atoms)

    def _copies(self, terms: Iterable[Expr]) -> int:
        """How many values unrolling makes of these terms."""
        unrolling = self.unrolling
        if not unrolling:
            return 1
        return prod(unrolling[n] for n in frozenset().union(*map(names, terms)) & unrolling.keys())

    def _around(self) -> list[_Loop]:
        """The loops around, the outermost first."""
        out, i = [], self.inner
        while i:
            out.append(self.loops[i])
            i = self.loops[i].parent
        return out[::-1]

    # -- conditions and addresses -----------------------------------------------------------------------------------
    def _guard(self, e: Expr) -> None:
        if isinstance(e, Apply) and e.op in ("and", "or", "not"):
            for a in e.args:
                self._guard(a)
            return
        self._reads(e)
        if isinstance(e, Apply) and e.op in _COMPARED:
            for side in e.args:
                self._side(side)

    def _side(self, e: Expr) -> None:
        """One side of a comparison: kept where the loop does not change it, its unchanging part where it does."""
        constant, atoms = self.sums.of(e)
        if not atoms or (len(atoms) == 1 and self._free(atoms)):
            return
        if not self.inner and len(atoms) > 1:
            self.piece.guards[e] = self._copies(atoms)
        for loop in self._around():
            still = frozenset(x for x in atoms.items() if self._moves(x[0]) < loop.depth)
            if still and not self._free(x for x, _ in still):
                if len(still) == len(atoms):
                    loop.held["guard", still, constant] = self._copies(atoms)
                else:
                    loop.held["value", still] = 1

    def _operand(self, x: Elem) -> None:
        """An operand in memory."""
        for i in x.index:
            self._reads(i)
        d = self.kernel.find(x.buffer)
        if isinstance(d, Param):
            self._global(x, d)
        elif isinstance(d, Buffer) and d.space == "shared":
            self._shared(self.kernel.resolve(x), d)

    def _shared(self, x: Elem, b: Buffer) -> None:
        if isinstance(b.layout, Swizzle):
            atoms = self.sums.of(layout_offset(b.shape, b.layout, x.index))[1]
        else:
            atoms = self._flat(x, strides(b.shape, b.layout))
        self.piece.moving["shared", frozenset(atoms.items())] = self._copies(atoms)
        before: frozenset[tuple[Expr, int]] = frozenset()
        for loop in self._around():
            still = frozenset(a for a in atoms.items() if self._moves(a[0]) < loop.depth)
            if still and still != before and not self._free(a for a, _ in still):
                loop.held["shared", still] = self._copies(a for a, _ in still)
            before = still

    def _flat(self, x: Elem, steps: tuple[int, ...]) -> dict[Expr, int]:
        """The atoms of an offset; variables of unrolled loops are constants in each copy."""
        out: dict[Expr, int] = {}
        for i, step in zip(x.index, steps, strict=True):
            for a, n in self.sums.of(i)[1].items():
                if not (isinstance(a, Var) and a.name in self.unrolling):
                    out[a] = out.get(a, 0) + n * step
        return out

    def _global(self, x: Elem, p: Param) -> None:
        """Rows times their pitch are products of 64 bits, one for each row; along the last dimension constants are
        added by the instruction."""
        rows: list[tuple[Key, int, Iterable[Expr]]] = []
        line: dict[Expr, int] = {}
        for i, step in zip(x.index, self.kernel.strides_of(p)[-len(x.index) :], strict=True):
            c, atoms = self.sums.of(i)
            if step == _ONE:
                line = {a: n for a, n in atoms.items() if not (isinstance(a, Var) and a.name in self.unrolling)}
            elif atoms or c:
                rows.append(((c, frozenset(atoms.items()), step), max(map(self._moves, atoms), default=0), atoms))
        self._keep_global(x.buffer, rows, line)

    def _keep_global(self, name: str, rows: list[tuple[Key, int, Iterable[Expr]]], line: dict[Expr, int]) -> None:
        view = name in self.kernel.views
        everything = [a for _, _, atoms in rows for a in atoms] + list(line)
        whole: Key = ("global", name, tuple(key for key, _, _ in rows), frozenset(line.items()))
        last: Key = ()
        for loop in self._around():
            if view and self.depth.get(name, 0) >= loop.depth:
                continue
            still = [(key, atoms) for key, moves, atoms in rows if moves < loop.depth]
            along = frozenset(a for a in line.items() if self._moves(a[0]) < loop.depth)
            atoms = [a for _, of in still for a in of] + [a for a, _ in along]
            key: Key = ("global", name, tuple(k for k, _ in still), along)
            if key != last and (view or not self._free(atoms)):
                loop.held[key] = 2 * self._copies(atoms)
            last = key
        if last != whole and not (view and not everything and self.inner):
            self.piece.moving[whole] = 2 * self._copies(everything)

    def _dtype(self, x: Elem) -> str:
        d = self.kernel.find(x.buffer)
        return d.dtype if isinstance(d, (Buffer, Param)) else "f32"

    # -- the outcome ------------------------------------------------------------------------------------------------
    def span(self, life: _Life) -> tuple[int, int]:
        """First and last statement; what is used inside and outside of a loop, or read first in it, lives through it."""
        inside: set[int] = set()
        for i in life.loops:
            while i and i not in inside:
                inside.add(i)
                i = self.loops[i].parent
        first, last = life.first, life.last
        for i in sorted(inside, reverse=True):
            loop = self.loops[i]
            if first < loop.start or last > loop.end or life.read_first:
                first, last = min(first, loop.start), max(last, loop.end)
        return first, last

    def _spans(self) -> list[tuple[str, tuple[int, int], int]]:
        if not hasattr(self, "_made"):
            self._made = [
                (unit[0], self.span(life), self._unit_registers(unit)) for unit, lives in self.units.items() for life in lives
            ]
        return self._made

    def _unit_registers(self, unit: Unit) -> int:
        b = self.buffers[unit[0]]
        return _registers(b.dtype, tuple(n for n, at in zip(b.shape, unit[1], strict=True) if at is None))

    def measured(self, p: _Piece) -> Stretch:
        """What a stretch needs, and the loops around it hold."""
        here = [(name, span, n) for name, span, n in self._spans() if span[0] <= p.end and span[1] >= p.start]
        data = _most([(span, n) for _, span, n in here], p.start, p.end)
        filled: dict[str, int] = {}
        for name, _, n in here:
            if name in p.loaded:
                filled[name] = filled.get(name, 0) + n
        held: dict[Key, int] = {}
        i = p.loop
        while i:
            for key, n in self.loops[i].held.items():
                held[key] = max(n, held.get(key, 0))
            i = self.loops[i].parent
        kinds = dict.fromkeys(("var", "bound", "carry", "shared", "global", "guard", "value"), 0)
        for key, n in held.items():
            kinds[str(key[0])] += n
        moving = {"global": 0, "shared": 0}
        for key, n in p.moving.items():
            moving[str(key[0])] += n
        return Stretch(
            data, sum(filled.values()), max(filled.values(), default=0), kinds["var"] + kinds["bound"] + kinds["carry"], kinds["shared"],
            kinds["global"], kinds["guard"] + sum(p.guards.values()), kinds["value"], moving["global"], moving["shared"], p.unrolled,
            self.loops[p.loop].depth,
        )  # fmt: skip


# -------------------------------------------------------------------------------------------------------------- helpers
def _trips(s: For) -> int | None:
    bounds = integers(s.lo, s.hi, s.step)
    return len(range(*bounds)) if bounds is not None and bounds[2] else None


def _registers(dtype: str, shape: tuple[int, ...]) -> int:
    return -(-prod(shape) * nbytes(dtype) // 4)


def _most(spans: list[tuple[tuple[int, int], int]], low: int = 0, high: int = 1 << 62) -> int:
    """Registers of all that lives at the worst statement from `low` to `high`."""
    events: dict[int, int] = {}
    for (first, last), n in spans:
        if last >= low and first <= high:
            events[max(first, low)] = events.get(max(first, low), 0) + n
            events[last + 1] = events.get(last + 1, 0) - n
    live = worst = 0
    for at in sorted(events):
        live += events[at]
        worst = max(worst, live) if at <= high else worst
    return worst
