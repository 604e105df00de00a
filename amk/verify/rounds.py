"""Loops in the walk of a block: rounds one by one where their number is known, and classes of rounds where it is not.

A loop over a size, with N rounds of which the walk knows nothing, goes through these phases, with a look-ahead E:

few      N = 0, 1, ..., 2E: each is a class of its own, every round with its number.
start    N > 2E: the rounds 0 to E - 1 with their numbers.
middle   a round q = P*j + c of which only its remainder c is known, and that more than E rounds are left. It is walked
         from every state in which it can begin, until no new state comes: states are finite, so that ends.
end      from every state of the middle, the last E rounds, with the number of those that are left, and what follows
         the loop.

So every N is covered: that a round of the middle behaves alike for all its j is not assumed but proved, by Z3, for each
condition, trip count and index that the walk asks for; what is not alike is Loose, and E is doubled. States are
compared whole: what is written, what was touched since the last barrier, what is under way, registers, carried values.

A loop without barriers over a size is walked as a body that may not be reached, for any round.
"""

from __future__ import annotations

from math import gcd, lcm
from typing import Any

from amk.dsl.expr import Apply, Const, Expr, has_elements, names, subst, subterms
from amk.dsl.kernel import expressions, walk
from amk.dsl.nodes import For
from amk.verify.block import Block, held, ordered
from amk.verify.followed import Summary, quiet
from amk.verify.linear import growth
from amk.verify.outcome import Loose, NotCovered, Unable, Wrong
from amk.verify.path import Here, Path, merged
from amk.verify.values import DATA

__all__ = ["Rounds"]

LOOKS = (1, 2, 4, 8, 16)
STATES = 512  # of the middle of one loop
LONGEST = 1 << 16  # rounds of a loop whose number is known
TOP = 2**31 - 1


