"""TMA: boxes of one to five dimensions between a tensor in global memory and shared memory, and prefetches of its map.

Each thread that reaches a row issues one copy. A box is dense in shared memory, its rows of `swizzle` bytes permuted as
the map says; what of it lies outside the tensor reads as the map's fill, is not written, and counts as bytes all the
same.
"""

from __future__ import annotations

from amk.dsl.instructions.row import Arg, Operand, Row

__all__ = ["ROWS"]

_ISA = "PTX ISA, Data Movement and Conversion Instructions: cp.async.bulk.tensor"
_REDUCE = "PTX ISA, Data Movement and Conversion Instructions: cp.reduce.async.bulk.tensor"
_RANKS = (1, 2, 3, 4, 5)
# Element types of a reduction; min and max of floats are left out, as for bulk copies.
_REDUCED = {
    "add": ("i32", "u32", "u64", "f32", "f16", "bf16"),
    "min": ("i32", "u32", "i64", "u64"),
    "max": ("i32", "u32", "i64", "u64"),
}
_MEANING = "amk.dsl.instructions.meanings:"
_MEANINGS = {"": "tile", "add": "add", "min": "minimum", "max": "maximum"}


def _load(rank: int, *, multicast: bool = False) -> Row:
    return Row(
        name=f"tma.load.{rank}d" + (".multicast" if multicast else ""),
        family="tma.load.multicast" if multicast else "tma.load",
        isa=_ISA,
        since=90,
        issuer="thread",
        operands=(
            Operand("dst", "write", "shared", box="src", align=128, proxy="async"),
            Operand("src", "read", "map", box="src", rank=rank, proxy="async"),
            Operand("bar", "update", "barrier", proxy="async"),
        ),
        args=(Arg("mask", "u32", low=1, high=(1 << 16) - 1),) if multicast else (),
        completes="barrier",
        feature="multicast" if multicast else "tma",
        multicast="mask" if multicast else "",
        meaning=_MEANING + "tile",
    )


def _store(rank: int, op: str = "") -> Row:
    return Row(
        name=f"tma.reduce.{op}.{rank}d" if op else f"tma.store.{rank}d",
        family=f"tma.reduce.{op}" if op else "tma.store",
        isa=_REDUCE if op else _ISA,
        since=90,
        issuer="thread",
        operands=(
            Operand(
                "dst", "update" if op else "write", "map", box="dst", rank=rank, proxy="async",
                dtypes=_REDUCED.get(op, ()),
            ),
            Operand("src", "read", "shared", box="dst", align=128, proxy="async"),
        ),
        completes="bulk",
        feature="tma",
        meaning=_MEANING + _MEANINGS[op],
    )  # fmt: skip


_PREFETCH = Row(
    name="prefetch.tensormap",
    isa="PTX ISA, Data Movement and Conversion Instructions: prefetch.tensormap",
    since=90,
    issuer="thread",
    operands=(Operand("map", "read", "map"),),
    feature="tma",
    meaning=_MEANING + "nothing",
)

ROWS = (
    *(_load(n) for n in _RANKS),
    *(_load(n, multicast=True) for n in _RANKS),
    *(_store(n) for n in _RANKS),
    *(_store(n, op) for n in _RANKS for op in ("add", "min", "max")),
    _PREFETCH,
)
