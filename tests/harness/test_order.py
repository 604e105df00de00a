"""Ordering: correct kernels pass, and every way of breaking one is refused with the right code and a usable message."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path

import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import cdiv, eq
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.target import Target
from amk.harness.context import Context
from amk.harness.order import OrderResult


def _kernels():  # type: ignore[no-untyped-def]
    name = "amk_test_kernels"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / "kernels.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


K = _kernels()
B = KernelBuilder


def order(kernel: KernelDescriptor) -> OrderResult:
    return Context(kernel, Target.find("A100")).order


def codes(kernel: KernelDescriptor) -> set[str]:
    return {f.code for f in order(kernel).faults}


GOOD = {
    "vector_add": lambda: K.vector_add(),
    "grid_stride": lambda: K.grid_stride(),
    "transpose_padded": lambda: K.transpose("padded"),
    "transpose_plain": lambda: K.transpose("plain"),
    "transpose_swizzle": lambda: K.transpose("swizzle"),
    "transpose_xor": lambda: K.transpose("xor"),
    "reduce_256": lambda: K.block_reduce(),
    "reduce_64": lambda: K.block_reduce(threads=64),
    "reduce_atomic": lambda: K.block_reduce(atomic=True),
    "reduce_uniform_barrier": lambda: K.block_reduce(barrier_when=B.bx >= 0),
    "reduce_argument_barrier": lambda: K.block_reduce(barrier_when=B.gx > 0),
    "gemm_2": lambda: K.gemm_async(2),
    "gemm_3": lambda: K.gemm_async(3),
    "gemm_4": lambda: K.gemm_async(4),
    "gemm_after": lambda: K.gemm_async(3, slots=4),
    "gemm_same_shift": lambda: K.gemm_async(3, read_slot=1, write_slot=1),
    "gemm_strong_wait": lambda: K.gemm_async(4, pending=0),
    "staged": lambda: K.gemm_staged(),
    "raster": lambda: K.raster_tiles(),
}
BAD = {
    "no_barrier_transpose": ("AMK301", lambda: K.transpose(barrier=False)),
    "no_barrier_swizzle": ("AMK301", lambda: K.transpose("swizzle", barrier=False)),
    "xor_one_side": ("AMK206", lambda: _xor_short()),
    "short_tile": ("AMK202", lambda: K.transpose(rows=31)),
    "barrier_half": ("AMK302", lambda: K.transpose(guard_barrier=True)),
    "no_first_barrier": ("AMK301", lambda: K.block_reduce(first=False)),
    "no_tree_barrier": ("AMK301", lambda: K.block_reduce(tree=False)),
    "early_return": ("AMK206", lambda: K.block_reduce(early=True)),
    "half_warp_shuffle": ("AMK305", lambda: K.block_reduce(shuffle_when=16)),
    "odd_threads": ("AMK305", lambda: _odd_threads()),
    "barrier_under_t": ("AMK302", lambda: K.block_reduce(barrier_when=B.t < 128)),
    "barrier_under_size": ("AMK302", lambda: K.block_reduce(barrier_when=B.bx * 256 + B.t < "n")),
    "short_slots": ("AMK202", lambda: K.block_reduce(slots=255)),
    "weak_wait": ("AMK303", lambda: K.gemm_async(3, pending=2)),
    "weak_wait_2": ("AMK303", lambda: K.gemm_async(2, pending=1)),
    "slots_2_for_3": ("AMK303", lambda: K.gemm_async(3, slots=2)),
    "slots_1_for_2": ("AMK303", lambda: K.gemm_async(2, slots=1)),
    "late_commit": ("AMK303", lambda: K.gemm_async(3, commit="late")),
    "never_commit": ("AMK303", lambda: K.gemm_async(3, commit="never")),
    "no_tail_commit": ("AMK303", lambda: K.gemm_async(3, tail_commit=False)),
    "no_barrier": ("AMK303", lambda: K.gemm_async(3, barrier="none")),
    "barrier_after_only": ("AMK303", lambda: K.gemm_async(3, barrier="after")),
    "read_next_slot": ("AMK206", lambda: K.gemm_async(3, read_slot=1)),
    "write_next_slot": ("AMK206", lambda: K.gemm_async(3, write_slot=1)),
    "short_row": ("AMK202", lambda: K.gemm_async(3, short=True)),
    "no_accumulator": ("AMK207", lambda: K.gemm_async(3, init=False)),
    "staged_no_first": ("AMK301", lambda: K.gemm_staged(first=False)),
    "staged_no_last": ("AMK301", lambda: K.gemm_staged(last=False)),
    "staged_one_slot": ("AMK301", lambda: K.gemm_staged(slots=1)),
    "staged_never_put": ("AMK206", lambda: K.gemm_staged(guard=False)),
}


def _odd_threads() -> KernelDescriptor:
    k = KernelBuilder("odd", target="sm_80", threads=48)
    a, b = k.registers("a", "f32", (1,)), k.registers("b", "f32", (1,))
    k.store(a[0], 1.0)
    k.call("shfl.down", {"dst": b[0]}, value=a[0], delta=1)
    return k.finish(grid=(1,))


def _xor_short() -> KernelDescriptor:
    """Swizzled store of half the columns, plain read of that half."""
    k = KernelBuilder("xor_short", target="sm_80", threads=256)
    s, a = k.shared("s", "f32", (16, 32)), k.registers("a", "f32", (1,))
    row, col = k.t // 16, k.t % 16
    k.store(s[row, col ^ row * 2 % 32], 0.0)
    k.sync()
    k.load(a[0], s[row, col])
    return k.finish(grid=(1,))


@pytest.mark.parametrize("name", GOOD)
def test_correct_kernels_have_no_ordering_fault(name: str) -> None:
    assert [f.message for f in order(GOOD[name]()).faults] == []


@pytest.mark.parametrize("name", BAD)
def test_broken_kernels_are_refused(name: str) -> None:
    code, make = BAD[name]
    faults = order(make()).faults
    assert code in {f.code for f in faults}, [f.message for f in faults]
    assert "AMK008" not in {f.code for f in faults}
    for f in faults:
        assert f.message and f.pointer.startswith("/body")


def test_race_names_threads_byte_places_iterations_and_the_cure() -> None:
    """Field case A1: one shared stage, no barrier before the back edge, two trips or more."""
    f = order(_one_stage(False, None)).of("AMK301")[0]
    assert {"n", "bx", "t", "t2", "byte", "i"} <= f.counterexample.keys()
    assert f.counterexample["t"] != f.counterexample["t2"]
    assert "iterations i = 0 and i = 1" in f.message and "end of the body of the loop over i" in f.hint
    assert f.related and f.related[0].pointer != f.pointer


def test_one_trip_needs_no_barrier_at_the_end() -> None:
    assert codes(_one_stage(False, 1)) == set()
    assert codes(_one_stage(True, None)) == set()


def _one_stage(last: bool, trips: int | None) -> KernelDescriptor:
    k = KernelBuilder("one_stage", target="sm_80", threads=64)
    n = k.size("n")
    x = k.tensor("x", "f32", (n,))
    s, a = k.shared("s", "f32", (64,)), k.registers("a", "f32", (1,))
    with k.loop("i", 0, cdiv(n, 64) if trips is None else trips) as i:
        at = i.var * 64 + k.t
        k.load(a[0], x[at], when=at < n, other=0.0)
        k.store(s[k.t], a[0])
        k.sync()
        k.load(a[0], s[63 - k.t])
        if last:
            k.sync()
    return k.finish(grid=(1,))


def test_divergent_barrier_counts_the_threads_and_names_the_condition() -> None:
    """Field case A2."""
    k = KernelBuilder("a2", target="sm_80", threads=32)
    with k.when(eq(k.t % 2, 0)):
        k.sync()
    f = order(k.finish(grid=(1,))).faults[0]
    assert f.code == "AMK302" and "16 of 32 threads" in f.message and "t % 2 == 0" in f.message


def test_barrier_in_a_loop_whose_trip_count_depends_on_the_thread() -> None:
    k = KernelBuilder("ragged", target="sm_80", threads=64)
    with k.loop("i", k.t, 100, 64):
        k.sync()
    f = order(k.finish(grid=(1,))).faults[0]
    assert f.code == "AMK302" and "trip count" in f.message and "36 of 64" in f.message


def test_barrier_under_data_is_refused() -> None:
    k = KernelBuilder("data", target="sm_80", threads=64)
    x, a = k.tensor("x", "i32", (64,)), k.registers("a", "i32", (1,))
    k.load(a[0], x[k.t])
    with k.when(a[0] > 0):
        k.sync()
    f = order(k.finish(grid=(1,))).faults[0]
    assert f.code == "AMK302" and "a[0]" in f.message


def test_shared_address_from_data_is_outside_the_fragment() -> None:
    k = KernelBuilder("histogram", target="sm_80", threads=64)
    x, a = k.tensor("x", "i32", (64,)), k.registers("a", "i32", (1,))
    s = k.shared("s", "i32", (64,))
    k.load(a[0], x[k.t])
    k.store(s[a[0]], 1)
    f = order(k.finish(grid=(1,))).faults[0]
    assert f.code == "AMK008" and "a[0]" in f.message


def test_shared_address_with_a_bare_symbolic_loop_variable_is_outside_the_fragment() -> None:
    k = KernelBuilder("bare", target="sm_80", threads=32)
    n = k.size("n", max=8)
    s = k.shared("s", "i32", (8, 32))
    with k.loop("i", 0, n) as i:
        k.store(s[i.var, k.t], 0)
    assert codes(k.finish(grid=(1,))) == {"AMK008"}


def test_store_under_data_does_not_initialise() -> None:
    k = KernelBuilder("maybe", target="sm_80", threads=32)
    x, a = k.tensor("x", "i32", (32,)), k.registers("a", "i32", (1,))
    s = k.shared("s", "i32", (32,))
    k.load(a[0], x[k.t])
    with k.when(a[0] > 0):
        k.store(s[k.t], 1)
    k.sync()
    k.load(a[0], s[k.t])
    assert codes(k.finish(grid=(1,))) == {"AMK206"}


def test_lanes_of_a_warp_race_until_a_warp_barrier() -> None:
    def kernel(barrier: bool) -> KernelDescriptor:
        k = KernelBuilder("lanes", target="sm_80", threads=64)
        s, a = k.shared("s", "i32", (64,)), k.registers("a", "i32", (1,))
        k.store(s[k.t], 1)
        if barrier:
            k.sync("warp")
        else:
            k.call("shfl.down", {"dst": a[0]}, value=1, delta=1)
        k.load(a[0], s[k.t ^ 1])
        return k.finish(grid=(1,))

    assert codes(kernel(True)) == set()
    assert codes(kernel(False)) == {"AMK301"}


def test_a_warp_barrier_does_not_order_two_warps() -> None:
    k = KernelBuilder("warps", target="sm_80", threads=64)
    s, a = k.shared("s", "i32", (64,)), k.registers("a", "i32", (1,))
    k.store(s[k.t], 1)
    k.sync("warp")
    k.load(a[0], s[k.t ^ 32])
    assert codes(k.finish(grid=(1,))) == {"AMK301"}


def test_two_writers_of_the_same_value_race() -> None:
    k = KernelBuilder("same", target="sm_80", threads=32)
    s = k.shared("s", "i32", (32,))
    k.store(s[k.t // 2], 7)
    f = order(k.finish(grid=(1,))).faults[0]
    assert f.code == "AMK301" and {f.counterexample["t"], f.counterexample["t2"]} == {0, 1}


def test_cooperative_fill_by_a_thread_strided_loop() -> None:
    k = KernelBuilder("fill", target="sm_80", threads=64)
    s, a = k.shared("s", "i32", (200,)), k.registers("a", "i32", (1,))
    with k.loop("i", k.t, 200, 64) as i:
        k.store(s[i.var], 0)
    k.sync()
    k.load(a[0], s[199 - k.t])
    assert codes(k.finish(grid=(1,))) == set()


def test_atomics_conflict_with_plain_accesses_only() -> None:
    def kernel(barrier: bool) -> KernelDescriptor:
        k = KernelBuilder("atomics", target="sm_80", threads=64)
        s, a = k.shared("s", "i32", (1,)), k.registers("a", "i32", (1,))
        with k.when(k.t < 1):
            k.store(s[0], 0)
        k.sync()
        k.atomic("add", s[0], 1)
        if barrier:
            k.sync()
        k.load(a[0], s[0])
        return k.finish(grid=(1,))

    assert codes(kernel(True)) == set()
    assert codes(kernel(False)) == {"AMK306"}


def test_exit_with_a_copy_in_flight() -> None:
    assert codes(_copy(wait=None)) == {"AMK308"}
    assert codes(_copy(wait=0)) == set()


def test_own_copy_may_be_read_after_the_wait_without_a_barrier() -> None:
    assert codes(_copy(wait=0, barrier=False, own=True)) == set()
    f = order(_copy(wait=0, barrier=False)).faults[0]
    assert f.code == "AMK303" and "no block barrier has made the copy visible" in f.message


def _copy(wait: int | None, barrier: bool = True, own: bool = False) -> KernelDescriptor:
    k = KernelBuilder("copy", target="sm_80", threads=32)
    x = k.tensor("x", "f32", (128,), align=16)
    s, a = k.shared("s", "f32", (128,)), k.registers("a", "f32", (1,))
    k.call("cp.async.16", {"dst": s[k.t * 4], "src": x[k.t * 4]}, when=k.t < 16)
    k.commit()
    if wait is not None:
        k.wait(pending=wait)
        if barrier:
            k.sync()
        k.load(a[0], s[k.t * 4 if own else 127 - k.t])
    return k.finish(grid=(1,))


def test_messages_of_asynchronous_copies_say_where_the_group_stands() -> None:
    weak = order(K.gemm_async(3, pending=2)).of("AMK303")[0]
    assert "leaves 2 pending" in weak.message and any("last wait" in s.note for s in weak.related)
    never = order(K.gemm_async(3, commit="never")).of("AMK303")[0]
    assert "not committed" in never.message


def test_complementary_branches_initialise_registers() -> None:
    def kernel(both: bool) -> KernelDescriptor:
        k = KernelBuilder("branches", target="sm_80", threads=32)
        n = k.size("n")
        a = k.registers("a", "i32", (1,))
        with k.when(k.t < n):
            k.store(a[0], 1)
        if both:
            with k.when(k.t >= n):
                k.store(a[0], 2)
        k.store(a[0], a[0] + 1)
        return k.finish(grid=(1,))

    assert codes(kernel(True)) == set()
    assert codes(kernel(False)) == {"AMK207"}


def test_a_read_in_an_inner_loop_that_first_runs_later_is_seen() -> None:
    k = KernelBuilder("inner", target="sm_80", threads=32)
    a, b = k.registers("a", "i32", (1,)), k.registers("b", "i32", (1,))
    with k.loop("v", 0, 3, unroll="full") as v, k.loop("w", 0, v.var, unroll="full"):
        k.store(b[0], a[0])
    assert codes(k.finish(grid=(1,))) == {"AMK207"}


def _ring(stages: int, slots: int, low: int, multiple: int) -> KernelDescriptor:
    """Each thread's neighbour reads a ring whose trip count starts far from zero."""
    k = KernelBuilder("ring", target="sm_80", threads=64)
    n = k.size("n", min=low, multiple_of=multiple)
    s, a = k.shared("s", "i32", (slots, 64)), k.registers("a", "i32", (1,))
    with k.loop("p", 0, stages - 1, unroll="full") as p:
        k.store(s[p.var, k.t], 0)
    with k.loop("i", 0, cdiv(n, 16)) as i:
        k.sync()
        k.load(a[0], s[i.var % slots, 63 - k.t])
        k.store(s[(i.var + stages - 1) % slots, k.t], a[0])
    return k.finish(grid=(1,))


