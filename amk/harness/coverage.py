"""Global memory: every output element is written, once, and no thread reads what another one writes.

Three ways, tried in this order for each written tensor.

*Tile form, for all sizes.* Each index is `tile * number + rel`: the terms without the thread are the number of a tile
times its size, the rest depends on the thread and on unrolled loops alone. Enumeration shows that `rel` meets every
element of the tile once; boxes of a tensor map count with all their elements. Numbers are made of block indices, of the
rank in a cluster and of loops over tiles, persistent ones and rasters included (`numbering` has the lemmas): each tile
is taken once. With as many tiles as the size takes and a guard that is exactly `index < size` (or a size that is a
multiple of the tile, or boxes, which end at the tensor's edge), every element of the tensor is written once:
`index -> (index // tile, index % tile)` is a bijection (the lemma). No size is fixed anywhere. Where sizes and grid are
constants, any other tile number is enumerated over all blocks instead, which is exact too. Atomic updates may be met by
several blocks: the same number for every element (split sums).

*Grid-stride form, for all sizes.* A loop over a vector by all threads of a constant grid (`stride_form` has the lemma).

*Enumeration.* Anything else (several paths, other index functions of symbolic sizes) is run over whole grids, and every
element is counted. Where all sizes are constants that is exact. Where they are not, it is run at small whole and ragged
sizes: it refutes with a counterexample, and where it finds nothing the kernel is undecided, since a fault may show at
others. Tensors that start as zeroes and are added to by atomics alone have a value wherever these go, data-dependent
places included: of them a fault at a small size refutes, and no form is asked for.
Source: `docs/soundness.md`, section on coverage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from amk.dsl.expr import Apply, Const, Elem, Expr, apply, names
from amk.dsl.instructions import ROWS
from amk.dsl.nodes import Call, Param, Role, Statement, TensorMap
from amk.dsl.record import field, record, replace
from amk.harness.diagnostics import Obligation
from amk.harness.events import Program, Unsupported
from amk.harness.faults import Fault
from amk.harness.row_operands import elements

if TYPE_CHECKING:
    from amk.harness.context import Context

__all__ = ["CoverageResult", "Site", "cover", "global_sites", "own_read", "own_reads", "role_conditions"]

MODES = {"read": "r", "write": "w", "update": "a"}


@record(frozen=True)
class Site:
    """One global access: the loops and conditions around it, outermost first."""

    pointer: str
    tensor: str
    index: tuple[Expr, ...]
    width: int
    mode: str  # r, w or a
    loops: tuple[Any, ...]
    conds: tuple[Expr, ...]
    box: tuple[int, ...] = ()  # elements of each dimension, as far as they lie inside; () for `width` in a row
    later: bool = False  # an asynchronous access: nothing orders it with others of its own thread


@record()
class CoverageResult:
    """Faults AMK304, AMK306, AMK401, AMK402 and AMK008, and what was shown how."""

    faults: list[Fault] = field(default_factory=list)
    obligations: list[Obligation] = field(default_factory=list)

    def of(self, *codes: str) -> list[Fault]:
        return [f for f in self.faults if f.code in codes]


def cover(ctx: Context) -> CoverageResult:
    """The result for a kernel; `Context.coverage` keeps it."""
    result = CoverageResult()
    try:
        p = ctx.program
        sites = list(_as_last(ctx, global_sites(p)))
    except Unsupported as e:
        result.faults.append(Fault("AMK008", e.pointer, f"outside what the coverage check decides: {e.message}"))
        return result
    for tensor in (t for t in ctx.kernel.tensors if t.name not in ctx.messages.flags):
        mine = [s for s in sites if s.tensor == tensor.name]
        if tensor.access != "read" or any(s.mode != "r" for s in mine):
            _tensor(p, tensor, [s for s in mine if s.mode != "r" or tensor.name not in ctx.messages.read], result)
    ctx.obligations += result.obligations
    return result


def _as_last(ctx: Context, sites: Iterable[Site]) -> Iterator[Site]:
    """The sites, those of the block that counts last as those of the first one of the blocks that share the count.

    Exactly one block comes last, and which one does not matter where nothing that it writes depends on that.
    """
    last = ctx.messages.last
    for s in sites:
        axes = frozenset(b for c in s.conds for b in last.get(c, ()))
        if axes and s.mode != "r":
            conds = tuple(x for c in s.conds for x in ([apply("==", b, 0) for b in last[c]] if c in last else [c]))
            kept = frozenset().union(*(names(e) for e in (*s.index, *(c for c in s.conds if c not in last))))
            if kept & axes:
                raise Unsupported(
                    f"what is written depends on {sorted(kept & axes)[0]}, which differs by who comes last", s.pointer
                )
            s = replace(s, conds=conds)
        yield s


def _tensor(p: Program, tensor: Param, sites: list[Site], result: CoverageResult) -> None:
    from amk.harness.enumerate_grid import count_hits
    from amk.harness.stride_form import stride_form
    from amk.harness.tiles import tile_form

    written = [s for s in sites if s.mode != "r"]
    if not written:
        hint = f"store to {tensor.name}, or declare access='read', or remove it"
        message = f"'{tensor.name}' is declared {tensor.access} and never written"
        result.faults.append(Fault("AMK401", p.kernel.pointer_of(tensor.name), message, hint=hint))
        return
    place, claim = written[0].pointer, f"every element of '{tensor.name}' is written exactly once"
    try:
        if (tile_form(p, tensor, written) or stride_form(p, tensor, written)) and own_reads(sites):
            result.obligations.append(Obligation("AMK401", place, claim, "structure"))
            return
        found, exact = count_hits(p, tensor, sites)
    except Unsupported as e:
        found, exact = [_outside(tensor, e.pointer or place, e.message)], False
    except KeyError as e:
        found, exact = (
            [_outside(tensor, place, f"{e.args[0]} is carried by a loop that is not around the store")],
            False,
        )
    except (ValueError, ZeroDivisionError, OverflowError) as e:
        found, exact = [_outside(tensor, place, str(e) or type(e).__name__)], False
    if exact and not found:
        result.obligations.append(Obligation("AMK401", place, claim, "enumeration"))
    elif _only_added(tensor, sites) and all(f.code == "AMK008" for f in found):
        claim = f"'{tensor.name}' is zero before, and nothing but atomic updates touches it"
        result.obligations.append(Obligation("AMK401", place, claim, "structure"))
        return
    result.faults += found if found or exact else [_open(tensor, place)]


def _only_added(tensor: Param, sites: list[Site]) -> bool:
    """Whether a tensor that starts as zeroes gets sums alone: each element has a value, however often it is met."""
    return tensor.access == "add" and all(s.mode == "a" for s in sites)


def _outside(tensor: Param, pointer: str, why: str) -> Fault:
    return Fault("AMK008", pointer, f"outside what the coverage check decides: '{tensor.name}': {why}")


def _open(tensor: Param, pointer: str) -> Fault:
    message = (
        f"'{tensor.name}' is neither in tile form nor in grid-stride form: that each element is written exactly once, "
        "and read by its writer alone, held at the small sizes that were tried and is not shown for all"
    )
    hint = "write index = tile * block + rel where index < size, on a grid of cdiv(size, tile); or fix the sizes"
    return Fault("AMK401", pointer, message, hint=hint, severity="undecided")


def own_reads(sites: list[Site]) -> bool:
    """Whether every read of the tensor is of the element that the same thread writes, under the same loops."""
    reads = [s for s in sites if s.mode == "r"]
    writes = [s for s in sites if s.mode == "w"]
    if any(s.mode == "a" for s in sites):
        return not reads and not writes
    return all(any(own_read(r, w) for w in writes) for r in reads)


def own_read(r: Site, w: Site) -> bool:
    """Whether a read is made only by threads that write the same element themselves, one after the other."""
    return (
        not (r.later or w.later)
        and (r.index, r.width, r.loops) == (w.index, w.width, w.loops)
        and set(w.conds) <= set(r.conds)
    )


# ------------------------------------------------------------------------------------------------------------ sites
def global_sites(p: Program) -> Iterator[Site]:
    """Every global access of a kernel."""
    yield from _sites(p, p.kernel.body, (), ())


def _sites(p: Program, body: tuple[Statement, ...], loops: tuple[Any, ...], conds: tuple[Expr, ...]) -> Iterator[Site]:
    for s in body:
        if s.kind == "for":
            yield from _sites(p, s.body, (*loops, s), conds)
        elif s.kind == "if":
            yield from _sites(p, s.body, loops, (*conds, *conjuncts(p.inline(s.cond))))
        elif s.kind == "team":
            for r in s.roles:
                yield from _sites(p, r.body, loops, (*conds, *role_conditions(p, r)))
        else:
            yield from _of(p, s, loops, conds)


def role_conditions(p: Program, r: Role) -> tuple[Expr, ...]:
    """The conditions on a thread of a role's warps."""
    first, end = (32 * w for w in r.warps)
    low = (apply(">=", "t", first),) if first else ()
    return (*low, apply("<", "t", end)) if end < p.threads else low


