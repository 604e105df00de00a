"""TMA and bulk copies in the interpreter: boxes that leave the tensor, reductions, ranks, other blocks of a cluster."""

from __future__ import annotations

import numpy as np
import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import apply, eq
from amk.harness.interpret import Fault, arguments, run

MODES = [{}, {"detect": True}, {"seed": 4}, {"detect": True, "seed": 2}]


def started(k, *bars):
    """mbarriers that everyone knows."""
    with k.when(eq(k.t, 0)):
        for bar in bars:
            k.call("mbarrier.init", {"bar": bar[0]})
        k.fence("mbarrier_init")
    k.sync()


def box_kernel(shape, box, at, *, fill="zero", to=None, op="store", dtype="f32"):
    """A box of x at `at` to shared memory, then to z at `to`."""
    k = KernelBuilder("box", target="sm_90a", threads=32)
    x = k.tensor("x", dtype, shape, align=16)
    z = k.tensor("z", dtype, shape, align=16, access="write" if op == "store" else "readwrite")
    mx, mz = k.tensormap("mx", x, box, fill=fill), k.tensormap("mz", z, box)
    s, bar = k.shared("s", dtype, box, align=128), k.barrier("full")
    started(k, bar)
    rank, size = len(shape), int(np.prod(box)) * (2 if dtype in ("bf16", "f16") else 4)
    with k.when(eq(k.t, 0)):
        k.arrive(bar[0], bytes=size)
        k.call(f"tma.load.{rank}d", {"dst": s[(0,) * rank], "src": mx[at], "bar": bar[0]})
    k.wait_phase(bar[0], 0)
    with k.when(eq(k.t, 0)):
        k.call(f"tma.{op}.{rank}d", {"dst": mz[at if to is None else to], "src": s[(0,) * rank]})
        k.commit("bulk")
        k.wait("bulk")
    return k.finish(grid=(1,))


def padded(x, at, box, fill):
    """The box of an array from any place on."""
    out = np.full(box, fill, x.dtype)
    for i in np.ndindex(*box):
        j = tuple(a + d for a, d in zip(at, i, strict=True))
        if all(0 <= v < n for v, n in zip(j, x.shape, strict=True)):
            out[i] = x[j]
    return out


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "shape, box, at",
    [
        ((40,), (16,), (32,)),
        ((9, 12), (4, 8), (-2, 8)),
        ((9, 12), (4, 8), (8, -4)),
        ((5, 4, 8), (2, 3, 4), (4, 2, 4)),
        ((2, 3, 2, 8), (1, 2, 2, 4), (1, 2, 0, 4)),
        ((2, 1, 3, 2, 4), (2, 1, 2, 2, 4), (1, 0, 2, -1, 0)),
        ((9, 12), (4, 8), (100, 100)),
    ],
)
def test_boxes_are_clipped(shape, box, at, mode):
    kernel = box_kernel(shape, box, at, to=(0,) * len(shape))
    a = arguments(kernel, {})
    run(kernel, a, **mode)
    want = padded(a["x"], at, box, 0.0)
    part = tuple(slice(0, min(b, n)) for b, n in zip(box, shape, strict=True))
    assert np.array_equal(a["z"][part], want[part])
    assert np.isnan(a["z"]).sum() == a["z"].size - a["z"][part].size


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_nan_fill(dtype):
    kernel = box_kernel((4, 8), (4, 8), (2, 0), fill="nan", to=(0, 0), dtype=dtype)
    a = arguments(kernel, {})
    run(kernel, a)
    tail = a["z"][2:]
    tail = (tail.astype(np.uint32) << 16).view(np.float32) if dtype == "bf16" else tail
    assert np.isnan(tail).all() and np.array_equal(a["z"][:2], a["x"][2:])


@pytest.mark.parametrize("mode", MODES)
def test_a_reduction_leaves_what_is_outside(mode):
    kernel = box_kernel((6, 8), (4, 8), (4, 0), op="reduce.add")
    a = arguments(kernel, {})
    before = a["z"].copy()
    run(kernel, a, **mode)
    assert np.array_equal(a["z"][:4], before[:4]) and np.array_equal(a["z"][4:], before[4:] + a["x"][4:])


def bulk_kernel(op):
    """64 elements of x through shared memory into z, from element 8 on."""
    k = KernelBuilder("run", target="sm_90a", threads=32)
    dtype = "i32" if op != "reduce.add" else "f32"
    x = k.tensor("x", dtype, (80,), align=16)
    z = k.tensor("z", dtype, (5, 16), align=16, access="readwrite")
    s, bar = k.shared("s", dtype, (64,)), k.barrier("full")
    started(k, bar)
    with k.when(eq(k.t, 0)):
        k.arrive(bar[0], bytes=256)
        k.call("bulk.load", {"dst": s[0], "src": x[8], "bar": bar[0]}, bytes=256)
    k.wait_phase(bar[0], 0)
    with k.when(eq(k.t, 0)):
        k.call(f"bulk.{op}", {"dst": z[0, 8], "src": s[0]}, bytes=256)
        k.commit("bulk")
        k.wait("bulk")
    return k.finish(grid=(1,))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("op", ["store", "reduce.add", "reduce.min", "reduce.max"])
