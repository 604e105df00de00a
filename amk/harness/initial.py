"""Registers are written before they are read: a forward must-analysis over the body.

Loops of constant trip count are run through (once, where no register index depends on the variable; as a whole, where
everything they read is written before them); loops whose trip count is a size may run zero times, so what they write
does not count after them. What an `if` writes counts again under the same condition, and for good once its complement
has written it too.
Source: must-initialise analysis, Nielson, Nielson and Hankin, Principles of Program Analysis, section 2.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

from amk.dsl.evaluate import function_of
from amk.dsl.expr import Apply, Const, Elem, Expr, Var, names, parts, subst
from amk.dsl.instructions import ROWS
from amk.dsl.kernel import expressions, walk
from amk.dsl.layout import row_major
from amk.dsl.nodes import Statement
from amk.harness.events import Program
from amk.harness.faults import Fault
from amk.harness.footprint import Form
from amk.harness.masks import bits

__all__ = ["uninitialised_registers"]

State = dict[str, int]  # a bit for each element of a register buffer that is surely written
Gains = dict[Expr, State]  # what is written for the threads whose condition holds
_ROUNDS = 1024  # of constant loops, over which a term is tabulated
_OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


def uninitialised_registers(p: Program) -> Iterator[Fault]:
    """Every statement that may read a register element nothing has surely written."""
    seen: set[str] = set()
    for fault in _Registers(p).body(p.kernel.body, {}, {}, {}):
        if fault.pointer not in seen:
            seen.add(fault.pointer)
            yield fault


class _Access(NamedTuple):
    """A register operand: the buffer's bits of its first element are a shift that follows the loop variables."""

    ref: Elem
    buffer: str
    first: int
    by: tuple[tuple[Expr, int], ...]  # terms and their factors
    bits: int  # one for each element of the operand
    indices: tuple[tuple[Form, int], ...]  # with their extents, where ranges alone do not keep them inside
    used: frozenset[str]
    known: bool  # whether the checker can know the index


class _Touched(NamedTuple):
    reads: list[_Access]
    writes: list[_Access]


