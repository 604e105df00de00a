"""The finite set of sizes and blocks that stands for all of them in the ordering check.

The argument. Sizes and block indices reach a shared address, a barrier or a group count only through (a) the trip
counts of loops, (b) conditions, (c) thread-free terms of addresses.

(a) In a loop of symbolic trip count `n` the variable may stand only under `% c`, in carried cycles, or in a condition
`kt + c < n`; everything else is refused. So the state at a loop head is a function of `kt mod P` (P the least common
multiple of the moduli and cycles) and of `min(n - kt, D)` (D the largest such c). Two iterations that agree in both
make the same accesses, and a conflict involves accesses at most one barrier interval or one ring turn apart. A run of
more than 2P + D + 2 iterations therefore only repeats intervals that a shorter run has shown: the trip counts up to
2P + D + 2 (as far as sizes realise them) cover every trip count. That they were walked is checked at the end.
(b) Conditions between a size and the thread's global index change truth only where the two meet: we take sizes at whole
tiles, one and two beyond and before, the middle, and next to the constants of the kernel, each with blocks at the
start, in the middle and at the end of the grid. For conditions of that one form this meets every case (all threads,
some, none); for several unrelated conditions it is a dense sample and not a proof, which `docs/soundness.md` says.
(c) is covered by (a) and (b), and refused where a symbolic loop variable stands bare in an address.
Source: cutoffs as in Kaiser, Kroening and Wahl, CAV 2010; the argument for rings is ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product
from math import gcd, lcm, prod
from typing import Any

from amk.dsl.evaluate import function_of
from amk.dsl.expr import BUILTINS, COMPARISONS, Apply, Const, Expr, Var, names, parts, subterms
from amk.dsl.kernel import expressions, walk
from amk.dsl.nodes import Param
from amk.harness.events import Env, Program, Unsupported, maximal

__all__ = ["check_trips", "samples"]

_BLOCKS = ("bx", "by", "bz")
_LIMIT, _MANY = 160, 4000


def samples(p: Program) -> Iterator[Env]:
    """Sizes and a block each, smallest first, one for each behaviour that the thread-free terms can take."""
    relevant = list(_relevant(p))
    used = _closure(p, frozenset().union(*map(names, relevant))) if relevant else frozenset()
    trips = _trip_limit(p)
    local = _local(p)
    terms = tuple(dict.fromkeys(m for e in dict.fromkeys(relevant) for m in maximal(e, local)))
    seen: set[tuple[Any, ...]] = set()
    for sizes in _sizes(p, used, trips, relevant):
        for env in _blocks(p, sizes, used):
            key = tuple(p.value(e, env) for e in terms)
            if key not in seen:
                seen.add(key)
                yield env


def _relevant(p: Program) -> Iterator[Expr]:
    """Every expression that decides control around, or addresses of, what ordering is about."""
    for _, s in walk(p.kernel.body):
        if s.kind in ("for", "if") and p.matters(s):
            yield from (p.inline(e) for _, e in expressions(s))
        for o in p.operands(s):
            yield from map(p.inline, p.kernel.resolve(o.ref).index)
            if s.kind == "load" and s.when is not None:
                yield p.inline(s.when)


def _local(p: Program) -> frozenset[str]:
    """Names that only have a value inside the walk: the thread, loop variables and carried values."""
    out = {"t"}
    for _, s in walk(p.kernel.body):
        if s.kind == "for":
            out |= {s.var, s.var + "#", *(c.name for c in s.carry)}
    return frozenset(out)


def _closure(p: Program, used: frozenset[str]) -> frozenset[str]:
    """With the grid's own sizes where blocks count."""
    if used & set(BUILTINS) - {"t"}:
        used = used.union(*map(names, p.kernel.grid))
    return used


