"""Registers are written before they are read: a forward must-analysis over the body.

Loops of constant trip count are run through (once, where no register index depends on the variable); loops whose trip
count is a size may run zero times, so what they write does not count after them. What an `if` writes counts again under
the same condition, and for good once its complement has written it too.
Source: must-initialise analysis, Nielson, Nielson and Hankin, Principles of Program Analysis, section 2.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from amk.dsl.evaluate import function_of
from amk.dsl.expr import Apply, Const, Elem, Expr, names, subterms
from amk.dsl.instructions import ROWS
from amk.dsl.kernel import expressions, walk
from amk.dsl.layout import row_major
from amk.dsl.nodes import Buffer, Statement
from amk.harness.events import Program, bits
from amk.harness.faults import Fault

__all__ = ["uninitialised_registers"]

State = dict[str, int]  # a bit for each element of a register buffer that is surely written
Gains = dict[Expr, State]  # what is written for the threads whose condition holds
Refs = list[tuple[Elem, int]]  # operands with widths
_OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


def uninitialised_registers(p: Program) -> Iterator[Fault]:
    """Every statement that may read a register element nothing has surely written."""
    seen: set[str] = set()
    for fault in _Registers(p).body(p.kernel.body, {}, {}, {}):
        if fault.pointer not in seen:
            seen.add(fault.pointer)
            yield fault


class _Registers:
    def __init__(self, program: Program) -> None:
        self.p = program
        held = [b for b in program.kernel.buffers if b.space == "register"]
        self.whole = {b.name: (1 << prod(b.shape)) - 1 for b in held}
        self.touches: dict[int, tuple[Refs, Refs]] = {}
        self.index: dict[Elem, Any] = {}

    # -- walk -------------------------------------------------------------------------------------------------------
    def body(
        self, statements: tuple[Statement, ...], state: State, gains: Gains, env: dict[str, int]
    ) -> Iterator[Fault]:
        """The faults of a body; `state` becomes what is written after it."""
        for s in statements:
            yield from self._reads(s, state, env)
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
        elif not any(isinstance(x, Elem) for x in subterms(cond)):
            self._gain(cond, {b: m & ~before.get(b, 0) for b, m in inner.items()}, state, gains)

    def _gain(self, cond: Expr, gained: State, state: State, gains: Gains) -> None:
        mine = gains[cond] = dict(gains.get(cond, {}))
        _merge(mine, gained)
        other = gains.get(_opposite(cond), {})
        _merge(state, {b: m & other.get(b, 0) for b, m in mine.items()})

    def _for(self, s: Any, state: State, gains: Gains, env: dict[str, int]) -> Iterator[Fault]:
        rounds = self._rounds(s, env)
        if rounds is None:
            yield from self.body(s.body, dict(state), dict(gains), env)
            return
        if len(rounds) > 1 and not self._indexed(s):
            rounds = rounds[:1]
        for v in rounds:
            yield from self.body(s.body, state, dict(gains), {**env, s.var: v})

    def _rounds(self, s: Any, env: dict[str, int]) -> range | None:
        """The values of the variable; None where the checker does not know them."""
        bounds = tuple(self.p.inline(e) for e in (s.lo, s.hi, s.step))
        used = tuple(sorted(frozenset().union(*map(names, bounds))))
        if s.until is not None or any(isinstance(x, Elem) for e in bounds for x in subterms(e)):
            return None
        if not set(used) <= env.keys():
            return None
        lo, hi, step = function_of(bounds, used)(*(env[n] for n in used))
        return range(lo, hi, step) if step > 0 else None

    def _indexed(self, s: Any) -> bool:
        """Whether a register index, an inner bound or a condition in the body depends on the loop variable."""
        for _, x in walk(s.body):
            reads, writes = self._touched(x)
            terms = [i for r, _ in (*reads, *writes) for i in self.p.kernel.resolve(r).index]
            writes_inside = x.kind == "if" and any(self._touched(y)[1] for _, y in walk(x.body))
            if x.kind == "for" or writes_inside:
                terms += [e for _, e in expressions(x)]
            if any(s.var in names(self.p.inline(e)) for e in terms):
                return True
        return False

    # -- statements -------------------------------------------------------------------------------------------------
    def _touched(self, s: Any) -> tuple[Refs, Refs]:
        """The register elements a statement reads and those it writes."""
        found = self.touches.get(id(s))
        if found is None:
            written = [(r, w) for r, w in _destinations(s) if self._register(r)]
            read = [x for e in _values(s) for x in subterms(self.p.inline(e)) if isinstance(x, Elem)]
            found = self.touches[id(s)] = ([(x, 1) for x in read if self._register(x)], written)
        return found

    def _register(self, r: Elem) -> bool:
        d = self.p.kernel.find(r.buffer)
        return isinstance(d, Buffer) and d.space == "register"

    def _mask(self, ref: Elem, width: int, env: dict[str, int]) -> int | None:
        """Bits of the elements an operand names; None where the checker does not know the index."""
        entry = self.index.get(ref)
        if entry is None:
            entry = self.index[ref] = self._compiled(ref)
        used, f, shape = entry
        if f is None or not all(n in env for n in used):
            return None
        at = f(*(env[n] for n in used))
        if not all(0 <= i < n for i, n in zip(at, shape, strict=True)):
            return None
        first: int = sum(i * n for i, n in zip(at, row_major(shape), strict=True))
        return ((1 << width) - 1) << first

    def _compiled(self, ref: Elem) -> tuple[tuple[str, ...], Any, tuple[int, ...]]:
        r = self.p.kernel.resolve(ref)
        b = self.p.kernel.declarations[r.buffer]
        assert isinstance(b, Buffer)
        index = tuple(map(self.p.inline, r.index))
        used = tuple(sorted(frozenset().union(*map(names, index))))
        known = not any(isinstance(x, Elem) for e in index for x in subterms(e)) and len(index) == len(b.shape)
        return used, function_of(index, used) if known else None, b.shape

    def _reads(self, s: Statement, state: State, env: dict[str, int]) -> Iterator[Fault]:
        for ref, width in self._touched(s)[0]:
            name = self.p.kernel.resolve(ref).buffer
            mask = self._mask(ref, width, env)
            lost = (self.whole[name] if mask is None else mask) & ~state.get(name, 0)
            if lost:
                at = {n: v for n, v in env.items() if n in frozenset().union(*map(names, ref.index))}
                message = f"{ref} is read, and nothing has surely written element {next(bits(lost))} of '{name}' before"
                hint = "set it before the loop or branch (a loop over a size may run zero times)"
                yield Fault("AMK207", self.p.pointers[id(s)], message, at, (), hint)
                return

    def _writes(self, s: Any, state: State, gains: Gains, env: dict[str, int]) -> None:
        for ref, width in self._touched(s)[1]:
            mask = self._mask(ref, width, env)
            if mask is None:
                continue
            gained = {self.p.kernel.resolve(ref).buffer: mask}
            if s.kind == "load" and s.when is not None and s.other is None:
                self._gain(self.p.inline(s.when), gained, state, gains)
            else:
                _merge(state, gained)


def _destinations(s: Any) -> Refs:
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
