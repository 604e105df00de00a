"""Duties of an operand: inside its array in each dimension, and aligned for its width."""

from __future__ import annotations

from math import gcd

from amk.dsl.expr import Apply, Const, Elem, Expr, Var, subterms
from amk.dsl.layout import Strided, Swizzle
from amk.dsl.nodes import Buffer, Param
from amk.dsl.types import nbytes
from amk.verify.address import byte_offset, combined, elements_of, strides_in
from amk.verify.arithmetic import ALL, terms
from amk.verify.claims import Claims
from amk.verify.domain import strides_of
from amk.verify.linear import linear
from amk.verify.logic import Logic
from amk.verify.outcome import Malformed

__all__ = ["access", "divisible", "elements", "offsets"]

I32 = 2**31 - 1


def access(
    c: Claims, ref: Elem, width: int, what: str, at: str, align: int = 0, *, exact: bool = False
) -> None:  # fmt: skip
    """One operand of `width` elements: its index arithmetic, its bounds, its alignment.

    It is aligned to its own bytes or to `align`, whichever is more; with `exact`, to `align`.
    """
    for i in ref.index:
        terms(c, i, at, ALL)
        elements(c, i, at)
    d = c.kernel.find(ref.buffer)
    assert isinstance(d, (Param, Buffer))
    need = align if exact else max(align, width * nbytes(d.dtype))
    if isinstance(d, Param):
        _inside(c, ref, width, what, at)
        _aligned_global(c, ref, d, width, need, f"{what} {ref}", at)
    elif d.space == "shared":  # the walk of a block sees its bounds, unless data decide
        full = c.kernel.resolve(ref).index
        if any(map(c.follows_data, full)):
            _inside(c, ref, width, what, at)
        if width > d.shape[-1]:  # a run over several rows
            flat = combined(tuple(map(c.inline, full)), tuple(map(Const, strides_in(d))))
            c.lies(d.name, flat, width, elements_of(d))
        else:
            for k, (i, n) in enumerate(zip(full, d.shape, strict=True)):
                c.lies(d.name, c.inline(i), width if k == len(full) - 1 else 1, n)
        _aligned_shared(c, ref, d, width, need, f"{what} {ref}", at)
    else:
        _inside(c, ref, width, what, at)


def elements(c: Claims, e: Expr, at: str) -> None:
    """The register elements that a value reads are inside their arrays."""
    for x in subterms(e):
        if isinstance(x, Elem):
            _inside(c, x, 1, "read", at)


def _inside(c: Claims, ref: Elem, width: int, what: str, at: str) -> None:
    full = c.kernel.resolve(ref)
    d = c.kernel.find(ref.buffer)
    assert isinstance(d, (Param, Buffer))
    rule = "AMK201" if isinstance(d, Param) else "AMK202" if d.space == "shared" else "AMK203"
    extents = [Const(n) if isinstance(n, int) else n for n in d.shape or ()]
    for k, (i, size) in enumerate(zip(full.index, extents, strict=True)):
        w = width if k == len(extents) - 1 else 1
        if isinstance(i, Const) and isinstance(size, Const) and 0 <= i.value <= size.value - w:
            continue
        index, extent, of = c.inline(i), c.inline(size), f"{what} {ref}, dimension {k}: "
        low, high = f"{i} >= 0", f"{i} + {w} <= {size}" if w > 1 else f"{i} < {size}"
        c.claim(rule, at, of + low, Apply(">=", (index, Const(0))), low)
        c.claim(rule, at, of + high, Apply("<=", (index + w, extent)), high)


# ----------------------------------------------------------------------------------------------------------- alignment
def _aligned_global(c: Claims, ref: Elem, d: Param, width: int, need: int, what: str, at: str) -> None:
    strides = strides_of(d)
    if d.align % need:
        raise Malformed(at, f"{what} needs {need} bytes of alignment, and {d.name} has {d.align}")
    if width > 1 and strides[-1] != Const(1):
        raise Malformed(at, f"{what} is {width} wide, and the last stride of {d.name} is {strides[-1]}")
    if need > nbytes(d.dtype):
        index = tuple(map(c.inline, c.kernel.resolve(ref).index))
        _multiple(c, combined(index, tuple(map(c.inline, strides))), need // nbytes(d.dtype), need, what, at)


def _aligned_shared(c: Claims, ref: Elem, d: Buffer, width: int, need: int, what: str, at: str) -> None:
    if need <= nbytes(d.dtype) <= d.align:
        return
    split = isinstance(d.layout, Strided) and d.layout.strides[-1] != 1
    torn = isinstance(d.layout, Swizzle) and width > 1 << d.layout.base
    if width > 1 and (split or torn):
        raise Malformed(at, f"{what}: {width} elements are no neighbours in the layout of {d.name}")
    if d.align % min(need, 16):
        raise Malformed(at, f"{what} needs {need} bytes of alignment, and {d.name} has {d.align}")
    if need > 1:
        index = tuple(map(c.inline, c.kernel.resolve(ref).index))
        _multiple(c, byte_offset(c.kernel, d, index), need, need, what, at)


def _multiple(c: Claims, address: Expr, n: int, need: int, what: str, at: str) -> None:
    """The address counts units of which n make up the alignment: coefficients show most, the solver the rest."""
    divisible(c, "AMK205", at, f"{what}: aligned to {need} bytes", address, n)


def divisible(c: Claims, rule: str, at: str, claim: str, e: Expr, n: int) -> None:
    """A claim that a term is a multiple of n."""
    if _divisor(c.logic, e) % n == 0:
        c.shown(rule, at, claim)
    else:
        c.claim(rule, at, claim, Apply("==", (Apply("%", (e, Const(n))), Const(0))))


def _divisor(logic: Logic, e: Expr) -> int:
    """A number that divides the term, from the factors before its names and the multiples that sizes are of."""
    out = 0
    for atom, factor in linear(e).items():
        out = gcd(out, factor * (logic.steps.get(atom.name, 1) if isinstance(atom, Var) else _inner(logic, atom)))
    return out


def _inner(logic: Logic, atom: Expr) -> int:
    if not isinstance(atom, Apply):
        return 1
    each = [_divisor(logic, x) for x in atom.args]
    if atom.op == "*":
        return each[0] * each[1]
    if atom.op in ("^", "|"):  # low bits that are zero on both sides stay zero
        both = gcd(*each)
        return both & -both
    if atom.op in ("min", "max", "%"):
        return gcd(*each)
    if atom.op == "select":
        return gcd(*each[1:])
    return each[0] if atom.op in ("i32", "i64", "u32") else 1


def offsets(c: Claims, x: Param) -> None:
    """Offsets that are computed in 32 bits fit them: that of the last element is the largest."""
    if x.offsets == "i32" and x.shape:
        last = combined(tuple(c.inline(n) - 1 for n in x.shape), tuple(map(c.inline, strides_of(x))))
        c.claim("AMK204", c.kernel.pointer_of(x.name), f"offsets of {x.name} fit i32", Apply("<=", (last, Const(I32))))
