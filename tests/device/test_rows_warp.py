"""Rows of warps with a mask of lanes: shuffles, votes, matches and integer reductions, by value, on CPU and GPU.

What is expected is worked out here lane by lane, from the PTX ISA, in Python integers. Each warp of three has its own
values; lanes that take no part keep what they held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import amk
from amk.dsl.instructions import ROWS
from amk.errors import Refused

ALL = 0xFFFFFFFF
MASKS = {"all": ALL, "low": 0xFFFF, "high": 0xFFFF0000, "even": 0x55555555, "one": 1 << 31, "odd few": 0x80000402}
KEEP = 0xDEADBEEF
THREADS = 96
COLLECTIVES = [n for n in ROWS if n.startswith(("vote.", "match.", "redux."))]
KINDS = {"u32": np.uint32, "i32": np.int32}


def in_mask(members: int) -> str:
    """Whether the lane is a member, as a condition on the thread."""
    return f"i64({members}) >> i64(t % 32) & i64(1) == i64(1)"


def kernel(row: str, dtype: str, members: int, **more: Any) -> Any:
    """Lanes of the mask issue the row with x[t]; all lanes store their register, and the two beside it."""
    k = amk.KernelBuilder("lanes", target="sm_80", threads=THREADS)
    x, out = k.tensor("x", dtype, (THREADS,)), k.tensor("out", dtype, (THREADS, 3), access="write")
    keep = k.tensor("keep", dtype, (1,))
    v, r = k.registers("v", dtype, (1,)), k.registers("r", dtype, (3,))
    k.load(v[0], x[k.t])
    for i in range(3):
        k.load(r[i], keep[0])
    value = v[0] % 2 > 0 if row.startswith("vote.") else v[0]
    with k.when(in_mask(members)):
        k.call(row, {"dst": r[1]}, value=value, members=members, **more)
    for i in range(3):
        k.store(out[k.t, i], r[i])
    return k.finish(grid=(1,))


def lanes(members: int) -> list[int]:
    return [i for i in range(32) if members >> i & 1]


def mask_of(which: Iterator[int]) -> int:
    return sum(1 << i for i in which)


def reduced(values: list[int], combine: Callable[[int, int], int]) -> int:
    total = values[0]
    for v in values[1:]:
        total = combine(total, v)
    return total


REDUCTIONS: dict[str, Callable[[int, int], int]] = {
    "redux.add": lambda a, b: a + b, "redux.min": min, "redux.max": max, "redux.and": lambda a, b: a & b,
    "redux.or": lambda a, b: a | b, "redux.xor": lambda a, b: a ^ b,
}  # fmt: skip


def wanted(row: str, x: list[int], lane: int, members: int) -> int:
    """What a member gets, of the 32 values of its warp."""
    held = lanes(members)
    if row == "vote.all":
        return int(all(x[i] % 2 for i in held))
    if row == "vote.any":
        return int(any(x[i] % 2 for i in held))
    if row == "vote.ballot":
        return mask_of(i for i in held if x[i] % 2)
    if row == "match.any":
        return mask_of(i for i in held if x[i] == x[lane])
    if row == "match.all":
        return members if len({x[i] for i in held}) == 1 else 0
    return reduced([x[i] for i in held], REDUCTIONS[row]) & ALL


def values(kind: str, members: int) -> Any:
    """96 bit patterns: extremes and noise in the first warp, few different ones in the second, one in the third."""
    noise = np.random.default_rng(members % 1000).integers(0, 2**32, 32, dtype=np.uint32)
    noise[[0, 1, 2, 31]] = [0x80000000, ALL, 0x7FFFFFFF, 0]
    few = np.arange(32, dtype=np.uint32) % 3 * np.uint32(0x40000001)
    return np.concatenate([noise, few, np.full(32, 0x80000001, np.uint32)]).view(KINDS[kind])


@pytest.mark.parametrize("members", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize(
    ("row", "dtype"), [(n, d) for n in COLLECTIVES for d in KINDS if d in ROWS[n].operands[0].dtypes]
)
def test_collective(execute, row, dtype, members):
    """Each member gets what is made of the members of its own warp; other lanes and registers keep their values."""
    x, out = values(dtype, members), np.zeros((THREADS, 3), KINDS[dtype])
    keep = np.array([KEEP], np.uint32).view(KINDS[dtype])
    execute(kernel(row, dtype, members))(x=x, keep=keep, out=out)
    got = out.view(np.uint32)
    assert (got[:, [0, 2]] == KEEP).all()
    for t in range(THREADS):
        mine = [int(v) for v in x[t - t % 32 : t - t % 32 + 32]]
        expected = wanted(row, mine, t % 32, members) if members >> t % 32 & 1 else KEEP
        assert got[t, 1] == expected, (t, hex(got[t, 1]), hex(expected))


SHUFFLES = [
    ("shfl.bfly", 0xFFFF, {"mask": 5}, lambda i: i ^ 5), ("shfl.bfly", 0xFFFF0000, {"mask": 15}, lambda i: i ^ 15),
    ("shfl.down", 0xFFFFFF00, {"delta": 9}, lambda i: i + 9 if i + 9 < 32 else i),
    ("shfl.up", 0xFF, {"delta": 3}, lambda i: i - 3 if i >= 3 else i),
    ("shfl.idx", 0x80000402, {"lane": 31}, lambda i: 31),
    ("shfl.idx", 0x55555555, {"lane": "30 - t % 32"}, lambda i: 30 - i),
]  # fmt: skip


@pytest.mark.parametrize(("row", "members", "by", "source"), SHUFFLES)
def test_shuffle_of_some_lanes(execute, row, members, by, source):
    """Members read members; beyond the warp a lane keeps its own value, beyond the mask lanes keep their register."""
    x, out = values("u32", members), np.zeros((THREADS, 3), np.uint32)
    execute(kernel(row, "u32", members, **by))(x=x, keep=np.array([KEEP], np.uint32), out=out)
    assert (out[:, [0, 2]] == KEEP).all()
    for t in range(THREADS):
        here = members >> t % 32 & 1
        assert out[t, 1] == (x[t - t % 32 + source(t % 32)] if here else KEEP), t


def test_two_halves_that_go_their_own_ways(execute):
    """Lanes of one warp in two branches issue two reductions, each with its own mask."""
    k = amk.KernelBuilder("halves", target="sm_80", threads=32)
    out, r = k.tensor("out", "u32", (32,), access="write"), k.registers("r", "u32", (1,))
    k.store(r[0], "u32(t)")
    with k.when(k.t < 16):
        k.call("redux.add", {"dst": r[0]}, value=r[0], members=0xFFFF)
    with k.when(k.t >= 16):
        k.call("redux.max", {"dst": r[0]}, value=r[0], members=0xFFFF0000)
    k.store(out[k.t], r[0])
    out = np.zeros(32, np.uint32)
    execute(k.finish(grid=(1,)))(out=out)
    assert (out == [120] * 16 + [31] * 16).all()


@pytest.mark.parametrize("row", COLLECTIVES)
def test_a_mask_that_lacks_a_calling_lane_is_refused(row):
    k = amk.KernelBuilder("lacking", target="sm_80", threads=32)
    r = k.registers("r", "u32", (1,))
    k.call(row, {"dst": r[0]}, value=k.t > 3 if row.startswith("vote.") else "u32(t)", members=0xFFFF)
    with pytest.raises(Refused, match="AMK305"):
        amk.certify(k.finish(grid=(1,)))
