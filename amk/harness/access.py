"""Claims about one operand: in bounds in each dimension, aligned for its width, contiguous along the last dimension."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from amk.dsl.expr import Apply, Const, Elem, Expr, apply
from amk.dsl.instructions import Operand
from amk.dsl.layout import Strided, Swizzle, linear, strides
from amk.dsl.nodes import Buffer, Call, Param, TensorMap
from amk.dsl.types import nbytes
from amk.harness.bounds import Finding, Prover, minus
from amk.harness.shared_use import box_alignment

__all__ = ["Access", "check_access", "check_box", "check_strides", "check_tile", "dimensions", "inside"]


class Access(NamedTuple):
    """An operand as written and resolved, its elements along the last dimension, the bytes it must align to."""

    ref: Elem
    full: Elem
    width: int
    align: int
    what: str
    at: str


def check_access(p: Prover, a: Access) -> None:
    """Every claim of one operand. Bounds of shared memory are the ordering engine's, unless data decide."""
    d = p.context.kernel.declarations[a.full.buffer]
    if isinstance(d, Param):
        _bounds(p, a, "AMK201", d.shape or ())
        _aligned_global(p, a, d)
    elif isinstance(d, Buffer) and d.space == "register":
        _bounds(p, a, "AMK203", tuple(map(Const, d.shape)))
    elif isinstance(d, Buffer):
        if p.context.follows_data(a.full):
            _bounds(p, a, "AMK202", tuple(map(Const, d.shape)))
        _aligned_shared(p, a, d)


def _bounds(p: Prover, a: Access, code: str, shape: tuple[Expr, ...]) -> None:
    for n, (i, size, width) in enumerate(dimensions(a.full.index, shape, a.width)):
        if isinstance(i, Const) and isinstance(size, Const) and 0 <= i.value <= size.value - width:
            continue
        index, extent = p.inline(i), p.inline(size)
        place = f"{a.what} {a.ref}, dimension {n}"
        low, high = inside(i, size, width)
        p.require(code, a.at, index, f"{place}: {low}", f"{place}: index {i} can be negative", _way_in(a, i, size, low))
        message = f"{place}: {i + (width if width > 1 else 0)} can {'exceed' if width > 1 else 'reach'} the size {size}"
        hint = _way_in(a, i, size, high)
        p.require(code, a.at, minus(extent, index, width), f"{place}: {high}", message, hint)


def dimensions(index: tuple[Expr, ...], shape: tuple[Expr, ...], width: int) -> Iterator[tuple[Expr, Expr, int]]:
    """Index, extent and elements of an access in each dimension: one, but for the last."""
    for n, (i, size) in enumerate(zip(index, shape, strict=True)):
        yield i, size, width if n == len(shape) - 1 else 1


def inside(i: Expr, size: Expr, width: int) -> tuple[Expr, Expr]:
    """What has to hold for `width` elements at an index to lie in a dimension: not below it, not beyond it."""
    return Apply(">=", (i, Const(0))), Apply("<=", (i + width, size)) if width > 1 else Apply("<", (i, size))


def _way_in(a: Access, i: Expr, size: Expr, condition: Expr) -> str:
    """What to do about an index: a guard, or where no guard can help, another index or a larger array."""
    if isinstance(i, Const) and isinstance(size, Const):
        last = int(size.value) - 1
        return f"an index of {a.full.buffer} here is at most {last}; use a smaller one or declare more elements"
    return f"guard it with `{condition}`"


