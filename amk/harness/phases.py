"""mbarriers and other places where threads meet: what completes them, and why no schedule could complete them
otherwise.

An mbarrier's phase is over once its arrivals are in and the bytes they expected have landed. With one parity bit a wait
can mistake a phase for the one two before or after it, and an arrival can count for the phase before: so an arrival
must know that the phases before its own are over, a wait that all but the last before its own are, and no phase may end
before those who waited for the last one have seen it. Then every schedule matches the same arrivals with the same
waits. Source: PTX ISA, mbarrier; confluence as in Volta and Weft; `docs/soundness.md`, lemma 7.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from amk.harness.faults import Fault, Second
from amk.harness.knowledge import Know, covering
from amk.harness.strand import Strand
from amk.harness.wording import point

__all__ = ["Meeting", "Phases", "Signal"]


class Signal(NamedTuple):
    """Who does something to an mbarrier, where, and with what values around it."""

    strand: Strand
    active: int
    pointer: str
    env: Mapping[str, int]

    def fault(self, code: str, message: str, hint: str = "", related: tuple[Second, ...] = ()) -> Fault:
        first = (self.active & -self.active).bit_length() - 1
        here = Second(self.pointer, f"{self.active.bit_count()} threads come here")
        return Fault(code, self.pointer, message, point(self.env) | {"t": first}, related or (here,), hint)

    @property
    def who(self) -> str:
        first = (self.active & -self.active).bit_length() - 1
        return f"thread {first}"

    @property
    def warp(self) -> int:
        """The threads of the first one's warp."""
        first = (self.active & -self.active).bit_length() - 1
        return 0xFFFFFFFF << first // 32 * 32


class _Seen(NamedTuple):
    """A wait that has passed."""

    by: Signal
    since: int
    phase: int


