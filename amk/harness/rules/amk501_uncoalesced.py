"""AMK501: uncoalesced global access."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.advice import sectors
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.findings import findings
from amk.harness.rule import Rule
from amk.harness.rules.examples import scattered

__all__ = ["AMK501"]


class AMK501(Rule):
    """A warp's global access moves at least twice the 32-byte sectors that its bytes need, and four more than those.

    Why:    memory moves whole sectors; a warp that walks down a column moves 32 of them for 128 bytes.
    Proof:  none needed, this is advice: the addresses of the first warp that takes part are enumerated, lanes that a
            condition on the thread leaves out aside, in the interior of a large problem and at the first iteration of
            the loops around. Where a pitch is a size, every place in a sector that its divisor allows is tried: told
            are the best and the worst, judged is the best, which is the pattern's own.
    Bad:    `x[t, 0]` of a row-major tensor.
    Good:   `x[0, t]`.
    Source: CUDA C++ Best Practices Guide, coalesced access; https://github.com/siboehm/SGEMM_CUDA/issues/7.
    """

    code = "AMK501"
    title = "uncoalesced global access"
    severity = "warning"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from findings(self, k, sectors(k))

    @staticmethod
    def bad() -> KernelDescriptor:
        return scattered()

    @staticmethod
    def good() -> KernelDescriptor:
        return scattered(column=False)
