"""Which register elements a statement reads and writes, as bits that follow the loop variables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

from amk.dsl.evaluate import function_of
from amk.dsl.expr import Const, Elem, Expr, Var, names, parts, subst
from amk.dsl.instructions import ROWS
from amk.dsl.kernel import KernelDescriptor, expressions
from amk.dsl.layout import row_major
from amk.dsl.nodes import Buffer, Call
from amk.harness.events import Program
from amk.harness.footprint import Form
from amk.harness.row_operands import elements

__all__ = ["Access", "Touched", "Uses", "destinations", "elements_in"]

_ROUNDS = 1024  # of constant loops, over which a term is tabulated


class Access(NamedTuple):
    """A register operand: the buffer's bits of its first element are a shift that follows the loop variables."""

    ref: Elem
    buffer: str
    first: int
    by: tuple[tuple[Expr, int], ...]  # terms and their factors
    bits: int  # one for each element of the operand
    indices: tuple[tuple[Form, int], ...]  # with their extents, where ranges alone do not keep them inside
    used: frozenset[str]
    known: bool  # whether the checker can know the index


class Touched(NamedTuple):
    """What is read, what is read only where a condition holds, and what is written."""

    reads: list[Access]
    guarded: list[tuple[Access, Expr]]
    writes: list[Access]


class Uses:
    """The register accesses of the statements of a program, each worked out once."""

    def __init__(self, program: Program) -> None:
        self.p = program
        self.shapes = {b.name: b.shape for b in program.kernel.buffers if b.space == "register"}
        self.holding = frozenset(n for n, x in program.lets.items() if elements_in(x))  # named values of registers
        self._touches: dict[int, Touched] = {}
        self._accesses: dict[tuple[Elem, int], Access | None] = {}
        self._tables: dict[Expr, dict[str, list[int]]] = {}

    # -- statements -------------------------------------------------------------------------------------------------
    def _touched(self, s: Any) -> Touched:
        """The register elements a statement reads and those it writes."""
        found = self._touches.get(id(s))
        if found is None:
            kernel = self.p.kernel
            written = [a for r, w in destinations(kernel, s) if (a := self._access(r, w)) is not None]
            read = [a for e in _values(kernel, s) for x in self._held(e) if (a := self._access(x, 1)) is not None]
            guarded = []
            for ref, n, cond in _sources(kernel, s):
                if (a := self._access(ref, n)) is None:
                    continue
                if cond == Const(True):
                    read.append(a)
                else:
                    guarded.append((a, self.p.inline(cond)))
            found = Touched(read, guarded, written)
            self._touches[id(s)] = found
        return found

    def _held(self, e: Expr) -> tuple[Elem, ...]:
        """The elements in a term, named values in place."""
        return elements_in(self.p.inline(e) if self.holding and names(e) & self.holding else e)

    def _access(self, ref: Elem, width: int) -> Access | None:
        """The operand as an access; None where it is no register."""
        key = ref, width
        if key not in self._accesses:
            r = self.p.kernel.resolve(ref)
            self._accesses[key] = self._made(ref, r, width) if r.buffer in self.shapes else None
        return self._accesses[key]

    def _made(self, ref: Elem, r: Elem, width: int) -> Access:
        shape = self.shapes[r.buffer]
        forms = [self.p.linear(e) for e in r.index]
        used = frozenset().union(*(names(x) for terms, _ in forms for x in terms))
        known = len(forms) == len(shape) and not any(elements_in(x) for terms, _ in forms for x in terms)
        by: dict[Expr, int] = {}
        first = 0
        for (terms, constant), stride in zip(forms, row_major(shape), strict=False):
            first += constant * stride
            for x, c in terms.items():
                by[x] = by.get(x, 0) + c * stride
        loose = tuple((f, n) for f, n in zip(forms, shape, strict=False) if not self._inside(f, n))
        return Access(ref, r.buffer, first, tuple(by.items()), (1 << width) - 1, loose, used, known)

    def _inside(self, form: Form, extent: int) -> bool:
        """Whether the ranges of constant loops keep an index inside."""
        lo = hi = form[1]
        for x, c in form[0].items():
            span = self._range(x)
            if span is None:
                return False
            ends = c * span[0], c * span[1]
            lo, hi = lo + min(ends), hi + max(ends)
        return lo >= 0 and hi < extent

    def _range(self, x: Expr) -> tuple[int, int] | None:
        if isinstance(x, Var):
            values = self.p.fixed.get(x.name)
            return (values[0], values[-1]) if values else None
        sizes = [len(self.p.fixed.get(n, ())) for n in names(x)]
        if not 0 < prod(sizes) <= _ROUNDS:
            return None
        found = self._over(x)[""]
        return min(found), max(found)

    def _mask(self, a: Access, env: Mapping[str, int]) -> int | None:
        """Bits of the elements an operand names; None where the checker does not know the index."""
        if not a.known or not a.used <= env.keys():
            return None
        for (terms, constant), extent in a.indices:
            if not 0 <= constant + sum(self.p.value(x, env) * c for x, c in terms.items()) < extent:
                return None
        shift: int = a.first + sum([self.p.value(x, env) * c for x, c in a.by])
        return a.bits << shift

    def _before(self, s: Any) -> list[Access]:
        """What a statement surely reads before its body: of a loop, all but what the carried values become."""
        if s.kind != "for" or not (s.carry or s.until is not None):
            return self._touched(s).reads
        return self._all((s.lo, s.hi, s.step, *(c.init for c in s.carry)))

    def _after(self, s: Any) -> list[Access]:
        """What a loop reads at the end of each round."""
        return self._all((*(c.next for c in s.carry), *(() if s.until is None else (s.until,))))

    def _all(self, terms: Iterable[Expr]) -> list[Access]:
        return [a for e in terms for x in self._held(e) if (a := self._access(x, 1)) is not None]

    def _over(self, e: Expr) -> dict[str, list[int]]:
        """The values of constant loops' variables in all rounds, and those of a term in them under the name ''."""
        found = self._tables.get(e)
        if found is None:
            used = sorted(names(e))
            rounds = list(product(*(self.p.fixed[n] for n in used)))
            plain = subst(e, {n: Var(f"v{i}") for i, n in enumerate(used)})  # the same for every copy of a nest
            f = function_of((plain,), tuple(f"v{i}" for i in range(len(used))))
            found = {n: [at[i] for at in rounds] for i, n in enumerate(used)} | {"": [f(*at)[0] for at in rounds]}
            self._tables[e] = found
        return found


