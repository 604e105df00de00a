"""Programmatic dependent launch: the next kernel of a stream may start early, and waits for this one's memory.

`launch_dependents` says that the next grid may start; `wait` blocks until the grids before have ended and their writes
are visible. A kernel launched so must wait before it touches what they wrote.
"""

from __future__ import annotations

from amk.dsl.instructions.row import Row

__all__ = ["ROWS"]

ROWS = tuple(
    Row(
        name=f"griddepcontrol.{what}",
        isa="PTX ISA, Parallel Synchronization and Communication Instructions: griddepcontrol",
        since=90,
        issuer="thread",
        meaning="amk.dsl.instructions.meanings:nothing",
    )
    for what in ("wait", "launch_dependents")
)
