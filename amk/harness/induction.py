"""What is known of a loop's variable and of its carried values.

The variable is `lo + step * q` with `0 <= q`. A carried value that grows by a constant is `init + constant * q`; one
that stays in an interval (`(c + 1) % S`, `select(c == S - 1, 0, c + 1)`, `c ^ 1`) is known to lie there; of others
only the type is known.

Source: Cousot and Cousot, "Abstract interpretation" (POPL 1977): an interval that the step preserves is an invariant.
"""

from __future__ import annotations

from amk.dsl.expr import Const, Expr, Var, apply, subst, subterms
from amk.dsl.nodes import Carry, For
from amk.harness.bounds import Prover, minus
from amk.harness.intervals import Interval, of_dtype

__all__ = ["enter_loop", "leave_loop"]

TRIES = 12


def enter_loop(p: Prover, s: For, lo: Expr, hi: Expr, step: Expr) -> dict[str, Interval]:
    """Puts the variable and the carried values into the environment, and the loop's condition on the path.

    Returns the ranges of the carried values after the loop.
    """
    counter = f"{s.var}#"
    p.renamed()
    stride = int(step.value) if isinstance(step, Const) else 1
    (first, _), (_, last) = p.facts.interval(lo), p.facts.interval(hi)
    trips = max(0, -(-(last - first) // stride))
    p.variable(counter, (0, max(0, trips - 1)))
    p.env[s.var] = apply("+", lo, apply("*", Var(counter), stride))
    p.loops = p.loops | {s.var}
    p.assume(apply("<", p.env[s.var], hi))
    after: dict[str, Interval] = {}
    inner = _lets(p, s)
    for c in s.carry:
        _carried(p, c, inner, counter, trips, after)
    p.renamed()
    return after


def leave_loop(p: Prover, after: dict[str, Interval]) -> None:
    """After the loop a carried value is a name with a range."""
    p.renamed()
    for name, span in after.items():
        p.env.pop(name, None)
        p.variable(name, span)
        p.vague.add(name)


def _lets(p: Prover, s: For) -> dict[str, Expr]:
    """The environment at the end of the body, as far as it is made of the body's own Lets."""
    env = dict(p.env)
    for x in s.body:
        if x.kind == "let" and x.value is not None:
            env[x.name] = subst(x.value, env)
    return env


def _carried(p: Prover, c: Carry, inner: dict[str, Expr], counter: str, trips: int, after: dict[str, Interval]) -> None:
    init, step = p.inline(c.init), subst(c.next, {n: e for n, e in inner.items() if n != c.name})
    whole = of_dtype(c.dtype)
    p.variable(c.name, whole)
    growth = _growth(p, c.name, step)
    if growth is not None and c.dtype in ("i32", "i64"):
        lo, hi = p.facts.interval(init)
        after[c.name] = (lo + min(0, growth * trips), hi + max(0, growth * trips))
        p.env[c.name] = apply("+", init, apply("*", Var(counter), growth))
        return
    span = _preserved(p, c.name, init, step) or whole
    p.variable(c.name, span)
    p.vague.add(c.name)
    after[c.name] = span


def _growth(p: Prover, name: str, step: Expr) -> int | None:
    """The constant by which a carried value grows, if it does."""
    from amk.dsl.expr import has_elements

    if has_elements(step):
        return None
    change = p.facts.poly(minus(subst(step, {name: Var(f"{name}#0")}), Var(f"{name}#0")))
    return change.get((), 0) if not change.keys() - {()} else None


def _preserved(p: Prover, name: str, init: Expr, step: Expr) -> Interval | None:
    """The first candidate interval that holds the initial value and that the step keeps."""
    first = p.facts.interval(init)
    consts = {x.value for x in subterms(step) if isinstance(x, Const) and type(x.value) is int}
    tops = sorted({v - d for v in consts for d in (0, 1)} | {first[1]})
    candidates = [
        (lo, hi) for lo in sorted({first[0], 0}, reverse=True) for hi in tops if lo <= first[0] and hi >= first[1]
    ]
    for i, (lo, hi) in enumerate(candidates[:TRIES]):
        fresh = f"{name}#{i + 1}"
        p.variable(fresh, (lo, hi))
        new = subst(step, {name: Var(fresh)})
        if p.facts.prove(minus(new, lo)) and p.facts.prove(minus(Const(hi), new)):
            return lo, hi
    return None
