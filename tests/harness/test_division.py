"""Divisions of negative numbers: refused where C differs from Python, accepted for `cdiv`, which does not."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.evaluate import function_of
from amk.dsl.expr import Apply, Const, Var, apply, as_expr, cdiv
from amk.dsl.kernel import KernelDescriptor
from amk.harness.affine import Facts
from amk.harness.check import check
from amk.harness.interpret import arguments, run
from amk.harness.rules.examples import example, small
from amk.harness.solver import Referee

SIGNED, UNSIGNED = ("i32", "i64"), ("u32", "u64")


def let(op: str, dtype: str, *, low: int = -9) -> KernelDescriptor:
    """q = x op 4 for a scalar x."""
    k = KernelBuilder("divide", target="sm_80", threads=32)
    x = k.scalar("x", dtype, min=low, max=1000)
    k.let("q", apply(op, x, 4), dtype=dtype)
    return k.finish(grid=(1,))


@pytest.mark.parametrize("dtype", SIGNED)
def test_only_cdiv_takes_negative_dividends(dtype: str) -> None:
    assert check(let("cdiv", dtype)).ok
    for op in ("//", "%", ">>"):
        (d,) = check(let(op, dtype)).errors
        assert d.code == "AMK208" and d.counterexample["x"] < 0 and d.confirmed, d
        assert check(let(op, dtype, low=0)).ok


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_an_unsigned_dividend_must_not_be_negative_even_for_cdiv(dtype: str) -> None:
    """t - 40 wraps to a large number on the device."""
    k = KernelBuilder("wraps", target="sm_80", threads=32)
    x = k.scalar("x", dtype, min=0, max=1000)
    k.let("q", cdiv(x - 40, 8), dtype=dtype)
    assert "AMK208" in {d.code for d in check(k.finish(grid=(1,))).errors}


def test_a_zero_divisor_is_refused_for_cdiv_too() -> None:
    k = KernelBuilder("zero", target="sm_80", threads=32)
    n = k.size("n", min=0, max=10)
    k.let("q", cdiv(k.t - 5, n))
    (d,) = check(k.finish(grid=(1,))).errors
    assert d.code == "AMK208" and d.counterexample["n"] == 0 and d.confirmed


def test_every_meaning_of_cdiv_is_the_quotient_rounded_up() -> None:
    """Evaluator, folding, affine prover, Z3 and the printed C function, for every sign of the dividend."""
    of = function_of((Apply("cdiv", (Var("a"), Var("b"))),), ("a", "b"))
    for a, b in itertools.product(range(-20, 21), range(1, 8)):
        wanted = -(-a // b)
        assert of(a, b)[0] == wanted and apply("cdiv", a, b) == Const(wanted)
        assert printed_cdiv(a, b) == wanted
        quotient = cdiv(Var("a"), b)
        facts = Facts({"a": (a, a)}, {})
        assert facts.prove(quotient - wanted) and facts.prove(wanted - quotient)
        referee = Referee({"a": (a, a)}, {}, ())
        assert referee.refute(quotient - wanted, ()).status == referee.refute(wanted - quotient, ()).status == "proved"


def printed_cdiv(a: int, b: int) -> int:
    """What the prelude's text computes by C's rules: `/` towards zero, `%` with the dividend's sign."""
    text = (Path(check.__code__.co_filename).parents[1] / "synth" / "prelude" / "arith.cuh").read_text()
    assert re.search(r"T amk_cdiv\(T a, T b\) \{ return a / b \+ \(a % b > 0\); \}", text)
    quotient = abs(a) // b if a >= 0 else -(abs(a) // b)
    return quotient + (a - quotient * b > 0)


@pytest.mark.parametrize("detect", [False, True])
@pytest.mark.parametrize("dtype, values", [("i32", range(-9, 10)), ("i64", (-(2**63), -5, 0, 7, 2**63 - 1))])
def test_the_interpreter_rounds_up_as_well(dtype: str, values: range, detect: bool) -> None:
    """The extremes of a type included."""
    k = KernelBuilder("upwards", target="sm_80", threads=32)
    x = k.scalar("x", dtype, min=-(2**63) if dtype == "i64" else -9)
    y, a = k.tensor("y", dtype, (32,), access="write"), k.registers("a", dtype, (1,))
    k.store(a[0], x)
    k.store(y[k.t], cdiv(a[0], 4))
    kernel = k.finish(grid=(1,))
    for v in values:
        args = arguments(kernel, {"x": v})
        run(kernel, args, detect=detect)
        assert (args["y"] == np.array(-(-v // 4), args["y"].dtype)).all(), v


def strided(stride: object, *, assume: str = "", dtype: str = "i32") -> KernelDescriptor:
    """Reads x[t, 0] of rows `stride` elements apart."""
    k = KernelBuilder("strided", target="sm_80", threads=32)
    n = k.scalar("n", dtype, min=1, max=1 << 40 if dtype == "i64" else 1000)
    x, a = k.tensor("x", "f32", (n, 4), strides=(as_expr(stride), 1)), k.registers("a", "f32", (1,))  # type: ignore[arg-type]
    if assume:
        k.assume(assume)
    with k.when(k.t < n):
        k.load(a[0], x[k.t, 0])
    return k.finish(grid=(1,))


@pytest.mark.parametrize("stride, assume, fault", [
    ("(n - 5) // 2 + 10", "", "AMK208"), ("(n - 5) // 2 + 10", "n >= 5", ""), ("cdiv(n - 5, 2) + 10", "", ""),
    ("select(n >= 5, (n - 5) // 2, 0) + 10", "", ""), ("(n - 5) % 3 + 4", "", "AMK208"), ("(n + 3) // 4 * 4", "", ""),
    ("100 // (n - 1)", "", "AMK208"), ("n * n * n", "", ""),
])  # fmt: skip
def test_strides_are_computed_as_they_were_proved(stride: str, assume: str, fault: str) -> None:
    """The device computes strides in C: a stride that rounds a negative number down would be another one there."""
    report = check(strided(stride, assume=assume))
    assert {d.code for d in report.errors} == ({fault} if fault else set()), report.diagnostics
    # A stride without a value stops the interpreter before it runs.
    assert all(d.counterexample and d.confirmed is (stride[0] == "(") for d in report.errors)


def test_a_stride_cast_to_32_bits_must_fit() -> None:
    (d,) = check(strided("i32(n)", dtype="i64")).errors
    assert d.code == "AMK204" and d.pointer == "/params/1"
    assert check(strided("n", dtype="i64")).ok


def test_a_derived_stride_counts_as_well() -> None:
    """The stride of a row is the extent of the rest."""
    k = KernelBuilder("derived", target="sm_80", threads=32)
    n = k.size("n", max=1000)
    x, a = k.tensor("x", "f32", (n, (n - 5) // 2 + 10)), k.registers("a", "f32", (1,))
    with k.when(k.t < n):
        k.load(a[0], x[k.t, 7])
    (d,) = check(k.finish(grid=(1,))).errors
    assert d.code == "AMK208" and d.pointer == "/params/1" and d.confirmed


def test_a_divisor_of_an_empty_range_is_told_as_such():
    """Not as a failure of the checker: the grid is looked at before the domain is."""
    size, *others = small()["params"]
    report = check(example(params=[{**size, "min": 1, "max": 0}, *others], grid=["cdiv(65536, n)"]))
    assert [d.code for d in report.errors] == ["AMK009"]
