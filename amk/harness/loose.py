"""Loops in which shared memory is touched at elements that data decide, and nowhere else: walked once.

Any thread may then touch any element of the array in any round, so one round by all threads that come to the loop has
every access that can happen, and none of them makes an element initialised. How often the loop runs does not matter.
"""

from __future__ import annotations

from amk.dsl.expr import Const, names
from amk.dsl.nodes import For, Statement
from amk.harness.events import Program

__all__ = ["loosened"]


def loosened(p: Program) -> Program:
    """The program with such loops over sizes run once; the program itself where it has none."""
    found = frozenset(id(s) for _, s in p.statements if isinstance(s, For) and s.var not in p.fixed and _loose(p, s))
    if not found:
        return p
    return Program(p.kernel.replaced(body=_once(p.kernel.body, found)))


def _loose(p: Program, loop: For) -> bool:
    mine = {loop.var, *(c.name for c in loop.carry)}
    return p.matters(loop) and all(_harmless(p, s, mine) for s in loop.body)


def _harmless(p: Program, s: Statement, mine: set[str]) -> bool:
    """Whether a statement does the same in every round, as far as ordering sees it."""
    if not p.matters(s):
        return True
    if s.kind == "if":
        same = bool(p.data(s.cond)) or not names(p.inline(s.cond)) & mine
        return same and all(_harmless(p, x, mine) for x in s.body)
    plain = s.kind == "atomic" or (s.kind == "load" and s.when is None and s.peer is None)
    return plain and all(o.anywhere for o in p.operands(s))


def _once(body: tuple[Statement, ...], found: frozenset[int]) -> tuple[Statement, ...]:
    """The statements, the loops of a set with a single round."""
    out: list[Statement] = []
    for s in body:
        if s.kind == "for" and id(s) in found:
            s = s.model_copy(update={"lo": Const(0), "hi": Const(1), "step": Const(1), "until": None})
        elif s.kind in ("for", "if"):
            s = s.model_copy(update={"body": _once(s.body, found)})
        elif s.kind == "team":
            roles = tuple(r.model_copy(update={"body": _once(r.body, found)}) for r in s.roles)
            s = s.model_copy(update={"roles": roles})
        out.append(s)
    return tuple(out)
