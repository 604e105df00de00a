"""AMK204: 32-bit overflow."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.expr import Apply, Const, Expr
from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix
from amk.harness.rule import Rule
from amk.harness.rules.examples import example
from amk.harness.rules.witnessed import claimed

__all__ = ["Overflow"]


class Overflow(Rule):
    """No integer term leaves its type for any size of the domain.

    Why:    An index that wraps reads the wrong element of a large tensor, and a proof over
            unbounded integers does not see it.
    Proof:  The interval of each subterm, else a claim to the provers;
            and the largest offset of each tensor with 32-bit offsets.
    Bad:    Offsets of a 50,000 x 50,000 tensor in i32.
    Good:   `offsets: i64`, or an assumption that bounds the product.
    Fix:    Offsets, and values with a name, are computed in 64 bits.
    Source: github.com/microsoft/onnxruntime/issues/28107; ISO C, 6.5: signed overflow is undefined
    """

    code, title = "AMK204", "32-bit overflow"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from claimed(self, k)

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """Offsets in 64 bits, or the named value computed in 64 bits."""
        from amk.dsl.patch import Edit
        from amk.harness.repair import set_field

        s = k.statements.get(d.pointer)
        if s is None and d.pointer.startswith("/params/"):
            yield Fix("compute its offsets in 64 bits", set_field(f"{d.pointer}/offsets", "i64"), safe=True)
        elif s is not None and s.kind == "let" and s.value is not None and s.dtype == "i32":
            for wide in dict.fromkeys((_wide(s.value, first=True), _wide(s.value, first=False))):
                edits = (*set_field(f"{d.pointer}/dtype", "i64"), Edit("replace", f"{d.pointer}/value", str(wide)))
                yield Fix(f"compute {s.name} in 64 bits: {wide}", edits, safe=True)

    @staticmethod
    def bad() -> KernelDescriptor:
        return example(body=[{"kind": "let", "name": "q", "value": "n * 2"}])

    @staticmethod
    def good() -> KernelDescriptor:
        return example(body=[{"kind": "let", "name": "q", "dtype": "i64", "value": "i64(n) * 2"}])


def _wide(e: Expr, *, first: bool) -> Expr:
    """The term with its first leaf that is no constant, or all of them, in 64 bits."""
    if isinstance(e, Const) or (isinstance(e, Apply) and e.op == "i64"):
        return e
    if not isinstance(e, Apply) or e.op not in ("+", "-", "*", "//", "%", "cdiv", "min", "max"):
        return Apply("i64", (e,))
    args = list(e.args)
    for i, a in enumerate(args):
        args[i] = _wide(a, first=first)
        if first and args[i] != a:
            break
    return Apply(e.op, tuple(args))