# ------------------------------------------------------------------------------------------------------ trip counts
def _trip_limit(p: Program) -> int:
    """2P + D + 2 over the loops of symbolic trip count."""
    period, reach, found = 1, 0, False
    for pointer, s in walk(p.kernel.body):
        if s.kind == "for" and p.matters(s) and _symbolic(p, s):
            found = True
            _no_inner(p, s, pointer)
            a, b = _Ring(p, s, pointer).state()
            period, reach = lcm(period, a), max(reach, b)
    limit = 2 * period + reach + 2 if found else 0
    if limit > _LIMIT:
        raise Unsupported(f"a ring of {period} slots and a look-ahead of {reach} iterations")
    return limit


def check_trips(p: Program) -> None:
    """The walk must have run each loop over a size through the cutoff, or through all that its bounds allow."""
    limit = _trip_limit(p)
    for pointer, s in walk(p.kernel.body):
        if s.kind == "for" and p.matters(s) and _symbolic(p, s):
            found = p.rounds.get(id(s), 0)
            if found < limit and not _bounded(p, s, found):
                raise Unsupported(f"a trip count of {limit} or more, which no size tried gives to {s.var}", pointer)


def _bounded(p: Program, s: Any, found: int) -> bool:
    """Whether a constant in a `min`, or the largest sizes, keep the trip count at what was walked."""
    lo, hi, step = (p.inline(e) for e in (s.lo, s.hi, s.step))
    tops = [x for x in hi.args if isinstance(x, Const)] if isinstance(hi, Apply) and hi.op == "min" else []
    if isinstance(lo, Const) and isinstance(step, Const):
        first, by = int(lo.value), int(step.value)
        if any(len(range(first, int(x.value), by)) <= found for x in tops):
            return True
    used = _closure(p, names(lo) | names(hi) | names(step))
    small = all(q.max <= 4096 for q in p.kernel.scalars if q.name in used)
    return small and not used & {"t", *_BLOCKS} and _walked_max(p, s) <= found


