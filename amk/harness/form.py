"""Helpers of the form rules: scopes of names, types of what stands where, and the operands of each statement."""

from __future__ import annotations

from collections.abc import Iterator, Set

from amk.dsl.expr import BUILTINS, Elem, Expr, Var, subterms
from amk.dsl.infer import TypeFault, family, infer, variable_types
from amk.dsl.instructions import ROWS
from amk.dsl.kernel import Declaration, KernelDescriptor, children, expressions
from amk.dsl.nodes import Barrier, Buffer, Param, Statement, TensorMap
from amk.harness.constants import too_large

__all__ = ["declared", "defined", "fits", "kind_of", "operands", "place", "undefined", "values"]

FITS = {"int": "int", "float": "float"}


def declared(kernel: KernelDescriptor) -> Iterator[tuple[str, str]]:
    """Every name that a kernel introduces, with its pointer, in order."""
    groups: dict[str, tuple[Declaration, ...]] = {
        "params": kernel.params, "maps": kernel.maps, "buffers": kernel.buffers, "barriers": kernel.barriers
    }  # fmt: skip
    for group, items in groups.items():
        yield from ((f"/{group}/{i}", d.name) for i, d in enumerate(items))
    yield from _introduced(kernel.body, "/body")


def _introduced(body: tuple[Statement, ...], pointer: str) -> Iterator[tuple[str, str]]:
    for i, s in enumerate(body):
        here = f"{pointer}/{i}"
        yield from ((here, n) for n in defined(s))
        for below, inner in children(s):
            yield from _introduced(inner, here + below)


def defined(s: Statement) -> tuple[str, ...]:
    """The names that a statement introduces."""
    if s.kind == "let":
        return (s.name,)
    return (s.var, *(c.name for c in s.carry)) if s.kind == "for" else ()


def undefined(kernel: KernelDescriptor) -> Iterator[tuple[str, str]]:
    """Every use of a name outside its scope, as pointer and name."""
    scalars = frozenset(p.name for p in kernel.scalars)
    for i, e in enumerate(kernel.grid):
        yield from ((f"/grid/{i}", n) for n in _used(e) if n not in scalars)
    for i, p in enumerate(kernel.params):
        for e in (*(p.shape or ()), *(p.strides or ())):
            yield from ((f"/params/{i}", n) for n in _used(e) if n not in scalars)
    yield from _scoped(kernel.body, "/body", scalars | set(BUILTINS) | kernel.declarations.keys())


def _used(e: Expr) -> Iterator[str]:
    for x in subterms(e):
        if isinstance(x, Var):
            yield x.name
        elif isinstance(x, Elem):
            yield x.buffer


def _scoped(body: tuple[Statement, ...], pointer: str, outer: Set[str]) -> Iterator[tuple[str, str]]:
    scope = set(outer)  # one that grows: a copy for each name would cost the square of their number
    for i, s in enumerate(body):
        here = f"{pointer}/{i}"
        inside = scope | set(defined(s)) if s.kind == "for" else scope
        late = {f"/carry/{j}/next" for j in range(len(s.carry))} if s.kind == "for" else set()
        for below, e in expressions(s):
            if below not in late:
                known = inside if below == "/until" else scope
                yield from ((here, n) for n in _used(e) if n not in known)
        for below, inner in children(s):
            yield from _scoped(inner, here + below, inside)
        if s.kind == "for":
            ends = inside.union(*(defined(x)[-1:] if x.kind == "let" else _kept(x) for x in s.body))
            yield from ((here, n) for c in s.carry for n in _used(c.next) if n not in ends)
            scope |= set(_kept(s))
        elif s.kind == "let":
            scope.add(s.name)


def _kept(s: Statement) -> tuple[str, ...]:
    """The names of a loop that stay visible after it."""
    return tuple(c.name for c in s.carry) if s.kind == "for" else ()


def fits(found: str, wanted: str) -> bool:
    """A dtype where another is wanted; constants take the type of their place."""
    return found == wanted or (found in FITS and family(wanted) == FITS[found])