def _of(p: Program, s: Any, loops: tuple[Any, ...], conds: tuple[Expr, ...]) -> Iterator[Site]:
    for ref, width, mode, guard in _accesses(p, s):
        if p.kernel.space(ref) != "global":
            continue
        r = p.kernel.resolve(ref)
        index = tuple(map(p.inline, r.index))
        more = conjuncts(p.inline(guard)) if guard is not None else ()
        later = s.kind == "call" and ROWS[s.row].completes != "now"
        yield Site(p.pointers[id(s)], r.buffer, index, width, mode, loops, (*conds, *more), later=later)
    if s.kind == "call" and s.row in ROWS:
        yield from _boxes(p, s, loops, conds)


def _boxes(p: Program, s: Call, loops: tuple[Any, ...], conds: tuple[Expr, ...]) -> Iterator[Site]:
    """What a row touches through a tensor map."""
    operands = ROWS[s.row].operands
    for o in operands:
        ref = s.refs.get(o.role)
        m = p.kernel.find(ref.buffer) if ref is not None else None
        if ref is not None and isinstance(m, TensorMap) and any(x.box == o.role for x in operands):
            index = tuple(map(p.inline, ref.index))
            yield Site(p.pointers[id(s)], m.tensor, index, 1, MODES[o.mode], loops, conds, m.box, True)


