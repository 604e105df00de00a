"""The grid-stride form of a written tensor: a loop that hands out neighbouring elements to all threads of the grid.

Lemma: with T threads a block, G blocks and w elements an access, `first = w*(bx*T + t)` takes each multiple of w below
S = w*T*G once. So `first, first + S, first + 2*S, ...` below n, over all threads, are the multiples of w below n, each
once; where w divides n, the accesses that start there are the elements of 0..n-1, each once. T, G and w are constants,
n is any size.
"""

from __future__ import annotations

from amk.dsl.expr import Const, Expr, Var, subst
from amk.dsl.nodes import Param
from amk.harness.coverage import Site, linear
from amk.harness.events import Program
from amk.harness.numbering import multiple

__all__ = ["stride_form"]


def stride_form(p: Program, tensor: Param, sites: list[Site]) -> bool:
    """Whether the one site writes every element of the vector exactly once, for all sizes."""
    if len(sites) != 1 or len(tensor.shape or ()) != 1:
        return False
    s, size = sites[0], p.inline((tensor.shape or ())[0])
    blocks, *others = map(p.inline, p.kernel.grid3)
    if len(s.loops) != 1 or s.conds or not isinstance(blocks, Const) or any(e != Const(1) for e in others):
        return False
    loop = s.loops[0]
    grid: dict[str, Expr] = {"gx": blocks, "gy": Const(1), "gz": Const(1)}
    lo, hi, step = (subst(p.inline(e), grid) for e in (loop.lo, loop.hi, loop.step))
    stride = s.width * p.threads * int(blocks.value)
    return (
        loop.var in p.thread_loops
        and loop.until is None
        and (hi, step) == (size, Const(stride))
        and linear(lo) == {Var("bx"): s.width * p.threads, Var("t"): s.width}
        and linear(subst(s.index[0], grid)) == linear(lo) | {Var(f"{loop.var}#"): stride}
        and multiple(p, size, s.width)
    )