class _Registers:
    def __init__(self, program: Program) -> None:
        self.p = program
        self.shapes = {b.name: b.shape for b in program.kernel.buffers if b.space == "register"}
        self.holding = frozenset(n for n, x in program.lets.items() if _elements(x))  # named values of registers
        self._touches: dict[int, _Touched] = {}
        self._accesses: dict[tuple[Elem, int], _Access | None] = {}
        self._follows: dict[int, bool] = {}
        self._nests: dict[int, tuple[Any, ...]] = {}
        self._tables: dict[Expr, dict[str, list[int]]] = {}

    # -- walk -------------------------------------------------------------------------------------------------------
    def body(
        self, statements: tuple[Statement, ...], state: State, gains: Gains, env: dict[str, int]
    ) -> Iterator[Fault]:
        """The faults of a body; `state` becomes what is written after it."""
        for s in statements:
            yield from self._reads(s, self._before(s), state, env)
            if s.kind == "if":
                yield from self._if(s, state, gains, env)
            elif s.kind == "for":
                yield from self._for(s, state, gains, env)
            elif s.kind == "team":
                for r in s.roles:
                    yield from self.body(r.body, dict(state), {}, env)
            else:
                self._writes(s, state, gains, env)

    def _if(self, s: Any, state: State, gains: Gains, env: dict[str, int]) -> Iterator[Fault]:
        cond = self.p.inline(s.cond)
        inner = dict(state)
        for c in (cond, *_conjuncts(cond)):
            _merge(inner, gains.get(c, {}))
        before = dict(inner)
        yield from self.body(s.body, inner, dict(gains), env)
        if cond == Const(True):
            _merge(state, inner)
        elif not _elements(cond):
            self._gain(cond, {b: m & ~before.get(b, 0) for b, m in inner.items()}, state, gains)

    def _gain(self, cond: Expr, gained: State, state: State, gains: Gains) -> None:
        mine = gains[cond] = dict(gains.get(cond, {}))
        _merge(mine, gained)
        other = gains.get(_opposite(cond), {})
        _merge(state, {b: m & other.get(b, 0) for b, m in mine.items()})

    def _for(self, s: Any, state: State, gains: Gains, env: dict[str, int]) -> Iterator[Fault]:
        if self._as_a_whole(s, state, env):
            return
        rounds = self._rounds(s, env)
        if rounds is None:
            inner = dict(state)
            yield from self.body(s.body, inner, dict(gains), env)
            yield from self._reads(s, self._after(s), inner, env)
            return
        if len(rounds) > 1 and not self._indexed(s):
            rounds = rounds[:1]
        for v in rounds:
            yield from self.body(s.body, state, dict(gains), {**env, s.var: v})
            yield from self._reads(s, self._after(s), state, {**env, s.var: v})

    def _rounds(self, s: Any, env: dict[str, int]) -> range | None:
        """The values of the variable; None where the checker does not know them."""
        if s.until is not None:
            return None
        if s.var in self.p.fixed:
            return self.p.fixed[s.var]
        bounds = tuple(self.p.inline(e) for e in (s.lo, s.hi, s.step))
        if any(_elements(e) or not names(e) <= env.keys() for e in bounds):
            return None
        lo, hi, step = (self.p.value(e, env) for e in bounds)
        return range(lo, hi, step) if step > 0 else None

    def _indexed(self, s: Any) -> bool:
        """Whether a register index, an inner bound or a condition in the body depends on the loop variable."""
        found = self._follows.get(id(s))
        if found is None:
            late = any(s.var in a.used for a in self._after(s))
            found = self._follows[id(s)] = late or any(self._asks(x, s.var) for _, x in walk(s.body))
        return found

    def _asks(self, x: Any, var: str) -> bool:
        touched = self._touched(x)
        if any(var in a.used for a in (*touched.reads, *touched.writes)):
            return True
        if x.kind == "for" or (x.kind == "if" and any(self._touched(y).writes for _, y in walk(x.body))):
            return any(var in names(self.p.inline(e)) for _, e in expressions(x))
        return False

    # -- whole loops ------------------------------------------------------------------------------------------------
    def _as_a_whole(self, s: Any, state: State, env: dict[str, int]) -> bool:
        """A nest of constant loops at once: right where all that it reads is written before; False elsewhere."""
        inside = self._plain(s)
        if not inside:
            return False
        inner = {x.var for x in inside if x.kind == "for"}
        written: State = {}
        spans: dict[int, int] = {}
        for touched in map(self._touched, inside):
            for a in (*touched.reads, *touched.writes):
                if id(a) not in spans:
                    spans[id(a)] = self._span(a, inner, env)
            if any(spans[id(a)] & ~state.get(a.buffer, 0) for a in touched.reads):
                return False
            for a in touched.writes:
                _merge(written, {a.buffer: spans[id(a)]})
        _merge(state, written)
        return True

    def _plain(self, s: Any) -> tuple[Any, ...]:
        """The statements of a nest of constant loops that always run, with all indices inside; none of another."""
        found = self._nests.get(id(s))
        if found is None:
            inside = (s, *(x for _, x in walk(s.body)))
            plain = all(map(self._simple, inside)) and self._closed(inside)
            found = self._nests[id(s)] = inside if plain else ()
        return found

    def _simple(self, x: Any) -> bool:
        if x.kind in ("if", "team") or (x.kind == "for" and (x.until is not None or not self.p.fixed.get(x.var))):
            return False
        if x.kind == "load" and x.when is not None and x.other is None:
            return False
        touched = self._touched(x)
        accesses = (*touched.reads, *touched.writes)
        return all(a.known and not a.indices and sum(not isinstance(e, Var) for e, _ in a.by) < 2 for a in accesses)

    def _closed(self, inside: tuple[Any, ...]) -> bool:
        """No term that is not a variable mixes variables of the nest with those around it."""
        inner = {x.var for x in inside if x.kind == "for"}
        touched = map(self._touched, inside)
        bent = (names(e) for t in touched for a in (*t.reads, *t.writes) for e, _ in a.by if not isinstance(e, Var))
        return all(not used & inner or used <= inner for used in bent)

    def _span(self, a: _Access, inner: set[str], env: Mapping[str, int]) -> int:
        """The elements that an access names in all rounds of the inner loops."""
        mask, first = a.bits, a.first
        for shifts in self._shifts(a, inner, env):
            least, shifted = min(shifts), 0
            for n in set(shifts):
                shifted |= mask << n - least
            mask, first = shifted, first + least
        return mask << first

    def _shifts(self, a: _Access, inner: set[str], env: Mapping[str, int]) -> Iterator[list[int]]:
        """What each term adds in all rounds; terms that share variables with one that is none add together."""
        bent = next((e for e, _ in a.by if not isinstance(e, Var) and names(e) <= inner), None)
        joined = self._over(bent) if bent is not None else {}
        for e, c in a.by:
            if isinstance(e, Var) and e.name in inner and e.name not in joined:
                yield [c * v for v in self.p.fixed[e.name]]
            elif not names(e) & inner:
                yield [c * self.p.value(e, env)]
        if joined:
            total = [0] * len(next(iter(joined.values())))
            for e, c in a.by:
                if (column := joined.get(e.name if isinstance(e, Var) else "")) is not None:
                    total = [t + c * v for t, v in zip(total, column, strict=True)]
            yield total

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

    # -- statements -------------------------------------------------------------------------------------------------
    def _touched(self, s: Any) -> _Touched:
        """The register elements a statement reads and those it writes."""
        found = self._touches.get(id(s))
        if found is None:
            written = [a for r, w in _destinations(s) if (a := self._access(r, w)) is not None]
            read = [x for e in _values(s) for x in self._held(e)]
            found = _Touched([a for x in read if (a := self._access(x, 1)) is not None], written)
            self._touches[id(s)] = found
        return found

    def _held(self, e: Expr) -> tuple[Elem, ...]:
        """The elements in a term, named values in place."""
        return _elements(self.p.inline(e) if self.holding and names(e) & self.holding else e)

    def _access(self, ref: Elem, width: int) -> _Access | None:
        """The operand as an access; None where it is no register."""
        key = ref, width
        if key not in self._accesses:
            r = self.p.kernel.resolve(ref)
            self._accesses[key] = self._made(ref, r, width) if r.buffer in self.shapes else None
        return self._accesses[key]

    def _made(self, ref: Elem, r: Elem, width: int) -> _Access:
        shape = self.shapes[r.buffer]
        forms = [self.p.linear(e) for e in r.index]
        used = frozenset().union(*(names(x) for terms, _ in forms for x in terms))
        known = len(forms) == len(shape) and not any(_elements(x) for terms, _ in forms for x in terms)
        by: dict[Expr, int] = {}
        first = 0
        for (terms, constant), stride in zip(forms, row_major(shape), strict=False):
            first += constant * stride
            for x, c in terms.items():
                by[x] = by.get(x, 0) + c * stride
        loose = tuple((f, n) for f, n in zip(forms, shape, strict=False) if not self._inside(f, n))
        return _Access(ref, r.buffer, first, tuple(by.items()), (1 << width) - 1, loose, used, known)

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

    def _mask(self, a: _Access, env: Mapping[str, int]) -> int | None:
        """Bits of the elements an operand names; None where the checker does not know the index."""
        if not a.known or not a.used <= env.keys():
            return None
        for (terms, constant), extent in a.indices:
            if not 0 <= constant + sum(self.p.value(x, env) * c for x, c in terms.items()) < extent:
                return None
        shift: int = a.first + sum([self.p.value(x, env) * c for x, c in a.by])
        return a.bits << shift

    def _before(self, s: Any) -> list[_Access]:
        """What a statement reads before its body: of a loop, all but what the carried values become."""
        if s.kind != "for" or not s.carry:
            return self._touched(s).reads
        until = () if s.until is None else (s.until,)
        return self._all((s.lo, s.hi, s.step, *until, *(c.init for c in s.carry)))

    def _after(self, s: Any) -> list[_Access]:
        """What a loop reads at the end of each round."""
        return self._all(c.next for c in s.carry)

    def _all(self, terms: Iterable[Expr]) -> list[_Access]:
        return [a for e in terms for x in self._held(e) if (a := self._access(x, 1)) is not None]

    def _reads(self, s: Statement, accesses: list[_Access], state: State, env: dict[str, int]) -> Iterator[Fault]:
        for a in accesses:
            mask = self._mask(a, env)
            lost = ((1 << prod(self.shapes[a.buffer])) - 1 if mask is None else mask) & ~state.get(a.buffer, 0)
            if lost:
                ref = self.p.inline(a.ref)
                at = {n: v for n, v in env.items() if n in names(ref)}
                which = next(bits(lost))
                message = f"{ref} is read, and nothing has surely written element {which} of '{a.buffer}' before"
                hint = "set it before the loop or branch (a loop over a size may run zero times)"
                yield Fault("AMK207", self.p.pointers[id(s)], message, at, (), hint)
                return

    def _writes(self, s: Any, state: State, gains: Gains, env: dict[str, int]) -> None:
        for a in self._touched(s).writes:
            mask = self._mask(a, env)
            if mask is None:
                continue
            gained = {a.buffer: mask}
            if s.kind == "load" and s.when is not None and s.other is None:
                self._gain(self.p.inline(s.when), gained, state, gains)
            else:
                _merge(state, gained)


