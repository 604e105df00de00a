"""The order of a kernel: one block walked for all sizes; where that leaves something open, for single sizes too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from amk.dsl.expr import Expr
from amk.dsl.instructions import ROWS
from amk.dsl.kernel import KernelDescriptor, walk
from amk.verify.block import Block
from amk.verify.cases import Case, grid_of, in_domain, likely
from amk.verify.domain import BLOCKS
from amk.verify.duty import Duty
from amk.verify.logic import Logic
from amk.verify.outcome import Loose, NotCovered, Unable, Wrong
from amk.verify.path import Path

__all__ = ["Order", "decide", "duties"]

STEPS = 200_000  # statements that are walked in single cases to find a fault


class Order(NamedTuple):
    """proved (for all sizes), refuted (at `at`) or unknown; where, of which rule, and why."""

    status: str
    rule: str = ""
    where: str = ""
    what: str = ""
    at: Mapping[str, Any] = {}


def duties(kernel: KernelDescriptor) -> tuple[Duty, ...]:
    """The obligations that the walk of a block discharges."""
    out = []
    for b in kernel.buffers:
        if b.space == "shared":
            out.append(("AMK202", f"every access to '{b.name}' is inside it"))
            out.append(("AMK206", f"every element of '{b.name}' is written before it is read"))
            out.append(("AMK301", f"no two threads race for an element of '{b.name}'"))
        else:
            out.append(("AMK207", f"every register of '{b.name}' is written before it is read"))
    kinds = {s.kind for _, s in walk(kernel.body)}
    rows = [ROWS[s.row] for _, s in walk(kernel.body) if s.kind == "call" and s.row in ROWS]
    if "sync" in kinds:
        out.append(("AMK302", "every barrier is reached by all threads that it waits for"))
    if "commit" in kinds:
        out.append(("AMK303", "every asynchronous copy has landed before what it wrote is read or overwritten"))
    for m in kernel.barriers:
        out.append(("AMK202", f"every use of '{m.name}' is of one of its slots"))
        out.append(("AMK307", f"no thread waits for '{m.name}' for ever"))
        out.append(("AMK310", f"whatever the schedule, each wait for '{m.name}' meets the same phase"))
    if any(r.issuer != "thread" for r in rows):
        out.append(("AMK305", "every instruction of whole warps is reached by whole warps"))
    if "atomic" in kinds:
        out.append(("AMK306", "no plain access races with an atomic one"))
    if any(r.completes != "now" for r in rows):
        out.append(("AMK308", "no asynchronous copy is in flight when the block ends"))
    if any(o.proxy == "async" for r in rows for o in r.operands):
        out.append(("AMK309", "ordinary accesses are fenced from the asynchronous proxy"))
    if any(r.completes == "wgmma" for r in rows):
        out.append(("AMK311", "no register is touched that a wgmma under way owns"))
        out.append(("AMK317", "the tiles and the scale of each wgmma are the same in all threads of its warpgroup"))
    if any("members" in s.args for _, s in walk(kernel.body) if s.kind == "call"):
        out.append(("AMK318", "no lane reads one that takes no part"))
    if kernel.cluster > 1:
        out.append(("AMK312", "no block leaves its cluster while a peer may still reach it"))
    return tuple(Duty(rule, "", claim, "walk") for rule, claim in out)


def decide(kernel: KernelDescriptor, logic: Logic, facts: tuple[Expr, ...]) -> Order:
    """Whether all of `duties` hold, for every size and block."""
    last = Order("unknown")
    for split in (False, True):
        try:
            Block(kernel, logic, split=split).run(Path(facts=facts))
            return Order("proved")
        except Wrong as fault:
            last = Order("unknown", fault.rule, fault.where, str(fault), fault.at)
        except (Loose, Unable, NotCovered) as why:
            last = Order("unknown", "", why.where, why.what)
        except RecursionError:
            return Order("unknown", "", "", "the terms nest too deeply")
    return at_cases(kernel, logic, likely(kernel))[0] or last


def at_cases(kernel: KernelDescriptor, logic: Logic, cases: Iterable[Case]) -> tuple[Order | None, int]:
    """The first fault that a single case shows, if one does; and how many cases were walked to their end.

    No more is walked than is allowed, and cases whose grid has no blocks are left out.
    """
    block, walked = Block(kernel, logic), 0
    for case in cases:
        if block.steps > STEPS:
            break
        if in_domain(kernel, case) or not _has_block(kernel, case):
            continue
        try:
            block.run(Path(known=dict(case)))
            walked += 1
        except Wrong as fault:
            at = {n: v for n, v in case.items() if type(v) is int}
            return Order("refuted", fault.rule, fault.where, str(fault), at | dict(fault.at)), walked
        except (Loose, Unable, NotCovered, RecursionError):
            continue
    return None, walked


def _has_block(kernel: KernelDescriptor, case: Case) -> bool:
    return all(case[b] < n for b, n in zip(BLOCKS, grid_of(kernel, case), strict=True))
