"""Tier 1: integers in Z3, under a resource limit so that a verdict repeats anywhere. Z3 is imported on first use.

A model counts as a refutation only if Python's own evaluation of the claim and of every fact agrees with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from amk.dsl.evaluate import function_of
from amk.dsl.expr import Apply, Const, Expr, Var, names
from amk.harness.intervals import Interval

__all__ = ["Referee", "Verdict"]

RLIMIT = 3_000_000
LADDER = (1, 2, 4, 8, 16, 64, 256, 1024, 8192, 65536)


class Verdict(NamedTuple):
    """proved, refuted (with values of the variables) or unknown."""

    status: str
    model: Mapping[str, int] = {}


class Referee:
    """One shared solver: asks whether `goal >= 0` can fail where all conditions hold."""

    def __init__(self, ranges: Mapping[str, Interval], scales: Mapping[str, int], sizes: Iterable[str]) -> None:
        import z3

        self.z, self.ranges, self.scales, self.sizes = z3, ranges, scales, tuple(sizes)
        self.solver = z3.Solver()
        self.solver.set("rlimit", RLIMIT)
        self._count = 0
        self._terms: dict[Expr, Any] = {}
        self._side: dict[Expr, Any] = {}
        self._known: dict[tuple[Expr, tuple[Expr, ...]], Verdict] = {}

    def refute(self, goal: Expr, path: tuple[Expr, ...]) -> Verdict:
        """The verdict on `goal >= 0` under the conditions of `path`."""
        key = (goal, path)
        if key not in self._known:
            self._known[key] = self._ask(Apply(">=", (goal, Const(0))), path)
        return self._known[key]

    def satisfiable(self, facts: tuple[Expr, ...]) -> Verdict:
        """refuted: there is a model of all facts; proved: there is none."""
        return self._ask(Const(False), facts)

    def _ask(self, claim: Expr, path: tuple[Expr, ...]) -> Verdict:
        z, s = self.z, self.solver
        used = _closure((claim, *path))
        s.push()
        try:
            s.add(z.Not(self.term(claim)), *(self.term(c) for c in path))
            s.add(*(self._range(n) for n in sorted(used)), *(self._side[e] for e in list(self._side)))
            answer = s.check()
            if answer == z.unsat:
                return Verdict("proved")
            return Verdict("unknown") if answer == z.unknown else self._smallest(claim, path, used)
        finally:
            s.pop()

    def _smallest(self, claim: Expr, path: tuple[Expr, ...], used: frozenset[str]) -> Verdict:
        """A model with small sizes that Python confirms."""
        models = [self._values(used)]
        sizes = [self.z.Int(n) for n in self.sizes if n in used]
        for limit in LADDER if sizes else ():
            self.solver.push()
            self.solver.add(*(x <= max(limit, self.ranges[str(x)][0]) for x in sizes))
            found = self.solver.check() == self.z.sat
            if found:
                models.insert(0, self._values(used))
            self.solver.pop()
            if found:
                break
        for m in models:
            if _confirmed(claim, path, m):
                return Verdict("refuted", m)
        return Verdict("unknown")

    def _values(self, used: frozenset[str]) -> dict[str, int]:
        model = self.solver.model()
        return {n: model.eval(self.z.Int(n), model_completion=True).as_long() for n in sorted(used)}

    def _range(self, name: str) -> Any:
        z, v = self.z, self.z.Int(name)
        lo, hi = self.ranges.get(name, (None, None))
        parts = [] if lo is None else [v >= lo, v <= hi]
        if (m := self.scales.get(name, 1)) > 1:
            parts.append(v == m * z.Int(f"{name}/{m}"))
        return z.And(*parts)

    # -- terms ------------------------------------------------------------------------------------------------------
    def term(self, e: Expr) -> Any:
        """The Z3 term; operators without an integer meaning become unknowns."""
        if e not in self._terms:
            self._terms[e] = self._make(e)
        return self._terms[e]

    def _make(self, e: Expr) -> Any:
        z = self.z
        if isinstance(e, Const) and not isinstance(e.value, float):
            return z.BoolVal(e.value) if isinstance(e.value, bool) else z.IntVal(e.value)
        if isinstance(e, Var):
            return z.Int(e.name)
        if not isinstance(e, Apply) or e.op in ("f32", "f64", "/") or any(map(_is_float, e.args)):
            return self._unknown(e)
        made = self._applied(e.op, [self.term(a) for a in e.args], e)
        return self._unknown(e) if made is None else made

    def _applied(self, op: str, a: list[Any], e: Apply) -> Any:
        z = self.z
        if op in ("and", "or", "not"):
            return {"and": z.And, "or": z.Or, "not": z.Not}[op](*a)
        if op in _DIRECT:
            return _DIRECT[op](*a)
        if op == "neg":
            return -a[0]
        if op in ("min", "max"):
            return z.If(a[0] <= a[1], a[0], a[1]) if op == "min" else z.If(a[0] >= a[1], a[0], a[1])
        if op == "select":
            return z.If(*a)
        if op in ("i32", "i64", "u32"):
            return a[0]
        return self._divided(op, a, e)

    def _divided(self, op: str, a: list[Any], e: Apply) -> Any:
        """Z3's division is Python's for positive divisors (a claim of its own; Python confirms models)."""
        if op in ("//", "%", "cdiv"):
            return -(-a[0] / a[1]) if op == "cdiv" else a[0] / a[1] if op == "//" else a[0] % a[1]
        k = e.args[1].value if isinstance(e.args[1], Const) else None
        if type(k) is int and 0 <= k < 63 and op in ("<<", ">>"):
            return a[0] * (1 << k) if op == "<<" else a[0] / (1 << k)
        if type(k) is int and op == "&" and k >= 0 and k & (k + 1) == 0:
            return a[0] % (k + 1)
        return None

    def _unknown(self, e: Expr) -> Any:
        """Nothing is known of its value but that equal terms are equal."""
        z = self.z
        if isinstance(e, Apply) and e.op in ("^", "|", "&") and not any(map(_is_float, e.args)):
            return self._bits(e)
        boolean = isinstance(e, Apply) and e.op in _BOOLEAN
        return (z.Bool if boolean else z.Int)(self._fresh())

    def _fresh(self) -> str:
        self._count += 1
        return f"unknown {self._count}"

    def _bits(self, e: Apply) -> Any:
        """x ^ y of non-negative terms is at most x + y and not negative, as are | and &."""
        z, v = self.z, self.z.Int(self._fresh())
        a, b = self.term(e.args[0]), self.term(e.args[1])
        top = z.If(a <= b, a, b) if e.op == "&" else a + b
        self._side[e] = z.Implies(z.And(a >= 0, b >= 0), z.And(v >= 0, v <= top))
        return v


_BOOLEAN = frozenset(("<", "<=", ">", ">=", "==", "!="))
_DIRECT: dict[str, Any] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b, "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}  # fmt: skip


def _is_float(e: Expr) -> bool:
    if isinstance(e, Const):
        return isinstance(e.value, float)
    return isinstance(e, Apply) and (e.op in ("/", "f32", "f64", "fma") or any(map(_is_float, e.args)))


def _closure(exprs: Iterable[Expr]) -> frozenset[str]:
    return frozenset().union(*map(names, exprs))


def _confirmed(claim: Expr, path: tuple[Expr, ...], values: Mapping[str, int]) -> bool:
    """Python says that the claim fails and every condition holds."""
    order = tuple(sorted(values))
    try:
        first, *rest = function_of((claim, *path), order)(*(values[n] for n in order))
    except (ValueError, ZeroDivisionError, OverflowError):
        return False
    return not first and all(rest)
