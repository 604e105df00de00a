"""Every access of a kernel of fixed sizes, counted: instructions of warps, passes through shared memory, sectors.

In: a kernel and the values of its sizes. Out: a `Traffic` for each statement and operand that touches memory (atomics
aside). All blocks, warps and iterations are gone through, so this is exact and meant for small kernels: the advice
looks at one warp, and this says what ncu should count of a launch. Bases of tensors are taken as aligned to a sector.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

from amk.dsl.expr import Elem, Expr, has_elements
from amk.dsl.instructions import ROWS
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import linear, offset
from amk.dsl.nodes import Buffer, For, Param, Statement
from amk.dsl.traffic import RULE, BankRule, Lanes, passes, sectors
from amk.dsl.types import nbytes
from amk.harness.columns import Columns
from amk.harness.events import Program, Unsupported

__all__ = ["Traffic", "totals", "traffic"]

MOST, WARP = 1 << 16, 32  # warp instructions that are counted at most; lanes
MATRICES = BankRule(pairs=False)
Values = dict[str, Any]


class Traffic(NamedTuple):
    """What one operand of a statement does in a whole launch.

    kind:     "shared_ld", "shared_st", "global_ld", "global_st"; "copy" in place of "ld" and "st" for cp.async, and
              "matrix_ld", "matrix_st" for ldmatrix and stmatrix
    width:    bytes of a lane        requests: instructions of warps with a lane that takes part
    passes:   of shared memory, `least` without conflicts        sectors:  of global memory, `least` when packed
    """

    pointer: str
    kind: str
    width: int
    requests: int
    passes: int
    sectors: int
    least: int


def totals(found: list[Traffic]) -> dict[str, dict[str, int]]:
    """Sums by kind."""
    out: dict[str, dict[str, int]] = {}
    for x in found:
        mine = out.setdefault(x.kind, {"requests": 0, "passes": 0, "sectors": 0})
        for name in mine:
            mine[name] += getattr(x, name)
    return out


def traffic(kernel: KernelDescriptor, sizes: Mapping[str, int] | None = None, rule: BankRule = RULE) -> list[Traffic]:
    """Everything that the launch of a kernel touches, statement by statement.

    Raises:  Unsupported for what depends on data, and for more than MOST instructions of warps
    """
    p, made = Program(kernel), dict[tuple[str, str, int], list[int]]()
    fixed = dict(sizes or {})
    grid = Columns(1, fixed)
    bounds = [grid.of(e)[0] for e in kernel.grid3]
    for bx, by, bz in product(*map(range, bounds)):
        where = {"bx": bx, "by": by, "bz": bz, "gx": bounds[0], "gy": bounds[1], "gz": bounds[2], "rank": 0}
        _Block(p, made, rule).body(kernel.body, {**fixed, **where}, [True] * kernel.threads)
    return [Traffic(*key, *counts) for key, counts in made.items()]


class _Touched(NamedTuple):
    """An operand in memory: what it is counted as, bytes of a lane, when it is touched, and by how many lanes."""

    ref: Elem
    kind: str
    width: int
    when: Expr | None = None
    lanes: int = WARP


class _Block:
    """One block on its way through the statements; `made` counts requests, passes, sectors and the least of each."""

    def __init__(self, p: Program, made: dict[tuple[str, str, int], list[int]], rule: BankRule) -> None:
        self.p, self.made, self.rule = p, made, rule
        self.threads = list(range(p.threads))

    def body(self, statements: tuple[Statement, ...], values: Values, active: list[bool]) -> None:
        columns = Columns(len(self.threads), {"t": self.threads, **values})
        for s in statements:
            if s.kind == "if":
                self.body(s.body, values, self._both(columns, s.cond, active))
            elif s.kind == "for":
                self._loop(s, columns, values, active)
            elif s.kind == "team":
                raise Unsupported("roles are not counted", self.p.pointers[id(s)])
            else:
                for x in _operands(self.p.kernel, s):
                    mine = [on and t % WARP < x.lanes for t, on in zip(self.threads, active, strict=True)]
                    self._touch(s, columns, x, self._both(columns, x.when, mine))

    def _loop(self, s: For, columns: Columns, values: Values, active: list[bool]) -> None:
        lo, hi, step = (self._uniform(columns, e) for e in (s.lo, s.hi, s.step))
        now = {c.name: self._column(columns, c.init) for c in s.carry if not has_elements(c.init)}
        for i in range(lo, hi, step):
            inside = {**values, **now, s.var: i}
            self.body(s.body, inside, active)
            after = Columns(len(self.threads), {"t": self.threads, **inside})
            now = {c.name: self._column(after, c.next) for c in s.carry if not has_elements(c.next)}

    def _touch(self, s: Statement, columns: Columns, x: _Touched, active: list[bool]) -> None:
        kind, width, at = x.kind, x.width, self._column(columns, _address(self.p, x.ref))
        counts = self.made.setdefault((self.p.pointers[id(s)], kind, width), [0, 0, 0, 0])
        for first in range(0, len(at), WARP):
            lanes: Lanes = [a if on else None for a, on in zip(at[first : first + WARP], active[first:], strict=False)]
            if all(a is None for a in lanes):
                continue
            if not kind.startswith("global"):
                # rows of a matrix go to other lanes than those that name them, so nothing is shared between neighbours
                rule = MATRICES if kind.startswith("matrix") else self.rule
                found = passes(lanes, width, rule, store=kind.endswith("_st"))
                new = (1, found.passes, 0, found.least)
            else:
                moved = sectors(lanes, width)
                new = (1, 0, moved.moved, moved.least)
            counts[:] = [a + b for a, b in zip(counts, new, strict=True)]
            if counts[0] > MOST:
                raise Unsupported(f"more than {MOST:,} instructions of warps", self.p.pointers[id(s)])

    def _both(self, columns: Columns, cond: Expr | None, active: list[bool]) -> list[bool]:
        """The threads that also pass a condition."""
        if cond is None:
            return active
        return [bool(a and b) for a, b in zip(active, self._column(columns, cond), strict=True)]

    def _uniform(self, columns: Columns, e: Expr) -> int:
        found = set(self._column(columns, e))
        if len(found) != 1:
            raise Unsupported(f"a loop bound {e} that differs between threads")
        return found.pop()

    def _column(self, columns: Columns, e: Expr) -> list[int]:
        try:
            return columns.of(self.p.inline(e))
        except (ValueError, KeyError) as fault:
            raise Unsupported(f"{e} is not known: {fault}") from None


def _address(p: Program, ref: Elem) -> Expr:
    """Byte address of an element from the start of its tensor, or of the block's shared memory."""
    x = p.kernel.resolve(ref)
    d = p.kernel.declarations[x.buffer]
    if isinstance(d, Buffer):
        return offset(d.shape, d.layout, x.index) * nbytes(d.dtype) + p.kernel.shared_offsets[d.name]
    assert isinstance(d, Param)
    return linear(x.index, p.kernel.strides_of(d)) * nbytes(d.dtype)


