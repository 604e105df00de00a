"""The finite set of sizes and blocks that stands for all of them in the ordering check.

The argument. What the walk of one block meets is decided by its *aspects*: (a) trip counts of loops, (b) the threads
that pass each condition, (c) thread-free terms of addresses. Two choices of sizes and block that agree in all aspects
are walked alike, so one of each class is walked, the smallest.

*Separation.* Sizes, blocks and grid sizes that no aspect joins (through a chain of aspects, or a grid size through the
sizes it is computed from) form groups, and each aspect is a function of one group. Sizes are independent of each other
in the domain, so the classes of all sizes are the products of the classes of the groups: each group is tried on its
own, and one of each class of every group is combined with one of each class of the others. Nothing is lost against
trying all combinations of the values: a combination has the classes of its parts, and these are walked together.
A condition joined by `and`, `or`, `not` is taken apart first: who passes the whole follows from who passes the parts.

(a) In a loop of symbolic trip count `n` the variable stands only under `% c`, in carried cycles, or in comparisons that
turn within S iterations of the first or E of the last, for all values (`amk/harness/ring.py` proves it, or refuses).
So the state at a loop head is a function of `k mod P` (P the least common multiple of the moduli and cycles), of
`min(k, S)`, of `min(n - k, E)` and of the groups of copies in flight, at most the G that a wait leaves, which fill
up in G iterations. Two iterations that agree in these make the same accesses. In a run of more than 2P + S + E + G + 2
iterations, 2P + 1 lie in between where only `k mod P` counts; taking out P of them leaves every interval between
barriers and every pair of residues that met. So the trip counts up to 2P + S + E + G + 2 (as far as sizes realise them)
cover every trip count. That they were walked is checked at the end.
(b) Every comparison with a size is tried on both sides of where it turns, by bisection, at the first blocks, with the
other sizes small, for some threads; with sizes at whole tiles, one and two beyond and before, the middle, next to the
constants of the kernel, and with blocks at the start and the end of the grid. For a comparison that is monotone in one
size this meets every case (all threads, some, none); for several comparisons that join the same sizes it is a dense
sample and not a proof, which `docs/soundness.md` says.
(c) is covered by (a) and (b), and refused where a symbolic loop variable stands bare in an address.
Source: cutoffs as in Kaiser, Kroening and Wahl, CAV 2010; the argument for rings is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from itertools import product
from math import prod
from typing import Any, NamedTuple

from amk.dsl.expr import Apply, Const, Elem, Expr, names, subterms
from amk.dsl.kernel import expressions
from amk.harness.events import Env, Program, Unsupported
from amk.harness.masks import maximal
from amk.harness.sizes import BLOCKS, GRID, MANY, Tried, resting

__all__ = ["samples"]

_REMAINDERS = 16  # the largest modulus of a size or a block in a condition
_ROUNDS = 64  # combinations of constant loop variables at which a condition's threads are compared


class Aspect(NamedTuple):
    """One thing that the walk asks of sizes and blocks: who passes a condition, or the value of a term."""

    used: frozenset[str]  # sizes, blocks and grid sizes
    at: Callable[[Env], Hashable]


def samples(p: Program, trips: int) -> Iterator[Env]:
    """Sizes and a block each, smallest first, one for each behaviour that they can have."""
    conditions, valued = list(dict.fromkeys(_conditions(p))), list(dict.fromkeys(_valued(p)))
    found = list(_aspects(p, conditions, valued))
    tried = Tried(p, trips, [*valued, *conditions])
    parts = _groups(p, found)
    groups = [list(_classes(tried, g, found)) for g in parts]
    if prod(map(len, groups)) > MANY:  # too many to combine: all sizes as one group, varied one at a time
        groups = [list(_classes(tried, frozenset().union(*parts), found))]
    rest = {q.name: resting(q) for q in p.kernel.scalars}
    joined = ({k: v for part in parts for k, v in part.items()} for parts in product(*groups))
    for env in sorted(({**rest, **env} for env in joined), key=lambda env: _order(p, env)):
        grid = zip(GRID, (p.value(e, env) for e in p.kernel.grid3), strict=True)
        yield {**dict.fromkeys(BLOCKS, 0), **dict(grid), "rank": 0, **env}


def _order(p: Program, env: Env) -> tuple[Any, ...]:
    at = [env[q.name] for q in p.kernel.scalars]
    return sum(map(abs, at)), at, [env.get(b, 0) for b in (*BLOCKS, "rank")]


def _groups(p: Program, found: list[Aspect]) -> list[frozenset[str]]:
    """Sizes and blocks that something joins; no aspect depends on two groups."""
    out: list[frozenset[str]] = []
    for aspect in found:
        group = aspect.used
        for b, g, e in zip(BLOCKS, GRID, p.kernel.grid3, strict=True):
            if group & {b, g}:
                group |= names(e) | {g}
        joined = [x for x in out if x & group]
        out = [x for x in out if not x & group] + [group.union(*joined)]
    return out


def _classes(tried: Tried, group: frozenset[str], found: list[Aspect]) -> Iterator[Env]:
    """Of the values of a group, the first with each behaviour."""
    mine = [a.at for a in found if a.used & group]
    seen = set()
    for env in tried.values(group):
        key = tuple([f(env) for f in mine])
        if key not in seen:
            seen.add(key)
            yield env


# ---------------------------------------------------------------------------------------------------------- aspects
def _conditions(p: Program) -> Iterator[Expr]:
    """What decides which threads pass, around or in what ordering is about."""
    for _, s in p.statements:
        if s.kind == "if" and p.matters(s):
            yield p.inline(s.cond)
        elif s.kind == "load" and s.when is not None and p.operands(s):
            yield p.inline(s.when)


def _valued(p: Program) -> Iterator[Expr]:
    """What counts by its value: bounds and carried values of loops, and indices of shared memory."""
    for _, s in p.statements:
        if s.kind == "for" and p.matters(s):
            yield from (p.inline(e) for _, e in expressions(s))
        yield from p.deciding(s)


def _aspects(p: Program, conditions: list[Expr], valued: list[Expr]) -> Iterator[Aspect]:
    """What the walk depends on; a condition on a loop over a size is taken by the values of its terms, too."""
    local = _local(p)
    terms = list(valued)
    for e in dict.fromkeys(leaf for cond in conditions for leaf in _leaves(cond)):
        rounds = _rounds(p, e, local)
        if rounds is None:
            terms.append(e)
        elif used := names(e) - local:
            _few_residues(e, local)
            yield Aspect(used, partial(_passing, p, e, tuple(maximal(e, local)), rounds))
    for m in dict.fromkeys(m for e in terms for m in maximal(e, local)):
        yield Aspect(names(m), partial(p.value, m))


def _few_residues(e: Expr, local: frozenset[str]) -> None:
    """Not every residue of a larger modulus is tried, so what may hold for one of them alone is refused."""
    for x in subterms(e):
        if isinstance(x, Apply) and x.op in ("%", "&", "|", "^", "<<", ">>") and names(x) - local:
            by = x.args[1]
            if x.op not in ("%", "&") or not isinstance(by, Const) or not 0 < int(by.value) <= _REMAINDERS:
                message = f"the condition {e} asks for a remainder of more than {_REMAINDERS} values in {x}"
                raise Unsupported(f"{message}: compare a size or a block with bounds instead")


def _rounds(p: Program, e: Expr, local: frozenset[str]) -> list[Env] | None:
    """The rounds of constant loops in which a condition is asked; None where it follows a loop over a size, or data."""
    loops = sorted(names(e) & local - {"t"})
    if not p.fixed.keys() >= set(loops) or any(isinstance(x, Elem) for x in subterms(e)):
        return None
    if prod(len(p.fixed[n]) for n in loops) > _ROUNDS:
        return None
    return [dict(zip(loops, at, strict=True)) for at in product(*(p.fixed[n] for n in loops))]


def _passing(p: Program, e: Expr, terms: tuple[Expr, ...], rounds: list[Env], env: Env) -> Hashable:
    """The threads that pass in each round."""
    try:
        return tuple([p.chosen(e, p.everyone, {**env, **at}) for at in rounds])
    except (ValueError, ZeroDivisionError, OverflowError):  # no value for a thread that another condition keeps out
        return tuple([p.value(m, env) for m in terms])


def _leaves(e: Expr) -> Iterator[Expr]:
    """The conditions that logic joins: the threads that pass the whole follow from those that pass each."""
    if isinstance(e, Apply) and e.op in ("and", "or", "not"):
        for x in e.args:
            yield from _leaves(x)
    else:
        yield e


def _local(p: Program) -> frozenset[str]:
    """Names that only have a value inside the walk: the thread, loop variables and carried values."""
    out = {"t"}
    for _, s in p.statements:
        if s.kind == "for":
            out |= {s.var, s.var + "#", *(c.name for c in s.carry)}
    return frozenset(out)