def _walked_max(p: Program, s: Any) -> int:
    """Iterations at the largest sizes."""
    env: Env = {q.name: q.max // q.multiple_of * q.multiple_of for q in p.kernel.scalars} | {"bx": 0, "by": 0, "bz": 0}
    env |= dict(zip(("gx", "gy", "gz"), (p.value(e, env) for e in p.kernel.grid3), strict=True))
    return len(range(p.value(s.lo, env), p.value(s.hi, env), p.value(s.step, env)))


def _symbolic(p: Program, s: Any) -> bool:
    used = frozenset().union(*(names(p.inline(e)) for e in (s.lo, s.hi, s.step)))
    return bool(used & ({x.name for x in p.kernel.scalars} | set(BUILTINS) - {"t"}))


def _no_inner(p: Program, s: Any, pointer: str) -> None:
    inner = next((q for q, x in walk(s.body, pointer) if x.kind == "for" and p.matters(x) and _symbolic(p, x)), None)
    if inner is not None:
        raise Unsupported("a loop over a size inside a loop over a size, both with shared memory or barriers", inner)
    for q, x in walk(s.body, pointer):
        if x.kind == "for" and p.matters(x) and s.var in names(p.inline(x.lo)) | names(p.inline(x.hi)):
            raise Unsupported(f"an inner trip count that depends on {s.var}", q)


class _Ring:
    """How the variable of one symbolic loop, and what it carries, reach addresses and conditions."""

    def __init__(self, p: Program, s: Any, pointer: str) -> None:
        self.p, self.s, self.pointer = p, s, pointer
        self.period, self.reach = 1, 0
        self.steps = self._steps()

    def _steps(self) -> dict[str, int]:
        """Names that grow by a constant each iteration; cycles count into the period."""
        out: dict[str, int] = {}
        step = self.p.inline(self.s.step)
        if isinstance(step, Const):
            out[self.s.var] = int(step.value)
        for c in self.s.carry:
            grows = _increment(self.p.inline(c.next), c.name)
            if grows is not None:
                out[c.name] = grows
            elif c.name not in self.p.tainted and (n := self._cycle(c)):
                self.period = lcm(self.period, n)
                self.reach = max(self.reach, n)
        return out

    def _cycle(self, c: Any) -> int:
        """Length of the cycle of a carried value that depends on itself alone (0: it does not)."""
        init, following = self.p.inline(c.init), self.p.inline(c.next)
        if not isinstance(init, Const) or names(following) - {c.name}:
            return 0
        f, v = function_of((following,), (c.name,)), init.value
        seen: list[Any] = []
        while v not in seen and len(seen) < 128:
            seen.append(v)
            (v,) = f(v)
        return len(seen) if v in seen else 0

    def state(self) -> tuple[int, int]:
        """P and D; Unsupported where an address follows the loop in another way."""
        for pointer, x in walk(self.s.body, self.pointer + "/body"):
            for o in self.p.operands(x):
                for e in self.p.kernel.resolve(o.ref).index:
                    self._scan(self.p.inline(e), pointer, False)
            if x.kind in ("for", "if") and self.p.matters(x):
                for _, e in expressions(x):
                    self._scan(self.p.inline(e), pointer, x.kind == "if")
        return self.period, self.reach

    def _moving(self, e: Expr) -> frozenset[str]:
        mine = {self.s.var, self.s.var + "#", *(c.name for c in self.s.carry)}
        cyclic = {c.name for c in self.s.carry if c.name not in self.steps and self._cycle(c)}
        return names(e) & frozenset(mine - cyclic)

    def _scan(self, e: Expr, pointer: str, condition: bool) -> None:
        if not self._moving(e):
            return
        if isinstance(e, Apply) and (n := _modulus(e)):
            return self._turn(e, n, pointer)
        if isinstance(e, Apply) and e.op in COMPARISONS and condition and not self._nested(e):
            return self._compare(e, pointer)
        if isinstance(e, Var) or not parts(e):
            raise Unsupported(f"{e} of a loop over a size stands in a shared address or condition without % ", pointer)
        for x in parts(e):
            self._scan(x, pointer, condition)

    def _nested(self, e: Expr) -> bool:
        return any(isinstance(x, Apply) and _modulus(x) and self._moving(x) for x in subterms(e))

    def _turn(self, e: Apply, n: int, pointer: str) -> None:
        for x in subterms(e.args[0]):
            if isinstance(x, Apply) and x.op == "//" and isinstance(x.args[1], Const):
                n *= int(x.args[1].value)
        for name in self._moving(e):
            step = self.steps.get(name)
            if not step:
                raise Unsupported(f"{name}, which does not grow by a constant, in {e}", pointer)
            self.period = lcm(self.period, n // gcd(n, step))

    def _offsets(self, e: Expr) -> Iterator[int]:
        """Constants added to the loop variable (those inside a term that does not move shift nothing)."""
        if isinstance(e, Const) and type(e.value) is int:
            yield abs(e.value)
        elif self._moving(e):
            for x in parts(e):
                yield from self._offsets(x)
        elif isinstance(e, Apply) and e.op in ("+", "-"):
            yield from (abs(x.value) for x in e.args if isinstance(x, Const) and type(x.value) is int)

    def _compare(self, e: Apply, pointer: str) -> None:
        step = min((abs(self.steps.get(n, 0)) for n in self._moving(e)), default=0)
        if not step:
            raise Unsupported(f"{e} depends on a carried value that does not grow by a constant", pointer)
        if any(
            isinstance(x, Apply) and x.op in ("*", "//") and self._moving(x) and not _scaled(x) for x in subterms(e)
        ):
            raise Unsupported(f"the condition {e} is not linear in the loop", pointer)
        consts = list(self._offsets(e))
        small = [c for c in consts if c <= 16 * step]
        self.reach = max([self.reach, *(-(-c // step) for c in small)])


def _increment(e: Expr, name: str) -> int | None:
    """c where the term is `name + c`."""
    if isinstance(e, Apply) and e.op == "+" and e.args[0] == Var(name) and isinstance(e.args[1], Const):
        return int(e.args[1].value)
    return None


def _modulus(e: Apply) -> int:
    if e.op == "%" and isinstance(e.args[1], Const):
        return int(e.args[1].value)
    if e.op == "&" and isinstance(e.args[1], Const) and int(e.args[1].value) & (int(e.args[1].value) + 1) == 0:
        return int(e.args[1].value) + 1
    return 0


def _scaled(e: Apply) -> bool:
    return e.op == "*" and any(isinstance(x, Const) for x in e.args)


# ------------------------------------------------------------------------------------------------------------ sizes
def _sizes(p: Program, used: frozenset[str], trips: int, relevant: list[Expr]) -> Iterator[Env]:
    """Every parameter's value: loop sizes run through the trip counts, guard sizes through whole and ragged tiles."""
    loops = _loop_sizes(p)
    full, few = [], []
    for q in p.kernel.scalars:
        values = _values(p, q, q.name in used, trips if q.name in loops else 0, relevant)
        full.append(values)
        few.append(values if len(values) < 8 else [*values[:3], *values[3 :: max(1, len(values) // 4)]])
    names_ = [q.name for q in p.kernel.scalars]
    many = _count(full) > _MANY
    chosen: Iterator[tuple[Any, ...]] = _one_at_a_time(full, few) if many else product(*full)
    for row in sorted(set(chosen), key=lambda v: (sum(map(abs, v)), v)):
        yield dict(zip(names_, row, strict=True))


def _count(lists: list[list[Any]]) -> int:
    out = 1
    for x in lists:
        out *= len(x)
    return out


def _one_at_a_time(full: list[list[Any]], few: list[list[Any]]) -> Iterator[tuple[Any, ...]]:
    """Each parameter through all its values with few of the others."""
    for i, values in enumerate(full):
        others: list[list[Any]] = [values if i == j else f[:: max(1, len(f) // 3)] for j, f in enumerate(few)]
        yield from islice(product(*others), _MANY)


def _loop_sizes(p: Program) -> frozenset[str]:
    """Parameters in the bounds of loops that synchronise or use shared memory."""
    out: set[str] = set()
    for _, s in walk(p.kernel.body):
        if s.kind == "for" and p.matters(s):
            out |= names(p.inline(s.hi)) | names(p.inline(s.lo)) | names(p.inline(s.step))
    return _closure(p, frozenset(out))


def _values(p: Program, q: Param, used: bool, trips: int, relevant: list[Expr]) -> list[Any]:
    if q.dtype in ("f32", "f64", "f16", "bf16"):
        return [0.0, 1.0] if used else [0.0]
    if q.dtype == "bool":
        return [False, True] if used else [False]
    if not used:
        return [_fit(q, 1)]
    units = _units(p, q.name, relevant)
    wanted: set[int] = {q.min, 1}
    for u in units:
        base = q.min // u * u
        for step in {u, lcm(u, q.multiple_of)}:
            wanted |= {base + j * step for j in range(trips + 2)}
        wanted |= {base + j * u + r for j in range(2 if trips else 3) for r in _residues(u, relevant)}
    values = sorted({v for w in wanted for v in (_fit(q, w), _fit(q, w, -1)) if q.min <= v <= q.max})
    return values


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
    for _, s in walk(p.kernel.body):
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
        if isinstance(x, Apply) and x.op == "*" and names(x) & set(_BLOCKS):
            found |= {int(y.value) for y in x.args if isinstance(y, Const)}
    return found


# ----------------------------------------------------------------------------------------------------------- blocks
def _blocks(p: Program, sizes: Env, used: frozenset[str]) -> Iterator[Env]:
    """The first, second, last but one and last block in each dimension that counts."""
    grid = tuple(p.value(e, sizes) for e in p.kernel.grid3)
    axes = []
    for name, n in zip(_BLOCKS, grid, strict=True):
        axes.append(sorted({b for b in (0, 1, n - 2, n - 1) if 0 <= b < max(n, 1)}) if name in used else [0])
    for at in product(*axes):
        yield {
            **sizes,
            **dict(zip(_BLOCKS, at, strict=True)),
            **dict(zip(("gx", "gy", "gz"), grid, strict=True)),
            "rank": 0,
        }
