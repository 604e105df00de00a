"""Copies of boxes and of bytes (TMA, bulk): bytes expected, proxies, stores, edges of the tensor."""

from __future__ import annotations

from outside_cases.case import case
from outside_cases.mbarriers import initialised

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import cdiv, eq
from amk.dsl.kernel import KernelDescriptor

UNLANDED, DEADLOCK, EXIT, PROXY, PROTOCOL = "AMK303", "AMK307", "AMK308", "AMK309", "AMK310"
CONSAN = "Triton ConSan tests: TMA"


@case(
    "PTX ISA: cp.async.bulk.tensor",
    "boxes of 16 x 64 halves; the last reaches past the tensor and is filled with zeroes",
    name="box_past_the_end",
    asynchronous=True,
    sizes={"m": 20},
)
@case(CONSAN, "16 bytes too many are expected", DEADLOCK, name="box_bytes_over", expected=2064, asynchronous=True)
@case(
    CONSAN,
    "16 bytes too few are expected",
    PROTOCOL,
    UNLANDED,
    DEADLOCK,
    name="box_bytes_under",
    expected=2032,
    asynchronous=True,
)
@case(CONSAN, "the box is read before the wait", UNLANDED, "AMK206", name="box_no_wait", wait="none", asynchronous=True)
@case(
    CONSAN,
    "only thread 0 waits, the others read at once",
    UNLANDED,
    name="box_one_thread_waits",
    wait="one",
    asynchronous=True,
)
@case(
    CONSAN,
    "thread 0 waits, and a barrier of the block follows",
    name="box_one_waits_all_meet",
    wait="one, barrier",
    asynchronous=True,
    sizes={"m": 20},
)
@case(
    CONSAN,
    "nobody arrives: the bytes come, the arrival is missing",
    DEADLOCK,
    name="box_no_arrival",
    arrive=False,
    asynchronous=True,
)
@case(
    CONSAN,
    "every thread of the warp asks for the box and expects its bytes once",
    DEADLOCK,
    PROTOCOL,
    "AMK301",
    name="box_issued_by_all",
    issuers=32,
    asynchronous=True,
)
@case(
    "CUTLASS issues: TMA",
    "the box in shared memory is aligned to 64 bytes",
    "AMK205",
    "AMK005",
    name="box_misaligned",
    align=64,
    asynchronous=True,
)
def box(
    expected: int = 2048, wait: str = "all", arrive: bool = True, issuers: int = 1, align: int = 128
) -> KernelDescriptor:
    k = KernelBuilder("box", target="sm_90a", threads=64)
    m = k.size("m", max=1 << 16)
    x, z = k.tensor("x", "bf16", (m, 64), align=16), k.tensor("z", "bf16", (m, 64), access="write")
    tm = k.tensormap("tm", x, (16, 64))
    s, r = k.shared("s", "bf16", (16, 64), align=align), k.registers("r", "bf16", (1,))
    bar = k.barrier("full")
    initialised(k, bar)
    if arrive:
        with k.when(eq(k.t, 0)):
            k.arrive(bar[0], bytes=expected)
    with k.when(k.t < issuers):
        k.call("tma.load.2d", {"dst": s[0, 0], "src": tm[k.bx * 16, 0], "bar": bar[0]})
    if wait == "all":
        k.wait_phase(bar[0], 0)
    elif wait != "none":
        with k.when(eq(k.t, 0)):
            k.wait_phase(bar[0], 0)
    if wait == "one, barrier":
        k.sync()
    with k.loop("row", 0, 16) as row:
        k.load(r[0], s[row.var, k.t])
        with k.when(k.bx * 16 + row.var < m):
            k.store(z[k.bx * 16 + row.var, k.t], r[0])
    if wait in ("none", "one"):
        k.wait_phase(bar[0], 0)
    return k.finish(grid=(cdiv(m, 16),))


