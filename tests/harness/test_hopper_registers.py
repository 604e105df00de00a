"""AMK207 for the register operands of instructions: sums that start in a first round, fragments, and their widths."""

from __future__ import annotations

import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import Var, ne
from amk.dsl.layout import spanned
from amk.harness.events import Program
from amk.harness.initial import uninitialised_registers

from .hopper import SCHEDULES, gemm, spoiled, statements


def faults(kernel):
    return [(f.pointer, f.message) for f in uninitialised_registers(Program(kernel))]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_the_first_product_starts_the_sum(schedule):
    assert faults(gemm(schedule)) == []


def product(n, **args):
    return lambda data: statements(data, "call", row="wgmma")[n].update(args=args)


@pytest.mark.parametrize(
    ("edit", "element"),
    [
        (product(0, scale_d="true"), 0),
        (product(0, scale_d="step != 1"), 0),
        (product(0, scale_d="step >= 0"), 0),
        (lambda d: statements(d, "for")[1].update(lo="1"), 0),
        (lambda d: d["params"][2].update(min=0), 0),  # K = 0: the loop does not run, and the result is stored
        (lambda d: statements(d, "call", row="wgmma")[0].update(row="wgmma.m64n64k16.bf16.k.mn"), 32),
    ],
)
def test_a_sum_that_starts_from_anything(edit, element):
    found = faults(spoiled(edit))
    assert found and f"element {element} of 'acc'" in found[0][1]


def tile(k):
    s = k.shared("s", "bf16", (64, 64), layout=spanned(128, 2), align=1024)
    return s, k.registers("acc", "f32", (32,)), k.registers("r", "u32", (4,))


def accumulated(first, rounds, *, start="true", registers=4, inside=True):
    """A loop of wgmmas with A from registers, the fragment loaded by ldmatrix."""
    k = KernelBuilder("reg", target="sm_90a", threads=128)
    s, acc, r = tile(k)
    row = {4: "ldmatrix.x4", 2: "ldmatrix.x2", 0: None}[registers]
    n = k.size("n", max=64)
    with k.loop("i", first, n if rounds is None else rounds) as i:
        if row and inside:
            k.call(row, {"dst": r[0], "src": s[k.t % 16, k.t // 16 % 2 * 8]})
        args = {"scale_d": ne(i.var, first)} if start == "first" else {"scale_d": start}
        k.call("wgmma.m64n64k16.bf16.reg.mn", {"acc": acc[0], "a": r[0], "b": s[0, 0]}, **args)
    x = k.registers("x", "f32", (1,))
    k.store(x[0], acc[31])
    return [m for _, m in faults(k.finish(grid=(1,)))]


def test_fragments_are_written_whole():
    assert accumulated(0, None, start="first") == []
    assert accumulated(0, 4, start="first") == []
    assert accumulated(Var("bx"), Var("bx") + 4, start="first") == []
    assert any("element 2 of 'r'" in m for m in accumulated(0, None, start="first", registers=2))
    assert any("element 0 of 'r'" in m for m in accumulated(0, 4, start="first", registers=0))


def test_sums_start_or_are_set():
    assert any("'acc'" in m for m in accumulated(0, None, start="true"))
    assert any("'acc'" in m for m in accumulated(0, 4, start="true"))
    assert accumulated(0, None, start="false") == []
    assert any("'acc'" in m for m in accumulated(Var("n"), 4, start="first"))  # no round for n = 4


def test_mma_adds_to_what_is_there():
    def sums(zeroed):
        k = KernelBuilder("mma", target="sm_80", threads=32)
        s = k.shared("s", "bf16", (16, 16))
        r, acc, x = k.registers("r", "u32", (6,)), k.registers("acc", "f32", (4,)), k.registers("x", "f32", (1,))
        for i in range(zeroed):
            k.store(acc[i], 0.0)
        k.call("ldmatrix.x4", {"dst": r[0], "src": s[k.t % 16, k.t // 16 * 8]})
        k.call("ldmatrix.x2.trans", {"dst": r[4], "src": s[k.t % 16, 0]})
        k.call("mma.m16n8k16.bf16", {"acc": acc[0], "a": r[0], "b": r[4]})
        k.store(x[0], acc[3])
        return [m for _, m in faults(k.finish(grid=(1,)))]

    assert sums(4) == []
    assert len(sums(3)) == 1 and "element 3 of 'acc'" in sums(3)[0]


def test_a_loop_that_runs_for_all_sizes_writes_for_good():
    def after(least):
        k = KernelBuilder("runs", target="sm_80", threads=32)
        a, n = k.registers("a", "f32", (2,)), k.size("n", min=least)
        with k.loop("i", 0, n):
            k.store(a[0], 1.0)
        k.store(a[1], a[0])
        return faults(k.finish(grid=(1,)))

    assert after(1) == []
    assert len(after(0)) == 1


def test_a_view_of_a_register_reads_nothing():
    k = KernelBuilder("view", target="sm_80", threads=32)
    a = k.registers("a", "f32", (4,))
    v = k.view("v", a[2])
    k.store(v[0], 1.0)
    k.store(a[0], v[0])
    assert faults(k.finish(grid=(1,))) == []
