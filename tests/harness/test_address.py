"""The byte that a fault is about, and a counterexample in words."""

from __future__ import annotations

import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import cdiv
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Padded
from amk.harness.address import accessed, located
from amk.harness.check import check
from amk.harness.diagnostics import Diagnostic
from amk.harness.rules.examples import filled, mirrored
from amk.harness.situation import situation, threads


def reading(row: object, column: object) -> tuple[KernelDescriptor, Diagnostic]:
    """An unguarded read of a matrix with a pitch, through a view and named values."""
    k = KernelBuilder("reading", target="sm_80", threads=32)
    m, n = k.size("m", max=64), k.size("n", max=64)
    x = k.tensor("x", "f16", (m, n), strides=(n * 2, 1))
    a = k.registers("a", "f16", (1,))
    base = k.let("base", k.bx * 8)
    v = k.view("v", x[base, 0])
    with k.loop("j", 0, 2) as j:
        k.load(a[0], v[j.var, k.t])
    kernel = k.finish(grid=(1,))
    return kernel, Diagnostic("AMK201", "x", "error", "load v[j, t], dimension 1", "/body/2/body/0")


def test_the_byte_of_a_tensor_counts_strides_and_views() -> None:
    kernel, d = reading(0, 0)
    at = {"m": 3, "n": 5, "bx": 2, "j": 1, "t": 7}
    found = located(kernel, d._replace(counterexample=at))
    assert found.counterexample == {**at, "byte": 2 * ((2 * 8 + 1) * 10 + 7)}
    assert str(accessed(kernel, d)) == "v[j, t]"
    assert situation(found, kernel) == ["m = 3", "n = 5", "iteration j = 1", "block 2", "thread 7", "byte 354 of x"]


def test_the_byte_of_a_shared_array_counts_from_the_segment() -> None:
    k = KernelBuilder("second", target="sm_80", threads=32)
    k.shared("first", "f32", (3,))
    s = k.shared("s", "f32", (4, 8), layout=Padded(pad=1))
    k.store(s[k.t, 0], 0.0)
    kernel = k.finish(grid=(1,))
    (d,) = check(kernel).errors
    assert d.code == "AMK202" and d.counterexample["t"] == 4 and d.counterexample["byte"] == 16 + 4 * 9 * 4
    assert situation(d, kernel)[-2:] == ["thread 4", "byte 160 of shared memory"]


@pytest.mark.parametrize("change", [
    {"counterexample": {}}, {"counterexample": {"t": 1}}, {"severity": "warning"}, {"pointer": "/body/9"},
    {"counterexample": {"m": 3, "n": 5, "j": 1, "t": 7, "byte": 3}}, {"code": "AMK101"}, {"pointer": "/params/0"},
])  # fmt: skip
def test_what_has_no_byte_stays_as_it_is(change: dict[str, object]) -> None:
    kernel, d = reading(0, 0)
    odd = d._replace(counterexample={"m": 3, "n": 5, "j": 1, "t": 7})._replace(**change)  # type: ignore[arg-type]
    assert located(kernel, odd) is odd


def test_a_value_that_cannot_be_computed_is_none() -> None:
    k = KernelBuilder("zero", target="sm_80", threads=32)
    n = k.size("n", min=0)
    x, a = k.tensor("x", "f32", (n,)), k.registers("a", "f32", (1,))
    k.load(a[0], x[k.t // n])
    d = Diagnostic("AMK201", "x", "error", "load x[t // n]", "/body/0", counterexample={"n": 0, "t": 1})
    assert located(k.finish(grid=(1,)), d) is d


# ---------------------------------------------------------------------------------------------------------------- words
def said(**at: int) -> list[str]:
    return situation(Diagnostic("AMK301", "x", "error", "x", counterexample=at))


def test_blocks_and_threads_in_words() -> None:
    assert said(bx=3) == ["block 3"] and said(bx=3, by=0, bz=0, gx=4, gy=1, gz=1) == ["block 3 of 4"]
    assert said(bx=0, by=2, bz=0, gx=4, gy=3, gz=1) == ["block (0, 2, 0) of (4, 3, 1)"]
    assert said(bx=0, by=0, gx=1, gy=2, gz=1) == ["block (0, 0, 0) of (1, 2, 1)"]
    assert said(bx=1, bx2=0, t=0, t2=64) == ["block 1 and block 0", "threads 0 and 64"]
    assert said(bx=0, by=1, bx2=0, by2=0, t=5) == ["block (0, 1, 0) and block (0, 0, 0)", "thread 5"]
    assert said(n=4, k0=1, byte=8) == ["n = 4", "k0 = 1", "byte 8"] and said() == []


def test_the_two_parties_of_a_fault() -> None:
    kernel = filled("twice", tile=64)
    (d,) = check(kernel).errors
    assert threads(d) == ("thread 0 of block 1", "thread 64 of block 0")
    (d,) = check(mirrored("m", barrier=False)).errors
    assert threads(d) == ("thread 127", "thread 0")
    assert threads(d._replace(counterexample={"t": 1})) is None


def test_an_unwritten_element_is_an_element() -> None:
    kernel = filled("unwritten", whole=False)
    (d,) = check(kernel).errors
    assert situation(d, kernel) == ["n = 129", "element (128)"]


def test_a_loop_variable_called_i0_is_an_iteration() -> None:
    k = KernelBuilder("i0", target="sm_80", threads=32)
    n = k.size("n")
    y = k.tensor("y", "f32", (n,), access="write")
    with k.loop("i0", 0, 4) as loop:
        k.store(y[loop.var], 0.0)
    kernel = k.finish(grid=(cdiv(n, 32),))
    d = Diagnostic("AMK201", "x", "error", "x", "/body/0/body/0", counterexample={"n": 1, "i0": 2})
    assert situation(d, kernel) == ["n = 1", "iteration i0 = 2"]
