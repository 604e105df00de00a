"""What is wrong with the operands of a call that are more than one element: boxes, runs, tiles and register arrays.

Everything here is true or false of the declarations alone; indices and alignment are claims of the bounds prover.
"""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.expr import Const, Elem, integers, names, subst
from amk.dsl.instructions import ROWS, Operand
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.layout import Layout, Padded, Strided, row_major, spanned
from amk.dsl.nodes import Buffer, Call, Param, TensorMap
from amk.dsl.types import nbytes

__all__ = ["box_align", "call_operands", "elements", "tile_align"]

WGMMA_ROWS = (32, 64, 128)  # bytes of a row of a wgmma operand, swizzled over as much


def call_operands(kernel: KernelDescriptor, s: Call) -> Iterator[str]:
    """Every fault of the operands of one call."""
    for o in ROWS[s.row].operands:
        ref = s.refs.get(o.role)
        d = kernel.find(ref.buffer) if ref is not None else None
        if ref is None or d is None or not getattr(d, "shape", (1,)):
            continue
        if isinstance(d, TensorMap) and o.rank and len(d.box) != o.rank:
            yield f"{s.row} takes a tensor map of rank {o.rank}, and {d.name} has {len(d.box)}"
        if isinstance(d, Buffer) and d.space == "shared" == o.space:
            yield from _shared(kernel, s, o, d)
        if isinstance(d, Buffer) and d.space == "register" == o.space:
            yield from _registers(kernel, s, o, ref, d)
        if isinstance(d, Param) and o.counted:
            yield from _whole(s, o, d.dtype)


def _shared(kernel: KernelDescriptor, s: Call, o: Operand, b: Buffer) -> Iterator[str]:
    if o.box:
        ref = s.refs.get(o.box)
        m = kernel.find(ref.buffer) if ref is not None else None
        if isinstance(m, TensorMap):
            yield from _box(o, b, m)
    elif o.counted:
        yield from _whole(s, o, b.dtype)
        yield from _run(s, o, b)
    elif o.tile:
        yield from _tile(s.row, o, b)


# ---------------------------------------------------------------------------------------------------------------- boxes
def box_align(m: TensorMap) -> int:
    """Bytes to which an array that takes boxes of a map is aligned: where the pattern of its swizzle repeats."""
    return max(128, 8 * m.swizzle)


def _box(o: Operand, b: Buffer, m: TensorMap) -> Iterator[str]:
    size = nbytes(b.dtype)
    if m.swizzle == 0:
        if not _dense(b):
            yield f"{o.role} {b.name} is not row-major; {m.name} has no swizzle, and leaves a box as one dense run"
    elif b.layout != spanned(m.swizzle, size) or b.shape[-1] * size != m.swizzle:
        wanted = spanned(m.swizzle, size)
        yield (
            f"{o.role} {b.name} is not laid out as {m.name} leaves a box: rows of {m.swizzle // size} elements "
            f"({m.swizzle} bytes), swizzle bits={wanted.bits} base={wanted.base} shift={wanted.shift}"
        )
    if b.align % box_align(m):
        yield f"{b.name} is aligned to {b.align} bytes, and boxes of {m.name} need {box_align(m)}: declare it so"


def _dense(b: Buffer) -> bool:
    """Row-major without gaps or swizzle."""
    return b.layout is None or (isinstance(b.layout, Strided) and b.layout.strides == row_major(b.shape))


# ----------------------------------------------------------------------------------------------------------------- runs
def _bytes(s: Call, o: Operand) -> int | None:
    found = integers(s.args.get(o.counted, Const(0.0)))
    return found[0] if found else None


def _whole(s: Call, o: Operand, dtype: str) -> Iterator[str]:
    n = _bytes(s, o)
    if n is not None and n % nbytes(dtype):
        yield f"{o.role}: {n} bytes are no whole number of elements of {dtype}"


