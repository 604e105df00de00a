"""What the loops of a kernel keep in registers besides data: addresses and sides of comparisons that do not change.

In: operands and conditions in the order of the statements. Out: for each loop what it holds, for each stretch of
straight code what it computes anew.

A global address is two registers, and its own where it differs from others by more than a constant along the last
dimension: rows times their pitch are products of 64 bits, one for each row. A shared address and a side of a comparison
are one. What all threads of a block have in common lies in constant memory or in uniform registers and costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from amk.dsl.expr import Apply, Const, Elem, Expr, Var, names
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Swizzle, offset, strides
from amk.dsl.lives import Loop
from amk.dsl.nodes import Buffer, Param
from amk.dsl.record import field, record
from amk.dsl.sums import Sums

__all__ = ["Kept", "Piece"]

_ONE = Const(1)
_COMPARED = frozenset(("<", "<=", ">", ">=", "==", "!="))
Key = tuple[object, ...]
Row = tuple[Key, int, Iterable[Expr]]  # how one row's product is told from others, the loop that moves it, its atoms


@record()
class Piece:
    """A stretch while it is walked: what it computes anew, and the `copies` that unrolling makes of a statement."""

    loop: int
    copies: int
    start: int
    end: int = 0
    globals: dict[Key, int] = field(default_factory=dict)
    shared: dict[Key, int] = field(default_factory=dict)
    guards: dict[Expr, int] = field(default_factory=dict)
    unrolled: int = 0
    loaded: set[str] = field(default_factory=set)


class Kept:
    """Which names move in which loop, and what the loops hold."""

    def __init__(self, kernel: KernelDescriptor) -> None:
        self.kernel, self.sums, self.inner = kernel, Sums(), 0
        self.loops = [Loop(0, 0, 0)]
        self.piece = Piece(0, 1, 0)
        self.depth: dict[str, int] = {}  # names that some loop changes: depth of the innermost that does
        self.unrolling: dict[str, int] = {}  # variables of loops that become straight code, and their trips
        self.uniform = {"bx", "by", "bz", "gx", "gy", "gz", "rank", *(p.name for p in kernel.scalars)}
        self._moved: dict[Expr, int] = {}

    def moves(self, e: Expr) -> int:
        """Depth of the innermost loop that changes a term."""
        found = self._moved.get(e)
        if found is None:
            depth = self.depth
            found = self._moved[e] = max([depth.get(n, 0) for n in names(e)], default=0)
        return found

    def free(self, atoms: Iterable[Expr]) -> bool:
        """Whether all threads of a block have the same value."""
        return all(names(x) <= self.uniform for x in atoms)

    def copies(self, terms: Iterable[Expr]) -> int:
        """How many values unrolling makes of these terms."""
        unrolling = self.unrolling
        if not unrolling:
            return 1
        return prod(unrolling[n] for n in frozenset().union(*map(names, terms)) & unrolling.keys())

    def around(self) -> list[Loop]:
        """The loops around, the outermost first."""
        out, i = [], self.inner
        while i:
            out.append(self.loops[i])
            i = self.loops[i].parent
        return out[::-1]

    # -- conditions -------------------------------------------------------------------------------------------------
    def guard(self, e: Expr) -> None:
        """A condition: each comparison in it."""
        if isinstance(e, Apply) and e.op in ("and", "or", "not"):
            for a in e.args:
                self.guard(a)
        elif isinstance(e, Apply) and e.op in _COMPARED:
            for side in e.args:
                self._side(side)

    def _side(self, e: Expr) -> None:
        """One side of a comparison: kept where the loop does not change it, its unchanging part where it does."""
        constant, atoms = self.sums.of(e)
        if not atoms or (len(atoms) == 1 and self.free(atoms)):
            return
        if not self.inner and len(atoms) > 1:
            self.piece.guards[e] = self.copies(atoms)
        for loop in self.around():
            still = frozenset(x for x in atoms.items() if self.moves(x[0]) < loop.depth)
            if not still or self.free(x for x, _ in still):
                continue
            if len(still) == len(atoms):
                loop.held["guard", still, constant] = self.copies(atoms)
            else:
                loop.held["value", still] = 1

    # -- addresses --------------------------------------------------------------------------------------------------
    def operand(self, x: Elem) -> None:
        """An operand in memory."""
        d = self.kernel.find(x.buffer)
        if isinstance(d, Param):
            self._global(x, d)
        elif isinstance(d, Buffer) and d.space == "shared":
            self._shared(self.kernel.resolve(x), d)

    def _shared(self, x: Elem, b: Buffer) -> None:
        if isinstance(b.layout, Swizzle):
            atoms = self.sums.of(offset(b.shape, b.layout, x.index))[1]
        else:
            atoms = self._flat(x, strides(b.shape, b.layout))
        self.piece.shared[frozenset(atoms.items()),] = self.copies(atoms)
        before: frozenset[tuple[Expr, int]] = frozenset()
        for loop in self.around():
            still = frozenset(a for a in atoms.items() if self.moves(a[0]) < loop.depth)
            if still and still != before and not self.free(a for a, _ in still):
                loop.held["shared", still] = self.copies(a for a, _ in still)
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
        rows: list[Row] = []
        line: dict[Expr, int] = {}
        for i, step in zip(x.index, self.kernel.strides_of(p)[-len(x.index) :], strict=True):
            constant, atoms = self.sums.of(i)
            if step == _ONE:
                line = {a: n for a, n in atoms.items() if not (isinstance(a, Var) and a.name in self.unrolling)}
            elif atoms or (constant and not isinstance(step, Const)):
                key = (constant, frozenset(atoms.items()), step)
                rows.append((key, max(map(self.moves, atoms), default=0), atoms))
        self._keep(x.buffer, rows, line)

    def _keep(self, name: str, rows: list[Row], line: dict[Expr, int]) -> None:
        view = name in self.kernel.views
        everything = [a for _, _, atoms in rows for a in atoms] + list(line)
        whole: Key = (name, tuple(key for key, _, _ in rows), frozenset(line.items()))
        last: Key = ()
        for loop in self.around():
            if view and self.depth.get(name, 0) >= loop.depth:
                continue
            still = [(key, atoms) for key, moves, atoms in rows if moves < loop.depth]
            along = frozenset(a for a in line.items() if self.moves(a[0]) < loop.depth)
            atoms = [a for _, of in still for a in of] + [a for a, _ in along]
            key: Key = (name, tuple(k for k, _ in still), along)
            if key != last and (view or not self.free(atoms)):
                loop.held["global", key] = 2 * self.copies(atoms)
            last = key
        if last != whole and not (view and not everything and self.inner):
            self.piece.globals[whole] = 2 * self.copies(everything)
