"""What all batches of one launch share: the kernel, its compiled expressions, its tensors and its budget."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from amk.dsl.instructions import ROWS
from amk.dsl.kernel import KernelDescriptor, children, walk
from amk.dsl.nodes import Statement
from amk.errors import Refused
from amk.harness.interp_expr import Compiler
from amk.harness.interp_memory import GlobalMemory
from amk.harness.interp_unroll import Unroll

__all__ = ["Program"]


@dataclass
class Program:
    """What all batches of one launch share."""

    kernel: KernelDescriptor
    detect: bool
    grid: tuple[int, int, int]
    scalars: dict[str, Any]
    tensors: GlobalMemory
    max_lane_ops: int | None = None
    seed: int | None = None
    watch: frozenset[str] | None = None
    spent: int = 0
    lock: Any = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.compiler = Compiler(self.kernel, self.detect)
        self.pointers = {id(s): p for p, s in walk(self.kernel.body)}
        self.unroll = Unroll(self.compiler, self.detect)
        self._ordering: dict[int, bool] = {}
        self._holding: dict[int, bool] = {}

    def spend(self, lanes: int) -> None:
        """Counts work, and refuses to go beyond the budget."""
        self.spent += lanes
        if self.max_lane_ops is not None and self.spent > self.max_lane_ops:
            raise Refused(
                f"the interpreter stopped after {self.max_lane_ops} lane operations",
                hint="run smaller sizes, fewer blocks, or raise max_lane_ops",
            )

    def holds(self, s: Statement) -> bool:
        """Whether threads may have to wait for others inside a statement, or are told apart by their role."""
        known = self._holding.get(id(s))
        if known is None:
            group = s.kind == "call" and s.row in ROWS and ROWS[s.row].issuer == "warpgroup"
            sync = s.kind == "sync" and s.scope != "warp"
            known = group or sync or s.kind == "team" or (s.kind == "wait" and s.queue is None)
            known = known or any(self.holds(x) for _, body in children(s) for x in body)
            self._holding[id(s)] = known
        return known

    def orders(self, s: Statement) -> bool:
        """Whether threads may meet inside a statement."""
        known = self._ordering.get(id(s))
        if known is None:
            warp = s.kind == "call" and s.row in ROWS and ROWS[s.row].issuer != "thread"
            group = s.kind == "fence" or (s.kind in ("commit", "wait") and s.queue == "wgmma")
            known = warp or group or s.kind == "sync" or any(self.orders(x) for _, body in children(s) for x in body)
            self._ordering[id(s)] = known
        return known
