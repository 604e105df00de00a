"""AMK303: asynchronous copy read before it landed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix
from amk.harness.findings import findings
from amk.harness.rule import Rule
from amk.harness.rules.examples import one_copy

__all__ = ["AMK303"]


class AMK303(Rule):
    """Shared memory is touched while a cp.async into it is in flight, or before a barrier has made it visible.

    Why:    a wait covers the groups of its own thread, and only those committed before it; the other threads' copies
            are visible after the next barrier. A few elements of a row are stale, and only under load.
    Proof:  groups are counters: `commit` closes one, `wait` retires all but the newest `pending`. A copy is a write
            that lasts from its issue to the retirement of its group, and is visible to others after a block barrier.
    Bad:    a wait that leaves one group pending, with one group committed.
    Good:   wait for 0 pending groups, then the barrier, then read.
    Fix:    The wait leaves fewer groups pending; a commit or a barrier that is missing is put in.
    Source: https://github.com/csarofeen/pytorch/pull/2457 ; PTX ISA, cp.async.wait_group.
    """

    code = "AMK303"
    title = "asynchronous copy read before it landed"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from findings(self, k, k.order.of("AMK303"))

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """A barrier behind the wait, a stricter wait, a commit before it, or all three before the access."""
        from amk.harness.repair import BLOCK_BARRIER, barriers_between, commit, insert, queue_of, set_field, wait

        issue, last = d.related[0].pointer, d.related[-1].pointer
        waits, queue = k.statements.get(last), queue_of(k.statements.get(issue))
        if waits is not None and waits.kind == "wait" and waits.queue is not None:
            for place in islice(barriers_between(k.kernel, last, d.pointer), 1):
                yield Fix(f"put a block barrier before {place}", insert(place, BLOCK_BARRIER), safe=True)
            for n in range(waits.pending - 1, -1, -1):
                most = f"all but {n} groups" if n else "all groups"
                yield Fix(f"wait for {most}", set_field(f"{last}/pending", n), safe=True)
            yield Fix("commit before the wait", insert(last, commit(waits.queue)), safe=True)
        if queue is None:
            return
        for place in barriers_between(k.kernel, issue, d.pointer):
            edits = insert(place, commit(queue), wait(queue), BLOCK_BARRIER)
            yield Fix(f"commit, wait and put a block barrier before {place}", edits, safe=True)

    @staticmethod
    def bad() -> KernelDescriptor:
        return _kernel(1)

    @staticmethod
    def good() -> KernelDescriptor:
        return _kernel(0)


def _kernel(pending: int) -> KernelDescriptor:
    k, s, a = one_copy("copy_not_landed")
    k.wait(pending=pending)
    k.sync()
    k.load(a[0], s[127 - k.t])
    k.wait(pending=0)
    return k.finish(grid=(1,))
