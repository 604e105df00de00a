"""What the blocks of one cluster share while they run: memory, mbarriers, barriers, and work in flight."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from amk.dsl.layout import extent
from amk.dsl.nodes import Buffer
from amk.dsl.types import DTYPES
from amk.harness.interp_fault import Fault
from amk.harness.interp_program import Program
from amk.harness.interp_registers import poison

if TYPE_CHECKING:
    from amk.harness.interp_clocks import Clocks
    from amk.harness.interp_flight import Flight, Group

__all__ = ["Cluster", "Meeting", "Slot"]

Block = tuple[int, int, int]


@dataclass
class Slot:
    """One mbarrier: arrivals and bytes that its phase still lacks; `phase` counts those that are over."""

    rank: int
    name: str
    index: int
    count: int
    number: int  # among all mbarriers of the cluster
    pending: int = 0
    bytes: int = 0
    phase: int = 0
    ready: bool = False

    def __str__(self) -> str:
        return f"{self.name}[{self.index}]" + (f" of rank {self.rank}" if self.rank else "")

    def init(self) -> None:
        """A fresh mbarrier."""
        self.pending, self.bytes, self.phase, self.ready = self.count, 0, 0, True

    def settle(self) -> bool:
        """Ends the phase if nothing is missing; says whether it did."""
        if self.pending or self.bytes:
            return False
        self.pending, self.phase = self.count, self.phase + 1
        return True


@dataclass
class Meeting:
    """A barrier between warps: how many threads are there, how many it takes, and how often it has completed."""

    size: int
    here: int = 0
    turn: int = 0
    warps: set[int] = field(default_factory=set)  # that are there

    def full(self) -> bool:
        """Whether all have come; the next round then begins."""
        if self.here < self.size:
            return False
        self.here, self.turn = 0, self.turn + 1
        self.warps.clear()
        return True


class Cluster:
    """State of the blocks that run together; `rank` counts them, threads are numbered through them all."""

    def __init__(self, program: Program, blocks: list[Block], first: int) -> None:
        k = program.kernel
        self.program, self.kernel, self.blocks, self.first = program, k, blocks, first
        self.threads, self.size = k.threads, len(blocks)
        self.warps = -(-k.threads // 32)
        self.extents = {b.name: extent(b.shape, b.layout) for b in k.buffers if b.space == "shared"}
        self.shared = {n: self._array(n, (self.size, size)) for n, size in self.extents.items()}
        self.registers = [self._registers() for _ in blocks]
        self.valid = [self._valid() for _ in blocks] if program.detect else [{} for _ in blocks]
        self.slots = self._slots()
        self.in_block = [Meeting(k.threads) for _ in blocks]
        self.named: dict[tuple[int, int], Meeting] = {}
        self.everyone = Meeting(k.threads * self.size)
        self.met = np.zeros(self.size * self.warps, np.int64)  # the round of the cluster barrier that each warp is in
        self.came = np.zeros(self.size * self.warps, np.bool_)  # whether it has arrived there and has not waited
        self.committed = np.zeros((self.size, k.threads), np.int64)  # groups of cp.async
        self.copying: list[list[Any]] = [[] for _ in blocks]
        self.last = ""  # where the work was issued that landed last
        self.moved = False  # whether strands may have met at one place since they were last joined
        self.flights: list[Flight] = []
        self.groups: dict[tuple[str, int], list[Group]] = {}
        self.rng = None if program.seed is None else np.random.default_rng((program.seed, first))
        self.clocks: Clocks | None = None
        if program.detect:
            from amk.harness.interp_clocks import Clocks

            self.clocks = Clocks(self)

    def _array(self, name: str, shape: tuple[int, ...]) -> Any:
        b = self.kernel.declarations[name]
        assert isinstance(b, Buffer)
        return poison(np.zeros(shape, DTYPES[b.dtype].numpy))

    def _registers(self) -> dict[str, Any]:
        files = [b for b in self.kernel.buffers if b.space == "register"]
        return {b.name: self._array(b.name, (*b.shape, 1, self.threads)) for b in files}

    def _valid(self) -> dict[str, Any]:
        files = [b for b in self.kernel.buffers if b.space == "register"]
        return {b.name: np.zeros((*b.shape, 1, self.threads), np.bool_) for b in files}

    def _slots(self) -> dict[tuple[int, str, int], Slot]:
        out: dict[tuple[int, str, int], Slot] = {}
        for rank in range(self.size):
            for b in self.kernel.barriers:
                for i in range(b.slots):
                    out[rank, b.name, i] = Slot(rank, b.name, i, b.count, len(out))
        return out

    # -- faults -----------------------------------------------------------------------------------------------------
    def fault(self, kind: Any, message: str, pointer: str, rank: int = 0, thread: int | None = None) -> None:
        """Raises a fault, if its kind is watched for."""
        watch = self.program.watch
        if watch is None or kind in watch or kind in ("bounds", "assume"):
            who = () if thread is None else (thread,)
            raise Fault(kind, message, pointer=pointer, block=self.blocks[rank], threads=who)

    # -- work in flight ---------------------------------------------------------------------------------------------
    def land(self, flight: Flight) -> None:
        """One piece of work on an mbarrier is over: its bytes are there, and its phase may be."""
        self.flights.remove(flight)
        flight.move()
        self.last = flight.pointer
        slot = flight.slot
        if self.clocks is not None:
            self.clocks.landed(flight)
        slot.bytes -= flight.bytes
        self.settle(slot)

    def settle(self, slot: Slot) -> None:
        """Ends the phase of an mbarrier if nothing is missing."""
        if not slot.pending and slot.bytes < 0 and self.program.detect:
            text = f"phase {slot.phase} of {slot} gets {-slot.bytes} bytes more than are expected"
            self.fault("phase", text, self.last, slot.rank)
        if slot.settle() and self.clocks is not None:
            self.clocks.completed(slot)
