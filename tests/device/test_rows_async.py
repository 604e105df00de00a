"""Rows of TMA, bulk copies, clusters, mbarriers and matrices on a GPU, held against the manual.

Every kernel is certified and compiled like any other. Shared memory around what a row writes holds a pattern, which has
to stay; what is expected is written out here from the PTX ISA, with NumPy. The last slot and ranks other than 0 are
used, and coordinates beyond both ends.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import amk
from amk.dsl.builder import Handle, KernelBuilder
from amk.dsl.expr import Const, Expr, apply, both, eq
from amk.dsl.layout import Swizzle
from amk.runtime.device import probe

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not probe().available, reason="no GPU")]
PATTERN = -7.0
THREADS = 128


def bf16(x: Any) -> Any:
    """float32 as the bits of bfloat16, rounded to nearest even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def as_bfloat16(bits: Any) -> Any:
    """uint16 bits as an array that says it is bfloat16, which NumPy cannot."""
    torch = pytest.importorskip("torch")
    return torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16)


def ready(k: KernelBuilder, *bars: Handle, cluster: bool = False) -> None:
    """One thread initialises mbarriers, and everyone knows."""
    with k.when(eq(k.t, 0)):
        for b in bars:
            k.call("mbarrier.init", {"bar": b[0]})
        k.fence("mbarrier_init")
    if cluster:
        k.sync("cluster")
    else:
        k.sync()


