"""Warps with different work: named barriers, and waits for each other."""

from __future__ import annotations

from outside_cases.case import case
from outside_cases.mbarriers import initialised

from amk.dsl.builder import KernelBuilder
from amk.dsl.kernel import KernelDescriptor

RACE, DEADLOCK, PROTOCOL, UNWRITTEN = "AMK301", "AMK307", "AMK310", "AMK206"
WEFT = "Weft: named barriers"


@case(
    WEFT,
    "warps 0 and 1 write and arrive, warps 2 and 3 sync and read",
    name="named_handover",
    asynchronous=True,
    sizes={},
)
@case(
    WEFT,
    "the writers arrive on barrier 1, the readers sync on barrier 2",
    DEADLOCK,
    UNWRITTEN,
    RACE,
    name="named_other_number",
    reader=2,
    asynchronous=True,
)
@case(
    WEFT, "writers and readers name different counts", PROTOCOL, name="named_other_count", threads=96, asynchronous=True
)
@case(
    WEFT,
    "both name only their own threads: each half passes alone",
    RACE,
    UNWRITTEN,
    PROTOCOL,
    name="named_own_threads",
    threads=64,
    both=True,
    asynchronous=True,
)
@case(
    WEFT,
    "two arrivals and no sync: nobody waits, and the readers read",
    RACE,
    UNWRITTEN,
    name="named_two_arrivals",
    part="arrive",
    asynchronous=True,
)
@case(
    WEFT,
    "the writers arrive before they write",
    RACE,
    UNWRITTEN,
    name="named_arrive_early",
    early=True,
    asynchronous=True,
)
def named(
    reader: int = 1, threads: int = 128, both: bool = False, part: str = "both", early: bool = False
) -> KernelDescriptor:
    k = KernelBuilder("named", target="sm_90a", threads=128)
    z = k.tensor("z", "i32", (64,), access="write")
    s, r = k.shared("s", "i32", (64,)), k.registers("r", "i32", (1,))
    with k.team():
        with k.role(0, 2):
            if not early:
                k.store(s[k.t], k.t)
            k.sync("named", part="arrive", id=1, threads=threads if both else 128)
            if early:
                k.store(s[k.t], k.t)
        with k.role(2, 4):
            k.sync("named", part=part, id=reader, threads=threads)
            k.load(r[0], s[127 - k.t])
            k.store(z[k.t - 64], r[0])
    return k.finish(grid=(1,))


@case(
    "Triton ConSan tests: deadlocks",
    "two warps wait for each other's barrier before they arrive",
    DEADLOCK,
    name="each_waits_for_the_other",
    first="wait",
    asynchronous=True,
)
@case(
    "Triton ConSan tests: deadlocks",
    "both arrive first and wait then",
    name="each_arrives_first",
    first="arrive",
    asynchronous=True,
    sizes={},
)
@case(
    "Triton ConSan tests: deadlocks",
    "one arrives first, the other waits first",
    name="one_arrives_first",
    first="one",
    asynchronous=True,
    sizes={},
)
@case(
    "Triton ConSan tests: deadlocks",
    "a warp waits for its own barrier, on which only the other would arrive after it",
    DEADLOCK,
    name="waits_for_own",
    first="wait",
    crossed=False,
    asynchronous=True,
)
def crossing(first: str, crossed: bool = True) -> KernelDescriptor:
    k = KernelBuilder("crossing", target="sm_90a", threads=64)
    a, b = k.barrier("a", count=32), k.barrier("b", count=32)
    initialised(k, a, b)
    with k.team():
        for warp, (mine, other) in enumerate(((a, b), (b, a))):
            to, of = (mine, other) if crossed else (other, mine)
            with k.role(warp, warp + 1):
                if first == "wait" or (first == "one" and warp):
                    k.wait_phase(of[0], 0)
                    k.arrive(to[0])
                else:
                    k.arrive(to[0])
                    k.wait_phase(of[0], 0)
    return k.finish(grid=(1,))


@case(
    "CUTLASS: barriers in roles",
    "a barrier of the whole block stands inside one role",
    "AMK302",
    DEADLOCK,
    name="block_barrier_in_role",
    asynchronous=True,
)
@case(
    "CUTLASS: barriers in roles",
    "the roles end, and the whole block meets",
    name="block_barrier_after_roles",
    inside=False,
    asynchronous=True,
    sizes={},
)
@case(
    "CUTLASS: barriers in roles",
    "the consumer role reads what the producer role wrote, with no barrier between",
    RACE,
    UNWRITTEN,
    name="roles_without_barrier",
    inside=False,
    meet=False,
    asynchronous=True,
)
def in_role(inside: bool = True, meet: bool = True) -> KernelDescriptor:
    k = KernelBuilder("in_role", target="sm_90a", threads=64)
    z = k.tensor("z", "i32", (32,), access="write")
    s, r = k.shared("s", "i32", (32,)), k.registers("r", "i32", (1,))
    with k.team():
        with k.role(0, 1):
            k.store(s[k.t], k.t)
            if inside:
                k.sync()
        with k.role(1, 2):
            if not meet:
                k.load(r[0], s[63 - k.t])
                k.store(z[k.t - 32], r[0])
    if meet and not inside:
        k.sync()
    if meet:
        with k.when(k.t < 32):
            k.load(r[0], s[31 - k.t])
            k.store(z[k.t], r[0])
    return k.finish(grid=(1,))