def _accesses(p: Program, s: Any) -> Iterator[tuple[Elem, int, str, Expr | None]]:
    if s.kind == "load":
        yield s.src, s.width, "r", s.when
    elif s.kind == "store":
        yield s.dst, len(s.values), "w", None
    elif s.kind == "atomic":
        yield s.dst, 1, "a", None
    elif s.kind == "call" and s.row in ROWS:
        row = ROWS[s.row]
        for o in row.operands:
            if o.role in s.refs and p.kernel.space(s.refs[o.role]) == "global":
                d = p.kernel.find(s.refs[o.role].buffer)
                assert isinstance(d, Param)
                guard = s.args.get(row.guard) if row.guard else None
                yield s.refs[o.role], elements(o, s, d.dtype), MODES[o.mode], guard


def conjuncts(e: Expr) -> tuple[Expr, ...]:
    """The conditions that an `and` joins."""
    if isinstance(e, Apply) and e.op == "and":
        return (*conjuncts(e.args[0]), *conjuncts(e.args[1]))
    return () if e == Const(True) else (e,)


def linear(e: Expr) -> dict[Expr, int]:
    """The term as a sum of constants times opaque terms; the constant stands under Const(1)."""
    if isinstance(e, Const) and type(e.value) is int:
        return {Const(1): e.value} if e.value else {}
    if isinstance(e, Apply) and e.op in ("+", "-"):
        return _plus(linear(e.args[0]), linear(e.args[1]), 1 if e.op == "+" else -1)
    if isinstance(e, Apply) and e.op == "neg":
        return _plus({}, linear(e.args[0]), -1)
    if isinstance(e, Apply) and e.op == "*":
        for x, y in (e.args, e.args[::-1]):
            if isinstance(y, Const) and type(y.value) is int:
                return _plus({}, linear(x), y.value)
    return {e: 1}


def _plus(a: dict[Expr, int], b: dict[Expr, int], factor: int) -> dict[Expr, int]:
    out = dict(a)
    for x, n in b.items():
        out[x] = out.get(x, 0) + factor * n
    return {x: n for x, n in out.items() if n}


def rebuilt(form: dict[Expr, int]) -> Expr:
    """A term of a linear form."""
    out: Expr = Const(0)
    for x, n in form.items():
        out = out + apply("*", x, n)
    return out
