"""Where a walk of one block stands: what is known of the names, what holds, and the state of memory and registers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from amk.dsl.expr import Expr
from amk.verify.memory import Memory

__all__ = ["Here", "Path", "merged"]

Registers = dict[tuple[str, tuple[int, ...]], int]  # buffer and index: the threads that surely wrote it


@dataclass(frozen=True)
class Here:
    """The threads that reach a statement. `unsure`: perhaps none of them does; `ragged`: perhaps only some do."""

    active: int
    unsure: bool = False
    ragged: bool = False


@dataclass
class Path:
    """One state of the walk, for every choice of sizes and block that satisfies `facts`.

    known  names with one value (or one a thread): constants, rounds of loops, and in a single case all sizes
    terms  names that stand for a term over sizes, blocks and rounds
    data   names whose value is not followed: what memory gives, or what nothing here depends on
    """

    facts: tuple[Expr, ...] = ()
    known: dict[str, Any] = field(default_factory=dict)
    terms: dict[str, Expr] = field(default_factory=dict)
    data: frozenset[str] = frozenset()
    memory: Memory = field(default_factory=Memory)
    registers: Registers = field(default_factory=dict)
    gains: dict[Expr, tuple[Registers, dict[int, int]]] = field(default_factory=dict)

    def copy(self, *facts: Expr) -> Path:
        """The same state, under more facts."""
        return replace(
            self, facts=(*self.facts, *facts), known=dict(self.known), terms=dict(self.terms),
            memory=self.memory.copy(), registers=dict(self.registers), gains=dict(self.gains),
        )  # fmt: skip

    def key(self) -> tuple[Any, ...]:
        """Two paths with one key go on alike, as far as their facts allow."""
        return (
            self.memory.key(), frozenset(self.registers.items()), tuple(sorted(self.known.items(), key=lambda x: x[0])),
            tuple(sorted((n, str(e)) for n, e in self.terms.items())), self.data,
        )  # fmt: skip


def merged(paths: Iterable[Path]) -> list[Path]:
    """Paths in equal states as one, for every choice of sizes that either stood for."""
    paths = list(paths)
    if len(paths) == 1:
        return paths
    out: dict[tuple[Any, ...], Path] = {}
    for p in paths:
        same = out.get(key := p.key())
        if same is None:
            out[key] = p
        else:
            out[key] = replace(
                same, facts=tuple(f for f in same.facts if f in p.facts),
                gains={c: g for c, g in same.gains.items() if p.gains.get(c) == g},
            )  # fmt: skip
    return list(out.values())
