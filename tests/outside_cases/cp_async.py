"""Copies of threads that run on (cp.async): groups, waits, and barriers that make them visible."""

from __future__ import annotations

from outside_cases.case import builder, case

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import cdiv
from amk.dsl.kernel import KernelDescriptor

UNLANDED, RACE, EXIT = "AMK303", "AMK301", "AMK308"
CONSAN = "Triton ConSan tests: ws_async_copy"
GPUVERIFY = "GPUVerify: async_work_group_copy"


@case(GPUVERIFY, "copy, commit, wait, barrier, read", name="copy_then_read", asynchronous=True, sizes={})
@case(GPUVERIFY, "the copy is read with no wait", UNLANDED, RACE, name="copy_no_wait", wait=None, asynchronous=True)
@case(
    GPUVERIFY,
    "the wait leaves the only group pending",
    UNLANDED,
    RACE,
    name="copy_wait_leaves_one",
    wait=1,
    asynchronous=True,
)
@case(
    GPUVERIFY,
    "the group is never closed, so the wait does not cover the copy",
    UNLANDED,
    RACE,
    EXIT,
    name="copy_not_committed",
    commit=False,
    asynchronous=True,
)
@case(
    CONSAN,
    "each thread waits for its own copies, and a neighbour's is read without a barrier",
    RACE,
    UNLANDED,
    name="copy_no_barrier",
    barrier=False,
    asynchronous=True,
)
@case(
    CONSAN,
    "each thread waits for its own copy and reads that one only",
    name="copy_own_element",
    barrier=False,
    own=True,
    asynchronous=True,
    sizes={},
)
@case(
    CONSAN,
    "the barrier stands before the wait",
    RACE,
    UNLANDED,
    name="copy_barrier_before_wait",
    early=True,
    asynchronous=True,
)
@case(
    GPUVERIFY,
    "a plain store to the copy's destination before the wait",
    RACE,
    UNLANDED,
    name="copy_then_plain_store",
    store=True,
    asynchronous=True,
)
@case(
    GPUVERIFY,
    "two copies with one destination in flight together",
    RACE,
    UNLANDED,
    name="copy_twice",
    twice=True,
    asynchronous=True,
)
def one_copy(
    wait: int | None = 0, commit: bool = True, barrier: bool = True, own: bool = False, early: bool = False,
    store: bool = False, twice: bool = False,
) -> KernelDescriptor:  # fmt: skip
    k = KernelBuilder("one_copy", target="sm_80", threads=64)
    x, z = k.tensor("x", "f32", (128,)), k.tensor("z", "f32", (64,), access="write")
    s, a = k.shared("s", "f32", (64,)), k.registers("a", "f32", (1,))
    k.call("cp.async.4", {"dst": s[k.t], "src": x[k.t]})
    if twice:
        k.call("cp.async.4", {"dst": s[63 - k.t], "src": x[k.t + 64]})
    if commit:
        k.commit()
    if store:
        k.store(s[63 - k.t], 0.0)
    if early:
        k.sync()
    if wait is not None:
        k.wait(pending=wait)
    if barrier and not early:
        k.sync()
    k.load(a[0], s[k.t if own else 63 - k.t])
    k.store(z[k.t], a[0])
    if wait != 0 or not commit:
        k.commit()
        k.wait(pending=0)
    return k.finish(grid=(1,))


@case(
    CONSAN,
    "two groups, all but one finished: the older one is read",
    name="groups_read_oldest",
    read=0,
    asynchronous=True,
    sizes={},
)
@case(
    CONSAN,
    "two groups, all but one finished: the newest is read",
    UNLANDED,
    RACE,
    name="groups_read_newest",
    read=1,
    asynchronous=True,
)
@case(
    "PTX ISA: cp.async.wait_group",
    "both copies are in one group, and all but one group are finished",
    UNLANDED,
    RACE,
    name="groups_one_commit",
    read=0,
    split=False,
    asynchronous=True,
)
@case(
    "PTX ISA: cp.async",
    "the kernel ends with a group in flight",
    EXIT,
    name="groups_exit_in_flight",
    read=0,
    last=False,
    asynchronous=True,
)
def groups(read: int, split: bool = True, last: bool = True) -> KernelDescriptor:
    k = KernelBuilder("groups", target="sm_80", threads=64)
    x, z = k.tensor("x", "f32", (2, 64)), k.tensor("z", "f32", (64,), access="write")
    s, a = k.shared("s", "f32", (2, 64)), k.registers("a", "f32", (1,))
    for g in (0, 1):
        k.call("cp.async.4", {"dst": s[g, k.t], "src": x[g, k.t]})
        if split or g:
            k.commit()
    k.wait(pending=1)
    k.sync()
    k.load(a[0], s[read, 63 - k.t])
    k.store(z[k.t], a[0])
    if last:
        k.wait(pending=0)
    return k.finish(grid=(1,))


