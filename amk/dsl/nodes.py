"""Every declaration and statement: the whole IR on one screen. Nodes are frozen, typed data; none knows an operator."""

from __future__ import annotations

from typing import Annotated, Literal

from amk.dsl.expr import Const
from amk.dsl.fields import Ex, Extent, Flag, Int64, Name, Place, Ref, Width, whole
from amk.dsl.layout import Layout
from amk.dsl.model import Field, Model
from amk.dsl.types import Access, DTypeName, Queue, Scope

__all__ = [
    "Arrive", "Assume", "Atomic", "Barrier", "Buffer", "Call", "Carry", "Commit", "Fence", "For", "If", "Let", "Load",
    "Node", "Param", "Role", "Statement", "Stmt", "Store", "Sync", "Team", "TensorMap", "Wait",
]  # fmt: skip


class Node(Model):
    """Base of all nodes. A statement's `at` is where its author wrote it: shown, and no part of the hash."""


# ------------------------------------------------------------------------------------------------------ declarations
class Param(Node):
    """A scalar with a range and a divisor, or (with `shape`) a tensor in global memory.

    `strides` count elements (row-major where absent); `align` is the guaranteed alignment of the base in bytes;
    `offsets` is the integer width in which element offsets are computed, i32 being proved sufficient.
    """

    kind: Literal["param"] = "param"
    name: Name
    dtype: DTypeName
    min: Int64 = 0
    max: Int64 = 2**31 - 1
    multiple_of: Annotated[int, whole(1, 2**31 - 1)] = 1
    shape: tuple[Ex, ...] | None = None
    strides: tuple[Ex, ...] | None = None
    access: Access = "read"
    align: Literal[1, 2, 4, 8, 16, 32, 64, 128, 256] = 1
    offsets: Literal["i32", "i64"] = "i64"


class TensorMap(Node):
    """A TMA view of a tensor: the box that one copy moves, the swizzle it lands in, and what is read outside.

    `box` counts elements, one extent a dimension of the tensor, the last one contiguous. `m[i, j]` names the box that
    starts at (i, j); what of it lies outside the tensor reads as `fill` and is not written.
    """

    kind: Literal["tensormap"] = "tensormap"
    name: Name
    tensor: Name
    box: Annotated[tuple[Extent, ...], Field(min_length=1, max_length=5)]
    swizzle: Literal[0, 32, 64, 128] = 0
    fill: Literal["zero", "nan"] = "zero"


class Buffer(Node):
    """An array in shared memory or in registers. `align` counts bytes and concerns shared memory."""

    kind: Literal["buffer"] = "buffer"
    name: Name
    space: Literal["shared", "register"]
    dtype: DTypeName
    shape: tuple[Extent, ...]
    layout: Layout | None = None
    align: Literal[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024] = 16


class Barrier(Node):
    """An array of mbarriers; a phase of one completes after `count` arrivals and the bytes they expect."""

    kind: Literal["barrier"] = "barrier"
    name: Name
    slots: Annotated[int, whole(1, 1 << 12)] = 1
    count: Annotated[int, whole(1, (1 << 20) - 1)] = 1


# --------------------------------------------------------------------------------------------------------- statements
class Let(Node):
    """A named value, or with `view` a named operand whose address is kept: `v[i]` is then the operand moved by `i`.

    `uniform` claims that the value is the same in all lanes of a warp and keeps it in uniform registers.
    """

    kind: Literal["let"] = "let"
    name: Name
    dtype: DTypeName = "i32"
    value: Ex | None = None
    view: Ref | None = None
    uniform: Flag = False
    at: Place | None = None


class Load(Node):
    """Registers `dst` := `width` elements of global or shared `src` along the last dimension.

    Where `when` does not hold nothing is read and `other` is used. `peer` is the rank of the block of the cluster whose
    shared memory is read. An `acquire` load is one of a flag of the device: what the thread that released the value
    knew then is known after it.
    """

    kind: Literal["load"] = "load"
    dst: Ref
    src: Ref
    width: Width = 1
    when: Ex | None = None
    other: Ex | None = None
    peer: Ex | None = None
    order: Literal["weak", "acquire"] = "weak"
    at: Place | None = None


class Store(Node):
    """`dst` := the values, one an element along the last dimension (a register `dst` is an assignment).

    `peer` is the rank of the block of the cluster whose shared memory is written. A `release` store sets a flag of the
    device and hands over what its thread knows.
    """

    kind: Literal["store"] = "store"
    dst: Ref
    values: Annotated[tuple[Ex, ...], Field(min_length=1, max_length=16)]
    peer: Ex | None = None
    order: Literal["weak", "release"] = "weak"
    at: Place | None = None


