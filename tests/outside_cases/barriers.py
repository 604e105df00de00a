"""Barriers: under conditions, in loops, behind an early end, left out of trees, stencils and transposes."""

from __future__ import annotations

from outside_cases.case import builder, case

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import both, cdiv, eq
from amk.dsl.kernel import KernelDescriptor

RACE, DIVERGENT = "AMK301", "AMK302"


@case(
    "GPUVerify: barrier divergence", "a barrier for one thread only", DIVERGENT, name="barrier_one_thread", what="one"
)
@case(
    "GPUVerify: barrier divergence",
    "a barrier under a value that each thread loaded",
    DIVERGENT,
    name="barrier_loaded_value",
    what="loaded",
)
@case(
    "GPUVerify: barrier divergence",
    "two different barriers in the two arms of a condition on the thread",
    DIVERGENT,
    name="barrier_two_arms",
    what="arms",
)
@case(
    "GPUVerify: barrier divergence",
    "a barrier under a condition on the block, the same for all threads",
    name="barrier_uniform",
    what="block",
    sizes={"n": 5},
)
@case(
    "GPUVerify: barrier divergence",
    "a barrier under a condition on the thread that all threads meet",
    name="barrier_always",
    what="all",
    sizes={"n": 5},
)
@case(
    "CUDA programming guide / compute-sanitizer synccheck",
    "threads past the end have nothing to do and leave before the barrier",
    DIVERGENT,
    name="barrier_after_early_end",
    what="tail",
)
@case(
    "compute-sanitizer synccheck",
    "whole warps skip a barrier of the block",
    DIVERGENT,
    name="barrier_half_block",
    what="warps",
)
def guarded(what: str) -> KernelDescriptor:
    k, n = builder("guarded", 64)
    x = k.tensor("x", "i32", (64,))
    r = k.registers("r", "i32", (1,))
    k.load(r[0], x[k.t])
    whole = {
        "one": eq(k.t, 7), "loaded": r[0] > 0, "arms": k.t < 32, "block": eq(k.bx % 2, 0), "all": k.t < 64,
        "tail": k.bx * 64 + k.t < n, "warps": k.t >= 32,
    }[what]  # fmt: skip
    with k.when(whole):
        k.sync()
    if what == "arms":
        with k.when(k.t >= 32):
            k.sync()
    return k.finish(grid=(cdiv(n, 64),))


@case(
    "GPUVerify: loops",
    "a barrier in a loop that runs as often as the thread's number says",
    DIVERGENT,
    name="loop_trips_by_thread",
    trips="thread",
)
@case(
    "GPUVerify: loops",
    "a barrier in a loop over the elements that are left to the thread",
    DIVERGENT,
    name="loop_trips_by_share",
    trips="share",
)
@case(
    "GPUVerify: loops",
    "a barrier in a loop over tiles, the same number for all threads",
    name="loop_trips_by_size",
    trips="size",
    sizes={"n": 130},
)
@case(
    "Faial: loops with barriers",
    "thread-dependent start, same number of trips",
    name="loop_start_by_thread",
    trips="start",
    sizes={"n": 4},
)
def looped(trips: str) -> KernelDescriptor:
    k, n = builder("looped", 64)
    lo, hi, step = {
        "thread": (0, k.t, 1), "share": (k.t, n, 64), "size": (0, n, 64), "start": (k.t, k.t + 8, 2),
    }[trips]  # fmt: skip
    with k.loop("i", lo, hi, step):
        k.sync()
    return k.finish(grid=(1,))