class Rounds:
    """One loop, from one state, by the threads that reach it."""

    def __init__(self, block: Block, s: For, here: Here) -> None:
        self.block, self.s, self.here = block, s, here
        self.at = block.pointers[id(s)]

    def run(self, p: Path) -> list[Path]:
        """The states after the loop. Raises Wrong, Loose, Unable."""
        b, s = self.block, self.s
        for e in (s.lo, s.hi, *(c.init for c in s.carry)):
            b.reads(e, p, self.here, self.at)
        self.lo, self.hi = b.settle.with_known(s.lo, p), b.settle.with_known(s.hi, p)
        self.step = int(_number(b.settle.inline(s.step, p)))
        if self.step < 1:
            raise NotCovered(self.at, f"a loop by steps of {s.step}")
        ends = (self._known(s.lo, p), self._known(s.hi, p))
        self._begin(p)
        if DATA in ends:
            out = self._some(p, ragged=True)
        elif None not in ends and any(isinstance(x, tuple) for x in ends):
            out = self._by_thread(p)
        elif None not in ends:
            out = self._counted(p, range(int(ends[0]), int(ends[1]), self.step))
        elif (names(self.lo) | names(self.hi)) & {"t", *p.known}:  # known, but each thread its own
            out = self._some(p, ragged=True)
        else:
            out = self._phases(p) if ordered(s.body) else self._either(p)
        for q in out:
            self._forget(q)
        return merged(out)

    def _known(self, e: Expr, p: Path) -> Any:
        try:
            return self.block.settle.value(e, p, self.at)
        except Loose:
            return None

    # -- carried values ----------------------------------------------------------------------------------------------
    def _begin(self, p: Path) -> None:
        """First values: followed where they decide something, terms where they grow by a constant, else data."""
        ends = self._ends()
        self.grown: dict[str, tuple[Expr, int]] = {}
        values: dict[str, object] = {}
        for c in self.s.carry:
            by = growth(c.name, subst(c.next, ends))
            if c.name not in self.block.followed:
                p.data |= {c.name}
            elif by is not None and not has_elements(c.init):
                self.grown[c.name] = self.block.settle.with_known(c.init, p), by
            else:
                values[c.name] = self.block.settle.value(c.init, p, self.at)
        self._assign(p, values)

    def _ends(self) -> dict[str, Expr]:
        out: dict[str, Expr] = {}
        for x in self.s.body:
            if x.kind == "let" and x.value is not None:
                out[x.name] = subst(x.value, out)
        return out

    def _assign(self, p: Path, values: dict[str, object]) -> None:
        for n, v in values.items():
            if v is DATA:
                p.data |= {n}
                p.known.pop(n, None)
            else:
                p.known[n] = v

    def _next(self, p: Path, here: Here) -> None:
        """All carried values move on at once, those of the threads that made the round."""
        for c in self.s.carry:
            self.block.reads(c.next, p, here, self.at)
        self._assign(p, {
            c.name: self.block.settle.value(c.next, p, self.at)
            for c in self.s.carry if c.name in p.known and c.name not in self.grown
        })  # fmt: skip

    def _keep(self, p: Path, before: dict[str, Any], mask: int) -> None:
        """Threads that did not make a round keep their values."""
        for c in self.s.carry:
            new, old = p.known.get(c.name), before.get(c.name)
            if c.name in p.known and c.name in before and new != old:
                each = range(self.block.kernel.threads)
                p.known[c.name] = tuple(_at(new if mask >> t & 1 else old, t) for t in each)

    def _forget(self, p: Path) -> None:
        """After the loop its variable is gone, and values that grew with it are not followed."""
        p.known.pop(self.s.var, None)
        p.terms.pop(self.s.var, None)
        for n in self.grown:
            p.terms.pop(n, None)
            p.known.pop(n, None)
            p.data |= {n}

    def _place(self, p: Path, q: Expr) -> None:
        """Says which round this is."""
        value = self.lo + q * self.step
        if isinstance(value, Const):
            p.known[self.s.var] = value.value
            p.terms.pop(self.s.var, None)
        else:
            p.terms[self.s.var] = value
            p.known.pop(self.s.var, None)
        for n, (init, by) in self.grown.items():
            p.terms[n] = init + q * by

    def _round(self, p: Path, q: Expr, here: Here | None = None) -> list[Path]:
        """One round."""
        self._place(p, q)
        out = self.block.body(self.s.body, p, here or self.here)
        if self.s.carry:
            for x in out:
                before = dict(x.known)
                self._next(x, here or self.here)
                if here is not None:
                    self._keep(x, before, here.active)
        return merged(out)

    # -- rounds whose number is known --------------------------------------------------------------------------------
    def _counted(self, p: Path, values: range) -> list[Path]:
        if len(values) > LONGEST:
            raise Unable(self.at, f"a loop of {len(values)} rounds")
        if self._summed(p, values):
            return [p]
        paths = [p]
        for q in range(len(values)):
            paths = merged(x for path in paths for x in self._round(path, Const(q)))
        return paths

    def _summed(self, p: Path, values: range) -> bool:
        """A loop over registers alone, by what it needs and what it writes, which is found out once."""
        used = quiet(self.block.kernel, self.s, self.block.settle.names)
        if used is None or not p.known.keys() >= set(used):
            return False
        key = (self.s.var, self.here.active, *[p.known[n] for n in used])
        found = self.block.summaries.get(key)
        if found is None:
            found = Summary(self.block.everyone)
            tried = [Path(p.facts, dict(p.known), dict(p.terms), p.data, p.memory, found)]
            for q in range(len(values)):
                tried = [x for path in tried for x in self._round(path, Const(q))]
            self.block.summaries[key] = found
        if any(self.here.active & ~p.registers.get(place, 0) for place in found.needs):
            return False  # walked round by round, it says where
        for place, mask in found.items():
            if place not in found.needs:
                p.registers[place] = mask | held(p.registers, place)
        return True

    def _by_thread(self, p: Path) -> list[Path]:
        """Bounds that differ between threads: those whose variable is below its end take part in a round."""
        paths, q = [p], 0
        while True:
            out: list[Path] = []
            left = False
            for path in paths:
                self._place(path, Const(q))
                cond = Apply("<", (self.lo + Const(q) * self.step, self.hi))
                mask, may, _ = self.block.settle.passing(cond, path, self.at, self.here.active)
                if mask != may:
                    raise Loose(self.at, f"the rounds of each thread: {cond}")
                left |= bool(mask)
                here = Here(mask, self.here.unsure, self.here.ragged)
                out += self._round(path, Const(q), here) if mask else [path]
            if not left:
                return out
            paths, q = merged(out), q + 1
            if q > LONGEST:
                raise Unable(self.at, f"a loop of more than {LONGEST} rounds")

    # -- rounds of any number ----------------------------------------------------------------------------------------
    def _either(self, p: Path) -> list[Path]:
        """A loop without barriers: any round stands for all, or, where it does not, the phases do."""
        try:
            return self._some(p.copy(), ragged=False)
        except (Loose, Wrong) as first:
            try:
                return self._phases(p)
            except Loose:
                raise first from None

    def _some(self, p: Path, *, ragged: bool) -> list[Path]:
        """Any round, perhaps none. It is walked twice, so that what one leaves under way meets the other."""
        if ordered(self.s.body):
            raise Wrong("AMK302", self.at, f"a barrier in a loop to {self.s.hi}, which may differ between threads")
        facts, data = p.facts, p.data
        q = self.block.logic.declare(f"{self.s.var}'q", "i32", 0, TOP)
        if ragged:
            p.data |= {self.s.var, *self.grown}
        else:
            p.facts = (*facts, Apply("<", (self.lo + q * self.step, self.hi)))
        p.data |= {c.name for c in self.s.carry if c.name not in self.grown}
        here = Here(self.here.active, True, self.here.ragged or ragged)
        if not ragged:
            self._place(p, q)

        def moved_on(x: Path) -> None:
            for c in self.s.carry:
                self.block.reads(c.next, x, here, self.at)

        paths = [p]
        for _ in range(2):
            paths = [x for path in paths for x in self.block.perhaps(self.s.body, path, here, None, moved_on)]
        for x in paths:
            x.facts = facts
            x.data |= data
        return paths

    def _phases(self, p: Path) -> list[Path]:
        if self.here.unsure or self.here.ragged:
            raise Loose(self.at, "a loop over a size that may not be reached")
        last: Loose | Wrong | None = None
        for look in LOOKS:
            try:
                many = self._many(p.copy(), look)
            except (Loose, Wrong) as why:
                last = why
                continue
            return [*many, *(x for n in range(2 * look + 1) for x in self._few(p, n))]
        assert last is not None
        raise last

    def _few(self, p: Path, n: int) -> list[Path]:
        """Exactly n rounds."""
        some = p.copy(*self._left(Const(0), n))
        if self.block.logic.point(some.facts).status == "proved":
            return []  # no size has so many
        paths = [some]
        for q in range(n):
            paths = merged(x for path in paths for x in self._round(path, Const(q)))
        return paths

    def _many(self, p: Path, look: int) -> list[Path]:
        """More than 2*look rounds: the start, every state of the middle, and from each of them the end."""
        p = p.copy(self._more(Const(0), 2 * look))
        if self.block.logic.point(p.facts).status == "proved":
            return []
        base, paths = p.facts, [p]
        for n in range(look):
            paths = merged(x for path in paths for x in self._round(path, Const(n)))
        period = self._period()
        j = self.block.logic.declare(f"{self.s.var}'j", "i32", 0, TOP)
        todo, seen, out = [(look % period, x) for x in paths], set(), []
        while todo:
            c, path = todo.pop()
            if (state := (c, path.key())) in seen:
                continue
            seen.add(state)
            if len(seen) > STATES:
                raise Loose(self.at, f"more than {STATES} states of its rounds")
            q: Expr = j * period + c
            among = Apply(">=", (q, Const(look)))
            out += self._end(path.copy(among, *self._left(q, look)), q, look, base)
            middle = path.copy(among, self._more(q, look))
            for x in self._round(middle, q):
                x.facts = base
                todo.append(((c + 1) % period, x))
        return merged(out)

    def _end(self, p: Path, q: Expr, look: int, base: tuple[Expr, ...]) -> list[Path]:
        """The last rounds."""
        if self.block.logic.point(p.facts).status == "proved":
            return []
        paths = [p]
        for k in range(look):
            paths = merged(x for path in paths for x in self._round(path, q + k))
        for x in paths:
            x.facts = base
        return paths

    def _left(self, q: Expr, n: int) -> tuple[Expr, ...]:
        """At round q exactly n rounds are left."""
        end = Apply("<=", (self.hi, self.lo + (q + n) * self.step))
        return (end,) if n == 0 else (Apply("<", (self.lo + (q + (n - 1)) * self.step, self.hi)), end)

    def _more(self, q: Expr, n: int) -> Expr:
        """At round q more than n rounds are left."""
        return Apply("<", (self.lo + (q + n) * self.step, self.hi))

    def _period(self) -> int:
        """Rounds after which every remainder that the body takes of the loop's variable comes again."""
        out = 1
        follow = {self.s.var, *self.grown}
        for _, x in walk(self.s.body):
            for _, e in expressions(x):
                for term in subterms(subst(e, self.block.settle.names)):
                    if isinstance(term, Apply) and term.op in ("%", "&") and names(term) & follow:
                        m = _number(term.args[1]) + (term.op == "&")
                        out = lcm(out, m // gcd(m, self.step)) if 0 < m <= 4096 else out
        return out


def _at(value: Any, t: int) -> Any:
    return value[t] if isinstance(value, tuple) else value


def _number(e: Expr) -> int:
    return int(e.value) if isinstance(e, Const) and type(e.value) is int else 0
