"""Flags between blocks: what a release hands over, and what an acquire of its value takes.

All blocks of a launch run as one cluster then, with clocks for all their threads. How many of them run at once is what
the kernel may rely on: all (dispatch resident), or one after another, by number (in_order) or from the last one (any).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from amk.dsl.expr import Elem
from amk.dsl.nodes import Atomic, Load, Store, Wait

if TYPE_CHECKING:
    from amk.harness.interp_memory import Place
    from amk.harness.interp_strand import Strand

__all__ = ["at_once", "flag_load", "flag_store", "flag_update", "flag_wait"]


def at_once(dispatch: str, blocks: int, rng: Any) -> int:
    """How many blocks run at once."""
    if dispatch == "resident":
        return blocks
    return 1 if rng is None else int(rng.integers(1, blocks + 1))


def flag_load(m: Strand, s: Load) -> None:
    """Registers := flags; takes what was released with them."""
    lanes = m.lanes(m.mask)
    p = m.memory.place(s.src, lanes, 1)
    _acquire(m, p, lanes.gid)
    m.memory.touch("atomic", p)
    name, index = m.operand(s.dst)
    m.registers.write(name, index, m.spread(p.get()[0], lanes))


def flag_store(m: Strand, s: Store) -> None:
    """Flags := values; hands over what each thread knows."""
    lanes = m.lanes(m.mask)
    p = m.memory.place(s.dst, lanes, 1)
    m.memory.touch("atomic", p)
    p.put(np.broadcast_to(m.flat(m.value(s.values[0], m.declared(s.dst.buffer).dtype), lanes), len(lanes.b))[None])
    _release(m, p, lanes.gid, fresh=True)


def flag_update(m: Strand, s: Atomic) -> None:
    """An atomic with an old value or an order: one lane after another."""
    lanes = m.lanes(m.mask)
    p = m.memory.place(s.dst, lanes, 1)
    value = m.value(s.value, m.declared(s.dst.buffer).dtype)
    wanted = np.broadcast_to(m.flat(value, lanes), len(lanes.b)).astype(p.array.dtype)
    takes, gives = s.order in ("acquire", "acq_rel"), s.order in ("release", "acq_rel")
    old = np.zeros(len(lanes.b), p.array.dtype)
    for i in range(len(lanes.b)):
        one = lanes.only(np.arange(len(lanes.b)) == i)
        q = m.memory.place(s.dst, one, 1)
        near = m.rank + 1 if s.scope == "block" else 0
        if takes:
            _acquire(m, q, one.gid, near)
        m.memory.touch("atomic", q)
        old[i] = q.get()[0, 0]
        q.put(_OPS[s.op](old[i : i + 1], wanted[i : i + 1])[None])
        if gives:
            _release(m, q, one.gid, fresh=False, near=near)
    if s.old is not None:
        name, index = m.operand(s.old)
        m.registers.write(name, index, m.spread(old, lanes))


_OPS = {"add": np.add, "min": np.minimum, "max": np.maximum}


def flag_wait(m: Strand, s: Wait) -> np.ndarray[Any, Any] | None:
    """Lanes whose flags have not come so far; None if all have, which then know what was released with them."""
    assert s.flag is not None and s.value is not None
    lanes = m.lanes(m.mask)
    p = m.memory.place(s.flag, lanes, 1)
    wanted = m.flat(m.value(s.value, m.declared(s.flag.buffer).dtype), lanes)
    late = np.broadcast_to(p.get()[0] < wanted, len(lanes.b))
    if late.any():
        out = np.zeros(m.nt, np.bool_)
        out[lanes.t] = late
        return out
    _acquire(m, p, lanes.gid)
    m.memory.touch("atomic", p)
    return None


def _acquire(m: Strand, p: Place, gid: Any, near: int = 0) -> None:
    """`near` is the block in whose scope it is, counted from 1; 0 for the device."""
    clocks = m.cluster.clocks
    if clocks is not None:
        for at, g in zip(p.at.tolist(), gid.tolist(), strict=True):
            clocks.acquired((p.name, at, near), g)


def _release(m: Strand, p: Place, gid: Any, *, fresh: bool, near: int = 0) -> None:
    clocks = m.cluster.clocks
    if clocks is not None:
        for at, g in zip(p.at.tolist(), gid.tolist(), strict=True):
            clocks.released((p.name, at, near), g, fresh)


def waiting(m: Strand, s: Wait) -> str:
    """Who waits for which flag, in words."""
    ref: Elem | None = s.flag
    return f"thread {int(m.threads()[0]) + m.low} of block {m.blocks[0]} waits for {ref} >= {s.value}"