def every(k: KernelBuilder, shape: tuple[int, ...]) -> Any:
    """A loop that gives each thread its elements of an array, one after the other: the indices."""
    total = int(np.prod(shape))
    assert total % THREADS == 0
    loop = k.loop("e", 0, total // THREADS)
    e = loop.__enter__()
    flat: Expr = e.var * THREADS + k.t
    index = []
    for n in reversed(shape):
        index.append(flat % n)
        flat = flat // n
    return loop, tuple(reversed(index))


def dump(k: KernelBuilder, shared: Handle, out: Handle, shape: tuple[int, ...], lead: tuple[Expr, ...] = ()) -> None:
    """Everything in a shared array, to global memory."""
    r = k.registers("r", "f32", (1,))
    loop, at = every(k, shape)
    k.load(r[0], shared[at])
    k.store(out[(*lead, *at)], r[0])
    loop.__exit__(None, None, None)


def poison(k: KernelBuilder, shared: Handle, shape: tuple[int, ...]) -> None:
    loop, at = every(k, shape)
    k.store(shared[at], PATTERN)
    loop.__exit__(None, None, None)


BOXES = {1: (64,), 2: (4, 32), 3: (2, 4, 32), 4: (2, 2, 2, 32), 5: (2, 2, 2, 2, 32)}
SWIZZLES = {
    32: Swizzle(bits=1, base=2, shift=3),
    64: Swizzle(bits=2, base=2, shift=3),
    128: Swizzle(bits=3, base=2, shift=3),
}


def boxed(tensor: Any, start: tuple[int, ...], box: tuple[int, ...], fill: float) -> Any:
    """What a box that starts anywhere holds of a tensor, and the fill outside."""
    out = np.full(box, fill, np.float32)
    for at in product(*map(range, box)):
        where = tuple(s + i for s, i in zip(start, at, strict=True))
        if all(0 <= w < n for w, n in zip(where, tensor.shape, strict=True)):
            out[at] = tensor[where]
    return out


@pytest.mark.parametrize("fill", ["zero", "nan"])
@pytest.mark.parametrize(("rank", "swizzle"), [*((r, 0) for r in BOXES), (2, 32), (2, 64), (2, 128), (3, 128)])
def test_tma_load(rank: int, swizzle: int, fill: str) -> None:
    """A box lands in the last slot of three, whole or with its outside filled, and nothing else changes."""
    box = (*BOXES[rank][:-1], swizzle // 4) if swizzle else BOXES[rank]
    box = box if int(np.prod(box)) % THREADS == 0 else (*box[:-2], box[-2] * 4, box[-1]) if rank > 1 else (128,)
    shape = (*(n + 5 for n in box[:-1]), box[-1] * 2 + 4)
    k = KernelBuilder("tma_load", target="sm_90a", threads=THREADS)
    x = k.tensor("x", "f32", shape, align=16)
    steps = [1] * (rank - 1) + [4]  # a box starts at whole 16 bytes of its rows
    at = [k.scalar(f"c{i}", "i32", min=-(2**20), max=2**20, multiple_of=n) for i, n in enumerate(steps)]
    z = k.tensor("z", "f32", (3, *box), access="write")
    m = k.tensormap("m", x, box, swizzle=swizzle, fill=fill)  # type: ignore[arg-type]
    s = k.shared("s", "f32", (3, *box), layout=SWIZZLES.get(swizzle), align=1024)
    bar = k.barrier("full")
    poison(k, s, (3, *box))
    k.fence("async")
    ready(k, bar)
    with k.when(eq(k.t, 0)):
        k.arrive(bar[0], bytes=4 * int(np.prod(box)))
        k.call(f"tma.load.{rank}d", {"dst": s[(2, *[0] * rank)], "src": m[tuple(at)], "bar": bar[0]})
    k.wait_phase(bar[0], 0)
    dump(k, s, z, (3, *box))
    run = amk.compile(k.finish(grid=(1,)))
    tensor = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    outside = 0.0 if fill == "zero" else np.nan
    starts = ((0,) * rank, (1,) * rank, (-1,) * rank, shape, tuple(n - 3 for n in shape), (-(2**20),) * rank)
    for start in ((*s[:-1], s[-1] // 4 * 4) for s in starts):
        out = np.zeros((3, *box), np.float32)
        run(x=tensor, z=out, **{f"c{i}": int(c) for i, c in enumerate(start)})
        assert (out[:2] == PATTERN).all(), "a slot beside it was written"
        np.testing.assert_array_equal(out[2], boxed(tensor, tuple(start), box, outside), err_msg=str(start))


def stored(row: str, box: tuple[int, ...], shape: tuple[int, ...], start: tuple[int, ...], dtype: str) -> Any:
    """A kernel that brings a tile into the last slot and lets one box of it go to a place."""
    k = KernelBuilder("tma_store", target="sm_90a", threads=THREADS)
    x, z = k.tensor("x", dtype, box), k.tensor("z", dtype, shape, align=16, access="readwrite")
    m = k.tensormap("m", z, box)
    s, r = k.shared("s", dtype, (2, *box), align=128), k.registers("r", dtype, (1,))
    loop, index = every(k, box)
    k.load(r[0], x[index])
    k.store(s[(1, *index)], r[0])
    loop.__exit__(None, None, None)
    k.fence("async")
    k.sync()
    with k.when(eq(k.t, 0)):
        k.call(f"tma.{row}.{len(box)}d", {"dst": m[start], "src": s[(1, *[0] * len(box))]})
        k.commit("bulk")
        k.wait("bulk")
    return k.finish(grid=(1,))


@pytest.mark.parametrize(("row", "rank"), [
    *(("store", r) for r in BOXES), ("reduce.add", 1), ("reduce.add", 2), ("reduce.min", 3), ("reduce.max", 5),
])  # fmt: skip
def test_tma_store(row: str, rank: int) -> None:
    """A box goes out of the last slot; what lies outside the tensor is not written."""
    box = BOXES[rank] if rank > 1 else (128,)
    shape = (*(n + 3 for n in box[:-1]), box[-1] + 12)
    dtype = "f32" if row in ("store", "reduce.add") else "i32"
    rng = np.random.default_rng(1)
    tile = rng.integers(-50, 50, box).astype(np.float32 if dtype == "f32" else np.int32)
    for start in ((0,) * rank, (*[2] * (rank - 1), 8), (*(n - 1 for n in shape[:-1]), shape[-1] - 4), shape):
        old = rng.integers(-50, 50, shape).astype(tile.dtype)
        out, want = old.copy(), old.copy()
        for i in product(*map(range, box)):
            where = tuple(a + b for a, b in zip(start, i, strict=True))
            if all(0 <= w < n for w, n in zip(where, shape, strict=True)):
                new = tile[i]
                want[where] = {"store": new, "reduce.add": old[where] + new, "reduce.min": min(old[where], new),
                               "reduce.max": max(old[where], new)}[row]  # fmt: skip
        amk.compile(stored(row, box, shape, start, dtype))(x=tile, z=out)
        np.testing.assert_array_equal(out, want, err_msg=str(start))


def test_multicast_reaches_the_blocks_of_its_mask() -> None:
    """Rank 1 of four copies to ranks 1 and 3; 0 and 2 keep their pattern."""
    k = KernelBuilder("multicast", target="sm_90a", threads=THREADS, cluster=4)
    x = k.tensor("x", "f32", (12, 32), align=16)
    z = k.tensor("z", "f32", (4, 2, 8, 32), access="write")
    m = k.tensormap("m", x, (8, 32), swizzle=128)
    s = k.shared("s", "f32", (2, 8, 32), layout=SWIZZLES[128], align=1024)
    bar = k.barrier("full")
    poison(k, s, (2, 8, 32))
    k.fence("async")
    ready(k, bar, cluster=True)
    hit = eq(k.rank % 2, 1)
    with k.when(both(hit, eq(k.t, 0))):
        k.arrive(bar[0], bytes=1024)
    k.sync("cluster")
    with k.when(both(eq(k.rank, 1), eq(k.t, 0))):
        refs = {"dst": s[1, 0, 0], "src": m[2, 0], "bar": bar[0]}
        k.call("tma.load.2d.multicast", refs, mask=0b1010)
    with k.when(hit):
        k.wait_phase(bar[0], 0)
    k.sync()
    dump(k, s, z, (2, 8, 32), (k.bx,))
    k.sync("cluster", relaxed=True)
    run = amk.compile(k.finish(grid=(4,)))
    tensor = np.random.default_rng(2).standard_normal((12, 32)).astype(np.float32)
    out = np.zeros((4, 2, 8, 32), np.float32)
    run(x=tensor, z=out)
    for rank in range(4):
        assert (out[rank, 0] == PATTERN).all()
        assert (out[rank, 1] == (tensor[2:10] if rank % 2 else PATTERN)).all(), rank


def test_bulk_copies() -> None:
    """Bytes in, added to global memory, and out again."""
    k = KernelBuilder("bulk", target="sm_90a", threads=THREADS)
    x = k.tensor("x", "f32", (256,), align=16)
    y = k.tensor("y", "f32", (256,), align=16, access="readwrite")
    z = k.tensor("z", "f32", (256,), align=16, access="readwrite")
    s, bar = k.shared("s", "f32", (2, 128)), k.barrier("full")
    poison(k, s, (2, 128))
    k.fence("async")
    ready(k, bar)
    with k.when(eq(k.t, 0)):
        k.arrive(bar[0], bytes=256)
        k.call("bulk.load", {"dst": s[1, 32], "src": x[100], "bar": bar[0]}, bytes=256)
    k.wait_phase(bar[0], 0)
    with k.when(eq(k.t, 0)):
        k.call("bulk.store", {"dst": z[0], "src": s[0, 0]}, bytes=512)
        k.call("bulk.store", {"dst": z[128], "src": s[1, 0]}, bytes=512)
        k.call("bulk.reduce.add", {"dst": y[4], "src": s[1, 32]}, bytes=256)
        k.commit("bulk")
        k.wait("bulk")
    run = amk.compile(k.finish(grid=(1,)))
    rng = np.random.default_rng(3)
    given, sums = (rng.integers(0, 99, 256).astype(np.float32) for _ in range(2))
    out, got = np.zeros(256, np.float32), sums.copy()
    run(x=given, y=got, z=out)
    want = np.full(256, PATTERN, np.float32)
    want[160:224] = given[100:164]
    np.testing.assert_array_equal(out, want)
    sums[4:68] += given[100:164]
    np.testing.assert_array_equal(got, sums)


def test_peers_in_a_cluster() -> None:
    """Each block writes its neighbour's memory, reads the next one's, and copies to it in bulk."""
    k = KernelBuilder("peers", target="sm_90a", threads=THREADS, cluster=2)
    z = k.tensor("z", "f32", (2, 3, THREADS), access="write")
    s, g = k.shared("s", "f32", (2, THREADS)), k.shared("g", "f32", (THREADS,))
    r, bar = k.registers("r", "f32", (1,)), k.barrier("full")
    other = 1 - k.rank
    k.store(g[k.t], apply("f32", k.rank * 1000 + k.t))
    k.fence("async")
    ready(k, bar, cluster=True)
    k.store(s[0, k.t], apply("f32", k.rank * 100 + k.t), peer=other)
    with k.when(eq(k.t, 0)):
        k.arrive(bar[0], bytes=4 * THREADS)
    k.sync("cluster")
    with k.when(eq(k.t, 0)):
        k.call("bulk.copy.peer", {"dst": s[1, 0], "src": g[0], "bar": bar[0]}, bytes=4 * THREADS, peer=other)
    k.wait_phase(bar[0], 0)
    k.load(r[0], s[0, k.t])
    k.store(z[k.bx, 0, k.t], r[0])
    k.load(r[0], s[1, k.t])
    k.store(z[k.bx, 1, k.t], r[0])
    k.load(r[0], g[k.t], peer=other)
    k.store(z[k.bx, 2, k.t], r[0])
    k.sync("cluster")
    run = amk.compile(k.finish(grid=(2,)))
    out = np.zeros((2, 3, THREADS), np.float32)
    run(z=out)
    t = np.arange(THREADS)
    for rank in range(2):
        np.testing.assert_array_equal(out[rank], [(1 - rank) * 100 + t, (1 - rank) * 1000 + t, (1 - rank) * 1000 + t])


def test_one_half_arrives_and_the_other_syncs() -> None:
    """Field case A16: a named barrier of 256 that 128 arrive on and 128 wait for."""
    k = KernelBuilder("halves", target="sm_90a", threads=256)
    z = k.tensor("z", "f32", (128,), access="write")
    s, r = k.shared("s", "f32", (128,)), k.registers("r", "f32", (1,))
    with k.team():
        with k.role(0, 4):
            k.store(s[k.t], apply("f32", k.t))
            k.sync("named", part="arrive", id=1, threads=256)
        with k.role(4, 8):
            k.sync("named", id=1, threads=256)
            k.load(r[0], s[255 - k.t])
            k.store(z[k.t - 128], r[0])
    run = amk.compile(k.finish(grid=(1,)))
    out = np.zeros(128, np.float32)
    run(z=out)
    np.testing.assert_array_equal(out, np.arange(127, -1, -1))


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_ldmatrix_and_stmatrix(n: int, trans: bool) -> None:
    """Matrices through registers: out as they came in, the other way round, and with nothing beside them touched."""
    k = KernelBuilder("matrix", target="sm_90a", threads=32)
    x = k.tensor("x", "u32", (32, 4), align=16)
    z, y = k.tensor("z", "u32", (32, 4), access="write"), k.tensor("y", "u32", (32, n), access="write")
    s, d = k.shared("s", "u32", (32, 4)), k.shared("d", "u32", (32, 4))
    v, m = k.registers("v", "u32", (4,)), k.registers("m", "u32", (n,))
    k.load(v[0], x[k.t, 0], width=4)
    k.store(s[k.t, 0], *(v[i] for i in range(4)))
    k.store(d[k.t, 0], *(Const(7) for _ in range(4)))
    k.sync()
    name = f"x{n}" + (".trans" if trans else "")
    k.call(f"ldmatrix.{name}", {"dst": m[0], "src": s[k.t, 0]})
    with k.loop("i", 0, n, unroll="full") as i:
        k.store(y[k.t, i.var], m[i.var])
    k.call(f"stmatrix.{name}", {"dst": d[k.t, 0]}, **{f"v{i}": m[i] for i in range(n)})
    k.sync()
    k.load(v[0], d[k.t, 0], width=4)
    with k.loop("j", 0, 4, unroll="full") as j:
        k.store(z[k.t, j.var], v[j.var])
    run = amk.compile(k.finish(grid=(1,)))
    halves = np.arange(256, dtype=np.uint16)
    given = halves.view(np.uint32).reshape(32, 4)
    out, fragments = np.zeros((32, 4), np.uint32), np.zeros((32, n), np.uint32)
    run(x=given, z=out, y=fragments)
    want = np.full((32, 4), 7, np.uint32)
    want[: 8 * n] = given[: 8 * n]
    np.testing.assert_array_equal(out, want)
    matrices = halves.reshape(4, 8, 8)[:n]
    matrices = matrices.transpose(0, 2, 1) if trans else matrices
    for lane in range(32):
        pairs = matrices[:, lane // 4, 2 * (lane % 4) : 2 * (lane % 4) + 2].astype(np.uint32)
        np.testing.assert_array_equal(fragments[lane], pairs[:, 0] | pairs[:, 1] << 16)


MMA = {"mma.m16n8k8.f16": 8, "mma.m16n8k16.f16": 16, "mma.m16n8k8.bf16": 8, "mma.m16n8k16.bf16": 16,
       "mma.m16n8k4.tf32": 4, "mma.m16n8k8.tf32": 8}  # fmt: skip


@pytest.mark.parametrize("row", MMA)
def test_mma(row: str) -> None:
    """acc += a b, from the fragments that the manual draws."""
    depth, wide = MMA[row], row.endswith("tf32")
    per = 1 if wide else 2
    na, nb = 16 * depth // 32 // per, 8 * depth // 32 // per
    k = KernelBuilder("mma", target="sm_90a", threads=32)
    a_, b_ = k.tensor("a", "u32", (32, na)), k.tensor("b", "u32", (32, nb))
    c_, z = k.tensor("c", "f32", (32, 4)), k.tensor("z", "f32", (32, 4), access="write")
    a, b, acc = k.registers("ra", "u32", (na,)), k.registers("rb", "u32", (nb,)), k.registers("acc", "f32", (4,))
    for regs, source, n in ((a, a_, na), (b, b_, nb), (acc, c_, 4)):
        with k.loop("i", 0, n, unroll="full") as i:
            k.load(regs[i.var], source[k.t, i.var])
    k.call(row, {"acc": acc[0], "a": a[0], "b": b[0]})
    with k.loop("i", 0, 4, unroll="full") as i:
        k.store(z[k.t, i.var], acc[i.var])
    run = amk.compile(k.finish(grid=(1,)))
    rng = np.random.default_rng(5)
    left, right = (
        rng.integers(-8, 9, (16, depth)).astype(np.float32),
        rng.integers(-8, 9, (depth, 8)).astype(np.float32),
    )
    start = rng.integers(-99, 99, (16, 8)).astype(np.float32)

    def packed(values: list[float]) -> int:
        if wide:
            return int(np.float32(values[0]).view(np.uint32))
        bits = bf16(values) if row.endswith("bf16") else np.array(values, np.float16).view(np.uint16)
        return int(bits[0]) | int(bits[1]) << 16

    fa, fb = np.zeros((32, na), np.uint32), np.zeros((32, nb), np.uint32)
    fc = np.zeros((32, 4), np.float32)
    for lane in range(32):
        g, t = lane // 4, lane % 4
        for i in range(na):
            r, c = g + 8 * (i % 2), per * t + (per * 4) * (i // 2)
            fa[lane, i] = packed([left[r, c + e] for e in range(per)])
        for i in range(nb):
            fb[lane, i] = packed([right[per * t + (per * 4) * i + e, g] for e in range(per)])
        for i in range(4):
            fc[lane, i] = start[g + 8 * (i // 2), 2 * t + i % 2]
    out = np.zeros((32, 4), np.float32)
    run(a=fa, b=fb, c=fc, z=out)
    want = start + left @ right
    for lane in range(32):
        for i in range(4):
            assert out[lane, i] == want[lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2]


@pytest.mark.parametrize("swizzle", [128, 64, 32])
@pytest.mark.parametrize(("dtype", "a_kind", "b_kind", "n"), [
    ("bf16", "k", "k", 8), ("bf16", "k", "k", 256), ("bf16", "k", "mn", 64), ("bf16", "mn", "mn", 256),
    ("f16", "k", "k", 24), ("f16", "mn", "k", 64), ("bf16", "reg", "mn", 128), ("f16", "reg", "k", 16),
])  # fmt: skip
def test_wgmma(dtype: str, a_kind: str, b_kind: str, n: int, swizzle: int) -> None:
    """acc := a b and then acc += a b, in block 1 of a cluster and the last slot of two."""
    if swizzle != 128 and "mn" in (a_kind, b_kind):
        pytest.skip("rows of m or n are 128 bytes")
    width = swizzle // 2  # elements in a row
    lay = Swizzle(bits={128: 3, 64: 2, 32: 1}[swizzle], base=3, shift=3)
    k = KernelBuilder("wgmma", target="sm_90a", threads=128, cluster=2)
    a_shape = {"k": (64, width), "mn": (1, 64, 64), "reg": (64, width)}[a_kind]
    b_shape = {"k": (n, width), "mn": (max(n // 64, 1), 64, 64)}[b_kind]
    a_, b_ = k.tensor("a", dtype, a_shape, align=16), k.tensor("b", dtype, b_shape, align=16)
    f_ = k.tensor("f", "u32", (128, 4))
    z = k.tensor("z", "f32", (2, 2, 128, n // 2), access="write")
    maps = [
        k.tensormap(name, h, shape, swizzle=swizzle) for name, h, shape in (("ma", a_, a_shape), ("mb", b_, b_shape))
    ]
    a, b = (k.shared(x, dtype, (2, *sh), layout=lay, align=1024) for x, sh in (("sa", a_shape), ("sb", b_shape)))
    acc, frag, bar = k.registers("acc", "f32", (n // 2,)), k.registers("frag", "u32", (4,)), k.barrier("full")
    ready(k, bar, cluster=True)
    with k.when(eq(k.t, 0)):
        k.arrive(bar[0], bytes=2 * (int(np.prod(a_shape)) + int(np.prod(b_shape))))
        for dst, m, shape in ((a, maps[0], a_shape), (b, maps[1], b_shape)):
            refs = {"dst": dst[(1, *[0] * len(shape))], "src": m[(0,) * len(shape)], "bar": bar[0]}
            k.call(f"tma.load.{len(shape)}d", refs)
    k.wait_phase(bar[0], 0)
    with k.loop("i", 0, 4, unroll="full") as i:
        k.load(frag[i.var], f_[k.t, i.var])
    for round_, add in ((0, False), (1, True)):
        k.fence("wgmma")
        first = {"k": a[1, 0, width - 16], "mn": a[1, 0, 48, 0]}.get(a_kind, frag[0]) if a_kind != "reg" else frag[0]
        second = b[1, 0, width - 16] if b_kind == "k" else b[1, 0, 48, 0]
        k.call(f"wgmma.m64n{n}k16.{dtype}.{a_kind}.{b_kind}", {"acc": acc[0], "a": first, "b": second}, scale_d=add)
        k.commit("wgmma")
        k.wait("wgmma")
        with k.loop("j", 0, n // 2, unroll="full") as j:
            k.store(z[k.bx, round_, k.t, j.var], acc[j.var])
    k.sync("cluster", relaxed=True)
    run = amk.compile(k.finish(grid=(2,)))
    rng = np.random.default_rng(6)
    left, right = rng.integers(-4, 5, (64, 16)).astype(np.float32), rng.integers(-4, 5, (16, n)).astype(np.float32)
    ga, gb = rng.integers(-4, 5, a_shape).astype(np.float32), rng.integers(-4, 5, b_shape).astype(np.float32)
    if a_kind == "mn":
        ga[0, 48:] = left.T
    else:
        ga[:, width - 16 :] = left
    if b_kind == "k":
        gb[:, width - 16 :] = right.T
    else:
        for chunk in range(n // 64):
            gb[chunk, 48:] = right[:, 64 * chunk : 64 * chunk + 64]

    def bits(x: Any) -> Any:
        return bf16(x).reshape(x.shape) if dtype == "bf16" else x.astype(np.float16)

    fragments = np.zeros((128, 4), np.uint32)
    for t in range(128):
        lane = t % 32
        for i in range(4):
            r, c = 16 * (t // 32) + lane // 4 + 8 * (i % 2), 2 * (lane % 4) + 8 * (i // 2)
            pair = bits(left[r, c : c + 2]).view(np.uint16).astype(np.uint32)
            fragments[t, i] = pair[0] | pair[1] << 16
    out = np.zeros((2, 2, 128, n // 2), np.float32)
    given = {x: bits(v) if dtype == "f16" else as_bfloat16(bits(v)) for x, v in (("a", ga), ("b", gb))}
    run(f=fragments, z=out, **given)
    want = left @ right
    for t in range(128):
        for j in range(n // 2):
            r = 16 * (t // 32) + t % 32 // 4 + 8 * (j // 2 % 2)
            c = 8 * (j // 4) + 2 * (t % 4) + j % 2
            assert (out[:, 0, t, j] == want[r, c]).all() and (out[:, 1, t, j] == 2 * want[r, c]).all(), (t, j)
