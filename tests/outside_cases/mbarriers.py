"""Barriers with phases, roles and named barriers: rings, parities, counts, bytes, waits for each other."""

from __future__ import annotations

from outside_cases.case import case

from amk.dsl.builder import Handle, KernelBuilder
from amk.dsl.expr import Expr, eq, select
from amk.dsl.kernel import KernelDescriptor

RACE, UNLANDED, DEADLOCK, PROTOCOL, UNWRITTEN = "AMK301", "AMK303", "AMK307", "AMK310", "AMK206"
CONSAN = "Triton ConSan tests: barriers"


def initialised(k: KernelBuilder, *bars: Handle, fence: bool = True) -> None:
    """Thread 0 initialises every slot, and the block meets."""
    with k.when(eq(k.t, 0)):
        for b in bars:
            for slot in range(b.shape[0]):
                k.call("mbarrier.init", {"bar": b[slot]})
        if fence:
            k.fence("mbarrier_init")
    k.sync()


@case(
    CONSAN,
    "all threads store, arrive and wait for phase 0, then read a neighbour's value",
    name="phase",
    asynchronous=True,
    sizes={},
)
@case(
    CONSAN,
    "the barrier counts one arrival more than there are threads",
    DEADLOCK,
    name="phase_count_over",
    count=65,
    asynchronous=True,
)
@case(
    CONSAN,
    "the barrier counts one arrival less than there are threads",
    PROTOCOL,
    RACE,
    UNWRITTEN,
    name="phase_count_under",
    count=63,
    asynchronous=True,
)
@case(
    CONSAN,
    "the wait is for the other parity: early threads run through, late ones wait for ever",
    DEADLOCK,
    RACE,
    UNWRITTEN,
    PROTOCOL,
    name="phase_wrong_parity",
    parity=1,
    asynchronous=True,
)
@case(CONSAN, "nobody initialises the barrier", PROTOCOL, name="phase_not_initialised", init="none", asynchronous=True)
@case(
    "PTX ISA: mbarrier.init",
    "nothing between initialising the barrier and other threads' arrivals",
    PROTOCOL,
    RACE,
    name="phase_init_unseen",
    init="no sync",
    asynchronous=True,
)
@case(
    CONSAN,
    "threads arrive before they store",
    RACE,
    UNWRITTEN,
    name="phase_arrive_early",
    early=True,
    asynchronous=True,
)
@case(
    CONSAN,
    "threads arrive and read without waiting",
    RACE,
    UNWRITTEN,
    name="phase_no_wait",
    wait=False,
    asynchronous=True,
)
@case(
    CONSAN,
    "one half of the threads arrives on a barrier that counts all",
    DEADLOCK,
    name="phase_half_arrives",
    below=32,
    asynchronous=True,
)
def phase(
    count: int = 64, parity: int = 0, init: str = "right", early: bool = False, wait: bool = True, below: int = 64
) -> KernelDescriptor:
    k = KernelBuilder("phase", target="sm_90a", threads=64)
    z = k.tensor("z", "i32", (64,), access="write")
    s, r = k.shared("s", "i32", (64,)), k.registers("r", "i32", (1,))
    bar = k.barrier("full", count=count)
    if init == "right":
        initialised(k, bar)
    elif init == "no sync":
        with k.when(eq(k.t, 0)):
            k.call("mbarrier.init", {"bar": bar[0]})
    if not early:
        k.store(s[k.t], k.t)
    with k.when(k.t < below):
        k.arrive(bar[0])
    if early:
        k.store(s[k.t], k.t)
    if wait:
        k.wait_phase(bar[0], parity)
    k.load(r[0], s[63 - k.t])
    k.store(z[k.t], r[0])
    return k.finish(grid=(1,))


@case(
    "CUTLASS: pipelines of producers and consumers",
    "one warp fills slots, one drains them, full and empty barriers, two slots",
    name="ring",
    asynchronous=True,
    sizes={"n": 5},
)
@case(
    "CUTLASS: pipelines of producers and consumers",
    "the producer does not wait until a slot is empty",
    RACE,
    PROTOCOL,
    name="ring_no_empty_wait",
    empty_wait=False,
    asynchronous=True,
)
@case(
    "CUTLASS: pipelines of producers and consumers",
    "the producer starts with the consumer's parity",
    DEADLOCK,
    name="ring_producer_parity",
    bit=0,
    asynchronous=True,
)
@case(
    "CUTLASS: pipelines of producers and consumers",
    "the consumer never gives a slot back",
    DEADLOCK,
    name="ring_never_released",
    release="never",
    asynchronous=True,
)
@case(
    "CUTLASS: pipelines of producers and consumers",
    "the consumer gives the slot back before it reads it",
    RACE,
    name="ring_released_early",
    release="early",
    asynchronous=True,
)
@case(
    "CUTLASS: pipelines of producers and consumers",
    "the parity does not turn when the slots start over",
    RACE,
    PROTOCOL,
    DEADLOCK,
    UNWRITTEN,
    name="ring_parity_stuck",
    turn=False,
    asynchronous=True,
)
@case(
    "CUTLASS: pipelines of producers and consumers",
    "the consumer does not wait until a slot is full",
    RACE,
    UNWRITTEN,
    PROTOCOL,
    name="ring_no_full_wait",
    full_wait=False,
    asynchronous=True,
)
@case(
    "CUTLASS: pipelines of producers and consumers",
    "the consumer takes one round more than the producer gives",
    DEADLOCK,
    "AMK201",
    name="ring_one_round_more",
    rounds=1,
    asynchronous=True,
)
def ring(
    bit: int = 1,
    empty_wait: bool = True,
    full_wait: bool = True,
    release: str = "late",
    turn: bool = True,
    rounds: int = 0,
) -> KernelDescriptor:
    k = KernelBuilder("ring", target="sm_90a", threads=64)
    n = k.size("n", max=1 << 20)
    x, z = k.tensor("x", "f32", (n, 32)), k.tensor("z", "f32", (n, 32), access="write")
    s, r = k.shared("s", "f32", (2, 32)), k.registers("r", "f32", (1,))
    full, empty = k.barrier("full", slots=2, count=32), k.barrier("empty", slots=2, count=32)
    initialised(k, full, empty)

    def after(slot: Expr, parity: Expr) -> dict[str, Expr]:
        return {"slot": 1 - slot, "bit": select(eq(slot, 1), parity ^ 1, parity) if turn else parity}

    with k.team():
        with k.role(1, 2), k.loop("i", 0, n, slot=0, bit=bit) as i:
            k.load(r[0], x[i.var, k.t - 32])
            if empty_wait:
                k.wait_phase(empty[i.slot], i.bit)
            k.store(s[i.slot, k.t - 32], r[0])
            k.arrive(full[i.slot])
            i.next(**after(i.slot, i.bit))
        with k.role(0, 1), k.loop("j", 0, n + rounds, slot=0, bit=0) as j:
            if full_wait:
                k.wait_phase(full[j.slot], j.bit)
            if release == "early":
                k.arrive(empty[j.slot])
            k.load(r[0], s[j.slot, 31 - k.t])
            if release == "late":
                k.arrive(empty[j.slot])
            with k.when(j.var < n):
                k.store(z[j.var, k.t], r[0])
            j.next(**after(j.slot, j.bit))
    return k.finish(grid=(1,))
