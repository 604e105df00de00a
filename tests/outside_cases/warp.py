"""Inside a warp: shuffles, votes, warp barriers, lanes that are not there."""

from __future__ import annotations

from outside_cases.case import case

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import eq
from amk.dsl.kernel import KernelDescriptor

LANES, ABSENT, RACE = "AMK305", "AMK318", "AMK301"
PTX = "PTX ISA: shfl.sync and member masks"
WARP = "GPUVerify: warp synchronisation / Faial drf-warp"
LOW = 0xFFFF


@case(PTX, "a butterfly sum over the whole warp", name="butterfly", sizes={})
@case(PTX, "only half of the warp comes to a shuffle that names all lanes", LANES, name="shuffle_half_warp", below=16)
@case(
    PTX,
    "half of the warp comes, and the mask names that half",
    name="shuffle_named_half",
    below=16,
    members=LOW,
    mask=8,
    sizes={},
)
@case(PTX, "the mask names half, and all lanes come", LANES, name="shuffle_unnamed_lanes", members=LOW, mask=8)
@case(
    PTX,
    "a butterfly reaches across to lanes that the mask leaves out",
    ABSENT,
    name="shuffle_across_mask",
    below=16,
    members=LOW,
)
def butterfly(below: int = 32, members: int = 0xFFFFFFFF, mask: int = 16) -> KernelDescriptor:
    k = KernelBuilder("butterfly", target="sm_80", threads=64)
    x, z = k.tensor("x", "f32", (64,)), k.tensor("z", "f32", (64,), access="write")
    a = k.registers("a", "f32", (2,))
    k.load(a[0], x[k.t])
    k.store(a[1], 0.0)
    with k.when(k.t % 32 < below):
        k.call("shfl.bfly", {"dst": a[1]}, value=a[0], mask=mask, members=members)
    k.store(z[k.t], a[0] + a[1])
    return k.finish(grid=(1,))


@case(
    WARP,
    "each lane stores, the neighbour's value is read with no warp barrier",
    RACE,
    "AMK206",
    name="warp_exchange_bare",
    sync="none",
)
@case(WARP, "a warp barrier between", name="warp_exchange", sync="warp", sizes={})
@case(
    WARP,
    "a warp barrier between, but the neighbour is in the next warp",
    RACE,
    "AMK206",
    name="warp_exchange_next_warp",
    sync="warp",
    far=32,
)
@case(
    WARP,
    "a block barrier between, and the neighbour is in the next warp",
    name="block_exchange",
    sync="block",
    far=32,
    sizes={},
)
@case(
    WARP,
    "the warp barrier stands under a condition that half of the warp meets",
    LANES,
    "AMK302",
    RACE,
    "AMK206",
    name="warp_barrier_half",
    sync="half",
)
def exchange(sync: str, far: int = 1) -> KernelDescriptor:
    k = KernelBuilder("exchange", target="sm_80", threads=64)
    z = k.tensor("z", "i32", (64,), access="write")
    s, r = k.shared("s", "i32", (64,)), k.registers("r", "i32", (1,))
    k.store(s[k.t], k.t)
    if sync == "half":
        with k.when(k.t % 32 < 16):
            k.sync("warp")
    elif sync != "none":
        k.sync(sync)
    k.load(r[0], s[k.t ^ far])
    k.store(z[k.t], r[0])
    return k.finish(grid=(1,))


@case(
    "CUDA programming guide: independent threads",
    "shuffle in a loop whose trips differ between lanes",
    LANES,
    name="shuffle_in_uneven_loop",
    uneven=True,
)
@case(
    "CUDA programming guide: independent threads", "shuffle in a loop of equal trips", name="shuffle_in_loop", sizes={}
)
@case(
    "CUDA programming guide: independent threads",
    "a shuffle of a block whose last warp is short, all lanes named",
    LANES,
    name="shuffle_short_warp",
    threads=48,
)
def shuffle_loop(uneven: bool = False, threads: int = 64) -> KernelDescriptor:
    k = KernelBuilder("shuffle_loop", target="sm_80", threads=threads)
    z = k.tensor("z", "i32", (threads,), access="write")
    r = k.registers("r", "i32", (2,))
    k.store(r[0], k.t)
    with k.loop("i", 0, k.t % 4 + 1 if uneven else 4):
        k.call("shfl.down", {"dst": r[1]}, value=r[0], delta=1)
        k.store(r[0], r[0] + r[1])
    k.store(z[k.t], r[0])
    return k.finish(grid=(1,))


@case("PTX ISA: vote.sync", "a ballot of whole warps, its result in all lanes", name="ballot", sizes={})
@case(
    "PTX ISA: vote.sync",
    "a ballot that only the lanes come to whose value is set",
    LANES,
    name="ballot_of_some",
    some=True,
)
def ballot(some: bool = False) -> KernelDescriptor:
    k = KernelBuilder("votes", target="sm_80", threads=32)
    x, z = k.tensor("x", "i32", (32,)), k.tensor("z", "u32", (32,), access="write")
    r, b = k.registers("r", "i32", (1,)), k.registers("b", "u32", (1,))
    k.load(r[0], x[k.t])
    k.store(b[0], "u32(0)")
    with k.when(r[0] > 0 if some else k.t < 32):
        k.call("vote.ballot", {"dst": b[0]}, value=r[0] > 0)
    k.store(z[k.t], b[0])
    return k.finish(grid=(1,))


@case(
    "Indigo / HiRace: block sums in two steps",
    "one sum a warp in shared memory, a barrier, the first warp adds them",
    name="warp_sums",
    sizes={},
)
@case(
    "Indigo / HiRace: block sums in two steps",
    "no barrier between the warps' sums and the first warp",
    RACE,
    "AMK206",
    name="warp_sums_bare",
    barrier=False,
)
@case(
    "Indigo / HiRace: block sums in two steps",
    "all lanes store the warp's sum: several writers of one word",
    RACE,
    name="warp_sums_all_lanes",
    leader=False,
)
@case(
    "Indigo / HiRace: block sums in two steps",
    "the first warp reads 32 sums where 4 warps wrote 4",
    "AMK206",
    "AMK202",
    name="warp_sums_too_many",
    read=32,
)
def warp_sums(barrier: bool = True, leader: bool = True, read: int = 4) -> KernelDescriptor:
    k = KernelBuilder("warp_sums", target="sm_80", threads=128)
    x, z = k.tensor("x", "f32", (128,)), k.tensor("z", "f32", (1,), access="write")
    s, a = k.shared("s", "f32", (32,)), k.registers("a", "f32", (2,))
    k.load(a[0], x[k.t])
    for mask in (16, 8, 4, 2, 1):
        k.call("shfl.bfly", {"dst": a[1]}, value=a[0], mask=mask)
        k.store(a[0], a[0] + a[1])
    with k.when(eq(k.t % 32, 0) if leader else k.t < 128):
        k.store(s[k.t // 32], a[0])
    if barrier:
        k.sync()
    with k.when(k.t < 32):
        k.store(a[0], 0.0)
        with k.when(k.t < read):
            k.load(a[0], s[k.t])
        for mask in (16, 8, 4, 2, 1):
            k.call("shfl.bfly", {"dst": a[1]}, value=a[0], mask=mask)
            k.store(a[0], a[0] + a[1])
        with k.when(eq(k.t, 0)):
            k.store(z[0], a[0])
    return k.finish(grid=(1,))