def kind_of(kernel: KernelDescriptor, ref: Elem) -> tuple[str, str]:
    """Space and dtype of an operand."""
    d = kernel.find(ref.buffer)
    return (kernel.space(ref), d.dtype) if isinstance(d, (Param, Buffer)) else ("", "")


def place(kernel: KernelDescriptor, ref: Elem) -> str:
    """Where an operand is: global, shared, register, map, barrier, or '' for an undeclared name."""
    d = kernel.find(ref.buffer)
    return "map" if isinstance(d, TensorMap) else "barrier" if isinstance(d, Barrier) else kernel.space(ref)


def operands(s: Statement) -> Iterator[tuple[str, Elem]]:
    """The addresses that a statement touches, by field or role."""
    if s.kind == "load":
        yield from (("dst", s.dst), ("src", s.src))
    elif s.kind in ("store", "atomic"):
        yield "dst", s.dst
    elif s.kind == "call":
        yield from s.refs.items()
    elif s.kind == "let" and s.view is not None:
        yield "view", s.view
    elif s.kind in ("arrive", "wait") and s.barrier is not None:
        yield "barrier", s.barrier
    elif s.kind == "wait" and s.flag is not None:
        yield "flag", s.flag
    if s.kind == "atomic" and s.old is not None:
        yield "old", s.old


def values(kernel: KernelDescriptor, s: Statement) -> Iterator[tuple[str, Expr, str]]:
    """What a statement computes: where, the expression, and the dtype wanted ("index": any integer)."""
    for role, ref in operands(s):
        yield from ((f"index of {role}", i, "index") for i in ref.index)
    if s.kind in ("load", "store", "arrive") and s.peer is not None:
        yield "peer", s.peer, "index"
    if s.kind == "let" and s.value is not None:
        yield f"let {s.name}", s.value, s.dtype
    elif s.kind == "load":
        if s.when is not None:
            yield "when", s.when, "bool"
        if s.other is not None:
            yield "other", s.other, kind_of(kernel, s.dst)[1]
    elif s.kind == "store":
        yield from (("value", v, kind_of(kernel, s.dst)[1]) for v in s.values)
    elif s.kind == "atomic":
        yield "value", s.value, kind_of(kernel, s.dst)[1]
    elif s.kind == "for":
        yield from (("loop bound", e, "i32") for e in (s.lo, s.hi, s.step))
        for c in s.carry:
            yield from ((f"carried {c.name}", e, c.dtype) for e in (c.init, c.next))
        if s.until is not None:
            yield "until", s.until, "bool"
    elif s.kind in ("if", "assume"):
        yield "condition", (s.cond if s.kind == "if" else s.fact), "bool"
    elif s.kind == "arrive" and s.bytes is not None:
        yield "bytes", s.bytes, "index"
    elif s.kind == "wait" and s.parity is not None:
        yield "parity", s.parity, "index"
    elif s.kind == "wait" and s.flag is not None and s.value is not None:
        yield "value", s.value, kind_of(kernel, s.flag)[1]
    elif s.kind == "call" and s.row in ROWS:
        yield from _arguments(kernel, s.row, s.refs, s.args)


def _arguments(
    kernel: KernelDescriptor, name: str, refs: dict[str, Elem], args: dict[str, Expr]
) -> Iterator[tuple[str, Expr, str]]:
    row = ROWS[name]
    same = next((kind_of(kernel, refs[o.role])[1] for o in row.operands if o.role in refs), "")
    for a in row.args:
        if a.name in args:
            yield f"argument {a.name}", args[a.name], same if a.dtype == "same" else a.dtype


def type_fault(kernel: KernelDescriptor, types: dict[str, str], e: Expr, wanted: str) -> str | None:
    """What is wrong with the type of an expression in its place, or None."""
    try:
        found = infer(e, types, kernel)
    except TypeFault as fault:
        return str(fault)
    if wanted == "index":
        if family(found) != "int":
            return f"{e} is {found}, and an index is an integer"
        return too_large(kernel, types, e, "i64")
    if not wanted or fits(found, wanted):
        return too_large(kernel, types, e, wanted)
    return f"{e} is {found}, and {wanted} is wanted"


def types_of(kernel: KernelDescriptor) -> dict[str, str]:
    """The dtype of every variable."""
    return variable_types(kernel)
