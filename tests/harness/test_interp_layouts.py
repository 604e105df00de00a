"""Copies and wgmma find elements by address: where an array lies otherwise, what they move is not what it holds."""

from __future__ import annotations

import numpy as np
import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import apply, eq
from amk.dsl.layout import Padded, Strided, Swizzle
from amk.errors import Refused
from amk.harness.interpret import Fault, arguments, run

SPANS = {s: Swizzle(bits=n, base=2, shift=3) for n, s in enumerate((32, 64, 128), 1)}  # of 4-byte elements
ROWS = 16


def fault_of(kernel):
    with pytest.raises(Fault) as e:
        run(kernel, arguments(kernel, {}), detect=True)
    return e.value


def loaded(span, layout=None, *, shape=None, at=(0, 0), align=1024):
    """A box of 16 rows of x to shared memory, read from there as the array says that it lies."""
    cols = (span or 128) // 4
    k = KernelBuilder("box", target="sm_90a", threads=32)
    x, z = k.tensor("x", "f32", (ROWS, cols), align=16), k.tensor("z", "f32", (ROWS, cols), access="write")
    m = k.tensormap("m", x, (ROWS, cols), swizzle=span)
    s = k.shared("s", "f32", shape or (ROWS, cols), layout=layout, align=align)
    bar, a = k.barrier("full"), k.registers("a", "f32", (1,))
    with k.when(eq(k.t, 0)):
        k.call("mbarrier.init", {"bar": bar[0]})
        k.fence("mbarrier_init")
        k.arrive(bar[0], bytes=4 * ROWS * cols)
        k.call("tma.load.2d", {"dst": s[at], "src": m[0, 0], "bar": bar[0]})
    k.sync()
    k.wait_phase(bar[0], 0)
    with k.loop("i", 0, ROWS) as i, k.when(k.t < cols):
        k.load(a[0], s[i.var, k.t])
        k.store(z[i.var, k.t], a[0])
    return k.finish(grid=(1,))


