"""The finite set of sizes and blocks that stands for all of them in the ordering check.

The argument. What the walk of one block meets is decided by its *aspects*: (a) trip counts of loops, (b) the threads
that pass each condition, in each round of constant loops, (c) addresses and carried values. Two choices of sizes and
block that agree in all aspects are walked alike, so one of each class is walked, the smallest. No class is left out:

*Classes.* `turns.py` reads each aspect as a function of remainders of sizes and blocks (modulo its *periods*) and of
*gaps*: sums of multiples of sizes and blocks, each of which counts inside a window of values alone. A comparison of a
size with a tile, `bx * 128 + t < n`, has the gap n - 128 bx and the window 0 to 128: every partial tile is its own
case. `sizes.py` gives a point of every class of remainders and gaps; so every set of threads that a condition can pick
is walked, and all of them together as sizes join them. Between partial masks nothing is interpolated. A term that is
no such function (a product of sizes, a remainder by a size), or a class of gaps that is not proved to be met, is
refused as AMK008.

*Least points.* Take out an axis x that one neighbour y joins by a gap a x - b y. Once the remainders are fixed, a class
asks for a <= x <= b of x, and of the gap that it lies between two windows' ends, so x >= F(y) and x <= G(y) for two
functions that grow with y and keep their distance when y grows by a period. So some x is there exactly if y lies above
thresholds (where G reaches an a), below others, and has certain remainders: again a class of the same form. By
induction along a tree of axes, the least y of each class is one of: a threshold, or one of the next values up to a
period; and then the least x is where its window begins, or F(y), or one of the next values up to a period.

*Growth.* A condition under which shared memory is only read or updated by atomics, and which stands nowhere under
`not`, can only show more faults where more threads pass: races, reads of what is not initialised and indices outside
need a thread that passes, and nothing that it guards initialises, orders or needs a whole warp. Of classes that agree
in all else, those whose threads are contained in another's are left out.

*Separation.* Sizes and blocks that no aspect joins (through a chain of aspects, or a block through the sizes of its
grid) form groups, and each aspect is a function of one group. Sizes are independent of each other in the domain, so
the classes of all sizes are the products of the classes of the groups, and all products are walked, or refused where
they are too many. A condition joined by `and`, `or`, `not` is taken apart first: who passes the whole follows from who
passes the parts.

(a) In a loop of symbolic trip count `n` the variable stands only under `% c`, in carried cycles, or in comparisons that
turn within S iterations of the first or E of the last, for all values (`amk/harness/ring.py` proves it, or refuses).
So the state at a loop head is a function of `k mod P` (P the least common multiple of the moduli and cycles), of
`min(k, S)`, of `min(n - k, E)` and of the groups of copies in flight, at most the G that a wait leaves, which fill
up in G iterations. Two iterations that agree in these make the same accesses. In a run of more than 2P + S + E + G + 2
iterations, 2P + 1 lie in between where only `k mod P` counts; taking out P of them leaves every interval between
barriers and every pair of residues that met. So trip counts up to P + S + E + G + 2 are classes of their own, and
longer ones are classed by their remainder modulo P; that such were walked is checked at the end. Where such a loop
begins counts modulo P steps, and a comparison that turns near its end counts by its distance to it.
In a loop around such a loop, trip counts of the outer and the inner one are chosen together (`ring.Nest`): lemma 4 of
`docs/soundness.md`.
(b) and (c) are covered by classes. A symbolic loop variable that stands bare in an address is refused.
Source: cutoffs as in Kaiser, Kroening and Wahl, CAV 2010; the argument for rings is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from itertools import pairwise, product
from math import prod
from typing import Any, NamedTuple

from amk.dsl.expr import Apply, Expr, names
from amk.dsl.instructions import ROWS
from amk.dsl.kernel import walk
from amk.dsl.nodes import Barrier, Param, Statement
from amk.harness.events import BLOCKS, GRID, Env, Operand, Program, Unsupported, orders
from amk.harness.ring import Rings, symbolic
from amk.harness.sizes import Axis, points
from amk.harness.turns import Reader, Turns

__all__ = ["samples"]

_MANY = 4096  # combinations of classes of groups, each walked
_ROUNDS = 64  # combinations of constant loop variables at which a condition's threads are compared
_FLOATS = ("f32", "f64", "f16", "bf16")


class Aspect(NamedTuple):
    """One thing that the walk asks of sizes and blocks: who passes a condition, a trip count, or an address."""

    turns: Turns
    at: Callable[[Env], Any]  # hashable; where it grows, a tuple of sets of threads
    grows: bool = False  # whether more threads can only show more faults


def samples(p: Program, rings: Rings) -> Iterator[Env]:
    """Sizes and a block each, smallest first, one for each behaviour that they can have."""
    reader = Reader(p, rings)
    found = list(_aspects(p, reader))
    groups = [list(_classes(p, reader, g, found)) for g in _groups(reader, found)]
    _few([len(g) for g in groups])
    joined = ({k: v for part in parts for k, v in part.items()} for parts in product(*groups))
    whole = (env for env in (_whole(p, e) for e in joined) if rings.wanted(p, env))
    yield from sorted(whole, key=lambda env: _order(p, env))


def _few(counts: list[int]) -> None:
    """Every combination is walked, so there may not be too many."""
    if prod(counts) > _MANY:
        said = f"{' by '.join(map(str, counts))} cases of sizes and blocks, of which at most {_MANY} are walked"
        raise Unsupported(f"{said}: take smaller tiles, or let nothing but loads stand under the guards")


def _whole(p: Program, env: Env) -> Env:
    """With values for what decides nothing, and the size of the grid."""
    out = {**{q.name: _resting(q) for q in p.kernel.scalars}, **dict.fromkeys(BLOCKS, 0), "rank": 0, **env}
    for block, g, e in zip(BLOCKS, GRID, p.kernel.grid3, strict=True):
        out[g] = max(p.value(e, out), out[block] + 1 if block in env else 0)
    return out


def _order(p: Program, env: Env) -> tuple[Any, ...]:
    at = [0 if env[q.name] != env[q.name] else env[q.name] for q in p.kernel.scalars]
    return sum(map(abs, at)), at, [env.get(b, 0) for b in (*BLOCKS, "rank")]


def _resting(q: Param) -> Any:
    """The value of a parameter that decides nothing."""
    if q.dtype in ("bool", *_FLOATS):
        return False if q.dtype == "bool" else 0.0
    return min(-(-max(q.min, 1) // q.multiple_of), q.max // q.multiple_of) * q.multiple_of


# ----------------------------------------------------------------------------------------------------------- groups
def _groups(reader: Reader, found: list[Aspect]) -> list[frozenset[str]]:
    """Sizes and blocks that something joins; no aspect depends on two groups, nor whether the grid has a block."""
    out: list[frozenset[str]] = []
    joined = [a.turns.used for a in found]
    asked = frozenset().union(*joined)
    joined += [turns.used for b in BLOCKS if b in asked and (turns := _below(reader, b)) is not None]
    for group in filter(None, joined):
        touched = [x for x in out if x & group]
        out = [x for x in out if not x & group] + [group.union(*touched)]
    return out


def _below(reader: Reader, block: str) -> Turns | None:
    """What says that the grid has a block; None for a grid of unknown form, of which any block may be walked."""
    try:
        turns = reader.below(block)
    except Unsupported:
        return None
    return turns if all(len(v) <= 2 for v in turns.gaps) else None


def _classes(p: Program, reader: Reader, group: frozenset[str], found: list[Aspect]) -> Iterator[Env]:
    """Of the values of a group, the first with each behaviour, but for those whose faults another shows as well."""
    mine = [a for a in found if a.turns.used & group]
    kept: dict[tuple[Hashable, ...], list[tuple[tuple[Any, ...], Env]]] = {}
    for env in sorted(_values(p, reader, group, mine), key=lambda env: _order(p, env)):
        same = tuple([a.at(env) for a in mine if not a.grows])
        more = tuple([m for a in mine if a.grows for m in a.at(env)])
        others = kept.setdefault(same, [])
        if not any(_within(more, held) for held, _ in others):
            others[:] = [(held, e) for held, e in others if not _within(held, more)] + [(more, env)]
            _few([sum(map(len, kept.values()))])
    for classes in kept.values():
        yield from ({n: v for n, v in env.items() if n in group} for _, env in classes)


def _within(less: tuple[int, ...], more: tuple[int, ...]) -> bool:
    return all(a & ~b == 0 for a, b in zip(less, more, strict=True))


def _values(p: Program, reader: Reader, group: frozenset[str], mine: list[Aspect]) -> Iterator[Env]:
    """At least one choice of the group's sizes, and of a block of their grid, of each class."""
    every = Turns()
    for a in mine:
        every.add(a.turns)
    exact = {b: turns for b in BLOCKS if b in group and (turns := _below(reader, b)) is not None}
    for turns in exact.values():
        every.add(turns)
    axes = {n: Axis(*reader.range(n)) for n in group if n not in every.floats}
    floats = [[(n, v) for v in _around(values)] for n, values in every.floats.items()]
    for point in points(axes, every.gaps, every.periods):
        env = {n: bool(v) if reader.is_bool(n) else v * reader.scales.get(n, 1) for n, v in point.items()}
        whole = _whole(p, env)
        if all(env[b] < p.value(p.kernel.grid3[BLOCKS.index(b)], whole) for b in exact):
            yield from ({**whole, **dict(at)} for at in product(*floats))


