"""What a kernel does, as data read off its IR: thread hierarchy, storage, loops, accesses, synchronisation.

A warp's addresses are computed, not guessed: the first warp of block 0 is evaluated, loops at their first iteration
and sizes at `SAMPLE` (or the nearest value of their domain). What depends on loaded data has no stride here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from math import prod
from typing import Any

from amk.dsl.describe_text import barrier_text, buffer_text, map_text, order_text, param_text
from amk.dsl.evaluate import function_of
from amk.dsl.expr import BUILTINS, Apply, Const, Elem, Expr, cdiv, names, subterms
from amk.dsl.instructions import ROWS, Operand
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.layout import extent, offset
from amk.dsl.nodes import Buffer, Call, For, Param, Statement, Team, TensorMap
from amk.dsl.occupancy import occupancy
from amk.dsl.registers import assumed_registers, expected_registers
from amk.dsl.target import Target
from amk.dsl.traffic import passes, sectors
from amk.dsl.types import nbytes
from amk.errors import DescriptorError

__all__ = ["SAMPLE", "AccessFact", "LoopFact", "RoleFact", "Summary", "SyncFact", "summary"]

SAMPLE = 1024
_WARP = 32

Lane = dict[str, int | None]  # what each name is in one lane
Warp = list[Lane]


@dataclass(frozen=True, slots=True)
class LoopFact:
    """One loop: trips and bounds as expressions, its unroll factor, and what a thread carries round it."""

    pointer: str
    var: str
    trips: str
    unroll: int | str
    carried: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AccessFact:
    """One access of the first warp. Bytes; `stride` between neighbouring lanes (None: not constant or not known).

    `pattern`: coalesced, broadcast, strided or unknown in global memory; conflict-free, broadcast, N-way conflict or
    unknown in shared memory; box, tile or run where one instruction moves `width_bytes` as a whole. `sectors` of 32
    bytes are what one request of a full warp touches. `completes`: the group or the mbarrier with which an
    asynchronous access ends.
    """

    pointer: str
    what: str
    operand: str
    space: str
    width_bytes: int
    stride: int | None
    pattern: str
    sectors: int | None = None
    completes: str = ""


@dataclass(frozen=True, slots=True)
class SyncFact:
    """One ordering point, and the loop that it stands in."""

    pointer: str
    what: str
    loop: str


@dataclass(frozen=True, slots=True)
class RoleFact:
    """What some warps of a block do: the first warp and the one after the last, and a thread's register budget."""

    pointer: str
    first_warp: int
    end_warp: int
    registers: int | None


