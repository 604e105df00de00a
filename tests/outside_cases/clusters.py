"""Clusters: another block's shared memory, its start and its end, barriers of the cluster."""

from __future__ import annotations

from outside_cases.case import case

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import eq
from amk.dsl.kernel import KernelDescriptor

GONE, RACE, UNWRITTEN = "AMK312", "AMK301", "AMK206"
GUIDE = "CUDA programming guide: distributed shared memory"


@case(
    GUIDE,
    "fill, meet in the cluster, read the peer's memory, meet again, end",
    name="peer_read",
    asynchronous=True,
    sizes={},
)
@case(
    GUIDE,
    "a block may end while its peer still reads its memory",
    GONE,
    name="peer_read_after_end",
    end="",
    asynchronous=True,
)
@case(
    GUIDE,
    "no barrier of the cluster before the read: the peer need not have started",
    GONE,
    RACE,
    UNWRITTEN,
    name="peer_read_before_start",
    start="",
    asynchronous=True,
)
@case(
    GUIDE,
    "a barrier of the block where one of the cluster is needed",
    GONE,
    RACE,
    UNWRITTEN,
    name="peer_read_block_barrier",
    start="block",
    asynchronous=True,
)
@case(GUIDE, "a barrier of the block before the end", GONE, name="peer_read_block_end", end="block", asynchronous=True)
@case(
    "PTX ISA: barrier.cluster.arrive.relaxed",
    "the halves before the read hand nothing over",
    RACE,
    UNWRITTEN,
    name="peer_read_relaxed",
    relaxed=True,
    asynchronous=True,
)
@case(
    GUIDE,
    "the peer is rank + 1, which the last block of the cluster does not have",
    "AMK201",
    "AMK202",
    GONE,
    name="peer_out_of_cluster",
    peer="next",
    asynchronous=True,
)
@case(
    GUIDE,
    "the block is in a cluster of 4 and goes round",
    name="peer_round",
    peer="round",
    cluster=4,
    asynchronous=True,
    sizes={},
)
@case(
    GUIDE,
    "the memory is filled again before all have read it",
    RACE,
    name="peer_refilled",
    refill=True,
    asynchronous=True,
)
@case(
    GUIDE,
    "the barrier of the cluster stands under a condition on the rank: the other block reads before its peer has come",
    GONE,
    "AMK302",
    "AMK307",
    "AMK310",
    name="cluster_barrier_some",
    some=True,
    asynchronous=True,
)
def peer_read(
    start: str = "cluster", end: str = "cluster", relaxed: bool = False, peer: str = "other", cluster: int = 2,
    refill: bool = False, some: bool = False,
) -> KernelDescriptor:  # fmt: skip
    k = KernelBuilder("peer_read", target="sm_90a", threads=32, cluster=cluster)
    z = k.tensor("z", "i32", (8, 32), access="write")
    s, r = k.shared("s", "i32", (32,)), k.registers("r", "i32", (1,))
    k.store(s[k.t], k.bx * 32 + k.t)
    if relaxed:
        k.sync("cluster", relaxed=True)
    elif some:
        with k.when(eq(k.rank, 0)):
            k.sync("cluster")
    elif start:
        k.sync(start)
    other = {"other": 1 - k.rank, "next": k.rank + 1, "round": (k.rank + 1) % cluster}[peer]
    k.load(r[0], s[31 - k.t], peer=other)
    if refill:
        k.store(s[k.t], 0)
    k.store(z[k.bx, k.t], r[0])
    if end:
        k.sync(end)
    return k.finish(grid=(8,))
