"""Every interleaving of a small ring of mbarriers, state by state: the oracle of the ordering engine.

A ring is a program of operations for each of its roles, the same in every iteration. One role is the producer, whose
copies land at any time after they were issued; roles that drain read slots. It shares nothing with the engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Op", "Ring", "fault"]

BYTES = 128


class Op(NamedTuple):
    """wait, arrive (the producer's on `full` expects the bytes of one copy), copy or read, `ahead` slots on."""

    kind: str
    bar: str = ""
    flip: int = 0
    ahead: int = 0


class Ring(NamedTuple):
    """`roles[0]` produces; `counts` are the arrivals that full and empty are declared for."""

    slots: int
    counts: tuple[int, int]
    roles: tuple[tuple[Op, ...], ...]


class _Bar(NamedTuple):
    phase: int
    pending: int
    bytes: int


State = tuple[tuple[int, ...], tuple[_Bar, ...], tuple[int, ...], tuple[tuple[int, int], ...]]


class Faulty(Exception):
    """Something went wrong on some path."""


def fault(ring: Ring, trips: int) -> str:
    """What can go wrong in a number of iterations, or ''."""
    full, empty = ring.counts
    bars = tuple(_Bar(0, n, 0) for n in (full, empty) for _ in range(ring.slots))
    first: State = ((0,) * len(ring.roles), bars, (0,) * ring.slots, ())
    seen, todo = {first}, [first]
    while todo:
        state = todo.pop()
        try:
            following = list(_steps(ring, trips, state))
        except Faulty as e:
            return str(e)
        if not following:
            if any(at < trips * len(ops) for at, ops in zip(state[0], ring.roles, strict=True)):
                return "deadlock"
            continue
        new = [s for s in following if s not in seen]
        seen.update(new)
        todo += new
    return ""


def _steps(ring: Ring, trips: int, state: State) -> Iterator[State]:
    places, bars, landed, flying = state
    for i, (slot, bar) in enumerate(flying):  # a copy lands
        now = list(landed)
        now[slot] = 1
        yield places, _settled(ring, bars, bar, 0, -BYTES), tuple(now), flying[:i] + flying[i + 1 :]
    waiting = [_next(ring, trips, places, role) for role in range(len(ring.roles))]
    _races(ring, waiting, bars, flying)
    for role, found in enumerate(waiting):
        if found is None:
            if flying and all(w is None for w in waiting):
                raise Faulty("exit with a copy in flight")
            continue
        op, slot, parity = found
        moved = (*places[:role], places[role] + 1, *places[role + 1 :])
        bar = slot + (ring.slots if op.bar == "empty" else 0)
        if op.kind == "wait":
            if bars[bar].phase % 2 != parity:
                yield moved, bars, landed, flying
        elif op.kind == "arrive":
            expected = BYTES if role == 0 and op.bar == "full" else 0
            yield moved, _settled(ring, bars, bar, 1, expected), landed, flying
        elif op.kind == "copy":
            yield moved, bars, landed, tuple(sorted((*flying, (slot, slot))))
        else:
            if not landed[slot]:
                raise Faulty("read of what nothing has written")
            yield moved, bars, landed, flying


def _next(ring: Ring, trips: int, places: tuple[int, ...], role: int) -> tuple[Op, int, int] | None:
    ops = ring.roles[role]
    if places[role] >= trips * len(ops):
        return None
    i, at = divmod(places[role], len(ops))
    op = ops[at]
    return op, (i + op.ahead) % ring.slots, (i // ring.slots + op.flip) % 2


def _races(
    ring: Ring, waiting: list[tuple[Op, int, int] | None], bars: tuple[_Bar, ...], flying: tuple[tuple[int, int], ...]
) -> None:
    """Accesses that nothing orders can come at once: both are next, or one is in flight."""
    copies = [slot for slot, _ in flying]
    reads = []
    for found in waiting:
        if found is not None and found[0].kind == "copy":
            copies.append(found[1])
        elif found is not None and found[0].kind == "read":
            reads.append(found[1])
    if len(set(copies)) < len(copies):
        raise Faulty("two copies into one slot")
    if set(copies) & set(reads):
        raise Faulty("a copy into a slot that is read")


def _settled(ring: Ring, bars: tuple[_Bar, ...], bar: int, arrivals: int, size: int) -> tuple[_Bar, ...]:
    b = bars[bar]
    pending, left = b.pending - arrivals, b.bytes + size
    if pending < 0:
        raise Faulty("more arrivals than a phase takes")
    count = ring.counts[0 if bar < ring.slots else 1]
    new = _Bar(b.phase + 1, count, 0) if pending == left == 0 else _Bar(b.phase, pending, left)
    return (*bars[:bar], new, *bars[bar + 1 :])
