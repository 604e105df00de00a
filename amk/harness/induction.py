"""What is known of a loop's variable and of its carried values.

The variable is `lo + step * q` with `0 <= q`; where the step is no constant, `lo + d * q` with the largest d known to
divide it. A carried value that grows by a constant is `init + constant * round`; one that stays in an interval
(`(c + 1) % S`, `select(c == S - 1, 0, c + 1)`, `c ^ 1`) is known to lie there; of others only the type is known.

Intervals of a nest of loops are found together, since the loops hand their values on: each carried name is its `init`
or its `next`, evaluated with all names inside their intervals, so intervals that hold these are invariants.

Source: Cousot and Cousot, "Abstract interpretation" (POPL 1977): an interval that the step preserves is an invariant,
and widening to a few thresholds finds one.
"""

from __future__ import annotations

from amk.dsl.expr import Const, Expr, Var, apply, has_elements, integers, subst, subterms
from amk.dsl.kernel import walk
from amk.dsl.nodes import Carry, For
from amk.harness.bounds import Prover, minus
from amk.harness.intervals import Interval, of_dtype

__all__ = ["enter_loop", "leave_loop"]

ROUNDS, THRESHOLDS = 12, 24  # after EARLY rounds an end for which no threshold holds is that of the type
EARLY = 2


