"""AMK002: undefined name."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.form import undefined
from amk.harness.rule import Rule
from amk.harness.rules.examples import example

__all__ = ["Undefined"]


class Undefined(Rule):
    """Every name is declared and in scope where it is used.

    Why:    A name without a value has no meaning, and C would find another one or none.
    Proof:  One walk with the scopes of the IR: a Let to the end of its block, carried values also after their loop.
    Bad:    `z[i] = a[0] + q` with no `q`.
    Good:   Name a parameter, a Let, a loop variable or a carried value.
    Source: the IR's definition (nodes)
    """

    code, title = "AMK002", "undefined name"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        for pointer, name in dict.fromkeys(undefined(k.kernel)):
            yield self.report(k, pointer, f"{name!r} is not defined here", hint="declare it, or move its Let outwards")

    @staticmethod
    def bad() -> KernelDescriptor:
        return example(
            [{"kind": "load", "dst": "a[0]", "src": "x[i]"}, {"kind": "store", "dst": "z[i]", "values": ["a[0] + q"]}]
        )

    @staticmethod
    def good() -> KernelDescriptor:
        return example()
