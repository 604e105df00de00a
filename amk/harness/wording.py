"""What went wrong in shared memory, in words: both places, both threads, the iterations, the byte, and a cure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from amk.harness.events import Program
from amk.harness.faults import Fault, Second
from amk.harness.footprint import Footprint
from amk.harness.masks import bits
from amk.harness.touched import Hit

__all__ = ["Access", "InFlight", "in_flight", "overtaken", "point", "race", "unfenced", "uninitialised"]

_PLAIN = {
    "r": "reads", "w": "writes", "a": "updates atomically", "c": "copies (cp.async) into", "l": "copied into",
    "R": "lets the asynchronous proxy read", "W": "copies (asynchronously) into",
}  # fmt: skip


class Access(NamedTuple):
    """One side of a fault: a footprint, the values around it, and the rank of its thread's block in the cluster."""

    touch: Footprint
    env: Mapping[str, int]
    rank: int = 0


class InFlight(NamedTuple):
    """How far the groups of a queue are: the access's group (None: open), those committed, the last wait."""

    group: int | None
    groups: int
    wait: str
    pending: int


def race(p: Program, old: Access, new: Access, hit: Hit, wait: str, one: bool) -> Fault:
    """Two accesses that nothing orders. `one`: of one strand, so that a barrier between them is the cure."""
    if old.touch.mode == "l":
        return _invisible(p, old, new, hit, wait)
    modes = old.touch.mode, new.touch.mode
    code = "AMK306" if "a" in modes and modes[0] != modes[1] else "AMK301"
    loops, hint = _between(old.env, new.env, old.touch, new.touch)
    if not one:
        hint = "let an arrival of the first, and a wait of the second for it, stand between them"
    message = (
        f"{_who(p, old, hit.first)} {_PLAIN[modes[0]]} {old.touch.text} and {_who(p, new, hit.second)} "
        f"{_PLAIN[modes[1]]} {new.touch.text}{loops}: both touch {_byte(p, hit)} and "
        f"{'no barrier is between' if one else 'nothing orders one before the other'}"
    )
    note = f"{_who(p, old, hit.first)} {_PLAIN[modes[0]]} {old.touch.text} here{_said(old.env)}"
    at = _point(new, hit.second, hit.first, hit.cell * p.cell)
    return Fault(code, new.touch.pointer, message, at, (Second(old.touch.pointer, note),), hint)


def overtaken(p: Program, old: Access, new: Access, hit: Hit) -> Fault:
    """An access to what is copied on an mbarrier whose phase the thread has not waited for."""
    message = (
        f"{_who(p, new, hit.second)} {_PLAIN[new.touch.mode]} {new.touch.text}, {_byte(p, hit)}, and has not "
        f"waited for the mbarrier on which the copy of {_who(p, old, hit.first)} into it completes"
    )
    seconds = (Second(old.touch.pointer, f"{_who(p, old, hit.first)} issues the copy here{_said(old.env)}"),)
    at = _point(new, hit.second, hit.first, hit.cell * p.cell)
    hint = "wait for the phase of that mbarrier first, with the parity of this use of the slot"
    return Fault("AMK303", new.touch.pointer, message, at, seconds, hint)


def unfenced(p: Program, old: Access, new: Access, hit: Hit) -> Fault:
    """An ordinary write that the asynchronous proxy need not see."""
    message = (
        f"{_who(p, old, hit.first)} {_PLAIN[old.touch.mode]} {old.touch.text}, and {_who(p, new, hit.second)} "
        f"{_PLAIN[new.touch.mode]} {new.touch.text}: {_byte(p, hit)} was written by an ordinary access, and no "
        f"fence makes it visible to the asynchronous proxy"
    )
    seconds = (Second(old.touch.pointer, f"{_who(p, old, hit.first)} writes it here{_said(old.env)}"),)
    at = _point(new, hit.second, hit.first, hit.cell * p.cell)
    hint = 'put a fence ("async") after the write and before the barrier or arrival that hands it over'
    return Fault("AMK309", new.touch.pointer, message, at, seconds, hint)


def uninitialised(p: Program, new: Access, cell: int) -> Fault:
    """A read of what nothing has surely written."""
    f = new.touch
    t, byte = next(bits(f.owner(cell))), cell * p.cell
    return Fault(
        "AMK206", f.pointer,
        f"{_who(p, new, t)} {_PLAIN[f.mode]} {f.text}, byte {byte} of shared memory ('{p.owner(cell)}'), which nothing "
        f"has surely written before", _point(new, t, None, byte),
        hint="let every thread fill its part, zeros where there is no data, and put the barrier after it",
    )  # fmt: skip


def in_flight(p: Program, old: Access, new: Access, hit: Hit, state: InFlight) -> Fault:
    """An access to what asynchronous work of a queue is still writing or reading."""
    f, what = new.touch, {"c": "cp.async", "R": "asynchronous read"}.get(old.touch.mode, "asynchronous copy")
    where = "of" if old.touch.mode == "R" else "into"
    message = (
        f"{_who(p, new, hit.second)} {_PLAIN[f.mode]} {f.text}, {_byte(p, hit)}, while the {what} of "
        f"{_who(p, old, hit.first)} {where} it has not {'ended' if where == 'of' else 'landed'}: {_state(state)}"
    )
    seconds = [Second(old.touch.pointer, f"{_who(p, old, hit.first)} issues it here{_said(old.env)}")]
    if state.wait:
        seconds.append(Second(state.wait, f"the last wait leaves up to {state.pending} groups unfinished"))
    hint = "commit before the wait, one commit an iteration (empty groups count), and wait for fewer pending groups"
    at = _point(new, hit.second, hit.first, hit.cell * p.cell)
    return Fault("AMK303", f.pointer, message, at, tuple(seconds), hint)


def _invisible(p: Program, old: Access, new: Access, hit: Hit, wait: str) -> Fault:
    message = (
        f"{_who(p, new, hit.second)} {_PLAIN[new.touch.mode]} {new.touch.text}, {_byte(p, hit)}, which "
        f"{_who(p, old, hit.first)} copied there with cp.async: its own wait is done, but no block barrier has made "
        f"the copy visible to other threads"
    )
    seconds = (
        Second(old.touch.pointer, f"{_who(p, old, hit.first)} issues the copy here"), Second(wait, "the wait"),
    )  # fmt: skip
    at = _point(new, hit.second, hit.first, hit.cell * p.cell)
    hint = "put a block barrier between the wait and this access"
    return Fault("AMK303", new.touch.pointer, message, at, seconds, hint)


def _state(s: InFlight) -> str:
    if s.group is None:
        return "its group is not committed yet, so no wait can cover it"
    if not s.wait:
        return f"it is in group {s.group} of {s.groups} and nothing waits for it"
    return f"it is in group {s.group} of {s.groups} committed, and the last wait leaves {s.pending} pending"


def _who(p: Program, a: Access, t: int) -> str:
    return f"thread {t}" + (f" of block {a.rank}" if p.kernel.cluster > 1 else "")


def _byte(p: Program, hit: Hit) -> str:
    return f"byte {hit.cell * p.cell} of shared memory ('{p.owner(hit.cell)}')"


def _point(a: Access, t: int, t2: int | None, byte: int) -> dict[str, int]:
    return point(a.env) | dict(a.touch.env) | {"t": t} | ({} if t2 is None else {"t2": t2}) | {"byte": byte}


def point(env: Mapping[str, int]) -> dict[str, int]:
    """The whole numbers of an environment, for a counterexample."""
    return {n: v for n, v in env.items() if "#" not in n and type(v) is int}


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
