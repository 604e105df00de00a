"""Races in shared memory: neighbours, scans, sorts, trees, stencils, transposes."""

from __future__ import annotations

from outside_cases.case import case

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import both, eq, select
from amk.dsl.kernel import KernelDescriptor

RACE = "AMK301"
GPUVERIFY = "GPUVerify test suite"
FAIAL = "Faial examples (data-race freedom)"


@case(GPUVERIFY, "every thread stores its own number to one shared scalar", RACE, name="one_scalar_all_write")
@case(
    GPUVERIFY,
    "only thread 0 stores to the shared scalar, and all read it after a barrier",
    name="one_scalar_one_writes",
    guard=True,
    sizes={},
)
@case(
    GPUVERIFY,
    "one thread stores the scalar and the others read it at once",
    RACE,
    "AMK206",
    name="one_scalar_no_barrier",
    guard=True,
    barrier=False,
)
@case(
    GPUVERIFY,
    "thread 31 and thread 32 of 64 both take themselves for the one writer (the guard divides by 31)",
    RACE,
    name="one_scalar_two_writers",
    guard=True,
    divisor=31,
)
def one_scalar(guard: bool = False, barrier: bool = True, divisor: int = 64) -> KernelDescriptor:
    k = KernelBuilder("one_scalar", target="sm_80", threads=64)
    z = k.tensor("z", "i32", (64,), access="write")
    s, r = k.shared("s", "i32", (1,)), k.registers("r", "i32", (1,))
    with k.when(eq(k.t % divisor, 0) if guard else k.t < 64):
        k.store(s[0], k.t)
    if barrier:
        k.sync()
    k.load(r[0], s[0])
    k.store(z[k.t], r[0])
    return k.finish(grid=(1,))


def filled(k: KernelBuilder, threads: int):  # type: ignore[no-untyped-def]
    """x, z and a shared array that holds x, not yet behind a barrier."""
    x, z = k.tensor("x", "f32", (threads,)), k.tensor("z", "f32", (threads,), access="write")
    s, a = k.shared("s", "f32", (threads,)), k.registers("a", "f32", (2,))
    k.load(a[0], x[k.t])
    k.store(s[k.t], a[0])
    return z, s, a


@case(
    GPUVERIFY,
    "each thread overwrites its element with its right neighbour's, nothing between read and write",
    RACE,
    name="shift_left_racy",
    between=False,
)
@case(GPUVERIFY, "read the neighbour, barrier, write: the repaired twin", name="shift_left", sizes={})
@case(
    GPUVERIFY,
    "the barrier stands after the write instead of between read and write",
    RACE,
    name="shift_left_late",
    between=False,
    after=True,
)
@case(
    FAIAL,
    "the shift goes round: thread 127 reads element 0, which thread 0 writes",
    RACE,
    name="rotate_racy",
    between=False,
    wrap=True,
)
@case(FAIAL, "rotation with a barrier between", name="rotate", wrap=True, sizes={})
@case(
    FAIAL,
    "the arrays are filled, and the neighbour is read with no barrier after filling",
    RACE,
    "AMK206",
    name="shift_left_unfilled",
    first=False,
)
def shift_left(between: bool = True, after: bool = False, wrap: bool = False, first: bool = True) -> KernelDescriptor:
    k = KernelBuilder("shift_left", target="sm_80", threads=128)
    z, s, a = filled(k, 128)
    if first:
        k.sync()
    near = (k.t + 1) % 128 if wrap else select(k.t < 127, k.t + 1, 127)
    k.load(a[1], s[near])
    if between:
        k.sync()
    k.store(s[k.t], a[1])
    if after:
        k.sync()
    k.load(a[0], s[k.t])
    k.store(z[k.t], a[0])
    return k.finish(grid=(1,))


@case(
    "NVIDIA CUDA samples / Indigo: scan",
    "Hillis-Steele scan in one array with a barrier per step only: a read meets the neighbour's write",
    RACE,
    name="scan_in_place_racy",
    split=False,
)
@case(
    "NVIDIA CUDA samples / Indigo: scan",
    "the same scan with a second barrier between reading and writing",
    name="scan_in_place",
    sizes={},
)
def scan(split: bool = True) -> KernelDescriptor:
    k = KernelBuilder("scan", target="sm_80", threads=128)
    z, s, a = filled(k, 128)
    k.sync()
    for d in (1, 2, 4, 8, 16, 32, 64):
        with k.when(k.t >= d):
            k.load(a[0], s[k.t - d])
            k.load(a[1], s[k.t])
            if not split:
                k.store(s[k.t], a[0] + a[1])
        if split:
            k.sync()
            with k.when(k.t >= d):
                k.store(s[k.t], a[0] + a[1])
        k.sync()
    k.load(a[0], s[k.t])
    k.store(z[k.t], a[0])
    return k.finish(grid=(1,))


