"""Atomics, histograms, flags and messages between blocks."""

from __future__ import annotations

from outside_cases.case import builder, case

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import cdiv, eq, maximum, minimum
from amk.dsl.kernel import KernelDescriptor

MIXED, RACE = "AMK306", "AMK301"
HIST = "NVIDIA histogram samples / Indigo"


@case(HIST, "bins in shared memory: cleared, barrier, counted, barrier, added up", name="histogram", sizes={"n": 300})
@case(
    HIST,
    "counting starts before the bins are cleared",
    MIXED,
    RACE,
    "AMK206",
    name="histogram_no_first_barrier",
    first=False,
)
@case(HIST, "the bins are read while others count", MIXED, RACE, name="histogram_no_last_barrier", last=False)
@case(HIST, "a bin is loaded, raised and stored without an atomic", RACE, name="histogram_plain", atomic=False)
@case(HIST, "the bin is the value itself, whatever the data", "AMK202", name="histogram_unclamped", clamp=False)
@case(HIST, "the bins are never cleared", "AMK206", name="histogram_not_cleared", clear=False)
@case(HIST, "only half of the bins are cleared", "AMK206", name="histogram_half_cleared", cleared=16)
def histogram(
    first: bool = True, last: bool = True, atomic: bool = True, clamp: bool = True, clear: bool = True,
    cleared: int = 32,
) -> KernelDescriptor:  # fmt: skip
    k, n = builder("bins", 128)
    x, out = k.tensor("x", "i32", (n,)), k.tensor("out", "i32", (32,), access="add")
    s, r = k.shared("s", "i32", (32,)), k.registers("r", "i32", (2,))
    if clear:
        with k.when(k.t < cleared):
            k.store(s[k.t], 0)
    if first:
        k.sync()
    with k.loop("i", k.bx * 128 + k.t, n, k.gx * 128) as i:
        k.load(r[0], x[i.var])
        bin = minimum(maximum(r[0], 0), 31) if clamp else r[0]
        if atomic:
            k.atomic("add", s[bin], 1)
        else:
            k.load(r[1], s[bin])
            k.store(s[bin], r[1] + 1)
    if last:
        k.sync()
    with k.when(k.t < 32):
        k.load(r[0], s[k.t])
        k.atomic("add", out[k.t], r[0])
    return k.finish(grid=(4,))


@case(
    "GPUVerify: atomics",
    "all threads count on one word, thread 0 reads it in the same interval",
    MIXED,
    RACE,
    name="counter_read_early",
    barrier=False,
)
@case("GPUVerify: atomics", "a barrier between counting and reading", name="counter", sizes={})
@case(
    "GPUVerify: atomics",
    "half of the threads count, the other half clears the word",
    MIXED,
    RACE,
    name="counter_cleared_meanwhile",
    clear_late=True,
)
def counter(barrier: bool = True, clear_late: bool = False) -> KernelDescriptor:
    k = KernelBuilder("counter", target="sm_80", threads=64)
    z = k.tensor("z", "i32", (1,), access="write")
    s, r = k.shared("s", "i32", (1,)), k.registers("r", "i32", (1,))
    with k.when(eq(k.t, 0)):
        k.store(s[0], 0)
    k.sync()
    if clear_late:
        with k.when(k.t >= 32):
            k.store(s[0], 0)
    with k.when(k.t < 32 if clear_late else k.t < 64):
        k.atomic("add", s[0], 1)
    if barrier:
        k.sync()
    with k.when(eq(k.t, 0)):
        k.load(r[0], s[0])
        k.store(z[0], r[0])
    return k.finish(grid=(1,))


@case(
    "iGUARD: scopes of atomics",
    "blocks add to one word with an atomic that holds inside a block only",
    "AMK314",
    name="add_of_block_scope",
    scope="block",
)
@case(
    "iGUARD: scopes of atomics",
    "blocks add to one word with an atomic of the whole device",
    name="add_of_device_scope",
    scope="device",
    sizes={"n": 130},
)
@case(
    "iGUARD: scopes of atomics",
    "the sum is stored plainly instead of added",
    "AMK304",
    "AMK402",
    "AMK404",
    name="add_by_plain_store",
    scope="none",
)
def total(scope: str) -> KernelDescriptor:
    k, n = builder("total", 64)
    x, out = k.tensor("x", "i32", (n,)), k.tensor("out", "i32", (1,), access="add")
    r = k.registers("r", "i32", (1,))
    i = k.let("i", k.bx * 64 + k.t)
    with k.when(i < n):
        k.load(r[0], x[i])
        if scope == "none":
            k.store(out[0], r[0])
        else:
            k.atomic("add", out[0], r[0], scope=scope)
    return k.finish(grid=(cdiv(n, 64),))


@case(
    "iGUARD: flags between blocks",
    "a message, a flag stored with release, waited for by the next block",
    name="flag_chain",
    sizes={"n": 5},
)
@case("iGUARD: flags between blocks", "the flag is set without release", "AMK314", name="flag_weak", order="weak")
@case(
    "iGUARD: flags between blocks",
    "the flag is set before the message",
    "AMK313",
    "AMK314",
    "AMK304",
    name="flag_early",
    early=True,
)
@case(
    "iGUARD: flags between blocks",
    "the message is read without waiting",
    "AMK313",
    "AMK314",
    "AMK304",
    name="flag_not_awaited",
    wait=False,
)
@case(
    "iGUARD: flags between blocks",
    "blocks may start in any order, so the one waited for may never run",
    "AMK315",
    name="flag_any_order",
    dispatch="any",
)
@case(
    "iGUARD: flags between blocks",
    "each block waits for the next one",
    "AMK315",
    name="flag_of_later_block",
    ahead=True,
)
@case(
    "iGUARD: flags between blocks",
    "the wait is for a value that is never set",
    "AMK315",
    "AMK307",
    name="flag_value_never_set",
    value=2,
)
def chain(
    order: str = "release", early: bool = False, wait: bool = True, dispatch: str = "in_order", ahead: bool = False,
    value: int = 1,
) -> KernelDescriptor:  # fmt: skip
    k = KernelBuilder("chain", target="sm_90a", threads=32, dispatch=dispatch)
    n = k.size("n", max=1 << 16)
    x, z = k.tensor("x", "i32", (n,)), k.tensor("z", "i32", (n,), access="write")
    part, flag = (k.tensor(name, "i32", (n,), access="workspace") for name in ("part", "flag"))
    r = k.registers("r", "i32", (2,))
    with k.when(eq(k.t, 0)):
        k.load(r[0], x[k.bx])
        k.store(r[1], 0)
        near = k.bx + 1 if ahead else k.bx - 1
        with k.when(near < n if ahead else k.bx > 0):
            if wait:
                k.wait_flag(flag[near], value)
            k.load(r[1], part[near])
        if early:
            k.store(flag[k.bx], 1, order=order)
        k.store(part[k.bx], r[0] + r[1])
        if not early:
            k.store(flag[k.bx], 1, order=order)
        k.store(z[k.bx], r[0] + r[1])
    return k.finish(grid=(n,))
