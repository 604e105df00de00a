"""Advice on shared memory: bank conflicts of each access, and rows that are longer than any index reaches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

from amk.dsl.expr import integers, names
from amk.dsl.nodes import Buffer
from amk.dsl.traffic import Lanes, Passes, passes
from amk.dsl.types import nbytes
from amk.harness.advice_warp import Shared, Warp, quiet, shared_accesses
from amk.harness.columns import Tables
from amk.harness.events import Program, Unsupported
from amk.harness.faults import Fault

if TYPE_CHECKING:
    from amk.harness.context import Context

__all__ = ["bank_conflicts", "unused_padding"]

_ROW = 128  # bytes of all banks: addresses that all move by whole rows meet the same banks


@quiet
def bank_conflicts(ctx: Context) -> Iterator[Fault]:
    """Accesses of a warp that need at least twice the passes of one without conflicts.

    Copies by cp.async are left out: what they write lands as memory answers, and no counter has shown how.
    """
    p = ctx.program
    seen: set[tuple[str, str]] = set()
    for s in shared_accesses(p, p.kernel.body):
        b = p.kernel.find(s.operand.ref.buffer)
        assert isinstance(b, Buffer)
        if s.operand.mode not in ("r", "w", "a") or s.operand.tile or s.operand.dense:
            continue  # read and written by the hardware in its own order
        n = _passes(ctx.warp, s, s.operand.width * nbytes(b.dtype))
        if n.passes < 2 * n.least or n.least == 0 or (s.pointer, str(s.operand.ref)) in seen:
            continue
        seen.add((s.pointer, str(s.operand.ref)))
        message = (
            f"a warp's {'load' if s.operand.mode == 'r' else 'store'} at {s.operand.ref} takes {n.passes} passes "
            f"through shared memory where {n.least} would do: a {n.degree}-way bank conflict (bank {n.bank} of "
            f"'{b.name}')"
        )
        hint = "pad the rows (Padded), swizzle the layout, or give neighbouring lanes neighbouring words"
        values = {"degree": n.degree, "bank": n.bank, "passes": n.passes, "least": n.least}
        yield Fault("AMK502", s.pointer, message, values, (), hint)


def _passes(warp: Warp, s: Shared, nbytes: int) -> Passes:
    try:
        lanes = warp.lanes(warp.p.address_terms(s.operand)[0], s)[: s.operand.lanes]
    except Unsupported:
        return Passes(0, 0, 0, 0)
    base = min((x for x in lanes if x is not None), default=0) // _ROW * _ROW
    return _counted(tuple(None if x is None else x - base for x in lanes), nbytes, s.operand.mode != "r")


@lru_cache(maxsize=1 << 12)
def _counted(lanes: Lanes, nbytes: int, store: bool) -> Passes:
    return passes(lanes, nbytes, store=store)


@quiet
def unused_padding(ctx: Context) -> Iterator[Fault]:
    """Arrays whose rows are longer than any index reaches (padding belongs into the layout)."""
    p, tables = ctx.program, Tables(ctx.kernel.threads)
    reach: dict[str, int] = {}
    for s in shared_accesses(p, p.kernel.body):
        b = p.kernel.find(s.operand.ref.buffer)
        assert isinstance(b, Buffer)
        reach[b.name] = max(reach.get(b.name, 0), _last(p, tables, s))
    for name, n in reach.items():
        b = p.kernel.find(name)
        if isinstance(b, Buffer) and len(b.shape) > 1 and 0 < n < b.shape[-1]:
            message = f"'{name}' declares rows of {b.shape[-1]} elements, and no index goes beyond {n}"
            hint = f"declare rows of {n}, and the layout padded by {b.shape[-1] - n} if the pitch is meant"
            yield Fault("AMK506", ctx.kernel.pointer_of(name), message, {"declared": b.shape[-1], "used": n}, (), hint)


def _last(p: Program, tables: Tables, s: Shared) -> int:
    """One more than the largest last index, over all threads and the loops of constant trip count."""
    o, b = s.operand, p.kernel.find(s.operand.ref.buffer)
    if o.dense and isinstance(b, Buffer):
        return b.shape[-1]
    e = p.address_terms(o)[-1]
    ranges: list[range] = []
    variables = [x for x in s.loops if x.var in names(e)]
    for loop in variables:
        bounds = integers(*(p.inline(x) for x in (loop.lo, loop.hi, loop.step)))
        if bounds is None:
            raise Unsupported("a loop over a size")
        ranges.append(range(*bounds))
    used = [x.var for x in variables]
    tops = (max(tables.column(dict(zip(used, at, strict=True)), e)) for at in product(*ranges))
    return max((top + (o.tile[-1] if o.tile else o.width) for top in tops), default=0)
