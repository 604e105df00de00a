"""What a term is worth on a path: known, or proved by Z3 to be the same for all sizes and blocks of it, or open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amk.dsl.expr import Apply, Const, Expr, has_elements, names, subst
from amk.dsl.kernel import KernelDescriptor, walk
from amk.verify.domain import GRID
from amk.verify.lanes import Lanes
from amk.verify.logic import Logic
from amk.verify.outcome import Loose
from amk.verify.path import Path
from amk.verify.values import DATA, NoValue

__all__ = ["Settler"]


class Settler:
    """The terms of one kernel. `names` are its named values, over sizes, blocks, threads, rounds and carried values."""

    def __init__(self, kernel: KernelDescriptor, logic: Logic) -> None:
        self.logic = logic
        self.lanes = Lanes(kernel.threads)
        self.names: dict[str, Expr] = {**dict(zip(GRID, kernel.grid3, strict=True)), "rank": Const(0)}
        for _, s in walk(kernel.body):
            if s.kind == "let" and s.value is not None:
                self.names[s.name] = subst(s.value, self.names)
        self._inlined: dict[Expr, Expr] = {}
        self._agreed: dict[tuple[Expr, tuple[Expr, ...]], Any] = {}

    def inline(self, e: Expr, p: Path) -> Expr:
        """The term with named values, and names that stand for terms, in place."""
        out = self._inlined.get(e)
        if out is None:
            out = self._inlined[e] = subst(e, self.names)
        return out if p.terms.keys().isdisjoint(names(out)) else subst(out, p.terms)

    def with_known(self, e: Expr, p: Path) -> Expr:
        """The same, with known numbers in place too."""
        e = self.inline(e, p)
        return subst(e, {n: Const(v) for n, v in _of(e, p.known).items() if not isinstance(v, tuple)})

    def value(self, e: Expr, p: Path, at: str) -> Any:
        """The value of a term: a number, one a thread, or DATA where it is not followed. Raises Loose."""
        if isinstance(e, Const):
            return e.value
        e = self.inline(e, p)
        used = names(e)
        if has_elements(e) or used & p.data:
            return DATA
        try:
            if not used - p.known.keys() - {"t"}:
                return self.lanes.of(e, p.known)
            return self._agreement(self.with_known(e, p), p, at)
        except NoValue as why:
            raise Loose(at, f"{e} has no value: {why}") from None

    def _agreement(self, e: Expr, p: Path, at: str) -> Any:
        """The value that is the same everywhere on the path."""
        key = (e, p.facts)
        if key not in self._agreed:
            self._agreed[key] = self._agree(e, p)
        if self._agreed[key] is None:
            raise Loose(at, f"{e} is not the same for all sizes and blocks")
        return self._agreed[key]

    def _agree(self, e: Expr, p: Path) -> Any:
        """Its value at one point of the path, if Z3 shows that it has no other."""
        used = names(e) - {"t"}
        if used - self.logic.box.keys():
            return None
        some = self.logic.point(p.facts, used)
        if some.status == "proved" or not used <= some.model.keys():
            return None
        fixed = subst(e, {n: Const(some.model[n]) for n in used})
        same = self.logic.holds(Apply("==", (e, fixed)), p.facts)
        return self.lanes.of(fixed, {}) if same else None

    def passing(self, e: Expr, p: Path, at: str, active: int) -> tuple[int, int, bool]:
        """Of the active threads those that surely pass a condition, those that may, and whether it is one answer."""
        return self._passing(self.with_known(e, p), p, at, active)

    def _passing(self, e: Expr, p: Path, at: str, active: int) -> tuple[int, int, bool]:
        if isinstance(e, Apply) and e.op in ("and", "or", "not"):
            sides = [self._passing(x, p, at, active) for x in e.args]
            one = all(x[2] for x in sides)
            if e.op == "not":
                return active & ~sides[0][1], active & ~sides[0][0], one
            (a, b, _), (c, d, _) = sides
            return (a & c, b & d, one) if e.op == "and" else (a | c, b | d, one)
        used = names(e)
        if has_elements(e) or used & p.data:
            return 0, active, False
        if not used - p.known.keys() - {"t"}:
            try:
                mask = active & self.lanes.mask(e, p.known)
            except NoValue as why:
                raise Loose(at, f"{e} has no value: {why}") from None
            return mask, mask, mask in (0, active)
        if "t" in used or any(isinstance(v, tuple) for v in _of(e, p.known).values()):
            return 0, active, False
        if self.logic.holds(e, p.facts):
            return active, active, True
        return (0, 0, True) if self.logic.holds(Apply("not", (e,)), p.facts) else (0, active, True)


def _of(e: Expr, known: Mapping[str, Any]) -> dict[str, Any]:
    return {n: known[n] for n in names(e) if n in known}
