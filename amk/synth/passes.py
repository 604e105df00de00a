"""Small passes before printing: fold constants, drop what never runs and what nobody reads.

In: a kernel. Out: a kernel that does the same, for the caller to check again: nothing here is trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from amk.dsl.expr import Apply, Const, Elem, Expr, apply, names, negate, subterms
from amk.dsl.kernel import KernelDescriptor, expressions, walk
from amk.dsl.nodes import Carry, For, If, Let, Load, Statement, Store

__all__ = ["fold", "simplify"]

_LIMIT = 2**63


def simplify(kernel: KernelDescriptor) -> KernelDescriptor:
    """The kernel with constants folded, dead branches, empty loops and unread Lets removed; idempotent."""
    body = _live(_statements(kernel.body))
    fields = {name: getattr(kernel, name) for name in KernelDescriptor.model_fields}
    return KernelDescriptor(**fields | {"body": body, "grid": tuple(map(fold, kernel.grid))})


# ----------------------------------------------------------------------------------------------------------- constants
def fold(e: Expr) -> Expr:
    """The term with its constant parts computed; what would leave 64 bits is left standing."""
    if isinstance(e, Elem):
        return Elem(e.buffer, tuple(map(fold, e.index)))
    if not isinstance(e, Apply):
        return e
    args = tuple(map(fold, e.args))
    out = negate(args[0]) if e.op == "not" else apply(e.op, *args)
    too_wide = isinstance(out, Const) and type(out.value) is int and not -_LIMIT <= out.value < _LIMIT
    return Apply(e.op, args) if too_wide else out


def _folded(value: Any) -> Any:
    """A field of a statement with every expression in it folded."""
    if isinstance(value, Expr):
        return fold(value)
    if isinstance(value, Carry):
        return value.model_copy(update={"init": fold(value.init), "next": fold(value.next)})
    if isinstance(value, tuple):
        return tuple(map(_folded, value))
    return {k: _folded(v) for k, v in value.items()} if isinstance(value, dict) else value


def _fold_fields(s: Statement) -> Statement:
    fields = {n: getattr(s, n) for n in type(s).model_fields if n not in ("body", "roles")}
    return s.model_copy(update={n: _folded(v) for n, v in fields.items()})


# ---------------------------------------------------------------------------------------------------------- statements
def _statements(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    return tuple(x for s in body for x in _statement(s))


def _statement(s: Statement) -> tuple[Statement, ...]:
    """What is left of a statement: itself, several in its place, or nothing."""
    s = _fold_fields(s)
    rule: Callable[[Any], tuple[Statement, ...]] | None = _RULES.get(s.kind)
    if s.kind == "team":
        return (
            s.model_copy(update={"roles": tuple(r.model_copy(update={"body": _statements(r.body)}) for r in s.roles)}),
        )
    return rule(s) if rule else (s,)


def _if(s: If) -> tuple[Statement, ...]:
    if isinstance(s.cond, Const):
        return _statements(s.body) if s.cond.value else ()
    body = _statements(s.body)
    return (s.model_copy(update={"body": body}),) if body else ()


def _for(s: For) -> tuple[Statement, ...]:
    if isinstance(s.lo, Const) and isinstance(s.hi, Const) and s.lo.value >= s.hi.value:
        return tuple(Let(name=c.name, dtype=c.dtype, value=c.init, at=s.at) for c in s.carry)
    body = _statements(s.body)
    return (s.model_copy(update={"body": body}),) if body or s.carry or s.until is not None else ()


def _load(s: Load) -> tuple[Statement, ...]:
    if s.when == Const(True):
        return (s.model_copy(update={"when": None, "other": None}),)
    if s.when != Const(False) or (s.other is not None and s.width > 1):
        return (s,)
    return (Store(dst=s.dst, values=(s.other,), at=s.at),) if s.other is not None else ()


_RULES: dict[str, Callable[[Any], tuple[Statement, ...]]] = {"if": _if, "for": _for, "load": _load}


# -------------------------------------------------------------------------------------------------------------- unread
def _live(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Drops unread Lets, and what that empties, until nothing changes."""
    while True:
        read = frozenset(n for _, s in walk(body) for n in _reads(s))
        kept = _statements(_keep(body, read))
        if kept == body:
            return body
        body = kept


def _keep(body: tuple[Statement, ...], read: frozenset[str]) -> tuple[Statement, ...]:
    out = (s for s in body if s.kind != "let" or s.name in read)
    return tuple(s.model_copy(update={"body": _keep(s.body, read)}) if s.kind in ("for", "if") else s for s in out)


def _reads(s: Statement) -> Iterator[str]:
    """The variables and views that a statement itself names."""
    for _, e in expressions(s):
        yield from names(e)
        yield from (x.buffer for x in subterms(e) if isinstance(x, Elem))
