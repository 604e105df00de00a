"""What consecutive statements touch in shared memory, and where two such runs clash.

In: footprints, in program order. Out: a Run with one mask for each kind of access, so that most questions are one
operation on integers; and the first cell and threads of a conflict, where there is one.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from amk.harness.faults import Fault
from amk.harness.footprint import Footprint
from amk.harness.masks import bits

__all__ = ["READS", "Hit", "Run", "apart", "conflict", "crossing"]

READS = "rR"  # modes that read: by a thread, by the asynchronous proxy
_SHARED = {"r": "r", "R": "r", "a": "a"}  # modes that do not conflict with their like


class Hit(NamedTuple):
    """A cell, and a thread of each side that touches it."""

    cell: int
    first: int
    second: int


class Run:
    """What consecutive statements without an ordering point touch, in program order.

    `registers` are the arrays that asynchronous instructions own while in flight and that a statement touches.
    """

    def __init__(self) -> None:
        self.parts: list[Footprint] = []
        self.reads = self.writes = self.atomics = self.copies = self.touched = 0
        self.need = 0  # cells that must be initialised before
        self.made = 0  # cells that are initialised after
        self.faults: list[Fault] = []
        self.registers: dict[str, str] = {}  # with the pointer of the first statement that touches one
        self.aligned = False  # whether whole warps execute an instruction together
        self.towards = _Towards(self)

    def add(self, f: Footprint) -> None:
        """Takes one footprint into the masks."""
        self.parts.append(f)
        self.touched |= f.mask
        if f.mode in "raR":
            self.need |= f.mask & ~self.made
        if f.mode in READS:
            self.reads |= f.mask
        elif f.mode == "a":
            self.atomics |= f.mask
        elif f.mode == "c":
            self.copies |= f.mask
        else:
            self.writes |= f.mask
            self.made |= f.mask if f.must else 0

    def clash(self, other: Run) -> int:
        """Cells that both touch in conflicting ways."""
        if not self.touched & other.touched:
            return 0
        mine, theirs = self.writes | self.copies, other.writes | other.copies
        return mine & other.touched | theirs & self.touched | self.atomics & other.reads | self.reads & other.atomics

    @cached_property
    def issued(self) -> list[Footprint]:
        """Its copies by cp.async."""
        return [f for f in self.parts if f.mode == "c"]

    @cached_property
    def landed(self) -> Run:
        """Its copies as the writes that they are once their group is retired."""
        out = Run()
        for f in self.issued:
            out.add(f._replace(mode="l"))
        return out

    @cached_property
    def threads(self) -> int:
        """The threads that touch anything."""
        out = 0
        for f in self.parts:
            out |= f.pattern.threads
        return out


class _Towards(dict[Run, tuple[bool, bool]]):
    """Of a run that is complete, by other runs: whether they clash, and whether it initialises all that they touch.

    Asked again and again of the same two, and reckoned once.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    def __missing__(self, other: Run) -> tuple[bool, bool]:
        run = self._run
        over = bool(run.made) and other.touched & run.made == other.touched
        found = self[other] = bool(run.clash(other)), over
        return found


def _compatible(a: Footprint, b: Footprint) -> bool:
    return _SHARED.get(a.mode, a.mode) == _SHARED.get(b.mode, "") != ""


def conflict(a: Footprint, b: Footprint, synced: int, *, same: bool = False, known: int = 0) -> Hit | None:
    """The first cell two footprints of one strand fight over.

    `synced` are threads ordered inside their warp, `known` those of the first that are ordered with all; `same` also
    counts a thread against itself (an asynchronous access is not ordered with its own thread).
    """
    if _compatible(a, b) or (not same and not a.pattern.threads & ~synced and apart(a, b)):
        return None
    for cell in bits(a.mask & b.mask):
        second = b.owner(cell)
        for t in bits(a.owner(cell) & ~known):
            others = second if same else second & ~(1 << t)
            if others and synced >> t & 1:
                others &= ~(0xFFFFFFFF << (t & ~31))
            if others:
                return Hit(cell, t, next(bits(others)))
    return None


def apart(a: Footprint, b: Footprint) -> bool:
    """Whether no two warps touch one cell."""
    theirs = b.by_warp()
    for threads, cells in a.by_warp():
        for others, more in theirs:
            if cells & more and not _one_warp(threads, others):
                return False
    return True


def _one_warp(a: int, b: int) -> bool:
    return (a.bit_length() - 1) // 32 == (b.bit_length() - 1) // 32


def crossing(a: Footprint, b: Footprint, known: int) -> Hit | None:
    """The first cell that footprints of two strands fight over; `known` are threads of the first that are done."""
    if _compatible(a, b):
        return None
    for cell in bits(a.mask & b.mask):
        first = a.owner(cell) & ~known
        if first:
            return Hit(cell, next(bits(first)), next(bits(b.owner(cell))))
    return None
