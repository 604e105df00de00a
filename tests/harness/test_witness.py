"""Findings that the provers make without values get a thread that shows them; what no run shows stays without."""

from __future__ import annotations

from typing import Any

import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import as_expr, cdiv
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Swizzle
from amk.harness import interpret
from amk.harness.check import check
from amk.harness.interpret import confirm, witness


def narrow(*, planes: int | None = None, whole: bool = True) -> KernelDescriptor:
    """y[z, row, col] with offsets in 32 bits, its sizes open or partly fixed."""
    k = KernelBuilder("narrow", target="sm_80", threads=64)
    p, m, n = as_expr(planes) if planes else k.size("p", max=4096), k.size("m", max=65535), k.size("n")
    y = k.tensor("y", "f32", (p, m, n), access="write", offsets="i32")
    col = k.let("col", k.bx * 64 + k.t)
    with k.when(col < n):
        k.store(y[k.bz, k.by, col] if whole else y[0, 0, col], 0.0)
    return k.finish(grid=(cdiv(n, 64), m, p) if whole else (cdiv(n, 64),))


def test_open_sizes_are_filled_and_the_thread_is_named() -> None:
    (d,) = check(narrow()).errors
    v = d.counterexample
    assert d.code == "AMK204" and d.confirmed
    assert (v["bz"] * v["m"] + v["by"]) * v["n"] + v["bx"] * 64 + v["t"] > 2**31 - 1, v
    assert d.related[0].pointer == "/body/1/body/0"


def test_the_block_is_the_first_of_the_slowest_axis_that_shows_it() -> None:
    sizes = {"m": 1000, "n": 50_000}
    values, _ = witness(narrow(planes=100), "AMK204", sizes) or ({}, "")
    assert (values["bz"], values["by"], values["bx"] * 64 + values["t"]) == (42, 949, 33_648)  # element 2**31


def test_tensors_larger_than_any_memory_are_confirmed() -> None:
    assert confirm(narrow(), {"p": 4096, "m": 65535, "n": 2**20}, "AMK204")
    assert not confirm(narrow(), {"p": 4096, "m": 65535, "n": 2**20}, "AMK201")


def test_an_offset_that_no_thread_computes_has_no_witness() -> None:
    (d,) = (d for d in check(narrow(planes=1, whole=False)).errors if d.code == "AMK204")
    assert not d.confirmed and not d.related


@pytest.mark.parametrize("fault, code", [("index", "AMK203"), ("value", "AMK207")])
def test_another_fault_of_the_run_confirms_nothing(fault: str, code: str) -> None:
    """A register out of bounds is no uninitialised one, nor the other way round."""
    k = KernelBuilder("other", target="sm_80", threads=32)
    a, b = k.registers("a", "f32", (4,)), k.registers("b", "f32", (1,))
    k.store(a[k.t if fault == "index" else 0], 0.0)
    k.store(b[0], a[0 if fault == "index" else 1])
    kernel = k.finish(grid=(1,))
    other = {"AMK203": "AMK207", "AMK207": "AMK203"}[code]
    assert confirm(kernel, {}, code) and not confirm(kernel, {}, other)
    assert all(d.confirmed for d in check(kernel).errors if d.code == code)


def test_a_base_that_is_not_aligned_enough_is_shown_by_the_first_thread() -> None:
    k = KernelBuilder("base", target="sm_80", threads=32)
    x, a = k.tensor("x", "f32", (128,), align=4), k.registers("a", "f32", (4,))
    k.load(a[0], x[k.t * 4], width=4)
    (d,) = check(k.finish(grid=(1,))).errors
    assert d.code == "AMK205" and d.counterexample == {"t": 0, "byte": 0} and d.confirmed


def test_the_first_block_is_found_in_a_cluster_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of block 0 is one of its whole cluster, so what it shows may stand in block 1 all the same."""
    k = KernelBuilder("torn", target="sm_90a", threads=32, cluster=2)
    z = k.tensor("z", "f32", (2, 32), access="write")
    s, r = k.shared("s", "f32", (32, 8), layout=Swizzle(bits=2, base=1, shift=3)), k.registers("r", "f32", (1,))
    k.sync("cluster")
    k.store(s[k.t, 0], *[1.0] * 4, peer=1 - k.rank)  # the swizzle keeps two together
    k.sync("cluster")
    k.load(r[0], s[k.t, 0])
    k.store(z[k.bx, k.t], r[0])
    k.sync("cluster")
    runs, one = [], interpret._fault
    monkeypatch.setattr(interpret, "_fault", lambda *args: runs.append(args) or one(*args))
    monkeypatch.setattr(interpret, "run", bounded(interpret.run, 40))
    (fault,) = [d for d in check(k.finish(grid=(2,))).errors if d.code == "AMK205"]
    assert "not contiguous" in fault.message and 0 < len(runs) < 40


def bounded(call: Any, times: int) -> Any:
    """The call, which may be made so often and no oftener: a search that stands still fails instead of hanging."""
    left = iter(range(times))

    def made(*args: Any, **options: Any) -> Any:
        assert next(left, None) is not None, f"more than {times} runs"
        return call(*args, **options)

    return made
