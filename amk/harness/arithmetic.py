"""Claims about the arithmetic inside expressions: no 32-bit overflow, and operands for which C and Python agree.

`//`, `%` and `>>` round down in Python and towards zero (or as they like) in C, so their left operands must not be
negative. `cdiv` is printed as a function that rounds up for every dividend (`prelude/arith.cuh`), so only its divisor
has a claim, and no quotient by a divisor of at least 1 is larger than its dividend.
"""

from __future__ import annotations

from typing import Literal

from amk.dsl.expr import Apply, Const, Elem, Expr, Var, apply, has_elements, names, negate, parts, subst, subterms
from amk.dsl.infer import infer, variable_types
from amk.harness.bounds import Prover, minus
from amk.harness.intervals import of_dtype

__all__ = ["Arithmetic"]

GROWING = frozenset(("+", "-", "*", "neg", "<<"))
DIVIDING = frozenset(("//", "%", "cdiv"))
INTEGERS = frozenset(("i8", "i32", "i64", "int", "u8", "u32", "u64"))
# Which sums and products must fit their type: all; all but those of data; those that are done in 32 bits.
Sums = Literal["all", "indices", "narrow"]


class Arithmetic:
    """States the claims of every subterm of an expression, each under the conditions that guard it."""

    def __init__(self, p: Prover) -> None:
        self.p, self.kernel = p, p.context.kernel
        self.types = variable_types(self.kernel)
        self._safe: set[tuple[Expr, str]] = set()
        self._data: dict[Expr, bool] = {}

    def value(self, e: Expr, at: str) -> None:
        """As `check`, without the sums of data (elements), which may wrap as their author likes."""
        self.check(e, at, sums="indices")

    def strides(self) -> None:
        """The claims of every stride that the device computes, as it is printed: in 64 bits but under narrow casts.

        Its product over the later extents needs no claim of its own: a tensor that large cannot be handed over.
        """
        for i, p in enumerate(self.kernel.params):
            for e in self.kernel.strides_of(p) if p.shape else ():
                wide = {n: apply("i64", n) for n in names(e) if self.types.get(n) not in ("i64", "u64")}
                self.check(subst(e, wide), f"/params/{i}", sums="narrow")

    def check(self, e: Expr, at: str, *, sums: Sums = "all") -> None:
        """Every claim of the expression."""
        if isinstance(e, (Var, Const)):
            return
        if isinstance(e, Apply) and e.op in ("select", "and", "or"):
            self._guarded(e, at, sums)
            return
        for x in parts(e):
            self.check(x, at, sums=sums if isinstance(e, Apply) else "all")
        if isinstance(e, Apply):
            self._claims(e, at, sums)

    def _guarded(self, e: Apply, at: str, sums: Sums) -> None:
        """Branches of a selection, and what stands right of `and` and `or`, are evaluated under a condition."""
        cond, *rest = e.args
        self.check(cond, at, sums=sums)
        inlined = self.p.inline(cond)
        sides = (inlined, negate(inlined)) if e.op == "select" else (inlined if e.op == "and" else negate(inlined),)
        guards = (cond, negate(cond)) if e.op == "select" else (cond if e.op == "and" else negate(cond),)
        for x, side, guard in zip(rest, sides, guards, strict=True):
            mark = self.p.mark()
            self.p.assume(side, guard)
            self.check(x, at, sums=sums)
            self.p.back(mark)

    def _claims(self, e: Apply, at: str, sums: Sums) -> None:
        if e.op in DIVIDING or e.op in ("<<", ">>"):
            self._operands(e, at)
        if (e.op in GROWING or e.op in ("i32", "u32")) and (sums != "indices" or not has_elements(e)):
            self._fits(e, at, sums)

    def _operands(self, e: Apply, at: str) -> None:
        dtype = infer(e, self.types, self.kernel)
        if dtype not in INTEGERS:
            return
        a, b = self.p.inline(e.args[0]), self.p.inline(e.args[1])
        if e.op in DIVIDING:
            self._sign(minus(b, 1), f"{e.args[1]} in {e} can be zero or negative", f"{e.args[1]} >= 1", at)
            if e.op != "cdiv" or dtype[0] == "u":  # a negative unsigned dividend would be a large one on the device
                self._sign(a, f"{e.args[0]} in {e} can be negative", f"{e.args[0]} >= 0", at)
            return
        top = 63 if infer(e.args[0], self.types, self.kernel) in ("i64", "u64") else 31
        self._sign(b, f"the shift {e.args[1]} in {e} can be negative", f"{e.args[1]} >= 0", at)
        self._sign(minus(Const(top), b), f"the shift in {e} can exceed {top}", f"{e.args[1]} <= {top}", at)
        self._sign(a, f"{e.args[0]} in {e} can be negative", f"{e.args[0]} >= 0", at)

    def _sign(self, goal: Expr, message: str, claim: str, at: str) -> None:
        operand, relation, bound = claim.rpartition(" >= ") if " >= " in claim else claim.rpartition(" <= ")
        clamped = f"{'max' if '>' in relation else 'min'}({operand}, {bound})"
        self.p.require("AMK208", at, goal, claim, message, f"guard it with `{claim}`, or clamp it: {clamped}")

    def _fits(self, e: Apply, at: str, sums: Sums) -> None:
        inlined = self.p.inline(e.args[0] if e.op in ("i32", "u32") else e)
        dtype = e.op if e.op in ("i32", "u32") else infer(e, self.types, self.kernel)
        if e.op in ("i32", "u32") and infer(e.args[0], self.types, self.kernel) in ("f32", "f64", "float"):
            return
        dtype = "i32" if dtype == "int" else dtype
        if sums == "narrow" and dtype not in ("i32", "u32"):
            return
        lo, hi = of_dtype(dtype)
        if hi >= 1 << 64 and dtype != "u64":
            return  # floating point
        self._between(e, inlined, lo, hi, dtype, at)

    def _between(self, e: Apply, inlined: Expr, lo: int, hi: int, dtype: str, at: str) -> None:
        if (inlined, dtype) in self._safe:  # what fits 64 bits may still not fit 32
            return self.p.note("AMK204", at, f"{e} fits {dtype}")
        a, b = self.p.facts.interval(inlined)
        if lo <= a and b <= hi and self.p.context.prover != "both":
            self._safe.add((inlined, dtype))
            return self.p.note("AMK204", at, f"{e} fits {dtype}")
        leaf = next((x for x in subterms(e) if isinstance(x, (Var, Elem))), e)
        hint = f"compute it in 64 bits, as in i64({leaf}), or lower the max of a size in it"
        message = f"{e} does not fit {dtype} for all sizes (up to {b})" if b < 1 << 100 else f"{e} may leave {dtype}"
        ok = self.p.require("AMK204", at, minus(Const(hi), inlined), f"{e} <= {hi}", message, hint)
        if ok:
            message = f"{e} does not fit {dtype} for all sizes (down to {a})"
            self.p.require("AMK204", at, minus(inlined, lo), f"{e} >= {lo}", message, hint)
