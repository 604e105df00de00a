"""Warp shuffles with the full mask: every lane gives `value` and receives that of another lane of its warp.

`dst` is a register of a 32-bit type. A lane whose source would lie outside the warp keeps its own value (PTX: the
predicate is false and `d = a`).
"""

from __future__ import annotations

from amk.dsl.instructions.row import Arg, Operand, Row

__all__ = ["ROWS"]

_ISA = "PTX ISA, Data Movement and Conversion Instructions: shfl.sync"
_DST = (Operand("dst", "write", "register", dtypes=("f32", "i32", "u32")),)


def _shuffle(mode: str, operand: str) -> Row:
    return Row(
        name=f"shfl.{mode}",
        isa=_ISA,
        since=80,
        issuer="warp",
        operands=_DST,
        args=(Arg("value", "same"), Arg(operand, "i32", constant=mode != "idx", low=0, high=31)),
        meaning=f"amk.dsl.instructions.meanings:shuffle_{mode}",
    )


ROWS = (_shuffle("down", "delta"), _shuffle("up", "delta"), _shuffle("bfly", "mask"), _shuffle("idx", "lane"))
