"""The obligations of arithmetic, derived from the body by one pass in program order; Z3 discharges each.

Every access lies in its tensor in each dimension, indices fit their integer type, wide accesses are aligned, and
operands of divisions and shifts are such that C and mathematics agree: for all sizes, blocks, threads and rounds. A
loop's variable is `lo + step*q` with a name q >= 0. Of a carried value an invariant is proved by induction: it grows by
a constant, or it stays in an interval.
"""

from __future__ import annotations

from amk.dsl.expr import Apply, Const, Expr, Var, apply, has_elements, names, subst, subterms
from amk.dsl.instructions import ROWS
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Call, Carry, For, Let, Load, Statement, Team
from amk.verify.arithmetic import ALL, INDICES, NARROW, terms
from amk.verify.asynchronous import indices, maps, operand, peer, within
from amk.verify.claims import Claims
from amk.verify.domain import BLOCKS, strides_of
from amk.verify.dtypes import family, span
from amk.verify.invariants import settled
from amk.verify.linear import growth
from amk.verify.logic import Logic
from amk.verify.operands import access, elements, offsets
from amk.verify.outcome import Malformed, NotCovered
from amk.verify.values import bounds

__all__ = ["numeric"]

I32 = 2**31 - 1


def numeric(kernel: KernelDescriptor, logic: Logic) -> Claims:
    """Every duty of arithmetic, to be discharged. Raises Malformed for an access that no size makes sound."""
    c = Claims(kernel, logic)
    for i, x in enumerate(kernel.params):
        for e in strides_of(x) if x.shape else ():  # computed in 64 bits, but under narrow casts
            wide = {n: apply("i64", n) for n in names(e) if c.types.names[n] not in ("i64", "u64")}
            terms(c, subst(e, wide), f"/params/{i}", NARROW)
        offsets(c, x)
    maps(c)
    _Pass(c).body(kernel.body, "/body")
    return c


