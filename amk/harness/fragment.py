"""The checked fragment: what the engines understand. Everything else is refused, never accepted unchecked."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.expr import Const, Elem, Expr, Var, names, subst, subterms
from amk.dsl.instructions import ROWS
from amk.dsl.kernel import KernelDescriptor, expressions, walk
from amk.dsl.nodes import Statement

__all__ = ["unsupported"]

KINDS = {"team": "warp roles", "fence": "fences", "arrive": "mbarrier arrivals"}


def unsupported(kernel: KernelDescriptor) -> Iterator[tuple[str, str]]:
    """Pointer and reason of everything outside the fragment."""
    if kernel.cluster > 1:
        yield "", "clusters are not checked yet"
    yield from ((f"/maps/{i}", "tensor maps are not checked yet") for i in range(len(kernel.maps)))
    yield from ((f"/barriers/{i}", "mbarriers are not checked yet") for i in range(len(kernel.barriers)))
    lets: dict[str, Expr] = {}
    for pointer, s in walk(kernel.body):
        if s.kind == "let" and s.value is not None:
            lets[s.name] = subst(s.value, lets)
        reasons = (*_statement(s, lets), *_rank(s), *_assumption(kernel, s), *_carried(s))
        yield from ((pointer, reason) for reason in reasons)


def _statement(s: Statement, lets: dict[str, Expr]) -> Iterator[str]:
    if s.kind in KINDS:
        yield f"{KINDS[s.kind]} are not checked yet"
    elif s.kind == "sync" and (s.scope not in ("block", "warp") or s.relaxed or s.id or s.threads):
        yield "only plain barriers of the block and of the warp are checked"
    elif s.kind == "wait" and (s.barrier is not None or s.queue != "cp_async"):
        yield "only waits on cp_async groups are checked"
    elif s.kind == "commit" and s.queue != "cp_async":
        yield f"the queue {s.queue} is not checked yet"
    elif s.kind == "for":
        step = subst(s.step, lets)
        if s.until is not None:
            yield "loops that end early (until) are not checked yet"
        if not isinstance(step, Const) or isinstance(step.value, bool) or step.value < 1:
            yield f"the step {s.step} is not a positive constant"
    elif s.kind == "call" and s.row in ROWS:
        yield from _row(s.row)
    elif s.kind == "let" and s.view is not None and any(isinstance(x, Elem) for i in s.view.index for x in subterms(i)):
        yield f"the view {s.name} stands at an index kept in a register array; name the index with a let first"


def _row(name: str) -> Iterator[str]:
    row = ROWS[name]
    if row.issuer not in ("thread", "warp"):
        yield f"{name} is issued by {row.issuer}, which is not checked yet"
    if row.completes not in ("now", "cp_async"):
        yield f"{name} completes by {row.completes}, which is not checked yet"


def _rank(s: Statement) -> Iterator[str]:
    if any(Var("rank") in (e, *subterms(e)) for _, e in expressions(s) if "rank" in names(e)):
        yield "the rank in a cluster is not checked yet"


def _assumption(kernel: KernelDescriptor, s: Statement) -> Iterator[str]:
    if s.kind == "assume":
        scalars = {p.name for p in kernel.scalars}
        if strangers := sorted(names(s.fact) - scalars):
            yield f"an assumption speaks of sizes only, and {', '.join(strangers)} is none"
        if any(isinstance(x, Elem) for x in subterms(s.fact)):
            yield "an assumption speaks of sizes only, not of elements"


def _carried(s: Statement) -> Iterator[str]:
    """Carried values of unsigned 64-bit type have no bound that the provers keep."""
    if s.kind == "for":
        yield from (f"the carried value {c.name} is u64" for c in s.carry if c.dtype == "u64")
