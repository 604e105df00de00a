"""Threads that leave early are an `if` around the rest: what they still owe is found by engine and interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import eq
from amk.dsl.kernel import KernelDescriptor
from amk.harness.check import check
from amk.harness.interpret import Fault, run

THREADS = 64


def faults(kernel: KernelDescriptor, n: int = 33) -> tuple[set[str], str]:
    """The codes of the errors, and the kind of the fault that a run shows ('' without one)."""
    args: dict[str, object] = {"n": n, "x": np.ones(THREADS, np.float32), "z": np.zeros(THREADS, np.float32)}
    names = {p.name for p in kernel.params}
    try:
        run(kernel, {k: v for k, v in args.items() if k in names}, detect=True)
        shown = ""
    except Fault as f:
        shown = f.kind
    return {d.code for d in check(kernel).errors}, shown


class Small(KernelBuilder):
    """64 threads, x, z, a size n and a slot a thread in shared memory."""

    def __init__(self, target: str = "sm_80") -> None:
        super().__init__("early", target=target, threads=THREADS)
        self.n = self.size("n", min=1, max=THREADS)
        self.x, self.z = self.tensor("x", "f32", (THREADS,)), self.tensor("z", "f32", (THREADS,), access="write")
        self.s, self.r = self.shared("s", "f32", (THREADS,)), self.registers("r", "f32", (1,))


def block_barrier(stay: str) -> KernelDescriptor:
    """The rest of the kernel, with its barrier, for those who stay."""
    k = Small()
    k.store(k.s[k.t], 1.0)
    k.store(k.z[k.t], 0.0)
    with k.when(stay):
        k.sync()
    return k.finish(grid=(1,))


def slot(stay: str) -> KernelDescriptor:
    """Those who stay fill their slots; everybody reads the neighbour's."""
    k = Small()
    with k.when(stay):
        k.load(k.r[0], k.x[k.t])
        k.store(k.s[k.t], k.r[0])
    k.sync()
    k.load(k.r[0], k.s[k.t ^ 1])
    k.store(k.z[k.t], k.r[0])
    return k.finish(grid=(1,))


def mbarrier(count: int, stay: str, wait: str = "t >= 0") -> KernelDescriptor:
    """Those who stay arrive; then some wait for the phase."""
    k = Small("sm_90a")
    bar = k.barrier("met", count=count)
    with k.when(eq(k.t, 0)):
        k.call("mbarrier.init", {"bar": bar[0]})
        k.fence("mbarrier_init")
    k.sync()
    with k.when(stay):
        k.arrive(bar[0])
    with k.when(wait):
        k.wait_phase(bar[0], 0)
    k.store(k.z[k.t], 1.0)
    return k.finish(grid=(1,))


def named(threads: int, stay: str) -> KernelDescriptor:
    """Those who stay meet at a named barrier of so many threads."""
    k = Small()
    with k.when(stay):
        k.sync("named", id=1, threads=threads)
    k.store(k.z[k.t], 1.0)
    return k.finish(grid=(1,))


def copy(wait: str) -> KernelDescriptor:
    """Every thread starts a copy; some leave before they wait for it."""
    k = Small()
    k.call("cp.async.4", {"dst": k.s[k.t], "src": k.x[k.t]})
    k.commit()
    k.store(k.z[k.t], 1.0)
    with k.when(wait):
        k.wait()
    return k.finish(grid=(1,))


GOOD = {
    "all stay at the barrier": block_barrier("t >= 0"),
    "all fill their slots": slot("t < 64"),
    "those who stay are counted": mbarrier(32, "t < 32"),
    "whole block counted": mbarrier(64, "t < 64", "t < 32"),
    "a named barrier of the warp that stays": named(32, "t < 32"),
    "a named barrier of all": named(64, "t >= 0"),
    "all wait for their copies": copy("t >= 0"),
}
BAD = {
    "half of the block leaves": ({"AMK302"}, "divergence deadlock", block_barrier("t < 32")),
    "threads beyond n leave": ({"AMK302"}, "divergence deadlock", block_barrier("t < n")),
    "slots of those who left": ({"AMK206"}, "uninitialised", slot("t < 32")),
    "slots beyond n": ({"AMK206"}, "uninitialised", slot("t < n")),
    "counted and gone": ({"AMK307"}, "deadlock", mbarrier(64, "t < 32")),
    "counted and gone beyond n": ({"AMK307"}, "deadlock", mbarrier(64, "t < n")),
    "more than are counted": ({"AMK310"}, "phase", mbarrier(32, "t < 64")),
    "a named barrier that waits for those who left": ({"AMK307"}, "deadlock", named(64, "t < 32")),
    "a named barrier and half a warp": ({"AMK302"}, "divergence", named(32, "t < 16")),
    "leaves with a copy in flight": ({"AMK308", "AMK008"}, "async exit", copy("t < 32")),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_what_nobody_owes(name):
    assert faults(GOOD[name]) == (set(), "")


@pytest.mark.parametrize("name", BAD)
def test_what_those_who_left_still_owe(name):
    codes, kinds, kernel = BAD[name]
    found, shown = faults(kernel)
    assert found & codes and shown in kinds.split() and shown
