"""AMK107: mbarrier out of limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from amk.dsl.expr import Apply, Const, Expr, Var
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Arrive, Barrier
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Obligation
from amk.harness.intervals import WIDE, Interval, combine, times
from amk.harness.rule import Rule
from amk.harness.rules.examples import example

__all__ = ["MbarrierLimits"]

MOST = (1 << 20) - 1


class MbarrierLimits(Rule):
    """An mbarrier expects at most 1,048,575 arrivals, and as many bytes are pending in a phase.

    Why:    Both counts of the 64-bit object are 20 bits wide: a larger one wraps, and the phase completes early or
            never.
    Proof:  The count is a constant; the bytes of each arrival are bounded from the ranges of the sizes. A phase has
            `count` arrivals, so `count` times the most bytes of one is enough where it is small enough; else the
            arrivals that stand in one body and name one slot are added up.
    Bad:    An arrival that expects 1,048,576 bytes.
    Good:   One that expects 32,768.
    Limits: Arrivals of different bodies are not added up here: the order of phases decides whether they meet.
    Source: PTX ISA, "Contents of the mbarrier object" and "mbarrier.expect_tx": count 1 to 2**20 - 1, tx-count
            -(2**20 - 1) to 2**20 - 1
    """

    code, title = "AMK107", "mbarrier out of limits"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        d = k.kernel
        for i, b in enumerate(d.barriers):
            if b.count > MOST:
                message = f"{b.name} expects {b.count:,} arrivals; an mbarrier counts {MOST:,}"
                yield self.report(k, f"/barriers/{i}", message, hint="let one thread of each warp arrive")
        ranges = _ranges(d)
        found = {at: s for at, s in k.statements.items() if s.kind == "arrive" and s.bytes is not None}
        most = {at: _interval(s.bytes, ranges) for at, s in found.items()}
        for at, (low, high) in most.items():
            if low < 0 or high > MOST:
                what = f"up to {high:,}" if high < WIDE[1] else "a number without a bound"
                message = f"this arrival expects {found[at].bytes} bytes, {what}; 0 to {MOST:,} can be pending"
                yield self.report(k, at, message, hint="split the copy over several slots or phases")
        if all(low >= 0 and high <= MOST for low, high in most.values()):
            yield from self._together(k, found, {at: high for at, (_, high) in most.items()})

    def _together(self, k: Context, found: Mapping[str, Arrive], most: Mapping[str, int]) -> Iterator[Diagnostic]:
        """Arrivals that may fall into one phase."""
        bodies: dict[tuple[str, Expr], list[str]] = {}
        for at, s in found.items():
            bodies.setdefault((at.rpartition("/")[0], s.barrier), []).append(at)
        for (_, slot), places in bodies.items():
            b = k.kernel.find(slot.buffer)  # type: ignore[attr-defined]
            largest, total = max(most[at] for at in places), sum(most[at] for at in places)
            if isinstance(b, Barrier) and b.count * largest <= MOST:
                claim = f"{b.count} arrivals of at most {largest:,} bytes at {slot} are at most {MOST:,}"
                k.obligations.append(Obligation(self.code, places[0], claim, "structure"))
            elif total > MOST:
                message = f"{len(places)} arrivals at {slot} expect {total:,} bytes together; {MOST:,} can be pending"
                yield self.report(k, places[-1], message, hint="use a slot of its own for each")

    @staticmethod
    def bad() -> KernelDescriptor:
        return _kernel(1 << 20)

    @staticmethod
    def good() -> KernelDescriptor:
        return _kernel(32768)


def _kernel(expected: int) -> KernelDescriptor:
    arrive: dict[str, Any] = {"kind": "arrive", "barrier": "full[0]", "bytes": str(expected)}
    full = {"kind": "barrier", "name": "full", "slots": 2, "count": 1}
    return example(target="sm_90a", barriers=[full], body=[{"kind": "if", "cond": "t < 1", "body": [arrive]}])


def _ranges(d: KernelDescriptor) -> dict[str, Interval]:
    return {"t": (0, d.threads - 1), "rank": (0, d.cluster - 1), **{p.name: (p.min, p.max) for p in d.scalars}}


def _interval(e: Expr | None, ranges: Mapping[str, Interval]) -> Interval:
    """All values of a term of sizes; WIDE for what is not known."""
    if isinstance(e, Const):
        return (int(e.value), int(e.value)) if not isinstance(e.value, float) else WIDE
    if isinstance(e, Var):
        return ranges.get(e.name, WIDE)
    if not isinstance(e, Apply):
        return WIDE
    a = tuple(_interval(x, ranges) for x in e.args)
    if WIDE in a and e.op not in ("min", "%", "&", "select"):
        return WIDE
    if e.op in ("+", "-"):
        (low, high) = a[1] if e.op == "+" else (-a[1][1], -a[1][0])
        return a[0][0] + low, a[0][1] + high
    return times(a[0], a[1]) if e.op == "*" else combine(e.op, a)
