"""Wherever a statement takes a value, a register that it reads is held to the bounds of its array (AMK203)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import Expr
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Statement
from amk.harness.check import check


def let(k: KernelBuilder, f: Expr, i: Expr, z: Expr) -> None:
    k.store(z, k.let("v", f, dtype="f32"))


def stored(k: KernelBuilder, f: Expr, i: Expr, z: Expr) -> None:
    k.store(z, f + 1.0)


def other(k: KernelBuilder, f: Expr, i: Expr, z: Expr) -> None:
    b = k.registers("b", "f32", (1,))
    k.load(b[0], k.tensor("x", "f32", (32,))[k.t], when=k.t < 7, other=f)
    k.store(z, b[0])


def added(k: KernelBuilder, f: Expr, i: Expr, z: Expr) -> None:
    k.store(z, 1.0)
    k.atomic("add", k.tensor("sum", "f32", (1,), access="add")[0], f)


def argument(k: KernelBuilder, f: Expr, i: Expr, z: Expr) -> None:
    b = k.registers("b", "f32", (1,))
    k.call("shfl.down", {"dst": b[0]}, value=f, delta=1)
    k.store(z, b[0])


def branch(k: KernelBuilder, f: Expr, i: Expr, z: Expr) -> None:
    b = k.registers("b", "f32", (1,))
    k.store(b[0], 0.0)
    with k.when(f > 0.0):
        k.store(b[0], 1.0)
    k.store(z, b[0])


def start(k: KernelBuilder, f: Expr, i: Expr, z: Expr) -> None:
    with k.loop("n", 0, 2, s=(f, "f32")) as loop:
        loop.next(s=loop.s + 1.0)
    k.store(z, loop.s)


def whole_start(k: KernelBuilder, f: Expr, i: Expr, z: Expr) -> None:
    k.store(z, 1.0)
    with k.loop("n", 0, 2, s=i) as loop:
        loop.next(s=loop.s)


def following(k: KernelBuilder, f: Expr, i: Expr, z: Expr) -> None:
    with k.loop("n", 0, 2, s=(0.0, "f32")) as loop:
        loop.next(s=loop.s + f)
    k.store(z, loop.s)


def bound(k: KernelBuilder, f: Expr, i: Expr, z: Expr) -> None:
    b = k.registers("b", "f32", (1,))
    k.store(b[0], 0.0)
    with k.loop("n", 0, i):
        k.store(b[0], b[0] + 1.0)
    k.store(z, b[0])


USES = (let, stored, other, added, argument, branch, start, whole_start, following, bound)


def kernel(use: Callable[..., None], at: int) -> KernelDescriptor:
    k = KernelBuilder("reads", target="sm_80", threads=32)
    z = k.tensor("z", "f32", (32,), access="write")
    a, r = k.registers("a", "f32", (2,)), k.registers("r", "i32", (2,))
    for n in (0, 1):
        k.store(a[n], 1.0)
        k.store(r[n], 1)
    use(k, a[at], r[at], z[k.t])
    return k.finish(grid=(1,))


@pytest.mark.parametrize("use", USES)
def test_inside_is_accepted_and_outside_refused(use: Callable[..., None]) -> None:
    assert not check(kernel(use, 1)).errors
    for at in (2, -1):
        assert "AMK203" in {d.code for d in check(kernel(use, at)).errors}, at


def test_every_kind_that_takes_values_is_tried() -> None:
    def kinds(statements: tuple[Statement, ...]) -> set[str]:
        return {s.kind for s in statements} | {k for s in statements if s.kind in ("for", "if") for k in kinds(s.body)}

    assert {"let", "load", "store", "atomic", "call", "for", "if"} <= set().union(
        *(kinds(kernel(use, 1).body) for use in USES)
    )
