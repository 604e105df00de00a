"""What is read before anybody wrote it: registers, shared memory, parts of tiles."""

from __future__ import annotations

from outside_cases.case import builder, case

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import cdiv, eq
from amk.dsl.kernel import KernelDescriptor

SHARED, REGISTER, RACE = "AMK206", "AMK207", "AMK301"
INIT = "compute-sanitizer initcheck"


@case(INIT, "a sum starts from whatever the register holds", REGISTER, name="sum_not_started", start=False)
@case(INIT, "the sum starts from zero", name="sum_started", sizes={"n": 9})
@case(INIT, "the sum starts from zero under a condition that always holds", name="sum_started_always", start="below 64")
@case(
    INIT, "the sum starts from zero only in the first block", REGISTER, name="sum_started_in_first_block", start="first"
)
def sums(start: bool | str = True) -> KernelDescriptor:
    k, n = builder("sums", 64)
    x, z = k.tensor("x", "f32", (n, 64)), k.tensor("z", "f32", (n, 64), access="write")
    a = k.registers("a", "f32", (2,))
    if start is True:
        k.store(a[0], 0.0)
    elif start:
        with k.when(eq(k.bx, 0) if start == "first" else k.t < 64):
            k.store(a[0], 0.0)
    with k.loop("i", 0, 3):
        k.load(a[1], x[k.bx, k.t])
        k.store(a[0], a[0] + a[1])
    k.store(z[k.bx, k.t], a[0])
    return k.finish(grid=(n,))


@case(INIT, "a tile is filled below the size and read whole", SHARED, name="tile_tail_not_filled", fill="guarded")
@case(INIT, "the tile's tail is filled with zeroes", name="tile_tail_zeroed", fill="zero", sizes={"n": 70})
@case(INIT, "a masked load with no value for the lanes outside", "AMK005", name="tile_tail_no_other", fill="no other")
@case(INIT, "one warp of two fills the tile", SHARED, name="tile_one_warp_fills", fill="one warp")
@case(INIT, "the tile is read before the loop that fills it", SHARED, RACE, name="tile_read_first", fill="late")
def filled(fill: str) -> KernelDescriptor:
    k, n = builder("filled", 64)
    x, z = k.tensor("x", "f32", (n,)), k.tensor("z", "f32", (n,), access="write")
    s, a = k.shared("s", "f32", (64,)), k.registers("a", "f32", (1,))
    i = k.let("i", k.bx * 64 + k.t)
    if fill == "late":
        k.load(a[0], s[63 - k.t])
        k.sync()
    if fill == "guarded":
        with k.when(i < n):
            k.load(a[0], x[i])
            k.store(s[k.t], a[0])
    else:
        k.load(a[0], x[i], when=i < n, **({} if fill == "no other" else {"other": 0.0}))
        with k.when(k.t < (32 if fill == "one warp" else 64)):
            k.store(s[k.t], a[0])
    k.sync()
    if fill != "late":
        k.load(a[0], s[63 - k.t])
    with k.when(i < n):
        k.store(z[i], a[0])
    return k.finish(grid=(cdiv(n, 64),))


@case(
    "HiRace / Indigo: loops that fill and use",
    "row i is used in round i, and row i + 1 is filled in it",
    SHARED,
    name="first_row_not_filled",
    ahead=False,
)
@case(
    "HiRace / Indigo: loops that fill and use",
    "the first row is filled before the loop",
    name="first_row_filled",
    sizes={"n": 3},
)
@case(
    "HiRace / Indigo: loops that fill and use",
    "two slots, and the round reads the one that is filled next",
    SHARED,
    RACE,
    name="reads_next_slot",
    read=1,
)
def rows(ahead: bool = True, read: int = 0) -> KernelDescriptor:
    k = KernelBuilder("rows", target="sm_80", threads=64)
    n = k.size("n", max=4096)
    x, z = k.tensor("x", "f32", (n, 64)), k.tensor("z", "f32", (n, 64), access="write")
    s, a = k.shared("s", "f32", (2, 64)), k.registers("a", "f32", (1,))
    if ahead:
        k.load(a[0], x[0, k.t])
        k.store(s[0, k.t], a[0])
    k.sync()
    with k.loop("i", 0, n) as i:
        with k.when(i.var + 1 < n):
            k.load(a[0], x[i.var + 1, k.t])
            k.store(s[(i.var + 1) % 2, k.t], a[0])
        k.load(a[0], s[(i.var + read) % 2, 63 - k.t])
        k.store(z[i.var, k.t], a[0])
        k.sync()
    return k.finish(grid=(1,))


@case(
    "ESBMC-GPU: local arrays",
    "an array of registers filled to 7 of 8 and summed to 8",
    REGISTER,
    name="registers_one_short",
    upto=7,
)
@case("ESBMC-GPU: local arrays", "filled and summed to 8", name="registers_filled", upto=8, sizes={})
@case("ESBMC-GPU: local arrays", "filled to 9 of 8", "AMK203", name="registers_one_over", upto=9)
def local(upto: int) -> KernelDescriptor:
    k = KernelBuilder("local", target="sm_80", threads=32)
    z, a = k.tensor("z", "i32", (32,), access="write"), k.registers("a", "i32", (8,))
    acc = k.registers("acc", "i32", (1,))
    with k.loop("i", 0, upto, unroll="full") as i:
        k.store(a[i.var], k.t + i.var)
    k.store(acc[0], 0)
    with k.loop("j", 0, 8, unroll="full") as j:
        k.store(acc[0], acc[0] + a[j.var])
    k.store(z[k.t], acc[0])
    return k.finish(grid=(1,))
