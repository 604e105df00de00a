"""Guards that only some threads of a block pass: each number of them counts, and the interpreter agrees everywhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import Expr, cdiv, eq, ne, select
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.target import Target
from amk.harness.context import Context
from amk.harness.interp_fault import Fault
from amk.harness.interpret import arguments, run
from amk.harness.order import OrderResult

COUNT = int(os.environ.get("AMK_TEST_PARTIAL", "40"))


def order(kernel: KernelDescriptor) -> OrderResult:
    return Context(kernel, Target.find("A100")).order


def faulty(kernel: KernelDescriptor, sizes: dict[str, int]) -> bool:
    """Whether the interpreter finds a fault of ordering or initialisation."""
    try:
        run(kernel, arguments(kernel, sizes, np.random.default_rng(0)), detect=True)
    except Fault as fault:
        assert fault.kind in ("race", "uninitialised", "divergence", "deadlock"), fault
        return True
    return False


class Part:
    """A kernel in the making: blocks of `threads`, elements bx * threads + t of which there are n."""

    def __init__(self, threads: int, low: int = 1) -> None:
        self.k = k = KernelBuilder("partial", target="sm_80", threads=threads)
        self.threads, self.n = threads, k.size("n", min=low)
        self.s, self.a = k.shared("s", "i32", (4 * threads,)), k.registers("a", "i32", (1,))
        self.at, self.left = k.bx * threads + k.t, self.n - k.bx * threads

    def kernel(self) -> KernelDescriptor:
        return self.k.finish(grid=(cdiv(self.n, self.threads),))


# --------------------------------------------------------------------------------------------------------- one size
def swapped_read(i: int, threads: int) -> KernelDescriptor:
    """Threads i - 1 and i read each other's element: it is not there where i threads pass, and only there."""
    p = Part(threads)
    k = p.k
    with k.when(p.at < p.n):
        k.store(p.s[k.t], 1)
    k.sync()
    with k.when(p.at < p.n):
        k.load(p.a[0], p.s[select(eq(k.t, i), i - 1, select(eq(k.t, i - 1), i, k.t))])
    return p.kernel()


def last_and_first(i: int, threads: int) -> KernelDescriptor:
    """The last thread that passes and the first that does not write one element where i threads pass."""
    p = Part(threads)
    k = p.k
    with k.when(p.at < p.n):
        k.store(p.s[select(eq(k.t, i - 1), 0, 1 + k.t)], 1)
    with k.when(p.at >= p.n):
        k.store(p.s[select(eq(k.t, i), 0, 2 * threads + k.t)], 1)
    return p.kernel()


def no_barrier(i: int, threads: int) -> KernelDescriptor:
    """The barrier is not there where i elements are left."""
    p = Part(threads)
    k = p.k
    k.store(p.s[k.t], 1)
    with k.when(ne(p.left, i)):
        k.sync()
    k.load(p.a[0], p.s[threads - 1 - k.t])
    return p.kernel()


def divided_barrier(i: int, threads: int) -> KernelDescriptor:
    """Where i elements are left, only thread i misses the barrier."""
    p = Part(threads)
    k = p.k
    with k.when(ne(p.left, select(eq(k.t, i), i, -1))):
        k.sync()
    return p.kernel()


def odd_remainder(i: int, threads: int) -> KernelDescriptor:
    """A race where n leaves one remainder."""
    p = Part(threads)
    k = p.k
    k.store(p.s[k.t], 1)
    with k.when(eq(p.n % threads, i)):
        k.load(p.a[0], p.s[(k.t * 37 + 11) % threads])
    return p.kernel()


ONE_SIZE = (swapped_read, last_and_first, no_barrier, divided_barrier, odd_remainder)


@pytest.mark.parametrize("i", [5, 22, 45, 58])
@pytest.mark.parametrize("make", ONE_SIZE)
def test_a_fault_at_one_partial_size_is_found(make: Callable[[int, int], KernelDescriptor], i: int) -> None:
    """The interpreter finds it at that size of a tile alone, of all up to two tiles, and the check refuses it."""
    kernel = make(i, 64)
    assert [n for n in range(1, 129) if faulty(kernel, {"n": n})] == [i, 64 + i]
    found = order(kernel).faults[0]
    assert found.code != "AMK008" and found.counterexample["n"] in (i, 64 + i)