def _operands(kernel: KernelDescriptor, s: Statement) -> Iterator[_Touched]:
    """Each operand in memory."""
    if s.kind == "load" and kernel.space(s.src) != "register":
        yield _Touched(s.src, f"{kernel.space(s.src)}_ld", s.width * _size(kernel, s.src), s.when)
    elif s.kind == "store" and kernel.space(s.dst) != "register":
        yield _Touched(s.dst, f"{kernel.space(s.dst)}_st", len(s.values) * _size(kernel, s.dst))
    elif s.kind == "call" and s.row in ROWS:
        row = ROWS[s.row]
        for o in row.operands:
            if o.space in ("global", "shared"):
                if o.tile or o.box or o.counted:
                    raise Unsupported(f"{s.row} moves whole tiles, which are not counted")
                kind = {"ldmatrix": "matrix_ld", "stmatrix": "matrix_st"}.get(row.family, f"{o.space}_copy")
                guard = s.args.get(row.guard or "") if o.mode == "read" else None
                yield _Touched(s.refs[o.role], kind, o.nbytes, guard, o.lanes)


def _size(kernel: KernelDescriptor, x: Elem) -> int:
    d = kernel.find(x.buffer)
    assert isinstance(d, (Buffer, Param))
    return nbytes(d.dtype)
