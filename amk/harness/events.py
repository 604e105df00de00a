"""A kernel prepared for the ordering check: named values put in place, shared operands, what stands for data.

In: a KernelDescriptor. Out: a Program, which answers what a statement touches and which threads pass a condition, each
question once for each value of what it depends on. Unsupported is raised for what lies outside the fragment.
Source: `docs/soundness.md`, section on ordering; two-thread reduction as in GPUVerify (Betts et al., OOPSLA 2012).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from math import gcd
from operator import itemgetter
from typing import Any

from amk.dsl.evaluate import function_of
from amk.dsl.expr import Apply, Const, Elem, Expr, Var, apply, names, subst, subterms
from amk.dsl.instructions import ROWS
from amk.dsl.kernel import KernelDescriptor, expressions, walk
from amk.dsl.layout import Swizzle, offset, strides
from amk.dsl.nodes import Buffer, For, Statement
from amk.dsl.types import nbytes
from amk.harness.by_cluster import by_cluster
from amk.harness.faults import TooCoarse, Unsupported
from amk.harness.footprint import Address, Form, Operand, added
from amk.harness.masks import Column, bits, maximal
from amk.harness.shared_use import LATER, contiguous, one_group, orders, owned_registers, shared_operands

__all__ = [
    "BLOCKS", "GRID", "Env", "Operand", "Program", "TooCoarse", "Unsupported", "Values", "bits", "free_terms", "orders",
]  # fmt: skip

Env = dict[str, Any]
Values = Callable[[Mapping[str, Any]], tuple[Any, ...]]
BLOCKS, GRID = ("bx", "by", "bz"), ("gx", "gy", "gz")
_THREAD = frozenset(("t",))


class Program:
    """A kernel prepared for evaluation: Lets inlined, shared operands listed, expressions compiled."""

    def __init__(self, kernel: KernelDescriptor, *, fine: bool = False) -> None:
        kernel = by_cluster(kernel)
        self.kernel, self.threads = kernel, kernel.threads
        self.everyone = (1 << kernel.threads) - 1
        self.lets: dict[str, Expr] = {}
        self.pointers: dict[int, str] = {}
        self.thread_loops: dict[str, Expr] = {}  # by loop variable: the condition that a thread takes part in a round
        self.fixed = {"rank": range(kernel.cluster)}  # by variable: its values, where they are constant
        self.statements = list(walk(kernel.body))  # with their pointers, in program order
        for pointer, s in self.statements:
            self.pointers[id(s)] = pointer
            if s.kind == "let" and s.value is not None:
                self.lets[s.name] = subst(s.value, self.lets)
            elif s.kind == "for":
                self._bounds(s)
        self.rounds: dict[int, int] = {}  # by loop: the most iterations walked
        self._why: dict[Expr, str] = {}
        self._inlined: dict[Expr, Expr] = {}
        self._forms: dict[Expr, Form] = {}
        self._columns: dict[Any, Column] = {}
        self._pitches: dict[str, list[int]] = {}  # by shared buffer: bytes between neighbours of each dimension
        self._functions: dict[Expr, tuple[Callable[..., tuple[Any, ...]], tuple[str, ...]]] = {}
        self._matters: dict[int, bool] = {}
        self._stretches: dict[int, list[tuple[bool, tuple[Statement, ...]]]] = {}
        self._operands: dict[int, tuple[Operand, ...]] = {}
        self._addresses: dict[int, Address] = {}
        self.plans: dict[Any, Any] = {}  # what the walk has made of a statement for its next visit
        self._conditions: dict[Expr, tuple[Values, dict[tuple[Any, ...], int]]] = {}
        self.peaceful: dict[tuple[Any, ...], Any] = {}  # pairs of runs that were found not to conflict, with the runs
        self._touches: dict[int, frozenset[str]] = {}
        self._masks: dict[tuple[Any, ...], int] = {}
        self.owned = frozenset(owned_registers(kernel, self.statements))  # by instructions, while in flight
        self.tainted: frozenset[str] = self._taint()
        self._doubtful = self.tainted.union(n for n, x in self.lets.items() if self._unknown(x, self.tainted))
        self.cell = self._cell(fine)

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
            if not (names(e) & self._doubtful or any(isinstance(s, Elem) for s in subterms(e))):
                self._why[e] = ""
                return ""
            x = self.inline(e)
            held = next((str(s) for s in subterms(x) if isinstance(s, Elem)), "")
            found = self._why[e] = held or next(iter(sorted(names(x) & self.tainted)), "")
        return found

    def value(self, e: Expr, env: Mapping[str, Any]) -> Any:
        """The value of a thread-free expression."""
        f = self._functions.get(e)
        if f is None:
            if isinstance(e, Const):
                return e.value
            if isinstance(e, Var) and e.name not in self.lets:
                return env[e.name]
            x = self.inline(e)
            used = tuple(sorted(names(x)))
            f = self._functions[e] = (function_of((x,), used), used)
        return f[0](*[env[n] for n in f[1]])[0]

    def values(self, terms: tuple[Expr, ...]) -> Values:
        """The values of thread-free terms, as a function of the environment."""
        placed = tuple(map(self.inline, terms))
        used = tuple(sorted(frozenset().union(*map(names, placed))))
        if len(placed) > 1 and all(isinstance(e, Var) for e in placed):
            return itemgetter(*[str(e) for e in placed])
        f = function_of(placed, used)
        return lambda env: f(*[env[n] for n in used])

    def thread_dependent(self, e: Expr) -> bool:
        """Whether the value may differ between threads."""
        return "t" in names(self.inline(e))

    def column(self, e: Expr) -> Column:
        """The expression as a function of the thread."""
        return self.columns((e,))

    def columns(self, terms: tuple[Expr, ...]) -> Column:
        """Terms as functions of the thread."""
        found = self._columns.get(terms)
        if found is None:
            found = self._columns[terms] = Column(tuple(map(self.inline, terms)), self.threads)
        return found

    @property
    def asynchronous(self) -> bool:
        """Whether anything goes through the asynchronous proxy."""
        rows = (ROWS[s.row] for _, s in self.statements if s.kind == "call" and s.row in ROWS)
        return any(r.completes in LATER for r in rows)

    def chosen(self, cond: Expr, active: int, env: Mapping[str, Any]) -> int:
        """The active threads for which a condition holds."""
        plan = self._conditions.get(cond)
        if plan is None:
            terms = tuple(dict.fromkeys(maximal(self.inline(cond), _THREAD)))
            plan = self._conditions[cond] = self.values(terms), {}
        try:
            key = plan[0](env)
        except (ValueError, ZeroDivisionError, OverflowError):
            return self._chosen(self.inline(cond), active, env)
        found = plan[1].get(key)
        if found is None:
            found = plan[1][key] = self._chosen(self.inline(cond), self.everyone, env)
        return found & active

    def _chosen(self, e: Expr, active: int, env: Mapping[str, Any]) -> int:
        try:
            return self._passing(e, env) & active
        except (ValueError, ZeroDivisionError, OverflowError):  # the right side may have a value only where it counts
            return self._mask(e, env) & active

    def _passing(self, e: Expr, env: Mapping[str, Any]) -> int:
        """The threads that pass: those that pass both or one of two conditions, each asked for itself."""
        if isinstance(e, Apply) and e.op in ("and", "or"):
            left, right = self._passing(e.args[0], env), self._passing(e.args[1], env)
            return left & right if e.op == "and" else left | right
        return self._mask(e, env)

    def _mask(self, e: Expr, env: Mapping[str, Any]) -> int:
        if "t" not in names(e):
            return self.everyone if self.value(e, env) else 0
        c = self.column(e)
        key = (e, *[self.value(k, env) for k in c.keys])
        found = self._masks.get(key)
        if found is None:
            found = 0
            for (held,), (_, threads) in zip(c.at(key[1:]), c.classes, strict=True):
                if held:
                    found |= threads
            self._masks[key] = found
        return found

    def _taint(self) -> frozenset[str]:
        """Carried values and loop variables that differ between threads in an unknown way, or depend on data."""
        tainted: set[str] = set()
        while True:
            before = len(tainted)
            for _, s in self.statements:
                if s.kind == "for":
                    loose = (
                        s.until is not None or self._loose(c.init, tainted) or self._loose(c.next, tainted)
                        for c in s.carry
                    )
                    tainted |= {c.name for c, yes in zip(s.carry, loose, strict=True) if yes}
                    if any(self._unknown(e, tainted) for e in (s.lo, s.hi, s.step)):
                        tainted.add(s.var)
            if len(tainted) == before:
                return frozenset(tainted)

    def _unknown(self, e: Expr, tainted: Set[str]) -> bool:
        x = self.inline(e)
        return bool(names(x) & tainted) or any(isinstance(s, Elem) for s in subterms(x))

    def _loose(self, e: Expr, tainted: Set[str]) -> bool:
        return self._unknown(e, tainted) or self.thread_dependent(e)

    # -- shared memory ----------------------------------------------------------------------------------------------
    def _cell(self, fine: bool) -> int:
        """Bytes of one cell: every shared access starts and ends on a multiple of it.

        Taken from how much each access moves; one that starts elsewhere shows in the walk (`TooCoarse`), which is then
        repeated with cells of single elements (`fine`).
        """
        out = 16
        for b in self.kernel.buffers:
            if b.space == "shared":
                out = gcd(out, nbytes(b.dtype) if fine else 16, self.kernel.shared_offsets[b.name])
        for _, s in self.statements if not fine else ():
            for o in self.operands(s):
                d = self.kernel.find(o.ref.buffer)
                size = nbytes(d.dtype) if isinstance(d, Buffer) else 1
                run = size << d.layout.base if isinstance(d, Buffer) and isinstance(d.layout, Swizzle) else 16
                out = gcd(out, o.dense) if o.dense else gcd(out, run, size * (o.tile[-1] if o.tile else o.width))
        return out

    def operands(self, s: Statement) -> tuple[Operand, ...]:
        """The shared operands of a statement itself."""
        found = self._operands.get(id(s))
        if found is None:
            kept = (o for o in shared_operands(self.kernel, s) if self.kernel.space(o.ref) == "shared")
            found = self._operands[id(s)] = tuple(o._replace(anywhere=self._anywhere(o)) for o in kept)
        return found

    def _anywhere(self, o: Operand) -> bool:
        """Whether data decide where in its array a load or an atomic update goes: then each element may be the one.

        A store stays outside: all threads could meet in one element, which is a race.
        """
        plain = o.mode in "ra" and not (o.tile or o.dense)
        return plain and any(map(self.data, self.kernel.resolve(o.ref).index))

    def stretches(self, body: tuple[Statement, ...]) -> list[tuple[bool, tuple[Statement, ...]]]:
        """What matters of a body: each statement with an ordering point for itself, and what stands between.

        Neighbouring wgmma on the same registers are one, and so are copies that complete on one mbarrier: no wait can
        tell them apart.
        """
        found = self._stretches.get(id(body))
        if found is None:
            found = self._stretches[id(body)] = []
            for s in filter(self.matters, body):
                ordered = any(orders(x) for _, x in walk((s,)))
                if ordered and found and one_group(found[-1][1][-1], s):
                    found[-1] = (True, (*found[-1][1], s))
                elif ordered or not found or found[-1][0]:
                    found.append((ordered, (s,)))
                else:
                    found[-1] = (False, (*found[-1][1], s))
        return found

    def matters(self, s: Statement) -> bool:
        """Whether ordering depends on the statement: it touches shared memory, synchronises or needs whole warps."""
        found = self._matters.get(id(s))
        if found is None:
            found = self._matters[id(s)] = any(self._matters_itself(x) for _, x in walk((s,)))
        return found

    def _matters_itself(self, s: Statement) -> bool:
        if orders(s) or self.touches(s):
            return True
        if s.kind == "call":
            row = ROWS.get(s.row)
            return row is None or row.issuer != "thread" or row.completes != "now" or bool(self.operands(s))
        return bool(self.operands(s))

    def touches(self, s: Statement) -> frozenset[str]:
        """The arrays of `owned` that a statement itself touches."""
        if not self.owned:
            return frozenset()
        found = self._touches.get(id(s))
        if found is None:
            names_ = {x.buffer for _, e in expressions(s) for x in (e, *subterms(e)) if isinstance(x, Elem)}
            found = self._touches[id(s)] = self.owned & {self._array(n) for n in names_}
        return found

    def _array(self, name: str) -> str:
        d = self.kernel.find(name)
        return d.name if d is not None else name

    def linear(self, e: Expr) -> Form:
        """The term as a sum of multiples of terms that are not sums, named values in place."""
        found = self._forms.get(e)
        if found is None:
            found = self._forms[e] = self._linear(e)
        return found

    def _linear(self, e: Expr) -> Form:
        if isinstance(e, Const) and type(e.value) is int:
            return {}, e.value
        if isinstance(e, Apply):
            if e.op in ("+", "-"):
                return added(self.linear(e.args[0]), self.linear(e.args[1]), 1 if e.op == "+" else -1)
            if e.op == "neg":
                return added(({}, 0), self.linear(e.args[0]), -1)
            if e.op == "*":
                for x, y in (e.args, e.args[::-1]):
                    if isinstance(y, Const) and type(y.value) is int:
                        return added(({}, 0), self.linear(x), y.value)
        placed = self.inline(e)
        return ({e: 1}, 0) if placed is e or placed == e else self.linear(placed)

    def address(self, o: Operand) -> Address:
        """Byte address and index tuple of a shared operand, as a function of the thread. Raises Unsupported."""
        found = self._addresses.get(id(o))
        if found is None:
            b, index = self._placed(o)
            forms = list(map(self.linear, index))
            found = self._addresses[id(o)] = Address((self._byte(b, index, forms), *forms), self._columns, self.threads)
        return found

    def _byte(self, b: Buffer, index: tuple[Expr, ...], forms: list[Form]) -> Form:
        if isinstance(b.layout, Swizzle):
            flat = self.linear(offset(b.shape, b.layout, index))
            return added(({}, self.kernel.shared_offsets[b.name]), flat, nbytes(b.dtype))
        pitch = self._pitches.get(b.name)
        if pitch is None:
            pitch = self._pitches[b.name] = [n * nbytes(b.dtype) for n in strides(b.shape, b.layout)]
        terms: dict[Expr, int] = {}
        byte = self.kernel.shared_offsets[b.name]
        for form, n in zip(forms, pitch, strict=True):
            byte += form[1] * n
            for x, c in form[0].items():
                terms[x] = terms.get(x, 0) + c * n
        return {x: c for x, c in terms.items() if c}, byte

    def deciding(self, s: Statement) -> Iterator[Expr]:
        """The terms without thread that decide what a statement touches in shared memory (data and all)."""
        for o in self.operands(s):
            if any(map(self.data, self.kernel.resolve(o.ref).index)):
                yield from map(self.inline, self.kernel.resolve(o.ref).index) if not o.anywhere else ()
            else:
                yield from self.address(o).terms

    def address_terms(self, o: Operand) -> tuple[Expr, ...]:
        """The byte address of an operand and its indices, as terms."""
        b, index = self._placed(o)
        index = tuple(map(self.inline, index))
        return (offset(b.shape, b.layout, index) * nbytes(b.dtype) + self.kernel.shared_offsets[b.name], *index)

    def _placed(self, o: Operand) -> tuple[Buffer, tuple[Expr, ...]]:
        ref = self.kernel.resolve(o.ref)
        b = self.kernel.declarations[ref.buffer]
        assert isinstance(b, Buffer)
        if len(ref.index) != len(b.shape):
            raise Unsupported(f"{o.ref} has {len(ref.index)} indices for {len(b.shape)} dimensions")
        contiguous(b, o)
        return b, ref.index

    def owner(self, cell: int) -> str:
        """The shared buffer that holds a cell."""
        byte, best = cell * self.cell, ""
        for b in self.kernel.buffers:
            if b.space == "shared" and self.kernel.shared_offsets[b.name] <= byte:
                best = b.name
        return best


def free_terms(p: Program, statements: tuple[Statement, ...]) -> tuple[Expr, ...]:
    """The thread-free terms that decide what a run of statements touches: the key under which it is remembered."""
    inner, wanted = {"t"}, []
    for _, s in (x for top in statements for x in walk((top,))):
        if s.kind == "for":
            inner |= {s.var, s.var + "#", *(c.name for c in s.carry)}
        if s.kind in ("for", "if") and p.matters(s):
            wanted += [p.inline(e) for _, e in expressions(s)]
        elif s.kind == "load" and s.when is not None and p.operands(s):
            wanted.append(p.inline(s.when))
        wanted += p.deciding(s)
    banned = frozenset(inner)
    found = dict.fromkeys(m for e in dict.fromkeys(wanted) for m in maximal(e, banned))
    return tuple(m for m in found if not names(m) & p.tainted)