def _run(s: Call, o: Operand, b: Buffer) -> Iterator[str]:
    """A run lies in an array without gaps, or in one row of an array whose rows have none."""
    n = _bytes(s, o) or 0
    rows = isinstance(b.layout, Padded) or (isinstance(b.layout, Strided) and b.layout.strides[-1] == 1)
    if not _dense(b) and not (rows and n <= b.shape[-1] * nbytes(b.dtype)):
        yield f"{o.role} {b.name}: {n} bytes in a row are not {n} bytes of its layout; use a row-major array"


# ---------------------------------------------------------------------------------------------------------------- tiles
def tile_align(b: Buffer) -> int:
    """Bytes to which a wgmma operand's array is aligned: 8 rows, where the pattern of the swizzle repeats."""
    return 8 * b.shape[-1] * nbytes(b.dtype)


def _tile(row: str, o: Operand, b: Buffer) -> Iterator[str]:
    """wgmma reads swizzled rows of 32, 64 or 128 bytes; the tile fits the last dimensions of the array."""
    rank, span = len(o.tile), b.shape[-1] * nbytes(b.dtype)
    if len(b.shape) < rank:
        yield f"{o.role} {b.name} has {len(b.shape)} dimensions; {row} takes a tile of {_by(o.tile)} in the last {rank}"
        return
    if any(n < t for n, t in zip(b.shape[-rank:], o.tile, strict=True)):
        yield f"{o.role} {b.name} is {_by(b.shape[-rank:])} in the last {rank} dimensions; {row} takes {_by(o.tile)}"
    spans = WGMMA_ROWS if rank == 2 else (128,)
    if span not in spans:
        yield f"{o.role} {b.name} has rows of {span} bytes; {row} takes {' or '.join(map(str, spans))}"
    elif b.layout != spanned(span, nbytes(b.dtype)):
        wanted: Layout = spanned(span, nbytes(b.dtype))
        yield f"{o.role} {b.name} is not swizzled over its rows of {span} bytes ({_said(wanted)}), as {row} reads it"
    elif b.align % tile_align(b):
        yield f"{b.name} is aligned to {b.align} bytes, and {row} needs {tile_align(b)}: declare it so"
    if len(b.shape) > 2 and b.shape[-2] % 8:
        yield f"{o.role} {b.name} has {b.shape[-2]} rows before the next index; {row} takes whole groups of 8"


def _said(layout: Layout) -> str:
    return " ".join(f"{n}={v}" for n, v in layout.model_dump().items() if n != "kind")


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


# ------------------------------------------------------------------------------------------------------------ registers
def _unrolled(kernel: KernelDescriptor) -> frozenset[str]:
    """Variables of loops that the compiler unrolls: constants by the time that registers are chosen."""
    return frozenset(s.var for _, s in walk(kernel.body) if s.kind == "for" and s.unroll == "full")


def _registers(kernel: KernelDescriptor, s: Call, o: Operand, ref: Elem, b: Buffer) -> Iterator[str]:
    """Several registers of an instruction are known when it is compiled, and neighbours in their array."""
    count = o.nbytes // nbytes(b.dtype)
    if count <= 1:
        return
    if count > b.shape[-1]:
        yield f"{o.role} {b.name} has {b.shape[-1]} elements in its last dimension; {s.row} takes {count}"
    index = kernel.resolve(ref).index
    if all(isinstance(i, Const) for i in index):
        return
    lets = {x.name: x.value for _, x in walk(kernel.body) if x.kind == "let" and x.value is not None}
    fixed = _unrolled(kernel)
    for i in index:
        while names(i) & lets.keys():
            i = subst(i, {n: lets[n] for n in names(i) & lets.keys()})
        if names(i) - fixed:
            yield f"{o.role} {ref}: {s.row} takes {count} registers at a constant index (or that of an unrolled loop)"
            return


def elements(o: Operand, s: Call, dtype: str) -> int:
    """Elements of a register or global operand, or of a run in shared memory: neighbours from its first one on."""
    return max(1, ((_bytes(s, o) or 0) if o.counted else o.nbytes) // nbytes(dtype))
