"""Bounds, overflow, alignment, divisions and the domain of a kernel, for all sizes, by two provers.

In: a Context. Out: a BoundsResult. Every claim is a term that must be >= 0: the affine prover tries it first, Z3
decides what is left (or everything, by the context's `prover`). What neither proves is a finding, with values if it is
wrong.

Lemma used throughout: an index tuple in bounds in each dimension is in bounds as a linear address.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from amk.dsl.evaluate import function_of
from amk.dsl.expr import Apply, Const, Elem, Expr, Var, apply, has_elements, names, subst
from amk.dsl.kernel import KernelDescriptor
from amk.harness.affine import Facts
from amk.harness.context import Context
from amk.harness.diagnostics import Obligation, Severity
from amk.harness.intervals import WIDE, Interval, of_dtype
from amk.harness.solver import Referee, Verdict

__all__ = ["BoundsResult", "Finding", "Prover", "prove_bounds"]


class Finding(NamedTuple):
    """A claim that was not proved: the rules turn those of their code into diagnostics."""

    code: str
    pointer: str
    message: str
    severity: Severity = "error"
    counterexample: dict[str, int] = {}
    hint: str = ""


class BoundsResult(NamedTuple):
    """What was shown, what was not, and what the launcher has to check."""

    findings: tuple[Finding, ...]
    obligations: tuple[Obligation, ...]
    facts: tuple[str, ...]
    grid: tuple[int, int, int]  # the largest grid for any size of the domain
    domain: dict[str, Interval]

    def of(self, code: str) -> tuple[Finding, ...]:
        """The findings of one rule."""
        return tuple(f for f in self.findings if f.code == code)


def size_ranges(kernel: KernelDescriptor) -> dict[str, Interval]:
    """The range of each integer scalar, cut to what its type holds and to its multiples."""
    out: dict[str, Interval] = {}
    for p in kernel.scalars:
        lo, hi = of_dtype(p.dtype)
        if hi < 1 << 65:
            lo, hi, m = max(lo, p.min), min(hi, p.max), p.multiple_of
            out[p.name] = (-(-lo // m) * m, hi // m * m)
    return out


class Prover:
    """The two provers behind one question, with the environment of the statement that the walk has reached."""

    def __init__(self, k: Context) -> None:
        self.context, kernel = k, k.kernel
        self.sizes = size_ranges(kernel)
        scales = {p.name: p.multiple_of for p in kernel.scalars if p.name in self.sizes}
        self.facts = Facts({**self.sizes, "t": (0, kernel.threads - 1)}, scales)
        self.path: list[Expr] = []
        self.guards: list[Expr] = []  # the conditions among them that are the kernel's, as it writes them
        self.env: dict[str, Expr] = {}
        self.vague: set[str] = set()  # names that stand for more values than they can take
        self.findings: list[Finding] = []
        self.obligations: list[Obligation] = []
        self._referee: Referee | None = None
        self.snapshot: dict[Expr, Expr] = {}  # elements at the current statement
        self.loops: frozenset[str] = frozenset()
        self._frozen_count = 0
        self._inlined: dict[Expr, Expr] = {}
        self.invariants: dict[str, Interval] = {}  # of carried values of loops in loops, found at the outermost
        self.strides: dict[str, tuple[int, Expr]] = {}  # of a loop's counter: what it counts, and the loop's step
        self._seen: dict[tuple[str, str, str, tuple[Expr, ...]], bool] = {}
        self._said: set[tuple[str, str, str]] = set()
        for d in kernel.buffers:
            self.facts.elements[d.name] = of_dtype(d.dtype)
        self._start_grid(kernel)

    def _start_grid(self, kernel: KernelDescriptor) -> None:
        tops = []
        for block, count, g in zip(("bx", "by", "bz"), ("gx", "gy", "gz"), kernel.grid3, strict=True):
            top = self.facts.interval(g)[1]
            tops.append(top)
            self.facts.ranges[block] = (0, max(0, top - 1))
            self.env[count] = g
            if not isinstance(g, Const):
                self.assume(apply("<", block, g))
        self.env["rank"] = apply("%", "bx", kernel.cluster) if kernel.cluster > 1 else Const(0)
        self.grid = (tops[0], tops[1], tops[2])

    # -- facts ------------------------------------------------------------------------------------------------------
    def assume(self, cond: Expr, guard: Expr | None = None) -> None:
        """Adds a condition to the path (inlined; conditions on elements of buffers say nothing lasting).

        `guard` is how the kernel writes it, for what the certificate says of claims under it.
        """
        self.path.append(cond)
        self.facts.know(cond)
        if guard is not None:
            self.guards.append(guard)

    def mark(self) -> tuple[int, int, int]:
        return len(self.path), len(self.facts.path), len(self.guards)

    def back(self, mark: tuple[int, int, int]) -> None:
        """Forgets what was assumed since the mark."""
        del self.path[mark[0] :], self.facts.path[mark[1] :], self.guards[mark[2] :]

    def variable(self, name: str, span: Interval) -> None:
        """A name that stands for itself, with all its values."""
        self.facts.ranges[name] = span

    def inline(self, e: Expr) -> Expr:
        """The term with every Let, loop variable and grid size replaced by what it stands for.

        An element is replaced by a name for the value it has at this statement, since it may change later.
        """
        out = self._inlined.get(e)
        if out is None:
            out = self._inlined[e] = subst(e, self.env)
        return self._frozen(out) if has_elements(out) else out

    def renamed(self) -> None:
        """Says that a name of the environment stands for something else now."""
        self._inlined.clear()

    def _frozen(self, e: Expr) -> Expr:
        if isinstance(e, Apply):
            return apply(e.op, *map(self._frozen, e.args))
        if not isinstance(e, Elem):
            return e
        if e not in self.snapshot:
            self._frozen_count += 1
            name = f"{e} #{self._frozen_count}"
            self.snapshot[e] = Var(name)
            self.variable(name, self.facts.elements.get(self.context.kernel.resolve(e).buffer, WIDE))
        return self.snapshot[e]

    def note(self, code: str, pointer: str, claim: str) -> None:
        """An obligation that the intervals or coefficients alone show."""
        self._keep(code, pointer, claim, "affine")

    def _keep(self, code: str, pointer: str, claim: str, by: Literal["affine", "z3"]) -> None:
        self.obligations.append(Obligation(code, pointer, claim, by, tuple(self.guards)))

    # -- claims -----------------------------------------------------------------------------------------------------
    def require(self, code: str, pointer: str, goal: Expr, claim: str, message: str, hint: str = "") -> bool:
        """The claim `goal >= 0` (already inlined); what fails becomes a finding with `message`."""
        key = (code, pointer, claim, tuple(self.path))
        if key not in self._seen:
            self._seen[key] = self._shown(code, pointer, goal, claim, message, hint)
        if code == "AMK208":  # what a quotient needs to have bounds of its own; once said, it is not said again
            self.learn(goal)
        return self._seen[key]

    def _shown(self, code: str, pointer: str, goal: Expr, claim: str, message: str, hint: str) -> bool:
        by, verdict = self._decide(goal)
        if verdict.status == "proved":
            self._keep(code, pointer, claim, "z3" if by == "z3" else "affine")
        elif (said := (code, pointer, claim)) not in self._said:
            self._said.add(said)
            self._fail(code, pointer, claim, message, verdict, hint)
        return verdict.status == "proved"

    def learn(self, goal: Expr) -> None:
        """Keeps a claim as a fact for what follows on this path, where no interval says it."""
        if not isinstance(goal, Const) and self.facts.interval(goal)[0] < 0:
            self.assume(apply(">=", goal, 0))

    def _decide(self, goal: Expr) -> tuple[str, Verdict]:
        mode = self.context.prover
        plain = isinstance(goal, Const) and goal.value >= 0
        shown = plain or self.facts.prove(goal)
        if plain or (shown and mode == "auto"):
            return "affine", Verdict("proved")
        verdict = self.referee.refute(goal, self.relevant(goal))
        if shown and verdict.status == "refuted":
            self._disagree(goal, verdict)
        if shown and verdict.status == "unknown":
            return "affine", Verdict("proved")
        return "z3", verdict

    def relevant(self, goal: Expr) -> tuple[Expr, ...]:
        """The conditions of the path without elements of buffers (whose values change)."""
        return tuple(c for c in dict.fromkeys(self.path) if not has_elements(c))

    @property
    def referee(self) -> Referee:
        if self._referee is None:
            self._referee = Referee(self.facts.ranges, self.facts.scales, self.sizes)
        return self._referee

    def _disagree(self, goal: Expr, verdict: Verdict) -> None:
        message = f"the affine prover shows {goal} >= 0, and Z3 refutes it; please report this kernel"
        self.findings.append(Finding("AMK901", "", message, "error", dict(verdict.model)))

    def _fail(self, code: str, pointer: str, claim: str, message: str, verdict: Verdict, hint: str) -> None:
        loose = verdict.model.keys() & self.vague or not self._reached(verdict.model)
        refuted = verdict.status == "refuted" and not loose
        if refuted:
            values = self.shown(verdict.model)
            self.findings.append(Finding(code, pointer, message, "error", values, hint))
            return
        text = f"not proved: {claim} ({message} is neither shown nor excluded)"
        self.findings.append(Finding(code, pointer, text, "undecided", {}, hint))

    def _reached(self, model: Mapping[str, int]) -> bool:
        """Whether the loops with a step that is no constant really come to the values of a model."""
        for counter, (unit, step) in self.strides.items():
            if counter in model and names(step) <= model.keys():
                order = tuple(sorted(names(step)))
                by = int(function_of((step,), order)(*(model[n] for n in order))[0])
                if by < 1 or model[counter] * unit % by:
                    return False
            elif counter in model:
                return False
        return True

    def shown(self, model: Mapping[str, int]) -> dict[str, int]:
        """The values of a model by the names of the program: loop variables computed, proof variables left out."""
        values = dict(model)
        out = {n: v for n, v in values.items() if "#" not in n}
        for name, e in self.env.items():
            if any("#" in n for n in names(e)) and names(e) <= values.keys() and name in self.loops:
                order = tuple(sorted(names(e)))
                out[name] = int(function_of((e,), order)(*(values[n] for n in order))[0])
        return out


def minus(a: Expr, *rest: Expr | int) -> Expr:
    """a - b - c …"""
    for b in rest:
        a = apply("-", a, b)
    return a


def check_grid(p: Prover) -> None:
    """The blocks in x make up whole clusters for all sizes."""
    cluster, blocks = p.context.kernel.cluster, p.context.kernel.grid3[0]
    if cluster > 1:
        claim = f"grid x = {blocks} is a multiple of the cluster of {cluster}"
        goal = minus(Const(0), apply("%", p.inline(blocks), cluster))
        message = f"grid x = {blocks} is not a multiple of the cluster of {cluster} for all sizes"
        hint = f"state that the size is a multiple (multiple_of={cluster}), or round the grid up"
        p.require("AMK102", "", goal, claim, message, hint)


def prove_bounds(k: Context) -> BoundsResult:
    """The claims of every statement of the kernel."""
    from amk.harness.claims import Walk
    from amk.harness.domain import check_domain, launch_facts
    from amk.harness.maps import check_maps

    p = Prover(k)
    if check_domain(p):
        check_maps(p)
        check_grid(p)
        Walk(p).run()
    return BoundsResult(tuple(p.findings), tuple(p.obligations), launch_facts(k.kernel), p.grid, p.sizes)
