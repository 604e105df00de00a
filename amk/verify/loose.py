"""What follows data: named values, and names of loops whose values a walk cannot know."""

from __future__ import annotations

from amk.dsl.expr import Expr, has_elements, names, subst
from amk.dsl.kernel import KernelDescriptor, walk

__all__ = ["uncertain"]


def uncertain(kernel: KernelDescriptor) -> tuple[dict[str, Expr], frozenset[str]]:
    """What named values stand for; and the names of loops that follow data, or differ between threads as they go on."""
    lets: dict[str, Expr] = {}
    loops = []
    for _, s in walk(kernel.body):
        if s.kind == "let" and s.value is not None:
            lets[s.name] = subst(s.value, lets)
        elif s.kind == "for":
            loops.append(s)
    terms = {s.var: tuple(subst(e, lets) for e in (s.lo, s.hi, s.step)) for s in loops}
    carried = {c.name: tuple(subst(e, lets) for e in (c.init, c.next)) for s in loops for c in s.carry}
    varying = {"t", *(v for v, es in terms.items() if any("t" in names(e) for e in es[:1]))}
    out: set[str] = set()
    while new := {
        n for n, es in (*terms.items(), *carried.items()) if n not in out
        and any(has_elements(e) or names(e) & (out | (varying if n in carried else set())) for e in es)
    }:  # fmt: skip
        out |= new
    return lets, frozenset(out)
