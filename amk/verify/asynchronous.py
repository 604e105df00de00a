"""Duties of tensor maps, boxes, tiles, runs of bytes, peers and roles: for all sizes, like those of plain accesses.

What of a box lies outside its tensor is filled or cut off, so it has no bounds; but it starts at whole 16 bytes of its
rows and at a whole period of its swizzle in shared memory. Source: CUDA Driver API, cuTensorMapEncodeTiled; PTX ISA,
cp.async.bulk.tensor and the matrix descriptors of wgmma.
"""

from __future__ import annotations

from math import prod

from amk.dsl.expr import Apply, Const, Elem, Expr, apply
from amk.dsl.instructions import ROWS, Operand
from amk.dsl.nodes import Barrier, Buffer, Call, Param, TensorMap
from amk.dsl.types import nbytes
from amk.verify.address import combined, elements_of, first_bytes, strides_in, width
from amk.verify.arithmetic import ALL, terms
from amk.verify.claims import Claims
from amk.verify.domain import strides_of
from amk.verify.operands import access, divisible, elements
from amk.verify.outcome import Malformed

__all__ = ["indices", "maps", "operand", "peer", "within"]

MOST_EXTENT, MOST_STRIDE = 1 << 32, 1 << 40  # elements of a dimension; bytes between neighbours


def maps(c: Claims) -> None:
    """What the driver asks of each tensor map: base, extents and strides."""
    for i, m in enumerate(c.kernel.maps):
        d, at = c.kernel.declarations[m.tensor], f"/maps/{i}"
        assert isinstance(d, Param) and d.shape is not None
        if d.align % 16:
            raise Malformed(at, f"{m.name}: the base of {d.name} has {d.align} bytes of alignment, and a map needs 16")
        c.shown("AMK209", at, f"{m.name}: the base of {d.name} is aligned to 16 bytes")
        for size in d.shape:
            what, term = f"{m.name}: extent {size} of {d.name}", c.inline(size)
            c.claim("AMK209", at, f"{what} >= 1", Apply(">=", (term, Const(1))))
            c.claim("AMK209", at, f"{what} <= 2**32", Apply("<=", (term, Const(MOST_EXTENT))))
        for stride in strides_of(d)[:-1]:
            what = f"{m.name}: stride {stride} of {d.name} ({nbytes(d.dtype)} bytes an element)"
            step = apply("*", c.inline(stride), nbytes(d.dtype))
            divisible(c, "AMK209", at, f"{what} is a multiple of 16 bytes", step, 16)
            c.claim("AMK209", at, f"{what} >= 16 bytes", Apply(">=", (step, Const(16))))
            c.claim("AMK209", at, f"{what} < 2**40 bytes", Apply("<", (step, Const(MOST_STRIDE))))


def peer(c: Claims, e: Expr | None, at: str) -> None:
    """The rank of a block of the cluster."""
    if e is not None:
        terms(c, e, at, ALL)
        elements(c, e, at)
        within(c, "AMK202", e, 0, c.kernel.cluster - 1, "the peer", at)


def within(c: Claims, rule: str, e: Expr, low: int, high: int, what: str, at: str) -> None:
    """A value lies in an interval."""
    value = c.inline(e)
    c.claim(rule, at, f"{what} {e} >= {low}", Apply(">=", (value, Const(low))))
    c.claim(rule, at, f"{what} {e} <= {high}", Apply("<=", (value, Const(high))))


def indices(c: Claims, ref: Elem, at: str) -> None:
    """The arithmetic of the indices of an operand; those of an mbarrier name one of its slots."""
    d = c.kernel.find(ref.buffer)
    for i in ref.index:
        terms(c, i, at, ALL)
        elements(c, i, at)
        if isinstance(d, Barrier):
            c.lies(d.name, c.inline(i), 1, d.slots)


def operand(c: Claims, s: Call, o: Operand, at: str) -> None:
    """One operand of an instruction."""
    ref, what = s.refs[o.role], f"{s.row} {o.role}"
    d = c.kernel.find(ref.buffer)
    if not isinstance(d, (Param, Buffer)):
        indices(c, ref, at)
        if isinstance(d, TensorMap):
            _box(c, s, o, ref, d, at)
    elif o.box or o.tile:
        indices(c, ref, at)
        assert isinstance(d, Buffer)
        _tile(c, s, o, ref, d, at)
    else:
        if o.lanes < 32:  # the addresses of the other lanes are not used
            few = apply("<", apply("%", "t", 32), o.lanes)
            c.suppose(few, few)
        n = width(s, o, d.dtype)
        access(c, ref, n, what, at, o.align if o.counted else max(o.align, n * nbytes(d.dtype)), exact=bool(o.counted))


def _box(c: Claims, s: Call, o: Operand, ref: Elem, m: TensorMap, at: str) -> None:
    """Where a box lies in its tensor."""
    what = f"{s.row} {o.role} {ref}"
    for n, i in enumerate(ref.index):
        if c.types.of(i) in ("i64", "u64", "u32"):
            within(c, "AMK204", i, -(2**31), 2**31 - 1, f"{what}, coordinate {n}", at)
    tensor = c.kernel.declarations[m.tensor]
    assert isinstance(tensor, Param)
    if not any(x.box == o.role for x in ROWS[s.row].operands):
        return  # a prefetch of the map itself
    _steps(c, what, ref.index[-1], max(1, 16 // nbytes(tensor.dtype)), at)
    for n, i in enumerate(ref.index if o.mode != "read" else ()):
        c.claim("AMK201", at, f"{what}: coordinate {n} >= 0", Apply(">=", (c.inline(i), Const(0))))


def _tile(c: Claims, s: Call, o: Operand, ref: Elem, b: Buffer, at: str) -> None:
    """A box begins at its alignment and a tile at whole steps, both before the swizzle."""
    full, what = c.kernel.resolve(ref), f"{s.row} {o.role} {ref}"
    if not o.box:
        whole = (*(1,) * (len(b.shape) - len(o.tile)), *o.tile)
        for i, n, extent in zip(full.index, whole, b.shape, strict=True):
            c.lies(b.name, c.inline(i), n, extent)
        for i, step in zip(full.index[-len(o.step) :], o.step, strict=True):
            _steps(c, what, i, step, at)
        return
    m = c.kernel.find(s.refs[o.box].buffer)
    need = max(o.align, 8 * m.swizzle) if isinstance(m, TensorMap) else o.align
    flat = combined(tuple(map(c.inline, full.index)), tuple(map(Const, strides_in(b))))
    c.lies(b.name, flat, prod(m.box) if isinstance(m, TensorMap) else 1, elements_of(b))
    address = flat * nbytes(b.dtype) + first_bytes(c.kernel)[b.name]
    if need > 1:
        divisible(c, "AMK205", at, f"{what}: aligned to {need} bytes", address, need)


def _steps(c: Claims, what: str, i: Expr, step: int, at: str) -> None:
    if step > 1:
        divisible(c, "AMK205", at, f"{what}: {i} is a multiple of {step}", c.inline(i), step)
