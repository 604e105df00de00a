"""AMK002: undefined name."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.expr import BUILTINS
from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.form import declared, undefined
from amk.harness.rule import Rule
from amk.harness.rules.examples import example

__all__ = ["Undefined"]

_GUESSES, _NAMES = 20, 500  # names that are guessed at, and among how many: comparing words is slow


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
        hints: dict[str, str] = {}
        known: dict[str, str] = {}
        for pointer, name in dict.fromkeys(undefined(k.kernel)):
            known = known or {n: p for p, n in declared(k.kernel)}
            if name not in hints:
                hints[name] = self._hint(known, name, guess=len(hints) < _GUESSES)
            yield self.report(k, pointer, f"{name!r} is not defined here", hint=hints[name])

    @staticmethod
    def _hint(known: dict[str, str], name: str, *, guess: bool) -> str:
        """A name that exists and looks like it, or where the one that is meant has to stand."""
        if name in known:
            return f"{name} is introduced at {known[name]}: move that before this use, into a body around it"
        names = [*BUILTINS, *known][:_NAMES] if guess else []
        from difflib import get_close_matches

        near = get_close_matches(name, names, 1, 0.6)
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