def enter_loop(p: Prover, s: For, lo: Expr, hi: Expr, step: Expr) -> dict[str, Interval]:
    """Puts the variable and the carried values into the environment, and the loop's condition on the path.

    Returns the ranges of the carried values after the loop.
    """
    counter, fixed = f"{s.var}#", integers(step)
    p.renamed()
    stride = max(1, fixed[0] if fixed else p.facts.divisor(step))  # AMK208 has told of a step below 1
    (first, _), (_, last) = p.facts.interval(lo), p.facts.interval(hi)
    trips = max(0, -(-(last - first) // stride))
    p.variable(counter, (0, max(0, trips - 1)))
    p.env[s.var] = apply("+", lo, apply("*", Var(counter), stride))
    p.loops = p.loops | {s.var}
    p.assume(apply("<", p.env[s.var], hi), apply("<", Var(s.var), s.hi))
    round_ = counter
    if not fixed:  # a round moves the variable by one stride or more
        round_ = f"{s.var}##"
        p.variable(round_, (0, max(0, trips - 1)))
        p.vague.add(round_)
        p.strides[counter] = stride, step
    after: dict[str, Interval] = {}
    inner = _lets(p, s)
    loose = [c for c in s.carry if not _grown(p, c, inner, round_, trips, after)]
    if loose:
        _ranged(p, s, inner, {c.name for c in s.carry} - {c.name for c in loose})
    for c in loose:
        after[c.name] = p.invariants[c.name]
        p.variable(c.name, after[c.name])
        p.vague.add(c.name)
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
    """The environment with the Lets of the body, those of loops inside included (all names are different)."""
    env = dict(p.env)
    for _, x in walk(s.body):
        if x.kind == "let" and x.value is not None:
            env[x.name] = subst(x.value, env)
    return env


# --------------------------------------------------------------------------------------------------------------- growth
def _grown(
    p: Prover, c: Carry, inner: dict[str, Expr], counter: str, trips: int, after: dict[str, Interval]
) -> bool:  # fmt: skip
    """Whether a carried value grows by a constant; it is then a term of the round."""
    init, step = p.inline(c.init), subst(c.next, {n: e for n, e in inner.items() if n != c.name})
    p.variable(c.name, of_dtype(c.dtype))
    growth = _growth(p, c.name, step)
    if growth is None or c.dtype not in ("i32", "i64"):
        return False
    lo, hi = p.facts.interval(init)
    after[c.name] = (lo + min(0, growth * trips), hi + max(0, growth * trips))
    p.env[c.name] = apply("+", init, apply("*", Var(counter), growth))
    return True


def _growth(p: Prover, name: str, step: Expr) -> int | None:
    """The constant by which a carried value grows, if it does."""
    if has_elements(step):
        return None
    change = p.facts.poly(minus(subst(step, {name: Var(f"{name}#0")}), Var(f"{name}#0")))
    return change.get((), 0) if not change.keys() - {()} else None


# --------------------------------------------------------------------------------------------------------------- ranges
def _ranged(p: Prover, s: For, inner: dict[str, Expr], known: set[str]) -> None:
    """Intervals of the carried values of a loop and of the loops in it, as `p.invariants`."""
    loops = (s, *(x for _, x in walk(s.body) if x.kind == "for"))
    carried = [c for x in loops for c in x.carry if c.name not in known]
    p.invariants.update({c.name: of_dtype(c.dtype) for c in carried if c.dtype[0] in "fb"})  # of them only the type
    carried = [c for c in carried if c.dtype[0] not in "fb"]
    names = {c.name for c in carried}
    env = {n: e for n, e in inner.items() if n not in names}
    steps = {c.name: (subst(c.init, env), subst(c.next, env)) for c in carried}
    spans: dict[str, Interval | None] = dict.fromkeys(names)
    marks = _thresholds([e for pair in steps.values() for e in pair])
    for n in range(ROUNDS):
        before = dict(spans)
        for c in carried:
            spans[c.name] = _widened(p, steps[c.name], spans[c.name], of_dtype(c.dtype), spans, marks, n < EARLY)
        if spans == before:
            break
    else:
        spans = {c.name: of_dtype(c.dtype) for c in carried}
    for c in carried:
        found, earlier = spans[c.name] or of_dtype(c.dtype), p.invariants.get(c.name)
        p.invariants[c.name] = found if earlier is None else (max(found[0], earlier[0]), min(found[1], earlier[1]))
        p.variable(c.name, p.invariants[c.name])


def _thresholds(terms: list[Expr]) -> list[int]:
    """Constants of the terms, and their neighbours below: where intervals of such values end."""
    consts = {x.value for e in terms for x in subterms(e) if isinstance(x, Const) and type(x.value) is int}
    return sorted(sorted({v - d for v in consts for d in (0, 1)}, key=abs)[:THRESHOLDS])


def _widened(
    p: Prover, pair: tuple[Expr, Expr], out: Interval | None, whole: Interval, spans: dict[str, Interval | None],
    marks: list[int], early: bool,
) -> Interval | None:  # fmt: skip
    """The interval with what the terms add to it, its ends at thresholds; None while nothing is known to be in it."""
    for term in pair:
        fresh = _named(p, term, spans)
        if fresh is None:
            continue
        lo, hi = p.facts.interval(fresh)
        if out is not None and out[0] <= lo and hi <= out[1]:
            continue
        if fresh == term:  # nothing carried in it: as it is
            out = (lo, hi) if out is None else (min(lo, out[0]), max(hi, out[1]))
            continue
        base = out or (0, 0)
        low = next((m for m in (base[0], *(m for m in reversed(marks) if m < base[0])) if _least(p, fresh, m)), None)
        high = next((m for m in (base[1], *(m for m in marks if m > base[1])) if _most(p, fresh, m)), None)
        ends = (max(whole[0], lo), min(whole[1], hi)) if early else whole
        out = ends[0] if low is None else low, ends[1] if high is None else high
    return out


def _named(p: Prover, term: Expr, spans: dict[str, Interval | None]) -> Expr | None:
    """The term over names of our own with the present intervals; None if one of them has no value yet."""
    mine = {x.name: spans[x.name] for x in subterms(term) if isinstance(x, Var) and x.name in spans}
    renamed: dict[str, Expr] = {}
    for name, span in mine.items():
        if span is None:
            return None
        fresh = f"{name}#{span[0]}:{span[1]}"
        p.variable(fresh, span)
        renamed[name] = Var(fresh)
    return subst(term, renamed)


def _least(p: Prover, e: Expr, bound: int) -> bool:
    return p.facts.prove(minus(e, bound))


def _most(p: Prover, e: Expr, bound: int) -> bool:
    return p.facts.prove(minus(Const(bound), e))
