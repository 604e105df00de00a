"""The checked fragment: what the engines understand. Everything else is refused, never accepted unchecked."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.expr import Apply, Const, Elem, Expr, Var, apply, names, parts, subst, subterms
from amk.dsl.kernel import KernelDescriptor, children, expressions, walk
from amk.dsl.nodes import Statement

__all__ = ["unsupported"]

MOST_NODES = 5000
MOST_TRIPS = 1 << 14  # constant trips of nested loops that touch memory: each is walked
KINDS: dict[str, str] = {}


def unsupported(kernel: KernelDescriptor) -> Iterator[tuple[str, str]]:
    """Pointer and reason of everything outside the fragment."""
    if large := list(_large_values(kernel)):  # everything below puts named values in place
        yield from large
        return
    if kernel.dispatch == "in_order" and (len(kernel.grid) > 1 or kernel.cluster > 1):
        yield "/dispatch", "blocks are counted in the order of their start along bx alone, and not in clusters"
    lets: dict[str, Expr] = {}
    for pointer, s in walk(kernel.body):
        if s.kind == "let" and s.value is not None:
            lets[s.name] = subst(s.value, lets)
        reasons = (*_statement(s, lets), *_assumption(kernel, s), *_carried(s))
        yield from ((pointer, reason) for reason in reasons)
    yield from _long_loops(kernel.body, "/body", lets, 1)
    yield from _arithmetic(kernel)


def _large_values(kernel: KernelDescriptor) -> Iterator[tuple[str, str]]:
    """Named values that grow beyond MOST_NODES once the names inside them are replaced by their values."""
    sizes: dict[str, int] = {}

    def size(e: Expr) -> int:
        return sizes.get(e.name, 1) if isinstance(e, Var) else 1 + sum(map(size, parts(e)))

    for pointer, s in walk(kernel.body):
        grown = max((size(e) for _, e in expressions(s)), default=0)
        if grown > MOST_NODES:
            yield (
                pointer,
                f"a value of {grown:,} terms with its named parts in place; at most {MOST_NODES:,} are checked",
            )
            return
        if s.kind == "let" and s.value is not None:
            sizes[s.name] = grown


def _long_loops(
    body: tuple[Statement, ...], pointer: str, lets: dict[str, Expr], around: int
) -> Iterator[tuple[str, str]]:
    """Nests of constant loops that touch memory or synchronise, and that would take too long to walk."""
    for i, s in enumerate(body):
        here = f"{pointer}/{i}"
        trips = around * _trips(s, lets)
        if trips > MOST_TRIPS and any(x.kind not in ("let", "store", "for", "if") for _, x in walk((s,))):
            yield here, f"{trips:,} constant trips are too many to walk; make the bound a size, or the loop shorter"
            continue
        for below, inner in children(s):
            yield from _long_loops(inner, here + below, lets, trips)


def _trips(s: Statement, lets: dict[str, Expr]) -> int:
    if s.kind != "for":
        return 1
    lo, hi, step = (subst(e, lets) for e in (s.lo, s.hi, s.step))
    if isinstance(lo, Const) and isinstance(hi, Const) and isinstance(step, Const) and step.value >= 1:
        return max(1, -(-(int(hi.value) - int(lo.value)) // int(step.value)))
    return 1


def _arithmetic(kernel: KernelDescriptor) -> Iterator[tuple[str, str]]:
    """Divisions by a constant below 1 and shifts outside 0 to 62: they have no value at all."""
    places = [("/grid", g) for g in kernel.grid]
    for i, p in enumerate(kernel.params):
        places += [(f"/params/{i}", e) for e in (*(p.shape or ()), *(p.strides or ()))]
    for pointer, s in walk(kernel.body):
        places += [(pointer, e) for _, e in expressions(s)]
    for pointer, e in places:
        for x in subterms(e):
            if isinstance(x, Apply) and x.op in ("//", "%", "cdiv", "<<", ">>"):
                folded = _constant(x.args[1])
                low, high = (1, 2**63) if x.op in ("//", "%", "cdiv") else (0, 62)
                if folded is not None and not low <= folded <= high:
                    yield pointer, f"{x} has no value: its right side is {folded}"


def _constant(e: Expr) -> int | None:
    """The integer that a term without variables stands for."""
    if isinstance(e, Apply) and not names(e):
        inner = [_constant(a) for a in e.args]
        e = apply(e.op, *(a for a in inner if a is not None)) if None not in inner else e
    return e.value if isinstance(e, Const) and type(e.value) is int else None


def _statement(s: Statement, lets: dict[str, Expr]) -> Iterator[str]:
    if s.kind in KINDS:
        yield f"{KINDS[s.kind]} are not checked yet"
    elif s.kind == "for":
        step = subst(s.step, lets)
        if isinstance(step, Const) and (isinstance(step.value, bool) or step.value < 1):
            yield f"the step {s.step} is not positive"
    elif s.kind == "let" and s.view is not None and any(isinstance(x, Elem) for i in s.view.index for x in subterms(i)):
        yield f"the view {s.name} stands at an index kept in a register array; name the index with a let first"


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
