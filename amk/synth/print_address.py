"""Addresses as C text: the element of an operand is `base[offset]`, with the offset that the layout gives.

Offsets in global memory are summed in 64 bits unless the parameter says that 32 suffice. A view becomes a pointer where
moving it by an index is adding to the address, which a swizzle rules out: then the whole offset is printed each time.
"""

from __future__ import annotations

from functools import cached_property

from amk.dsl.expr import Apply, Const, Elem, Expr, apply, names, subst
from amk.dsl.kernel import walk
from amk.dsl.layout import Swizzle, linear, offset, strides
from amk.dsl.nodes import Buffer, Param
from amk.dsl.types import DTYPES
from amk.synth.print_expr import ExprPrinter, unsupported

__all__ = ["AddressPrinter"]


class AddressPrinter(ExprPrinter):
    """Spells the operands of one kernel."""

    @cached_property
    def view_lets(self) -> dict[str, Elem]:
        """Each view as its author wrote it (a view of a view is not resolved)."""
        return {s.name: s.view for _, s in walk(self.kernel.body) if s.kind == "let" and s.view is not None}

    def declared(self, ref: Elem) -> Param | Buffer:
        """The tensor or buffer that an operand stands in."""
        d = self.kernel.find(ref.buffer)
        if not isinstance(d, (Param, Buffer)):
            raise unsupported(f"the operand {ref}")
        return d

    def space(self, ref: Elem) -> str:
        """global, shared or register."""
        return self.kernel.space(ref)

    def element_type(self, ref: Elem) -> str:
        return self.declared(ref).dtype

    def ctype(self, dtype: str) -> str:
        """How C spells a dtype."""
        return DTYPES[dtype].c

    def is_pointer(self, view: str) -> bool:
        """Whether a view is printed as a pointer: not in registers, and not where a swizzle moves elements about."""
        d = self.declared(self.view_lets[view])
        return isinstance(d, Param) or (d.space == "shared" and not isinstance(d.layout, Swizzle))

    def pointer_type(self, ref: Elem) -> str:
        """The type of a pointer to the element of an operand."""
        d = self.declared(ref)
        return (
            f"const {self.ctype(d.dtype)}*"
            if isinstance(d, Param) and d.access == "read"
            else f"{self.ctype(d.dtype)}*"
        )

    def address(self, ref: Elem) -> str:
        """A pointer to the element."""
        return f"&{self.element(ref)}"

    def element(self, ref: Elem) -> str:
        """The element itself, as something to read or assign."""
        if self.space(ref) == "register":
            return self.register(ref)
        base, at = self.place(ref)
        return f"{base}[{self.expr(at)}]"

    def place(self, ref: Elem) -> tuple[str, Expr]:
        """The pointer that an operand is addressed from, and the offset from there in elements."""
        if ref.buffer not in self.view_lets or not self.is_pointer(ref.buffer):
            ref = self.kernel.resolve(ref)
        d = self.declared(ref)
        if isinstance(d, Param):
            return ref.buffer, self._global(d, ref.index)
        if isinstance(d.layout, Swizzle):
            return ref.buffer, offset(d.shape, d.layout, ref.index)
        return ref.buffer, linear(ref.index, strides(d.shape, d.layout)[len(d.shape) - len(ref.index) :])

    def _global(self, p: Param, index: tuple[Expr, ...]) -> Expr:
        """The offset of the last dimensions of a tensor."""
        steps = self.kernel.strides_of(p)
        steps = steps[len(steps) - len(index) :]
        if p.offsets == "i32":
            return linear(index, steps)
        plain = sum(s == Const(1) and not isinstance(i, Const) for i, s in zip(index, steps, strict=True))
        terms = (self._term(i, s, alone=plain == 1) for i, s in zip(index, steps, strict=True))
        return sum(terms, Const(0))

    def _term(self, i: Expr, stride: Expr, alone: bool) -> Expr:
        """Index times stride in 64 bits; `alone` says that the rest of the sum is 64 bits wide already."""
        if stride == Const(1):
            return i if alone else self._wide(i)
        if isinstance(i, Const) or isinstance(stride, Apply):
            stride = self._wide_leaves(stride)
        return apply("*", stride, i) if isinstance(i, Const) else apply("*", self._wide(i), stride)

    def _wide(self, e: Expr) -> Expr:
        return e if isinstance(e, Const) or self.type_of(e) in ("i64", "u64") else apply("i64", e)

    def _wide_leaves(self, e: Expr) -> Expr:
        """A stride whose own products are done in 64 bits."""
        return subst(e, {n: apply("i64", n) for n in names(e) if self.types.get(n) not in ("i64", "u64")})
