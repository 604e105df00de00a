"""ldmatrix, stmatrix, mma.sync and every kind of wgmma operand, as parts of kernels."""

from __future__ import annotations

import numpy as np
import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import apply
from amk.dsl.layout import Swizzle
from amk.harness.interpret import Fault, arguments, run

MODES = [{}, {"detect": True}, {"seed": 1}]
WIDE = Swizzle(bits=3, base=3, shift=3)


def bits(x):
    return (np.asarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def wide(b):
    return (b.astype(np.uint32) << 16).view(np.float32)


def small(shape):
    return np.random.default_rng(3).integers(-4, 5, shape).astype(np.float32)


def mma_kernel():
    """Two warps: z[w] = A[w] B by ldmatrix and mma.sync, B transposed on the way."""
    k = KernelBuilder("mma", target="sm_80", threads=64)
    x, y = k.tensor("A", "bf16", (2, 16, 16), align=16), k.tensor("B", "bf16", (16, 8), align=16)
    z = k.tensor("z", "f32", (2, 16, 8), access="write", align=8)
    s, b = k.shared("s", "bf16", (2, 16, 16)), k.shared("b", "bf16", (16, 8))
    row = k.registers("row", "bf16", (8,))
    fa, fb, acc = k.registers("fa", "u32", (4,)), k.registers("fb", "u32", (2,)), k.registers("acc", "f32", (4,))
    w, lane = k.let("w", k.t // 32), k.let("lane", k.t % 32)
    k.load(row[0], x[w, lane // 2, lane % 2 * 8], width=8)
    with k.loop("i", 0, 8, unroll="full") as i:
        k.store(s[w, lane // 2, lane % 2 * 8 + i.var], row[i.var])
    with k.when(k.t < 16), k.loop("j", 0, 8, unroll="full") as j:
        k.load(row[0], y[k.t, j.var])
        k.store(b[k.t, j.var], row[0])
    k.sync()
    k.call("ldmatrix.x4", {"dst": fa[0], "src": s[w, lane % 16, lane // 16 * 8]})
    k.call("ldmatrix.x2.trans", {"dst": fb[0], "src": b[lane % 16, 0]})
    with k.loop("n", 0, 4, unroll="full") as n:
        k.store(acc[n.var], 0.0)
    k.call("mma.m16n8k16.bf16", {"acc": acc[0], "a": fa[0], "b": fb[0]})
    with k.loop("h", 0, 2, unroll="full") as h:
        k.store(z[w, lane // 4 + 8 * h.var, lane % 4 * 2], acc[2 * h.var], acc[2 * h.var + 1])
    return k.finish(grid=(1,))


@pytest.mark.parametrize("mode", MODES)
def test_fragments_by_ldmatrix(mode):
    kernel = mma_kernel()
    a = arguments(kernel, {})
    a["A"][...], a["B"][...] = bits(small((2, 16, 16))), bits(small((16, 8)))
    run(kernel, a, **mode)
    assert np.array_equal(a["z"], wide(a["A"]) @ wide(a["B"]))


def wgmma_kernel(a_kind, b_kind, n=64, fence=True, early=False):
    """A B of one tile, operands written to shared memory (or registers) by threads."""
    k = KernelBuilder("wgmma", target="sm_90a", threads=128)
    shape_a, shape_b = ((16, 64) if a_kind == "mn" else (64, 16)), ((n, 16) if b_kind == "k" else (16, n))
    x, y = k.tensor("A", "bf16", shape_a), k.tensor("B", "bf16", shape_b)
    z = k.tensor("z", "f32", (128, n // 2), access="write")
    span = Swizzle(bits=1, base=3, shift=3)
    a = k.shared("a", "bf16", (1, 16, 64), layout=WIDE, align=1024) if a_kind == "mn" else (
        k.shared("a", "bf16", (64, 16), layout=span, align=256))  # fmt: skip
    b = k.shared("b", "bf16", (n, 16), layout=span, align=256) if b_kind == "k" else (
        k.shared("b", "bf16", (n // 64, 16, 64), layout=WIDE, align=1024))  # fmt: skip
    one, ra, acc = (
        k.registers("one", "bf16", (1,)),
        k.registers("ra", "u32", (4,)),
        k.registers("acc", "f32", (n // 2,)),
    )
    with k.loop("i", 0, 8, unroll="full") as i:
        e = k.let("e", i.var * 128 + k.t)
        if a_kind == "mn":
            k.load(one[0], x[e // 64, e % 64])
            k.store(a[0, e // 64, e % 64], one[0])
        else:
            k.load(one[0], x[e // 16, e % 16])
            k.store(a[e // 16, e % 16], one[0])
    with k.loop("j", 0, n // 8, unroll="full") as j:
        f = k.let("f", j.var * 128 + k.t)
        if b_kind == "k":
            k.load(one[0], y[f // 16, f % 16])
            k.store(b[f // 16, f % 16], one[0])
        else:
            k.load(one[0], y[f // n, f % n])
            k.store(b[f % n // 64, f // n, f % 64], one[0])
    k.fence("async")
    k.sync()
    if a_kind == "reg":
        lane = k.let("lane", k.t % 32)
        k.call("ldmatrix.x4", {"dst": ra[0], "src": a[k.t // 32 * 16 + lane % 16, lane // 16 * 8]})
    if fence:
        k.fence("wgmma")
    refs = {"acc": acc[0], "b": b[0, 0] if b_kind == "k" else b[0, 0, 0]}
    refs["a"] = ra[0] if a_kind == "reg" else a[0, 0, 0] if a_kind == "mn" else a[0, 0]
    k.call(f"wgmma.m64n{n}k16.bf16.{a_kind}.{b_kind}", refs, scale_d=False)
    k.call(f"wgmma.m64n{n}k16.bf16.{a_kind}.{b_kind}", refs)
    k.commit("wgmma")
    if early:
        k.store(ra[0], apply("u32", 0))
    k.wait("wgmma")
    with k.loop("o", 0, n // 2, unroll="full") as o:
        k.store(z[k.t, o.var], acc[o.var])
    return k.finish(grid=(1,))


def spread(c):
    """A 64 x n matrix as each thread's accumulators."""
    n = c.shape[1]
    t, e = np.arange(128)[:, None], np.arange(n // 2)
    return c[t // 32 * 16 + t % 32 // 4 + 8 * (e // 2 % 2), 8 * (e // 4) + 2 * (t % 4) + e % 2]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n", [64, 128])
@pytest.mark.parametrize("b_kind", ["k", "mn"])
@pytest.mark.parametrize("a_kind", ["k", "mn", "reg"])
def test_wgmma_operands(a_kind, b_kind, n, mode):
    kernel = wgmma_kernel(a_kind, b_kind, n)
    args = arguments(kernel, {})
    x, y = small((64, 16)), small((16, n))
    args["A"][...], args["B"][...] = bits(x.T if a_kind == "mn" else x), bits(y.T if b_kind == "k" else y)
    run(kernel, args, **mode)
    assert np.array_equal(args["z"], spread(2 * (x @ y)))


@pytest.mark.parametrize("what", [{"fence": False}, {"early": True}])
def test_registers_of_wgmma(what):
    kernel = wgmma_kernel("reg", "mn", **what)
    with pytest.raises(Fault) as e:
        run(kernel, arguments(kernel, {}), detect=True)
    assert e.value.kind == "wgmma"


def test_stmatrix_writes_what_ldmatrix_reads():
    k = KernelBuilder("through", target="sm_90a", threads=32)
    z, s = k.tensor("z", "u32", (4, 32), access="write"), k.shared("s", "u32", (32, 4))
    r = k.registers("r", "u32", (4,))
    values = {f"v{i}": apply("u32", k.t * 65537 + i * 1000) for i in range(4)}
    k.call("stmatrix.x4", {"dst": s[k.t, 0]}, **values)
    k.sync("warp")
    k.call("ldmatrix.x4.trans", {"dst": r[0], "src": s[k.t, 0]})
    k.call("stmatrix.x4.trans", {"dst": s[k.t, 0]}, **{f"v{i}": r[i] for i in range(4)})
    k.sync("warp")
    k.call("ldmatrix.x4", {"dst": r[0], "src": s[k.t, 0]})
    with k.loop("i", 0, 4, unroll="full") as i:
        k.store(z[i.var, k.t], r[i.var])
    kernel = k.finish(grid=(1,))
    for mode in MODES:
        a = arguments(kernel, {})
        run(kernel, a, **mode)
        assert np.array_equal(a["z"], np.arange(32) * 65537 + 1000 * np.arange(4)[:, None])


def test_a_warp_matrix_needs_a_whole_warp():
    k = KernelBuilder("some", target="sm_90a", threads=32)
    s, r = k.shared("s", "u32", (32, 4)), k.registers("r", "u32", (4,))
    with k.when(k.t < 16):
        k.call("ldmatrix.x4", {"dst": r[0], "src": s[k.t, 0]})
    kernel = k.finish(grid=(1,))
    with pytest.raises(Fault) as e:
        run(kernel, arguments(kernel, {}), detect=True)
    assert e.value.kind == "divergence"


@pytest.mark.parametrize("mode", MODES)
def test_fragments_in_rows_of_arrays(mode):
    """The registers of an instruction may be any row of an array of several dimensions."""
    k = KernelBuilder("rows", target="sm_80", threads=64)
    z = k.tensor("z", "f32", (2, 64, 4), access="write")
    s, f = k.shared("s", "u32", (2, 32, 4)), k.registers("f", "u32", (3, 4))
    acc = k.registers("acc", "f32", (2, 4))
    with k.loop("c", 0, 4, unroll="full") as c:
        k.store(s[k.t // 32, k.t % 32, c.var], 0x3F803F80)
        k.store(f[2, c.var], 0x40004000)
        with k.loop("h", 0, 2, unroll="full") as h:
            k.store(acc[h.var, c.var], apply("f32", h.var))
    k.sync("warp")
    k.call("ldmatrix.x4", {"dst": f[1, 0], "src": s[k.t // 32, k.t % 32, 0]})
    k.call("mma.m16n8k16.bf16", {"acc": acc[1, 0], "a": f[1, 0], "b": f[2, 1]})
    with k.loop("o", 0, 4, unroll="full") as o, k.loop("g", 0, 2, unroll="full") as g:
        k.store(z[g.var, k.t, o.var], acc[g.var, o.var])
    kernel = k.finish(grid=(1,))
    a = arguments(kernel, {})
    run(kernel, a, **mode)
    assert (a["z"][0] == 0).all() and (a["z"][1] == 1 + 16 * 2).all()
