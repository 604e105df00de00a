"""Values that are declared uniform: the same in all lanes of a warp, and named where whole warps are.

A uniform Let is handed round by its warp's first lane, so a value that differs, or a lane that is not there, makes it
another value. What differs between lanes is found by tabulating the terms in the thread alone (`t // 32` does not,
`t % 4` does), after sums are put in order; loaded values and what depends on them may differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from amk.dsl.evaluate import function_of
from amk.dsl.expr import Apply, Elem, Expr, Var, has_elements, names, subst
from amk.dsl.kernel import KernelDescriptor, children, walk
from amk.dsl.nodes import For, Statement
from amk.harness.affine import Facts

__all__ = ["uniform_faults"]

_THREAD = frozenset(("t",))


def uniform_faults(kernel: KernelDescriptor) -> Iterator[tuple[str, str]]:
    """Pointer and message of each uniform Let that is not shown to be uniform."""
    if any(s.kind == "let" and s.uniform for _, s in walk(kernel.body)):
        yield from _Lanes(kernel).body(kernel.body, "/body", ())


class _Lanes:
    def __init__(self, kernel: KernelDescriptor) -> None:
        self.kernel = kernel
        self.lets: dict[str, Expr] = {}
        for _, s in walk(kernel.body):
            if s.kind == "let" and s.value is not None:
                self.lets[s.name] = subst(s.value, self.lets)
        self._uniform: dict[Expr, bool] = {}
        self.varying: set[str] = {"t"}
        while more := {n for s in self._loops for n in self._unsteady(s)} - self.varying:
            self.varying |= more
            self._uniform.clear()

    @cached_property
    def facts(self) -> Facts:
        """The ranges of what a block is told, without any fact."""
        from amk.harness.bounds import size_ranges

        sizes = size_ranges(self.kernel)
        scales = {p.name: p.multiple_of for p in self.kernel.scalars if p.name in sizes}
        blocks = dict.fromkeys(("bx", "by", "bz", "gx", "gy", "gz"), (0, 2**31 - 1))
        return Facts({**sizes, **blocks, "rank": (0, 15), "t": (0, self.kernel.threads - 1)}, scales)

    @cached_property
    def _loops(self) -> list[For]:
        return [s for _, s in walk(self.kernel.body) if s.kind == "for"]

    def _unsteady(self, s: For) -> Iterator[str]:
        """The names of a loop that may differ between lanes."""
        if not all(map(self.same, _ends(s))):
            yield from (s.var, *(c.name for c in s.carry))
        else:
            yield from (c.name for c in s.carry if not (self.same(c.init) and self.same(c.next)))

    def body(
        self, statements: tuple[Statement, ...], pointer: str, around: tuple[Expr, ...]
    ) -> Iterator[tuple[str, str]]:
        for i, s in enumerate(statements):
            here = f"{pointer}/{i}"
            if s.kind == "let" and s.uniform and s.value is not None:
                if not self.same(s.value):
                    yield here, f"{s.name} = {s.value} is declared uniform and may differ between lanes of a warp"
                split = next((e for e in around if not self.same(e)), None)
                if split is not None:
                    yield here, f"{s.name} is declared uniform where {split} may keep lanes of its warp away"
            inner = (s.cond,) if s.kind == "if" else _ends(s) if s.kind == "for" else ()
            for below, inside in children(s):
                yield from self.body(inside, here + below, (*around, *inner))

    def same(self, e: Expr) -> bool:
        """Whether a term has one value in all lanes of a warp."""
        found = self._uniform.get(e)
        if found is None:
            poly = self.facts.poly(subst(e, self.lets))
            found = self._uniform[e] = all(self._steady(x) for m in poly for x in m)
        return found

    def _steady(self, x: Expr) -> bool:
        if isinstance(x, Var):
            return x.name not in self.varying and x.name.partition("/")[0] not in self.varying
        if isinstance(x, Elem):
            return False
        if not isinstance(x, Apply):
            return True
        if names(x) == _THREAD and not has_elements(x):
            return self._tabulated(x)
        return all(map(self.same, x.args))

    def _tabulated(self, x: Expr) -> bool:
        f = function_of((x,), ("t",))
        try:
            values = [f(t)[0] for t in range(self.kernel.threads)]
        except (ValueError, ZeroDivisionError, OverflowError):
            return False
        return all(len(set(values[w : w + 32])) == 1 for w in range(0, len(values), 32))


def _ends(s: For) -> tuple[Expr, ...]:
    """The terms that decide how often a thread runs a loop."""
    return (s.lo, s.hi, s.step, *(() if s.until is None else (s.until,)))
