"""AMK008: outside the checked fragment."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.fragment import unsupported
from amk.harness.rule import Rule
from amk.harness.rules.examples import example

__all__ = ["Fragment"]


class Fragment(Rule):
    """Everything in the kernel is something that the harness can decide.

    Why:    What cannot be checked is refused: accepting it would make every other verdict worthless.
    Proof:  Statements and declarations are compared with the list of what the engines understand.
    Bad:    A carried value of type u64, of which the provers keep no bound.
    Good:   The same of type i64.
    Source: docs/soundness.md, the checked fragment
    """

    code, title = "AMK008", "outside the checked fragment"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        for pointer, message in unsupported(k.kernel):
            yield self.report(k, pointer, message, hint=_hint(message))

    @staticmethod
    def bad() -> KernelDescriptor:
        return _carrying("u64")

    @staticmethod
    def good() -> KernelDescriptor:
        return _carrying("i64")


def _carrying(dtype: str) -> KernelDescriptor:
    carry = [{"name": "c", "dtype": dtype, "init": "0", "next": "1"}]
    return example(body=[{"kind": "for", "var": "j", "hi": "4", "carry": carry, "body": []}])


_WAYS = {
    "early": "give the loop its bound alone, and put what follows the exit under an `if` in its body",
    "nests": "name parts of it with let",
}


def _hint(message: str) -> str:
    """How to do without what is not checked."""
    way = next((way for word, way in _WAYS.items() if word in message), "write it without this")
    return f"{way}; docs/soundness.md lists what is checked"
