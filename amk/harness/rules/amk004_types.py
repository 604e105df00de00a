"""AMK004: types disagree."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.infer import variable_types
from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.form import kind_of, type_fault, values
from amk.harness.rule import Rule
from amk.harness.rules.examples import example
from amk.harness.uniform import uniform_faults

__all__ = ["Types"]


class Types(Rule):
    """Every expression has the type that its place asks for, and what is declared uniform is.

    Why:    C converts silently: a float becomes an index, a 64-bit offset loses its upper half. A uniform value is
            handed round by the first lane of its warp.
    Proof:  Types are inferred from the leaves; integers and floats mix only through a cast,
            and conditions are truth values. Terms in the thread are tabulated over the lanes of each warp.
    Bad:    An f32 buffer that receives `1`.
    Good:   Write `1.0`, or cast: `f32(i)`.
    Source: the IR's definition (infer)
    """

    code, title = "AMK004", "types disagree"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        types = variable_types(k.kernel)
        yield from self._declarations(k, types)
        for pointer, s in k.statements.items():
            for what, e, wanted in values(k.kernel, s):
                if (fault := type_fault(k.kernel, types, e, wanted)) is not None:
                    yield self.report(k, pointer, f"{what}: {fault}", hint="cast it, or write 1.0 for a float constant")
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
                yield self.report(k, pointer, fault)

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