# ------------------------------------------------------------------------------------------------------------ alignment
def _aligned_global(p: Prover, a: Access, d: Param) -> None:
    strides = p.context.kernel.strides_of(d)
    if d.align % a.align:
        message = f"{a.what} {a.ref} needs {a.align} bytes of alignment, and the base of {d.name} guarantees {d.align}"
        p.findings.append(Finding("AMK205", a.at, message, hint=f"declare align={a.align} or use a narrower access"))
    elif a.width > 1 and strides[-1] != Const(1):
        message = f"{a.what} {a.ref} is {a.width} elements wide, and the last stride of {d.name} is {strides[-1]}"
        p.findings.append(Finding("AMK205", a.at, message, hint="use width 1"))
    else:
        address = linear(tuple(map(p.inline, a.full.index)), tuple(map(p.inline, strides)))
        _multiple(p, a, address, a.align // nbytes(d.dtype), f"the offset and every stride of {d.name}")


def _aligned_shared(p: Prover, a: Access, d: Buffer) -> None:
    if a.align <= nbytes(d.dtype) <= d.align:
        return
    split = isinstance(d.layout, Strided) and d.layout.strides[-1] != 1
    if a.width > 1 and (split or (isinstance(d.layout, Swizzle) and a.width > 1 << d.layout.base)):
        message = f"{a.what} {a.ref}: {a.width} elements are not contiguous in the layout of {d.name}"
        p.findings.append(Finding("AMK205", a.at, message, hint="use a narrower access or a swizzle of a larger base"))
    elif d.align % min(a.align, 16):
        message = f"{a.what} {a.ref} needs {a.align} bytes of alignment, and {d.name} guarantees {d.align}"
        p.findings.append(Finding("AMK205", a.at, message, hint=f"declare align={a.align}"))
    else:
        address = p.context.kernel.shared_byte(Elem(a.full.buffer, tuple(map(p.inline, a.full.index))))
        _multiple(p, a, address, a.align, f"the byte offset and every stride of {d.name}")


def _multiple(p: Prover, a: Access, address: Expr, n: int, what: str) -> None:
    """The address counts units of which `n` make up the alignment."""
    claim = f"{a.what} {a.ref}: aligned to {a.align} bytes"
    if n <= 1 or p.facts.divisor(address) % n == 0:
        if n > 1:
            p.note("AMK205", a.at, claim)
        return
    found = a.align * math.gcd(p.facts.divisor(address), n) // n
    message = f"{a.what} {a.ref} needs {a.align} bytes of alignment, and {what} allow {found}"
    hint = "use a narrower access, or state that the size is a multiple (multiple_of)"
    p.require("AMK205", a.at, minus(Const(0), apply("%", address, n)), claim, message, hint)


def check_tile(p: Prover, s: Call, o: Operand, ref: Elem, at: str) -> None:
    """A box starts at its alignment and a tile at whole steps, both counted before the swizzle."""
    full = p.context.kernel.resolve(ref)
    b = p.context.kernel.declarations[full.buffer]
    assert isinstance(b, Buffer)
    index = tuple(map(p.inline, full.index))
    if o.box:
        first, align = p.context.kernel.shared_offsets[b.name], box_alignment(p.context.kernel, s, o)
        address = linear(index, strides(b.shape, b.layout)) * nbytes(b.dtype) + first
        _multiple(p, Access(ref, full, 1, align, f"{s.row} {o.role}", at), address, align, f"the index into {b.name}")
        return
    for i, e, step in zip(full.index[-len(o.step) :], index[-len(o.step) :], o.step, strict=True):
        _whole_steps(p, f"{s.row} {o.role} {ref}", i, e, step, at)


def _whole_steps(p: Prover, what: str, i: Expr, e: Expr, step: int, at: str) -> None:
    """An index that is a multiple of a step; `e` is the index with named values in place."""
    claim = f"{what}: {i} is a multiple of {step}"
    if step == 1 or p.facts.divisor(e) % step == 0:
        p.note("AMK205", at, claim) if step > 1 else None
        return
    message = f"{what} needs an index that is a multiple of {step}, and {i} need not be one"
    p.require("AMK205", at, minus(Const(0), apply("%", e, step)), claim, message, "start the tile at whole steps")


def check_box(p: Prover, s: Call, o: Operand, ref: Elem, at: str) -> None:
    """Where a box lies in its tensor: it starts at whole 16 bytes of its rows, and one that is written at no negative
    coordinate. What ends beyond the tensor is cut off, and a box that is read may begin before it.

    Source: an H200 faults on anything else ("illegal instruction"), as `tests/device/test_rows_async.py` found.
    """
    kernel = p.context.kernel
    m = kernel.declarations[ref.buffer]
    tensor = kernel.declarations.get(m.tensor) if isinstance(m, TensorMap) else None
    if not isinstance(tensor, Param) or s.row.startswith("prefetch"):
        return
    what = f"{s.row} {o.role} {ref}"
    _whole_steps(p, what, ref.index[-1], p.inline(ref.index[-1]), max(1, 16 // nbytes(tensor.dtype)), at)
    for n, i in enumerate(ref.index if o.mode != "read" else ()):
        message = f"{what} starts at a negative coordinate {n}, which a copy out of shared memory may not"
        p.require("AMK201", at, p.inline(i), f"{what}: coordinate {n} >= 0", message, "let the box begin inside")


# -------------------------------------------------------------------------------------------------------------- offsets
def check_strides(p: Prover, d: Param) -> None:
    """A tensor whose element offsets are computed in 32 bits has its last element below 2**31."""
    if d.offsets != "i32" or not d.shape:
        return
    strides = tuple(map(p.inline, p.context.kernel.strides_of(d)))
    last = tuple(minus(p.inline(n), 1) for n in d.shape)
    far = linear(last, strides)
    most = p.facts.interval(far)[1]
    text = " + ".join(f"({n} - 1)*{s}" for n, s in zip(d.shape, p.context.kernel.strides_of(d), strict=True))
    message = f"the largest offset of {d.name}, {text} = {most}, exceeds 2147483647 in 32 bits"
    hint = f"give {d.name} offsets='i64', or assume a smaller product of its sizes"
    here = p.context.kernel.pointer_of(d.name)
    p.require("AMK204", here, minus(Const(2**31 - 1), far), f"offsets of {d.name} fit i32", message, hint)
