"""Faults that the interpreter finds while a kernel runs, and which family of rules each belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

__all__ = ["FAMILIES", "Fault", "FaultKind"]

FaultKind = Literal[
    "bounds", "race", "uninitialised", "divergence", "deadlock", "overflow", "alignment", "async", "double-write",
    "unwritten", "assume",
]  # fmt: skip

FAMILIES: dict[str, frozenset[str]] = {
    "AMK2": frozenset(("bounds", "uninitialised", "alignment", "overflow")),
    "AMK3": frozenset(("race", "divergence", "deadlock", "async")),
    "AMK4": frozenset(("unwritten", "double-write")),
}


class Fault(Exception):
    """What happened, at which statement (JSON pointer), in which block, to which threads, with which values."""

    def __init__(
        self, kind: FaultKind, message: str, *, pointer: str = "", block: tuple[int, int, int] | None = None,
        threads: tuple[int, ...] = (), values: Mapping[str, object] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.kind, self.message, self.pointer = kind, message, pointer
        self.block, self.threads, self.values = block, threads, dict(values or {})

    def __str__(self) -> str:
        where = f" at {self.pointer}" if self.pointer else ""
        who = f" in block {self.block}" if self.block is not None else ""
        lanes = f", thread {', '.join(map(str, self.threads))}" if self.threads else ""
        return f"{self.kind}{where}{who}{lanes}: {self.message}"
