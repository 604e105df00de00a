"""What statements that order threads do: queues of asynchronous work, mbarriers, copies and wgmma, for one strand.

`active` are the threads that have come here; where they differ in an index or a parity, they are taken class by class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from amk.dsl.expr import Const, Expr, names
from amk.dsl.instructions import ROWS
from amk.harness.events import Env, Unsupported, Values
from amk.harness.faults import Fault, Second
from amk.harness.masks import Column, bits
from amk.harness.memory import Flight, Memory
from amk.harness.phases import Phases, Signal
from amk.harness.strand import Strand
from amk.harness.stretch import Narrowed, Stop, divergence, partial_group
from amk.harness.touched import Run
from amk.harness.wording import point

if TYPE_CHECKING:
    from amk.harness.cluster import Cluster

__all__ = ["Step", "Steps"]

_ZERO = Const(0)
Step = Iterator[None]
Classes = list[tuple[tuple[Any, ...], int]]  # values, and the threads that have them
Terms = Callable[["Steps", Any], tuple[Expr, ...]]


class _Plan(NamedTuple):
    """Of terms of a statement: how they follow the thread, their values without it, and threads by their values."""

    column: Column
    at: Values
    split: dict[tuple[int, tuple[Any, ...]], Classes]


class Steps:
    """One strand of one schedule. `waiting` are the threads for which it is paused."""

    def __init__(self, cluster: Cluster, strand: Strand, env: Env) -> None:
        self.cluster, self.strand, self.env = cluster, strand, env
        self.p, self.stretches = cluster.p, cluster.stretches
        self.memory: Memory = cluster.memory[strand.rank]
        self.narrowed: Narrowed = []
        self.unfenced = dict.fromkeys(self.p.owned, strand.threads)  # threads whose registers wgmma may not take yet
        self.arrived: dict[int, tuple[int, bool]] = {}  # by barrier come to: the round, and whether relaxed
        self.waiting, self.pointer, self.blocked, self.moved = 0, "", "", False
        self.here: Env | None = None  # the values around the strand, until they change

    def __str__(self) -> str:
        of = f" of block {self.strand.rank}" if self.p.kernel.cluster > 1 else ""
        return f"thread {next(bits(self.waiting))}{of}"

    def report(self, faults: Iterator[Fault]) -> None:
        """Keeps the faults of an event."""
        for f in faults:
            self.cluster.add(f, self.strand.rank)

    def around(self) -> Env:
        """The values around the strand, to keep."""
        found = self.here
        if found is None:
            found = self.here = dict(self.env)
        return found

    def signal(self, s: Any, active: int) -> Signal:
        return Signal(self.strand, active, self.p.pointers[id(s)], self.around())

    def until(self, s: Any, active: int, what: str) -> None:
        """Notes what the strand waits for."""
        self.waiting, self.pointer, self.blocked = active, self.p.pointers[id(s)], what

    def _together(self, s: Any, active: int, size: int, what: str, code: str) -> None:
        """Whole warps or warpgroups must have come."""
        if (g := partial_group(active, self.p.threads, size)) is not None:
            pointer = self.p.pointers[id(s)]
            raise Stop(divergence(self.p, code, what, pointer, active, self.env, self.narrowed, g, size))

    def do_fence(self, s: Any, active: int) -> None:
        if s.what == "async":
            self.strand.fence(active)
        elif s.what == "mbarrier_init":
            for b in self.cluster.phases.values():
                if b.init is not None and b.init.strand is self.strand and not b.init.active & ~active:
                    b.fenced = True
        else:
            self._together(s, active, 128, "the wgmma fence", "AMK305")
            self.unfenced = {n: threads & ~active for n, threads in self.unfenced.items()}
            self.strand.align(active)

    # -- queues -----------------------------------------------------------------------------------------------------
    def _mine(self, queue: str, active: int, s: Any) -> list[Flight]:
        """The work of active threads in a queue."""
        found = [c for c in self.memory.flight if c.strand is self.strand and c.queue == queue and c.active & active]
        if any(c.active & ~active for c in found):
            few = f"a {s.kind} on {queue} that only {active.bit_count()} of the threads reach that have work in it"
            raise Unsupported(few, self.p.pointers[id(s)])
        return found

    def do_commit(self, s: Any, active: int) -> None:
        if s.queue == "wgmma":
            self._together(s, active, 128, "the wgmma commit", "AMK305")
            self.strand.align(active)
        try:
            number = self.strand.commit(s.queue, active)
        except ValueError as e:
            raise Unsupported(f"a commit by {e}", self.p.pointers[id(s)]) from None
        for c in self._mine(s.queue, active, s):
            if c.group is None:
                c.group = number

    def do_wait(self, s: Any, active: int) -> Step | None:
        if s.barrier is not None:
            return self._wait_phase(s, active)
        if s.queue == "wgmma":
            self._together(s, active, 128, "the wgmma wait", "AMK305")
            self.strand.align(active)
        self.strand.wait(s.queue, self.p.pointers[id(s)], s.pending)
        self.strand.tick()
        # Each thread waits for its own groups: others that wait along, and have fewer or none, hold nothing up.
        mine = [c for c in self._mine(s.queue, active, s) if c.group is not None]
        committed = {c.active: self.strand.committed(s.queue, c.active) for c in mine}
        self.memory.retire([c for c in mine if c.group is not None and c.group <= committed[c.active] - s.pending])
        return None

    # -- mbarriers --------------------------------------------------------------------------------------------------
    def _classes(self, terms: Terms, active: int, s: Any) -> Classes:
        """Values of terms of a statement, each with the active threads that have them."""
        name = id(s), self.strand.rank
        plan: _Plan | None = self.p.plans.get(name)
        if plan is None:
            made = terms(self, s)
            for e in made:
                if why := self.p.data(e):
                    raise Unsupported(f"{e} depends on {why}", self.p.pointers[id(s)])
            column = self.p.columns(made)
            plan = self.p.plans[name] = _Plan(column, self.p.values(column.keys), {})
        column, at, split = plan
        values = at(self.env)
        found = split.get((active, values))
        if found is None:
            by: dict[tuple[Any, ...], int] = {}
            for held, (_, threads) in zip(column.at(values), column.classes, strict=True):
                if threads & active:
                    by[held] = by.get(held, 0) | threads & active
            found = split[active, values] = list(by.items())
        return found

    def _arrival(self, s: Any) -> tuple[Expr, ...]:
        rank = Const(self.strand.rank)
        peer = s.peer if s.peer is not None else rank
        return s.barrier.index[0], peer, s.bytes if s.bytes is not None else _ZERO

    def _peer(self, s: Any) -> tuple[Expr, ...]:
        return (s.peer,)

    def _parity(self, s: Any) -> tuple[Expr, ...]:
        return s.barrier.index[0], s.parity

    def _first(self, s: Any) -> tuple[Expr, ...]:
        return (s.refs["bar"].index[0],)

    def _completion(self, s: Any) -> tuple[Expr, ...]:
        peer = s.args.get("peer", Const(self.strand.rank))
        return s.refs["bar"].index[0], peer, s.args.get(ROWS[s.row].multicast, _ZERO)

    def _phases(self, s: Any, name: str, slot: int, rank: int, signal: Signal, *, fence: bool = False) -> Phases:
        """The mbarrier of a slot, which the active threads must know to be initialised."""
        found = self.cluster.phases.get((rank, name, slot))
        if found is None:
            count = next((b.slots for b in self.p.kernel.barriers if b.name == name), 0)
            have = f"'{name}' has {count} slots, and the cluster {self.p.kernel.cluster} blocks"
            message = f"{name}[{slot}] of block {rank}: {have}"
            raise Stop(signal.fault("AMK202", message, "check the index against the declared slots"))
        for f in found.usable(signal, fence=fence or rank != self.strand.rank):
            raise Stop(f)
        return found

    def do_arrive(self, s: Any, active: int) -> None:
        self.moved = True
        for (slot, to, size), threads in self._classes(Steps._arrival, active, s):
            signal = self.signal(s, threads)
            b = self._phases(s, s.barrier.buffer, slot, to, signal)
            know = self.strand.published(threads)
            if to != self.strand.rank:
                self._reaches(to, signal)
                self.cluster.remote.append((to, self.strand, self.strand.now - 1, None, signal.pointer))
            count = threads.bit_count()
            for f in b.arrive(signal, count, size * count, know):
                raise Stop(f)

    def _reaches(self, rank: int, signal: Signal) -> None:
        """A peer must be known to have started before it is reached."""
        if not self.cluster.started(rank, self.strand, signal.active):
            who = f"{signal.who} of block {self.strand.rank}"
            message = f"{who} reaches block {rank} of the cluster, which need not have started"
            raise Stop(
                signal.fault("AMK312", message, "let all blocks pass a cluster barrier first (relaxed is enough)")
            )

    def _remote(self, s: Any, active: int) -> None:
        """A load or store in the shared memory of another block."""
        for (rank,), threads in self._classes(Steps._peer, active, s):
            signal = self.signal(s, threads)
            if not 0 <= rank < self.p.kernel.cluster:
                message = f"{signal.who} reaches block {rank} of a cluster of {self.p.kernel.cluster}"
                raise Stop(signal.fault("AMK202", message, "keep the rank inside the cluster"))
            run = self.stretches.run((s,), threads, self.env, self.narrowed)
            if rank != self.strand.rank and run.touched:
                self._reaches(rank, signal)
                self.cluster.remote.append((rank, self.strand, self.strand.now, None, signal.pointer))
            self.report(self.cluster.memory[rank].apply(self.strand, threads, run, self.around()))

    do_load = do_store = _remote

    def _wait_phase(self, s: Any, active: int) -> Step:
        for (slot, parity), threads in self._classes(Steps._parity, active, s):
            signal = self.signal(s, threads)
            b = self._phases(s, s.barrier.buffer, slot, self.strand.rank, signal)
            if parity not in (0, 1):
                message = f"{signal.who} waits for parity {parity} of {b.what}, and a phase has parity 0 or 1"
                raise Stop(signal.fault("AMK310", message, "carry the parity as p ^ 1, not as a count"))
            while not b.passes(parity):
                self.until(s, threads, f"phase {b.phase} of {b.what}: {b.missing()}")
                yield
            self.moved = True
            for f in b.passed(signal):
                raise Stop(f)

    # -- instructions -----------------------------------------------------------------------------------------------
    def do_call(self, group: tuple[Any, ...], active: int) -> None:
        """An instruction that is an ordering point, or several wgmma of one group."""
        s = group[0]
        row = ROWS[s.row]
        self.moved = True
        if row.name == "mbarrier.init":
            for (slot,), threads in self._classes(Steps._first, active, s):
                signal, name = self.signal(s, threads), s.refs["bar"].buffer
                for f in self.cluster.phases[self.strand.rank, name, slot].start(signal):
                    raise Stop(f)
        elif row.completes == "barrier":
            self._copy(group, active)
        elif row.completes == "bulk":
            run = self.stretches.run(group, active, self.env, self.narrowed)
            self.report(self.memory.start(self.strand, active, run, self.around(), "bulk"))
        else:
            self._multiply(group, active)

    def _copy(self, group: tuple[Any, ...], active: int) -> None:
        """A copy into shared memory of this block, a peer, or several blocks, that completes on mbarriers there."""
        s = group[0]
        row = ROWS[s.row]
        for (slot, to, ranks), threads in self._classes(Steps._completion, active, s):
            signal = self.signal(s, threads)
            run = self.stretches.run(group, threads, self.env, self.narrowed, role="dst")
            size = sum(o.dense for x in group for o in self.p.operands(x) if o.role == "dst") * threads.bit_count()
            for rank in bits(ranks) if row.multicast else (to,):
                self._deliver(s, signal, run, rank, slot, size)
            if any(o.role == "src" for o in self.p.operands(s)):
                source = self.stretches.run(group, threads, self.env, self.narrowed, role="src")
                b = self.cluster.phases[to, s.refs["bar"].buffer, slot]
                self.report(
                    self.memory.deliver(self.strand, threads, source, self.around(), b.index, b.phase - 1, b.over)
                )

    def _deliver(self, s: Any, signal: Signal, run: Run, rank: int, slot: int, size: int) -> None:
        b = self._phases(s, s.refs["bar"].buffer, slot, rank, signal, fence=True)
        if rank != self.strand.rank:
            self._reaches(rank, signal)
            self.cluster.remote.append((rank, self.strand, b.phase, b, signal.pointer))
        memory, into = self.cluster.memory[rank], b.into
        self.report(memory.deliver(self.strand, signal.active, run, self.around(), b.index, b.phase, into))
        for f in b.land(signal, size, self.strand.history(signal.active)):
            raise Stop(f)

    def _multiply(self, group: tuple[Any, ...], active: int) -> None:
        """Consecutive wgmma on the same registers."""
        s = group[0]
        self._together(s, active, 128, s.row, "AMK305")
        for x in group:
            self._even(x, active)
        owned = frozenset().union(*map(self.p.touches, group))
        for name in owned:
            if self.unfenced[name] & active:
                signal = self.signal(s, active)
                message = f"{s.row} takes '{name}', which {signal.who} has touched since the last wgmma fence"
                raise Stop(signal.fault("AMK311", message, 'put a fence ("wgmma") before the first wgmma that follows'))
        run = self.stretches.run(group, active, self.env, self.narrowed)
        self.report(self.memory.start(self.strand, active, run, self.around(), "wgmma", owned))
        self.strand.align(active)

    def _even(self, s: Any, active: int) -> None:
        """What says whether the old sums count is the same for a whole warpgroup."""
        e = s.args.get("scale_d")
        if e is None or isinstance(e, Const):
            return
        why, hint = self.p.data(e), "let it depend on the warpgroup (t // 128) and not on the thread or on data"
        signal = self.signal(s, active)
        if why:
            message = f"scale_d = {e} depends on {why} and is not known to be the same in a warpgroup"
            raise Stop(signal.fault("AMK317", message, hint))
        if not self.p.thread_dependent(e):
            return
        if names(self.p.inline(e)) != {"t"}:  # other values than those that are walked could tell threads apart
            raise Stop(signal.fault("AMK317", f"scale_d = {e} is not known to be the same in a warpgroup", hint))
        if partial_group(self.p.chosen(e, active, self.env), self.p.threads, 128) is not None:
            raise Stop(signal.fault("AMK317", f"scale_d = {e} differs between threads of one warpgroup", hint))

    def _touched(self, name: str, active: int, pointer: str) -> None:
        """An ordinary statement touches registers that wgmma owns while in flight."""
        self.unfenced[name] |= active
        for c in self.memory.flight:
            if c.strand is self.strand and name in c.registers and c.active & active:
                t = next(bits(c.active & active))
                message = f"thread {t} touches '{name}' while a wgmma that works on it is in flight"
                related = (Second(c.run.parts[0].pointer, "the wgmma"),) if c.run.parts else ()
                hint = "wait for its group first: `wait` on the queue wgmma"
                raise Stop(Fault("AMK311", pointer, message, point(self.env) | {"t": t}, related, hint))
