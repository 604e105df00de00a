"""Registers are written before they are read: a forward must-analysis over the body.

Loops of constant trip count are run through (once, where no register index depends on the variable; as a whole, where
everything they read is written before them). Of a loop over a size, what it writes counts after it if it runs at least
once for all sizes; where an instruction starts its sum in the first round (`scale_d = step != 0`), that round is looked
at by itself, and what it has written counts in the others. What an `if` writes counts again under the same condition,
and for good once its complement has written it too.
Source: must-initialise analysis, Nielson, Nielson and Hankin, Principles of Program Analysis, section 2.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from math import prod
from typing import Any

from amk.dsl.expr import Apply, Const, Expr, Var, apply, names, subst
from amk.dsl.kernel import expressions, walk
from amk.dsl.nodes import Statement
from amk.harness.affine import Facts
from amk.harness.bounds import size_ranges
from amk.harness.events import Program
from amk.harness.faults import Fault
from amk.harness.masks import bits
from amk.harness.register_use import Access, Uses, elements_in

__all__ = ["uninitialised_registers"]

State = dict[str, int]  # a bit for each element of a register buffer that is surely written
Gains = dict[Expr, State]  # what is written for the threads whose condition holds
_OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


def uninitialised_registers(p: Program) -> Iterator[Fault]:
    """Every statement that may read a register element nothing has surely written."""
    seen: set[str] = set()
    for fault in _Registers(p).body(p.kernel.body, {}, {}, {}):
        if fault.pointer not in seen:
            seen.add(fault.pointer)
            yield fault


class _Registers(Uses):
    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._follows: dict[int, bool] = {}
        self._nests: dict[int, tuple[Any, ...]] = {}
        self._starts: dict[str, Expr] = {}  # the variables of loops that are looked at in their first round

    # -- walk -------------------------------------------------------------------------------------------------------
    def body(
        self, statements: tuple[Statement, ...], state: State, gains: Gains, env: dict[str, int]
    ) -> Iterator[Fault]:
        """The faults of a body; `state` becomes what is written after it."""
        for s in statements:
            more = (a for a, cond in self._touched(s).guarded if not self._off(cond, env))
            yield from self._reads(s, [*self._before(s), *more], state, env)
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
        elif not elements_in(cond):
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
            yield from self._over_a_size(s, state, gains, env)
            return
        if len(rounds) > 1 and not self._indexed(s):
            rounds = rounds[:1]
        for v in rounds:
            yield from self.body(s.body, state, dict(gains), {**env, s.var: v})
            yield from self._reads(s, self._after(s), state, {**env, s.var: v})

    def _over_a_size(self, s: Any, state: State, gains: Gains, env: dict[str, int]) -> Iterator[Fault]:
        """A loop whose rounds are not known: the first one by itself where a sum may start in it, then any other."""
        inner = dict(state)
        if any(self._touched(x).guarded for _, x in walk(s.body)):
            lo = self.p.inline(s.lo)
            first = {s.var: int(lo.value)} if isinstance(lo, Const) else {}
            self._starts |= {s.var: lo, f"{s.var}#": Const(0)}
            yield from self.body(s.body, inner, dict(gains), {**env, **first})
            yield from self._reads(s, self._after(s), inner, {**env, **first})
            del self._starts[s.var], self._starts[f"{s.var}#"]
        yield from self.body(s.body, inner, dict(gains), env)
        yield from self._reads(s, self._after(s), inner, env)
        if self._runs(s):  # what any round writes, the one that there is writes
            _merge(state, inner)

    def _off(self, cond: Expr, env: Mapping[str, int]) -> bool:
        """Whether a condition does not hold, for all that is known of the round."""
        e = subst(cond, {**self._starts, **{n: Const(v) for n, v in env.items()}})
        same = isinstance(e, Apply) and e.op in ("!=", "<", ">") and e.args[0] == e.args[1]
        return same or (isinstance(e, Const) and e.value is False)

    @cached_property
    def _sizes(self) -> Facts:
        """What holds for all sizes."""
        sizes = size_ranges(self.p.kernel)
        facts = Facts(sizes, {q.name: q.multiple_of for q in self.p.kernel.scalars if q.name in sizes})
        for _, s in self.p.statements:
            if s.kind == "assume":
                facts.know(s.fact)
        return facts

    def _runs(self, s: Any) -> bool:
        """Whether a loop runs at least once for all sizes."""
        lo, hi = self.p.inline(s.lo), self.p.inline(s.hi)
        return s.until is None and self._sizes.prove(apply("-", apply("-", hi, lo), 1))

    def _rounds(self, s: Any, env: dict[str, int]) -> range | None:
        """The values of the variable; None where the checker does not know them."""
        if s.until is not None:
            return None
        if s.var in self.p.fixed:
            return self.p.fixed[s.var]
        bounds = tuple(self.p.inline(e) for e in (s.lo, s.hi, s.step))
        if any(elements_in(e) or not names(e) <= env.keys() for e in bounds):
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
        if any(var in a.used for a in (*touched.reads, *(a for a, _ in touched.guarded), *touched.writes)):
            return True
        if any(var in names(cond) for _, cond in touched.guarded):
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
        if touched.guarded:
            return False
        return all(a.known and not a.indices and sum(not isinstance(e, Var) for e, _ in a.by) < 2 for a in accesses)

    def _closed(self, inside: tuple[Any, ...]) -> bool:
        """No term that is not a variable mixes variables of the nest with those around it."""
        inner = {x.var for x in inside if x.kind == "for"}
        touched = map(self._touched, inside)
        bent = (names(e) for t in touched for a in (*t.reads, *t.writes) for e, _ in a.by if not isinstance(e, Var))
        return all(not used & inner or used <= inner for used in bent)

    def _span(self, a: Access, inner: set[str], env: Mapping[str, int]) -> int:
        """The elements that an access names in all rounds of the inner loops."""
        mask, first = a.bits, a.first
        for shifts in self._shifts(a, inner, env):
            least, shifted = min(shifts), 0
            for n in set(shifts):
                shifted |= mask << n - least
            mask, first = shifted, first + least
        return mask << first

    def _shifts(self, a: Access, inner: set[str], env: Mapping[str, int]) -> Iterator[list[int]]:
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

    def _reads(self, s: Statement, accesses: list[Access], state: State, env: dict[str, int]) -> Iterator[Fault]:
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