def _around(values: set[float]) -> list[float]:
    """The constants, what lies between, below and above them, and what compares with none."""
    at = sorted(values)
    between = [(a + b) / 2 for a, b in pairwise(at)]
    return [at[0] - 1 - abs(at[0]), *at, *between, at[-1] + 1 + abs(at[-1]), float("nan")]


# ---------------------------------------------------------------------------------------------------------- aspects
def _aspects(p: Program, reader: Reader) -> Iterator[Aspect]:
    """What the walk depends on, as far as sizes and blocks decide it."""
    scales = reader.scales
    for e, (pointer, grows) in _leaves_of(p).items():
        turns = reader.condition(e, pointer)
        rounds = _rounds(p, e, reader)
        if rounds is None:
            yield Aspect(turns, turns.key(scales))
        else:
            yield Aspect(turns, partial(_passing, p, e, rounds), grows)
    yield from _loops(p, reader)
    for turns in _valued(p, reader):
        yield Aspect(turns, turns.key(scales))


def _leaves_of(p: Program) -> dict[Expr, tuple[str, bool]]:
    """The conditions that decide which threads pass, with a pointer, and whether they grow in every place."""
    out: dict[Expr, tuple[str, bool]] = {}
    for pointer, s in p.statements:
        cond = s.cond if s.kind == "if" and p.matters(s) else None
        if s.kind == "load" and s.when is not None and p.operands(s):
            cond = s.when
        if cond is None or p.data(cond):  # the walk takes both sides of what depends on data
            continue
        reads = _only_reads(p, s)
        for e, sign in _leaves(p.inline(cond), True):
            first, grows = out.get(e, (pointer, True))
            out[e] = first, grows and reads and sign
    return out


