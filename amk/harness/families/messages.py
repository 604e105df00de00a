"""Families whose blocks tell each other something: running sums by look-back, sums by the last block, and counts."""

from __future__ import annotations

from random import Random

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import cdiv, eq, maximum, minimum
from amk.dsl.kernel import KernelDescriptor

__all__ = ["histogram", "last_block", "look_back"]

Made = tuple[KernelDescriptor, tuple[dict[str, int], ...]]


def histogram(rng: Random) -> Made:
    """Counts of values by bin, in shared memory and then added up; values outside go to the first and the last bin."""
    threads, bins, blocks = rng.choice((32, 64)), rng.choice((8, 32)), rng.choice((1, 2))
    k = KernelBuilder("histogram", target="sm_90a", threads=threads)
    n = k.size("n", min=0, max=1 << 20)
    x, out = k.tensor("x", "i32", (n,)), k.tensor("out", "i32", (bins,), access="add")
    counts, r = k.shared("counts", "i32", (bins,)), k.registers("r", "i32", (1,))
    with k.when(k.t < bins):
        k.store(counts[k.t], 0)
    k.sync()
    with k.loop("i", k.bx * threads + k.t, n, threads * blocks) as i:
        k.load(r[0], x[i.var])
        k.atomic("add", counts[minimum(maximum(r[0], 0), bins - 1)], 1)
    k.sync()
    with k.when(k.t < bins):
        k.load(r[0], counts[k.t])
        k.atomic("add", out[k.t], r[0])
    return k.finish(grid=(blocks,)), ({"n": 2 * threads * blocks + 5}, {"n": threads}, {"n": 0})


def last_block(rng: Random) -> Made:
    """Sums of rows, split over blocks: each writes its part, and the last of a row's blocks adds the parts up."""
    threads = 32 * rng.choice((1, 2))
    k = KernelBuilder("last_block", target="sm_90a", threads=threads)
    rows, parts = k.size("rows", max=1 << 16), k.size("parts", max=64)
    x = k.tensor("x", "i32", (rows, parts, threads))
    out = k.tensor("out", "i32", (rows, threads), access="write")
    part = k.tensor("part", "i32", (rows, parts, threads), access="workspace")
    done = k.tensor("done", "i32", (rows,), access="workspace")
    last = k.shared("last", "i32", (1,))
    r, old, came, total = (k.registers(name, "i32", (1,)) for name in ("r", "old", "came", "total"))
    k.load(r[0], x[k.bx, k.by, k.t])
    k.store(part[k.bx, k.by, k.t], r[0] * 2)
    k.sync()
    with k.when(k.t < 1):
        k.atomic("add", done[k.bx], 1, old=old[0], order="acq_rel")
        k.store(last[0], old[0])
    k.sync()
    k.load(came[0], last[0])
    with k.when(eq(came[0], parts - 1)):
        k.store(total[0], 0)
        with k.loop("s", 0, parts) as s:
            k.load(r[0], part[k.bx, s.var, k.t])
            k.store(total[0], total[0] + r[0])
        k.store(out[k.bx, k.t], total[0])
    return k.finish(grid=(rows, parts)), ({"rows": 2, "parts": 3}, {"rows": 1, "parts": 1})


def look_back(rng: Random) -> Made:
    """Sums over tiles with decoupled look-back: a block adds what earlier ones have, down to a whole prefix."""
    threads = 32 * rng.choice((1, 2))
    k = KernelBuilder("look_back", target="sm_90a", threads=threads, dispatch="in_order")
    n = k.size("n", max=1 << 22)
    tiles = cdiv(n, threads)
    x, out = k.tensor("x", "i32", (n,)), k.tensor("out", "i32", (n,), access="write")
    own, whole = (k.tensor(name, "i32", (tiles,), access="workspace") for name in ("own", "whole"))
    state = k.tensor("state", "u32", (tiles,), access="workspace")
    s, base = k.shared("s", "i32", (threads,)), k.shared("base", "i32", (1,))
    v, w, total, part = (k.registers(name, "i32", (1,)) for name in ("v", "w", "total", "part"))
    q = k.registers("q", "u32", (1,))
    i = k.let("i", k.bx * threads + k.t)
    k.load(v[0], x[i], when=i < n, other=0)
    k.store(s[k.t], v[0])
    k.sync()
    with k.when(k.t < 1):
        k.store(part[0], 0)
        with k.loop("e", 0, threads) as e:
            k.load(w[0], s[e.var])
            k.store(part[0], part[0] + w[0])
        k.store(own[k.bx], part[0])
        k.store(state[k.bx], 1, order="release")
        k.store(total[0], 0)
        with k.loop("j", 0, k.bx) as j:
            near = k.bx - 1 - j.var
            k.wait_flag(state[near], 1)
            k.load(q[0], state[near], order="acquire")
            k.load(w[0], own[near])
            with k.when(q[0] >= 2):
                k.load(w[0], whole[near])
            k.store(total[0], total[0] + w[0])
            j.until(q[0] >= 2)
        k.store(whole[k.bx], total[0] + part[0])
        k.store(state[k.bx], 2, order="release")
        k.store(base[0], total[0])
    k.sync()
    k.load(w[0], base[0])
    with k.when(i < n):
        k.store(out[i], v[0] + w[0])
    return k.finish(grid=(tiles,)), ({"n": 3 * threads + 5}, {"n": threads}, {"n": 1})
