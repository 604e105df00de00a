"""The barrier epoch: what happened since the last block barrier, and the one race rule.

Strands are warps, each with a clock that a warp barrier advances; a block barrier joins all of them, which starts a new
epoch. Asynchronous copies are counters of groups: a copy is in flight from its issue until a wait retires its group
(it is then a write of its own thread) and is visible to other threads after the next block barrier.
Source: PTX ISA, memory consistency model and cp.async.wait_group; barrier intervals as in GPUVerify (Betts et al.,
OOPSLA 2012); clocks as in FastTrack (Flanagan and Freund, PLDI 2009).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from amk.harness.events import Program
from amk.harness.faults import Fault, Second
from amk.harness.footprint import Footprint
from amk.harness.masks import bits

__all__ = ["Epoch", "Flight", "Run", "conflict"]

_PLAIN = {"r": "reads", "w": "writes", "a": "updates atomically", "c": "copies (cp.async) into", "l": "copied into"}


class Run:
    """What consecutive statements without an ordering point touch, in program order."""

    def __init__(self) -> None:
        self.parts: list[Footprint] = []
        self.reads = self.writes = self.atomics = self.copies = self.touched = 0
        self.need = 0  # cells that must be initialised before
        self.made = 0  # cells that are initialised after
        self.faults: list[Fault] = []

    def add(self, f: Footprint) -> None:
        """Takes one footprint into the masks."""
        self.parts.append(f)
        self.touched |= f.mask
        if f.mode in "ra":
            self.need |= f.mask & ~self.made
        if f.mode == "r":
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
        mine, theirs = self.writes | self.copies, other.writes | other.copies
        return mine & other.touched | theirs & self.touched | self.atomics & other.reads | self.reads & other.atomics

    @cached_property
    def issued(self) -> list[Footprint]:
        """Its asynchronous copies."""
        return [f for f in self.parts if f.mode == "c"]

    @cached_property
    def landed(self) -> Run:
        """Its asynchronous copies as the writes that they are once their group is retired."""
        out = Run()
        for f in self.issued:
            out.add(f._replace(mode="l"))
        return out


class Flight:
    """The asynchronous copies of a run; `group` is None while their group is open."""

    __slots__ = ("env", "group", "run")

    def __init__(self, run: Run, env: Mapping[str, int]) -> None:
        self.run, self.env = run, env
        self.group: int | None = None


class Record(NamedTuple):
    """A run that happened in this epoch, with the warps' clocks at that time."""

    run: Run
    clocks: tuple[int, ...]
    env: Mapping[str, int]


def conflict(a: Footprint, b: Footprint, synced: int, same: bool = False) -> tuple[int, int, int] | None:
    """The first cell two footprints fight over, with a thread of each; `synced` are threads ordered inside their warp.

    `same` also counts a thread against itself (an asynchronous copy is not ordered with its own thread).
    """
    if a.mode == b.mode and a.mode in "ra":
        return None
    for cell in bits(a.mask & b.mask):
        first, second = a.owner(cell), b.owner(cell)
        for t in bits(first):
            others = second if same else second & ~(1 << t)
            if others and synced >> t & 1:
                others &= ~(0xFFFFFFFF << (t & ~31))
            if others:
                return cell, t, next(bits(others))
    return None


