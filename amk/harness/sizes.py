"""The values at which the ordering check tries sizes and blocks: whole and ragged tiles, and where a condition turns.

In: a Program, some of its parameters, and the terms that decide. Out: environments, smallest first. Which behaviours
these values stand for is argued in `amk/harness/cutoff.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, product
from math import lcm, prod
from typing import Any

from amk.dsl.evaluate import function_of
from amk.dsl.expr import BUILTINS, COMPARISONS, Apply, Const, Elem, Expr, names, subterms
from amk.dsl.nodes import Param
from amk.harness.events import Env, Program

__all__ = ["BLOCKS", "GRID", "MANY", "Tried", "closure", "resting"]

BLOCKS, GRID = ("bx", "by", "bz"), ("gx", "gy", "gz")
MANY = 4000  # combinations beyond which parameters vary one at a time
_MOST_BLOCKS, _REMAINDERS, _BESIDE = 2**31 - 1, 16, 64
_FLOATS = ("f32", "f64", "f16", "bf16")


def closure(p: Program, used: frozenset[str]) -> frozenset[str]:
    """With the grid's own sizes where blocks count."""
    if used & set(BUILTINS) - {"t"}:
        used = used.union(*map(names, p.kernel.grid))
    return used


def _loop_sizes(p: Program) -> frozenset[str]:
    """Parameters in the bounds of loops that synchronise or use shared memory."""
    out: set[str] = set()
    for _, s in p.statements:
        if s.kind == "for" and p.matters(s):
            out |= names(p.inline(s.hi)) | names(p.inline(s.lo)) | names(p.inline(s.step))
    return closure(p, frozenset(out))


class Tried:
    """The values of groups of sizes and blocks, given the trip counts to reach and the terms that decide."""

    def __init__(self, p: Program, trips: int, relevant: list[Expr]) -> None:
        self.p, self.trips, self.loops = p, trips, _loop_sizes(p)
        self.corners = [_corners(p, b, relevant) for b in BLOCKS]
        grown = (Apply("<", (g, Const(b + 2))) for g, at in zip(p.kernel.grid3, self.corners, strict=True) for b in at)
        self.relevant = [*relevant, *grown]  # sizes at which the grid just has these blocks

    def values(self, group: frozenset[str]) -> Iterator[Env]:
        """Each combination of values of the group's sizes with each of its blocks, smallest first."""
        params = [q for q in self.p.kernel.scalars if q.name in group]
        full = [_values(self.p, q, self.trips if q.name in self.loops else 0, self.relevant) for q in params]
        chosen = product(*full) if prod(map(len, full)) <= MANY else _one_at_a_time(full)
        for row in sorted(set(chosen), key=lambda v: (sum(map(abs, v)), v)):
            yield from self._blocks(dict(zip((q.name for q in params), row, strict=True)), group)

    def _blocks(self, env: Env, group: frozenset[str]) -> Iterator[Env]:
        """The first and last two blocks of each axis that counts, and its corners, with the grid's size there."""
        extent = {g: self.p.value(e, env) for g, e in zip(GRID, self.p.kernel.grid3, strict=True) if g in group}
        choices: dict[str, list[int]] = {}
        for block, g, corners in zip(BLOCKS, GRID, self.corners, strict=True):
            if block in group:
                n = max(extent[g], 1)
                choices[block] = sorted({b for b in (0, 1, n - 2, n - 1, *corners) if 0 <= b < n})
        if "rank" in group:
            choices["rank"] = list(range(self.p.kernel.cluster))
        for at in product(*choices.values()):
            yield {**env, **extent, **dict(zip(choices, at, strict=True))}


