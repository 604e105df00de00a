"""AMK505: vector width left on the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import Elem, Var, names, subst, subterms
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Statement
from amk.harness.advice_width import widths
from amk.harness.context import Context
from amk.harness.coverage import linear
from amk.harness.diagnostics import Diagnostic, Fix
from amk.harness.findings import findings
from amk.harness.rule import Rule

if TYPE_CHECKING:
    from amk.dsl.patch import Edit

__all__ = ["AMK505"]


class AMK505(Rule):
    """A thread moves neighbouring elements one by one where one vector access would be allowed.

    Why:    each access is an instruction and a request; four at once leave the memory system more to overlap.
    Proof:  none needed, this is advice, of global and of shared memory. The elements are those of an innermost loop
            that counts from 0 by 1 and whose variable stands in the last index alone, or of statements that follow each
            other, to registers in the same order; base, pitches and all other terms are multiples of the width.
    Bad:    a loop over `x[t * 4 + j]` for 4 values of j.
    Good:   one load of width 4.
    Fix:    A loop that does nothing else takes steps of the width; statements in a row become one.
    Source: CUDA C++ Best Practices Guide, vectorised memory access.
    """

    code = "AMK505"
    title = "vector width left on the table"
    severity = "warning"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from findings(self, k, widths(k))

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """The loop in steps of the width, where the access is all that it does; or one statement for several."""
        from amk.dsl.patch import Edit
        from amk.harness.repair import set_field

        run = next((r for r in k.side_by_side if k.program.pointers[id(r[0])] == d.pointer), None)
        if run is not None:
            yield Fix(f"move {len(run)} elements at once", tuple(_joined(d.pointer, run)), safe=True)
            return
        loop, n = d.pointer.rpartition("/body/")[0], d.counterexample.get("width", 1)
        s, around = k.statements.get(d.pointer), k.statements.get(loop)
        if s is None or around is None or around.kind != "for" or len(around.body) != 1 or not _in_a_row(s, around.var):
            return
        edits = [*set_field(f"{loop}/step", str(n))]
        if s.kind == "load":
            edits += set_field(f"{d.pointer}/width", n)
        elif s.kind == "store":
            moved = [subst(s.values[0], {around.var: Var(around.var) + i}) for i in range(n)]
            edits.append(Edit("replace", f"{d.pointer}/values", [str(e) for e in moved]))
        yield Fix(f"move {n} elements at once", tuple(edits), safe=True)

    @staticmethod
    def bad() -> KernelDescriptor:
        return _kernel(1)

    @staticmethod
    def good() -> KernelDescriptor:
        return _kernel(4)


def _kernel(width: int) -> KernelDescriptor:
    k = KernelBuilder("narrow_access", target="sm_80", threads=32)
    x, a = k.tensor("x", "f32", (128,), align=16), k.registers("a", "f32", (4,))
    if width == 4:
        k.load(a[0], x[k.t * 4], width=4)
    else:
        with k.loop("j", 0, 4, unroll="full") as j:
            k.load(a[j.var], x[k.t * 4 + j.var])
    return k.finish(grid=(1,))


def _joined(pointer: str, run: list[Any]) -> Iterator[Edit]:
    """The first statement for all of them, and the others taken away."""
    from amk.dsl.patch import Edit
    from amk.harness.repair import set_field, sibling

    if run[0].kind == "load":
        yield from set_field(f"{pointer}/width", len(run))
    else:
        yield Edit("replace", f"{pointer}/values", [str(s.values[0]) for s in run])
    body, first = sibling(pointer)
    yield from (Edit("remove", f"{body}/{first + i}") for i in range(len(run) - 1, 0, -1))


def _in_a_row(s: Statement, var: str) -> bool:
    """Whether the registers of a copy of single elements are neighbours as the loop's variable counts."""
    if s.kind == "load" and s.width == 1:
        refs, others = [s.dst], [e for e in (s.when, s.other) if e is not None]
    elif s.kind == "store" and len(s.values) == 1:
        refs, others = [x for x in subterms(s.values[0]) if isinstance(x, Elem)], []
    else:
        return False
    along = (linear(r.index[-1]).get(Var(var)) == 1 and not any(var in names(i) for i in r.index[:-1]) for r in refs)
    return all(along) and not any(var in names(e) for e in others)