def _only_reads(p: Program, s: Statement) -> bool:
    """Whether what stands under a condition reads shared memory at most: nothing waits, and nothing is initialised."""
    for _, x in walk((s,)):
        if orders(x) or (x.kind == "call" and (x.row not in ROWS or ROWS[x.row].issuer != "thread")):
            return False
        if any(o.mode not in "ra" for o in p.operands(x)):
            return False
    return True


def _leaves(e: Expr, sign: bool) -> Iterator[tuple[Expr, bool]]:
    """The conditions that logic joins, each with whether the whole grows with it."""
    if isinstance(e, Apply) and e.op in ("and", "or", "not"):
        for x in e.args:
            yield from _leaves(x, sign != (e.op == "not"))
    else:
        yield e, sign


def _rounds(p: Program, e: Expr, reader: Reader) -> list[Env] | None:
    """The rounds of constant loops in which a condition is asked; None where it follows another loop."""
    loops = sorted(names(e) - reader.outer - {"t"})
    if not p.fixed.keys() >= set(loops) or prod(len(p.fixed[n]) for n in loops) > _ROUNDS:
        return None
    return [dict(zip(loops, at, strict=True)) for at in product(*(p.fixed[n] for n in loops))]


def _passing(p: Program, e: Expr, rounds: list[Env], env: Env) -> Hashable:
    """The threads that pass in each round."""
    return tuple([p.chosen(e, p.everyone, {**env, **at}) for at in rounds])


