"""AMK308: exit with copies in flight."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix, Related
from amk.harness.findings import findings
from amk.harness.rule import Rule
from amk.harness.rules.examples import one_copy

__all__ = ["AMK308"]


class AMK308(Rule):
    """The block can exit while a copy of its is unfinished, or was never committed.

    Why:    the copy writes shared memory that may already belong to the next block of the multiprocessor.
    Proof:  at the end of the walk no group may be open or unretired, for every trip count of the cutoff; and of a copy
            that completes on an mbarrier, some thread of the block must know that it has.
    Bad:    issue, commit, return.
    Good:   wait for 0 pending groups at the end.
    Fix:    A wait for all groups goes to the end, with a commit where a group is open.
    Source: PTX ISA, cp.async and cp.async.wait_all.
    """

    code = "AMK308"
    title = "exit with copies in flight"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        last = f"/body/{len(k.kernel.body) - 1}"
        end = Related(last, "the block ends behind this", getattr(k.statements.get(last), "at", None))
        for d in findings(self, k, k.order.of("AMK308")):
            yield d if d.related else d._replace(related=(end,))

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """A wait at the end, with a commit before it if the copy's group is still open."""
        from amk.harness.repair import commit, insert, queue_of, wait

        end, queue = f"/body/{len(k.kernel.body)}", queue_of(k.statements.get(d.pointer))
        if queue is not None:
            yield Fix("wait for all groups at the end", insert(end, wait(queue)), safe=True)
            yield Fix("commit and wait for all groups at the end", insert(end, commit(queue), wait(queue)), safe=True)

    @staticmethod
    def bad() -> KernelDescriptor:
        return _kernel(False)

    @staticmethod
    def good() -> KernelDescriptor:
        return _kernel(True)


def _kernel(wait: bool) -> KernelDescriptor:
    k, _, a = one_copy("exit_in_flight")
    if wait:
        k.wait(pending=0)
    k.store(a[0], 0.0)
    return k.finish(grid=(1,))