@case("NVIDIA reduction samples", "tree over 256 elements, a barrier a level", name="tree", sizes={"n": 600})
@case("NVIDIA reduction samples", "the tree without barriers", RACE, name="tree_bare", barrier="never")
@case(
    "NVIDIA reduction samples",
    "the barrier stands inside the condition of the level",
    DIVERGENT,
    name="tree_barrier_inside",
    barrier="inside",
)
@case(
    "NVIDIA reduction samples (unrolled last warp)",
    "no warp barrier in the last warp's levels, as was usual before independent threads",
    RACE,
    name="tree_last_warp_bare",
    barrier="block",
)
@case(
    "Faial: reductions inside a warp",
    "a warp barrier in the last levels, where one warp is left",
    name="tree_last_warp",
    barrier="warp",
    sizes={"n": 600},
)
@case(
    "Faial: reductions inside a warp",
    "a warp barrier already where two warps still take part",
    RACE,
    name="tree_warp_too_early",
    barrier="early",
)
@case(
    "Indigo / HiRace: missing first barrier",
    "the tree starts before all have stored",
    RACE,
    "AMK206",
    name="tree_no_first_barrier",
    first=False,
)
def tree(barrier: str = "block all", first: bool = True) -> KernelDescriptor:
    k, n = builder("tree", 256)
    x, z = k.tensor("x", "f32", (n,)), k.tensor("z", "f32", (cdiv(n, 256),), access="write")
    s, a = k.shared("s", "f32", (256,)), k.registers("a", "f32", (2,))
    k.load(a[0], x[k.bx * 256 + k.t], when=k.bx * 256 + k.t < n, other=0.0)
    k.store(s[k.t], a[0])
    if first:
        k.sync()
    for half in (128, 64, 32, 16, 8, 4, 2, 1):
        with k.when(k.t < half):
            k.load(a[0], s[k.t])
            k.load(a[1], s[k.t + half])
            k.store(s[k.t], a[0] + a[1])
            if barrier == "inside":
                k.sync()
        if barrier == "block all" or (barrier in ("block", "warp") and half > 32) or (barrier == "early" and half > 64):
            k.sync()
        elif barrier == "warp" and half == 32:
            k.sync("block")
        elif barrier in ("warp", "early"):
            k.sync("warp")
    with k.when(eq(k.t, 0)):
        k.load(a[0], s[0])
        k.store(z[k.bx], a[0])
    return k.finish(grid=(cdiv(n, 256),))


@case(
    "DataRaceBench / Indigo: stencil",
    "a three-point stencil with a halo, a barrier after filling",
    name="stencil",
    sizes={"n": 300},
)
@case(
    "DataRaceBench / Indigo: stencil",
    "no barrier after filling the halo",
    RACE,
    "AMK206",
    name="stencil_no_barrier",
    barrier=False,
)
@case(
    "DataRaceBench / Indigo: stencil",
    "the right end of the halo is filled by nobody",
    "AMK206",
    name="stencil_half_halo",
    right=False,
)
@case(
    "DataRaceBench / Indigo: stencil",
    "the two ends of the halo lie at one place",
    RACE,
    name="stencil_one_halo_cell",
    right_at=0,
)
@case(
    "DataRaceBench / Indigo: stencil",
    "the array has no place for the right end",
    "AMK202",
    name="stencil_short_array",
    cells=129,
)
def stencil(barrier: bool = True, right: bool = True, right_at: int = 129, cells: int = 130) -> KernelDescriptor:
    k, n = builder("stencil", 128)
    x, z = k.tensor("x", "f32", (n,)), k.tensor("z", "f32", (n,), access="write")
    s, a = k.shared("s", "f32", (cells,)), k.registers("a", "f32", (3,))
    i = k.let("i", k.bx * 128 + k.t)
    k.load(a[0], x[i], when=i < n, other=0.0)
    k.store(s[k.t + 1], a[0])
    with k.when(eq(k.t, 0)):
        k.load(a[1], x[i - 1], when=both(i > 0, i - 1 < n), other=0.0)
        k.store(s[0], a[1])
    if right:
        with k.when(eq(k.t, 127)):
            k.load(a[1], x[i + 1], when=i + 1 < n, other=0.0)
            k.store(s[right_at], a[1])
    if barrier:
        k.sync()
    for d in (0, 1, 2):
        k.load(a[d], s[k.t + d])
    with k.when(i < n):
        k.store(z[i], a[0] + a[1] + a[2])
    return k.finish(grid=(cdiv(n, 128),))


@case(
    "iGUARD / HiRace: double buffering",
    "two buffers, one barrier a round between filling and reading",
    name="double_buffer",
    sizes={"n": 200},
)
@case(
    "iGUARD / HiRace: double buffering",
    "the same with one buffer: the next round's fill overtakes slow readers",
    RACE,
    name="double_buffer_single",
    slots=1,
)
@case(
    "iGUARD / HiRace: double buffering",
    "two buffers and no barrier in the round",
    RACE,
    "AMK206",
    name="double_buffer_bare",
    barrier=False,
)
def double_buffer(slots: int = 2, barrier: bool = True) -> KernelDescriptor:
    k = KernelBuilder("double_buffer", target="sm_80", threads=64)
    n = k.size("n", max=1 << 20, multiple_of=1)
    x, z = k.tensor("x", "f32", (n,)), k.tensor("z", "f32", (n,), access="write")
    s, a = k.shared("s", "f32", (slots, 64)), k.registers("a", "f32", (1,))
    with k.loop("i", 0, cdiv(n, 64)) as i:
        at = i.var * 64 + k.t
        k.load(a[0], x[at], when=at < n, other=0.0)
        k.store(s[i.var % slots, k.t], a[0])
        if barrier:
            k.sync()
        k.load(a[0], s[i.var % slots, 63 - k.t])
        with k.when(at < n):
            k.store(z[at], a[0])
    return k.finish(grid=(1,))
