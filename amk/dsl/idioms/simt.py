"""Tiles that threads copy and multiply.

spread                 which elements of a tile each thread moves
copy_tile, TileCopy    a guarded copy of a tile from global to shared memory: through registers, or by cp.async
RegisterTile           a tile of results spread over the threads' registers, and the outer product that adds to it
ring                   a pipeline of such copies over several slots of shared memory
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from amk.dsl.builder import Handle, KernelBuilder
from amk.dsl.expr import Const, Elem, Expr, ExprLike, apply, as_expr, both, eq, select
from amk.dsl.layout import Fragment
from amk.errors import DescriptorError

__all__ = ["RegisterTile", "TileCopy", "copy_tile", "ring", "spread"]

MOST_VIEWS = 8  # addresses that a thread keeps: more would take more registers than they save instructions


def spread(t: Expr, threads: int, rows: int, cols: int, width: int) -> Iterator[tuple[Expr, Expr]]:
    """Row and first column of each of a thread's vectors in a `rows x cols` tile, neighbouring threads side by side.

    The vectors of all threads together cover the tile exactly once. Sizes and `width` count elements.
    Raises:  DescriptorError where they cannot: a row that is no whole number of vectors, a tile of no whole passes
    """
    chunks = cols // width
    whole = threads % chunks == 0 if 0 < chunks <= threads else chunks and chunks % threads == 0
    if cols % width or not whole or rows * chunks % threads:
        raise DescriptorError(f"{threads} threads do not cover {rows} x {cols} elements by vectors of {width}")
    if chunks <= threads:
        per_pass = threads // chunks
        for i in range(rows // per_pass):
            yield t // chunks + i * per_pass, t % chunks * width
        return
    for r in range(rows):
        for c in range(chunks // threads):
            yield as_expr(r), (t + c * threads) * width


def copy_tile(
    k: KernelBuilder, tile: Handle, source: Handle, through: Handle, *, shape: tuple[int, int], threads: int,
    start: tuple[ExprLike, ExprLike], limit: tuple[ExprLike, ExprLike], width: int = 1,
) -> None:  # fmt: skip
    """tile[i, j] := source[start + (i, j)], and 0 where that is not below `limit`; each element by one thread.

    Shapes:  tile and source of two dimensions, `through` registers for `width` elements; `shape` as `spread` takes it
    Order:   the caller waits (`k.sync()`) before the tile is read
    """
    (row0, col0), (rows, cols) = map(as_expr, start), map(as_expr, limit)
    for i, j in spread(k.t, threads, *shape, width):
        row, col = row0 + i, col0 + j
        k.load(through[0], source[row, col], width=width, when=both(row < rows, col < cols), other=0.0)
        k.store(tile[i, j], *(through[e] for e in range(width)))


class TileCopy:
    """Guarded copies by cp.async of tiles that lie side by side along one axis of a matrix; zeros outside the matrix.

    Shapes:  source (*lead, R, C) in global memory, slots (n, *shape) in shared memory; `shape` in elements
    Units:   `width` elements a copy, of `element_bytes` each: width * element_bytes is 4, 8 or 16, and R's pitch, C and
             the bases are multiples of it
    Order:   the caller commits, waits and synchronises, as `ring` does
    """

    def __init__(
        self, k: KernelBuilder, source: Handle, slots: Handle, *, shape: tuple[int, int], threads: int, width: int,
        axis: int, element_bytes: int = 4,
    ) -> None:  # fmt: skip
        self.k, self.source, self.slots, self.axis = k, source, slots, axis
        self.row = f"cp.async.{element_bytes * width}"
        self.vectors = list(spread(k.t, threads, *shape, width))
        self._views: list[Handle] = []

    def aim(self, start: Expr, *lead: Expr) -> None:
        """Fixes where tiles start along the other axis, and keeps each copy's address at 0 along `axis`.

        Of more than MOST_VIEWS copies one address is kept, and the rest are reckoned from it.
        """
        self.start = start
        for i, j in self.vectors if len(self.vectors) <= MOST_VIEWS else [(Const(0), Const(0))]:
            where = (start + i, j) if self.axis == 1 else (i, start + j)
            self._views.append(self.k.view("from", self.source[(*lead, *where)]))

    def fetch(self, slot: ExprLike, at: Expr, *, limit: Expr, end: Expr) -> None:
        """Starts the copy of the tile at `at` along `axis` into a slot.

        What is not below `limit` on the fixed axis, and not below `end` along `axis`, becomes 0.
        """
        for n, (i, j) in enumerate(self.vectors):
            fixed, moving = (i, j) if self.axis == 1 else (j, i)
            guard = both(self.start + fixed < limit, at + moving < end)
            refs = {"dst": self.slots[slot, i, j], "src": self._address(n, fixed, at, moving)}
            self.k.call(self.row, refs, when=guard)

    def _address(self, n: int, fixed: Expr, at: Expr, moving: Expr) -> Elem:
        if len(self._views) == len(self.vectors):
            return self._views[n][0, at] if self.axis == 1 else self._views[n][at, 0]
        return self._views[0][fixed, at + moving] if self.axis == 1 else self._views[0][at + moving, fixed]


class RegisterTile:
    """A tile of sums in the registers of a block: `fragment.tm x fragment.tn` of them a thread.

    regs        the registers, (tm, tn)
    rows, cols  after `place`: row of each register row, and column of each register column, in the block's tile
    """

    def __init__(self, k: KernelBuilder, name: str, fragment: Fragment, dtype: str = "f32") -> None:
        self.k, self.fragment = k, fragment
        self.regs = k.registers(name, dtype, (fragment.tm, fragment.tn))
        self.rows: list[Expr] = []
        self.cols: list[Expr] = []

    def place(self, origin: tuple[Expr, Expr], thread: tuple[Expr, Expr]) -> None:
        """Says which elements the registers are: of the thread at `thread` in the grid whose tile is at `origin`."""
        f = self.fragment
        self.rows = [origin[0] + f.coords(thread[0], 0, i, 0)[0] for i in range(f.tm)]
        self.cols = [origin[1] + f.coords(0, thread[1], 0, j)[1] for j in range(f.tn)]

    def fill(self, value: ExprLike) -> None:
        """Every register := value."""
        f = self.fragment
        with self.k.loop("i", 0, f.tm, unroll="full") as i, self.k.loop("j", 0, f.tn, unroll="full") as j:
            self.k.store(self.regs[i.var, j.var], value)

    def add_product(
        self, left: Callable[[Expr], Expr], right: Callable[[Expr], Expr], *, rows: int = 0, first: int = 0,
        serpentine: bool = False,
    ) -> None:  # fmt: skip
        """regs[first + i, j] += left(i) * right(j) by fma, for i below `rows` (0: all) and every j.

        `serpentine` takes every second row's columns backwards, so that two operands of an fma come again in the next.
        """
        f, k = self.fragment, self.k
        with k.loop("i", 0, rows or f.tm, unroll="full") as i, k.loop("j", 0, f.tn, unroll="full") as j:
            row = i.var + first
            col = select(eq(i.var % 2, 0), j.var, f.tn - 1 - j.var) if serpentine else j.var
            k.store(self.regs[row, col], apply("fma", left(i.var), right(col), self.regs[row, col]))


def ring(
    k: KernelBuilder, slots: int, steps: Expr, fetch: Callable[[Expr, Expr], None], use: Callable[[Expr], None]
) -> None:
    """A pipeline of cp.async groups over `slots` shared-memory slots: `fetch(step, slot)` runs slots - 1 steps ahead of
    `use(slot)`.

    One group is committed per step, empty ones at the end included, so that the wait always counts the same. The one
    barrier of a step both publishes the data that has landed and frees the slot read in the step before.
    """
    if slots == 1:
        _single(k, steps, fetch, use)
        return
    for s in range(slots - 1):
        fetch(as_expr(s), as_expr(s))
        k.commit()
    with k.loop("step", 0, steps, slot=0, fill=slots - 1) as loop:
        k.wait(pending=slots - 2)
        k.sync()
        ahead = loop.var + (slots - 1)
        with k.when(ahead < steps):
            fetch(ahead, loop.fill)
        k.commit()
        use(loop.slot)
        loop.next(slot=_after(loop.slot, slots), fill=_after(loop.fill, slots))
    k.wait(pending=0)


def _single(k: KernelBuilder, steps: Expr, fetch: Callable[[Expr, Expr], None], use: Callable[[Expr], None]) -> None:
    with k.loop("step", 0, steps) as loop:
        fetch(loop.var, as_expr(0))
        k.commit()
        k.wait(pending=0)
        k.sync()
        use(as_expr(0))
        k.sync()


def _after(slot: Expr, slots: int) -> Expr:
    return select(eq(slot, slots - 1), 0, slot + 1)
