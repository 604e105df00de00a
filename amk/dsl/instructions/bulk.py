"""Bulk copies: a run of bytes between global and shared memory, or into the shared memory of another block.

`bytes` is a multiple of 16, and so are both addresses. A load completes on an mbarrier, a store or a reduction with a
group of the bulk queue.
"""

from __future__ import annotations

from amk.dsl.instructions.row import Arg, Operand, Row

__all__ = ["ROWS"]

_ISA = "PTX ISA, Data Movement and Conversion Instructions: cp.async.bulk"
_REDUCE = "PTX ISA, Data Movement and Conversion Instructions: cp.reduce.async.bulk"
_BYTES = Arg("bytes", "u32", constant=True, low=16, high=(1 << 20) - 16, multiple_of=16)
_MEANING = "amk.dsl.instructions.meanings:"
_MEANINGS = {"": "tile", "add": "add", "min": "minimum", "max": "maximum"}


def _load(multicast: bool) -> Row:
    return Row(
        name="bulk.load.multicast" if multicast else "bulk.load",
        isa=_ISA,
        since=90,
        issuer="thread",
        operands=(
            Operand("dst", "write", "shared", counted="bytes", align=16, proxy="async"),
            Operand("src", "read", "global", counted="bytes", align=16, proxy="async"),
            Operand("bar", "update", "barrier", proxy="async"),
        ),
        args=(_BYTES, Arg("mask", "u32", low=1, high=(1 << 16) - 1)) if multicast else (_BYTES,),
        completes="barrier",
        feature="multicast" if multicast else "tma",
        multicast="mask" if multicast else "",
        meaning=_MEANING + "tile",
    )


def _store(op: str = "") -> Row:
    # PTX has these reductions of bulk copies into global memory; min and max of floats are not among them.
    dtypes = {"add": ("i32", "u32", "u64", "f32", "f64", "f16", "bf16"), "min": ("i32", "u32", "i64", "u64")}
    return Row(
        name=f"bulk.reduce.{op}" if op else "bulk.store",
        isa=_REDUCE if op else _ISA,
        since=90,
        issuer="thread",
        operands=(
            Operand(
                "dst", "update" if op else "write", "global", counted="bytes", align=16, proxy="async",
                dtypes=dtypes.get(op, dtypes["min"]) if op else (),
            ),
            Operand("src", "read", "shared", counted="bytes", align=16, proxy="async"),
        ),
        args=(_BYTES,),
        completes="bulk",
        feature="tma",
        meaning=_MEANING + _MEANINGS[op],
    )  # fmt: skip


_PEER = Row(
    name="bulk.copy.peer",
    isa=_ISA,
    since=90,
    issuer="thread",
    operands=(
        Operand("dst", "write", "shared", counted="bytes", align=16, proxy="async"),
        Operand("src", "read", "shared", counted="bytes", align=16, proxy="async"),
        Operand("bar", "update", "barrier", proxy="async"),
    ),
    args=(_BYTES, Arg("peer", "i32", low=0, high=15)),  # the block whose shared memory and mbarrier are written
    completes="barrier",
    feature="cluster",
    meaning=_MEANING + "tile",
)

ROWS = (_load(False), _load(True), _store(), *(_store(op) for op in ("add", "min", "max")), _PEER)