class Atomic(Node):
    """`dst` := op(dst, value), indivisibly; the register `old`, where there is one, gets the value from before.

    `order` is what it hands over (release) and takes (acquire), `scope` the threads among which it is indivisible.
    """

    kind: Literal["atomic"] = "atomic"
    op: Literal["add", "min", "max"]
    dst: Ref
    value: Ex
    old: Ref | None = None
    order: Literal["relaxed", "acquire", "release", "acq_rel"] = "relaxed"
    scope: Literal["block", "device"] = "device"
    at: Place | None = None


class Call(Node):
    """One instruction: a row of the table, its operands by role and its arguments by name."""

    kind: Literal["call"] = "call"
    row: Annotated[str, Field(max_length=64)]
    refs: dict[str, Ref] = {}
    args: dict[str, Ex] = {}
    at: Place | None = None


class Carry(Node):
    """A value carried round a loop and visible after it; all `next` of a loop are evaluated at once."""

    name: Name
    dtype: DTypeName = "i32"
    init: Ex
    next: Ex


class For(Node):
    """`for var in range(lo, hi, step)`, `step` positive. `unroll` is a factor: 1 keeps the loop, "full" unrolls it.

    A thread for which `until` holds at the end of a round leaves the loop; carried values have then moved on, and
    `until` is about the values of the round itself.
    """

    kind: Literal["for"] = "for"
    var: Name
    lo: Ex = Const(0)
    hi: Ex
    step: Ex = Const(1)
    unroll: Literal["full"] | Annotated[int, whole(1, 1024)] = 1
    carry: tuple[Carry, ...] = ()
    until: Ex | None = None
    body: tuple[Stmt, ...]
    at: Place | None = None


class If(Node):
    """The body, for the threads whose condition holds."""

    kind: Literal["if"] = "if"
    cond: Ex
    body: tuple[Stmt, ...]
    at: Place | None = None


class Role(Node):
    """The warps `warps[0] <= warp < warps[1]` of a Team; `registers` is what a thread may hold (setmaxnreg)."""

    warps: tuple[Annotated[int, whole(0, 32)], Annotated[int, whole(1, 32)]]
    registers: Annotated[int, whole(24, 256)] | None = None
    body: tuple[Stmt, ...]


class Team(Node):
    """Splits the block: every warp runs exactly one role."""

    kind: Literal["team"] = "team"
    roles: tuple[Role, ...]
    at: Place | None = None


class Sync(Node):
    """A barrier of a scope: both halves of it, or one.

    A named barrier has an `id` and completes when `threads` threads have reached it, whole warps all of them; a warp
    that only arrives goes on at once. A cluster barrier has the halves arrive and wait; a `relaxed` one orders
    execution only, not memory.
    """

    kind: Literal["sync"] = "sync"
    scope: Scope = "block"
    part: Literal["both", "arrive", "wait"] = "both"
    id: Annotated[int, whole(0, 15)] = 0
    threads: Annotated[int, whole(0, 1024)] = 0
    relaxed: Flag = False
    at: Place | None = None


class Fence(Node):
    """Orders generic before asynchronous accesses (`async`: the async proxy), what initialised mbarriers before what
    the cluster and the async proxy do with them (`mbarrier_init`), or registers before wgmma (`wgmma`)."""

    kind: Literal["fence"] = "fence"
    what: Literal["async", "mbarrier_init", "wgmma"]
    at: Place | None = None


class Commit(Node):
    """Closes the open group of a queue of asynchronous work."""

    kind: Literal["commit"] = "commit"
    queue: Queue = "cp_async"
    at: Place | None = None


class Arrive(Node):
    """Each thread arrives once on an mbarrier, expecting `bytes` more in this phase; `peer` is the rank of the block of
    the cluster whose mbarrier it is (its own without it)."""

    kind: Literal["arrive"] = "arrive"
    barrier: Ref
    bytes: Ex | None = None
    peer: Ex | None = None
    at: Place | None = None


class Wait(Node):
    """Until at most `pending` groups of a queue are unfinished, an mbarrier's phase of this parity is over, or a flag
    has at least a value (read with acquire).

    Of the bulk queue, `read` waits only until its sources in shared memory have been read.
    """

    kind: Literal["wait"] = "wait"
    queue: Queue | None = None
    pending: Annotated[int, whole(0, 64)] = 0
    read: Flag = False
    barrier: Ref | None = None
    parity: Ex | None = None
    flag: Ref | None = None
    value: Ex | None = None
    at: Place | None = None


class Assume(Node):
    """A fact about the input: checked on the host before launch and listed in the certificate."""

    kind: Literal["assume"] = "assume"
    fact: Ex
    at: Place | None = None


Statement = (
    Let | Load | Store | Atomic | Call | For | If | Team | Sync | Fence | Commit | Arrive | Wait | Assume
)  # fmt: skip
Stmt = Annotated[Statement, Field(discriminator="kind")]