def test_bulk_copies(op, mode):
    kernel = bulk_kernel(op)
    a = arguments(kernel, {}, low=-9, high=9)
    old = a["z"].reshape(-1)[8:72].copy()
    run(kernel, a, **mode)
    new = a["x"][8:72]
    makers = {"reduce.add": np.add, "reduce.min": np.minimum, "reduce.max": np.maximum}
    want = makers[op](old, new) if op in makers else new
    assert np.array_equal(a["z"].reshape(-1)[8:72], want)


def cluster_kernel(how, wait=True):
    """Rank 0 sends 32 floats to both blocks, or rank 0's part of shared memory to rank 1."""
    k = KernelBuilder("send", target="sm_90a", threads=32, cluster=2)
    x, z = k.tensor("x", "f32", (32,), align=16), k.tensor("z", "f32", (2, 32), access="write")
    s, u = k.shared("s", "f32", (32,)), k.shared("u", "f32", (32,))
    bar, a = k.barrier("full"), k.registers("a", "f32", (1,))
    k.store(u[k.t], apply("f32", k.t + 100 * k.rank))
    k.fence("async")
    with k.when(eq(k.t, 0)):
        k.call("mbarrier.init", {"bar": bar[0]})
        k.fence("mbarrier_init")
        k.arrive(bar[0], bytes=128)
    k.sync("cluster")
    with k.when(eq(k.t, 0)):
        if how == "multicast":
            with k.when(eq(k.rank, 0)):
                k.call("bulk.load.multicast", {"dst": s[0], "src": x[0], "bar": bar[0]}, bytes=128, mask=3)
        else:
            k.call("bulk.copy.peer", {"dst": s[0], "src": u[0], "bar": bar[0]}, bytes=128, peer=1 - k.rank)
    if wait:
        k.wait_phase(bar[0], 0)
    k.load(a[0], s[k.t])
    k.store(z[k.bx, k.t], a[0])
    k.sync("cluster")
    return k.finish(grid=(2,))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", ["multicast", "peer"])
def test_copies_into_other_blocks(how, mode):
    kernel = cluster_kernel(how)
    a = arguments(kernel, {})
    run(kernel, a, **mode)
    own = np.arange(32)
    assert np.array_equal(a["z"], [a["x"]] * 2 if how == "multicast" else [own + 100, own])


def test_a_copy_that_is_not_waited_for():
    with pytest.raises(Fault) as e:
        run(cluster_kernel("multicast", wait=False), arguments(cluster_kernel("multicast"), {}), detect=True)
    assert e.value.kind in ("async", "uninitialised")  # rank 1 may read before rank 0 has issued it


@pytest.mark.parametrize("place, kind", [(60, "bounds"), (2, "alignment")])
def test_runs_that_leave_or_do_not_fit(place, kind):
    k = KernelBuilder("run", target="sm_90a", threads=32)
    z, s = k.tensor("z", "f32", (64,), align=16, access="write"), k.shared("s", "f32", (64,))
    k.store(s[k.t], 0.0)
    k.fence("async")
    k.sync()
    with k.when(eq(k.t, 0)):
        k.call("bulk.store", {"dst": z[place], "src": s[0]}, bytes=32)
        k.commit("bulk")
        k.wait("bulk")
    kernel = k.finish(grid=(1,))
    with pytest.raises(Fault) as e:
        run(kernel, arguments(kernel, {}), detect=True)
    assert e.value.kind == kind and e.value.threads == (0,)


def test_a_store_that_is_missing_or_doubled():
    for to, kind in (((1, 0), "unwritten"), (None, "double-write")):
        kernel = box_kernel((4, 8), (4, 8), (0, 0), to=to)
        if kind == "double-write":
            kernel = kernel.replaced(grid=(*kernel.grid, kernel.grid[0] + 1))
        with pytest.raises(Fault) as e:
            run(kernel, arguments(kernel, {}), coverage=True)
        assert e.value.kind == kind


def test_two_blocks_store_one_box():
    kernel = box_kernel((4, 8), (4, 8), (0, 0))
    kernel = kernel.replaced(grid=(kernel.grid[0] + 1,))
    with pytest.raises(Fault) as e:
        run(kernel, arguments(kernel, {}), detect=True)
    assert e.value.kind in ("race", "async")


@pytest.mark.parametrize("at, to, kind", [((0, 6), (0, 0), "alignment"), ((0, 0), (-1, 0), "bounds")])
def test_boxes_that_the_device_faults_on(at, to, kind):
    kernel = box_kernel((8, 16), (4, 8), at, to=to)
    with pytest.raises(Fault) as e:
        run(kernel, arguments(kernel, {}), detect=True)
    assert e.value.kind == kind and e.value.threads == (0,)
