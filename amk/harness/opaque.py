"""Trip counts that the cutoff cannot read, taken as parameters of their own.

`mine = min(each, steps - min(bz * each, steps))`, the steps of one of several blocks that share a sum, is no sum of
multiples of sizes and blocks; nor is how many tiles a persistent block comes to in `range(first, rows * cols, blocks)`.
But whatever the sizes are, it is some number of its interval. So a kernel that is right for every such number, whatever
the sizes are, is right: more is walked than can happen, and nothing less. What goes wrong in that larger set may be
impossible, so it refutes nothing by itself: `realised` looks for sizes at which the kernel itself is then walked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, product
from typing import Any, NamedTuple

from amk.dsl.expr import Apply, Const, Elem, Expr, Var, names, subst, subterms
from amk.dsl.kernel import KernelDescriptor, expressions, walk
from amk.dsl.nodes import For, Let, Param, Statement
from amk.harness.affine import Facts
from amk.harness.bounds import size_ranges
from amk.harness.events import BLOCKS, GRID, Env, Program
from amk.harness.intervals import Interval, of_dtype

__all__ = ["Opaque", "opaque", "realised"]

_TRIED = 4096  # choices of sizes looked at for one with given trip counts


class Opaque(NamedTuple):
    """A kernel with some trip counts as parameters, and what each stands for in the kernel that it was made of."""

    kernel: KernelDescriptor
    counts: dict[str, tuple[Expr, Expr, Expr]]  # by parameter: the range that it counts


def opaque(kernel: KernelDescriptor) -> Opaque | None:
    """The kernel with every trip count that is a name, or a loop by no constant step, as a parameter; None without one.

    Statements keep their places, so what is found in it is found in the kernel.
    """
    sizes = size_ranges(kernel)
    known = sizes.keys() | set(BLOCKS)
    facts = Facts({**sizes, **dict.fromkeys(BLOCKS, (0, 2**31 - 1))}, {})
    loops = {s.var: s for _, s in walk(kernel.body) if s.kind == "for"}
    lets: dict[str, Expr] = {}
    made: dict[str, Param] = {}
    counts: dict[str, tuple[Expr, Expr, Expr]] = {}
    wanted = frozenset().union(*(names(s.hi) for s in loops.values() if isinstance(s.step, Const)))
    for _, s in walk(kernel.body):
        if s.kind == "let" and s.value is not None:
            lets[s.name] = value = subst(s.value, lets)
            if s.name in wanted and s.dtype == "i32" and names(value) and names(value) <= known and not _plain(value):
                low, high = _inside(facts.interval(value), of_dtype("i32"))
                made[s.name] = Param(name=s.name, dtype="i32", min=low, max=high)
                counts[s.name] = Const(0), value, Const(1)
    rounds: dict[str, str] = {}
    same: dict[tuple[Expr, ...], str] = {}  # loops with the same bounds run together
    for s in loops.values():
        bounds = subst(s.lo, lets), subst(s.hi, lets), subst(s.step, lets)
        if not isinstance(bounds[2], Const) and frozenset().union(*map(names, bounds)) <= known | set(GRID):
            name = rounds[s.var] = same.setdefault(bounds, f"{s.var}.rounds")
            made[name] = Param.model_construct(name=name, dtype="i32", min=0, max=2**31 - 1, multiple_of=1)
            counts[name] = bounds
    if not made:
        return None
    body = _without(kernel.body, frozenset(made), rounds)
    changed = kernel.replaced(params=(*kernel.params, *made.values()), body=body)
    return None if _followed(changed, frozenset(rounds)) else Opaque(changed, counts)


def _plain(e: Expr) -> bool:
    """Whether the cutoff reads the term: it has no product of sizes, and no least of several."""
    return not any(isinstance(x, Apply) and (x.op == "min" or _product(x)) for x in (e, *subterms(e)))


def _product(x: Apply) -> bool:
    return x.op in ("*", "//", "%", "cdiv") and all(names(a) for a in x.args)


def _inside(span: Interval, whole: Interval) -> Interval:
    return max(span[0], whole[0]), min(span[1], whole[1])


def _without(body: tuple[Statement, ...], taken: frozenset[str], rounds: Mapping[str, str]) -> tuple[Statement, ...]:
    """The statements, a Let of a taken name under a name that nothing uses, and loops over rounds alone."""
    out: list[Statement] = []
    for s in body:
        if isinstance(s, Let) and s.name in taken:
            s = s.model_copy(update={"name": f"{s.name}#"})
        elif isinstance(s, For) and s.var in rounds:
            fields: dict[str, Any] = {"lo": Const(0), "hi": Var(rounds[s.var]), "step": Const(1)}
            s = s.model_copy(update={**fields, "body": _without(s.body, taken, rounds)})
        elif s.kind in ("for", "if"):
            s = s.model_copy(update={"body": _without(s.body, taken, rounds)})
        elif s.kind == "team":
            roles = tuple(r.model_copy(update={"body": _without(r.body, taken, rounds)}) for r in s.roles)
            s = s.model_copy(update={"roles": roles})
        out.append(s)
    return tuple(out)


def _followed(kernel: KernelDescriptor, loops: frozenset[str]) -> bool:
    """Whether the variable of such a loop decides anything: then it may not be just counted."""
    if not loops:
        return False
    p = Program(kernel)
    for _, s in p.statements:
        terms = [*p.deciding(s)]
        if s.kind in ("if", "for") and p.matters(s):
            terms += [p.inline(e) for n, e in expressions(s) if "carry" not in n]
        elif p.matters(s) and s.kind in ("arrive", "wait"):
            terms += [p.inline(i) for _, e in expressions(s) for i in (e.index if isinstance(e, Elem) else (e,))]
        elif p.matters(s) and s.kind == "call":
            terms += map(p.inline, s.args.values())
        if any(names(e) & loops for e in terms):
            return True
    return False


def realised(found: Opaque, program: Program, at: Mapping[str, int]) -> Iterator[Env]:
    """Sizes at which the first block has the trip counts of a point of the larger set, as far as some are found."""
    kernel, wanted = program.kernel, {n: at[n] for n in found.counts if n in at}
    free = [q for q in kernel.scalars if q.dtype not in ("f32", "f64", "bool")]
    tiles = {
        int(x.args[1].value)
        for bounds in found.counts.values()
        for e in bounds
        for x in (e, *subterms(e))
        if isinstance(x, Apply) and x.op in ("cdiv", "//") and isinstance(x.args[1], Const)
    }
    used = {n for bounds in found.counts.values() for e in bounds for n in names(e)}
    choices = [_values(q, at, tiles if q.name in used else set()) for q in free]
    for values in islice(product(*choices), _TRIED):
        env: Env = {q.name: v for q, v in zip(free, values, strict=True)} | dict.fromkeys(BLOCKS, 0) | {"rank": 0}
        env |= {q.name: 0 for q in kernel.scalars if q.name not in env}
        try:
            env |= dict(zip(GRID, (program.value(e, env) for e in kernel.grid3), strict=True))
            blocks = {**env, "gx": env["gx"] * kernel.cluster}  # the bounds speak of blocks
            have = {n: len(range(*(program.value(e, blocks) for e in found.counts[n]))) for n in wanted}
        except (ValueError, ZeroDivisionError, OverflowError, KeyError):
            continue
        if have == wanted and all(env[g] > 0 for g in GRID):
            yield env
            return


def _values(q: Param, at: Mapping[str, int], tiles: set[int]) -> list[int]:
    """The value of a point, or the least one and some multiples of the constants that trip counts are reckoned with."""
    least = -(-q.min // q.multiple_of) * q.multiple_of
    made = [least, *(t * i for t in sorted(tiles) for i in range(1, 17))] if tiles else [at.get(q.name, least)]
    return sorted({v for v in made if q.min <= v <= q.max and v % q.multiple_of == 0})
