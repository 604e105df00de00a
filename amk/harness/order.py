"""Ordering: races, initialisation, shared bounds, barriers, asynchronous work and deadlock, by simulation.

One schedule of one block (or of all blocks of a cluster) is walked for every block and size of the finite set of
`cutoff`, and knowledge shows that the schedule did not matter (`phases`). Warps that take the same path are walked as
one strand, and stretches without an ordering point are computed once for each value of what they depend on.
In: a Context. Out: faults, each with a counterexample; whatever is outside the fragment is a fault AMK008.
Source: `docs/soundness.md`, section on ordering; barrier intervals as in GPUVerify (Betts et al., OOPSLA 2012).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amk.dsl.kernel import KernelDescriptor, walk
from amk.harness.by_cluster import block_of
from amk.harness.cluster import Cluster, Split, first_split
from amk.harness.cutoff import samples
from amk.harness.diagnostics import Obligation
from amk.harness.events import Env, Program, TooCoarse, Unsupported
from amk.harness.faults import Fault
from amk.harness.initial import uninitialised_registers
from amk.harness.loose import loosened
from amk.harness.opaque import opaque, realised
from amk.harness.regions import Misplaced
from amk.harness.ring import check_trips, rings
from amk.harness.stretch import Stop, Stretches

if TYPE_CHECKING:
    from amk.harness.context import Context

__all__ = ["OrderResult", "simulate"]


class OrderResult:
    """What the simulation found; `samples` counts the schedules simulated."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.samples = 0
        self.cases: list[Env] = []  # the sizes and blocks among them, by name

    def of(self, *codes: str) -> list[Fault]:
        """The faults of these codes."""
        return [f for f in self.faults if f.code in codes]

    def add(self, fault: Fault) -> None:
        """Keeps a fault unless one with the same code and places is known."""
        key = (fault.code, fault.pointer, tuple(s.pointer for s in fault.related))
        if all((f.code, f.pointer, tuple(s.pointer for s in f.related)) != key for f in self.faults):
            self.faults.append(fault)


def simulate(ctx: Context) -> OrderResult:
    """Walks every sample until one is faulty; smaller sizes come first, so the counterexample is small."""
    result = OrderResult()
    try:
        _walk_all(ctx.program, result)
    except Unsupported as e:
        result.cases.clear()  # what was walked before is not all that there is
        why = None if result.faults else _wrong_for_more(ctx, result)
        if why is not None:
            result.add(Fault("AMK008", e.pointer, f"outside what the ordering check decides: {e.message}{why}"))
    except _NO_VALUE as e:
        message = f"outside what the ordering check decides: {e or type(e).__name__}"
        result.add(Fault("AMK008", "", message))
    if not result.faults:
        ctx.obligations += _shown(ctx.kernel)
    return result


MAX_SHARED = 4 << 20  # bytes: more than any device has, and AMK103 says so; sets of that many bits would fill memory
_NO_VALUE = (ValueError, ZeroDivisionError, KeyError, OverflowError)


def _walk_all(p: Program, result: OrderResult) -> None:
    if p.kernel.shared_bytes > MAX_SHARED:
        raise Unsupported(f"{p.kernel.shared_bytes} bytes of shared memory", "")
    for fault in uninitialised_registers(p):
        result.add(fault)
    p = loosened(p)
    try:
        _simulate(p, result)
    except TooCoarse:
        result.cases.clear()
        _simulate(Program(p.kernel, fine=True), result)


def _at(p: Program, result: OrderResult, env: Env) -> None:
    """One walk, again with cells of single elements where an access starts between two."""
    try:
        _one(Stretches(p), result, env, first_split(p))
    except TooCoarse:
        p = Program(p.kernel, fine=True)
        _one(Stretches(p), result, env, first_split(p))


def _wrong_for_more(ctx: Context, result: OrderResult) -> str | None:
    """What goes wrong if trip counts that the cutoff cannot read may be any numbers of their intervals, in words.

    None where that is all settled: nothing does, or sizes of the kernel show what does, which is added to the result.
    """
    found, more = opaque(ctx.kernel), OrderResult()
    if found is None:
        return ""
    try:
        _walk_all(Program(found.kernel), more)
        result.samples += more.samples
        for fault in more.faults:
            for env in realised(found, ctx.program, fault.counterexample):
                _at(ctx.program, result, env)
            if result.faults:
                return None
    except Unsupported as e:
        return f"; and if that may be any number: {e.message}"
    except _NO_VALUE:
        return ""
    return f"; and if that may be any number: {more.faults[0].message}" if more.faults else None


def _shown(kernel: KernelDescriptor) -> Iterator[Obligation]:
    """What a walk without a fault shows, for all sizes by the cutoff."""

    def claim(code: str, text: str) -> Obligation:
        return Obligation(code, "", text, "enumeration")

    kinds = {s.kind for _, s in walk(kernel.body)}
    for b in kernel.buffers:
        if b.space == "shared":
            yield claim("AMK202", f"every access to '{b.name}' is inside it")
            yield claim("AMK206", f"every element of '{b.name}' is written before it is read")
            yield claim("AMK301", f"no two threads race for an element of '{b.name}'")
        else:
            yield claim("AMK207", f"every register of '{b.name}' is written before it is read")
    if "sync" in kinds:
        yield claim("AMK302", "every barrier is reached by all threads that it waits for")
    if "commit" in kinds:
        yield claim("AMK303", "every asynchronous copy has landed before what it wrote is read or overwritten")
    for m in kernel.barriers:
        yield claim("AMK307", f"no thread waits for '{m.name}' for ever")
        yield claim("AMK310", f"whatever the schedule, each wait for '{m.name}' meets the same phase")


def _simulate(p: Program, result: OrderResult) -> None:
    if not any(map(p.matters, p.kernel.body)):
        return
    ring, stretches, split = rings(p), Stretches(p), first_split(p)
    found = len(result.faults)
    for sizes in samples(p, ring):
        result.samples += 1
        result.cases.append(dict(sizes))
        split = _one(stretches, result, sizes, split)
        if len(result.faults) > found:
            return
    check_trips(p, ring)


def _one(stretches: Stretches, result: OrderResult, sizes: Env, split: tuple[int, ...]) -> tuple[int, ...]:
    """One sample; the split of warps into strands that it took."""
    stuck: Fault | None = None  # where the walk could not go on with fewer strands
    while True:
        cluster = Cluster(stretches, sizes, split)
        try:
            cluster.go()
        except Split as finer:
            split, stuck = finer.split, finer.stuck
            continue
        except (Stop, Misplaced) as stop:
            cluster.add(stop.fault)
        if stuck is not None and cluster.faults and cluster.faults[0][0].code in ("AMK305", "AMK302"):
            cluster.faults = [(stuck, 0)]  # warps that must stay together cannot be walked apart
        for fault, rank in cluster.faults:
            result.add(
                fault._replace(counterexample=block_of(stretches.p.kernel.cluster, dict(fault.counterexample), rank))
            )
        return split