def test_a_permutation_read_under_its_own_guard() -> None:
    """A permutation of the tile keeps no part of it but the whole."""
    p = Part(128)
    k = p.k
    with k.when(p.at < p.n):
        k.store(p.s[k.t], 1)
    k.sync()
    with k.when(p.at < p.n):
        k.load(p.a[0], p.s[(k.t * 37 + 11) % 128])
    assert {f.code for f in order(p.kernel()).faults} == {"AMK206"}
    assert not faulty(p.kernel(), {"n": 128}) and faulty(p.kernel(), {"n": 127})


def test_zeros_beyond_the_last_element_are_accepted() -> None:
    """Both sides of a guard initialise: every part of the tile is walked, and none is faulty."""
    p = Part(64)
    k = p.k
    with k.when(p.at < p.n):
        k.store(p.s[k.t], 1)
    with k.when(p.at >= p.n):
        k.store(p.s[k.t], 0)
    k.sync()
    k.load(p.a[0], p.s[63 - k.t])
    found = order(p.kernel())
    assert not found.faults and found.samples == 64


def test_guards_of_loads_alone_cost_one_walk() -> None:
    """Fewer readers show nothing that all of them do not."""
    p = Part(64)
    k = p.k
    k.store(p.s[k.t], 1)
    k.sync()
    with k.when(p.at < p.n):
        k.load(p.a[0], p.s[63 - k.t])
    found = order(p.kernel())
    assert not found.faults and found.samples == 1


# -------------------------------------------------------------------------------------------------------- at random
def _address(rng: Random, p: Part) -> Expr:
    t, threads = p.k.t, p.threads
    i = rng.randrange(1, threads)
    swapped = select(eq(t, i), i - 1, select(eq(t, i - 1), i, t))
    return rng.choice((t, t, t, threads - 1 - t, swapped, swapped, (t * 5 + 3) % threads, threads + t, t ^ 1))


def _guard(rng: Random, p: Part) -> Expr:
    i = rng.randrange(1, p.threads)
    return rng.choice(
        (
            p.at < p.n, p.at < p.n, p.at >= p.n, p.at + 1 < p.n, p.k.t < i, p.k.t >= i, p.left > i, eq(p.left, i),
            ne(p.left, i), eq(p.n % p.threads, i), ne(p.n % 5, 3), p.k.bx > 0, p.left < p.threads, p.at * 2 < p.n + i,
        )
    )  # fmt: skip


def random_kernel(seed: int) -> KernelDescriptor:
    """Stores, loads and barriers of a small block under guards of one size."""
    rng = Random(seed)
    p = Part(rng.choice((8, 12, 16)), rng.choice((0, 1)))
    k = p.k
    if rng.random() < 0.6:
        k.store(p.s[k.t], 0)
        k.sync()
    for _ in range(rng.randint(2, 4)):
        guard = _guard(rng, p) if rng.random() < 0.8 else None
        action, at = rng.choice(("store", "load", "load", "sync")), _address(rng, p)

        def act(action: str = action, at: Expr = at) -> None:
            if action == "sync":
                k.sync()
            elif action == "store":
                k.store(p.s[at], 1)
            else:
                k.load(p.a[0], p.s[at])

        if guard is None:
            act()
        else:
            with k.when(guard):
                act()
        if rng.random() < 0.4:
            k.sync()
    return p.kernel()


@pytest.mark.parametrize("seed", range(COUNT))
def test_the_check_and_the_interpreter_agree(seed: int) -> None:
    """Accepted means that no size up to five tiles is faulty; refused, that the counterexample's size is."""
    kernel = random_kernel(seed)
    faults = order(kernel).faults
    if any(f.code == "AMK008" for f in faults):
        return
    if not faults:
        assert not [n for n in range(kernel.scalars[0].min, 5 * kernel.threads) if faulty(kernel, {"n": n})]
    elif (n := faults[0].counterexample.get("n")) and n < 2000:
        assert faulty(kernel, {"n": n})
