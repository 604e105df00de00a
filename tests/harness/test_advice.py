"""Advice: sectors, bank conflicts, widths and padding, each on the patterns that the guides name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import Expr
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Layout, Padded, Swizzle
from amk.dsl.target import Target
from amk.harness.advice import sectors, widths
from amk.harness.advice_shared import bank_conflicts, unused_padding
from amk.harness.context import Context
from amk.harness.rule import Rule

T = KernelBuilder.t


def context(kernel: KernelDescriptor) -> Context:
    return Context(kernel, Target.find("A100"))


def _read(row: Callable[[Expr], Expr], col: Callable[[Expr], Expr]) -> KernelDescriptor:
    k = KernelBuilder("read", target="sm_80", threads=64)
    n = k.size("n", min=64)
    x, a = k.tensor("x", "f32", (n, n)), k.registers("a", "f32", (1,))
    k.load(a[0], x[row(k.t), col(k.t)])
    return k.finish(grid=(1,))


def test_rows_are_coalesced_and_columns_are_not() -> None:
    assert not list(sectors(context(_read(lambda t: t * 0, lambda t: t))))
    assert not list(sectors(context(_read(lambda t: t // 8, lambda t: t % 8))))  # whole sectors of four rows
    assert not list(sectors(context(_read(lambda t: t * 0, lambda t: t * 0))))  # a broadcast
    (f,) = sectors(context(_read(lambda t: t, lambda t: t * 0)))
    assert f.counterexample == {"sectors": 32, "ideal": 4}
    assert "stride n elements between neighbouring lanes" in f.message


def test_every_second_element_wastes_half() -> None:
    (f,) = sectors(context(_read(lambda t: t * 0, lambda t: t * 2)))
    assert f.counterexample == {"sectors": 8, "ideal": 4} and "stride 2 elements" in f.message


def _shared(
    column: bool, layout: Layout | None = None, width: int = 1, stride: int = 1, dtype: str = "f32"
) -> KernelDescriptor:
    k = KernelBuilder("shared", target="sm_80", threads=32)
    s, zeros = k.shared("s", dtype, (32, 256), layout=layout), [0.0] * width
    k.store(s[k.t, 0] if column else s[0, k.t * stride], *zeros)
    return k.finish(grid=(1,))


@pytest.mark.parametrize(
    ("kernel", "degree"),
    [
        (lambda: _shared(True), 32),
        (lambda: _shared(True, Padded(pad=1)), 1),
        (lambda: _shared(True, Swizzle(bits=5, base=0, shift=8)), 1),
        (lambda: _shared(True, Padded(pad=16)), 16),
        (lambda: _shared(False), 1),
        (lambda: _shared(False, stride=2), 2),
        (lambda: _shared(False, stride=0), 1),
        (lambda: _shared(False, width=2, stride=2), 1),
        (lambda: _shared(False, width=4, stride=4), 1),
        (lambda: _shared(False, width=4, stride=8), 2),
        (lambda: _shared(False, dtype="f16"), 1),
    ],
)
def test_degree_of_bank_conflicts(kernel: Callable[[], KernelDescriptor], degree: int) -> None:
    found = [f.counterexample["degree"] for f in bank_conflicts(context(kernel()))]
    assert found == ([degree] if degree > 1 else [])


def test_broadcast_is_free_and_lanes_under_a_condition_count_alone() -> None:
    k = KernelBuilder("few", target="sm_80", threads=32)
    s = k.shared("s", "f32", (32, 32))
    with k.when(k.t < 1):
        k.store(s[k.t, 0], 0.0)
    assert not list(bank_conflicts(context(k.finish(grid=(1,)))))


def test_padding_that_no_index_reaches() -> None:
    def kernel(columns: int) -> KernelDescriptor:
        k = KernelBuilder("pad", target="sm_80", threads=32)
        s = k.shared("s", "f32", (2, columns))
        k.store(s[0, k.t], 0.0)
        return k.finish(grid=(1,))

    (f,) = unused_padding(context(kernel(33)))
    assert f.counterexample == {"declared": 33, "used": 32}
    assert not list(unused_padding(context(kernel(32))))


def test_vector_width_left_on_the_table_only_where_it_fits() -> None:
    def kernel(align: int, factor: int) -> KernelDescriptor:
        k = KernelBuilder("narrow", target="sm_80", threads=32)
        x, a = k.tensor("x", "f32", (512,), align=align), k.registers("a", "f32", (4,))  # type: ignore[arg-type]
        with k.loop("j", 0, 4, unroll="full") as j:
            k.load(a[j.var], x[k.t * factor + j.var])
        return k.finish(grid=(1,))

    assert [f.counterexample["width"] for f in widths(context(kernel(16, 4)))] == [4]
    assert [f.counterexample["width"] for f in widths(context(kernel(8, 4)))] == [2]
    assert not list(widths(context(kernel(4, 4))))
    assert not list(widths(context(kernel(16, 5))))


def _rules() -> list[type[Rule]]:
    from importlib import import_module
    from pathlib import Path

    import amk.harness.rules as package

    wanted = [
        "202",
        "206",
        "207",
        "301",
        "302",
        "303",
        "304",
        "305",
        "306",
        "308",
        "401",
        "402",
        "501",
        "502",
        "505",
        "506",
    ]
    folder = Path(package.__path__[0])
    files = [next(folder.glob(f"amk{n}_*.py")) for n in wanted]
    return [
        getattr(import_module(f"amk.harness.rules.{f.stem}"), f"AMK{n}") for f, n in zip(files, wanted, strict=True)
    ]


@pytest.mark.parametrize("rule", _rules(), ids=lambda r: r.code)
def test_each_rule_finds_its_bad_kernel_and_passes_its_good_one(rule: type[Rule]) -> None:
    found = list(rule().check(context(rule.bad())))
    assert found and {d.code for d in found} == {rule.code}
    assert list(rule().check(context(rule.good()))) == []
    for section in ("Why:", "Proof:", "Bad:", "Good:", "Source:"):
        assert section in (rule.__doc__ or "")


@pytest.mark.parametrize("rule", _rules(), ids=lambda r: r.code)
def test_the_bad_kernel_shows_this_fault_alone(rule: type[Rule]) -> None:
    found = {d.code for r in _rules() for d in r().check(context(rule.bad())) if d.severity == "error"}
    assert found == ({rule.code} if rule.severity == "error" else set())