class Phases:
    """One mbarrier of one block. `index` numbers all of a cluster; `phase` counts those that are over."""

    def __init__(self, index: int, rank: int, name: str, slot: int, count: int) -> None:
        self.index, self.rank, self.count = index, rank, count
        self.what = f"{name}[{slot}]"
        self.phase, self.pending, self.bytes = 0, count, 0
        self.into = Know()  # what the arrivals of this phase publish
        self.over = Know()  # what phases that are over have published
        self.init: Signal | None = None
        self.since = 0  # the event of its initialisation
        self.fenced = False
        self.waits: list[_Seen] = []
        self.last = ""  # pointer of the last arrival
        self._landed: Know | None = None

    # -- initialisation ---------------------------------------------------------------------------------------------
    def start(self, s: Signal) -> Iterator[Fault]:
        """mbarrier.init."""
        if self.init is not None:
            yield s.fault("AMK310", f"{self.what} is initialised a second time", "initialise each mbarrier once")
        elif s.active.bit_count() != 1:
            message = f"{s.active.bit_count()} threads initialise {self.what}"
            yield s.fault("AMK310", message, "let one thread do it, under `if t == 0`")
        s.strand.tick()
        self.init, self.since, self.fenced = s, s.strand.now, False

    def usable(self, s: Signal, *, fence: bool) -> Iterator[Fault]:
        """Faults of a use that does not know of the initialisation. `fence`: by the asynchronous proxy or a peer."""
        first = self.init
        if first is None:
            hint = "initialise it by mbarrier.init, then a fence and a barrier, before anyone uses it"
            yield s.fault("AMK310", f"{s.who} uses {self.what} of block {self.rank}, which is not initialised", hint)
            return
        if self.phase and s.strand.phase(s.active, self.index):
            return
        unaware = self._unaware(s, first)
        if unaware or (fence and not self.fenced):
            s = s._replace(active=unaware or s.active)
            why = "before it knows that it is initialised" if unaware else 'before a fence ("mbarrier_init") made it so'
            related = (Second(first.pointer, "the initialisation"),)
            hint = (
                'let the initialising thread fence ("mbarrier_init"), and everyone pass a barrier, before the first use'
            )
            yield s.fault("AMK310", f"{s.who} uses {self.what} {why} for it", hint, related)

    def _unaware(self, s: Signal, first: Signal) -> int:
        """The active threads that need not know of the initialisation; a warp barrier tells its own warp of it."""
        if s.strand.knows(s.active, first.strand.index, self.since):
            return 0
        if self.fenced and s.strand.has_seen(s.active, first.strand.index, self.since):
            return 0
        own = first.active | s.strand.synced(self.since) & first.warp if first.strand is s.strand else 0
        return s.active & ~own

    # -- arrivals ---------------------------------------------------------------------------------------------------
    def arrive(self, s: Signal, count: int, expected: int, know: Know) -> Iterator[Fault]:
        """`count` arrivals that expect so many bytes together."""
        yield from self._timely(s, "arrives on")
        self.last = s.pointer
        self.pending -= count
        self.bytes += expected
        self.into.join(know)
        if self.pending < 0:
            came = self.count - self.pending
            message = f"{self.what} gets {came} arrivals in phase {self.phase}, and is declared for {self.count}"
            yield s.fault("AMK310", message, "declare as many arrivals as there are, or let fewer threads arrive")
        yield from self._settle()

    def land(self, s: Signal, size: int, know: Know) -> Iterator[Fault]:
        """A copy of `size` bytes has landed: that its issuer came so far has happened, but hands over no memory."""
        yield from self._timely(s, "lets a copy complete on")
        if know is not self._landed:  # several copies of one moment
            self.into.join(know)
            self._landed = know
        self.bytes -= size
        yield from self._settle()

    def _timely(self, s: Signal, does: str) -> Iterator[Fault]:
        if s.strand.phase(s.active, self.index) < self.phase:
            message = (
                f"{s.who} {does} {self.what} for phase {self.phase} and need not know that phase {self.phase - 1} "
                f"is over: it could count for that one"
            )
            yield s.fault("AMK310", message, "wait for the phase before, or for something that follows it")

    def _settle(self) -> Iterator[Fault]:
        if self.pending or self.bytes:
            return
        for w in self.waits:
            if w.phase == self.phase - 1 and w.by.active & ~covering(self.into.seen, w.by.strand.index, w.since):
                message = (
                    f"phase {self.phase} of {self.what} can be over before {w.by.who} has seen phase {w.phase}: with "
                    f"one bit of parity it then waits for the wrong one"
                )
                related = (Second(self.last, "the arrival that ends it"),) if self.last else ()
                yield w.by.fault("AMK310", message, "let it tell the arriver that it has seen the phase", related)
        self.waits = [w for w in self.waits if w.phase >= self.phase]
        self.phase += 1
        self.into.bars[self.index] = self.into.past[self.index] = self.phase
        self.over.join(self.into)
        self.into, self.pending, self._landed = Know(), self.count, None

    # -- waits ------------------------------------------------------------------------------------------------------
    def passes(self, parity: int) -> bool:
        """Whether a wait for a parity goes on: the last phase that is over has it."""
        return self.phase & 1 != parity

    def passed(self, s: Signal) -> Iterator[Fault]:
        """A wait that goes on learns what the phases that are over have published."""
        if s.strand.phase(s.active, self.index) < self.phase - 1:
            message = (
                f"{s.who} waits for phase {self.phase - 1} of {self.what} and need not know that phase "
                f"{self.phase - 2} is over: the parity of phase {self.phase - 3} is the same"
            )
            yield s.fault("AMK310", message, "wait for each phase in turn")
        s.strand.learn(s.active, self.over)
        self.waits.append(_Seen(s, s.strand.now, self.phase - 1))
        s.strand.tick()

    def missing(self) -> str:
        """What the phase under way waits for, in words."""
        parts = []
        if self.pending:
            parts.append(f"{self.pending} of {self.count} arrivals")
        if self.bytes:
            parts.append(f"{self.bytes} bytes" if self.bytes > 0 else f"an expectation of {-self.bytes} bytes")
        return " and ".join(parts) + " missing"


class Meeting:
    """A block, named or cluster barrier: complete once `need` threads have come. `index` counts among mbarriers."""

    def __init__(self, index: int, what: str, need: int) -> None:
        self.index, self.what, self.need = index, what, need
        self.over, self.come = 0, 0
        self.into = Know()
        self.known: list[Know] = []  # by round that is over
        self.first = ""  # pointer of the first arrival under way

    def arrive(self, s: Signal, know: Know) -> Iterator[Fault]:
        """The active threads come."""
        if s.strand.phase(s.active, self.index) < self.over:
            message = (
                f"{s.who} comes to use {self.over + 1} of {self.what}, and need not know that the last one is over: "
                f"it could count for that one"
            )
            yield s.fault("AMK310", message, "let it wait for the barrier too, or use another one")
        if not self.come:
            self.first = s.pointer
        self.come += s.active.bit_count()
        self.into.join(know)
        if self.come > self.need:
            message = f"{self.what} is for {self.need} threads, and {self.come} come before it is over"
            related = (Second(self.first, "the first of them"),)
            yield s.fault(
                "AMK310", message, "let the counts say how many threads come, the same at every place", related
            )
        if self.come >= self.need:
            self.over, self.come = self.over + 1, 0
            self.into.past[self.index] = self.over
            self.known.append(self.into)
            self.into = Know()
