"""The walk that states the claims of each statement: its expressions, its accesses, its loops.

In: a Prover. Out: obligations and findings in it. Claims are stated under the conditions that hold at the statement.
"""

from __future__ import annotations

from amk.dsl.expr import Const, Elem, Expr, apply, has_elements, subterms
from amk.dsl.instructions import ROWS
from amk.dsl.kernel import children
from amk.dsl.nodes import Buffer, Call, For, Let, Load, Param, Statement, Store
from amk.dsl.types import nbytes
from amk.harness.access import Access, check_access, check_strides
from amk.harness.arithmetic import Arithmetic
from amk.harness.bounds import Prover, minus
from amk.harness.induction import enter_loop, leave_loop

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
        elif s.kind == "call":
            self.call(s, at)
        elif s.kind == "for":
            self.loop(s, at)
        elif s.kind == "if":
            self.branch(s.cond, s, at)

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
        self.access(s.src, s.width, "load", at)
        self.p.back(mark)

    def store(self, s: Store, at: str) -> None:
        for v in s.values:
            self.sums.value(v, at)
            self.elements(v, at)
        self.access(s.dst, len(s.values), "store", at)

    def call(self, s: Call, at: str) -> None:
        row = ROWS[s.row]
        for a in s.args.values():
            self.sums.value(a, at)
            self.elements(a, at)
        for o in row.operands:
            if o.role in s.refs:
                mark = self.p.mark()
                if o.mode == "read" and row.guard in s.args:
                    self.p.assume(self.p.inline(s.args[row.guard or ""]))
                self.access(s.refs[o.role], 0, f"{s.row} {o.role}", at, o.nbytes, o.align)
                self.p.back(mark)

    def access(self, ref: Elem, width: int, what: str, at: str, size: int = 0, align: int = 0) -> None:
        """One operand: `width` elements, or `size` bytes (0: one element)."""
        for i in ref.index:
            self.sums.check(i, at)
            self.elements(i, at)
        full = self.kernel.resolve(ref)
        d = self.kernel.declarations[full.buffer]
        assert isinstance(d, (Param, Buffer))
        width = width or max(1, size // nbytes(d.dtype) if size else 1)
        check_access(self.p, Access(ref, full, width, max(align, width * nbytes(d.dtype)), what, at))

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
        self.p.assume(self.p.inline(cond))

    def branch(self, cond: Expr, s: Statement, at: str) -> None:
        mark = self.p.mark()
        self.condition(cond, at)
        for below, inner in children(s):
            self.body(inner, at + below)
        self.p.back(mark)

    def loop(self, s: For, at: str) -> None:
        for e in (s.lo, s.hi, s.step, *(c.init for c in s.carry if c.dtype not in ("f32", "f64"))):
            self.sums.check(e, at)
        for e in (s.lo, s.hi, s.step, *(c.init for c in s.carry)):
            self.elements(e, at)
        lo, hi, step = (self.p.inline(e) for e in (s.lo, s.hi, s.step))
        end = minus(apply("+", hi, step), 1)
        message = f"{s.var} passes 2147483647 when the loop to {s.hi} ends"
        goal = minus(Const(2**31 - 1), end)
        self.p.require("AMK204", at, goal, f"{s.var} stays in i32 past its last value", message, "lower the size's max")
        mark = self.p.mark()
        after = enter_loop(self.p, s, lo, hi, step)
        self.body(s.body, at + "/body")
        self.p.snapshot.clear()
        for c in s.carry:
            self.sums.value(c.next, at)
            self.elements(c.next, at)
        self.p.back(mark)
        leave_loop(self.p, after)
