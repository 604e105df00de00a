"""Python macros over the builder: patterns that many kernels write the same way. They add no node kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import Expr, as_expr, eq, select

__all__ = ["ring", "spread"]


def spread(t: Expr, threads: int, rows: int, cols: int, width: int) -> Iterator[tuple[Expr, Expr]]:
    """Row and first column of each of a thread's vectors in a `rows x cols` tile, neighbouring threads side by side.

    `threads` times the number of vectors covers the tile exactly once.
    """
    chunks = cols // width
    per_pass = threads // chunks
    if chunks <= threads:
        for i in range(rows // per_pass):
            yield t // chunks + i * per_pass, t % chunks * width
        return
    for r in range(rows):
        for c in range(chunks // threads):
            yield as_expr(r), (t + c * threads) * width


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
