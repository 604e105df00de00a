"""The walk that states the claims of each statement: its expressions, its accesses, its loops.

In: a Prover. Out: obligations and findings in it. Claims are stated under the conditions that hold at the statement.
"""

from __future__ import annotations

from amk.dsl.expr import Const, Elem, Expr, Var, apply, has_elements, integers, subterms
from amk.dsl.infer import infer
from amk.dsl.instructions import ROWS, Operand
from amk.dsl.kernel import children
from amk.dsl.nodes import Buffer, Call, For, Let, Load, Param, Statement, Store, Team, TensorMap, Wait
from amk.dsl.types import nbytes
from amk.harness.access import Access, check_access, check_box, check_strides, check_tile
from amk.harness.arithmetic import Arithmetic
from amk.harness.bounds import Prover, minus
from amk.harness.induction import enter_loop, leave_loop
from amk.harness.row_operands import elements

__all__ = ["Walk"]


class Walk:
    """One pass over the body in program order."""

    def __init__(self, p: Prover) -> None:
        self.p, self.kernel = p, p.context.kernel
        self.sums = Arithmetic(p)

    def run(self) -> None:
        for x in self.kernel.tensors:
            check_strides(self.p, x)
        self.body(self.kernel.body, "/body")

    def body(self, statements: tuple[Statement, ...], pointer: str) -> None:
        for i, s in enumerate(statements):
            self.p.snapshot.clear()
            self.statement(s, f"{pointer}/{i}")

    def statement(self, s: Statement, at: str) -> None:
        if s.kind == "let":
            self.let(s, at)
        elif s.kind == "load":
            self.load(s, at)
        elif s.kind == "store":
            self.store(s, at)
        elif s.kind == "atomic":
            self.sums.value(s.value, at)
            self.elements(s.value, at)
            self.access(s.dst, 1, "update", at)
            if s.old is not None:
                self.access(s.old, 1, "fill", at)
        elif s.kind == "call":
            self.call(s, at)
        elif s.kind == "for":
            self.loop(s, at)
        elif s.kind == "if":
            self.branch(s.cond, s, at)
        elif s.kind == "team":
            self.team(s, at)
        elif s.kind == "arrive":
            self.indices(s.barrier, at)
            self.peer(s.peer, at)
        elif s.kind == "wait" and s.barrier is not None and s.parity is not None:
            self.indices(s.barrier, at)
            self.sums.check(s.parity, at)
            self.elements(s.parity, at)
        elif s.kind == "wait" and s.flag is not None and s.value is not None:
            self.access(s.flag, 1, "wait", at)
            self.sums.check(s.value, at)
            self.elements(s.value, at)
            self.earlier(s, at)

    # -- data -------------------------------------------------------------------------------------------------------
    def let(self, s: Let, at: str) -> None:
        if s.view is not None:
            for i in s.view.index:
                self.sums.check(i, at)
        elif s.value is not None:
            self.sums.value(s.value, at) if s.dtype in ("f32", "f64") else self.sums.check(s.value, at)
            self.elements(s.value, at)
            self.p.env[s.name] = self.p.inline(s.value)

    def load(self, s: Load, at: str) -> None:
        self.access(s.dst, s.width, "fill", at)
        if s.other is not None:
            self.sums.value(s.other, at)
            self.elements(s.other, at)
        mark = self.p.mark()
        if s.when is not None:
            self.condition(s.when, at)
        self.peer(s.peer, at)
        self.access(s.src, s.width, "load", at)
        self.p.back(mark)

    def store(self, s: Store, at: str) -> None:
        for v in s.values:
            self.sums.value(v, at)
            self.elements(v, at)
        self.peer(s.peer, at)
        self.access(s.dst, len(s.values), "store", at)

    def call(self, s: Call, at: str) -> None:
        row = ROWS[s.row]
        for a in s.args.values():
            self.sums.value(a, at)
            self.elements(a, at)
        if row.multicast in s.args:
            self.within(
                s.args[row.multicast], 1, (1 << self.kernel.cluster) - 1, "the mask", "blocks of the cluster", at
            )
        if "peer" in s.args:
            self.peer(s.args["peer"], at)
        for o in row.operands:
            if o.role in s.refs:
                mark = self.p.mark()
                if o.mode == "read" and row.guard in s.args:
                    self.p.assume(self.p.inline(s.args[row.guard or ""]), s.args[row.guard or ""])
                self.operand(s, o, at)
                self.p.back(mark)

    def operand(self, s: Call, o: Operand, at: str) -> None:
        """One operand of a row: a map's box may lie outside its tensor, everything else has bounds and alignment."""
        ref = s.refs[o.role]
        d = self.kernel.find(ref.buffer)
        if not isinstance(d, (Param, Buffer)):
            self.indices(ref, at)
            if isinstance(d, TensorMap):
                self.coordinates(ref, f"{s.row} {o.role}", at)
                check_box(self.p, s, o, ref, at)
        elif o.box or o.tile:
            self.indices(ref, at)
            check_tile(self.p, s, o, ref, at)
        else:
            if o.lanes < 32:  # the addresses of other lanes are not used
                low = apply("<", apply("%", "t", 32), o.lanes)
                self.p.assume(low, low)
            n = elements(o, s, d.dtype)
            self.access(ref, n, f"{s.row} {o.role}", at, o.align if o.counted else max(o.align, n * nbytes(d.dtype)))

    def earlier(self, s: Wait, at: str) -> None:
        """A wait for the flag of an earlier block, where that is what shows that it ends."""
        lower = self.p.context.messages.lower.get(at)
        if lower is not None:
            claim, message = (
                f"{s.flag} is the flag of an earlier block",
                f"{s.flag} may be the flag of a later block, or its own",
            )
            goal = minus(Var("bx"), self.p.inline(lower), 1)
            self.p.require("AMK315", at, goal, claim, message, "wait for blocks below bx alone")

    def coordinates(self, ref: Elem, what: str, at: str) -> None:
        """Coordinates of a box are 32-bit integers; where the box lies does not matter."""
        for n, i in enumerate(ref.index):
            if infer(i, self.sums.types, self.kernel) in ("i64", "u64", "u32"):
                self.within(i, -(2**31), 2**31 - 1, f"{what} {ref}, coordinate {n}", "i32", at, code="AMK204")

    def within(self, e: Expr, low: int, high: int, what: str, of: str, at: str, *, code: str = "AMK202") -> None:
        """A claim that a value lies in an interval."""
        inlined = self.p.inline(e)
        message = f"{what} {e} can leave the {of} [{low}, {high}]"
        hint = f"guard with `{low} <= {e} and {e} <= {high}`"
        self.p.require(code, at, minus(inlined, low), f"{what} {e} >= {low}", message, hint)
        self.p.require(code, at, minus(Const(high), inlined), f"{what} {e} <= {high}", message, hint)

    def peer(self, e: Expr | None, at: str) -> None:
        """The rank of a block that is in the cluster."""
        if e is not None:
            self.sums.check(e, at)
            self.elements(e, at)
            self.within(e, 0, self.kernel.cluster - 1, "the peer", "ranks of the cluster", at)

    def indices(self, ref: Elem, at: str) -> None:
        for i in ref.index:
            self.sums.check(i, at)
            self.elements(i, at)

    def access(self, ref: Elem, width: int, what: str, at: str, align: int = 0) -> None:
        """One operand of `width` elements, aligned to its bytes or to `align` of them."""
        self.indices(ref, at)
        full = self.kernel.resolve(ref)
        d = self.kernel.declarations[full.buffer]
        assert isinstance(d, (Param, Buffer))
        check_access(self.p, Access(ref, full, width, align or width * nbytes(d.dtype), what, at))

    def elements(self, e: Expr, at: str) -> None:
        """The register elements that a value reads."""
        if not has_elements(e):
            return
        for x in subterms(e):
            if isinstance(x, Elem):
                full = self.kernel.resolve(x)
                check_access(self.p, Access(x, full, 1, 1, "read", at))

    # -- control ----------------------------------------------------------------------------------------------------
    def condition(self, cond: Expr, at: str) -> None:
        self.sums.value(cond, at)
        self.elements(cond, at)
        self.p.assume(self.p.inline(cond), cond)

    def branch(self, cond: Expr, s: Statement, at: str) -> None:
        mark = self.p.mark()
        self.condition(cond, at)
        for below, inner in children(s):
            self.body(inner, at + below)
        self.p.back(mark)

    def team(self, s: Team, at: str) -> None:
        for i, r in enumerate(s.roles):
            mark = self.p.mark()
            first, end = (32 * w for w in r.warps)
            if first > 0:
                self.p.assume(apply(">=", "t", first), apply(">=", "t", first))
            if end < self.kernel.threads:
                self.p.assume(apply("<", "t", end), apply("<", "t", end))
            self.body(r.body, f"{at}/roles/{i}/body")
            self.p.back(mark)

    def loop(self, s: For, at: str) -> None:
        for e in (s.lo, s.hi, s.step, *(c.init for c in s.carry if c.dtype not in ("f32", "f64"))):
            self.sums.check(e, at)
        for e in (s.lo, s.hi, s.step, *(c.init for c in s.carry)):
            self.elements(e, at)
        lo, hi, step = (self.p.inline(e) for e in (s.lo, s.hi, s.step))
        if integers(step) is None:
            message = f"the step {s.step} of {s.var} can be zero or negative"
            self.p.require("AMK208", at, minus(step, 1), f"{s.step} >= 1", message, "the loop would not end: raise it")
        end = minus(apply("+", hi, step), 1)
        message = f"{s.var} passes 2147483647 when the loop to {s.hi} ends"
        goal = minus(Const(2**31 - 1), end)
        self.p.require("AMK204", at, goal, f"{s.var} stays in i32 past its last value", message, "lower the size's max")
        mark = self.p.mark()
        after = enter_loop(self.p, s, lo, hi, step)
        self.body(s.body, at + "/body")
        self.p.snapshot.clear()
        for e in (*(c.next for c in s.carry), *(() if s.until is None else (s.until,))):
            self.sums.value(e, at)
            self.elements(e, at)
        self.p.back(mark)
        leave_loop(self.p, after)
