"""What a carried value becomes is read at the end of a round, so the body may write it first (AMK207)."""

from __future__ import annotations

import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.text import parse
from amk.harness.check import check


def summed(carried: str, trips: str = "4") -> KernelDescriptor:
    """A sum over rounds; each round writes r[0], and r[i] of the first two of four."""
    k = KernelBuilder("summed", target="sm_80", threads=32)
    k.size("n", max=1 << 16)
    x, y = k.tensor("x", "f32", (1 << 16, 32)), k.tensor("y", "f32", (32,), access="write")
    r, w = k.registers("r", "f32", (2,)), k.registers("w", "f32", (4,))
    k.store(w[0], 1.0)
    k.store(w[1], 1.0)
    with k.loop("i", 0, parse(trips), unroll=1, s=(0.0, "f32")) as loop:
        k.load(r[0], x[loop.var, k.t])
        loop.next(s=loop.s + parse(carried))
    k.store(y[k.t], loop.s)
    return k.finish(grid=(1,))


@pytest.mark.parametrize("trips", ["4", "n"])
def test_a_register_that_the_body_writes_is_there_at_its_end(trips: str) -> None:
    assert check(summed("r[0]", trips)).ok


@pytest.mark.parametrize(("carried", "trips"), [("r[1]", "4"), ("r[1]", "n"), ("w[i]", "4")])
def test_a_register_that_nothing_writes_is_not(carried: str, trips: str) -> None:
    report = check(summed(carried, trips))
    assert {d.code for d in report.errors} == {"AMK207"}, report.diagnostics


def test_what_is_written_for_every_round_is_there() -> None:
    assert check(summed("w[i]", "2")).ok
