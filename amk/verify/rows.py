"""The form of instructions, barriers and roles: what they take, and whether the target has it.

Source: PTX ISA, the section that each row names; CUDA Driver API, cuTensorMapEncodeTiled.
"""

from __future__ import annotations

from math import prod

from amk.dsl.expr import Const, Elem, names, subst
from amk.dsl.instructions import ROWS, Operand
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.layout import Padded, Strided, Swizzle
from amk.dsl.nodes import Barrier, Buffer, Call, Param, Statement, Sync, Team, TensorMap, Wait
from amk.dsl.target import Target
from amk.dsl.types import nbytes
from amk.verify.address import strides_in, width
from amk.verify.domain import strides_of
from amk.verify.dtypes import family
from amk.verify.outcome import Malformed

__all__ = ["require_call", "require_map", "require_ordering"]

USES = {"read": {"read"}, "write": {"write"}, "readwrite": {"read", "write", "update"}, "add": {"update"}}
MOST_BOX, MOST_BYTES, MOST_PENDING = 256, (1 << 20) - 16, 7


def require_call(kernel: KernelDescriptor, s: Call, target: Target, at: str) -> None:
    """Raises Malformed for a call that is not as its row says."""
    row = ROWS.get(s.row)
    if row is None:
        raise Malformed(at, f"there is no instruction {s.row!r}")
    major, minor = target.architecture.compute_capability
    if row.since > 10 * major + minor or (row.feature and row.feature not in target.architecture.features):
        raise Malformed(at, f"{s.row} does not exist on {target.name}")
    if {o.role for o in row.operands} != s.refs.keys():
        raise Malformed(f"{at}/refs", f"{s.row} has the operands {', '.join(o.role for o in row.operands)}")
    _arguments(s, at)
    dtypes = set()
    for o in row.operands:
        dtype = _operand(kernel, s, o, f"{at}/refs/{o.role}")
        if o.space in ("global", "shared", "map"):
            dtypes.add(dtype)
    if row.completes in ("cp_async", "bulk", "barrier") and len(dtypes) > 1:
        raise Malformed(at, f"{s.row} copies between {' and '.join(sorted(dtypes))}")


def _arguments(s: Call, at: str) -> None:
    row = ROWS[s.row]
    if unknown := s.args.keys() - {a.name for a in row.args}:
        raise Malformed(f"{at}/args", f"{s.row} has no argument {min(unknown)!r}")
    for a in row.args:
        e, here = s.args.get(a.name), f"{at}/args/{a.name}"
        if e is None and a.default is None:
            raise Malformed(f"{at}/args", f"{s.row} needs the argument {a.name!r}")
        if a.constant and e is not None and not isinstance(e, Const):
            raise Malformed(here, f"{a.name} is no constant")
        if isinstance(e, Const) and type(e.value) is int:
            low, high = a.low if a.low is not None else e.value, a.high if a.high is not None else e.value
            if not low <= e.value <= high or e.value % a.multiple_of:
                raise Malformed(here, f"{e} is no multiple of {a.multiple_of} from {a.low} to {a.high}")


def _operand(kernel: KernelDescriptor, s: Call, o: Operand, at: str) -> str:
    """The dtype of an operand that is as its row says."""
    ref = s.refs[o.role]
    d = kernel.find(ref.buffer)
    place = "map" if isinstance(d, TensorMap) else "barrier" if isinstance(d, Barrier) else kernel.space(ref)
    if place != o.space:
        raise Malformed(at, f"{ref} is no {o.role} of {s.row}")
    if isinstance(d, Barrier) or d is None:
        return ""
    tensor = kernel.declarations[d.tensor] if isinstance(d, TensorMap) else d
    assert isinstance(tensor, (Param, Buffer))
    if o.dtypes and tensor.dtype not in o.dtypes:
        raise Malformed(at, f"{ref} of {tensor.dtype} is no {o.role} of {s.row}")
    if isinstance(tensor, Param) and (not isinstance(d, TensorMap) or o.box) and o.mode not in USES[tensor.access]:
        raise Malformed(at, f"{ref} is used by a {o.mode}, and {tensor.name} is declared {tensor.access!r}")
    if isinstance(d, TensorMap):
        if o.rank and len(d.box) != o.rank:
            raise Malformed(at, f"{s.row} takes a map of rank {o.rank}, and {d.name} has {len(d.box)}")
        return tensor.dtype
    if o.nbytes % nbytes(tensor.dtype) or (o.counted and _bytes(s, o) % nbytes(tensor.dtype)):
        raise Malformed(at, f"{ref} is no {o.role} of {s.row}: no whole number of elements")
    if isinstance(d, Buffer) and d.space == "register":
        _registers(kernel, s, o, d, at)
    elif isinstance(d, Buffer):
        _laid_out(kernel, s, o, d, at)
    return tensor.dtype