def _loops(p: Program, reader: Reader) -> Iterator[Aspect]:
    """Trip counts of loops over a size: each up to the cutoff less one period, and then by what is left of a period."""
    for pointer, s in p.statements:
        if s.kind == "for" and p.matters(s) and symbolic(p, s):
            top, period = reader.rings.tops[id(s)], reader.rings.periods[id(s)]
            bounds = p.inline(s.lo), p.inline(s.hi), p.inline(s.step)
            turns = reader.trips(*bounds, top, period, pointer)
            if any(names(e) - reader.outer for e in bounds):
                yield Aspect(turns, turns.key(reader.scales))
            else:
                yield Aspect(turns, partial(_count, p, bounds, top, period))


def _count(p: Program, bounds: tuple[Expr, ...], top: int, period: int, env: Env) -> Hashable:
    count = len(range(*(p.value(e, env) for e in bounds)))
    return count if count <= top else top + 1 + (count - top - 1) % period


def _valued(p: Program, reader: Reader) -> Iterator[Turns]:
    """Carried values, addresses of shared memory, and what names mbarriers, their phases and peers."""
    relevant, known = _relevant(p), reader.rings.moving | p.tainted
    for pointer, s in p.statements:
        for c in s.carry if s.kind == "for" and p.matters(s) else ():
            if c.name in relevant and c.name not in known:
                yield from (
                    reader.value(e, pointer) for e in map(p.inline, (c.init, c.next)) if names(e) & reader.outer
                )
        for o in p.operands(s):
            if any(names(e) & reader.outer for e in p.deciding(s)) and not _by_data(p, o):
                yield from (reader.value(e, pointer) for e in p.address_terms(o))
        for e in map(p.inline, _signals(p, s)):
            if names(e) & reader.outer and not p.data(e):
                yield reader.value(e, pointer)
    for e, m in reader.rings.starts:
        yield reader.remainder(e, m)


def _signals(p: Program, s: Statement) -> Iterator[Expr]:
    """The terms that decide which mbarrier a statement uses, of which block, which phase of it and how many bytes."""
    if s.kind in ("arrive", "wait") and s.barrier is not None:
        yield from s.barrier.index
        yield from (e for e in (s.parity if s.kind == "wait" else s.bytes,) if e is not None)
    elif s.kind == "call":
        for ref in s.refs.values():
            if isinstance(p.kernel.find(ref.buffer), Barrier):
                yield from ref.index
        if s.row in ROWS and ROWS[s.row].completes == "barrier":
            yield from s.args.values()
    if s.kind in ("arrive", "load", "store") and s.peer is not None:
        yield s.peer


def _by_data(p: Program, o: Operand) -> bool:
    return any(map(p.data, p.kernel.resolve(o.ref).index))


def _relevant(p: Program) -> frozenset[str]:
    """Names that conditions, trip counts and addresses depend on, through carried values as well."""
    out: set[str] = set()
    for _, s in p.statements:
        if s.kind in ("for", "if") and p.matters(s):
            bounds = (s.lo, s.hi, s.step) if s.kind == "for" else (s.cond,)
            out |= {n for e in bounds for n in names(p.inline(e))}
        elif s.kind == "load" and s.when is not None and p.operands(s):
            out |= names(p.inline(s.when))
        out |= {n for e in p.deciding(s) for n in names(e)}
    carried = [c for _, s in p.statements if s.kind == "for" for c in s.carry]
    while (
        more := {n for c in carried if c.name in out for n in names(p.inline(c.next)) | names(p.inline(c.init))} - out
    ):
        out |= more
    return frozenset(out)
