"""Registers are written before they are read: loops taken whole give the same answer as loops run through."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import Expr, eq, select
from amk.dsl.kernel import KernelDescriptor
from amk.harness.check import check
from amk.harness.events import Program
from amk.harness.initial import _Registers, uninitialised_registers


def lost(kernel: KernelDescriptor) -> list[tuple[str, str]]:
    return [(f.pointer, f.message) for f in uninitialised_registers(Program(kernel))]


def run_through(kernel: KernelDescriptor, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    with monkeypatch.context() as patch:
        patch.setattr(_Registers, "_as_a_whole", lambda *_: False)
        return lost(kernel)


INDICES: list[Any] = [
    lambda i, j: i * 4 + j, lambda i, j: i * 4 + (3 - j), lambda i, j: i * 4 + select(eq(i % 2, 0), j, 3 - j),
    lambda i, j: i * 4, lambda i, j: i + j, lambda i, j: 3 - j, lambda i, j: i // 2 * 8 + j, lambda i, j: j * 4 + i,
    lambda i, j: 12 - i * 4 + j, lambda i, j: (i * 4 + j) ^ 1, lambda i, j: i * 4 + j % 2,
]  # fmt: skip


@pytest.mark.parametrize("seed", range(80))
def test_a_nest_taken_whole_is_a_nest_run_through(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed)
    k = KernelBuilder("nests", target="sm_80", threads=32)
    a, b = k.registers("a", "i32", (16,)), k.registers("b", "i32", (16,))
    for _ in range(rng.randint(1, 3)):
        with k.loop("i", 0, rng.choice((1, 3, 4)), unroll="full") as i, k.loop("j", 0, rng.choice((0, 2, 4, 4))) as j:
            for _ in range(rng.randint(1, 2)):
                into, of = rng.choice(((a, b), (b, a), (a, a)))
                value: Expr | int = 0
                if rng.random() < 0.5:
                    value = of[rng.choice(INDICES)(i.var, j.var)] + 1
                k.store(into[rng.choice(INDICES)(i.var, j.var)], value)
    kernel = k.finish(grid=(1,))
    assert lost(kernel) == run_through(kernel, monkeypatch)


def test_a_loop_that_never_runs_writes_nothing() -> None:
    k = KernelBuilder("never", target="sm_80", threads=32)
    a = k.registers("a", "i32", (1,))
    with k.loop("i", 0, 0):
        k.store(a[0], 0)
    k.store(a[0], a[0] + 1)
    assert len(lost(k.finish(grid=(1,)))) == 1


def test_the_last_row_is_missed_where_a_nest_is_short() -> None:
    def kernel(rows: int) -> KernelDescriptor:
        k = KernelBuilder("rows", target="sm_80", threads=32)
        a = k.registers("a", "i32", (4, 4))
        with k.loop("i", 0, rows) as i, k.loop("j", 0, 4) as j:
            k.store(a[i.var, select(eq(i.var % 2, 0), j.var, 3 - j.var)], 0)
        with k.loop("u", 0, 4) as u, k.loop("v", 0, 4) as v:
            k.store(a[u.var, v.var], a[u.var, v.var] + 1)
        return k.finish(grid=(1,))

    assert lost(kernel(4)) == []
    assert "element 12" in lost(kernel(3))[0][1]


@pytest.mark.parametrize("how", ["store", "shuffle", "other"])
def test_a_register_that_is_written_from_itself_is_read_first(how: str) -> None:
    """Equal terms are one object: the value `a[0]` of a statement is not its destination."""
    k = KernelBuilder("itself", target="sm_80", threads=64)
    x, y = k.tensor("x", "f32", (64,)), k.tensor("y", "f32", (64,), access="write")
    a = k.registers("a", "f32", (1,))
    if how == "store":
        k.store(a[0], a[0])
    elif how == "shuffle":
        k.call("shfl.down", {"dst": a[0]}, value=a[0], delta=1)
    else:
        k.load(a[0], x[k.t], when=k.t < 32, other=a[0])
    k.store(y[k.t], a[0])
    assert [(d.code, d.pointer) for d in check(k.finish(grid=(1,))).errors] == [("AMK207", "/body/0")]
