"""Claims about integers for all values of their names, by Z3 in an encoding of this package's own.

Divisions by d become a quotient q and a remainder r with `a == d*q + r, 0 <= r < d`; a size that is a multiple of m is
m times a name of its own. A claim is tried twice: with products of two names as opaque numbers in their bounds, which
is linear, and if that does not show it, with the products themselves. The limit is a count of solver steps, so that a
verdict repeats anywhere. A model is a refutation only if Python's evaluation of the claim and its premises agrees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from amk.dsl.expr import COMPARISONS, Apply, Const, Elem, Expr, Var, names, subterms
from amk.dsl.instructions import PURE
from amk.verify.dtypes import family, span
from amk.verify.values import DATA, NoValue, bounds, evaluate

__all__ = ["Logic", "Verdict"]

STEPS = 4_000_000
SMALL = (1, 2, 4, 8, 16, 64, 256, 1024, 8192, 65536)
LARGEST = 1 << 80


class Verdict(NamedTuple):
    """proved, refuted (with values) or unknown."""

    status: str
    model: Mapping[str, Any] = {}


class Logic:
    """One solver for one kernel. `declare` gives a name its type and range; claims are closed under these."""

    def __init__(self) -> None:
        import z3

        self.z = z3
        self.solver = z3.Solver()
        self.solver.set("rlimit", STEPS)
        self.dtypes: dict[str, str] = {}
        self.box: dict[str, tuple[int, int]] = {}
        self.steps: dict[str, int] = {}
        self.sizes: list[str] = []
        self.asked = 0
        self._terms: dict[tuple[Expr, bool], Any] = {}
        self._defined: dict[tuple[Expr, bool], list[Any]] = {}
        self._known: dict[tuple[Expr, tuple[Expr, ...]], Verdict] = {}
        self._fresh = 0

    def declare(self, name: str, dtype: str, low: int | None = None, high: int | None = None, step: int = 1) -> Var:
        """A name with a type, the values it can have and their common divisor."""
        self.dtypes[name] = dtype
        whole = span(dtype)
        if whole is not None:
            self.box[name] = (whole[0] if low is None else low, whole[1] if high is None else high)
        if step > 1:
            self.steps[name] = step
        return Var(name)

    # -- questions -------------------------------------------------------------------------------------------------
    def prove(self, goal: Expr, given: Sequence[Expr] = ()) -> Verdict:
        """Whether the goal holds wherever all of `given` does."""
        key = (goal, tuple(dict.fromkeys(given)))
        if key not in self._known:
            self._known[key] = self._decide(*key)
        return self._known[key]

    def holds(self, goal: Expr, given: Sequence[Expr] = ()) -> bool:
        """Whether the goal is proved."""
        return self.prove(goal, given).status == "proved"

    def point(self, given: Sequence[Expr], extra: Iterable[str] = ()) -> Verdict:
        """refuted: values at which all of `given` holds; proved: there are none."""
        key = (Const(False), (*dict.fromkeys(given), *map(Var, sorted(extra))))
        if key not in self._known:
            self._known[key] = self._decide(Const(False), tuple(dict.fromkeys(given)), frozenset(extra))
        return self._known[key]

    def _decide(self, goal: Expr, given: tuple[Expr, ...], extra: frozenset[str] = frozenset()) -> Verdict:
        linear = not any(self._is_product(x) for e in (goal, *given) for x in subterms(e))
        verdict = Verdict("unknown")
        for full in (True,) if linear else (False, True):
            verdict = self._ask(goal, given, extra, full)
            if verdict.status == "proved" or (full and verdict.status == "refuted"):
                break
        return verdict

    def _ask(self, goal: Expr, given: tuple[Expr, ...], extra: frozenset[str], full: bool) -> Verdict:
        z, s = self.z, self.solver
        self.asked += 1
        used = extra.union(*(names(e) for e in (goal, *given)))
        s.push()
        try:
            s.add(z.Not(self._term(goal, full)), *(self._term(c, full) for c in given))
            for e in (goal, *given):
                for x in subterms(e):
                    s.add(*self._defined.get((x, full), ()))
            s.add(*(c for n in sorted(used) for c in self._range(n)))
            answer = s.check()
            if answer == z.unsat:
                return Verdict("proved")
            return Verdict("unknown") if answer == z.unknown else self._smallest(goal, given, used)
        finally:
            s.pop()

    def _smallest(self, goal: Expr, given: tuple[Expr, ...], used: frozenset[str]) -> Verdict:
        """A model that Python confirms, with small sizes if there is one."""
        models = [self._values(used)]
        sizes = [self.z.Int(n) for n in self.sizes if n in used]
        for limit in SMALL if sizes else ():
            self.solver.push()
            self.solver.add(*(x <= max(limit, self.box[str(x)][0]) for x in sizes))
            found = self.solver.check() == self.z.sat
            if found:
                models.insert(0, self._values(used))
            self.solver.pop()
            if found:
                break
        for m in models:
            if _confirmed(goal, given, m):
                return Verdict("refuted", m)
        return Verdict("unknown", models[0])

    def _values(self, used: frozenset[str]) -> dict[str, Any]:
        z, model, out = self.z, self.solver.model(), {}
        for n in sorted(used):
            if family(self.dtypes.get(n, "i32")) == "bool":
                out[n] = z.is_true(model.eval(z.Bool(n), model_completion=True))
            elif family(self.dtypes.get(n, "i32")) == "int":
                out[n] = model.eval(z.Int(n), model_completion=True).as_long()
        return out

    def _range(self, name: str) -> list[Any]:
        if family(self.dtypes.get(name, "float")) != "int":
            return []
        v, (low, high) = self.z.Int(name), self.box[name]
        step = self.steps.get(name, 1)
        return [v >= low, v <= high, *([v == step * self.z.Int(f"{name}/{step}")] if step > 1 else [])]

    # -- terms -----------------------------------------------------------------------------------------------------
    def _term(self, e: Expr, full: bool) -> Any:
        key = (e, full)
        if key not in self._terms:
            self._terms[key] = self._make(e, full)
        return self._terms[key]

    def _make(self, e: Expr, full: bool) -> Any:
        z = self.z
        if isinstance(e, Const):
            return z.BoolVal(e.value) if isinstance(e.value, bool) else z.IntVal(int(e.value))
        if isinstance(e, Var):
            return z.Bool(e.name) if self.dtypes.get(e.name) == "bool" else z.Int(e.name)
        if isinstance(e, Elem) or self._about_floats(e) or (isinstance(e, Apply) and e.op in PURE):
            return self._opaque(e, full)
        assert isinstance(e, Apply)
        return self._applied(e, [self._term(a, full) for a in e.args], full)

    def _applied(self, e: Apply, a: list[Any], full: bool) -> Any:
        z, op = self.z, e.op
        logic: dict[str, Callable[..., Any]] = {"and": z.And, "or": z.Or, "not": z.Not, "select": z.If}
        if op in logic:
            return logic[op](*a)
        if op in DIRECT:
            return DIRECT[op](*a)
        if op in ("min", "max"):
            return z.If(a[0] <= a[1], *(a if op == "min" else a[::-1]))
        if op in ("i32", "i64", "u32"):
            return a[0] if op != "i64" or not self._huge(e) else self._opaque(e, full)
        if op == "*":
            return a[0] * a[1] if full or not self._is_product(e) else self._product(e, a)
        if op in ("//", "cdiv", "%"):
            return self._divided(e, op, a, full or isinstance(e.args[1], Const), full)
        return self._bits(e, a, full)

    def _huge(self, e: Expr) -> bool:
        """Whether a 64-bit cast may change the value."""
        return any(self.dtypes.get(n) == "u64" for n in names(e))

    def _product(self, e: Apply, a: list[Any]) -> Any:
        """A product of two names as a number that is only known to lie in its bounds."""
        v = self._new("product")
        low, high = bounds(e, self.box)
        known = [v >= low] if low is not None else []
        known += [v <= high] if high is not None and high < LARGEST else []
        self._defined[e, False] = [
            *known, self.z.Implies(self.z.And(a[0] >= 1, a[1] >= 0), v >= a[1]),
            self.z.Implies(self.z.And(a[1] >= 1, a[0] >= 0), v >= a[0]),
        ]  # fmt: skip
        return v

    def _divided(self, e: Expr, op: str, a: list[Any], exact: bool, full: bool) -> Any:
        """Quotient and remainder by their definition, for divisors above 0 (others mean nothing, and have a claim)."""
        z, up = self.z, op == "cdiv"
        q, r = self._new("quotient"), self._new("remainder")
        known = [r >= 0, r < a[1]]
        if exact:
            known.append(a[1] * q - r == a[0] if up else a[1] * q + r == a[0])
        else:
            known.append(z.Implies(a[0] >= 0, z.And(q >= 0, q <= a[0], r <= a[0] if not up else r >= 0)))
        self._defined[e, full] = [z.Implies(a[1] > 0, z.And(*known))]
        return r if op == "%" else q

    def _bits(self, e: Apply, a: list[Any], full: bool) -> Any:
        """Shifts by constants are products and quotients; `&`, `|` and `^` are functions known by their bounds."""
        z, k = self.z, e.args[1].value if isinstance(e.args[1], Const) else None
        if type(k) is int and 0 <= k < 64 and e.op == "<<":
            return a[0] * (1 << k)
        if type(k) is int and 0 <= k < 64 and e.op == ">>":
            return self._divided(e, "//", [a[0], z.IntVal(1 << k)], True, full)
        if type(k) is int and e.op == "&" and k >= 0 and k & (k + 1) == 0:
            return self._divided(e, "%", [a[0], z.IntVal(k + 1)], True, full)
        v = z.Function(f"bits {e.op}", z.IntSort(), z.IntSort(), z.IntSort())(*a)
        known = [v >= 0, v <= (z.If(a[0] <= a[1], a[0], a[1]) if e.op == "&" else a[0] + a[1])]
        if e.op in ("|", "^"):
            known += [z.Implies(z.And(a[0] < 1 << n, a[1] < 1 << n), v < 1 << n) for n in range(13)]
        self._defined[e, full] = [z.Implies(z.And(a[0] >= 0, a[1] >= 0), z.And(*known))] if e.op in "&|^" else []
        return v

    def _opaque(self, e: Expr, full: bool) -> Any:
        """A value of which nothing but its type is known; equal terms have one name, so they are equal."""
        if isinstance(e, Apply) and e.op in COMPARISONS:
            return self.z.Bool(f"opaque {e}")
        v = self.z.Int(f"opaque {e}")
        if isinstance(e, Apply) and (limits := span(e.op)):
            self._defined[e, full] = [v >= limits[0], v <= limits[1]]
        return v

    def _about_floats(self, e: Expr) -> bool:
        """Whether an operand of the term is a floating-point value (or data)."""
        if isinstance(e, Apply) and e.op == "select":
            return any(map(self._is_float, e.args[1:]))
        return isinstance(e, Apply) and any(map(self._is_float, e.args))

    def _is_float(self, e: Expr) -> bool:
        if isinstance(e, Const):
            return isinstance(e.value, float)
        if isinstance(e, Var):
            return family(self.dtypes.get(e.name, "i32")) == "float"
        if isinstance(e, Elem):
            return True
        assert isinstance(e, Apply)
        if e.op in COMPARISONS or e.op in ("and", "or", "not", "i32", "i64", "u32"):
            return False
        return e.op in ("/", "f32", "f64", "fma") or self._about_floats(e)

    def _is_product(self, e: Expr) -> bool:
        """A product, or a quotient, of two terms that are no constants."""
        return (
            isinstance(e, Apply) and e.op in ("*", "//", "%", "cdiv") and not self._about_floats(e)
            and not any(isinstance(a, Const) for a in (e.args if e.op == "*" else e.args[1:]))
        )  # fmt: skip

    def _new(self, what: str) -> Any:
        self._fresh += 1
        return self.z.Int(f"{what} {self._fresh}")


DIRECT: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "neg": lambda a: -a, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b, "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}  # fmt: skip


def _confirmed(goal: Expr, given: tuple[Expr, ...], at: Mapping[str, Any]) -> bool:
    """Python says that the goal fails and that every premise holds."""
    try:
        return evaluate(goal, at) is False and all(_true(evaluate(c, at)) for c in given)
    except NoValue:
        return False


def _true(value: Any) -> bool:
    return value is not DATA and bool(value)
