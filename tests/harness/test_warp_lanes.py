"""Masks of lanes, sources of shuffles and threads that leave early: engine and interpreter say the same."""

from __future__ import annotations

import numpy as np
import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.kernel import KernelDescriptor
from amk.harness.check import check
from amk.harness.interpret import Fault, run
from amk.harness.rules.amk317_uneven_operand import AMK317
from amk.harness.rules.amk318_absent_lane import AMK318


def judged(kernel: KernelDescriptor, **sizes: int) -> tuple[set[str], str]:
    """The codes of the errors, and the kind of the fault that a run shows ('' without one)."""
    args: dict[str, object] = dict(sizes)
    for p in kernel.params:
        if p.kind == "param" and p.shape is not None:
            shape = tuple(int(str(sizes.get(str(n), n))) for n in p.shape)
            args[p.name] = np.zeros(
                shape, {"u32": np.uint32, "i32": np.int32, "f32": np.float32, "bf16": np.uint16}[p.dtype]
            )
    shown = ""
    try:
        run(kernel, args, detect=True)
    except Fault as f:
        shown = f.kind
    return {d.code for d in check(kernel).errors}, shown


def lanes(guard: str, members: int, row: str = "redux.add", threads: int = 64, **by: object) -> KernelDescriptor:
    k = KernelBuilder("lanes", target="sm_80", threads=threads)
    n = k.size("n", min=1, max=64)
    out = k.tensor("out", "u32", (threads,), access="write")
    r = k.registers("r", "u32", (1,))
    k.store(r[0], "u32(t)")
    with k.when(guard):
        k.call(row, {"dst": r[0]}, value=r[0], members=members, **by)
    k.store(out[k.t], r[0] + "u32(n)")
    del n
    return k.finish(grid=(1,))


LOW, ALL = 0xFFFF, 0xFFFFFFFF
GOOD = {
    "named lanes come": lanes("t % 32 < 16", LOW),
    "other lanes come": lanes("t % 32 >= 16", ALL ^ LOW),
    "one warp alone": lanes("t < 16", LOW),
    "the last, short warp": lanes("t >= 32", LOW, threads=48),
    "whole warps": lanes("t >= 32", ALL),
    "read among the named": lanes("t % 32 < 16", LOW, "shfl.bfly", mask=15),
    "beyond the warp is oneself": lanes("t % 32 >= 16", ALL ^ LOW, "shfl.down", delta=20),
    "a lane of each thread": lanes("t % 32 < 16", LOW, "shfl.idx", lane="15 - t % 16"),
}
BAD = {
    "an unnamed lane comes": ("AMK305", lanes("t % 32 < 17", LOW)),
    "a named lane has left": ("AMK305", lanes("t % 32 < 15", LOW)),
    "a named lane went elsewhere": ("AMK305", lanes("t % 32 >= 16", LOW)),
    "all named, half there": ("AMK305", lanes("t % 32 < 16", ALL)),
    "a mask beyond the block": ("AMK305", lanes("t >= 32", ALL, threads=48)),
    "lanes that left at n": ("AMK305", lanes("t < n", LOW)),
    "a source that is not there": ("AMK318", lanes("t % 32 < 16", LOW, "shfl.down", delta=1)),
    "a source below": ("AMK318", lanes("t % 32 >= 16", ALL ^ LOW, "shfl.up", delta=1)),
    "a source across": ("AMK318", lanes("t % 32 < 16", LOW, "shfl.bfly", mask=16)),
    "a lane of each thread, one wrong": ("AMK318", lanes("t % 32 < 16", LOW, "shfl.idx", lane="16 - t % 16")),
}


@pytest.mark.parametrize("name", GOOD)
def test_lanes_that_are_right(name):
    assert judged(GOOD[name], n=7) == (set(), "")


@pytest.mark.parametrize("name", BAD)
def test_lanes_that_are_wrong(name):
    code, kernel = BAD[name]
    found, shown = judged(kernel, n=7)
    assert code in found and shown == "divergence"


@pytest.mark.parametrize("row", ["vote.all", "vote.any", "vote.ballot"])
def test_votes_of_conditions(row):
    """A vote after a guard on data is refused whatever its mask; before it, it is fine."""
    k = KernelBuilder("voted", target="sm_80", threads=32)
    x, out = k.tensor("x", "u32", (32,)), k.tensor("out", "u32", (32,), access="write")
    r = k.registers("r", "u32", (2,))
    k.load(r[0], x[k.t])
    with k.when(r[0] > 3):
        k.call(row, {"dst": r[1]}, value=r[0] > 5, members=LOW)
    k.store(out[k.t], r[0])
    assert "AMK305" in {d.code for d in check(k.finish(grid=(1,))).errors}


def test_a_partial_instruction_orders_no_memory():
    """Lanes that meet at a masked instruction hand over registers and no memory."""
    k = KernelBuilder("no_order", target="sm_80", threads=32)
    s, r = k.shared("s", "u32", (32,)), k.registers("r", "u32", (1,))
    out = k.tensor("out", "u32", (32,), access="write")
    k.store(s[k.t], "u32(t)")
    k.call("vote.ballot", {"dst": r[0]}, value=k.t > 3)
    k.load(r[0], s[k.t ^ 1])
    k.store(out[k.t], r[0])
    assert judged(k.finish(grid=(1,))) == ({"AMK301"}, "race")


def test_a_source_that_depends_on_data_is_refused_only_with_a_mask():
    def kernel(members: int) -> KernelDescriptor:
        k = KernelBuilder("data_lane", target="sm_80", threads=32)
        x, out = k.tensor("x", "i32", (32,)), k.tensor("out", "i32", (32,), access="write")
        r = k.registers("r", "i32", (1,))
        k.load(r[0], x[k.t])
        with k.when(k.t < (16 if members == LOW else 32)):
            k.call("shfl.idx", {"dst": r[0]}, value=r[0], lane=r[0] & 15, members=members)
        k.store(out[k.t], r[0])
        return k.finish(grid=(1,))

    assert check(kernel(ALL)).ok and {d.code for d in check(kernel(LOW)).errors} == {"AMK318"}


def test_operands_that_a_warpgroup_shares():
    assert judged(AMK317.good()) == (set(), "") and judged(AMK317.bad()) == ({"AMK317"}, "divergence")
    assert judged(AMK318.good()) == (set(), "") and judged(AMK318.bad()) == ({"AMK318"}, "divergence")
