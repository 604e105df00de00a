"""Kernels whose blocks tell each other something: each right as it stands, with switches that break it in one way."""

from __future__ import annotations

from typing import Literal

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import apply, cdiv, eq, maximum, minimum
from amk.dsl.kernel import KernelDescriptor

__all__ = ["block_sums", "chained_scan", "histogram", "last_block_sum", "look_back", "peek", "resident_sum"]

Order = Literal["relaxed", "acquire", "release", "acq_rel"]


def histogram(*, clamp: bool = True, start: bool = True, end: bool = True, bins: int = 32) -> KernelDescriptor:
    """Counts of values by bin, in shared memory and then added up; values outside go to the first and last bin."""
    k = KernelBuilder("histogram", target="sm_90a", threads=64)
    n = k.size("n", max=1 << 20)
    x, out = k.tensor("x", "i32", (n,)), k.tensor("out", "i32", (bins,), access="add")
    h, r = k.shared("h", "i32", (bins,)), k.registers("r", "i32", (1,))
    with k.when(k.t < bins):
        k.store(h[k.t], 0)
    if start:
        k.sync()
    with k.loop("i", k.bx * 64 + k.t, n, k.gx * 64) as i:
        k.load(r[0], x[i.var])
        k.atomic("add", h[minimum(maximum(r[0], 0), bins - 1) if clamp else r[0]], 1)
    if end:
        k.sync()
    with k.when(k.t < bins):
        k.load(r[0], h[k.t])
        k.atomic("add", out[k.t], r[0])
    return k.finish(grid=(4,))


def last_block_sum(
    *, order: Order = "acq_rel", barrier: bool = True, hand: bool = True, short: int = 0, other: int = 0,
    count: int = 1, flagged: bool = True,
) -> KernelDescriptor:  # fmt: skip
    """Sums of rows, split over blocks: each writes its part, and the last of a row's blocks adds the parts up."""
    k = KernelBuilder("last_block_sum", target="sm_90a", threads=32)
    rows, parts = k.size("rows", max=1 << 16), k.size("parts", max=64)
    x = k.tensor("x", "i32", (rows, parts, 32))
    out = k.tensor("out", "i32", (rows, 32), access="write")
    part = k.tensor("part", "i32", (rows, parts, 32), access="workspace")
    done = k.tensor("done", "i32", (rows,), access="workspace")
    last, r = k.shared("last", "i32", (1,)), k.registers("r", "i32", (1,))
    old, q, acc = k.registers("old", "i32", (1,)), k.registers("q", "i32", (1,)), k.registers("acc", "i32", (1,))
    k.load(r[0], x[k.bx, k.by, k.t])
    k.store(part[k.bx, k.by, k.t], r[0] * 2)
    if barrier:
        k.sync()
    with k.when(k.t < 1):
        k.atomic("add", done[k.bx], count, old=old[0], order=order)
        k.store(last[0], old[0])
    if hand:
        k.sync()
    k.load(q[0], last[0])
    with k.when(eq(q[0], parts - 1 - short) if flagged else eq(k.by, 0)):
        k.store(acc[0], 0)
        with k.loop("s", 0, parts) as s:
            k.load(r[0], part[k.bx + other, s.var, k.t])
            k.store(acc[0], acc[0] + r[0])
        k.store(out[k.bx, k.t], acc[0])
    return k.finish(grid=(rows, parts))


def chained_scan(
    *, dispatch: Literal["any", "in_order", "resident"] = "in_order", ahead: bool = False, least: int = 1,
    release: bool = True, acquire: bool = True, wait: bool = True, early: bool = False,
    most: int = 1 << 20,
) -> KernelDescriptor:  # fmt: skip
    """Running sums of tiles: each block waits for the one before, adds its own sum and passes it on."""
    k = KernelBuilder("chained_scan", target="sm_90a", threads=32, dispatch=dispatch)
    n = k.size("n", max=most)
    x, out = k.tensor("x", "i32", (n,)), k.tensor("out", "i32", (n,), access="write")
    total = k.tensor("total", "i32", (n,), access="workspace")
    ready = k.tensor("ready", "u32", (n,), access="workspace")
    r, before = k.registers("r", "i32", (1,)), k.registers("before", "i32", (1,))
    seen = k.registers("seen", "u32", (1,))
    with k.when(k.t < 1):
        k.store(before[0], 0)
        k.load(r[0], x[k.bx])
        near = k.bx + 1 if ahead else k.bx - 1
        with k.when(near < n if ahead else k.bx > 0):
            if wait:
                k.wait_flag(ready[near], least)
            elif not acquire:
                k.load(seen[0], ready[near], order="acquire")
            k.load(before[0], total[near])
        if early:
            k.store(ready[k.bx], 1, order="release")
        k.store(total[k.bx], before[0] + r[0])
        if not early:
            k.store(ready[k.bx], 1, order="release" if release else "weak")
        k.store(out[k.bx], before[0] + r[0])
    return k.finish(grid=(n,))


