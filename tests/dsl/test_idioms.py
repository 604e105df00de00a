"""Idioms by themselves: what each writes is accepted by the check and computes what its docstring says."""

import numpy as np
import pytest

from amk.dsl import idioms
from amk.dsl.builder import KernelBuilder
from amk.dsl.evaluate import function_of
from amk.dsl.expr import Var, both, cdiv
from amk.dsl.layout import Fragment, Padded
from amk.errors import DescriptorError
from amk.harness.check import check
from amk.harness.interpret import arguments, run


@pytest.mark.parametrize(
    ("threads", "rows", "cols", "width"),
    [(32, 8, 16, 4), (64, 64, 8, 1), (32, 4, 32, 1), (32, 3, 128, 2), (256, 32, 32, 1), (64, 16, 16, 4)],
)
def test_spread_covers_a_tile_once(threads, rows, cols, width):
    """Every element belongs to one vector of one thread, and neighbours in a warp are side by side."""
    seen = np.zeros((rows, cols), int)
    for terms in idioms.spread(Var("t"), threads, rows, cols, width):
        place = function_of(terms, ("t",))
        for t in range(threads):
            i, j = place(t)
            seen[i, j : j + width] += 1
        assert place(1)[1] - place(0)[1] == width or cols == width
    assert (seen == 1).all()


@pytest.mark.parametrize("sizes", [(32, 8, 6, 4), (32, 8, 0, 4), (32, 3, 8, 1), (48, 6, 32, 1), (64, 4, 96, 1)])
def test_spread_refuses_what_it_cannot_cover(sizes):
    """A part of the tile would stay unwritten, or be written twice."""
    with pytest.raises(DescriptorError, match="do not cover"):
        list(idioms.spread(Var("t"), *sizes))


def copied(axis, width, slots=1, threads=32, shape=(8, 16)):
    """out = x, tile by tile along `axis`, zeros beyond the matrix included; a ring of `slots`."""
    k = KernelBuilder("copied", target="sm_80", threads=threads)
    m, n = k.size("m", min=0, max=65535, multiple_of=1), k.size("n", min=0, max=65532, multiple_of=width)
    x = k.tensor("x", "f32", (m, n), align=4 * width)
    high, wide = k.size("high", min=0, max=65535), k.size("wide", min=0, max=65535)
    out = k.tensor("out", "f32", (high, wide), access="write")
    tile = k.shared("tile", "f32", (slots, *shape), layout=Padded(pad=4))
    v = k.registers("v", "f32", (1,))
    copy = idioms.TileCopy(k, x, tile, shape=shape, threads=threads, width=width, axis=axis)
    start = k.let("start", k.bx * shape[1 - axis])
    copy.aim(start)
    fixed, moving = (m, n) if axis == 1 else (n, m)
    extent = wide if axis == 1 else high

    def fetch(step, slot):
        copy.fetch(slot, step * shape[axis], limit=fixed, end=moving)

    def use(slot):
        at = Var("step") * shape[axis]  # the ring's own variable
        for i, j in idioms.spread(k.t, threads, *shape, 1):
            row, col = (start + i, at + j) if axis == 1 else (at + i, start + j)
            with k.when(both(row < high, col < wide)):
                k.load(v[0], tile[slot, i, j])
                k.store(out[row, col], v[0])

    idioms.ring(k, slots, cdiv(extent, shape[axis]), fetch, use)
    other = high if axis == 1 else wide
    return k.finish(grid=(cdiv(other, shape[1 - axis]),))


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("width", [1, 4])
def test_tile_copy_in_a_ring(axis, width, slots):
    """Tiles along either axis, few addresses or one, any slots: the matrix, and zeros outside it."""
    kernel = copied(axis, width, slots, shape=(16, 32))
    assert check(kernel).ok, check(kernel).diagnostics
    for m, n in ((21, 36), (1, 4), (16, 32)):
        args = arguments(kernel, {"m": m, "n": n, "high": m + 5, "wide": n + 7}, np.random.default_rng(1))
        run(kernel, args, detect=True)
        want = np.zeros((m + 5, n + 7), np.float32)
        want[:m, :n] = args["x"]
        assert (args["out"] == want).all()


def test_a_copy_through_registers():
    """As by cp.async, in any width."""
    for width in (1, 2, 4):
        k = KernelBuilder("through", target="sm_80", threads=32)
        m, n = k.size("m", max=65535), k.size("n", max=65532, multiple_of=width)
        x = k.tensor("x", "f32", (m, n), align=4 * width)
        out = k.tensor("out", "f32", (8, 16), access="write")
        tile, r = k.shared("tile", "f32", (8, 16)), k.registers("r", "f32", (width,))
        idioms.copy_tile(k, tile, x, r, shape=(8, 16), threads=32, start=(0, 0), limit=(m, n), width=width)
        k.sync()
        for i, j in idioms.spread(k.t, 32, 8, 16, 1):
            k.load(r[0], tile[i, j])
            k.store(out[i, j], r[0])
        kernel = k.finish(grid=(1,))
        assert check(kernel).ok, check(kernel).diagnostics
        args = arguments(kernel, {"m": 5, "n": 12}, np.random.default_rng(1))
        run(kernel, args, detect=True)
        assert (args["out"][:5, :12] == args["x"]).all() and args["out"].sum() == pytest.approx(args["x"].sum())


@pytest.mark.parametrize("serpentine", [False, True])
def test_register_tile_adds_outer_products(serpentine):
    """out = 7 + u v for a 16 x 32 tile of one warp, in two groups of rows."""
    k = KernelBuilder("outer", target="sm_80", threads=32)
    u, v = k.tensor("u", "f32", (16,)), k.tensor("v", "f32", (32,))
    out = k.tensor("out", "f32", (16, 32), access="write")
    tile = idioms.RegisterTile(k, "acc", Fragment(4, 8, 4, 4, vec=2))
    ru, rv = k.registers("ru", "f32", (4,)), k.registers("rv", "f32", (4,))
    tile.place((k.let("m0", 0), k.let("n0", 0)), (k.let("lm", k.t // 8), k.let("ln", k.t % 8)))
    tile.fill(7.0)
    for i in range(4):
        k.load(ru[i], u[tile.rows[i]])
        k.load(rv[i], v[tile.cols[i]])
    for first in (0, 2):
        tile.add_product(
            lambda i, first=first: ru[i + first], lambda j: rv[j], rows=2, first=first, serpentine=serpentine
        )
    for i in range(4):
        for j in range(4):
            k.store(out[tile.rows[i], tile.cols[j]], tile.regs[i, j])
    kernel = k.finish(grid=(1,))
    assert check(kernel).ok, check(kernel).diagnostics
    args = arguments(kernel, {}, np.random.default_rng(1))
    run(kernel, args, detect=True, coverage=True)
    assert np.allclose(args["out"], 7 + np.outer(args["u"], args["v"]), rtol=1e-6)