def _one_at_a_time(full: list[list[Any]]) -> Iterator[tuple[Any, ...]]:
    """Each parameter through all its values with few of the others."""
    few = [v if len(v) < 8 else [*v[:3], *v[3 :: max(1, len(v) // 4)]] for v in full]
    for i, values in enumerate(full):
        others: list[list[Any]] = [values if i == j else f[:: max(1, len(f) // 3)] for j, f in enumerate(few)]
        yield from islice(product(*others), MANY)


def resting(q: Param) -> Any:
    """The value of a parameter that decides nothing."""
    return 0.0 if q.dtype in _FLOATS else False if q.dtype == "bool" else _fit(q, 1)


# ----------------------------------------------------------------------------------------------------------- values
def _values(p: Program, q: Param, trips: int, relevant: list[Expr]) -> list[Any]:
    if q.dtype == "bool":
        return [False, True]
    if q.dtype in _FLOATS:
        return sorted({0.0, 1.0, *(c + d for c in _numbers(relevant, q.name) for d in (-1.0, 0.0, 1.0))})
    wanted: set[int] = {q.min, 1}
    for u in _units(p, q.name, relevant):
        base, ragged = q.min // u * u, _residues(u, relevant)
        for step in {u, lcm(u, q.multiple_of)}:
            wanted |= {base + j * step for j in range(trips + 2)}
        # a ragged tile may come after any number of whole ones
        wanted |= {base + j * u + r for j in range(trips + 2 if trips else 3) for r in ragged}
    wanted |= set(_turning(p, q, relevant))
    return sorted({v for w in wanted for v in (_fit(q, w), _fit(q, w, -1)) if q.min <= v <= q.max})


def _fit(q: Param, value: int, sign: int = 1) -> int:
    """The nearest allowed value."""
    m = q.multiple_of
    v = sign * -(-(sign * max(value, q.min)) // m) * m if sign > 0 else value // m * m
    return v if v >= q.min else -(-q.min // m) * m


def _residues(u: int, relevant: list[Expr]) -> list[int]:
    """Offsets inside a tile where a comparison can change."""
    consts = {x.value for e in relevant for x in subterms(e) if isinstance(x, Const) and type(x.value) is int}
    near = {c + d for c in consts if c <= u for d in (-1, 0, 1)}
    near = near if len(near) <= 24 else set()
    return sorted(r for r in {0, 1, 2, u // 2, u // 2 + 1, u - 2, u - 1, *near} if 0 <= r < max(u, 1))


def _units(p: Program, name: str, relevant: list[Expr]) -> list[int]:
    """The tile sizes by which a size is cut: divisors in terms, steps of loops, factors of block indices."""
    out: set[int] = set()
    for e in (*relevant, *p.kernel.grid):
        for x in subterms(e):
            if isinstance(x, Apply) and x.op in ("//", "cdiv") and name in names(x.args[0]):
                out |= {int(y.value) * _inner(x.args[0]) for y in x.args[1:] if isinstance(y, Const)}
    for _, s in p.statements:
        if s.kind == "for" and p.matters(s) and name in names(p.inline(s.hi)) and isinstance(s.step, Const):
            out.add(int(s.step.value))
    for e in relevant:
        if isinstance(e, Apply) and name in names(e):
            out |= _factors(e)
    return sorted(u for u in out if u > 0) or [1]


def _inner(e: Expr) -> int:
    """The product of the divisors inside a term (a share of the steps is a tile of tiles)."""
    divisors = {x.args[1] for x in subterms(e) if isinstance(x, Apply) and x.op in ("//", "cdiv")}
    return prod(int(x.value) for x in divisors if isinstance(x, Const))


def _factors(e: Expr) -> set[int]:
    """Constants that multiply a block index."""
    found = set()
    for x in subterms(e):
        if isinstance(x, Apply) and x.op == "*" and names(x) & set(BLOCKS):
            found |= {int(y.value) for y in x.args if isinstance(y, Const)}
    return found


def _numbers(relevant: list[Expr], name: str) -> Iterator[float]:
    """Constants in the comparisons of a parameter."""
    for x in _compared(relevant, name):
        yield from (float(c.value) for c in subterms(x) if isinstance(c, Const))


# --------------------------------------------------------------------------------------------------- turning points
def _compared(relevant: list[Expr], name: str) -> Iterator[Apply]:
    """The comparisons and extrema in which a parameter stands."""
    found = (x for e in relevant for x in subterms(e) if isinstance(x, Apply) and name in names(x))
    ops = (*COMPARISONS, "min", "max")
    yield from dict.fromkeys(x for x in found if x.op in ops and not any(isinstance(y, Elem) for y in subterms(x)))


def _turning(p: Program, q: Param, relevant: list[Expr]) -> Iterator[int]:
    """The values on both sides of where a comparison with the parameter turns, for some threads and the first blocks.

    A bisection over the parameter's range finds the turn of whatever is monotone in it.
    """
    m = q.multiple_of
    for e in _compared(relevant, q.name):
        used = names(e)
        threads = sorted({0, 1, p.threads // 2, p.threads - 1}) if "t" in used else [0]
        ones = (0, 1) if used & set(BLOCKS) else (0,)
        for t, b, at in product(threads, ones, _beside(p, used - {q.name}, relevant)):
            env = {**dict.fromkeys(used, 0), **dict.fromkeys(GRID, 1), **at, "t": t, **dict.fromkeys(BLOCKS, b)}
            yield from _turns(e, q.name, -(-q.min // m), q.max // m, m, env)


def _beside(p: Program, used: frozenset[str], relevant: list[Expr]) -> list[Env]:
    """What else stands in a comparison: other sizes small, one tile and a ragged one more; loops at their start."""
    start: Env = {n: v[0] for n, v in p.fixed.items() if v}
    others = [x for x in p.kernel.scalars if x.name in used and x.dtype not in ("bool", *_FLOATS)]
    start |= {x.name: resting(x) for x in p.kernel.scalars}
    choices = [
        sorted({resting(x), *(_fit(x, v) for u in _units(p, x.name, relevant) for v in (u, 2 * u + 1))}) for x in others
    ]
    return [
        {**start, **dict(zip((x.name for x in others), at, strict=True))} for at in islice(product(*choices), _BESIDE)
    ]


def _corners(p: Program, block: str, relevant: list[Expr]) -> list[int]:
    """Block indices at which a comparison with constants turns, and one of each remainder that is asked for."""
    sized = {q.name for q in p.kernel.scalars} | set(GRID)
    env: Env = {n: v[0] for n, v in p.fixed.items() if v}
    out: set[int] = set()
    for e in (x for x in _compared(relevant, block) if not names(x) & sized):
        for t in (0, p.threads - 1):
            out |= set(_turns(e, block, 0, _MOST_BLOCKS, 1, {**dict.fromkeys(names(e), 0), **env, "t": t}))
    for x in (x for e in relevant for x in subterms(e) if isinstance(x, Apply) and x.op in ("%", "&", "//")):
        if block in names(x.args[0]) and isinstance(x.args[1], Const) and 0 < int(x.args[1].value) <= _REMAINDERS:
            out |= set(range(int(x.args[1].value) + 1))
    return sorted(out)


def _turns(e: Apply, name: str, lo: int, hi: int, unit: int, env: Env) -> Iterator[int]:
    """The neighbours between which a comparison turns, of the multiples of `unit` from lo to hi times it."""
    used = tuple(sorted(names(e)))
    f = function_of(e.args, used)

    def sign(v: int) -> int:
        a, b = f(*(v * unit if n == name else env[n] for n in used))
        return int(a > b) - int(a < b)

    try:
        found = (*_flip(lambda v: sign(v) >= 0, lo, hi), *_flip(lambda v: sign(v) > 0, lo, hi))
    except ZeroDivisionError:  # the walk meets it where it matters
        return
    yield from (v * unit for v in found)


def _flip(holds: Callable[[int], bool], lo: int, hi: int) -> tuple[int, ...]:
    """Two neighbours between which a monotone condition turns; none where it is the same at both ends."""
    if lo >= hi or holds(lo) == (at_end := holds(hi)):
        return ()
    while hi - lo > 1:
        mid = (lo + hi) // 2
        lo, hi = (lo, mid) if holds(mid) == at_end else (mid, hi)
    return lo, hi
