"""AMK003: duplicate name."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.expr import BUILTINS
from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.form import declared
from amk.harness.rule import Rule
from amk.harness.rules.examples import example, small

__all__ = ["Duplicate"]


class Duplicate(Rule):
    """Every name is introduced once in a kernel.

    Why:    A name with two meanings makes every term in which it stands ambiguous.
    Proof:  All declarations, Lets, loop variables and carried values are collected; built-in names count as taken.
    Bad:    Two Lets called `i`.
    Good:   A name of its own for each value.
    Source: the IR's definition (nodes)
    """

    code, title = "AMK003", "duplicate name"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        seen = set(BUILTINS)
        for pointer, name in declared(k.kernel):
            if name in seen:
                yield self.report(k, pointer, f"{name!r} is already taken", hint="give it another name")
            seen.add(name)

    @staticmethod
    def bad() -> KernelDescriptor:
        return example(body=[*small()["body"], small()["body"][0]])

    @staticmethod
    def good() -> KernelDescriptor:
        return example()