class Epoch:
    """The state of one block between two block barriers."""

    def __init__(self, program: Program) -> None:
        self.p = program
        self.clocks = [0] * -(-program.threads // 32)
        self.records: list[Record] = []
        self.flight: list[Flight] = []
        self.groups = 0
        self.waits = ""  # pointer of the last wait
        self.pending = 0
        self.init = 0

    # -- events -----------------------------------------------------------------------------------------------------
    def apply(self, run: Run, env: Mapping[str, int]) -> Iterator[Fault]:
        """A run happens: its faults against everything not ordered before it."""
        yield from run.faults
        clocks = tuple(self.clocks)
        same = (i for i, r in enumerate(self.records) if r.run is run and r.clocks == clocks)
        known = next(same, -1)
        yield from self._races(run, env, known + 1)
        if known < 0:
            self.records.append(Record(run, clocks, env))
        yield from self._landing(run, env)
        yield from self._uninitialised(run, env)
        self.init |= run.made
        if run.copies:
            self.flight.append(Flight(run, env))

    def block(self) -> None:
        """A barrier of the whole block."""
        self.records.clear()

    def warps(self, active: int) -> None:
        """A warp barrier of the active (whole) warps."""
        for w in range(len(self.clocks)):
            self.clocks[w] += active >> 32 * w & 1

    def commit(self) -> None:
        """Closes the open group."""
        self.groups += 1
        for c in self.flight:
            if c.group is None:
                c.group = self.groups

    def wait(self, pending: int, pointer: str) -> None:
        """Retires all but the `pending` newest groups: their copies are now writes of their threads."""
        self.waits, self.pending = pointer, pending
        done = [c for c in self.flight if c.group is not None and c.group <= self.groups - pending]
        if not done:
            return
        self.flight = [c for c in self.flight if c.group is None or c.group > self.groups - pending]
        clocks = tuple(self.clocks)
        for c in done:
            self.records.append(Record(c.run.landed, clocks, c.env))
            self.init |= c.run.landed.made

    # -- checks -----------------------------------------------------------------------------------------------------
    def _races(self, run: Run, env: Mapping[str, int], since: int) -> Iterator[Fault]:
        for r in self.records[since:]:
            if not run.clash(r.run):
                continue
            synced = self._synced(r.clocks)
            for old in r.run.parts:
                for new in run.parts:
                    if old.mode != "c" and old.mask & new.mask and (hit := conflict(old, new, synced)):
                        yield self.race(old, new, hit, r.env, env)

    def _synced(self, clocks: tuple[int, ...]) -> int:
        out = 0
        for w, (then, now) in enumerate(zip(clocks, self.clocks, strict=True)):
            if now > then:
                out |= 0xFFFFFFFF << 32 * w
        return out

    def _landing(self, run: Run, env: Mapping[str, int]) -> Iterator[Fault]:
        for c in self.flight:
            if not c.run.copies & run.touched:
                continue
            for part in c.run.issued:
                for f in run.parts if part.mask & run.touched else ():
                    if f.mask & part.mask and (hit := conflict(part, f, 0, same=True)):
                        yield self.in_flight(c, part, f, hit, env)

    def _uninitialised(self, run: Run, env: Mapping[str, int]) -> Iterator[Fault]:
        lost = run.need & ~self.init
        if not lost:
            return
        for c in self.flight:
            lost &= ~c.run.copies  # reported as read before it landed
        if not lost:
            return
        cell = next(bits(lost))
        f = next(x for x in run.parts if x.mode in "ra" and x.mask >> cell & 1)
        t, byte = next(bits(f.owner(cell))), cell * self.p.cell
        yield Fault(
            "AMK206", f.pointer,
            f"thread {t} reads {f.text}, byte {byte} of shared memory ('{self.p.owner(cell)}'), which nothing has "
            f"surely written before", _point(env, f, t, None, byte),
            hint="let every thread fill its part, zeros where there is no data, and put the barrier after it",
        )  # fmt: skip

    # -- words ------------------------------------------------------------------------------------------------------
    def race(
        self, old: Footprint, new: Footprint, hit: tuple[int, int, int], then: Mapping[str, int], env: Mapping[str, int]
    ) -> Fault:
        """Two accesses that nothing orders."""
        cell, t, t2 = hit
        byte, buffer = cell * self.p.cell, self.p.owner(cell)
        if old.mode == "l":
            return self._invisible(old, new, hit, env)
        code = "AMK306" if "a" in (old.mode, new.mode) and old.mode != new.mode else "AMK301"
        loops, hint = _between(then, env, old, new)
        message = (
            f"thread {t} {_PLAIN[old.mode]} {old.text} and thread {t2} {_PLAIN[new.mode]} {new.text}{loops}: both "
            f"touch byte {byte} of shared memory ('{buffer}') and no barrier is between"
        )
        note = f"thread {t} {_PLAIN[old.mode]} {old.text} here{_said(then)}"
        return Fault(code, new.pointer, message, _point(env, new, t2, t, byte), (Second(old.pointer, note),), hint)

    def _invisible(self, old: Footprint, new: Footprint, hit: tuple[int, int, int], env: Mapping[str, int]) -> Fault:
        cell, t, t2 = hit
        byte = cell * self.p.cell
        message = (
            f"thread {t2} {_PLAIN[new.mode]} {new.text}, byte {byte} of shared memory ('{self.p.owner(cell)}'), which "
            f"thread {t} copied there with cp.async: its own wait is done, but no block barrier has made the copy "
            f"visible to other threads"
        )
        seconds = (Second(old.pointer, f"thread {t} issues the copy here"), Second(self.waits, "the wait"))
        hint = "put a block barrier between the wait and this access"
        return Fault("AMK303", new.pointer, message, _point(env, new, t2, t, byte), seconds, hint)

    def in_flight(
        self, c: Flight, part: Footprint, f: Footprint, hit: tuple[int, int, int], env: Mapping[str, int]
    ) -> Fault:
        """An access to what a copy is still writing."""
        cell, t, t2 = hit
        byte = cell * self.p.cell
        message = (
            f"thread {t2} {_PLAIN[f.mode]} {f.text}, byte {byte} of shared memory ('{self.p.owner(cell)}'), while the "
            f"cp.async of thread {t} into it has not landed: {self._state(c)}"
        )
        seconds = [Second(part.pointer, f"thread {t} issues the copy here{_said(c.env)}")]
        if self.waits:
            seconds.append(Second(self.waits, f"the last wait leaves up to {self.pending} groups unfinished"))
        hint = "commit before the wait, one commit an iteration (empty groups count), and wait for fewer pending groups"
        return Fault("AMK303", f.pointer, message, _point(env, f, t2, t, byte), tuple(seconds), hint)

    def _state(self, c: Flight) -> str:
        if c.group is None:
            return "its group is not committed yet, so no wait can cover it"
        if not self.waits:
            return f"it is in group {c.group} of {self.groups} and nothing waits for it"
        return f"it is in group {c.group} of {self.groups} committed, and the last wait leaves {self.pending} pending"


def _point(env: Mapping[str, int], f: Footprint, t: int, t2: int | None, byte: int) -> dict[str, int]:
    out = {n: v for n, v in env.items() if "#" not in n and type(v) is int} | dict(f.env) | {"t": t}
    return out | ({} if t2 is None else {"t2": t2}) | {"byte": byte}


def _said(env: Mapping[str, int]) -> str:
    loops = [f"{n} = {v}" for n, v in env.items() if n.startswith("#")]
    return f" ({', '.join(loops).replace('#', '')})" if loops else ""


def _between(then: Mapping[str, int], env: Mapping[str, int], old: Footprint, new: Footprint) -> tuple[str, str]:
    """How the two stand in the loops around them, and which barrier would order them."""
    moved = [n[1:] for n, v in env.items() if n.startswith("#") and then.get(n, v) != v]
    if moved:
        n = moved[0]
        where = f" (in iterations {n} = {then['#' + n]} and {n} = {env['#' + n]})"
        return where, f"a block barrier at the end of the body of the loop over {n} cures it"
    if old.pointer == new.pointer:
        return "", "let each element have one writer"
    return "", f"a block barrier between {old.pointer} and {new.pointer} cures it"
