"""The place of a claim: what holds there, how the kernel says it, and what its names stand for."""

from __future__ import annotations

from amk.dsl.expr import Apply, Const, Elem, Expr, Var, has_elements, names, subst
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Buffer
from amk.verify.domain import GRID, declare, rank_of
from amk.verify.dtypes import Types
from amk.verify.duty import Duty
from amk.verify.logic import Logic, Verdict
from amk.verify.loose import uncertain
from amk.verify.values import bounds

__all__ = ["Claims"]

Goal = tuple[Expr, tuple[Expr, ...]]


class Claims:
    """Duties of arithmetic, with the goals that discharge them.

    facts   what holds here, over sizes, blocks, threads and rounds: the domain, then the guards around
    guards  the guards as the kernel writes them, outermost first
    env     what each name of the kernel stands for
    found   every duty so far, with each goal (over what names stand for) and the facts under which it has to hold
    inside  of each shared array, what has to hold for every access to lie in it (no duty of its own: where a block is
            walked, the walk sees it)
    """

    def __init__(self, kernel: KernelDescriptor, logic: Logic) -> None:
        self.kernel, self.logic, self.types = kernel, logic, Types(kernel)
        self.facts: list[Expr] = list(declare(logic, kernel))
        self.guards: list[str] = []
        self.env: dict[str, Expr] = {**dict(zip(GRID, kernel.grid3, strict=True)), "rank": rank_of(kernel)}
        self.found: dict[Duty, list[Goal]] = {}
        self.inside: dict[str, list[Goal]] = {}
        self.at = ""  # the statement that is looked at
        self._data: tuple[dict[str, Expr], frozenset[str]] | None = None

    def claim(self, rule: str, at: str, claim: str, goal: Expr, text: str = "") -> None:
        """The goal must hold here. A duty that arises twice is one, with the goals of both."""
        duty = Duty(rule, at, claim, "proof", tuple(self.guards), text)
        self.found.setdefault(duty, []).append((goal, tuple(self.facts)))

    def lies(self, buffer: str, first: Expr, count: int, extent: int) -> None:
        """`count` elements from `first` on lie in a dimension (or an array) of a shared buffer."""
        both = Apply("and", (Apply(">=", (first, Const(0))), Apply("<=", (first + count, Const(extent)))))
        self.inside.setdefault(buffer, []).append((both, tuple(self.facts)))

    def all_inside(self, buffer: str) -> bool:
        """Whether every access to a shared array is shown to lie in it."""
        return all(self.logic.holds(goal, facts) for goal, facts in self.inside.get(buffer, ()))

    def learn(self, e: Expr, least: int) -> None:
        """A claim that has been stated is a fact for what follows here, where the bounds of its names do not say it."""
        low = bounds(e, self.logic.box)[0]
        if low is None or low < least:
            self.facts.append(Apply(">=", (e, Const(least))))

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

    def follows_data(self, e: Expr) -> bool:
        """Whether a term depends on elements, or on values that a loop carries and that may differ between threads."""
        if self._data is None:
            self._data = uncertain(self.kernel)
        lets, loose = self._data
        full = subst(e, lets)
        return has_elements(full) or bool(names(full) & loose)

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
