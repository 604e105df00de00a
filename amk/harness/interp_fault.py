"""Faults that the interpreter finds while a kernel runs, and which family of rules each belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

__all__ = ["FAMILIES", "Fault", "FaultKind", "family_of"]

FaultKind = Literal[
    "bounds", "race", "uninitialised", "divergence", "deadlock", "overflow", "alignment", "async", "double-write",
    "unwritten", "assume", "phase", "proxy", "wgmma", "exit",
]  # fmt: skip

FAMILIES: dict[str, frozenset[str]] = {
    "AMK2": frozenset(("bounds", "uninitialised", "alignment", "overflow")),
    "AMK3": frozenset(("race", "divergence", "deadlock", "async", "phase", "proxy", "wgmma", "exit")),
    "AMK4": frozenset(("unwritten", "double-write")),
}
# Rules whose fault has a kind of its own: another fault of the same run says nothing about theirs.
_OWN: dict[str, frozenset[str]] = {
    **dict.fromkeys(("AMK201", "AMK202", "AMK203"), frozenset(("bounds",))),
    **dict.fromkeys(("AMK204", "AMK208"), frozenset(("overflow",))),
    "AMK205": frozenset(("alignment",)),
    "AMK206": frozenset(("uninitialised", "async")),
    "AMK207": frozenset(("uninitialised",)),
    **dict.fromkeys(("AMK302", "AMK305", "AMK317", "AMK318"), frozenset(("divergence", "deadlock"))),
    "AMK303": frozenset(("async", "race", "uninitialised")),
    "AMK307": frozenset(("deadlock",)),
    "AMK308": frozenset(("async", "exit")),
    "AMK309": frozenset(("proxy",)),
    "AMK310": frozenset(("phase", "deadlock")),
    "AMK311": frozenset(("wgmma",)),
    "AMK312": frozenset(("exit",)),
    "AMK315": frozenset(("deadlock",)),
}


def family_of(code: str) -> frozenset[str]:
    """The kinds of faults that show what a rule says; empty for rules about no run."""
    return _OWN.get(code) or FAMILIES.get(code[:4], frozenset())


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