@case(
    "Triton ConSan tests: fence before a TMA store",
    "threads fill the box, fence, barrier, one thread stores it",
    name="store_box",
    asynchronous=True,
    sizes={"m": 20},
)
@case(
    "Triton ConSan tests: fence before a TMA store",
    "the fence between threads' stores and the copy is left out",
    PROXY,
    name="store_no_fence",
    fence="none",
    asynchronous=True,
)
@case(
    "Triton ConSan tests: fence before a TMA store",
    "the fence stands behind the barrier, by the copying thread: it lies on the way too",
    name="store_fence_late",
    fence="late",
    asynchronous=True,
)
@case(
    "Triton ConSan tests: fence before a TMA store",
    "no barrier between filling and copying",
    "AMK301",
    PROXY,
    "AMK206",
    name="store_no_barrier",
    barrier=False,
    asynchronous=True,
)
@case(
    "PTX ISA: cp.async.bulk.wait_group",
    "the kernel ends while the copy may still read shared memory",
    EXIT,
    name="store_exit_in_flight",
    wait=False,
    asynchronous=True,
)
@case(
    "PTX ISA: cp.async.bulk.wait_group",
    "the group is never closed, so the wait covers nothing",
    EXIT,
    name="store_not_committed",
    commit=False,
    asynchronous=True,
)
@case(
    "PTX ISA: cp.async.bulk.wait_group",
    "the box is filled again while the copy reads it",
    "AMK301",
    UNLANDED,
    name="store_refilled",
    refill="at once",
    asynchronous=True,
)
@case(
    "PTX ISA: cp.async.bulk.wait_group",
    "the box is filled again after the wait and a barrier",
    name="store_refilled_late",
    refill="after",
    asynchronous=True,
    sizes={"m": 20},
)
def store_box(
    fence: str = "right", barrier: bool = True, wait: bool = True, commit: bool = True, refill: str = ""
) -> KernelDescriptor:
    k = KernelBuilder("store_box", target="sm_90a", threads=64)
    m = k.size("m", max=1 << 16)
    z = k.tensor("z", "bf16", (m, 64), access="write", align=16)
    tm = k.tensormap("tm", z, (8, 64))
    s = k.shared("s", "bf16", (8, 64), align=128)
    with k.loop("row", 0, 8) as row:
        k.store(s[row.var, k.t], 1.0)
    if fence == "right":
        k.fence("async")
    if barrier:
        k.sync()
    with k.when(eq(k.t, 0)):
        if fence == "late":
            k.fence("async")
        k.call("tma.store.2d", {"dst": tm[k.bx * 8, 0], "src": s[0, 0]})
        if commit:
            k.commit("bulk")
        if wait and refill != "at once":
            k.wait("bulk")
    if refill == "after":
        k.sync()
    if refill:
        k.store(s[0, k.t], 2.0)
    if refill == "at once":
        with k.when(eq(k.t, 0)):
            k.wait("bulk")
    return k.finish(grid=(cdiv(m, 8),))


@case(
    CONSAN,
    "a copy of bytes into one half while threads fill the other half",
    name="bulk_halves",
    at=64,
    asynchronous=True,
    sizes={},
)
@case(
    CONSAN,
    "threads fill the half that a copy of bytes is landing in",
    "AMK301",
    UNLANDED,
    name="bulk_overlap",
    at=0,
    asynchronous=True,
)
@case(
    "PTX ISA: cp.async.bulk",
    "the copy of bytes is not a multiple of 16 bytes",
    "AMK205",
    "AMK006",
    "AMK005",
    name="bulk_odd_bytes",
    at=64,
    nbytes=252,
    asynchronous=True,
)
@case(
    "PTX ISA: cp.async.bulk",
    "the copy of bytes reaches past the end of the array",
    "AMK201",
    "AMK202",
    name="bulk_past_the_end",
    at=64,
    nbytes=528,
    asynchronous=True,
)
def bulk(at: int, nbytes: int = 256) -> KernelDescriptor:
    k = KernelBuilder("bulk", target="sm_90a", threads=64)
    x, z = k.tensor("x", "f32", (64,), align=16), k.tensor("z", "f32", (64,), access="write")
    s, r = k.shared("s", "f32", (128,), align=128), k.registers("r", "f32", (2,))
    bar = k.barrier("full")
    initialised(k, bar)
    with k.when(eq(k.t, 0)):
        k.arrive(bar[0], bytes=nbytes)
        k.call("bulk.load", {"dst": s[0], "src": x[0], "bar": bar[0]}, bytes=nbytes)
    k.store(s[at + k.t], 1.0)
    k.wait_phase(bar[0], 0)
    k.load(r[0], s[63 - k.t])
    k.load(r[1], s[at + k.t])
    k.store(z[k.t], r[0] + r[1])
    return k.finish(grid=(1,))
