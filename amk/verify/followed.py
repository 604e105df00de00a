"""Which carried values a walk of a block has to follow, and what a loop over registers alone does to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amk.dsl.expr import Elem, Expr, names, subst, subterms
from amk.dsl.kernel import KernelDescriptor, expressions, walk
from amk.dsl.nodes import For
from amk.verify.dtypes import family
from amk.verify.form import accesses

__all__ = ["Summary", "followed", "quiet"]


class Summary(dict[Any, int]):
    """Registers as a loop finds them: what it reads before it writes it is taken to be there, and remembered."""

    def __init__(self, everyone: int) -> None:
        super().__init__()
        self.everyone = everyone
        self.needs: set[Any] = set()

    def get(self, place: Any, default: Any = None) -> Any:
        """A register that is read."""
        if place not in self:
            self.needs.add(place)
            self[place] = self.everyone
        return self[place]


def quiet(kernel: KernelDescriptor, s: For, lets: Mapping[str, Expr]) -> tuple[str, ...] | None:
    """The names on which a loop over registers alone depends; None for a loop that does anything else."""
    inside = [x for _, x in walk((s,))]
    if any(x.kind not in ("let", "for", "store") or getattr(x, "carry", ()) for x in inside):
        return None
    if any(x.kind == "store" and kernel.space(x.dst) != "register" for x in inside):
        return None
    own = {x.var for x in inside if x.kind == "for"}
    used = {n for x in inside for _, e in expressions(x) for n in names(subst(e, lets))}
    return tuple(sorted(used - own - {"t"}))


def followed(kernel: KernelDescriptor, lets: Mapping[str, Expr]) -> frozenset[str]:
    """Carried values that decide a condition, a trip count, or an index of shared memory or of registers."""
    wanted: set[str] = set()
    carried: dict[str, tuple[str, frozenset[str]]] = {}
    for _, s in walk(kernel.body):
        if s.kind == "if":
            wanted |= names(subst(s.cond, lets))
        elif s.kind == "for":
            wanted |= names(subst(s.lo, lets)) | names(subst(s.hi, lets))
            carried |= {c.name: (c.dtype, names(subst(c.init, lets)) | names(subst(c.next, lets))) for c in s.carry}
        elif s.kind == "load" and s.when is not None and kernel.space(s.src) == "shared":
            wanted |= names(subst(s.when, lets))
        refs = [ref for _, ref, _ in accesses(s)]
        refs += [x for _, e in expressions(s) for x in subterms(e) if isinstance(x, Elem)]
        for ref in refs:
            if kernel.space(ref) != "global":
                wanted |= frozenset().union(*(names(subst(i, lets)) for i in kernel.resolve(ref).index))
    out: set[str] = set()
    while new := {n for n in wanted & carried.keys() - out if family(carried[n][0]) != "float"}:
        out |= new
        wanted |= frozenset().union(*(carried[n][1] for n in new))
    return frozenset(out)
