"""Resources against the targets' data: threads, grid, shared memory, registers, occupancy."""

from __future__ import annotations

import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.describe import summary
from amk.dsl.registers import assumed_registers, estimate_registers
from amk.dsl.target import Target
from amk.harness.check import check
from amk.harness.rules.examples import example, small
from amk.ops.gemm import Gemm, GemmSchedule, build


def codes(kernel, target=None):
    return {d.code for d in check(kernel, target).errors if d.code.startswith("AMK1")}


def shared(nbytes):
    b = {"kind": "buffer", "name": "s", "space": "shared", "dtype": "f16", "shape": [nbytes // 2]}
    return example(buffers=[*small()["buffers"], b])


@pytest.mark.parametrize(
    ("nbytes", "fits"),
    [(196608, ("sm_90a",)), (147456, ("sm_80", "sm_90a")), (101376, ("sm_80", "sm_86", "sm_89", "sm_90a"))],
)
def test_shared_memory_by_target(nbytes, fits):
    for target in ("sm_80", "sm_86", "sm_89", "sm_90a"):
        report = check(shared(nbytes), target)
        wanted = set() if target in fits else {"AMK103"}
        assert {d.code for d in report.errors} == wanted
        assert all(str(nbytes) in d.message and target in d.message for d in report.errors)


def rows(top, *, axis):
    params = small()["params"]
    return example(
        body=[], params=[{**params[0], "max": top}, *params[1:]], grid=["1", "n"] if axis == "y" else ["n", "1"]
    )


def test_grid_limits_and_the_largest_size():
    report = check(rows(65536, axis="y"))
    assert {d.code for d in report.errors} == {"AMK102"} and "n = 65535" in report.errors[0].message
    fine = check(rows(65535, axis="y"))
    assert fine.ok and any(o.rule == "AMK102" and "65535" in o.claim for o in fine.obligations)
    assert check(rows(2**31 - 1, axis="x")).ok


def accumulators(n, threads, min_blocks=1):
    """`n` sums a thread, over the rows of a matrix."""
    k = KernelBuilder("acc", target="sm_90a", threads=threads, min_blocks=min_blocks)
    rows = k.size("rows")
    x, z = k.tensor("x", "f32", (rows, n * threads)), k.tensor("z", "f32", (n * threads,), access="write")
    a, v = k.registers("a", "f32", (n,)), k.registers("v", "f32", (1,))
    for i in range(n):
        k.store(a[i], 0.0)
    with k.loop("r", 0, rows) as r:
        for i in range(n):
            k.load(v[0], x[r.var, i * threads + k.t])
            k.store(a[i], a[i] + v[0])
    for i in range(n):
        k.store(z[i * threads + k.t], a[i])
    return k.finish(grid=(1,))


def test_registers():
    assert codes(accumulators(150, 512)) == {"AMK104"}
    assert codes(accumulators(80, 512)) == set()
    assert codes(accumulators(230, 128)) == {"AMK104"}
    assert codes(accumulators(64, 256, 4)) == {"AMK104"}
    assert 64 <= estimate_registers(accumulators(64, 256)) <= 96


def test_a_summary_counts_registers():
    """The candidate schedule: 4 blocks would fit by shared memory, and 2 do by registers, as compiled (118 at most)."""
    s = GemmSchedule(bm=128, bn=64, bk=32, tm=8, tn=4, vec_width=4, stages=2)
    target = Target.find("sm_90a")
    found = summary(build(Gemm(m=1024, n=1024, k=1024), s, target), target)
    assert (found.blocks_per_sm, found.limited_by) == (2, "registers")
    assert found.array_registers < found.registers < found.most_registers and abs(found.registers - 118) <= 0.15 * 118
    assert found.most_registers == assumed_registers(build(Gemm(m=1024, n=1024, k=1024), s, target), target)
    assert found.least_blocks_per_sm <= found.blocks_per_sm and found.to_dict()["registers"] == found.registers


def test_a_summary_stays_within_the_launch_bound():
    found = summary(accumulators(64, 1024, 2), Target.find("sm_90a"))
    assert found.registers == found.most_registers == 32 and found.blocks_per_sm == 2


def test_buffers_used_one_after_the_other_share_registers():
    k = KernelBuilder("two", target="sm_90a", threads=128)
    for name in ("a", "b"):
        r = k.registers(name, "f32", (64,))
        k.store(r[0], 0.0)
        k.store(r[0], r[0] + 1.0)
    assert estimate_registers(k.finish(grid=(1,))) < 100


def test_min_blocks():
    assert codes(example(threads=1024, min_blocks=3)) == {"AMK105"}
    assert codes(example(threads=1024, min_blocks=2)) == set()
