"""Speed advice: sectors of each global access, bank conflicts of each shared access, padding that nothing uses.

Advice is about one warp in the interior of a large problem, at the first iteration of the loops around an access: it
names what the hardware does with the pattern and claims nothing for all sizes. Model: a warp's global request moves
32-byte sectors; shared memory has 32 banks of 4 bytes, an access of 8 bytes goes in two half-warps and one of 16 bytes
in four quarter-warps, lanes that read the same word share it.
Source: CUDA C++ Programming Guide, device memory accesses and shared memory; `docs/soundness.md`, section on advice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache, wraps
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from amk.dsl.expr import Const, Expr, Var, apply, has_elements, integers, names, subst
from amk.dsl.kernel import children
from amk.dsl.layout import linear as dot
from amk.dsl.nodes import Buffer, Param, Statement
from amk.dsl.types import nbytes
from amk.harness.columns import Columns, Tables
from amk.harness.coverage import Site, global_sites, linear, rebuilt, role_conditions
from amk.harness.events import Operand, Program, Unsupported
from amk.harness.faults import Fault

if TYPE_CHECKING:
    from amk.harness.context import Context

__all__ = ["Warp", "bank_conflicts", "sectors", "unused_padding", "widths"]

_SECTOR, _LARGE = 32, 4096


class Shared(NamedTuple):
    """One shared access with the conditions on the thread around it."""

    pointer: str
    operand: Operand
    conds: tuple[Expr, ...]
    loops: tuple[Any, ...]


def _quiet(made: Callable[[Context], Iterator[Fault]]) -> Callable[[Context], Iterator[Fault]]:
    """Advice about what the checker does not know is no advice; the rules for faults say what is unknown."""

    @wraps(made)
    def quiet(ctx: Context) -> Iterator[Fault]:
        try:
            yield from made(ctx)
        except (Unsupported, ValueError, KeyError, ZeroDivisionError, OverflowError):
            return

    return quiet


# ----------------------------------------------------------------------------------------------------------- global
@_quiet
def sectors(ctx: Context) -> Iterator[Fault]:
    """Global accesses that move at least twice the sectors their bytes need."""
    p = ctx.program
    for s in _sites(p):
        found = _sectors(ctx.warp, s)
        if found is None:
            continue
        moved, ideal = found
        if moved >= 2 * ideal and _run_length(p, s) == 1:  # else AMK505 says it better
            stride = _stride(p, s)
            message = (
                f"a warp's {'load from' if s.mode == 'r' else 'store to'} '{s.tensor}' moves {moved} sectors "
                f"where {ideal} would do{f': stride {stride} elements between neighbouring lanes' if stride else ''}"
            )
            hint = "let neighbouring threads take neighbouring elements of the last dimension"
            yield Fault("AMK501", s.pointer, message, {"sectors": moved, "ideal": ideal}, (), hint)


@_quiet
def widths(ctx: Context) -> Iterator[Fault]:
    """Copies of single elements where each thread moves several neighbours in a row and a vector would fit."""
    p = ctx.program
    for s in _sites(p):
        n = _run_length(p, s)
        if n > 1:
            message = f"each thread moves {n} neighbouring elements of '{s.tensor}' one by one; width {n} would do"
            hint = f"use width={n} (the tensor's alignment and sizes allow it)"
            yield Fault("AMK505", s.pointer, message, {"width": n}, (), hint)


def _sites(p: Program) -> list[Site]:
    """Accesses of single threads; boxes and bulk copies are moved whole, whatever the lanes of a warp do."""
    try:
        return [
            s for s in global_sites(p) if not any(map(has_elements, s.index)) and s.mode != "a" and not _whole(p, s)
        ]
    except Unsupported:
        return []


def _whole(p: Program, s: Site) -> bool:
    d = p.kernel.declarations[s.tensor]
    return bool(s.box) or (isinstance(d, Param) and s.width * nbytes(d.dtype) > 16)


def _sectors(warp: Warp, s: Site) -> tuple[int, int] | None:
    """The sectors that a request moves, and the fewest for its bytes; None where addresses are not known."""
    kernel = warp.p.kernel
    d = kernel.declarations[s.tensor]
    assert isinstance(d, Param)
    size = nbytes(d.dtype)
    starts = [x * size for x in warp.lanes(dot(s.index, tuple(map(warp.p.inline, kernel.strides_of(d)))), s)]
    if not starts:
        return None
    size *= s.width
    base = min(starts) // _SECTOR * _SECTOR
    moved = {b // _SECTOR for x in starts for b in (x - base, x - base + size - 1)}
    ideal = -(-len(set(starts)) * size // _SECTOR)
    return len(moved), max(1, ideal)


def _stride(p: Program, s: Site) -> str:
    """The distance of lanes 0 and 1 as a term of the sizes."""
    start = first_values(p, s.loops)
    zero, one = ([linear(subst(e, {"t": Const(t)} | start)) for e in s.index] for t in (0, 1))
    d = p.kernel.declarations[s.tensor]
    assert isinstance(d, Param)
    out: Expr = Const(0)
    for a, b, stride in zip(one, zero, map(p.inline, p.kernel.strides_of(d)), strict=True):
        moved = rebuilt({x: a.get(x, 0) - b.get(x, 0) for x in {**a, **b} if a.get(x, 0) != b.get(x, 0)})
        out = out + apply("*", moved, stride)
    return "" if names(out) - {q.name for q in p.kernel.scalars} or out == Const(0) else str(out)


def _run_length(p: Program, s: Site) -> int:
    """Elements a thread moves in a row through the innermost unrolled loop, if a vector may take them."""
    d = p.kernel.declarations[s.tensor]
    assert isinstance(d, Param)
    if s.width != 1 or not s.loops or d.strides is not None:
        return 1
    loop = s.loops[-1]
    bounds = [p.inline(e) for e in (loop.lo, loop.hi, loop.step)]
    if bounds[0] != Const(0) or bounds[2] != Const(1) or not isinstance(bounds[1], Const):
        return 1
    form = linear(s.index[-1])
    if form.get(Var(loop.var)) != 1 or any(loop.var in names(c) for c in s.conds):
        return 1
    return max((w for w in (2, 4) if _fits(p, d, s, form, loop.var, w, int(bounds[1].value))), default=1)


def _fits(p: Program, d: Param, s: Site, form: dict[Expr, int], var: str, w: int, trips: int) -> bool:
    size = w * nbytes(d.dtype)
    others = all(n % w == 0 for x, n in form.items() if x != Var(var))
    outer = any(var in names(e) for e in s.index[:-1])
    last = p.inline((d.shape or ())[-1])
    q = p.kernel.find(last.name) if isinstance(last, Var) else None
    divides = last.value % w == 0 if isinstance(last, Const) else isinstance(q, Param) and q.multiple_of % w == 0
    return trips % w == 0 and size <= 16 and d.align % size == 0 and others and divides and not outer


# ----------------------------------------------------------------------------------------------------------- shared
@_quiet
def bank_conflicts(ctx: Context) -> Iterator[Fault]:
    """Shared accesses of a warp that need at least twice the passes."""
    p = ctx.program
    seen: set[tuple[str, str]] = set()
    for s in _shared(p, p.kernel.body, (), ()):
        if s.operand.tile or s.operand.dense:
            continue  # read and written by the hardware in its own order
        degree, bank = _degree(ctx.warp, s)
        if degree >= 2 and (s.pointer, str(s.operand.ref)) not in seen:
            seen.add((s.pointer, str(s.operand.ref)))
            b = p.kernel.find(s.operand.ref.buffer)
            name = b.name if b is not None else ""
            message = f"a warp's access to {s.operand.ref} has a {degree}-way bank conflict (bank {bank} of '{name}')"
            hint = "pad the rows (Padded), swizzle the layout, or give neighbouring lanes neighbouring words"
            yield Fault("AMK502", s.pointer, message, {"degree": degree, "bank": bank}, (), hint)


def _shared(
    p: Program, body: tuple[Statement, ...], conds: tuple[Expr, ...], loops: tuple[Any, ...]
) -> Iterator[Shared]:
    for s in body:
        if not p.matters(s):
            continue
        more = (*conds, p.inline(s.cond)) if s.kind == "if" else conds
        inside = (*loops, s) if s.kind == "for" else loops
        for o in p.operands(s):
            yield Shared(p.pointers[id(s)], o, more, inside)
        if s.kind == "team":
            for r in s.roles:
                yield from _shared(p, r.body, (*more, *role_conditions(p, r)), inside)
            continue
        for _, inner in children(s):
            yield from _shared(p, inner, more, inside)


def _degree(warp: Warp, s: Shared) -> tuple[int, int]:
    """Passes over the fewest possible, and the bank that needs them."""
    b = warp.p.kernel.find(s.operand.ref.buffer)
    assert isinstance(b, Buffer)
    size = s.operand.width * nbytes(b.dtype)
    try:
        starts = warp.lanes(warp.p.address_terms(s.operand)[0], s)[: s.operand.lanes]
    except Unsupported:
        return 1, 0
    group = 32 if size <= 4 else max(8, 128 // size)
    return max((_pass(tuple(starts[i : i + group]), size) for i in range(0, len(starts), group)), default=(1, 0))


def _pass(starts: tuple[int, ...], size: int) -> tuple[int, int]:
    """Distinct words on the worst bank of one pass: the same for addresses that all move by whole rows of banks."""
    base = min(starts) // 128 * 128
    return _worst(tuple(x - base for x in starts), size)


@lru_cache(maxsize=1 << 12)
def _worst(starts: tuple[int, ...], size: int) -> tuple[int, int]:
    banks = Counter(w % 32 for w in {w for x in starts for w in range(x // 4, (x + size - 1) // 4 + 1)})
    return max((n, bank) for bank, n in banks.items())


@_quiet
def unused_padding(ctx: Context) -> Iterator[Fault]:
    """Shared arrays whose rows are longer than any index reaches (padding belongs into the layout)."""
    p, tables = ctx.program, Tables(ctx.kernel.threads)
    reach: dict[str, int] = {}
    for s in _shared(p, p.kernel.body, (), ()):
        b = p.kernel.find(s.operand.ref.buffer)
        assert isinstance(b, Buffer)
        reach[b.name] = max(reach.get(b.name, 0), _last(p, tables, s))
    for name, n in reach.items():
        b = p.kernel.find(name)
        if isinstance(b, Buffer) and len(b.shape) > 1 and 0 < n < b.shape[-1]:
            message = f"'{name}' declares rows of {b.shape[-1]} elements, and no index goes beyond {n}"
            hint = f"declare rows of {n}, and the layout padded by {b.shape[-1] - n} if the pitch is meant"
            yield Fault("AMK506", ctx.kernel.pointer_of(name), message, {"declared": b.shape[-1], "used": n}, (), hint)


def _last(p: Program, tables: Tables, s: Shared) -> int:
    """One more than the largest last index, over all threads and the loops of constant trip count."""
    o, b = s.operand, p.kernel.find(s.operand.ref.buffer)
    if o.dense and isinstance(b, Buffer):
        return b.shape[-1]
    e = p.address_terms(o)[-1]
    ranges: list[range] = []
    variables = [x for x in s.loops if x.var in names(e)]
    for loop in variables:
        bounds = integers(*(p.inline(x) for x in (loop.lo, loop.hi, loop.step)))
        if bounds is None:
            raise Unsupported("a loop over a size")
        ranges.append(range(*bounds))
    used = [x.var for x in variables]
    tops = (max(tables.column(dict(zip(used, at, strict=True)), e)) for at in product(*ranges))
    return max((top + (o.tile[-1] if o.tile else o.width) for top in tops), default=0)


# ------------------------------------------------------------------------------------------------------------- warp
def first_values(p: Program, loops: tuple[Any, ...]) -> dict[str, Expr]:
    """First values of loop variables and carried values."""
    out: dict[str, Expr] = {}
    for loop in loops:
        if loop.var not in p.thread_loops:
            out[loop.var] = subst(p.inline(loop.lo), out)
        out[loop.var + "#"] = Const(0)
        out.update({c.name: subst(p.inline(c.init), out) for c in loop.carry})
    return out


class Warp:
    """The first warp that makes an access, in an interior block of a large problem, at the first iteration of loops."""

    def __init__(self, p: Program) -> None:
        self.p = p
        self.typical = {"bx": 1, "by": 1, "bz": 0, "rank": 0, "gx": 64, "gy": 64, "gz": 1}
        for q in p.kernel.scalars:
            if q.dtype not in ("f32", "f64", "f16", "bf16", "bool"):
                step = q.multiple_of
                self.typical[q.name] = min(max(-(-_LARGE // step) * step, q.min), q.max // step * step)
        self._all = Columns(p.threads, {"t": list(range(p.threads))})
        self._warps: dict[tuple[Expr, ...], int] = {}
        self._inside: dict[tuple[int, ...], tuple[Columns, frozenset[str]]] = {}

    def lanes(self, e: Expr, s: Site | Shared) -> list[int]:
        """The term's value for each active lane of the access; [] where it is not known."""
        columns, fixed = self._in(s.loops, self._first(s.conds))
        if not names(e) <= columns.variables.keys() or has_elements(e):
            return []
        own = [c for c in s.conds if names(c) <= fixed and not has_elements(c)]  # those on the thread alone
        found = columns.of(e)
        if not own:
            return found
        active = [all(x) for x in zip(*map(columns.of, own), strict=True)]
        return [x for x, on in zip(found, active, strict=True) if on]

    def _first(self, conds: tuple[Expr, ...]) -> int:
        """The first warp of which a thread meets the conditions on the thread alone."""
        own = tuple(c for c in conds if names(c) == {"t"} and not has_elements(c))
        if own not in self._warps:
            marks = [self._all.of(c) for c in own]
            chosen = next((t for t, x in enumerate(zip(*marks, strict=True)) if all(x)), 0) if own else 0
            self._warps[own] = chosen // 32
        return self._warps[own]

    def _in(self, loops: tuple[Any, ...], warp: int) -> tuple[Columns, frozenset[str]]:
        """Values of a warp inside these loops, and the names whose values no size or block decides."""
        key = (warp, *map(id, loops))
        if key not in self._inside:
            lanes = range(32 * warp, min(32 * warp + 32, self.p.threads))
            known: dict[str, Any] = {"t": list(lanes), **self.typical}
            columns = Columns(len(known["t"]), known)
            fixed = {"t"}
            for name, e in first_values(self.p, loops).items():
                if names(e) <= columns.variables.keys() and not has_elements(e):
                    columns.variables[name] = columns.value(e)
                    fixed |= {name} if names(e) <= fixed else set()
            self._inside[key] = columns, frozenset(fixed)
        return self._inside[key]
