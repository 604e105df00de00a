"""The sizes, blocks and trip counts that stand for all: what is left out is met by what is kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from random import Random

import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import Expr, Var, both, cdiv, eq, select
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.target import Target
from amk.harness import samples as kernels
from amk.harness.cluster import Cluster, first_split
from amk.harness.context import Context
from amk.harness.cutoff import _aspects, _groups
from amk.harness.events import Program
from amk.harness.order import OrderResult
from amk.harness.ring import rings
from amk.harness.stretch import Stop, Stretches
from amk.harness.turns import Reader


def order(kernel: KernelDescriptor) -> OrderResult:
    return Context(kernel, Target.find("A100")).order


def codes(kernel: KernelDescriptor) -> set[str]:
    return {f.code for f in order(kernel).faults}


# ----------------------------------------------------------------------------------------------------------- separation
def plane(extra: Callable[[KernelBuilder, Expr, Expr], Expr] | None = None, joined: bool = False) -> KernelDescriptor:
    """A tile of two sizes, written, synchronised and read; where `extra` holds, it is also written with no barrier."""
    k = KernelBuilder("plane", target="sm_80", threads=64)
    m, n = k.size("m", min=0, max=65535 * 8), k.size("n", min=0)
    s, a = k.shared("s", "i32", (8, 8)), k.registers("a", "i32", (1,))
    ty, tx = k.t // 8, k.t % 8
    k.store(s[ty, tx], 0)
    k.sync()
    with k.when(both(k.by * 8 + ty < m, k.bx * 8 + tx < n)):
        k.load(a[0], s[tx, ty])
    if joined:
        with k.when(m < n):
            k.sync()
    if extra is not None:
        with k.when(extra(k, m, n)):
            k.store(s[ty, tx], 1)
    return k.finish(grid=(cdiv(n, 8), cdiv(m, 8)))


def rows(k: KernelBuilder, m: Expr) -> Expr:
    return k.by * 8 + k.t // 8 < m


RACES = {
    "ragged in both": lambda k, m, n: both(rows(k, m), k.bx * 8 + 3 < n, k.bx * 8 + 5 >= n, k.by * 8 + 5 >= m),
    "whole in both": lambda k, m, n: both(k.by * 8 + 7 < m, k.bx * 8 + 7 < n),
    "every seventh block": lambda k, m, n: both(k.bx % 7 > 5, k.by * 8 + 7 < m, k.bx * 8 + 7 < n),
    "third row of blocks": lambda k, m, n: both(k.by * 8 + 7 < m, k.bx >= 2, k.bx * 8 + 7 < n),
    "one row or one column left": lambda k, m, n: both(m % 8 < 2, n % 8 < 2, rows(k, m)),
    "sizes joined": lambda k, m, n: both(m > n + 40, k.by * 8 + 7 < m, k.bx * 8 + 7 < n),
}


@pytest.mark.parametrize("name", RACES)
def test_a_race_that_needs_both_sizes_is_met(name: str) -> None:
    assert codes(plane(RACES[name])) == {"AMK301"}


def reader_of(p: Program) -> Reader:
    return Reader(p, rings(p))


def test_sizes_that_nothing_joins_are_tried_apart() -> None:
    found = order(plane())
    assert not found.faults and found.samples < 10
    reader = reader_of(Program(plane()))
    groups = _groups(reader, list(_aspects(reader.p, reader)))
    assert sorted(map(sorted, groups)) == [["bx", "n"], ["by", "m"]]
    reader = reader_of(Program(plane(joined=True)))
    assert len(_groups(reader, list(_aspects(reader.p, reader)))) == 1


def test_a_transpose_is_checked_quickly() -> None:
    """Two symbolic sizes and a tile: the budget is 100 ms on a quiet machine, and seconds without separation."""
    start = time.process_time()
    order(kernels.transpose(tile=32, rows=8))
    assert time.process_time() - start < 2


# ------------------------------------------------------------------------------------------------------- turning points
def uniform(cond: Callable[[KernelBuilder], Expr]) -> KernelDescriptor:
    """A barrier that is there only where a condition holds, the same for all threads."""
    k = KernelBuilder("uniform", target="sm_80", threads=64)
    s, a = k.shared("s", "i32", (64,)), k.registers("a", "i32", (1,))
    k.store(s[k.t], 0)
    with k.when(cond(k)):
        k.sync()
    k.load(a[0], s[63 - k.t])
    return k.finish(grid=(1,))


BARRIERS = {
    "below a constant": lambda k: k.size("n") <= 100,
    "not one value": lambda k: (n := k.size("n")) * 0 + select(n < 5000, 1, n - 5000) > 0,
    "far apart": lambda k: k.size("n") < k.size("m") + 1000,
    "in units": lambda k: cdiv(k.size("n", multiple_of=4), 32) < 77,
    "a float": lambda k: k.scalar("alpha", "f32") < 7.0,
    "unless large": lambda k: k.size("n", min=0, max=2**31 - 1) < 2**30,
}


@pytest.mark.parametrize("name", BARRIERS)
def test_both_sides_of_a_condition_on_an_argument_are_tried(name: str) -> None:
    assert codes(uniform(BARRIERS[name])) == {"AMK301"}


def test_every_rank_of_a_cluster_is_tried() -> None:
    kernel = uniform(lambda k: both(eq(Var("rank"), 0), k.size("n") > 0))
    data = {**kernel.to_dict(), "cluster": 2, "target": "sm_90a"}
    assert codes(KernelDescriptor.model_validate(data)) == {"AMK301"}


# ----------------------------------------------------------------------------------------------------------- look-ahead
def looped(cond: Callable[[KernelBuilder, Expr, Expr], Expr], step: int = 1) -> KernelDescriptor:
    """Readers and writers of an iteration, and a barrier between them only where a condition on the loop holds."""
    k = KernelBuilder("looped", target="sm_80", threads=64)
    n = k.size("n")
    s, a = k.shared("s", "i32", (64,)), k.registers("a", "i32", (1,))
    k.store(s[k.t], 0)
    with k.loop("i", 0, n, step) as i:
        k.sync()
        k.load(a[0], s[63 - k.t])
        with k.when(cond(k, i.var, n)):
            k.sync()
        k.store(s[k.t], 0)
    return k.finish(grid=(1,))


@pytest.mark.parametrize("far", [1, 10, 17, 40, 100])
def test_a_condition_far_from_the_first_iteration_or_the_last_is_walked(far: int) -> None:
    """Beyond 16 iterations the look-ahead was not counted, and these were accepted."""
    assert codes(looped(lambda k, i, n: i < far)) == {"AMK301"}
    assert codes(looped(lambda k, i, n: i + far >= n)) == {"AMK301"}
    assert codes(looped(lambda k, i, n: i * 16 < far * 16)) == {"AMK301"}
    assert codes(looped(lambda k, i, n: i < far * 4, step=4)) == {"AMK301"}
    assert codes(looped(lambda k, i, n: i + far * 4 >= n, step=4)) == {"AMK301"}


def test_a_condition_too_far_to_walk_is_refused() -> None:
    fault = order(looped(lambda k, i, n: i < 1000)).faults[0]
    assert fault.code == "AMK008" and "i < 1000" in fault.message
    assert codes(looped(lambda k, i, n: i + 1000 >= n)) == {"AMK008"}


def test_a_condition_on_a_size_that_the_trip_count_does_not_follow_is_refused() -> None:
    """Its turn may fall anywhere between the first iteration and the last."""
    assert codes(looped(lambda k, i, n: i < k.size("m"))) == {"AMK008"}
    assert codes(looped(lambda k, i, n: i < n // 2)) == {"AMK008"}


def test_a_carried_value_that_grows_is_followed_out_of_its_loop() -> None:
    """After the loop it has as many values as there are trip counts."""

    def kernel(modulus: int | None) -> KernelDescriptor:
        k = KernelBuilder("grown", target="sm_80", threads=32)
        n = k.size("n")
        s = k.shared("s", "i32", (8, 32))
        with k.loop("i", 0, n, c=0) as i:
            k.sync()
            i.next(c=i.c + 1)
        k.store(s[i.c if modulus is None else i.c % modulus, k.t], 0)
        return k.finish(grid=(1,))

    assert codes(kernel(None)) == {"AMK008"}
    assert codes(kernel(8)) == set()
    assert codes(kernel(9)) == {"AMK202"}


def test_a_ragged_tile_is_met_in_every_slot() -> None:
    """The last tile may be partial after any number of whole ones."""
    k = KernelBuilder("ragged", target="sm_80", threads=64)
    n = k.size("n")
    s, a = k.shared("s", "i32", (4, 64)), k.registers("a", "i32", (1,))
    with k.loop("z", 0, 4, unroll="full") as z:
        k.store(s[z.var, k.t], 0)
    with k.loop("i", 0, cdiv(n, 64)) as i:
        k.sync()
        k.load(a[0], s[i.var % 4, 63 - k.t])
        with k.when(both(i.var % 4 > 2, i.var * 64 + k.t >= n)):
            k.store(s[i.var % 4, k.t], 0)
    assert codes(k.finish(grid=(1,))) == {"AMK301"}


# ---------------------------------------------------------------------------------------------------------- at random
def _random_cond(rng: Random, k: KernelBuilder, i: Expr, n: Expr, m: Expr, step: int) -> Expr:
    c, u = rng.choice((0, 1, 2, 3, 5, 9, 20)), rng.choice((1, 2, 4, 8))
    trips = cdiv(n, step)
    return rng.choice(
        (
            i < c, i + c < trips, i >= c, i + c >= trips, eq(i % rng.choice((2, 3, 4)), 1), eq(i, c),
            i * step + k.t % u < n, n > c, m > c, eq(n % u, 0), k.t < 32, m < n + c, eq(i + c, trips),
            both(i % 3 < 2, i + c < trips), (i + c) * step + k.t // 16 < n, k.bx * 8 + k.t % 8 < m,
        )
    )  # fmt: skip


def _random_ring(seed: int) -> KernelDescriptor:
    """A ring of slots filled and read in a loop, with barriers, stores and copies under random conditions."""
    rng = Random(seed)
    k = KernelBuilder("random", target="sm_80", threads=64)
    n, m = k.size("n", min=rng.choice((0, 1, 7))), k.size("m", min=1)
    x = k.tensor("x", "f32", (64,))
    slots, step = rng.choice((1, 2, 3)), rng.choice((1, 4))
    s, a = k.shared("s", "f32", (slots, 64)), k.registers("a", "f32", (1,))
    k.store(a[0], 0.0)
    for z in range(slots):
        k.store(s[z, k.t], 0.0)
    with k.loop("i", 0, cdiv(n, step), slot=0) as i:
        slot = i.slot if rng.random() < 0.5 else (i.var + rng.randrange(slots)) % slots
        for _ in range(rng.randint(2, 4)):
            action = rng.choice(["barrier", "store", "load", "copy", "commit", "wait"])
            cond = _random_cond(rng, k, i.var, n, m, step) if rng.random() < 0.6 else None
            with k.when(cond) if cond is not None and action in ("barrier", "store", "load") else nullcontext():
                if action == "barrier":
                    k.sync()
                elif action == "store":
                    k.store(s[slot, k.t], a[0])
                elif action == "load":
                    k.load(a[0], s[slot, 63 - k.t])
                elif action == "copy":
                    k.call("cp.async.4", {"dst": s[slot, k.t], "src": x[k.t]})
                elif action == "commit":
                    k.commit()
                else:
                    k.wait(pending=rng.choice((0, 0, 1, 2)))
        k.sync()
        i.next(slot=select(eq(i.slot, slots - 1), 0, i.slot + 1))
    k.commit()
    k.wait(pending=0)
    return k.finish(grid=(cdiv(m, 8),))


def _faulty_somewhere(kernel: KernelDescriptor) -> bool:
    """Walks many sizes and blocks one by one."""
    p = Program(kernel)
    stretches = Stretches(p)
    low = kernel.scalars[0].min
    for n, m in ((n, m) for n in (*range(low, low + 45), 200) for m in (1, 8, 9, 40)):
        for bx in sorted({0, -(-m // 8) - 1}):
            env = {"n": n, "m": m, "bx": bx, "by": 0, "bz": 0, "gx": -(-m // 8), "gy": 1, "gz": 1, "rank": 0}
            cluster = Cluster(stretches, env, first_split(p))
            try:
                cluster.go()
            except Stop:
                return True
            if cluster.faults:
                return True
    return False


@pytest.mark.parametrize("seed", range(24))
def test_what_no_sample_shows_no_size_shows(seed: int) -> None:
    kernel = _random_ring(seed)
    if not codes(kernel):
        assert not _faulty_somewhere(kernel)