@case(
    "GPUVerify / ESBMC-GPU: scan with two buffers",
    "scan that reads one half and writes the other, one barrier a step",
    name="scan_two_buffers",
    sizes={},
)
@case(
    "GPUVerify / ESBMC-GPU: scan with two buffers",
    "the same with the halves not exchanged in one step",
    RACE,
    name="scan_two_buffers_same_half",
    stuck=4,
)
@case(
    "GPUVerify / ESBMC-GPU: scan with two buffers",
    "the same with the barrier of one step left out",
    RACE,
    name="scan_two_buffers_no_barrier",
    bare=8,
)
def scan_two_buffers(stuck: int = 0, bare: int = 0) -> KernelDescriptor:
    k = KernelBuilder("scan_two", target="sm_80", threads=64)
    x, z = k.tensor("x", "f32", (64,)), k.tensor("z", "f32", (64,), access="write")
    s, a = k.shared("s", "f32", (2, 64)), k.registers("a", "f32", (2,))
    k.load(a[0], x[k.t])
    k.store(s[0, k.t], a[0])
    k.sync()
    half = 0
    for d in (1, 2, 4, 8, 16, 32):
        to = half if d == stuck else 1 - half
        k.load(a[0], s[half, k.t])
        k.store(a[1], 0.0)
        with k.when(k.t >= d):
            k.load(a[1], s[half, k.t - d])
        k.store(s[to, k.t], a[0] + a[1])
        if d != bare:
            k.sync()
        half = to
    k.load(a[0], s[half, k.t])
    k.store(z[k.t], a[0])
    return k.finish(grid=(1,))


@case(
    "ESBMC-GPU (PUG set): bitonic sort",
    "compare-exchange of pairs i and i xor j, a barrier a step, only the lower partner writes",
    name="bitonic",
    sizes={},
)
@case(
    "ESBMC-GPU (PUG set): bitonic sort",
    "both partners of a pair write both elements",
    RACE,
    name="bitonic_both_write",
    lower=False,
)
@case(
    "ESBMC-GPU (PUG set): bitonic sort",
    "the barrier stands once a stage instead of once a step",
    RACE,
    name="bitonic_barrier_per_stage",
    each=False,
)
def bitonic(lower: bool = True, each: bool = True) -> KernelDescriptor:
    k = KernelBuilder("bitonic", target="sm_80", threads=64)
    z, s, a = filled(k, 64)
    k.sync()
    for stage in (2, 4, 8):
        j = stage // 2
        while j:
            with k.when((k.t ^ j) > k.t if lower else k.t < 64):
                k.load(a[0], s[k.t])
                k.load(a[1], s[k.t ^ j])
                k.store(s[k.t], select(a[0] < a[1], a[0], a[1]))
                k.store(s[k.t ^ j], select(a[0] < a[1], a[1], a[0]))
            if each:
                k.sync()
            j //= 2
        k.sync()
    k.load(a[0], s[k.t])
    k.store(z[k.t], a[0])
    return k.finish(grid=(1,))


@case(
    "Indigo / HiRace: odd-even sort",
    "pairs (0,1)(2,3)... and then (1,2)(3,4)... with a barrier after each half step",
    name="odd_even",
    sizes={},
)
@case(
    "Indigo / HiRace: odd-even sort",
    "no barrier between the even and the odd half step",
    RACE,
    name="odd_even_no_barrier",
    middle=False,
)
@case(
    "Indigo / HiRace: odd-even sort",
    "no barrier at the end of the loop's body: the next round's even step meets the odd one",
    RACE,
    name="odd_even_no_last_barrier",
    last=False,
)
def odd_even(middle: bool = True, last: bool = True) -> KernelDescriptor:
    k = KernelBuilder("odd_even", target="sm_80", threads=64)
    x, z = k.tensor("x", "f32", (128,)), k.tensor("z", "f32", (128,), access="write")
    s, a = k.shared("s", "f32", (128,)), k.registers("a", "f32", (2,))
    for h in (0, 64):
        k.load(a[0], x[k.t + h])
        k.store(s[k.t + h], a[0])
    k.sync()
    with k.loop("turn", 0, 64):
        for odd in (0, 1):
            with k.when(both(k.t * 2 + odd + 1 < 128)):
                k.load(a[0], s[k.t * 2 + odd])
                k.load(a[1], s[k.t * 2 + odd + 1])
                k.store(s[k.t * 2 + odd], select(a[0] < a[1], a[0], a[1]))
                k.store(s[k.t * 2 + odd + 1], select(a[0] < a[1], a[1], a[0]))
            if (middle, last)[odd]:
                k.sync()
    k.sync()
    for h in (0, 64):
        k.load(a[0], s[k.t + h])
        k.store(z[k.t + h], a[0])
    return k.finish(grid=(1,))