@case(
    "CUTLASS issues: multistage main loops",
    "three slots, copies two ahead, wait for all but one, barrier, use",
    name="stages",
    asynchronous=True,
    sizes={"n": 300},
)
@case(
    "CUTLASS issues: multistage main loops",
    "two slots for copies two ahead",
    RACE,
    UNLANDED,
    name="stages_slot_short",
    slots=2,
    asynchronous=True,
)
@case(
    "CUTLASS issues: multistage main loops",
    "the wait leaves two groups, one too many",
    UNLANDED,
    RACE,
    name="stages_wait_short",
    pending=2,
    asynchronous=True,
)
@case(
    "CUTLASS issues: multistage main loops",
    "no barrier after the wait",
    RACE,
    UNLANDED,
    name="stages_no_barrier",
    barrier=False,
    asynchronous=True,
)
@case(
    "CUTLASS issues: multistage main loops",
    "the slot of the next tile is used",
    UNLANDED,
    RACE,
    name="stages_wrong_slot",
    read=1,
    asynchronous=True,
)
@case(
    "CUTLASS issues: multistage main loops",
    "the copy of the tail is not masked",
    "AMK201",
    name="stages_tail_unmasked",
    mask=False,
    asynchronous=True,
)
def stages(
    slots: int = 3, pending: int = 1, barrier: bool = True, read: int = 0, mask: bool = True
) -> KernelDescriptor:
    k, n = builder("stages", 64)
    x, z = k.tensor("x", "f32", (n,)), k.tensor("z", "f32", (n,), access="write")
    s, a = k.shared("s", "f32", (slots, 64)), k.registers("a", "f32", (1,))
    tiles = k.let("tiles", cdiv(n, 64))
    for p in (0, 1):
        k.call("cp.async.4", {"dst": s[p, k.t], "src": x[p * 64 + k.t]}, when=p * 64 + k.t < n)
        k.commit()
    with k.loop("i", 0, tiles) as i:
        k.wait(pending=pending)
        if barrier:
            k.sync()
        at = (i.var + 2) * 64 + k.t
        with k.when(i.var + 2 < tiles):
            k.call("cp.async.4", {"dst": s[(i.var + 2) % slots, k.t], "src": x[at]}, when=at < n if mask else k.t < 64)
        k.commit()
        k.load(a[0], s[(i.var + read) % slots, 63 - k.t])
        with k.when(i.var * 64 + k.t < n):
            k.store(z[i.var * 64 + k.t], a[0])
    k.wait(pending=0)
    return k.finish(grid=(1,))


@case(
    "PTX ISA: cp.async alignment",
    "16 bytes at a time from rows that are only 8 bytes apart",
    "AMK205",
    "AMK201",
    name="copy_16_of_rows_of_2",
    pitch=2,
    asynchronous=True,
)
@case(
    "PTX ISA: cp.async alignment",
    "16 bytes at a time from rows of 16 bytes",
    name="copy_16",
    asynchronous=True,
    sizes={},
)
@case(
    "PTX ISA: cp.async alignment",
    "the source starts at one element past an aligned one",
    "AMK205",
    "AMK201",
    name="copy_16_shifted",
    shift=1,
    asynchronous=True,
)
def wide(pitch: int = 4, shift: int = 0) -> KernelDescriptor:
    k = KernelBuilder("wide", target="sm_80", threads=32)
    x, z = k.tensor("x", "f32", (33, 4), strides=(pitch, 1), align=16), k.tensor("z", "f32", (32,), access="write")
    s, a = k.shared("s", "f32", (32, 4)), k.registers("a", "f32", (1,))
    k.call("cp.async.16", {"dst": s[k.t, 0], "src": x[k.t, shift]})
    k.commit()
    k.wait(pending=0)
    k.load(a[0], s[k.t, 3])
    k.store(z[k.t], a[0])
    return k.finish(grid=(1,))
