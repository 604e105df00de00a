"""AMK004: types disagree."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.expr import Expr
from amk.dsl.infer import family, variable_types
from amk.dsl.kernel import KernelDescriptor, expressions
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix
from amk.harness.form import kind_of, type_fault, values
from amk.harness.rule import Rule
from amk.harness.rules.examples import example
from amk.harness.uniform import uniform_faults

__all__ = ["Types"]


def _hint(e: Expr, wanted: str) -> str:
    """How an expression of another type comes to stand where `wanted` is wanted."""
    if wanted == "bool":
        return f"compare it: ({e}) != 0, or use a comparison"
    if wanted == "index":
        return f"use an integer, as in i32({e})"
    if wanted in ("f16", "bf16"):
        return f"compute in f32, and cast what comes out: {wanted}(f32(a)*f32(b))"
    kind = family(wanted) if wanted else ""
    return (
        f"write constants with a point, as in 1.0, or cast: {wanted}({e})"
        if kind == "float"
        else f"cast: {wanted}({e})"
    )


class Types(Rule):
    """Every expression has the type that its place asks for, and what is declared uniform is.

    Why:    C converts silently: a float becomes an index, a 64-bit offset loses its upper half. A uniform value is
            handed round by the first lane of its warp.
    Proof:  Types are inferred from the leaves; integers and floats mix only through a cast,
            conditions are truth values, and a constant is a number that the type of its place holds. Terms in the
            thread are tabulated over the lanes of each warp.
    Bad:    An f32 buffer that receives `1`.
    Good:   Write `1.0`, or cast: `f32(i)`.
    Fix:    A whole number among floats gets its point.
    Source: the IR's definition (infer)
    """

    code, title = "AMK004", "types disagree"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        types = variable_types(k.kernel)
        yield from self._declarations(k, types)
        for pointer, s in k.statements.items():
            for what, e, wanted in values(k.kernel, s):
                if (fault := type_fault(k.kernel, types, e, wanted)) is not None:
                    yield self.report(k, pointer, f"{what}: {fault}", hint=_hint(e, wanted))
            if s.kind == "load":
                to, of = kind_of(k.kernel, s.dst)[1], kind_of(k.kernel, s.src)[1]
                if to and of and to != of:
                    yield self.report(k, pointer, f"loads {of} into registers of {to}", hint=f"declare them {of}")
        for pointer, message in uniform_faults(k.kernel):
            yield self.report(k, pointer, message, hint="leave uniform out, or name it where whole warps are")

    def _declarations(self, k: Context, types: dict[str, str]) -> Iterator[Diagnostic]:
        terms = [(f"/grid/{i}", e) for i, e in enumerate(k.kernel.grid)]
        for i, p in enumerate(k.kernel.params):
            terms += [(f"/params/{i}", e) for e in (*(p.shape or ()), *(p.strides or ()))]
        for pointer, e in terms:
            if (fault := type_fault(k.kernel, types, e, "index")) is not None:
                yield self.report(k, pointer, fault, hint=_hint(e, "index"))

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """Constants that stand among floats, written as floats."""
        from amk.dsl.patch import Edit
        from amk.harness.literals import floated

        s = k.statements.get(d.pointer)
        if s is None:
            return
        edits, types = [], variable_types(k.kernel)
        for what, e, wanted in values(k.kernel, s):
            fault = type_fault(k.kernel, types, e, wanted)
            if fault is None or d.message != f"{what}: {fault}":
                continue
            mended = floated(e, wanted, types, k.kernel)
            if mended != e and type_fault(k.kernel, types, mended, wanted) is None:
                edits += [Edit("replace", d.pointer + p, str(mended)) for p, x in expressions(s) if x == e]
        if edits:
            yield Fix(f"write it as {edits[0].value}", tuple(edits), safe=True)

    @staticmethod
    def bad() -> KernelDescriptor:
        return example(
            [{"kind": "load", "dst": "a[0]", "src": "x[i]"}, {"kind": "store", "dst": "z[i]", "values": ["1"]}]
        )

    @staticmethod
    def good() -> KernelDescriptor:
        return example(
            [{"kind": "load", "dst": "a[0]", "src": "x[i]"}, {"kind": "store", "dst": "z[i]", "values": ["1.0"]}]
        )
