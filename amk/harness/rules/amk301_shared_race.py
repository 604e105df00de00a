"""AMK301: shared data race."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix
from amk.harness.findings import findings, unsupported
from amk.harness.rule import Rule
from amk.harness.rules.examples import mirrored

__all__ = ["AMK301"]


class AMK301(Rule):
    """Two threads touch the same byte of shared memory, one writes, and no barrier orders them.

    Why:    the result depends on which warp comes first; tests with one loop trip or a quiet machine pass.
    Proof:  one schedule is walked; the accesses between two barriers are sets of bytes per thread, evaluated exactly
            for every thread and every state of the ring (finite cutoff over trip counts). Threads of one warp are not
            taken to be converged: a warp barrier orders them, a shuffle does not. Two writes of the same value race.
    Bad:    store `s[t]`, read `s[127 - t]`.
    Good:   a block barrier between the two.
    Fix:    A block barrier goes between the two accesses, where control is the same for all threads.
    Limits: one loop over a size, no shared addresses that depend on data; anything else is refused as AMK008.
    Source: https://github.com/NVIDIA/cuml/pull/6578 ; PTX ISA, memory consistency model; GPUVerify (OOPSLA 2012).
    """

    code = "AMK301"
    title = "shared data race"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from findings(self, k, k.order.of("AMK301"))
        yield from unsupported(k, k.order.of("AMK008"))

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """A block barrier between the two accesses, where all threads come by."""
        from amk.harness.repair import BLOCK_BARRIER, barriers_between, insert

        if d.related and d.pointer in k.statements:
            for place in barriers_between(k.kernel, d.related[0].pointer, d.pointer):
                yield Fix(f"put a block barrier before {place}", insert(place, BLOCK_BARRIER), safe=True)

    @staticmethod
    def bad() -> KernelDescriptor:
        return mirrored("shared_race", barrier=False)

    @staticmethod
    def good() -> KernelDescriptor:
        return mirrored("shared_race")
