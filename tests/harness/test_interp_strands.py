"""Parts of a block that wait for each other: roles, named barriers, halves of barriers, peers, warps that part ways."""

from __future__ import annotations

import numpy as np
import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import apply, eq, ne
from amk.errors import ArgumentError
from amk.harness.interpret import Fault, arguments, estimate_lane_ops, run

MODES = [{}, {"detect": True}, {"seed": 1}, {"seed": 2, "detect": True}]


def ran(kernel, mode, **sizes):
    a = arguments(kernel, sizes)
    run(kernel, a, **mode)
    return a


def fault_of(kernel, **options):
    with pytest.raises(Fault) as e:
        run(kernel, arguments(kernel, {}), **{"detect": True, **options})
    return e.value


def handover(full=True, free=True, threads=96):
    """Warps 1 and 2 square what warp 0 brings, three times, by named barriers that one side only arrives on."""
    k = KernelBuilder("handover", target="sm_90a", threads=96)
    x, z = k.tensor("x", "f32", (3, 64)), k.tensor("z", "f32", (3, 64), access="write")
    s, a = k.shared("s", "f32", (64,)), k.registers("a", "f32", (1,))
    with k.team():
        with k.role(0, 1), k.loop("i", 0, 3) as i:
            with k.when(i.var > 0):
                if free:
                    k.sync("named", id=2, threads=threads)
            with k.loop("j", 0, 2) as j:
                k.load(a[0], x[i.var, j.var * 32 + k.t])
                k.store(s[j.var * 32 + k.t], a[0])
            k.sync("named", part="arrive", id=1, threads=threads)
        with k.role(1, 3), k.loop("i", 0, 3) as i:
            if full:
                k.sync("named", id=1, threads=threads)
            k.load(a[0], s[k.t - 32])
            k.store(z[i.var, k.t - 32], a[0] * a[0])
            with k.when(i.var < 2):
                k.sync("named", part="arrive", id=2, threads=threads)
    return k.finish(grid=(1,))


@pytest.mark.parametrize("mode", MODES)
def test_named_barriers(mode):
    a = ran(handover(), mode)
    assert np.array_equal(a["z"], a["x"] * a["x"])


def test_named_barriers_that_are_missing_or_too_small():
    assert fault_of(handover(free=False)).kind == "phase"
    assert fault_of(handover(full=False)).kind in ("uninitialised", "race", "deadlock")
    assert fault_of(handover(threads=64)).kind in ("phase", "race", "uninitialised", "deadlock")
    assert fault_of(handover(threads=128)).kind == "deadlock"


def halves(mode, relaxed=False):
    """Each of two blocks reads what the other has stored in its own shared memory, or writes it there."""
    k = KernelBuilder("halves", target="sm_90a", threads=64, cluster=2)
    z = k.tensor("z", "f32", (4, 64), access="write")
    s, a = k.shared("s", "f32", (64,)), k.registers("a", "f32", (1,))
    if mode == "store":
        k.sync("cluster", relaxed=True)
        k.store(s[63 - k.t], apply("f32", k.t + 100 * k.rank), peer=1 - k.rank)
    else:
        k.store(s[k.t], apply("f32", k.t + 100 * k.rank))
    k.sync("cluster", part="arrive", relaxed=relaxed)
    k.let("between", k.t * 2)
    k.sync("cluster", part="wait")
    k.load(a[0], s[k.t], peer=(1 - k.rank) if mode == "load" else None)
    k.store(z[k.bx, k.t], a[0])
    k.sync("cluster")
    return k.finish(grid=(4,))


@pytest.mark.parametrize("mode", MODES)
def test_peers(mode):
    t = np.arange(64)
    z = ran(halves("load"), mode)["z"]
    assert np.array_equal(z, [t + 100, t, t + 100, t])
    z = ran(halves("store"), mode)["z"]
    assert np.array_equal(z, [163 - t, 63 - t, 163 - t, 63 - t])


def test_a_relaxed_barrier_hands_over_no_memory():
    assert fault_of(halves("store", relaxed=True)).kind == "race"