def look_back(
    *, dispatch: Literal["any", "in_order"] = "in_order", swapped: bool = False, unflagged: bool = False,
    late: bool = False, weak: bool = False,
) -> KernelDescriptor:  # fmt: skip
    """Sums over tiles of 64 with decoupled look-back: a block adds what earlier ones have, down to a whole prefix."""
    k = KernelBuilder("look_back", target="sm_90a", threads=64, dispatch=dispatch)
    n = k.size("n", max=1 << 22)
    tiles = cdiv(n, 64)
    x, out = k.tensor("x", "i32", (n,)), k.tensor("out", "i32", (n,), access="write")
    own = k.tensor("own", "i32", (tiles,), access="workspace")
    whole = k.tensor("whole", "i32", (tiles,), access="workspace")
    state = k.tensor("state", "u32", (tiles,), access="workspace")
    s, base = k.shared("s", "i32", (2, 64)), k.shared("base", "i32", (1,))
    v, w, q = k.registers("v", "i32", (1,)), k.registers("w", "i32", (1,)), k.registers("q", "u32", (1,))
    sum_, part = k.registers("sum", "i32", (1,)), k.registers("part", "i32", (1,))
    i = k.let("i", k.bx * 64 + k.t)
    k.load(v[0], x[i], when=i < n, other=0)
    k.store(s[0, k.t], v[0])
    k.sync()
    with k.loop("e", 0, 6, unroll="full") as e:  # an inclusive scan of the tile, doubling the step
        step = apply("<<", 1, e.var)
        with k.when(k.t >= step):
            k.load(w[0], s[e.var % 2, k.t - step])
            k.store(v[0], v[0] + w[0])
        k.store(s[(e.var + 1) % 2, k.t], v[0])
        k.sync()
    with k.when(k.t < 1):
        k.load(part[0], s[0, 63])
        k.store(sum_[0], 0)
        if not late:
            k.store(own[k.bx], part[0])
        k.store(state[k.bx], 1, order="release")
        if late:
            k.store(own[k.bx], part[0])
        with k.loop("j", 0, k.bx) as j:
            near = k.bx - 1 - j.var
            k.wait_flag(state[near], 1)
            k.load(q[0], state[near], order="weak" if weak else "acquire")
            k.load(w[0], own[near])
            with k.when(q[0] >= (1 if swapped else 2)):
                k.load(w[0], whole[near])
            k.store(sum_[0], sum_[0] + w[0])
            j.until(q[0] >= 2)
        k.store(whole[k.bx], sum_[0] + part[0])
        k.store(state[k.bx], 2, order="release")
        k.store(base[0], sum_[0])
    k.sync()
    k.load(w[0], base[0])
    with k.when(i < n):
        k.store(out[i], v[0] + w[0])
    return k.finish(grid=(tiles,))


def resident_sum(
    *, dispatch: Literal["any", "in_order", "resident"] = "resident", least: int = 8, barrier: bool = True
) -> KernelDescriptor:  # fmt: skip
    """A barrier of a whole grid of eight blocks: each writes, counts, waits for all, and reads its neighbour's."""
    k = KernelBuilder("resident_sum", target="sm_90a", threads=32, dispatch=dispatch)
    x, out = k.tensor("x", "i32", (8, 32)), k.tensor("out", "i32", (8, 32), access="write")
    half = k.tensor("half", "i32", (8, 32), access="workspace")
    here = k.tensor("here", "u32", (1,), access="workspace")
    r = k.registers("r", "i32", (1,))
    k.load(r[0], x[k.bx, k.t])
    k.store(half[k.bx, k.t], r[0] + 1)
    if barrier:
        k.sync()
    with k.when(k.t < 1):
        k.atomic("add", here[0], 1, order="release")
        k.wait_flag(here[0], least)
    k.sync()
    k.load(r[0], half[(k.bx + 1) % 8, 31 - k.t])
    k.store(out[k.bx, k.t], r[0])
    return k.finish(grid=(8,))


def peek(*, least: int = 8, order: Order = "release", load: Literal["weak", "acquire"] = "acquire") -> KernelDescriptor:
    """Each of eight blocks writes and counts, and reads its neighbour's only if it sees that all have counted."""
    k = KernelBuilder("peek", target="sm_90a", threads=32)
    out = k.tensor("out", "i32", (8, 32), access="write")
    half = k.tensor("half", "i32", (8, 32), access="workspace")
    here = k.tensor("here", "u32", (1,), access="workspace")
    r, q = k.registers("r", "i32", (1,)), k.registers("q", "u32", (1,))
    k.store(half[k.bx, k.t], 7)
    k.sync()
    with k.when(k.t < 1):
        k.atomic("add", here[0], 1, order=order)
    k.load(q[0], here[0], order=load)
    k.store(r[0], 7)
    with k.when(q[0] >= least):
        k.load(r[0], half[(k.bx + 7) % 8, k.t])
    k.store(out[k.bx, k.t], r[0])
    return k.finish(grid=(8,))


def block_sums(*, scope: Literal["block", "device"] = "block", shared_row: bool = False) -> KernelDescriptor:
    """Sums by block in global memory: each block adds into elements of its own, or all into the same ones."""
    k = KernelBuilder("block_sums", target="sm_90a", threads=64)
    n = k.size("n", max=1 << 16)
    x = k.tensor("x", "i32", (n, 64))
    out = k.tensor("out", "i32", (1 if shared_row else n, 64), access="add")
    r = k.registers("r", "i32", (1,))
    k.load(r[0], x[k.bx, k.t])
    k.atomic("add", out[0 if shared_row else k.bx, k.t], r[0], scope=scope)
    return k.finish(grid=(n,))
