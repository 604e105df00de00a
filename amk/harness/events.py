"""What statements touch: thread columns, footprints of shared accesses, and runs of statements between ordering points.

An index is evaluated once for each distinct value of its parts in `t` alone (*thread atoms*: an operand that depends
on `t // 16` costs 16 evaluations for 256 threads), and once for each value of its parts without `t` (so `kt % 3` gives
three evaluations, however long the loop). Threads are bits of an integer, and so are the cells of shared memory.
Source: `docs/soundness.md`, section on ordering; two-thread reduction as in GPUVerify (Betts et al., OOPSLA 2012).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd
from typing import Any

from amk.dsl.evaluate import function_of
from amk.dsl.expr import Apply, Const, Elem, Expr, Var, apply, names, parts, subst, subterms
from amk.dsl.instructions import ROWS
from amk.dsl.kernel import KernelDescriptor, expressions, walk
from amk.dsl.layout import Strided, Swizzle, offset
from amk.dsl.nodes import Buffer, For, Statement
from amk.dsl.types import nbytes

__all__ = ["Column", "Env", "Footprint", "Operand", "Program", "Unsupported", "bits", "maximal"]

Env = dict[str, Any]


class Unsupported(Exception):
    """A construct outside the fragment that the engine decides (reported as AMK008)."""

    def __init__(self, message: str, pointer: str = "") -> None:
        super().__init__(message)
        self.message, self.pointer = message, pointer


def bits(mask: int) -> Iterator[int]:
    """The positions of the set bits, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def maximal(e: Expr, banned: frozenset[str]) -> Iterator[Expr]:
    """The largest subterms that have variables and none of the banned ones."""
    used = names(e)
    if not used:
        return
    if not used & banned and not any(isinstance(x, Elem) for x in subterms(e)):
        yield e
        return
    for x in parts(e):
        yield from maximal(x, banned)


_T = frozenset(("t",))