class _Pass:
    """Statements in program order."""

    def __init__(self, c: Claims) -> None:
        self.c = c
        self.loops: list[str] = []  # whose bounds are the same for all threads
        self.carrying = 0  # loops around
        self.settled: frozenset[str] = frozenset()  # carried values whose intervals are found

    def body(self, statements: tuple[Statement, ...], pointer: str) -> None:
        for i, s in enumerate(statements):
            self.c.at = f"{pointer}/{i}"
            self.statement(s, self.c.at)

    def statement(self, s: Statement, at: str) -> None:
        if s.kind == "let":
            self.let(s, at)
        elif s.kind == "load":
            self.load(s, at)
        elif s.kind == "store":
            for v in s.values:
                self.value(v, at)
            peer(self.c, s.peer, at)
            access(self.c, s.dst, len(s.values), "store", at)
        elif s.kind == "atomic":
            self.value(s.value, at)
            access(self.c, s.dst, 1, "update", at)
        elif s.kind == "call":
            self.call(s, at)
        elif s.kind == "for":
            self.loop(s, at)
        elif s.kind == "if":
            mark = self.c.mark()
            self.condition(s.cond, at)
            self.body(s.body, f"{at}/body")
            self.c.back(mark)
        elif s.kind == "team":
            self.team(s, at)
        elif s.kind == "arrive":
            indices(self.c, s.barrier, at)
            peer(self.c, s.peer, at)
        elif s.kind == "wait" and s.barrier is not None and s.parity is not None:
            indices(self.c, s.barrier, at)
            terms(self.c, s.parity, at, ALL)
            elements(self.c, s.parity, at)

    def team(self, s: Team, at: str) -> None:
        """Each role under what it says of its threads."""
        for i, r in enumerate(s.roles):
            mark = self.c.mark()
            first, end = (32 * w for w in r.warps)
            for said in (apply(">=", "t", first),) if first > 0 else ():
                self.c.suppose(said, said)
            for said in (apply("<", "t", end),) if end < self.c.kernel.threads else ():
                self.c.suppose(said, said)
            self.body(r.body, f"{at}/roles/{i}/body")
            self.c.back(mark)

    def let(self, s: Let, at: str) -> None:
        if s.view is not None:
            for i in s.view.index:
                terms(self.c, i, at, ALL)
        elif s.value is not None:
            terms(self.c, s.value, at, INDICES if s.dtype in ("f32", "f64") else ALL)
            elements(self.c, s.value, at)
            self.c.env[s.name] = self.c.inline(s.value)
            if s.uniform:
                self.uniform(s, at)

    def uniform(self, s: Let, at: str) -> None:
        """A value that is kept once a warp is the same for two threads of any warp."""
        value, other = self.c.env[s.name], self.c.name("other t", "i32", 0, self.c.kernel.threads - 1)
        alike = {"t", *BLOCKS, *self.c.logic.sizes, *(f"{x}'q" for x in self.loops)}
        if names(value) - alike:  # data, or what a loop carries
            raise NotCovered(at, f"that {s.name} is the same in all threads of a warp")
        warp = Apply("==", (apply("//", "t", 32), other // 32))
        if not self.c.logic.holds(Apply("==", (value, subst(value, {"t": other}))), [*self.c.facts, warp]):
            raise Malformed(at, f"{s.name} is declared uniform, and {s.value} may differ inside a warp")

    def load(self, s: Load, at: str) -> None:
        access(self.c, s.dst, s.width, "fill", at)
        if s.other is not None:
            self.value(s.other, at)
        mark = self.c.mark()
        if s.when is not None:
            self.condition(s.when, at)
        peer(self.c, s.peer, at)
        access(self.c, s.src, s.width, "load", at)
        self.c.back(mark)

    def call(self, s: Call, at: str) -> None:
        row = ROWS[s.row]
        for e in s.args.values():
            self.value(e, at)
        if row.multicast in s.args:
            within(self.c, "AMK202", s.args[row.multicast], 1, (1 << self.c.kernel.cluster) - 1, "the mask", at)
        peer(self.c, s.args.get("peer"), at)
        for o in row.operands:
            mark, guard = self.c.mark(), s.args.get(row.guard or "")
            if o.mode == "read" and guard is not None:
                self.c.suppose(self.c.inline(guard), guard)
            operand(self.c, s, o, at)
            self.c.back(mark)

    def condition(self, cond: Expr, at: str) -> None:
        self.value(cond, at)
        self.c.suppose(self.c.inline(cond), cond)

    def value(self, e: Expr, at: str) -> None:
        """What a value asks for: sums of data may wrap as their author likes."""
        terms(self.c, e, at, INDICES)
        elements(self.c, e, at)

    # -- loops -------------------------------------------------------------------------------------------------------
    def loop(self, s: For, at: str) -> None:
        c = self.c
        for e in (s.lo, s.hi, s.step, *(x.init for x in s.carry if x.dtype not in ("f32", "f64"))):
            terms(c, e, at, ALL)
        for e in (s.lo, s.hi, s.step, *(x.init for x in s.carry)):
            elements(c, e, at)
        lo, hi, step = (c.inline(e) for e in (s.lo, s.hi, s.step))
        if not isinstance(step, Const):
            c.claim("AMK208", at, f"{s.step} >= 1", Apply(">=", (step, Const(1))), f"{s.step} >= 1")
            c.learn(step, 1)
        claim = f"{s.var} stays in i32 past its last value"
        c.claim("AMK204", at, claim, Apply("<=", (hi + (step - 1), Const(I32))))
        inits = [c.inline(x.init) for x in s.carry]
        mark, q = c.mark(), c.name(f"{s.var}'q")
        c.env[s.var] = lo + q * step
        if not self.carrying:
            self.settled = settled(c, s)
        self.carrying += 1
        c.suppose(Apply("<", (c.env[s.var], hi)), Apply("<", (Var(s.var), s.hi)))
        grown = self._carried(s, inits, q)
        alike = "t" not in names(lo) | names(hi) and not has_elements(s.hi) and not has_elements(s.lo)
        self.loops += [s.var] if alike else []
        self.body(s.body, f"{at}/body")
        c.at = f"{at}/next"  # registers may hold other values by now
        for x in s.carry:
            self.value(x.next, at)
        c.back(mark)
        self.carrying -= 1
        self._after(s, lo, hi, step, grown)

    def _carried(self, s: For, inits: list[Expr], q: Var) -> dict[str, tuple[Expr, int]]:
        """Says what is known of each carried value; returns those that grow by a constant, with it and their start."""
        c, ends = self.c, _ends(s)
        grown: dict[str, tuple[Expr, int]] = {}
        for x, init in zip(s.carry, inits, strict=True):
            if x.name not in self.settled:
                c.logic.declare(x.name, x.dtype)
            by = growth(x.name, subst(x.next, ends))
            if by is not None and x.dtype in ("i32", "i64"):
                grown[x.name] = init, by
        c.env |= {n: init + q * by for n, (init, by) in grown.items()}
        ends = {n: subst(e, c.env) for n, e in ends.items()}
        for x, init in zip(s.carry, inits, strict=True):
            if x.name not in grown and x.name not in self.settled and family(x.dtype) == "int":
                self._bounded(x, init, subst(x.next, {**c.env, **ends}))
        return grown

    def _bounded(self, x: Carry, init: Expr, after: Expr) -> None:
        """The first interval that holds the first value and that a round keeps, by induction; else that of the type."""
        whole, me, c = span(x.dtype), Var(x.name), self.c
        assert whole is not None
        if has_elements(after):
            return
        consts = {int(e.value) for e in subterms(after) if isinstance(e, Const) and type(e.value) is int}
        first = bounds(init, c.logic.box)
        lows = sorted({n for n in (first[0], 0) if n is not None}, reverse=True)
        highs = sorted({k - d for k in consts for d in (0, 1)} | {n for n in (first[1],) if n is not None})
        for low, high in ((low, high) for low in lows for high in highs if high >= low):
            kept = Apply("and", (Apply("<=", (Const(low), me)), Apply("<=", (me, Const(high)))))
            begins = c.logic.holds(subst(kept, {x.name: init}), c.facts)
            if begins and c.logic.holds(subst(kept, {x.name: after}), [*c.facts, kept]):
                c.logic.box[x.name] = max(low, whole[0]), min(high, whole[1])
                return

    def _after(self, s: For, lo: Expr, hi: Expr, step: Expr, grown: dict[str, tuple[Expr, int]]) -> None:
        """After the loop, values that grow are known by the number of rounds that were made."""
        self.c.env.pop(s.var, None)
        if not isinstance(step, Const):
            for name in grown:  # known by its type alone
                self.c.env.pop(name, None)
        elif grown:
            n = self.c.name(f"{s.var}'n")
            ran = Apply("<", (lo + (n - 1) * step, hi))
            self.c.facts.append(Apply("or", (Apply("==", (n, Const(0))), ran)))
            self.c.facts.append(Apply(">=", (lo + n * step, hi)))
            self.c.env |= {name: init + n * by for name, (init, by) in grown.items()}


def _ends(s: For) -> dict[str, Expr]:
    """The values of the body's own names at its end, over the names of its start."""
    out: dict[str, Expr] = {}
    for x in s.body:
        if x.kind == "let" and x.value is not None:
            out[x.name] = subst(x.value, out)
    return out