def _bytes(s: Call, o: Operand) -> int:
    e = s.args.get(o.counted)
    return int(e.value) if isinstance(e, Const) else 0


def _registers(kernel: KernelDescriptor, s: Call, o: Operand, b: Buffer, at: str) -> None:
    """Several registers of an instruction are neighbours that are known when it is compiled."""
    n = width(s, o, b.dtype)
    if n <= 1:
        return
    if n > b.shape[-1]:
        raise Malformed(at, f"{s.row} takes {n} registers, and {b.name} has {b.shape[-1]} in a row")
    lets = {x.name: x.value for _, x in walk(kernel.body) if x.kind == "let" and x.value is not None}
    unrolled = {x.var for _, x in walk(kernel.body) if x.kind == "for" and x.unroll == "full"}
    for i in kernel.resolve(s.refs[o.role]).index:
        while inner := {n: lets[n] for n in names(i) & lets.keys()}:
            i = subst(i, inner)
        if names(i) - unrolled:
            raise Malformed(at, f"{s.row} takes {n} registers at an index that is known when it is compiled")


def _laid_out(kernel: KernelDescriptor, s: Call, o: Operand, b: Buffer, at: str) -> None:
    """A box, a run or a tile in shared memory lies as the instruction takes it."""
    dense = strides_in(b) == tuple(prod(b.shape[k + 1 :]) for k in range(len(b.shape)))
    plain = dense and not isinstance(b.layout, Swizzle)
    row = b.shape[-1] * nbytes(b.dtype)
    if o.box:
        m = kernel.find(s.refs[o.box].buffer)
        if isinstance(m, TensorMap):
            lies = _swizzled(b, m.swizzle) and row == m.swizzle if m.swizzle else plain
            if not lies or b.align % max(128, 8 * m.swizzle):
                raise Malformed(at, f"{b.name} is not laid out and aligned as boxes of {m.name} are")
    elif o.counted:
        split = isinstance(b.layout, Swizzle) or (isinstance(b.layout, Strided) and b.layout.strides[-1] != 1)
        inside = isinstance(b.layout, (Padded, Strided)) and not split and _bytes(s, o) <= row
        if not plain and not inside:
            raise Malformed(at, f"{_bytes(s, o)} bytes in a row are not so many of the layout of {b.name}")
    elif o.tile:
        k = len(o.tile)
        fits = len(b.shape) >= k and all(n >= t for n, t in zip(b.shape[-k:], o.tile, strict=True))
        rows = len(b.shape) <= 2 or b.shape[-2] % 8 == 0
        spans = (32, 64, 128) if k == 2 else (128,)
        if not fits or not rows or row not in spans or not _swizzled(b, row) or b.align % (8 * row):
            raise Malformed(at, f"{b.name} is not laid out and aligned as {s.row} reads its tiles")