class Column:
    """Expressions as functions of the thread: computed once for each distinct atom and each value of the rest."""

    def __init__(self, exprs: tuple[Expr, ...], threads: int) -> None:
        self.atoms: dict[Expr, Var] = {}
        self.uniform: dict[Expr, Var] = {}
        cut = tuple(map(self._cut, exprs))
        held = tuple(v.name for v in (*self.atoms.values(), *self.uniform.values()))
        self._at = function_of(cut, held)
        self.keys = tuple(self.uniform)
        self.classes = self._classes(threads)
        self._memo: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}

    def _cut(self, e: Expr) -> Expr:
        used = names(e)
        if used and "t" not in used:
            return self.uniform.setdefault(e, Var(f"u{len(self.uniform)}"))
        if used == _T and not isinstance(e, Elem):
            return self.atoms.setdefault(e, Var(f"a{len(self.atoms)}"))
        return Apply(e.op, tuple(map(self._cut, e.args))) if isinstance(e, Apply) else e

    def _classes(self, threads: int) -> list[tuple[tuple[Any, ...], int]]:
        if not self.atoms:
            return [((), (1 << threads) - 1)]
        return list(_atom_classes(tuple(self.atoms), threads).items())

    def at(self, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """The value tuple of each class of threads, for values of the thread-free parts `keys`."""
        found = self._memo.get(values)
        if found is None:
            found = self._memo[values] = [self._at(*atoms, *values) for atoms, _ in self.classes]
        return found


@lru_cache(maxsize=4096)
def _atom_classes(atoms: tuple[Expr, ...], threads: int) -> dict[tuple[Any, ...], int]:
    f = function_of(atoms, ("t",))
    out: dict[tuple[Any, ...], int] = {}
    for t in range(threads):
        key = f(t)
        out[key] = out.get(key, 0) | 1 << t
    return out


@dataclass(slots=True)
class Footprint:
    """The cells one statement touches at one point of the schedule, with the threads that touch them."""

    mode: str  # r, w, a (atomic) or c (asynchronous copy)
    pointer: str
    text: str
    run: int  # cells of one thread
    cells: list[tuple[int, int]]  # first cell, threads
    env: Mapping[str, int]
    must: bool = True
    mask: int = 0
    _owners: dict[int, int] = field(default_factory=dict)

    def owners(self) -> dict[int, int]:
        """Threads of each cell, built only when masks collide."""
        if not self._owners:
            for cell, threads in self.cells:
                for c in range(cell, cell + self.run):
                    self._owners[c] = self._owners.get(c, 0) | threads
        return self._owners


@dataclass(frozen=True, slots=True)
class Operand:
    """One shared operand of a statement."""

    ref: Elem
    mode: str
    width: int  # elements


class Program:
    """A kernel prepared for evaluation: Lets inlined, shared operands listed, expressions compiled."""

    def __init__(self, kernel: KernelDescriptor) -> None:
        self.kernel, self.threads = kernel, kernel.threads
        self.everyone = (1 << kernel.threads) - 1
        self.lets: dict[str, Expr] = {}
        self.pointers: dict[int, str] = {}
        self.thread_loops: dict[str, Expr] = {}  # by loop variable: the condition that a thread takes part in a round
        self.fixed: dict[str, range] = {}  # by loop variable: its values, where constants bound it
        for pointer, s in walk(kernel.body):
            self.pointers[id(s)] = pointer
            if s.kind == "let" and s.value is not None:
                self.lets[s.name] = subst(s.value, self.lets)
            elif s.kind == "for":
                self._bounds(s)
        self.rounds: dict[int, int] = {}  # by loop: the most iterations walked
        self._why: dict[Expr, str] = {}
        self._inlined: dict[Expr, Expr] = {}
        self._columns: dict[tuple[Expr, ...], Column] = {}
        self._functions: dict[Expr, tuple[Callable[..., tuple[Any, ...]], tuple[str, ...]]] = {}
        self._matters: dict[int, bool] = {}
        self._operands: dict[int, tuple[Operand, ...]] = {}
        self._addresses: dict[int, Column] = {}
        self.tainted: frozenset[str] = self._taint()
        self.cell = self._cell()

    def _bounds(self, s: For) -> None:
        """Constant bounds give the values; bounds that depend on the thread, the Let `lo + round * step`."""
        lo, hi, step = (subst(e, self.lets) for e in (s.lo, s.hi, s.step))
        if isinstance(lo, Const) and isinstance(hi, Const) and isinstance(step, Const) and int(step.value) > 0:
            self.fixed[s.var] = range(int(lo.value), int(hi.value), int(step.value))
        if "t" in names(lo) | names(hi):
            if "t" in names(step):
                raise Unsupported(f"a loop whose step {s.step} depends on the thread", self.pointers[id(s)])
            self.lets[s.var] = lo + Var(s.var + "#") * step
            self.thread_loops[s.var] = apply("<", self.lets[s.var], hi)

    # -- expressions ------------------------------------------------------------------------------------------------
    def inline(self, e: Expr) -> Expr:
        """The term with every Let replaced by its value."""
        found = self._inlined.get(e)
        if found is None:
            found = self._inlined[e] = subst(e, self.lets)
        return found

    def data(self, e: Expr) -> str:
        """Why the value is not known to the checker: the loaded or carried value it depends on, or ''."""
        found = self._why.get(e)
        if found is None:
            x = self.inline(e)
            held = next((str(s) for s in subterms(x) if isinstance(s, Elem)), "")
            found = self._why[e] = held or next(iter(sorted(names(x) & self.tainted)), "")
        return found

    def value(self, e: Expr, env: Mapping[str, Any]) -> Any:
        """The value of a thread-free expression."""
        f = self._functions.get(e)
        if f is None:
            x = self.inline(e)
            used = tuple(sorted(names(x)))
            f = self._functions[e] = (function_of((x,), used), used)
        return f[0](*[env[n] for n in f[1]])[0]

    def thread_dependent(self, e: Expr) -> bool:
        """Whether the value may differ between threads."""
        return "t" in names(self.inline(e))

    def column(self, e: Expr) -> Column:
        """The expression as a function of the thread."""
        found = self._columns.get((e,))
        if found is None:
            found = self._columns[(e,)] = Column((self.inline(e),), self.threads)
        return found

    def chosen(self, cond: Expr, active: int, env: Mapping[str, Any]) -> int:
        """The active threads for which a condition holds."""
        if not self.thread_dependent(cond):
            return active if self.value(cond, env) else 0
        c = self.column(cond)
        values = c.at(tuple(self.value(k, env) for k in c.keys))
        out = 0
        for (held,), (_, threads) in zip(values, c.classes, strict=True):
            if held:
                out |= threads
        return out & active

    def _taint(self) -> frozenset[str]:
        """Carried values and loop variables that differ between threads in an unknown way, or depend on data."""
        tainted: set[str] = set()
        while True:
            before = len(tainted)
            for _, s in walk(self.kernel.body):
                if s.kind == "for":
                    tainted |= {c.name for c in s.carry if self._loose(c.init, tainted) or self._loose(c.next, tainted)}
                    if any(self._unknown(e, tainted) for e in (s.lo, s.hi, s.step)):
                        tainted.add(s.var)
            if len(tainted) == before:
                return frozenset(tainted)

    def _unknown(self, e: Expr, tainted: set[str]) -> bool:
        x = self.inline(e)
        return bool(names(x) & tainted) or any(isinstance(s, Elem) for s in subterms(x))

    def _loose(self, e: Expr, tainted: set[str]) -> bool:
        return self._unknown(e, tainted) or self.thread_dependent(e)

    # -- shared memory ----------------------------------------------------------------------------------------------
    def _cell(self) -> int:
        """Bytes of one cell: every shared access starts and ends on a multiple of it."""
        out = 16
        for b in self.kernel.buffers:
            if b.space == "shared":
                out = gcd(out, nbytes(b.dtype), self.kernel.shared_offsets[b.name])
        return out

    def operands(self, s: Statement) -> tuple[Operand, ...]:
        """The shared operands of a statement itself."""
        found = self._operands.get(id(s))
        if found is None:
            kept = (o for o in _operands(self.kernel, s) if self.kernel.space(o.ref) == "shared")
            found = self._operands[id(s)] = tuple(kept)
        return found

    def matters(self, s: Statement) -> bool:
        """Whether ordering depends on the statement: it touches shared memory, synchronises or needs whole warps."""
        found = self._matters.get(id(s))
        if found is None:
            found = self._matters[id(s)] = any(self._matters_itself(x) for _, x in walk((s,)))
        return found

    def _matters_itself(self, s: Statement) -> bool:
        if s.kind in ("sync", "commit", "wait", "arrive", "fence", "team"):
            return True
        if s.kind == "call":
            row = ROWS.get(s.row)
            return row is None or row.issuer != "thread" or row.completes != "now" or bool(self.operands(s))
        return bool(self.operands(s))

    def address(self, o: Operand) -> Column:
        """Cell and index tuple of a shared operand, as a function of the thread."""
        key = id(o)
        found = self._addresses.get(key)
        if found is None:
            found = self._addresses[key] = Column(self.address_terms(o), self.threads)
        return found

    def address_terms(self, o: Operand) -> tuple[Expr, ...]:
        """The byte address of an operand and its indices, as terms."""
        ref = self.kernel.resolve(o.ref)
        b = self.kernel.declarations[ref.buffer]
        assert isinstance(b, Buffer)
        index = tuple(map(self.inline, ref.index))
        if len(index) != len(b.shape):
            raise Unsupported(f"{o.ref} has {len(index)} indices for {len(b.shape)} dimensions")
        _contiguous(b, o)
        at = offset(b.shape, b.layout, index) * nbytes(b.dtype) + self.kernel.shared_offsets[b.name]
        return (at, *index)

    def owner(self, cell: int) -> str:
        """The shared buffer that holds a cell."""
        byte, best = cell * self.cell, ""
        for b in self.kernel.buffers:
            if b.space == "shared" and self.kernel.shared_offsets[b.name] <= byte:
                best = b.name
        return best


def _contiguous(b: Buffer, o: Operand) -> None:
    """A vector access moves neighbouring bytes, so its elements must be neighbours in the layout."""
    if o.width == 1:
        return
    if isinstance(b.layout, Swizzle) and (1 << b.layout.base) % o.width:
        raise Unsupported(f"{o.ref} moves {o.width} elements, but the swizzle of {b.name!r} keeps "
                          f"only {1 << b.layout.base} together")  # fmt: skip
    if isinstance(b.layout, Strided) and b.layout.strides[-1] != 1:
        raise Unsupported(f"{o.ref} moves {o.width} elements that the layout of {b.name!r} does not keep together")


def _operands(kernel: KernelDescriptor, s: Statement) -> Iterator[Operand]:
    if s.kind == "load":
        yield Operand(s.src, "r", s.width)
        yield Operand(s.dst, "w", s.width)
    elif s.kind == "store":
        yield Operand(s.dst, "w", len(s.values))
    elif s.kind == "atomic":
        yield Operand(s.dst, "a", 1)
    elif s.kind == "call" and s.row in ROWS:
        yield from _row_operands(kernel, s)


def _row_operands(kernel: KernelDescriptor, s: Any) -> Iterator[Operand]:
    row = ROWS[s.row]
    for o in row.operands:
        ref = s.refs.get(o.role)
        if ref is None:
            continue
        d = kernel.find(ref.buffer)
        size = nbytes(d.dtype) if isinstance(d, Buffer) or (d is not None and d.kind == "param") else 1
        mode = "r" if o.mode == "read" else "c" if row.completes == "cp_async" else "w"
        yield Operand(ref, mode, max(1, o.nbytes // size))


def free_terms(p: Program, statements: tuple[Statement, ...]) -> tuple[Expr, ...]:
    """The thread-free terms that decide what a run of statements touches: the key under which it is remembered."""
    inner, wanted = {"t"}, []
    for _, s in (x for top in statements for x in walk((top,))):
        if s.kind == "for":
            inner |= {s.var, s.var + "#", *(c.name for c in s.carry)}
        if s.kind in ("for", "if") and p.matters(s):
            wanted += [p.inline(e) for _, e in expressions(s)]
        for o in p.operands(s):
            wanted += p.address_terms(o)
    banned = frozenset(inner)
    return tuple(dict.fromkeys(m for e in wanted for m in maximal(e, banned) if not names(m) & p.tainted))
