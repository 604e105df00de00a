"""cp.async: 4, 8 or 16 bytes from global to shared memory without passing through registers.

The copy belongs to the issuing thread's open group; `commit` closes the group and `wait` retires groups, oldest first.
With `when` false nothing is read and the destination is filled with zeros (the src-size operand is 0).
"""

from __future__ import annotations

from amk.dsl.instructions.row import Arg, Operand, Row

__all__ = ["ROWS"]

_ISA = "PTX ISA, Data Movement and Conversion Instructions: cp.async (non-bulk)"

ROWS = tuple(
    Row(
        name=f"cp.async.{n}",
        isa=_ISA,
        since=80,
        issuer="thread",
        operands=(
            Operand("dst", "write", "shared", nbytes=n, align=n),
            Operand("src", "read", "global", nbytes=n, align=n),
        ),
        args=(Arg("when", "bool", default="true"),),
        completes="cp_async",
        guard="when",
        meaning="amk.dsl.instructions.meanings:copy",
    )
    for n in (4, 8, 16)
)