def _destinations(s: Any) -> list[tuple[Elem, int]]:
    if s.kind == "load":
        return [(s.dst, s.width)]
    if s.kind == "store":
        return [(s.dst, len(s.values))]
    if s.kind == "call" and s.row in ROWS:
        return [(s.refs[o.role], 1) for o in ROWS[s.row].operands if o.mode == "write" and o.role in s.refs]
    return []


def _values(s: Any) -> Iterator[Expr]:
    """Every term a statement evaluates: destinations give only their indices."""
    written = {id(r) for r, _ in _destinations(s)}
    for _, e in expressions(s):
        if isinstance(e, Elem) and (id(e) in written or (s.kind == "atomic" and e is s.dst)):
            yield from e.index
        else:
            yield e


def _merge(state: State, more: State) -> None:
    for b, m in more.items():
        state[b] = state.get(b, 0) | m


@lru_cache(maxsize=1 << 14)
def _elements(e: Expr) -> tuple[Elem, ...]:
    """The elements of buffers in a term, outermost first."""
    out: tuple[Elem, ...] = (e,) if isinstance(e, Elem) else ()
    for x in parts(e):
        if not isinstance(x, (Var, Const)):
            out += _elements(x)
    return out


def _conjuncts(e: Expr) -> tuple[Expr, ...]:
    if isinstance(e, Apply) and e.op == "and":
        return (*_conjuncts(e.args[0]), *_conjuncts(e.args[1]))
    return (e,)


def _opposite(e: Expr) -> Expr:
    if isinstance(e, Apply) and e.op == "not":
        return e.args[0]
    if isinstance(e, Apply) and e.op in _OPPOSITE:
        return Apply(_OPPOSITE[e.op], e.args)
    return Apply("not", (e,))