def permuted(x, span):
    """Rows of `span` bytes with their groups of 16 bytes as the PTX ISA tables show them."""
    out = np.empty_like(x)
    for r in range(x.shape[0]):
        key = {128: r % 8, 64: r // 2 % 4, 32: r // 4 % 2}[span]
        for c in range(x.shape[1]):
            out[r, (c // 4 ^ key) * 4 + c % 4] = x[r, c]
    return out


@pytest.mark.parametrize("span", SPANS)
def test_a_swizzle_of_the_map_alone_permutes(span):
    kernel = loaded(span)
    a = arguments(kernel, {})
    run(kernel, a, detect=True)
    assert np.array_equal(a["z"], permuted(a["x"], span)) and not np.array_equal(a["z"], a["x"])


@pytest.mark.parametrize("span", SPANS)
def test_a_swizzle_of_both_does_not(span):
    kernel = loaded(span, SPANS[span])
    a = arguments(kernel, {})
    run(kernel, a, detect=True)
    assert np.array_equal(a["z"], a["x"])


def test_a_swizzle_of_the_array_alone_permutes():
    kernel = loaded(0, SPANS[128])
    a = arguments(kernel, {})
    run(kernel, a, detect=True)
    assert np.array_equal(a["z"], permuted(a["x"], 128))  # its own inverse


def test_a_box_is_dense():
    """Padded rows, and rows longer than the box's, are not where its rows are."""
    assert fault_of(loaded(0, Padded(pad=4))).kind == "uninitialised"
    assert fault_of(loaded(0, Strided(strides=(40, 1)))).kind == "uninitialised"
    assert fault_of(loaded(0, shape=(ROWS, 64))).kind == "uninitialised"


def test_where_a_box_may_start():
    assert fault_of(loaded(128, SPANS[128], shape=(32, 32), at=(4, 0))).kind == "alignment"
    assert fault_of(loaded(128, SPANS[128], align=128)).kind == "alignment"
    assert fault_of(loaded(0, shape=(32, 36), at=(0, 4))).kind == "alignment"
    assert fault_of(loaded(0, shape=(20, 32), at=(8, 0))).kind == "bounds"


def bulk(pitch=16, layout=None):
    """64 elements to four rows of 16 in global memory, `pitch` apart, from four rows of 16 in shared memory."""
    k = KernelBuilder("run", target="sm_90a", threads=32)
    z = k.tensor("z", "f32", (4, 16), strides=(pitch, 1), align=16, access="write")
    s = k.shared("s", "f32", (4, 16), layout=layout)
    with k.loop("i", 0, 2) as i:
        k.store(s[2 * i.var + k.t // 16, k.t % 16], apply("f32", 32 * i.var + k.t))
    k.fence("async")
    k.sync()
    with k.when(eq(k.t, 0)):
        k.call("bulk.store", {"dst": z[0, 0], "src": s[0, 0]}, bytes=256)
        k.commit("bulk")
        k.wait("bulk")
    return k.finish(grid=(1,))


def test_a_run_of_bytes_knows_no_rows():
    kernel = bulk()
    a = arguments(kernel, {})
    run(kernel, a, detect=True)
    assert np.array_equal(a["z"].reshape(-1), np.arange(64))
    assert fault_of(bulk(pitch=20)).kind == "bounds"  # it would write what lies between the rows
    assert fault_of(bulk(layout=Padded(pad=4))).kind == "uninitialised"


# -------------------------------------------------------------------------------------------------------------- wgmma
EIGHT = Swizzle(bits=1, base=3, shift=3)  # rows of 16 elements of 2 bytes, swizzled over their 32


def product(layout=EIGHT, *, rows=64, width=16, at=(0, 0), align=1024):
    """A B of one tile, with A at a place of an array of any layout, and B all ones."""
    k = KernelBuilder("tile", target="sm_90a", threads=128)
    x, z = k.tensor("A", "bf16", (rows, width)), k.tensor("z", "f32", (128, 4), access="write")
    a, b = (
        k.shared("a", "bf16", (rows, width), layout=layout, align=align),
        k.shared("b", "bf16", (8, 16), layout=EIGHT, align=1024),
    )
    one, acc = k.registers("one", "bf16", (1,)), k.registers("acc", "f32", (4,))
    with k.loop("i", 0, rows * width // 128) as i:
        e = k.let("e", i.var * 128 + k.t)
        k.load(one[0], x[e // width, e % width])
        k.store(a[e // width, e % width], one[0])
    ones = k.tensor("ones", "bf16", (8, 16))
    k.load(one[0], ones[k.t // 16, k.t % 16])
    k.store(b[k.t // 16, k.t % 16], one[0])
    k.fence("async")
    k.sync()
    k.fence("wgmma")
    k.call("wgmma.m64n8k16.bf16.k.k", {"acc": acc[0], "a": a[at], "b": b[0, 0]}, scale_d=False)
    k.commit("wgmma")
    k.wait("wgmma")
    with k.loop("o", 0, 4, unroll="full") as o:
        k.store(z[k.t, o.var], acc[o.var])
    return k.finish(grid=(1,))


def sums(kernel, detect=True):
    """The 64 row sums of A that the tile has, and A."""
    a = arguments(kernel, {})
    wide = np.random.default_rng(1).integers(-8, 9, a["A"].shape).astype(np.float32)
    a["A"][...] = wide.view(np.uint32) >> 16
    a["ones"][...] = 0x3F80
    run(kernel, a, detect=detect)
    rows = [16 * (t // 32) + t % 32 // 4 + 8 * (e // 2) for t in range(128) for e in range(4)]
    out = np.zeros(64)
    out[rows] = a["z"].reshape(-1)
    return out, wide


@pytest.mark.parametrize("bits, width", [(1, 16), (2, 32), (3, 64)])
def test_tiles_of_each_swizzle(bits, width):
    for k in range(0, width, 16):
        got, a = sums(product(Swizzle(bits=bits, base=3, shift=3), rows=72, width=width, at=(8, k)))
        assert np.array_equal(got, a[8:, k : k + 16].sum(axis=1))


def test_a_swizzle_over_less_than_a_row_is_not_what_wgmma_reads():
    """Rows of 128 bytes swizzled over 64: the descriptor's rows are 64 bytes apart, its groups 8 rows of the array."""
    got, a = sums(product(Swizzle(bits=2, base=3, shift=3), width=64))
    memory = {}
    for r in range(64):
        for c in range(64):
            byte = 128 * r + 2 * c
            memory[byte ^ (byte >> 7 & 3) << 4] = a[r, c]
    want = np.zeros(64)
    for r in range(64):
        for c in range(16):
            byte = 1024 * (r // 8) + 64 * (r % 8) + 2 * c
            want[r] += memory[byte ^ (byte >> 7 & 3) << 4]
    assert np.array_equal(got, want) and not np.array_equal(got, a[:, :16].sum(axis=1))


@pytest.mark.parametrize("layout", [None, Padded(pad=8), Swizzle(bits=4, base=3, shift=4)])
def test_tiles_that_have_no_descriptor(layout):
    kernel = product(layout, width=64)
    assert fault_of(kernel).kind == "alignment"
    with pytest.raises(Refused, match="no descriptor"):
        run(kernel, arguments(kernel, {}), watch=frozenset(("race",)))


@pytest.mark.parametrize("fields", [{"at": (4, 0), "rows": 72}, {"at": (0, 8)}, {"align": 512}])
def test_where_a_tile_may_start(fields):
    assert fault_of(product(Swizzle(bits=3, base=3, shift=3), width=64, **fields)).kind == "alignment"


def test_tiles_that_leave_their_array():
    assert fault_of(product(rows=72, at=(16, 0))).kind == "bounds"
