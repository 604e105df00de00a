"""What is wrong with the fields of a synchronising statement or of a team, for any sizes.

Source: PTX ISA, barrier, barrier.cluster, mbarrier, wgmma.wait_group and setmaxnreg.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from amk.dsl.expr import Const
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.nodes import Arrive, Statement, Sync, Team, Wait

__all__ = ["Said", "order_faults"]

MOST_BYTES = (1 << 20) - 1  # that one phase of an mbarrier can expect
MOST_PENDING = 7  # groups, in wgmma.wait_group


class Said(NamedTuple):
    """A fault, and what to do."""

    message: str
    hint: str


def order_faults(kernel: KernelDescriptor, s: Statement) -> Iterator[Said]:
    """Every fault of one statement."""
    if s.kind == "sync":
        yield from _sync(kernel, s)
    elif s.kind == "wait":
        yield from _wait(s)
    elif s.kind == "arrive":
        yield from _arrive(kernel, s)
    elif s.kind == "team":
        yield from _team(kernel, s)


def _sync(kernel: KernelDescriptor, s: Sync) -> Iterator[Said]:
    if s.scope == "named":
        yield from _named(kernel, s)
    elif s.id or s.threads:
        yield Said(f"a barrier of the {s.scope} with an id or a thread count", "only scope named has them")
    if s.scope in ("block", "warp") and s.part != "both":
        hint = "use a named barrier, or one of the cluster"
        yield Said(f"one half ({s.part}) of a barrier of the {s.scope}, which has no halves", hint)
    if s.relaxed and s.scope != "cluster":
        yield Said(f"a relaxed barrier of the {s.scope}: it always orders memory", "leave relaxed out")
    elif s.relaxed and s.part == "wait":
        yield Said("a relaxed wait of the cluster's barrier", "relax the half that arrives; the wait always acquires")


def _named(kernel: KernelDescriptor, s: Sync) -> Iterator[Said]:
    if s.id == 0:
        yield Said("named barrier 0 is the one of the block", "give it an id from 1 to 15")
    if s.threads == 0 or s.threads % 32:
        yield Said(f"a named barrier of {s.threads} threads", "give the threads of all that reach it, 32 for each warp")
    elif s.threads > kernel.threads:
        message = f"a named barrier of {s.threads} threads in a block of {kernel.threads}"
        yield Said(message, "it would never complete; count the threads that reach it")
    if s.part == "wait":
        yield Said("a named barrier has no half that only waits", "let those that wait arrive too: part both")


def _wait(s: Wait) -> Iterator[Said]:
    phase = s.barrier is not None or s.parity is not None
    if s.flag is not None or s.value is not None:
        yield from _flagged(s)
    elif phase == (s.queue is not None):
        hint = "give queue, or barrier and parity, or flag and value"
        yield Said("a wait is on a queue, on the phase of an mbarrier or on a flag", hint)
    elif phase and (s.barrier is None or s.parity is None):
        missing = "parity" if s.parity is None else "barrier"
        yield Said(f"a wait on a phase without its {missing}", "give barrier and parity")
    if phase and (s.pending or s.read):
        yield Said("pending and read are about the groups of a queue, and this wait is on a phase", "leave them out")
    elif s.read and s.queue != "bulk":
        yield Said(f"read with the queue {s.queue}", "only bulk copies tell apart what is read and what is done")
    if s.queue == "wgmma" and s.pending > MOST_PENDING:
        yield Said(f"a wait that leaves {s.pending} groups of wgmma", f"at most {MOST_PENDING} may be left")


def _flagged(s: Wait) -> Iterator[Said]:
    if s.flag is None or s.value is None:
        yield Said(f"a wait on a flag without its {'flag' if s.flag is None else 'value'}", "give flag and value")
    if s.barrier is not None or s.parity is not None or s.queue is not None or s.pending or s.read:
        yield Said("a wait on a flag that is also on a queue or a phase", "give flag and value alone")


def _arrive(kernel: KernelDescriptor, s: Arrive) -> Iterator[Said]:
    if s.bytes is not None:
        n = s.bytes.value if isinstance(s.bytes, Const) else None
        if type(n) is not int:
            yield Said(f"an arrival that expects {s.bytes} bytes", "expect a constant number of bytes")
        elif n < 16 or n % 16 or n > MOST_BYTES:
            hint = f"give the bytes of the copies of this phase: a multiple of 16, at most {MOST_BYTES}"
            yield Said(f"an arrival that expects {n} bytes", hint)
    if s.peer is not None and kernel.cluster == 1:
        yield Said("an arrival at a peer in a kernel without a cluster", "leave peer out: there is no other block")


def _team(kernel: KernelDescriptor, s: Team) -> Iterator[Said]:
    if kernel.threads % 32:
        yield Said(f"a team in a block of {kernel.threads} threads", "roles are whole warps: use a multiple of 32")
        return
    warps = kernel.threads // 32
    owner: dict[int, int] = {}
    for i, r in enumerate(s.roles):
        first, end = r.warps
        if first >= end or end > warps:
            yield Said(f"role {i} has the warps [{first}, {end}) of {warps}", "give first < end, at most all warps")
        if r.registers is not None and (first % 4 or end % 4):
            hint = "setmaxnreg is for whole warpgroups: let the role start and end at a multiple of 4 warps"
            yield Said(f"role {i} has a register budget and the warps [{first}, {end})", hint)
        for w in range(first, min(end, warps)):
            if w in owner:
                yield Said(f"warp {w} is in role {owner[w]} and in role {i}", "give each warp to one role")
                break
            owner[w] = i
    if idle := [w for w in range(warps) if w not in owner]:
        hint = "let the roles cover all warps; one with an empty body does nothing"
        yield Said(f"no role has warp {idle[0]} of {warps}", hint)
    if any(x.kind == "team" for r in s.roles for _, x in walk(r.body)):
        yield Said("a team inside a role", "give each warp its role in one team")
