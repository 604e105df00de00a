"""Every access to global memory, with the loops and the conditions around it, over sizes, blocks and threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from amk.dsl.expr import Apply, Const, Elem, Expr, apply, has_elements, names, subst
from amk.dsl.instructions import ROWS
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.nodes import Call, Param, Role, Statement, TensorMap
from amk.verify.address import width
from amk.verify.domain import GRID, rank_of

__all__ = ["Loop", "Site", "conjuncts", "sites"]


@dataclass(frozen=True)
class Loop:
    """A loop around an access: its variable and its bounds."""

    at: str
    var: str
    lo: Expr
    hi: Expr
    step: int


@dataclass(frozen=True)
class Site:
    """One access: read, write or update of `width` elements.

    `open`: it follows data, values that a loop carries, or a loop by steps of a size; `late`: it goes on after its
    statement, as a copy does.
    """

    at: str
    tensor: str
    index: tuple[Expr, ...]
    width: int
    mode: str
    loops: tuple[Loop, ...]
    conds: tuple[Expr, ...]
    open: bool
    late: bool = False


def conjuncts(e: Expr) -> tuple[Expr, ...]:
    """The conditions that `and` joins."""
    if isinstance(e, Apply) and e.op == "and":
        return (*conjuncts(e.args[0]), *conjuncts(e.args[1]))
    return () if isinstance(e, Const) and e.value is True else (e,)


def sites(kernel: KernelDescriptor) -> tuple[Site, ...]:
    """Every access to a tensor, in program order."""
    return tuple(_Reader(kernel).body(kernel.body, "/body", (), ()))


class _Reader:
    def __init__(self, kernel: KernelDescriptor) -> None:
        self.kernel = kernel
        self.names: dict[str, Expr] = {**dict(zip(GRID, kernel.grid3, strict=True)), "rank": rank_of(kernel)}
        self.carried: set[str] = set()
        for _, s in walk(kernel.body):
            if s.kind == "let" and s.value is not None:
                self.names[s.name] = subst(s.value, self.names)
            elif s.kind == "for":
                self.carried |= {c.name for c in s.carry}

    def body(
        self, body: tuple[Statement, ...], at: str, loops: tuple[Loop, ...], conds: tuple[Expr, ...]
    ) -> Iterator[Site]:
        for i, s in enumerate(body):
            here = f"{at}/{i}"
            if s.kind == "for":
                lo, hi, step = (subst(e, self.names) for e in (s.lo, s.hi, s.step))
                loop = Loop(here, s.var, lo, hi, int(step.value) if isinstance(step, Const) else 0)
                yield from self.body(s.body, f"{here}/body", (*loops, loop), conds)
            elif s.kind == "if":
                yield from self.body(s.body, f"{here}/body", loops, (*conds, *conjuncts(subst(s.cond, self.names))))
            elif s.kind == "team":
                for j, r in enumerate(s.roles):
                    yield from self.body(r.body, f"{here}/roles/{j}/body", loops, (*conds, *self.role(r)))
            else:
                yield from self.statement(s, here, loops, conds)

    def role(self, r: Role) -> tuple[Expr, ...]:
        """The conditions on a thread of a role."""
        first, end = (32 * w for w in r.warps)
        low = (apply(">=", "t", first),) if first else ()
        return (*low, apply("<", "t", end)) if end < self.kernel.threads else low

    def statement(self, s: Statement, at: str, loops: tuple[Loop, ...], conds: tuple[Expr, ...]) -> Iterator[Site]:
        for ref, n, mode, guard in self.operands(s):
            full = self.kernel.resolve(ref)
            index = tuple(subst(i, self.names) for i in full.index)
            every = (*conds, *(conjuncts(subst(guard, self.names)) if guard is not None else ()))
            terms = (*index, *every, *(e for x in loops for e in (x.lo, x.hi)))
            follows = any(has_elements(e) or names(e) & self.carried for e in terms) or any(x.step < 1 for x in loops)
            late = s.kind == "call" and ROWS[s.row].completes != "now"
            yield Site(at, full.buffer, index, n, mode, loops, every, follows, late)
        if s.kind == "call":
            yield from self.boxes(s, at, loops, conds)

    def boxes(self, s: Call, at: str, loops: tuple[Loop, ...], conds: tuple[Expr, ...]) -> Iterator[Site]:
        """Boxes of tensor maps, of which no more is followed than that they are there."""
        for o in ROWS[s.row].operands:
            m = self.kernel.find(s.refs[o.role].buffer) if o.box == o.role else None
            if isinstance(m, TensorMap):
                yield Site(at, m.tensor, (), 1, o.mode, loops, conds, True, True)

    def operands(self, s: Statement) -> Iterator[tuple[Elem, int, str, Expr | None]]:
        if s.kind == "load" and self.kernel.space(s.src) == "global":
            yield s.src, s.width, "read", s.when
        elif s.kind == "store" and self.kernel.space(s.dst) == "global":
            yield s.dst, len(s.values), "write", None
        elif s.kind == "atomic" and self.kernel.space(s.dst) == "global":
            yield s.dst, 1, "update", None
        elif s.kind == "call":
            row = ROWS[s.row]
            for o in row.operands:
                d = self.kernel.find(s.refs[o.role].buffer)
                if o.space == "global" and isinstance(d, Param):
                    guard = s.args.get(row.guard or "") if o.mode == "read" else None
                    yield s.refs[o.role], width(s, o, d.dtype), o.mode, guard
