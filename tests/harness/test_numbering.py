"""Each tile once: what `numbering` accepts is counted, tile by tile, at small sizes; and wgmma_gemm's output."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import cdiv, eq, minimum
from amk.dsl.idioms.hopper import raster
from amk.dsl.target import Target
from amk.harness.context import Context
from amk.harness.events import Program

from .hopper import SCHEDULES, found, gemm, spoiled, statements

H200 = Target.find("h200")


def covered(kernel):
    r = Context(kernel, H200).coverage
    return [o.by for o in r.obligations], [(f.code, f.severity) for f in r.faults]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_wgmma_gemm_writes_its_output_once(schedule):
    assert covered(gemm(schedule)) == (["structure"], [])


# ----------------------------------------------------------------------------------------- accepted means: counted once
GROUPS = st.sampled_from([1, 2, 3])
SPOILS = st.sampled_from(["", "", "", "group", "high", "hi", "step", "lo", "rank", "row", "col", "grid"])


@st.composite
def kernels(draw):
    """Tiles of 2 x 3 by one thread each, in one of several orders, one thing of it possibly wrong."""
    group, cluster, spoil = draw(GROUPS), draw(st.sampled_from([1, 2])), draw(SPOILS)
    persistent, plain = draw(st.booleans()), draw(st.booleans())
    k = KernelBuilder("tiles", target="sm_90a", threads=1, cluster=cluster)
    m, n = k.size("M", max=2**10), k.size("N", max=2**10)
    blocks = k.size("blocks", min=cluster, max=2**10, multiple_of=cluster)
    y = k.tensor("y", "f32", (m, n), access="write")
    rows, cols = cdiv(m, 2 * cluster), cdiv(n, 3)
    total = rows * cols + (1 if spoil == "hi" else 0)

    def body(i):
        if plain:
            row, col = i // cols, i % cols
        else:
            width = cols * (group + (spoil == "group"))
            first, rest = i // width * group, i % width
            high = minimum(group, rows - first - (1 if spoil == "high" else 0))
            row, col = first + rest % high, rest // high
        row = row * cluster + (k.rank if cluster > 1 and spoil != "rank" else 0) + (1 if spoil == "row" else 0)
        col = col * (2 if spoil == "col" else 1)
        for a, b in product(range(2), range(3)):
            with k.when(row * 2 + a < m), k.when(col * 3 + b < n):
                k.store(y[row * 2 + a, col * 3 + b], 1.0)

    if persistent:
        lo = k.bx // cluster + (1 if spoil == "lo" else 0)
        with k.loop("i", lo, total, blocks // cluster + (1 if spoil == "step" else 0)) as i:
            body(i.var)
        grid = blocks
    else:
        body(k.bx // cluster)
        grid = total * cluster + (cluster if spoil == "grid" else 0)
    return k.finish(grid=(grid,))


def hits(kernel, m, n, blocks):
    """How often each element is written, block by block, every statement evaluated as it stands."""
    p = Program(kernel)
    count = {at: 0 for at in product(range(m), range(n))}

    def run(body, env):
        for s in body:
            if s.kind == "if" and p.value(s.cond, env):
                run(s.body, env)
            elif s.kind == "for":
                for v in range(p.value(s.lo, env), p.value(s.hi, env), p.value(s.step, env)):
                    run(s.body, env | {s.var: v})
            elif s.kind == "store":
                count[tuple(p.value(e, env) for e in s.dst.index)] += 1

    sizes = {"M": m, "N": n, "blocks": blocks, "t": 0}
    clusters = p.value(p.kernel.grid[0], sizes)
    for bx, rank in product(range(clusters), range(kernel.cluster)):
        run(p.kernel.body, sizes | {"bx": bx, "rank": rank, "gx": clusters})
    return count.values()


@settings(max_examples=120, deadline=None)
@given(kernels())
def test_what_has_a_form_is_written_once(kernel):
    by, _ = covered(kernel)
    if by != ["structure"]:
        return
    for m, n, blocks in product((1, 2, 5, 9, 17), (1, 3, 4, 10), (1, 2, 3)):
        assert set(hits(kernel, m, n, blocks * kernel.cluster)) == {1}


@pytest.mark.parametrize("cluster", [1, 2, 4])
@pytest.mark.parametrize("group", [1, 4])
@pytest.mark.parametrize("persistent", [True, False])
def test_rasters_and_persistent_loops_have_a_form(cluster, group, persistent):
    k = KernelBuilder("tiles", target="sm_90a", threads=64, cluster=cluster)
    m, n = k.size("M", max=2**16), k.size("N", max=2**16)
    blocks = k.size("blocks", min=cluster, multiple_of=cluster, max=2**10)
    y = k.tensor("y", "f32", (m, n), access="write")
    rows, cols = k.let("rows", cdiv(m, 8 * cluster)), k.let("cols", cdiv(n, 8))

    def tile(i):
        row, col = raster(k, i, rows, cols, group)
        r, c = (row * cluster + (k.rank if cluster > 1 else 0)) * 8 + k.t // 8, col * 8 + k.t % 8
        with k.when(r < m), k.when(c < n):
            k.store(y[r, c], 1.0)

    if persistent:
        with k.loop("i", k.bx // cluster, rows * cols, blocks // cluster) as i:
            tile(i.var)
    else:
        tile(k.bx // cluster)
    kernel = k.finish(grid=(blocks if persistent else rows * cols * cluster,))
    assert covered(kernel) == (["structure"], [])


# -------------------------------------------------------------------------------------------------- boxes that go wrong
def let(name, value):
    return lambda data: next(s for s in statements(data, "let") if s["name"] == name).update(value=value)


def store(n, dst):
    return lambda data: statements(data, "call", row="tma.store")[n]["refs"].update(dst=dst)


def dropped(data):
    ifs = [s for s in statements(data, "if") if any(x.get("row") == "tma.store.2d" for x in s["body"])]
    ifs[1]["body"] = []


BAD = [
    (store(0, "to_c[m0 + wg * 64, n0]"), {"AMK402"}),
    (store(1, "to_c[m0 + wg * 64 + warp % 4 * 16, n0]"), {"AMK402"}),
    (store(1, "to_c[m0 + wg * 64 + warp % 4 * 16, n0 + 60]"), {"AMK402"}),
    (store(1, "to_c[m0 + wg * 64 + warp % 4 * 16, n0 + 65]"), {"AMK402"}),
    (store(0, "to_c[m0 + wg * 64 + warp % 4 * 15, n0]"), {"AMK402"}),
    (dropped, {"AMK401"}),
    (lambda d: d["maps"][2].update(box=[8, 64]), {"AMK401"}),
    (lambda d: statements(d, "for")[0].update(hi="tiles - 1"), {"AMK401"}),
    (lambda d: statements(d, "for")[0].update(lo="first_tile + 1"), {"AMK401"}),
    (let("stride", "blocks"), {"AMK401"}),
    (let("first_tile", "bx"), {"AMK401", "AMK402"}),
    (let("high", "8"), {"AMK401"}),
    (let("m0", "tile_row * 256"), {"AMK402"}),
    (let("m0", "(tile_row * 2 + 1 - rank) * 128"), None),  # the other block's rows: still each once
    (let("n0", "tile_col * 128"), {"AMK401", "AMK402"}),
    (let("tile_col", "rest % high"), {"AMK401", "AMK402"}),
    (lambda d: [s.update(cond="t % 32 < 2") for s in statements(d, "if", cond="t % 32 == 0")], {"AMK402"}),
]


@pytest.mark.parametrize(("edit", "codes"), BAD)
def test_boxes_that_miss_or_meet_are_refused(edit, codes):
    by, faults = covered(spoiled(edit))
    assert not by and faults
    if codes is not None:
        assert {c for c, _ in faults} <= codes and all(s is None for _, s in faults)


def test_what_is_refuted_names_an_element_and_blocks():
    f = Context(spoiled(let("m0", "tile_row * 256")), H200).coverage.faults[0]
    assert {"bx", "bx2", "t", "t2", "M", "N"} <= f.counterexample.keys() and "written twice" in f.message
    assert f.counterexample["bx"] // 2 == f.counterexample["bx2"] // 2


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda d: d["params"][6].update(access="read"), "write access to to_c"),
        (lambda d: d["params"][4].update(access="write"), "read access to from_a"),
        (
            lambda d: [s.update(row="tma.reduce.add.2d") for s in statements(d, "call", row="tma.store")],
            "atomic access",
        ),
    ],
)
def test_tensor_maps_keep_the_access_contract(edit, said):
    assert any(d.code == "AMK404" and said in d.message for d in found(spoiled(edit), ("AMK404",)))


def test_a_map_is_prefetched_whatever_its_tensor_is_for():
    assert found(gemm(), ("AMK404",)) == []


def test_copies_that_name_no_operator_keep_the_contract():
    def copy(row, access, mode):
        k = KernelBuilder("bulk", target="sm_90a", threads=32)
        x, s, bar = k.tensor("x", "f32", (64,), align=16, access=access), k.shared("s", "f32", (32,)), k.barrier("bar")
        refs = {"dst": s[0], "src": x[0], "bar": bar[0]} if mode == "read" else {"dst": x[0], "src": s[0]}
        k.call(row, refs, bytes=128)
        return [d.message for d in found(k.finish(grid=(1,)), ("AMK404",))]

    assert copy("bulk.load", "read", "read") == [] == copy("bulk.store", "write", "write")
    assert copy("bulk.reduce.add", "add", "update") == []
    assert "read access" in copy("bulk.load", "write", "read")[0]
    assert "atomic min" in copy("bulk.reduce.min", "add", "update")[0]


def copied(*, read_own=False, add=False):
    """One box a block, from x to y by way of shared memory; `read_own` reads y."""
    k = KernelBuilder("copied", target="sm_90a", threads=32)
    n = k.size("n", max=2**20, multiple_of=4)
    access = "add" if add else "readwrite" if read_own else "write"
    x, y = k.tensor("x", "f32", (n,), align=16), k.tensor("y", "f32", (n,), align=16, access=access)
    f, to = k.tensormap("f", y if read_own else x, (64,)), k.tensormap("to", y, (64,))
    s, bar = k.shared("s", "f32", (64,), align=128), k.barrier("bar")
    with k.when(eq(k.t, 0)):
        k.call("tma.load.1d", {"dst": s[0], "src": f[k.bx * 64], "bar": bar[0]})
        row = "tma.reduce.add.1d" if add else "tma.store.1d"
        k.call(row, {"dst": to[k.bx * 64], "src": s[0]})
    return k.finish(grid=(cdiv(n, 64),) if not add else (cdiv(n, 64), 3))


def test_boxes_of_one_dimension_reductions_and_reads_of_what_is_written():
    assert covered(copied()) == (["structure"], [])
    assert covered(copied(add=True)) == (["structure"], [])
    assert {c for c, _ in covered(copied(read_own=True))[1]} == {"AMK304"}


def test_bulk_stores_are_counted():
    def store(step):
        k = KernelBuilder("bulk", target="sm_90a", threads=32)
        n = k.size("n", max=2**20, multiple_of=32, min=32)
        y, s = k.tensor("y", "f32", (n,), align=16, access="write"), k.shared("s", "f32", (32,))
        with k.when(eq(k.t, 0)):
            k.call("bulk.store", {"dst": y[k.bx * step], "src": s[0]}, bytes=128)
        return covered(k.finish(grid=(n // 32,)))

    assert store(32) == (["structure"], [])
    assert {c for c, _ in store(16)[1]} == {"AMK402"}
