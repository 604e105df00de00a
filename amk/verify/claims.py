"""The place of a claim: what holds there, how the kernel says it, and what its names stand for."""

from __future__ import annotations

from amk.dsl.expr import Apply, Const, Elem, Expr, Var, has_elements, subst
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Buffer
from amk.verify.domain import GRID, declare
from amk.verify.dtypes import Types
from amk.verify.duty import Duty
from amk.verify.logic import Logic, Verdict

__all__ = ["Claims"]

Goal = tuple[Expr, tuple[Expr, ...]]


class Claims:
    """Duties of arithmetic, with the goals that discharge them.

    facts   what holds here, over sizes, blocks, threads and rounds: the domain, then the guards around
    guards  the guards as the kernel writes them, outermost first
    env     what each name of the kernel stands for
    found   every duty so far, with each goal (over what names stand for) and the facts under which it has to hold
    """

    def __init__(self, kernel: KernelDescriptor, logic: Logic) -> None:
        self.kernel, self.logic, self.types = kernel, logic, Types(kernel)
        self.facts: list[Expr] = list(declare(logic, kernel))
        self.guards: list[str] = []
        self.env: dict[str, Expr] = {**dict(zip(GRID, kernel.grid3, strict=True)), "rank": Const(0)}
        self.found: dict[Duty, list[Goal]] = {}
        self.at = ""  # the statement that is looked at

    def claim(self, rule: str, at: str, claim: str, goal: Expr, text: str = "") -> None:
        """The goal must hold here. A duty that arises twice is one, with the goals of both."""
        duty = Duty(rule, at, claim, "proof", tuple(self.guards), text)
        self.found.setdefault(duty, []).append((goal, tuple(self.facts)))

    def shown(self, rule: str, at: str, claim: str) -> None:
        """A duty that needs no solver."""
        self.found.setdefault(Duty(rule, at, claim, "proof", tuple(self.guards)), [])

    def discharge(self, duty: Duty) -> Verdict:
        """The solver's verdict on a duty: the worst of its goals."""
        for goal, facts in self.found[duty]:
            verdict = self.logic.prove(goal, facts)
            if verdict.status != "proved":
                return verdict
        return Verdict("proved")

    def inline(self, e: Expr) -> Expr:
        """The term over sizes, blocks, threads and rounds; an element is a name for its value at this statement."""
        return self._frozen(subst(e, self.env))

    def _frozen(self, e: Expr) -> Expr:
        if not has_elements(e):
            return e
        if isinstance(e, Elem):
            d = self.kernel.find(e.buffer)
            assert isinstance(d, Buffer)
            return self.logic.declare(f"{e} at {self.at}", d.dtype)
        assert isinstance(e, Apply)
        return Apply(e.op, tuple(map(self._frozen, e.args)))

    def name(self, name: str, dtype: str = "i32", low: int = 0, high: int = 2**31 - 1) -> Var:
        """A name of the proof's own."""
        return self.logic.declare(name, dtype, low, high)

    def suppose(self, fact: Expr, guard: Expr) -> None:
        """A guard holds from here on, until `back`."""
        self.facts.append(fact)
        self.guards.append(str(guard))

    def mark(self) -> tuple[int, int]:
        """Where `back` returns to."""
        return len(self.facts), len(self.guards)

    def back(self, mark: tuple[int, int]) -> None:
        """Forgets what was supposed since the mark."""
        del self.facts[mark[0] :], self.guards[mark[1] :]