def _swizzled(b: Buffer, span: int) -> bool:
    """Rows whose 16-byte pieces are permuted over `span` bytes, as TMA and wgmma do it."""
    unit = 16 // nbytes(b.dtype)
    if not isinstance(b.layout, Swizzle) or span < 32:
        return False
    return (b.layout.bits, 1 << b.layout.base, b.layout.shift) == ((span // 16).bit_length() - 1, unit, 3)


# ---------------------------------------------------------------------------------------------------------------- maps
def require_map(kernel: KernelDescriptor, m: TensorMap, target: Target, at: str) -> None:
    """Raises Malformed for a tensor map that cannot be, whatever the sizes."""
    d = kernel.declarations.get(m.tensor)
    if not isinstance(d, Param) or d.shape is None or len(d.shape) != len(m.box):
        raise Malformed(at, f"{m.name} is no map of a tensor of {len(m.box)} dimensions")
    row = m.box[-1] * nbytes(d.dtype)
    good = all(1 <= n <= MOST_BOX for n in m.box) and row % 16 == 0 and m.swizzle in (0, row) and d.dtype != "bool"
    if not good or strides_of(d)[-1] != Const(1) or (m.fill == "nan" and family(d.dtype) != "float"):
        raise Malformed(at, f"{m.name}: no tensor map has boxes {list(m.box)} of {d.dtype}, swizzle {m.swizzle}")
    _has(target, "tma", at)


# ------------------------------------------------------------------------------------------------- barriers and roles
def require_ordering(kernel: KernelDescriptor, s: Statement, target: Target, at: str) -> None:
    """Raises Malformed for a barrier, a wait, an arrival or a team that means nothing."""
    if s.kind == "sync":
        _sync(kernel, s, target, at)
    elif s.kind == "wait":
        _wait(kernel, s, at)
    elif s.kind == "arrive":
        n = s.bytes.value if isinstance(s.bytes, Const) else None
        if s.bytes is not None and (type(n) is not int or n % 16 or not 16 <= n <= MOST_BYTES):
            raise Malformed(at, f"an arrival that expects {s.bytes} bytes")
        _barrier(kernel, s.barrier, at)
    elif s.kind == "team":
        _team(kernel, s, at)
    if s.kind in ("load", "store", "arrive") and s.peer is not None:
        _has(target, "cluster", at)
        if kernel.cluster == 1:
            raise Malformed(at, "a peer in a kernel without a cluster")


def _sync(kernel: KernelDescriptor, s: Sync, target: Target, at: str) -> None:
    named = s.scope == "named"
    if named != bool(s.id) or (not named and s.threads) or (s.relaxed and (s.scope != "cluster" or s.part == "wait")):
        raise Malformed(at, f"a barrier of scope {s.scope} with the id {s.id} and {s.threads} threads")
    if named and (s.threads % 32 or not 32 <= s.threads <= kernel.threads or s.part == "wait"):
        raise Malformed(at, f"a named barrier of {s.threads} threads, part {s.part}")
    if s.scope in ("block", "warp") and s.part != "both":
        raise Malformed(at, f"one half of a barrier of the {s.scope}")
    if s.scope == "cluster":
        _has(target, "cluster", at)


def _wait(kernel: KernelDescriptor, s: Wait, at: str) -> None:
    phase = s.barrier is not None
    if phase == (s.queue is not None) or phase != (s.parity is not None) or (phase and (s.pending or s.read)):
        raise Malformed(at, "a wait is on the groups of a queue, or on a phase of an mbarrier")
    if (s.read and s.queue != "bulk") or (s.queue == "wgmma" and s.pending > MOST_PENDING):
        raise Malformed(at, f"no wait on the queue {s.queue} leaves {s.pending} groups, or tells reads apart")
    if s.barrier is not None:
        _barrier(kernel, s.barrier, at)


def _barrier(kernel: KernelDescriptor, ref: Elem, at: str) -> None:
    if not isinstance(kernel.find(ref.buffer), Barrier):
        raise Malformed(at, f"{ref.buffer} is no mbarrier")


def _team(kernel: KernelDescriptor, s: Team, at: str) -> None:
    """Each warp of the block has one role; budgets are for whole warpgroups."""
    warps = [w for r in s.roles for w in range(*r.warps)]
    if kernel.threads % 32 or sorted(warps) != list(range(kernel.threads // 32)):
        raise Malformed(at, "the roles of a team share out its warps, each once")
    if any(r.registers is not None and (r.warps[0] % 4 or r.warps[1] % 4) for r in s.roles):
        raise Malformed(at, "a budget of registers is for whole warpgroups")


def _has(target: Target, feature: str, at: str) -> None:
    if feature not in target.architecture.features:
        raise Malformed(at, f"{target.name} has no {feature}")