@pytest.mark.parametrize(("low", "multiple"), [(1, 1), (512, 1), (512, 64), (1, 48)])
def test_rings_are_decided_wherever_the_sizes_start(low: int, multiple: int) -> None:
    assert codes(_ring(3, 3, low, multiple)) == set()
    assert codes(_ring(2, 2, low, multiple)) == set()
    assert codes(_ring(3, 2, low, multiple)) != set()


def test_trip_counts_that_no_size_drives_are_refused() -> None:
    k = KernelBuilder("capped", target="sm_80", threads=32)
    n = k.size("n", max=100)
    s = k.shared("s", "i32", (4, 32))
    with k.loop("i", 0, n // 10) as i:
        k.store(s[i.var % 4, k.t], 0)
    assert codes(k.finish(grid=(1,))) == set()  # ten trips are all there are
    k = KernelBuilder("blocks", target="sm_80", threads=32)
    s = k.shared("s", "i32", (4, 32))
    with k.loop("i", 0, k.bx) as i:
        k.store(s[i.var % 4, k.t], 0)
    assert codes(k.finish(grid=(3,))) == {"AMK008"}


def test_read_then_atomic_by_another_thread() -> None:
    k = KernelBuilder("read_atomic", target="sm_80", threads=64)
    s, a = k.shared("s", "i32", (64,)), k.registers("a", "i32", (1,))
    k.store(s[k.t], 0)
    k.sync()
    k.load(a[0], s[k.t])
    k.atomic("add", s[63 - k.t], 1)
    assert codes(k.finish(grid=(1,))) == {"AMK306"}


def test_guarded_copies_need_zeros_where_there_is_no_data() -> None:
    def kernel(fill: bool) -> KernelDescriptor:
        k = KernelBuilder("guarded", target="sm_80", threads=64)
        n = k.size("n")
        x = k.tensor("x", "f32", (n,))
        s, a = k.shared("s", "f32", (64,)), k.registers("a", "f32", (1,))
        i = k.let("i", k.bx * 64 + k.t)
        with k.when(i < n):
            k.call("cp.async.4", {"dst": s[k.t], "src": x[i]})
        k.commit()
        k.wait(pending=0)
        if fill:
            with k.when(i >= n):
                k.store(s[k.t], 0.0)
        k.sync()
        k.load(a[0], s[63 - k.t])
        return k.finish(grid=(cdiv(n, 64),))

    assert codes(kernel(True)) == set()
    assert codes(kernel(False)) == {"AMK206"}


def test_a_guarded_read_is_asked_for_in_every_iteration() -> None:
    """What one iteration read was taken for what the next one reads, where only its guard told them apart."""
    k = KernelBuilder("guarded_read", target="sm_80", threads=64)
    s, a = k.shared("s", "i32", (64,)), k.registers("a", "i32", (1,))
    k.store(s[k.t], 0)
    k.sync()
    with k.loop("i", 0, 3) as i:
        k.sync()
        k.store(s[k.t], 1)
        k.load(a[0], s[63 - k.t], when=eq(i.var, 1), other=0)
    assert codes(k.finish(grid=(1,))) == {"AMK301"}


PATTERNS = (lambda t: t, lambda t: t ^ 1, lambda t: t ^ 16, lambda t: 31 - t % 32, lambda t: t // 2, lambda t: t % 32)


def _random_kernel(seed: int):  # type: ignore[no-untyped-def]
    """A straight line of shared accesses and barriers, and the same as data."""
    rng = random.Random(seed)
    k = KernelBuilder("random", target="sm_80", threads=64)
    s, a = k.shared("s", "i32", (64,)), k.registers("a", "i32", (1,))
    k.store(a[0], 0)
    k.store(s[k.t], 0)
    k.sync()
    events: list[tuple[str, int, int]] = [("w", 0, 64), ("B", 0, 0)]
    for _ in range(rng.randint(2, 6)):
        event = (rng.choice("rrwwaBW"), rng.randrange(len(PATTERNS)), rng.choice((64, 64, 32, 16, 1)))
        events.append(event)
        if event[0] in "BW":
            k.sync("block" if event[0] == "B" else "warp")
            continue
        at = s[PATTERNS[event[1]](k.t)]
        with k.when(k.t < event[2]):
            if event[0] == "r":
                k.load(a[0], at)
            elif event[0] == "w":
                k.store(at, a[0])
            else:
                k.atomic("add", at, 1)
    return k.finish(grid=(1,)), events


def _by_pairs(events: list[tuple[str, int, int]]) -> set[str]:
    """The definition itself: every pair of accesses of two threads to one element."""
    block = warp = 0
    accesses = []
    for kind, pattern, limit in events:
        block, warp = block + (kind == "B"), warp + (kind == "W")
        if kind not in "BW":
            accesses += [(kind, t, PATTERNS[pattern](t), block, warp) for t in range(limit)]
    out = set()
    for a, t, x, b, w in accesses:
        for a2, t2, x2, b2, w2 in accesses:
            free = b == b2 and not (t // 32 == t2 // 32 and w != w2)
            if t < t2 and x == x2 and free and not (a == a2 and a in "ra"):
                out.add("AMK306" if a != a2 and "a" in (a, a2) else "AMK301")
    return out


@pytest.mark.parametrize("seed", range(60))
def test_the_race_rule_agrees_with_its_definition(seed: int) -> None:
    kernel, events = _random_kernel(seed)
    assert codes(kernel) == _by_pairs(events)


def test_a_gemm_is_checked_quickly() -> None:
    """The budget is 60 ms on a quiet machine; the bound leaves room for a busy one."""
    import time

    order(K.gemm_async(3))
    best = 1e9
    for _ in range(3):
        start = time.process_time()
        order(K.gemm_async(3))
        best = min(best, time.process_time() - start)
    assert best < 0.6


def test_no_numpy_and_no_z3_on_the_way() -> None:
    import subprocess

    text = (
        "import sys\nfrom amk.dsl.builder import KernelBuilder\nfrom amk.harness.context import Context\n"
        "from amk.dsl.target import Target\n"
        "from amk.harness.advice import sectors\n"
        "k = KernelBuilder('k', target='sm_80', threads=32)\ns = k.shared('s', 'i32', (32,))\nk.store(s[k.t], 1)\n"
        "c = Context(k.finish(grid=(1,)), Target.find('A100'))\nc.order, c.coverage, list(sectors(c))\n"
        "assert 'numpy' not in sys.modules and 'z3' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", text], check=True)