@dataclass(frozen=True, slots=True)
class Summary:
    """The kernel on one page.

    Registers of a thread: `array_registers` for its register arrays alone, `registers` that it is expected to take in
    all, `most_registers` with the margin. `blocks_per_sm` and `limited_by` are for the expected number,
    `least_blocks_per_sm` for the most.
    """

    name: str
    hash: str
    target: str
    grid: tuple[str, ...]
    threads: int
    cluster: int
    min_blocks: int
    array_registers: int
    registers: int
    most_registers: int
    shared_bytes: int
    blocks_per_sm: int
    least_blocks_per_sm: int
    limited_by: str
    params: tuple[str, ...]
    buffers: tuple[str, ...]
    loops: tuple[LoopFact, ...]
    accesses: tuple[AccessFact, ...]
    syncs: tuple[SyncFact, ...]
    maps: tuple[str, ...] = ()
    barriers: tuple[str, ...] = ()
    roles: tuple[RoleFact, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        return asdict(self)


def summary(kernel: KernelDescriptor, target: Target) -> Summary:
    """The facts of a kernel on a target. DescriptorError where its parts contradict each other."""
    try:
        return _summary(kernel, target)
    except (IndexError, KeyError, ValueError, AssertionError):
        hint = "amk check says where"
        raise DescriptorError(f"the parts of kernel {kernel.name} contradict each other", hint=hint) from None


def _summary(kernel: KernelDescriptor, target: Target) -> Summary:
    statements, warp = tuple(walk(kernel.body)), _warp(kernel)
    arrays = sum(-(-extent(b.shape, b.layout) * nbytes(b.dtype) // 4) for b in _arrays(kernel, "register"))
    registers, most = expected_registers(kernel, target), assumed_registers(kernel, target)
    resident, least = (occupancy(target, kernel.threads, r, kernel.shared_bytes) for r in (registers, most))
    return Summary(
        name=kernel.name, hash=kernel.hash, target=target.name, grid=tuple(map(str, kernel.grid)),
        threads=kernel.threads, cluster=kernel.cluster, min_blocks=kernel.min_blocks, array_registers=arrays,
        registers=registers, most_registers=most, shared_bytes=kernel.shared_bytes,
        blocks_per_sm=resident.blocks_per_sm, least_blocks_per_sm=least.blocks_per_sm, limited_by=resident.limited_by,
        params=tuple(map(param_text, kernel.params)), buffers=tuple(map(buffer_text, kernel.buffers)),
        loops=tuple(_loop(p, s) for p, s in statements if s.kind == "for"),
        accesses=tuple(a for p, s in statements for a in _accesses(kernel, p, s, warp)),
        syncs=tuple(SyncFact(p, w, _enclosing(kernel, p)) for p, s in statements if (w := order_text(s))),
        maps=tuple(map(map_text, kernel.maps)), barriers=tuple(map(barrier_text, kernel.barriers)),
        roles=tuple(r for p, s in statements if s.kind == "team" for r in _roles(p, s)),
    )  # fmt: skip


def _arrays(kernel: KernelDescriptor, space: str) -> list[Buffer]:
    return [b for b in kernel.buffers if b.space == space]


def _loop(pointer: str, s: For) -> LoopFact:
    trips = cdiv(s.hi - s.lo if s.lo != Const(0) else s.hi, s.step) if s.step != Const(1) else s.hi - s.lo
    return LoopFact(pointer, s.var, str(trips), s.unroll, tuple(c.name for c in s.carry))


def _roles(pointer: str, s: Team) -> Iterator[RoleFact]:
    for i, r in enumerate(s.roles):
        yield RoleFact(f"{pointer}/roles/{i}", *r.warps, r.registers)


def _enclosing(kernel: KernelDescriptor, pointer: str) -> str:
    """The innermost loop's variable, or ''."""
    around = [s.var for p, s in walk(kernel.body) if s.kind == "for" and pointer.startswith(p + "/")]
    return around[-1] if around else ""


# ----------------------------------------------------------------------------------------------------------- accesses
def _accesses(kernel: KernelDescriptor, pointer: str, s: Statement, warp: Warp) -> Iterator[AccessFact]:
    if s.kind == "call":
        yield from _called(kernel, pointer, s, warp)
    for what, ref, width in _operands(s):
        declared = kernel.find(ref.buffer)
        if isinstance(declared, (Param, Buffer)) and kernel.space(ref) in ("global", "shared"):
            yield _access(kernel, pointer, what, ref, width * nbytes(declared.dtype), warp)


def _operands(s: Statement) -> Iterator[tuple[str, Elem, int]]:
    """Each memory operand of a plain access: what is done, where, and elements."""
    if s.kind == "load":
        yield "load", s.src, s.width
    elif s.kind == "store":
        yield "store", s.dst, len(s.values)
    elif s.kind == "atomic":
        yield f"atomic {s.op}", s.dst, 1


def _called(kernel: KernelDescriptor, pointer: str, s: Call, warp: Warp) -> Iterator[AccessFact]:
    """The memory operands of an instruction."""
    row = ROWS.get(s.row)
    for o in row.operands if row is not None else ():
        ref = s.refs.get(o.role)
        d = kernel.find(ref.buffer) if ref is not None else None
        if row is None or ref is None or not isinstance(d, (Param, Buffer, TensorMap)) or o.space == "register":
            continue
        done = f"its {row.completes} group" if row.completes != "barrier" else str(s.refs.get("bar", ""))
        what, ends = f"{s.row} {o.mode}", "" if row.completes == "now" else done
        whole = _whole(kernel, s, o)
        if whole is not None:
            space = "global" if isinstance(d, TensorMap) else kernel.space(ref)
            yield AccessFact(pointer, what, str(ref), space, whole[1], None, whole[0], None, ends)
        elif not isinstance(d, TensorMap):
            fact = _access(kernel, pointer, what, ref, o.nbytes or nbytes(d.dtype), warp[: o.lanes])
            yield replace(fact, completes=ends)


def _whole(kernel: KernelDescriptor, s: Call, o: Operand) -> tuple[str, int] | None:
    """What one instruction moves as a whole, and its bytes."""
    if o.box and o.box in s.refs:
        m = kernel.find(s.refs[o.box].buffer)
        tensor = kernel.find(m.tensor) if isinstance(m, TensorMap) else None
        return (
            ("box", prod(m.box) * nbytes(tensor.dtype))
            if isinstance(m, TensorMap) and isinstance(tensor, Param)
            else None
        )
    if o.tile:
        d = kernel.find(s.refs[o.role].buffer)
        return ("tile", prod(o.tile) * nbytes(d.dtype)) if isinstance(d, Buffer) else None
    if o.counted:
        n = s.args.get(o.counted)
        return ("run", int(n.value)) if isinstance(n, Const) else None
    return None


def _access(kernel: KernelDescriptor, pointer: str, what: str, ref: Elem, width: int, warp: Warp) -> AccessFact:
    space, lanes = kernel.space(ref), _lanes(kernel, ref, warp)
    if lanes is None:
        return AccessFact(pointer, what, str(ref), space, width, None, "unknown")
    steps = {b - a for a, b in pairwise(lanes)}
    stride = steps.pop() if len(steps) == 1 else 0 if not steps else None
    if space == "shared":
        return AccessFact(pointer, what, str(ref), space, width, stride, _banks(lanes, width))
    moved, least = sectors(lanes, width)
    pattern = "broadcast" if stride == 0 else "coalesced" if moved <= least + 1 else "strided"
    return AccessFact(pointer, what, str(ref), space, width, stride, pattern, moved)


def _banks(lanes: list[int], width: int) -> str:
    """Degree of conflict of the group of lanes that has the most."""
    if len(set(lanes)) == 1:
        return "broadcast"
    degree = passes(lanes, width).degree
    return "conflict-free" if degree == 1 else f"{degree}-way conflict"


def _lanes(kernel: KernelDescriptor, ref: Elem, warp: Warp) -> list[int] | None:
    """Byte address of each lane of warp 0, or None where it depends on data."""
    try:
        address = _address(kernel, kernel.resolve(ref))
    except (ValueError, TypeError, AssertionError, KeyError):  # a descriptor that `amk check` would refuse
        return None
    found = [at for lane in warp if (at := _value(address, lane)) is not None]
    return found if len(found) == len(warp) else None


def _address(kernel: KernelDescriptor, ref: Elem) -> Expr:
    d = kernel.declarations[ref.buffer]
    if isinstance(d, Buffer):
        return offset(d.shape, d.layout, ref.index) * nbytes(d.dtype)
    assert isinstance(d, Param)
    total: Expr = Const(0)
    for i, step in zip(ref.index, kernel.strides_of(d), strict=True):
        total = i * step + total
    return total * nbytes(d.dtype)


def _warp(kernel: KernelDescriptor) -> Warp:
    """The names of each lane of warp 0, evaluated once in program order; what depends on data has no value."""
    start: Lane = {b: 1 if b[0] == "g" else 0 for b in BUILTINS}
    start.update({p.name: _sample(p) for p in kernel.scalars})
    warp: Warp = [start | {"t": t} for t in range(min(_WARP, kernel.threads))]
    for _, s in walk(kernel.body):
        for name, term in _named(s):
            for lane in warp:
                lane[name] = _value(term, lane)
    return warp


def _named(s: Statement) -> Iterator[tuple[str, Expr]]:
    """Values that a statement names: of a Let, and of a loop in its first iteration."""
    if s.kind == "let" and s.value is not None:
        yield s.name, s.value
    elif s.kind == "for":
        yield s.var, s.lo
        yield from ((c.name, c.init) for c in s.carry)


def _value(e: Expr, lane: Lane) -> int | None:
    """The integer that a term is in a lane, or None: unknown, no integer, or beyond 64 bits."""
    used = tuple(sorted(names(e)))
    values = [lane.get(n) for n in used]
    if None in values or any(isinstance(x, Apply) and x.op == "<<" and not _small_shift(x) for x in subterms(e)):
        return None
    try:
        value = function_of((e,), used)(*values)[0]
    except (ValueError, ZeroDivisionError, TypeError, OverflowError):
        return None
    return int(value) if isinstance(value, int) and abs(value) < 1 << 63 else None


def _small_shift(e: Apply) -> bool:
    """Whether a left shift cannot make a number that fills the memory."""
    by = e.args[1]
    return isinstance(by, Const) and isinstance(by.value, int) and 0 <= by.value < 64


def _sample(p: Param) -> int:
    near = min(max(SAMPLE, p.min), p.max)
    return near - near % p.multiple_of or p.multiple_of