def destinations(kernel: KernelDescriptor, s: Any) -> list[tuple[Elem, int]]:
    """The operands that a statement writes, with their elements."""
    if s.kind == "load":
        return [(s.dst, s.width)]
    if s.kind == "store":
        return [(s.dst, len(s.values))]
    if s.kind == "atomic" and s.old is not None:
        return [(s.old, 1)]
    if s.kind == "call" and s.row in ROWS:
        return [(ref, n) for ref, n, mode in _operands(kernel, s) if mode != "read"]
    return []


def _operands(kernel: KernelDescriptor, s: Call) -> Iterator[tuple[Elem, int, str]]:
    """The register operands of a call, with their elements and modes."""
    for o in ROWS[s.row].operands:
        d = kernel.find(s.refs[o.role].buffer) if o.role in s.refs else None
        if isinstance(d, Buffer) and d.space == "register":
            yield s.refs[o.role], elements(o, s, d.dtype), o.mode


def _sources(kernel: KernelDescriptor, s: Any) -> Iterator[tuple[Elem, int, Expr]]:
    """The register operands that a call reads, each with the condition under which it does."""
    if s.kind == "call" and s.row in ROWS:
        for ref, n, mode in _operands(kernel, s):
            if mode != "write":
                adds = s.args.get(ROWS[s.row].adds) if mode == "update" else None
                yield ref, n, Const(True) if adds is None else adds


def _values(kernel: KernelDescriptor, s: Any) -> Iterator[Expr]:
    """Every term a statement evaluates: operands of instructions, destinations and views give only their indices.

    A destination is told by its place: equal terms are one object, and `a[0]` may be a value of the same statement.
    """
    if s.kind == "call":
        yield from s.args.values()
        yield from (i for ref in s.refs.values() for i in ref.index)
        return
    for place, e in expressions(s):
        if isinstance(e, Elem) and place in ("/dst", "/old", "/view", "/flag"):
            yield from e.index
        else:
            yield e


@lru_cache(maxsize=1 << 14)
def elements_in(e: Expr) -> tuple[Elem, ...]:
    """The elements of buffers in a term, outermost first."""
    out: tuple[Elem, ...] = (e,) if isinstance(e, Elem) else ()
    for x in parts(e):
        if not isinstance(x, (Var, Const)):
            out += elements_in(x)
    return out
