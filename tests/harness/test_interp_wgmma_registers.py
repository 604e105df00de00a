"""Which registers a wgmma holds, and from when to when: each register by itself."""

from __future__ import annotations

import numpy as np
import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.layout import Swizzle
from amk.harness.interpret import Fault, arguments, run

EIGHT = Swizzle(bits=1, base=3, shift=3)
MODES = [{}, {"detect": True}, {"seed": 3, "detect": True}]


def tiles(k, n=64):
    """A (two tiles of 64 x 16) and B (n x 16) in shared memory, visible to wgmma."""
    x, y = k.tensor("A", "bf16", (2, 64, 16)), k.tensor("B", "bf16", (n, 16))
    a = k.shared("a", "bf16", (2, 64, 16), layout=EIGHT, align=256)
    b = k.shared("b", "bf16", (n, 16), layout=EIGHT, align=256)
    one = k.registers("one", "bf16", (1,))
    with k.loop("i", 0, 16) as i:
        e = k.let("e", i.var * 128 + k.t)
        k.load(one[0], x[e // 1024, e // 16 % 64, e % 16])
        k.store(a[e // 1024, e // 16 % 64, e % 16], one[0])
    with k.loop("j", 0, n // 8) as j:
        f = k.let("f", j.var * 128 + k.t)
        k.load(one[0], y[f // 16, f % 16])
        k.store(b[f // 16, f % 16], one[0])
    k.fence("async")
    k.sync()
    return a, b


def dump(k, z, acc, count, *lead):
    with k.loop("o", 0, count, unroll="full") as o:
        k.store(z[(*lead, k.t, o.var)], acc[(*lead, o.var)])


def spread(c):
    """A 64 x n matrix as each thread's accumulators."""
    t, e = np.arange(128)[:, None], np.arange(c.shape[1] // 2)
    return c[t // 32 * 16 + t % 32 // 4 + 8 * (e // 2 % 2), 8 * (e // 4) + 2 * (t % 4) + e % 2]


def small(a):
    """Small whole numbers as the inputs, so that all sums are exact; A and B as float32."""
    rng = np.random.default_rng(2)
    wide = {name: rng.integers(-4, 5, a[name].shape).astype(np.float32) for name in ("A", "B")}
    for name, values in wide.items():
        a[name][...] = values.view(np.uint32) >> 16
    return wide["A"], wide["B"]


def fault_of(kernel):
    with pytest.raises(Fault) as e:
        run(kernel, arguments(kernel, {}), detect=True)
    return e.value


def two_sums(first=0):
    """Two groups in flight, each with half of an array; one half is stored while the other's group may go on."""
    k = KernelBuilder("halves", target="sm_90a", threads=128)
    z = k.tensor("z", "f32", (2, 128, 32), access="write")
    acc = k.registers("acc", "f32", (2, 32))
    a, b = tiles(k)
    k.fence("wgmma")
    for h in (0, 1):
        k.call("wgmma.m64n64k16.bf16.k.k", {"acc": acc[h, 0], "a": a[h, 0, 0], "b": b[0, 0]}, scale_d=False)
        k.commit("wgmma")
    k.wait("wgmma", pending=1)
    dump(k, z, acc, 32, first)
    k.wait("wgmma")
    dump(k, z, acc, 32, 1 - first)
    return k.finish(grid=(1,))


@pytest.mark.parametrize("mode", MODES)
def test_one_half_is_read_while_the_other_is_in_flight(mode):
    kernel = two_sums()
    args = arguments(kernel, {})
    a, b = small(args)
    run(kernel, args, **mode)
    for h in (0, 1):
        assert np.array_equal(args["z"][h], spread(a[h] @ b.T))


def test_the_wrong_half():
    e = fault_of(two_sums(first=1))
    assert e.kind == "wgmma" and "in flight" in e.message


def fragments(first=1, fence=True):
    """A in registers: the second fragment is loaded while the first is being multiplied (or the first again)."""
    k = KernelBuilder("fragments", target="sm_90a", threads=128)
    z = k.tensor("z", "f32", (128, 32), access="write")
    acc, ra = k.registers("acc", "f32", (32,)), k.registers("ra", "u32", (2, 4))
    a, b = tiles(k)
    lane = k.let("lane", k.t % 32)

    def load(h):
        k.call("ldmatrix.x4", {"dst": ra[h, 0], "src": a[h, k.t // 32 * 16 + lane % 16, lane // 16 * 8]})

    def multiply(h, scale):
        k.call("wgmma.m64n64k16.bf16.reg.k", {"acc": acc[0], "a": ra[h, 0], "b": b[0, 0]}, scale_d=scale)
        k.commit("wgmma")

    load(0)
    k.fence("wgmma")
    multiply(0, False)
    load(first)
    if fence:
        k.fence("wgmma")
    multiply(1, True)
    k.wait("wgmma")
    dump(k, z, acc, 32)
    return k.finish(grid=(1,))


@pytest.mark.parametrize("mode", MODES)
def test_fragments_are_loaded_while_others_are_multiplied(mode):
    kernel = fragments()
    args = arguments(kernel, {})
    a, b = small(args)
    run(kernel, args, **mode)
    assert np.array_equal(args["z"], spread((a[0] + a[1]) @ b.T))


def test_a_fragment_that_is_in_use_or_not_fenced():
    e = fault_of(fragments(first=0))
    assert e.kind == "wgmma" and "ra is touched" in e.message
    e = fault_of(fragments(fence=False))
    assert e.kind == "wgmma" and "no fence before" in e.message


def shapes(fence):
    """The sums of 64 columns are those of 8 columns afterwards."""
    k = KernelBuilder("shapes", target="sm_90a", threads=128)
    z = k.tensor("z", "f32", (128, 32), access="write")
    acc = k.registers("acc", "f32", (32,))
    a, b = tiles(k)
    k.fence("wgmma")
    k.call("wgmma.m64n64k16.bf16.k.k", {"acc": acc[0], "a": a[0, 0, 0], "b": b[0, 0]}, scale_d=False)
    if fence:
        k.fence("wgmma")
    k.call("wgmma.m64n8k16.bf16.k.k", {"acc": acc[0], "a": a[1, 0, 0], "b": b[0, 0]})
    k.commit("wgmma")
    k.wait("wgmma")
    dump(k, z, acc, 32)
    return k.finish(grid=(1,))


def test_sums_that_change_their_shape_need_a_fence():
    kernel = shapes(fence=True)
    args = arguments(kernel, {})
    a, b = small(args)
    run(kernel, args, detect=True)
    want = spread(a[0] @ b.T)
    want[:, :4] += spread(a[1] @ b[:8].T)
    assert np.array_equal(args["z"], want)
    e = fault_of(shapes(fence=False))
    assert e.kind == "wgmma" and "from one use" in e.message


def test_registers_at_an_index_of_each_lane():
    """What one lane touches of an array is touched in its warp."""
    k = KernelBuilder("lanes", target="sm_90a", threads=128)
    z = k.tensor("z", "f32", (128, 32), access="write")
    acc = k.registers("acc", "f32", (2, 32))
    a, b = tiles(k)
    k.store(acc[0, k.t % 32], 0.0)
    k.fence("wgmma")
    with k.when(k.t < 96):
        k.store(acc[1, k.t % 32], 1.0)
    k.call("wgmma.m64n64k16.bf16.k.k", {"acc": acc[0, 0], "a": a[0, 0, 0], "b": b[0, 0]}, scale_d=False)
    k.commit("wgmma")
    k.wait("wgmma")
    with k.loop("o", 0, 32, unroll="full") as o:
        k.store(z[k.t, o.var], acc[0, o.var])
    kernel = k.finish(grid=(1,))
    run(kernel, arguments(kernel, {}), detect=True)

    def moved(s):
        return s.model_copy(update={"dst": type(s.dst)("acc", (s.dst.index[0] - 1, s.dst.index[1]))})

    late = [s.model_copy(update={"body": tuple(map(moved, s.body))}) if s.kind == "if" else s for s in kernel.body]
    assert fault_of(kernel.replaced(body=tuple(late))).kind == "wgmma"
