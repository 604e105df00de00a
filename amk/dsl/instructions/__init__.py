"""The open table: one row an instruction, one file a family. Adding an instruction adds a row and a template macro."""

from __future__ import annotations

from amk.dsl.instructions import cp_async, warp
from amk.dsl.instructions.pure import PURE
from amk.dsl.instructions.row import Arg, Operand, Pure, Row

__all__ = ["PURE", "ROWS", "Arg", "Operand", "Pure", "Row"]

ROWS: dict[str, Row] = {r.name: r for r in (*cp_async.ROWS, *warp.ROWS)}
