"""The shared memory of one block: who has touched what, what is in flight, and the one race rule.

An access is over for a thread that knows the event it was: the count of its strand (ordinary accesses, and asynchronous
ones whose group a wait has retired), or the phase of the mbarrier on which it completes. Two accesses that conflict
must be ordered by such knowledge; an access through the asynchronous proxy must also know that ordinary writes before
it are fenced. Groups of a queue are counters: `commit` closes one, `wait` retires all but the newest, oldest first.
Source: PTX ISA, memory consistency model, asynchronous operations and proxies; `docs/soundness.md`, lemmas 2 and 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from amk.harness.events import Program
from amk.harness.faults import Fault
from amk.harness.footprint import Footprint
from amk.harness.knowledge import Know, covering
from amk.harness.masks import bits
from amk.harness.strand import Strand
from amk.harness.touched import Hit, Run, apart, conflict, crossing
from amk.harness.wording import Access, InFlight, in_flight, overtaken, race, unfenced, uninitialised

__all__ = ["Flight", "Memory", "Record"]

Env = Mapping[str, int]
_ALL = -1  # every thread, as a set


class Record:
    """An access that happened: event `count` of a strand, or over with phase `phase` of mbarrier `bar`.

    `proxy`: through the asynchronous proxy; `together`: an event of whole warps, known to each of their threads.
    """

    __slots__ = ("bar", "count", "env", "phase", "proxy", "run", "strand", "together")

    def __init__(
        self, run: Run, strand: Strand, env: Env, *, proxy: bool = False, bar: int = -1, phase: int = 0,
        together: bool = False,
    ) -> None:  # fmt: skip
        self.run, self.strand, self.count, self.env = run, strand, strand.now, env
        self.proxy, self.bar, self.phase, self.together = proxy, bar, phase, together

    @property
    def access(self) -> tuple[Env, int]:
        return self.env, self.strand.rank


class Flight:
    """Asynchronous accesses of a queue by the active threads of a strand; `group` is None while their group is open."""

    __slots__ = ("active", "env", "group", "queue", "registers", "run", "strand")

    def __init__(
        self, run: Run, strand: Strand, active: int, env: Env, queue: str, registers: frozenset[str] = frozenset()
    ) -> None:
        self.run, self.strand, self.active, self.env, self.queue = run, strand, active, env, queue
        self.registers = registers  # that the work owns
        self.group: int | None = None

    @property
    def parts(self) -> list[int]:
        return [i for i, f in enumerate(self.run.parts) if self.queue != "cp_async" or f.mode == "c"]


class Memory:
    """Of the block of one rank. `keeps`: what a block barrier orders may still matter, to a proxy or to a peer."""

    def __init__(self, program: Program, rank: int, keeps: bool) -> None:
        self.p, self.rank, self.keeps = program, rank, keeps
        self.records: list[Record] = []
        self.flight: list[Flight] = []
        self.init = 0

    # -- events -----------------------------------------------------------------------------------------------------
    def apply(self, strand: Strand, active: int, run: Run, env: Env) -> Iterator[Fault]:
        """Ordinary accesses of a strand, with the cp.async copies among them."""
        yield from run.faults
        if run.touched:
            new = Record(run, strand, env)
            known = next((i for i, r in enumerate(self.records) if r.run is run and _same(r, new)), -1)
            yield from self._check(new, active, known + 1)
            if known < 0:
                self._keep(new)
            if run.copies:
                self.flight.append(Flight(run, strand, active, env, "cp_async"))
            self.init |= run.made

    def start(
        self, strand: Strand, active: int, run: Run, env: Env, queue: str, registers: frozenset[str] = frozenset()
    ) -> Iterator[Fault]:
        """Asynchronous accesses that complete with a group of a queue."""
        yield from run.faults
        yield from self._check(Record(run, strand, env, proxy=True), active)
        self.flight.append(Flight(run, strand, active, env, queue, registers))
        self.init |= run.made

    def deliver(
        self, strand: Strand, active: int, run: Run, env: Env, bar: int, phase: int, published: Know
    ) -> Iterator[Fault]:
        """Asynchronous writes that complete with a phase of an mbarrier, of which `published` is known already."""
        yield from run.faults
        new = Record(run, strand, env, proxy=True, bar=bar, phase=phase)
        yield from self._check(new, active)
        self._keep(new, published)
        self.init |= run.made

    def retire(self, done: list[Flight]) -> None:
        """Groups that a wait of their strand has retired: their accesses are now events of it."""
        gone = set(map(id, done))
        self.flight = [c for c in self.flight if id(c) not in gone]
        for c in done:
            run = c.run.landed if c.queue == "cp_async" else c.run
            proxy = c.queue != "cp_async"
            self._keep(Record(run, c.strand, c.env, proxy=proxy, together=c.queue == "wgmma"), replace=False)
            self.init |= run.made

    def barrier(self) -> None:
        """Every thread of the block has passed one barrier."""
        if not self.keeps:
            self.records.clear()

    def _keep(self, new: Record, published: Know | None = None, *, replace: bool = True) -> None:
        """Adds a record, and drops those that it makes needless.

        The same accesses by the same strand again: who knows the later ones to be over knows it of the earlier. What is
        overwritten whole: who knows the write to be over knows it of what was ordered before the write.
        """
        run, strand = new.run, new.strand
        kept = [
            r for r in self.records
            if r.run is not run or r.strand is not strand or r.bar != new.bar or r.proxy != new.proxy
        ]  # fmt: skip
        if replace and run.made:
            towards = run.towards
            kept = [r for r in kept if not (towards[r.run][1] and (published is None or _within(r, published)))]
        kept.append(new)
        self.records = kept

    # -- the rule ---------------------------------------------------------------------------------------------------
    def _check(self, new: Record, active: int, since: int = 0) -> Iterator[Fault]:
        towards = new.run.towards
        for r in [r for r in self.records[since:] if towards[r.run][0]]:
            yield from self._ordered(r, new, active)
        for c in self.flight:
            if towards[c.run][0]:
                yield from self._landing(c, new)
        yield from self._uninitialised(new)

    def _ordered(self, old: Record, new: Record, active: int) -> Iterator[Fault]:
        """Conflicts of a record with a new access that nothing orders after it, or no fence."""
        strand = new.strand
        if old.bar >= 0:
            known = _ALL if strand.landed(active, old.bar) > old.phase else 0
        else:
            known = strand.knows(active, old.strand.index, old.count, old.together)
        found = False
        if old.run.threads & ~known:
            for fault in self._conflicts(old, new, known):
                found = True
                yield fault
        if new.proxy and not old.proxy and not found and (old.run.writes | old.run.atomics) & new.run.touched:
            yield from self._unfenced(old, new, active)

    def _conflicts(self, old: Record, new: Record, known: int) -> Iterator[Fault]:
        mine = old.strand is new.strand and old.bar < 0
        synced = (_ALL if old.together else new.strand.synced(old.count)) if mine else 0
        key = (id(old.run), id(new.run), mine, synced, known)
        if key in self.p.peaceful:  # the same two runs come together in every round
            return
        hits = list(_hits(old.run, new.run, mine, synced, known))
        if not hits:
            self.p.peaceful[key] = old.run, new.run
        for a, b, hit in hits:
            yield self._race(Access(a, *old.access), Access(b, *new.access), hit, old, mine)

    def _race(self, a: Access, b: Access, hit: Hit, old: Record, mine: bool) -> Fault:
        if old.bar >= 0:
            return overtaken(self.p, a, b, hit)
        return race(self.p, a, b, hit, old.strand.waited("cp_async")[0], mine)

    def _unfenced(self, old: Record, new: Record, active: int) -> Iterator[Fault]:
        strand, count = new.strand, old.count
        fenced = strand.fenced(active, old.strand.index, count)
        if not old.run.threads & ~fenced:
            return
        lanes, itself = (strand.fenced_lanes(count), strand.fenced_itself(count)) if old.strand is strand else (0, 0)
        key = (id(old.run), id(new.run), fenced, lanes, itself)
        if key in self.p.peaceful:
            return
        for a in old.run.parts:
            for b in new.run.parts if a.mode in "wla" and a.pattern.threads & ~fenced else ():
                if not a.mask & b.mask or (not a.pattern.threads & ~lanes and apart(a, b)):
                    continue
                for cell in bits(a.mask & b.mask):
                    for t in bits(a.owner(cell) & ~fenced):
                        near = 1 << t & itself | (0xFFFFFFFF << (t & ~31) if lanes >> t & 1 else 0)
                        if others := b.owner(cell) & ~near:
                            hit = Hit(cell, t, next(bits(others)))
                            yield unfenced(self.p, Access(a, *old.access), Access(b, *new.access), hit)
                            return
        self.p.peaceful[key] = old.run, new.run

    def _landing(self, c: Flight, new: Record) -> Iterator[Fault]:
        wait, pending = c.strand.waited(c.queue)
        state = InFlight(c.group, c.strand.committed(c.queue, c.active), wait, pending)
        for i in c.parts:
            a = c.run.parts[i]
            for b in new.run.parts:
                if a.mask & b.mask:
                    mine = c.strand is new.strand
                    hit = conflict(a, b, 0, same=True) if mine else crossing(a, b, 0)
                    if hit:
                        old = Access(a, c.env, c.strand.rank)
                        yield in_flight(self.p, old, Access(b, *new.access), hit, state)

    def _uninitialised(self, new: Record) -> Iterator[Fault]:
        lost = new.run.need & ~self.init
        for c in self.flight if lost else ():
            lost &= ~c.run.copies  # reported as read before it landed
        if lost:
            cell = next(bits(lost))
            f = next(x for x in new.run.parts if x.mode in "raR" and x.mask >> cell & 1)
            yield uninitialised(self.p, Access(f, *new.access), cell)


def _hits(old: Run, new: Run, mine: bool, synced: int, known: int) -> Iterator[tuple[Footprint, Footprint, Hit]]:
    """The footprints of two runs that fight over a cell."""
    for a in old.parts:
        for b in new.parts if a.mode != "c" else ():
            if a.mask & b.mask:
                hit = conflict(a, b, synced, known=known) if mine else crossing(a, b, known)
                if hit:
                    yield a, b, hit


def _same(a: Record, b: Record) -> bool:
    """Whether nothing has been learnt between two events."""
    return a.strand is b.strand and a.count == b.count and a.bar == b.bar


def _within(r: Record, known: Know) -> bool:
    """Whether an access is part of what is known."""
    if r.bar >= 0:
        return known.bars.get(r.bar, 0) > r.phase
    return not r.run.threads & ~covering(known.done, r.strand.index, r.count, r.together)
