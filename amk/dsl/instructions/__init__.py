"""The open table: one row an instruction, one file a family. Adding an instruction adds a row and a template macro."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from amk.dsl.instructions import bulk, cp_async, grid, matrix, mbarrier, tma, warp, wgmma
from amk.dsl.instructions.pure import PURE
from amk.dsl.instructions.row import Arg, Operand, Pure, Row

__all__ = ["PURE", "ROWS", "Arg", "Operand", "Pure", "Row"]


class _Table(Mapping[str, Row]):
    """Rows by name; those of wgmma, of which there are hundreds, are made when they are asked for."""

    def __init__(self, rows: tuple[Row, ...]) -> None:
        self._rows = {r.name: r for r in rows}

    def __getitem__(self, name: str) -> Row:
        found = self._rows.get(name)
        if found is None:
            found = wgmma.find(name)
            if found is None:
                raise KeyError(name)
            self._rows[name] = found
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._rows, *wgmma.names())))

    def __len__(self) -> int:
        return sum(1 for _ in self)


ROWS: Mapping[str, Row] = _Table(
    (*cp_async.ROWS, *warp.ROWS, *mbarrier.ROWS, *tma.ROWS, *bulk.ROWS, *matrix.ROWS, *grid.ROWS)
)
