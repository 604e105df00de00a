"""AMK003: duplicate name."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.expr import BUILTINS
from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Related
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
        first: dict[str, str] = {}
        taken = {*BUILTINS, *(name for _, name in declared(k.kernel))}
        for pointer, name in declared(k.kernel):
            if name in BUILTINS:
                message = f"{name!r} is already taken: it is built in"
                yield self.report(k, pointer, message, hint=self._hint(name, taken))
            elif name in first:
                related = (Related(first[name], f"{name} is introduced here", _at(k, first[name])),)
                message = f"{name!r} is already taken"
                yield self.report(k, pointer, message, related=related, hint=self._hint(name, taken))
            first.setdefault(name, pointer)

    @staticmethod
    def _hint(name: str, taken: set[str]) -> str:
        free = next(f"{name}{i}" for i in range(2, len(taken) + 3) if f"{name}{i}" not in taken)
        return f"call it {free} here and where this value is meant"

    @staticmethod
    def bad() -> KernelDescriptor:
        return example(body=[*small()["body"], small()["body"][0]])

    @staticmethod
    def good() -> KernelDescriptor:
        return example()


def _at(k: Context, pointer: str) -> str | None:
    return getattr(k.statements.get(pointer), "at", None)
