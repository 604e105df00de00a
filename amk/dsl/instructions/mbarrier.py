"""mbarriers: what initialises one. Arrivals and waits are statements (`Arrive`, `Wait`), since order rests on them.

An mbarrier is initialised once, by one thread, with the count of its declaration; what uses it must be ordered after
that, and the cluster and the async proxy also after a fence (`Fence(what="mbarrier_init")`).
"""

from __future__ import annotations

from amk.dsl.instructions.row import Operand, Row

__all__ = ["ROWS"]

ROWS = (
    Row(
        name="mbarrier.init",
        isa="PTX ISA, Parallel Synchronization and Communication Instructions: mbarrier.init",
        since=80,
        issuer="thread",
        operands=(Operand("bar", "write", "barrier"),),
        feature="mbarrier",
        meaning="amk.dsl.instructions.meanings:nothing",
    ),
)
