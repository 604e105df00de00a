"""Whole launches, counted."""

from __future__ import annotations

import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.target import Target
from amk.harness.events import Unsupported
from amk.harness.traffic import Traffic, totals, traffic
from amk.ops.gemm import Gemm, GemmSchedule, build


def test_blocks_warps_iterations_and_lanes_are_counted() -> None:
    """Two blocks of a warp and a half, three iterations, and a guard that leaves ten threads."""
    k = KernelBuilder("counted", target="sm_80", threads=48)
    x, a = k.tensor("x", "f32", (4096,)), k.registers("a", "f32", (1,))
    s = k.shared("s", "f32", (96,))
    with k.loop("i", 0, 3) as i:
        k.store(s[k.t * 2], 0.0)
        with k.when(k.t < 10):
            k.load(a[0], x[k.bx * 2048 + i.var * 64 + k.t])
    found = traffic(k.finish(grid=(2,)))
    assert found == [
        # a whole warp has a two-way conflict, 16 lanes have none
        Traffic("/body/0/body/0", "shared_st", 4, 12, 6 * (2 + 1), 0, 12),
        Traffic("/body/0/body/1/body/0", "global_ld", 4, 6, 0, 6 * 2, 6 * 2),
    ]
    assert totals(found)["shared_st"] == {"requests": 12, "passes": 18, "sectors": 0}


def test_carried_values_and_named_ones_are_followed() -> None:
    k = KernelBuilder("carried", target="sm_80", threads=32)
    s, a = k.shared("s", "f32", (2048,)), k.registers("a", "f32", (1,))
    with k.loop("i", 0, 4, gap=1) as loop:
        k.load(a[0], s[k.let("at", k.t * (loop.gap + 1))])
        loop.next(gap=loop.gap + 1)
    (found,) = traffic(k.finish(grid=(1,)))
    assert (found.requests, found.passes) == (4, 2 + 1 + 4 + 1)  # strides 2, 3, 4 and 5


def test_what_depends_on_data_is_not_counted() -> None:
    k = KernelBuilder("gather", target="sm_80", threads=32)
    x, r = k.tensor("x", "i32", (64,)), k.registers("r", "i32", (1,))
    k.load(r[0], x[k.t])
    k.load(r[0], x[r[0]])
    with pytest.raises(Unsupported, match=r"r\[0\]"):
        traffic(k.finish(grid=(1,)))


def test_a_gemm_of_fixed_sizes() -> None:
    """64 x 64 x 64 in tiles of 32 x 32 x 8: each tile of A is copied by each of two columns of blocks."""
    schedule = GemmSchedule(bm=32, bn=32, bk=8, tm=4, tn=4, stages=2, vec_width=4, specialise=True)
    sums = totals(traffic(build(Gemm(m=64, n=64, k=64), schedule, Target.find("sm_80"))))
    assert sums["global_copy"]["sectors"] == 2 * 2 * 64 * 64 * 4 // 32
    assert sums["global_st"]["sectors"] == 64 * 64 * 4 // 32


def test_matrices_are_counted_by_the_lanes_that_name_rows() -> None:
    """Half of the rows of each matrix, side by side: a pass a matrix, where two would go together if pairs could."""
    for n in (1, 2, 4):
        k = KernelBuilder("matrix", target="sm_80", threads=32)
        s, r = k.shared("s", "u32", (32, 4)), k.registers("r", "u32", (n,))
        k.call(f"ldmatrix.x{n}", {"dst": r[0], "src": s[k.t // 2, 0]})
        assert traffic(k.finish(grid=(1,))) == [Traffic("/body/0", "matrix_ld", 16, 1, n, 0, n)]


def test_copies_of_whole_tiles_are_not_counted() -> None:
    k = KernelBuilder("bulk", target="sm_90a", threads=32)
    x, s, full = k.tensor("x", "f32", (64,), align=16), k.shared("s", "f32", (64,)), k.barrier("full")
    k.call("bulk.load", {"dst": s[0], "src": x[0], "bar": full[0]}, bytes=256)
    with pytest.raises(Unsupported, match=r"bulk\.load moves whole tiles"):
        traffic(k.finish(grid=(1,)))
