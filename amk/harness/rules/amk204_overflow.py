"""AMK204: 32-bit overflow."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
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
    Source: github.com/microsoft/onnxruntime/issues/28107; ISO C, 6.5: signed overflow is undefined
    """

    code, title = "AMK204", "32-bit overflow"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from claimed(self, k)

    @staticmethod
    def bad() -> KernelDescriptor:
        return example(body=[{"kind": "let", "name": "q", "value": "n * 2"}])

    @staticmethod
    def good() -> KernelDescriptor:
        return example(body=[{"kind": "let", "name": "q", "dtype": "i64", "value": "i64(n) * 2"}])
