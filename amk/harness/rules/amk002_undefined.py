"""AMK002: undefined name."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from amk.dsl.expr import BUILTINS
from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.form import declared, undefined
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
            yield self.report(k, pointer, f"{name!r} is not defined here", hint=self._hint(k, name))

    @staticmethod
    def _hint(k: Context, name: str) -> str:
        """A name that exists and looks like it, or where the one that is meant has to stand."""
        known = dict(declared(k.kernel))
        if name in known.values():
            place = next(p for p, n in known.items() if n == name)
            return f"{name} is introduced at {place}: move that before this use, into a body around it"
        near = get_close_matches(name, [*known.values(), *BUILTINS], 1, 0.6)
        said = f"did you mean {near[0]}? if not, " if near else ""
        return f"{said}declare {name} as a parameter, or give it a value with a let before this use"

    @staticmethod
    def bad() -> KernelDescriptor:
        return example(
            [{"kind": "load", "dst": "a[0]", "src": "x[i]"}, {"kind": "store", "dst": "z[i]", "values": ["a[0] + q"]}]
        )

    @staticmethod
    def good() -> KernelDescriptor:
        return example()
