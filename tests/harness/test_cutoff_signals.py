"""Mbarriers and phases that the block decides: what block 0 does is no witness for the others."""

from __future__ import annotations

import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import Expr, as_expr
from amk.dsl.kernel import KernelDescriptor
from amk.harness.check import check

BX = KernelBuilder.bx
NONE = as_expr(0)


def met(*, first: Expr = NONE, arrive: Expr = NONE, wait: Expr = NONE, parity: Expr = NONE) -> KernelDescriptor:
    """All threads meet at the first of two mbarriers, in each block of a grid; terms move one of its uses."""
    k = KernelBuilder("met", target="sm_90a", threads=32)
    n = k.size("n", max=1000)
    full = k.barrier("full", slots=2, count=32)
    with k.when(k.t < 1):
        k.call("mbarrier.init", {"bar": full[first]})
        k.call("mbarrier.init", {"bar": full[1]})
    k.sync()
    k.arrive(full[arrive])
    k.wait_phase(full[wait], parity)
    return k.finish(grid=(n,))


@pytest.mark.parametrize("use", ["first", "arrive", "wait", "parity"])
@pytest.mark.parametrize("more", [BX, BX % 2, BX // 4])
def test_a_block_that_uses_another_mbarrier_or_phase_is_refused(use: str, more: Expr) -> None:
    """Three mutants of a campaign were accepted: their block 0 is right, and all others are not."""
    assert not check(met(**{use: more})).ok


def test_the_same_in_all_blocks_is_accepted() -> None:
    assert check(met()).ok and check(met(arrive=BX - BX, parity=BX % 1)).ok