def test_warps_part_and_meet_again():
    """Warp 1 of a warpgroup waits for warp 0, which goes on alone; all four then multiply together."""
    k = KernelBuilder("part", target="sm_90a", threads=128)
    z, bar = k.tensor("z", "f32", (128,), access="write"), k.barrier("met", count=32)
    a = k.registers("a", "f32", (1,))
    k.store(a[0], 1.0)
    with k.when(eq(k.t, 0)):
        k.call("mbarrier.init", {"bar": bar[0]})
    k.sync()
    warp = k.let("warp", k.t // 32, uniform=True)
    with k.when(eq(warp, 1)):
        k.wait_phase(bar[0], 0)
        k.store(a[0], 2.0)
    with k.when(eq(warp, 0)):
        k.arrive(bar[0])
    k.sync()
    with k.loop("i", 0, warp + 1):
        with k.when(ne(warp, 5)):
            k.store(a[0], a[0] + 1.0)
        k.sync("warp")
    k.store(z[k.t], a[0])
    for mode in MODES:
        z = ran(k.finish(grid=(1,)), mode)["z"]
        assert np.array_equal(z.reshape(4, 32)[:, 7], [2.0, 4.0, 4.0, 5.0])


def test_loops_that_end_early_in_some_warps():
    k = KernelBuilder("ragged", target="sm_90a", threads=64)
    z, a, bar = k.tensor("z", "i32", (64,), access="write"), k.registers("a", "i32", (1,)), k.barrier("turn", count=64)
    k.store(a[0], 0)
    with k.when(eq(k.t, 0)):
        k.call("mbarrier.init", {"bar": bar[0]})
    k.sync()
    with k.loop("i", 0, 2 + k.t // 32, seen=0) as i:
        with k.when(i.var < 2):
            k.arrive(bar[0])
            k.wait_phase(bar[0], i.seen)
        k.store(a[0], a[0] + i.var + 1)
        i.next(seen=i.seen ^ 1)
    k.store(z[k.t], a[0] + 100 * i.seen)
    for mode in MODES:
        z = ran(k.finish(grid=(1,)), mode)["z"]
        assert z[0] == 3 and z[63] == 106


@pytest.mark.parametrize("mode", MODES)
def test_cp_async_of_roles(mode):
    k = KernelBuilder("copies", target="sm_90a", threads=96)
    x, z = k.tensor("x", "f32", (128,), align=16), k.tensor("z", "f32", (64, 2), access="write", align=8)
    s, a, bar = k.shared("s", "f32", (128,)), k.registers("a", "f32", (2,)), k.barrier("full", count=32)
    with k.when(eq(k.t, 0)):
        k.call("mbarrier.init", {"bar": bar[0]})
    k.sync()
    with k.team():
        with k.role(0, 1):
            k.call("cp.async.16", {"dst": s[k.t * 4], "src": x[k.t * 4]})
            k.commit()
            k.wait()
            k.arrive(bar[0])
        with k.role(1, 3):
            k.wait_phase(bar[0], 0)
            k.load(a[0], s[2 * (k.t - 32)], width=2)
            k.store(z[k.t - 32, 0], a[0], a[1])
    args = ran(k.finish(grid=(1,)), mode)
    assert np.array_equal(args["z"].reshape(-1), args["x"])


def test_atomics_and_shuffles_of_strands():
    k = KernelBuilder("count", target="sm_90a", threads=64)
    z, y = k.tensor("z", "i32", (1,), access="add"), k.tensor("y", "i32", (64,), access="write")
    a = k.registers("a", "i32", (1,))
    with k.team(), k.role(0, 2):
        k.atomic("add", z[0], k.t)
        k.call("shfl.down", {"dst": a[0]}, value=k.t, delta=1)
        k.store(y[k.t], a[0])
    for mode in MODES:
        args = ran(k.finish(grid=(1,)), mode)
        assert args["z"][0] == 2016 and args["y"].tolist() == [*range(1, 32), 31, *range(33, 64), 63]


def test_a_barrier_that_some_lanes_or_warps_miss():
    for cond, kind in ((lambda k: k.t < 40, "divergence"), (lambda k: k.t < 32, "deadlock")):
        k = KernelBuilder("miss", target="sm_90a", threads=64)
        with k.team(), k.role(0, 2), k.when(cond(k)):
            k.sync()
        assert fault_of(k.finish(grid=(1,))).kind == kind


def test_a_deadlock_names_who_waits_for_what():
    e = fault_of(handover(threads=128), detect=False)
    assert e.kind == "deadlock" and "waits at barrier 1, where" in str(e) and e.pointer


def test_the_work_of_roles_is_estimated():
    few, many = (estimate_lane_ops(handover(), {}) for _ in range(2))
    assert few == many > 96 * 5


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("together", [False, True])
def test_ranks_of_blocks_in_a_cluster(mode, together):
    """A block knows its rank whether or not the blocks of its cluster ever meet."""
    k = KernelBuilder("ranks", target="sm_90a", threads=32, cluster=2)
    z = k.tensor("z", "i32", (6, 32), access="write")
    if together:
        k.sync("cluster")
    k.store(z[k.bx, k.t], k.rank * 100 + k.bx)
    assert ran(k.finish(grid=(6,)), mode)["z"][:, 0].tolist() == [0, 101, 2, 103, 4, 105]


def test_a_grid_that_is_no_whole_number_of_clusters():
    k = KernelBuilder("ranks", target="sm_90a", threads=32, cluster=2)
    z = k.tensor("z", "i32", (3,), access="write")
    k.store(z[k.bx], k.rank)
    kernel = k.finish(grid=(3,))
    with pytest.raises(ArgumentError, match="no multiple of the cluster"):
        run(kernel, arguments(kernel, {}))
