"""The interpreter computes what kernels mean, and finds each fault planted in them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import Apply, Const, Elem, apply, cdiv, select
from amk.errors import ArgumentError, Refused
from amk.harness.interpret import Fault, arguments, confirm, estimate_lane_ops, run

_spec = importlib.util.spec_from_file_location("interp_kernels", Path(__file__).with_name("interp_kernels.py"))
kernels = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(kernels)

MODES = [{}, {"detect": True}, {"detect": True, "seed": 3}, {"coverage": True}]


def ran(kernel, rng=None, mode=None, **sizes):
    args = arguments(kernel, sizes, rng)
    run(kernel, args, **(mode or {}))
    return args


def fault_of(kernel, **sizes):
    options = {key: sizes.pop(key) for key in ("seed", "coverage", "detect") if key in sizes}
    with pytest.raises(Fault) as e:
        run(kernel, arguments(kernel, sizes), **{"detect": True, **options})
    return e.value


def thread_kernel(threads=32, n=32):
    """A kernel of one block over x and y of n floats, with a register and a shared array."""
    k = KernelBuilder("small", target="sm_80", threads=threads)
    x, y = k.tensor("x", "f32", (n,), align=16), k.tensor("y", "f32", (n,), access="write", align=16)
    return k, x, y, k.shared("s", "f32", (n,)), k.registers("a", "f32", (4,))


# ------------------------------------------------------------------------------------------------------------ meaning
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n", [0, 1, 63, 64, 1000])
def test_vector_add(n, mode):
    a = ran(kernels.vector_add(), mode=mode, n=n)
    assert np.array_equal(a["z"], a["x"] + a["y"])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("m, n", [(0, 5), (1, 1), (17, 33), (48, 16)])
def test_transpose_through_shared(m, n, mode):
    a = ran(kernels.transpose(), mode=mode, m=m, n=n)
    assert np.array_equal(a["y"], a["x"].T)


def test_transpose_through_a_swizzled_tile():
    a = ran(kernels.transpose(kernels.Swizzle(bits=4, base=0, shift=4)), mode={"detect": True}, m=20, n=35)
    assert np.array_equal(a["y"], a["x"].T)


@pytest.mark.parametrize("mode", MODES)
def test_reduction_with_shuffles(mode):
    a = ran(kernels.reduction(), mode=mode, m=5, n=301)
    assert np.allclose(a["y"], a["x"].astype(float).sum(1), atol=1e-4)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("m, n, k", [(33, 17, 21), (64, 32, 16), (1, 1, 1), (5, 7, 0)])
def test_gemm(m, n, k, mode):
    a = ran(kernels.gemm(32, 32, 8, 4, 4), mode=mode, m=m, n=n, k=k)
    assert np.allclose(a["C"], a["A"].astype(float) @ a["B"], atol=1e-4)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_gemm_with_a_ring_of_copies(stages, mode):
    a = ran(kernels.gemm_async(stages), mode=mode, m=64, n=32, k=80)
    assert np.allclose(a["C"], a["A"].astype(float) @ a["B"], atol=1e-4)


def test_fma_rounds_once():
    a = ran(kernels.gemm(32, 32, 8, 4, 4), m=32, n=32, k=40)
    c = np.zeros((32, 32), np.float32)
    for i in range(40):
        c = (a["A"][:, i : i + 1].astype(float) * a["B"][i] + c).astype(np.float32)
    assert np.array_equal(a["C"], c)


@pytest.mark.parametrize("mode", MODES)
def test_trip_counts_that_differ_by_thread(mode):
    a = ran(kernels.ragged(), mode=mode, n=100)
    assert np.array_equal(a["y"], a["count"] * (a["count"] - 1) // 2)


@pytest.mark.parametrize("mode", MODES)
def test_atomics(mode):
    a = ran(kernels.histogram(), mode=mode, n=500)
    assert np.array_equal(a["y"], np.bincount(a["x"], minlength=8))


def test_strided_arguments():
    k = KernelBuilder("copy", target="sm_80", threads=32)
    n, ld = k.size("n"), k.size("ld")
    x, y = k.tensor("x", "f32", (n, n), strides=(ld, 1)), k.tensor("y", "f32", (n, n), strides=(1, n), access="write")
    a = k.registers("a", "f32", (1,))
    with k.when(k.t < n):
        k.load(a[0], x[k.bx, k.t])
        k.store(y[k.bx, k.t], a[0])
    args = ran(k.finish(grid=(n,)), mode={"detect": True}, n=7, ld=11)
    assert args["x"].strides == (44, 4) and np.array_equal(args["x"], args["y"])


def test_bfloat16_is_widened_by_a_cast():
    k = KernelBuilder("widen", target="sm_80", threads=32)
    x, y, b = k.tensor("x", "bf16", (32,)), k.tensor("y", "f32", (32,), access="write"), k.registers("b", "bf16", (1,))
    k.load(b[0], x[k.t])
    k.store(y[k.t], apply("f32", b[0]))
    a = ran(k.finish(grid=(1,)), mode={"detect": True})
    assert np.array_equal(a["y"], (a["x"].astype(np.uint32) << 16).view(np.float32))


@pytest.mark.parametrize("mode", MODES)
def test_constants_of_16_bits_are_rounded_and_not_cut_off(mode):
    """In registers, in shared memory, in place of what is not read, and as what a condition selects."""
    k = KernelBuilder("constants", target="sm_80", threads=32)
    x, y = k.tensor("x", "bf16", (32,)), k.tensor("y", "f32", (4, 32), access="write")
    h, s = k.registers("h", "bf16", (4,)), k.shared("s", "bf16", (32,))
    k.store(h[0], 0.1)
    k.store(s[k.t], -1.5)
    k.load(h[1], s[k.t])
    k.load(h[2], x[k.t], when=k.t < 0, other=2.5)
    k.store(h[3], "select(t < 3, 0.5, 1.0 + 2.0)")
    for i in range(4):
        k.store(y[i, k.t], apply("f32", h[i]))
    got = ran(k.finish(grid=(1,)), mode=mode)["y"]
    assert np.array_equal(got[:, 0], np.float32([0.10009765625, -1.5, 2.5, 0.5])) and got[3, 31] == 3


def test_a_view_moves_by_its_index():
    k, x, y, _, a = thread_kernel()
    v = k.view("v", x[k.t])
    k.load(a[0], v[0])
    w = k.view("w", a[1])
    k.store(w[0], a[0] * 2.0)
    k.store(y[k.t], a[1])
    args = ran(k.finish(grid=(1,)), mode={"detect": True})
    assert np.array_equal(args["y"], args["x"] * 2)


def test_copies_that_are_switched_off_fill_zeros():
    k, x, y, s, a = thread_kernel()
    k.call("cp.async.4", {"dst": s[k.t], "src": x[k.t]}, when=k.t < 20)
    k.commit()
    k.wait()
    k.load(a[0], s[k.t])
    k.store(y[k.t], a[0])
    args = ran(k.finish(grid=(1,)), mode={"detect": True})
    assert np.array_equal(args["y"], np.where(np.arange(32) < 20, args["x"], 0))


def test_chosen_blocks_only():
    k = kernels.vector_add()
    a = arguments(k, {"n": 256})
    run(k, a, blocks=[(1, 0, 0), (9, 0, 0)])
    assert np.isnan(a["z"][:64]).all() and not np.isnan(a["z"][64:128]).any() and np.isnan(a["z"][128:]).all()


# -------------------------------------------------------------------------------------------------- loops as array axes
def scan(k, x, y, a):
    """a[i + 1] = a[i] + 1: each iteration reads the one before."""
    with k.loop("i", 0, 3, unroll="full") as i:
        k.store(a[i.var + 1], a[i.var] + 1.0)
    return lambda v: ((v[0] + 1) + 1) + 1


def total(k, x, y, a):
    """a[3] += a[i]: all iterations write one element."""
    k.store(a[3], 0.0)
    with k.loop("i", 0, 3, unroll="full") as i:
        k.store(a[3], a[3] + a[i.var])
    return lambda v: (v[0] + v[1]) + v[2]


def mirror(k, x, y, a):
    """a[3 - i] = a[i]: later iterations read what earlier ones wrote."""
    with k.loop("i", 0, 4, unroll="full") as i:
        k.store(a[3 - i.var], a[i.var])
    return lambda v: v[0]


def scaled(k, x, y, a):
    """Independent iterations, under a mask."""
    with k.when(k.t % 2 < 1), k.loop("i", 0, 4, unroll="full") as i:
        k.store(a[i.var], a[i.var] * 2.0)
    return lambda v: v[3] * np.where(np.arange(32) % 2 < 1, np.float32(2), np.float32(1))


def serpentine(k, x, y, a):
    """Rows walked there and back."""
    b = k.registers("b", "f32", (2, 4))
    with k.loop("i", 0, 2, unroll="full") as i, k.loop("j", 0, 4, unroll="full") as j:
        turn = select(apply("==", i.var % 2, 0), j.var, 3 - j.var)
        k.store(b[i.var, turn], a[turn] * apply("f32", i.var + 1))
    k.store(a[3], b[1, 3] + b[0, 0])
    return lambda v: v[3] * 2 + v[0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", [scan, total, mirror, scaled, serpentine])
def test_loops_keep_their_meaning(make, mode):
    k = KernelBuilder("loops", target="sm_80", threads=32)
    x, y = k.tensor("x", "f32", (32, 4), align=16), k.tensor("y", "f32", (32,), access="write")
    a = k.registers("a", "f32", (4,))
    k.load(a[0], x[k.t, 0], width=4)
    want = make(k, x, y, a)
    k.store(y[k.t], a[3])
    args = ran(k.finish(grid=(1,)), mode=mode)
    assert np.array_equal(args["y"], want(args["x"].T))


def test_a_nest_over_permuted_and_strided_registers():
    k = KernelBuilder("nest", target="sm_80", threads=32)
    y = k.tensor("y", "f32", (32, 6), access="write")
    a, b = k.registers("a", "f32", (2, 3)), k.registers("b", "f32", (3, 4))
    with k.loop("i", 0, 2, unroll="full") as i, k.loop("j", 0, 3, unroll="full") as j:
        k.store(a[i.var, j.var], apply("f32", i.var * 3 + j.var + k.t))
    with k.loop("i1", 0, 2, unroll="full") as i, k.loop("j1", 0, 3, unroll="full") as j:
        k.store(b[j.var, i.var * 2 + 1], a[i.var, j.var] * 10.0)
    with k.loop("i2", 0, 2, unroll="full") as i, k.loop("j2", 0, 3, unroll="full") as j:
        k.store(y[k.t, i.var * 3 + j.var], b[j.var, i.var * 2 + 1])
    args = ran(k.finish(grid=(1,)), mode={"detect": True})
    assert np.array_equal(args["y"], 10 * (np.arange(6) + np.arange(32)[:, None]))


def test_registers_indexed_by_thread():
    k, x, y, _, a = thread_kernel()
    with k.loop("i", 0, 4) as i:
        k.store(a[i.var], -1.0)
    with k.when(k.t < 30):
        k.load(a[k.t % 4], x[k.t])
    k.store(y[k.t], a[k.t % 4])
    args = ran(k.finish(grid=(1,)), mode={"detect": True})
    assert np.array_equal(args["y"], np.where(np.arange(32) < 30, args["x"], -1))


# ------------------------------------------------------------------------------------------------------------- faults
def test_global_bounds():
    e = fault_of(kernels.vector_add(guard=False), n=70)
    assert (e.kind, e.block, e.threads, e.values["index"]) == ("bounds", (1, 0, 0), (6,), 70)
    assert e.pointer == "/body/1/body/0"


def test_bounds_hold_in_each_dimension():
    assert fault_of(kernels.gemm(32, 32, 8, 4, 4, guard=False), m=32, n=32, k=9).kind == "bounds"


def test_shared_bounds():
    k, _, _, s, _ = thread_kernel()
    k.store(s[k.t + 1], 0.0)
    assert fault_of(k.finish(grid=(1,))).kind == "bounds"


@pytest.mark.parametrize("index", [4, -1, "t"])
def test_register_bounds(index):
    k, _, _, _, a = thread_kernel()
    k.store(a[index], 0.0)
    assert fault_of(k.finish(grid=(1,))).kind == "bounds"


@pytest.mark.parametrize("seed", [None, 1])
def test_missing_barriers_are_races(seed):
    assert fault_of(kernels.reduction(barriers=False), m=1, n=64, seed=seed).kind in ("race", "uninitialised")
    kind = fault_of(kernels.gemm(32, 32, 8, 4, 4, second_sync=False), m=32, n=32, k=16, seed=seed).kind
    assert kind == "race"
    assert fault_of(kernels.transpose(sync=False), m=16, n=16).kind == "race"


def test_two_writers_of_one_shared_element():
    k, _, _, s, _ = thread_kernel()
    k.store(s[k.t // 2], 0.0)
    assert fault_of(k.finish(grid=(1,))).kind == "race"


def test_two_blocks_writing_one_element():
    k, _, y, _, _ = thread_kernel()
    k.store(y[k.t], 0.0)
    assert fault_of(k.finish(grid=(2,))).kind == "race"


def test_a_block_barrier_orders_global_accesses():
    k = KernelBuilder("turn", target="sm_80", threads=64)
    y, a = k.tensor("y", "f32", (64,), access="readwrite"), k.registers("a", "f32", (1,))
    k.store(y[k.t], 1.0)
    k.sync()
    k.load(a[0], y[63 - k.t])
    k.sync()
    k.store(y[k.t], a[0])
    ran(k.finish(grid=(1,)), mode={"detect": True})


@pytest.mark.parametrize("threads, fine", [(32, True), (64, False)])
def test_a_warp_barrier_orders_one_warp(threads, fine):
    k, _, _, s, a = thread_kernel(threads, threads)
    k.store(s[k.t], 1.0)
    k.sync("warp")
    k.load(a[0], s[threads - 1 - k.t])
    kernel = k.finish(grid=(1,))
    if fine:
        ran(kernel, mode={"detect": True})
    else:
        assert fault_of(kernel).kind == "race"


@pytest.mark.parametrize("space", ["shared", "register"])
def test_uninitialised(space):
    k, _, y, s, a = thread_kernel()
    if space == "shared":
        k.load(a[0], s[k.t])
    k.store(y[k.t], a[0])
    assert fault_of(k.finish(grid=(1,))).kind == "uninitialised"


def test_divergent_barrier():
    k, *_ = thread_kernel()
    with k.when(k.t < 5):
        k.sync()
    e = fault_of(k.finish(grid=(1,)))
    assert (e.kind, e.threads, e.pointer) == ("divergence", (5,), "/body/0/body/0")


def test_barrier_in_a_ragged_loop():
    k, *_ = thread_kernel(64, 64)
    with k.loop("i", 0, k.t):
        k.sync()
    assert fault_of(k.finish(grid=(1,))).kind == "divergence"


def test_shuffle_with_inactive_lanes():
    k, _, _, _, a = thread_kernel()
    k.store(a[0], 1.0)
    with k.when(k.t < 16):
        k.call("shfl.down", {"dst": a[0]}, value=a[0], delta=1)
    assert fault_of(k.finish(grid=(1,))).kind == "divergence"


def test_a_uniform_value_that_is_not():
    k, *_ = thread_kernel()
    k.let("u", k.t // 2, uniform=True)
    assert fault_of(k.finish(grid=(1,))).kind == "divergence"


@pytest.mark.parametrize("make", [lambda t: (t + 1) * 2**28, lambda t: (t - 1) // 2, lambda t: (t - 1) % 3])
def test_overflow_and_negative_division(make):
    k, *_ = thread_kernel()
    k.let("v", make(k.t))
    assert fault_of(k.finish(grid=(1,))).kind == "overflow"


def test_no_overflow_in_lanes_that_do_not_compute():
    k, *_ = thread_kernel()
    with k.when(k.t < 4):
        k.let("v", (k.t + 1) * 2**28)
    k.let("w", select(k.t < 4, (k.t + 1) * 2**28, 0))
    ran(k.finish(grid=(1,)), mode={"detect": True})


@pytest.mark.parametrize("align, shift", [(16, 1), (4, 0)])
def test_misaligned_vectors(align, shift):
    k = KernelBuilder("vec", target="sm_80", threads=4)
    x, a = k.tensor("x", "f32", (32,), align=align), k.registers("a", "f32", (4,))
    k.load(a[0], x[k.t * 4 + shift], width=4)
    assert fault_of(k.finish(grid=(1,))).kind == "alignment"


def copy_kernel(commit=True, wait=True, sync=True, turn=True):
    k, x, y, s, a = thread_kernel(64, 64)
    k.call("cp.async.4", {"dst": s[k.t], "src": x[k.t]})
    if commit:
        k.commit()
    if wait:
        k.wait()
    if sync:
        k.sync()
    k.load(a[0], s[63 - k.t if turn else k.t])
    k.store(y[k.t], a[0])
    return k.finish(grid=(1,))


def test_a_copy_waited_for_is_visible():
    ran(copy_kernel(), mode={"detect": True})
    ran(copy_kernel(sync=False, turn=False), mode={"detect": True})


@pytest.mark.parametrize("lacks", ["commit", "wait", "sync"])
def test_a_copy_read_too_early(lacks):
    assert fault_of(copy_kernel(**{lacks: False})).kind == "async"


@pytest.mark.parametrize("lacks", ["commit", "wait"])
def test_late_copies_change_the_result(lacks):
    assert np.isnan(ran(copy_kernel(**{lacks: False}))["y"]).all()


def test_a_copy_in_flight_at_the_end():
    k, x, _, s, _ = thread_kernel()
    k.call("cp.async.4", {"dst": s[k.t], "src": x[k.t]})
    k.commit()
    assert fault_of(k.finish(grid=(1,))).kind == "async"


@pytest.mark.parametrize("lacks, kinds", [("wait", {"async"}), ("sync", {"async", "race"})])
def test_a_ring_without_its_order(lacks, kinds):
    assert fault_of(kernels.gemm_async(3, **{lacks: False}), m=32, n=32, k=96).kind in kinds


def test_coverage():
    k, _, y, _, _ = thread_kernel()
    with k.when(k.t < 31):
        k.store(y[k.t], 0.0)
    assert fault_of(k.finish(grid=(1,)), coverage=True, detect=False).kind == "unwritten"
    k, _, y, _, _ = thread_kernel()
    k.store(y[k.t], 0.0)
    k.store(y[k.t], 1.0)
    assert fault_of(k.finish(grid=(1,)), coverage=True).kind == "double-write"


def test_assumptions_are_checked():
    k, *_ = thread_kernel()
    k.assume(k.t < 7)
    assert fault_of(k.finish(grid=(1,))).kind == "assume"


def test_random_order_shows_races_in_the_numbers():
    kernel = kernels.transpose(sync=False)
    a = arguments(kernel, {"m": 16, "n": 16})
    run(kernel, a, seed=1)
    assert not np.array_equal(a["y"], a["x"].T)


# ------------------------------------------------------------------------------------------------------------ confirm
def test_confirm():
    k = kernels.vector_add(guard=False)
    assert confirm(k, {"n": 70}, "AMK201") and not confirm(k, {"n": 70}, "AMK301")
    assert not confirm(kernels.vector_add(), {"n": 70}, "AMK201") and not confirm(k, {"n": 70}, "AMK101")
    assert confirm(kernels.transpose(sync=False), {}, "AMK301")  # the smallest sizes that launch a block are tried too
    assert confirm(kernels.transpose(sync=False), {"m": 16, "n": 16}, "AMK301")
    assert not confirm(k, {"n": 2**30}, "AMK201")


def test_confirm_runs_the_named_blocks_of_a_large_grid():
    assert confirm(kernels.vector_add(guard=False), {"n": 2**20 - 1, "bx": 2**14 - 1}, "AMK201")


def test_budget_and_arguments_are_refused_politely():
    k = kernels.gemm(32, 32, 8, 4, 4)
    with pytest.raises(Refused):
        run(k, arguments(k, {"m": 32, "n": 32, "k": 32}), max_lane_ops=100)
    with pytest.raises(ArgumentError):
        run(k, {**arguments(k, {"m": 32, "n": 32, "k": 32}), "A": np.zeros((3, 3), np.float32)})
    assert estimate_lane_ops(k, {"m": 64, "n": 64, "k": 64}) > 64**3


# ----------------------------------------------------------------------------------------------------------- property
INTS = st.recursive(
    st.one_of(st.integers(-50, 50).map(Const), st.sampled_from([Apply("i32", (kernels.KernelBuilder.t,)), "r"])),
    lambda e: st.tuples(st.sampled_from(["+", "-", "*", "min", "max", "&", "|", "^"]), e, e),
    max_leaves=8,
)
NUMPY = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "min": np.minimum, "max": np.maximum, "&": np.bitwise_and,
    "|": np.bitwise_or, "^": np.bitwise_xor,
}  # fmt: skip


def build(tree, r):
    if tree == "r":
        return r
    return Apply(tree[0], (build(tree[1], r), build(tree[2], r))) if isinstance(tree, tuple) else tree


def expect(tree, t, r):
    if isinstance(tree, tuple):
        return NUMPY[tree[0]](expect(tree[1], t, r), expect(tree[2], t, r))
    return r if tree == "r" else np.int64(tree.value) if isinstance(tree, Const) else t


@settings(max_examples=60, deadline=None)
@given(tree=INTS, n=st.integers(1, 80), seed=st.integers(0, 9))
def test_random_elementwise_kernels(tree, n, seed):
    k = KernelBuilder("random", target="sm_80", threads=32)
    size = k.size("n")
    x, y, a = (
        k.tensor("x", "i32", (size,)),
        k.tensor("y", "i64", (size,), access="write"),
        k.registers("a", "i32", (1,)),
    )
    wide = k.registers("w", "i64", (1,))
    i = k.let("i", k.bx * 32 + k.t)
    with k.when(i < size):
        k.load(a[0], x[i])
        k.store(wide[0], apply("i64", a[0]))
        k.store(y[i], apply("+", build(tree, wide[0]), apply("i64", 0)))
    kernel = k.finish(grid=(cdiv(size, 32),))
    args = ran(kernel, np.random.default_rng(seed), {"seed": seed}, n=n)
    assert np.array_equal(args["y"], np.broadcast_to(expect(tree, np.arange(n) % 32, args["x"].astype(np.int64)), n))


FLOATS = st.recursive(
    st.one_of(st.floats(-4, 4, width=32).map(Const), st.sampled_from("ab")),
    lambda e: st.tuples(st.sampled_from(["+", "-", "*", "/", "min", "max"]), e, e) | st.tuples(st.just("fma"), e, e, e),
    max_leaves=8,
)


def floats(tree, env):
    """The tree as a term, or (with arrays in `env`) its NumPy value."""
    if isinstance(tree, str):
        return env[tree]
    if isinstance(tree, Const):
        return tree if isinstance(env["a"], Elem) else np.float32(tree.value)
    parts = [floats(e, env) for e in tree[1:]]
    if isinstance(env["a"], Elem):
        return Apply(tree[0], tuple(parts))
    if tree[0] == "fma":
        return (np.float64(parts[0]) * np.float64(parts[1]) + np.float64(parts[2])).astype(np.float32)
    return {**NUMPY, "/": np.true_divide}[tree[0]](*parts)


@settings(max_examples=60, deadline=None)
@given(tree=FLOATS, n=st.integers(1, 70), detect=st.booleans())
def test_random_float_kernels(tree, n, detect):
    k = KernelBuilder("random", target="sm_80", threads=32)
    size = k.size("n")
    x, y = k.tensor("x", "f32", (2, size)), k.tensor("y", "f32", (size,), access="write")
    a, i = k.registers("a", "f32", (2,)), k.let("i", k.bx * 32 + k.t)
    with k.when(i < size):
        k.load(a[0], x[0, i])
        k.load(a[1], x[1, i])
        k.store(y[i], floats(tree, {"a": a[0], "b": a[1]}))
    args = ran(k.finish(grid=(cdiv(size, 32),)), mode={"detect": detect}, n=n)
    with np.errstate(all="ignore"):
        want = floats(tree, {"a": args["x"][0], "b": args["x"][1]})
    assert np.array_equal(args["y"], np.broadcast_to(want, n), equal_nan=True)
