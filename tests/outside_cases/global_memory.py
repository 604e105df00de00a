"""Global memory: two writers of one element, aliases, elements that nobody writes, contracts of access."""

from __future__ import annotations

from outside_cases.case import builder, case

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import cdiv, eq
from amk.dsl.kernel import KernelDescriptor

TWICE = ("AMK304", "AMK402")
HOLE, CONTRACT = "AMK401", "AMK404"
FAIAL = "Faial examples (grid level)"


@case(
    FAIAL,
    "the block's number is left out: all blocks write one tile",
    *TWICE,
    HOLE,
    name="tile_without_block",
    stride=0,
)
@case(
    FAIAL,
    "tiles of 64 at a stride of 63: neighbours share an element",
    *TWICE,
    HOLE,
    name="tile_stride_short",
    stride=63,
)
@case(FAIAL, "tiles of 64 at a stride of 65: every 65th element is left out", HOLE, name="tile_stride_long", stride=65)
@case(FAIAL, "tiles of 64 at a stride of 64", name="tile_stride", stride=64, sizes={"n": 130})
def tile(stride: int) -> KernelDescriptor:
    k, n = builder("tile", 64)
    z = k.tensor("z", "f32", (n,), access="write")
    i = k.let("i", k.bx * stride + k.t)
    with k.when(i < n):
        k.store(z[i], 1.0)
    return k.finish(grid=(cdiv(n, 64),))


@case(
    "DataRaceBench: loop-carried dependences",
    "each block writes its element and reads its left neighbour's from the same array",
    CONTRACT,
    "AMK304",
    "AMK313",
    name="carried_between_blocks",
    threads=1,
    near=-1,
)
@case(
    "DataRaceBench: loop-carried dependences",
    "each thread reads its right neighbour's element of the array that it updates",
    CONTRACT,
    "AMK304",
    name="carried_between_threads",
    near=1,
)
@case(
    "DataRaceBench: loop-carried dependences",
    "each thread updates its own element in place",
    name="update_in_place",
    near=0,
    sizes={"n": 70},
)
def carried(near: int, threads: int = 64) -> KernelDescriptor:
    k, n = builder("carried", threads)
    z, a = k.tensor("z", "f32", (n,), access="readwrite"), k.registers("a", "f32", (1,))
    i = k.let("i", k.bx * threads + k.t)
    with k.when(i < n):
        k.store(a[0], 0.0)
        k.load(a[0], z[i + near], when=(i + near >= 0) if near < 0 else i + near < n, other=0.0)
        k.store(z[i], a[0] * 2.0)
    return k.finish(grid=(cdiv(n, threads),))


@case(
    "ESBMC-GPU: contracts of arguments",
    "the kernel stores to an input",
    CONTRACT,
    "AMK005",
    name="store_to_input",
    access="read",
)
@case(
    "ESBMC-GPU: contracts of arguments",
    "the kernel loads from an output",
    CONTRACT,
    "AMK005",
    name="load_from_output",
    access="write",
)
@case(
    "ESBMC-GPU: contracts of arguments",
    "the array is declared to be read and written",
    name="read_and_written",
    access="readwrite",
    sizes={"n": 70},
)
def contract(access: str) -> KernelDescriptor:
    k, n = builder("contract", 64)
    z, a = k.tensor("z", "f32", (n,), access=access), k.registers("a", "f32", (1,))
    i = k.let("i", k.bx * 64 + k.t)
    with k.when(i < n):
        k.load(a[0], z[i])
        k.store(z[i], a[0])
    return k.finish(grid=(cdiv(n, 64),))


@case(
    "NVIDIA transpose samples",
    "each thread copies one element to the mirrored place",
    name="transpose_naive",
    what="right",
    sizes={"m": 20, "n": 35},
)
@case(
    "NVIDIA transpose samples",
    "row and column are not exchanged in the output's index",
    "AMK201",
    name="transpose_not_exchanged",
    what="not exchanged",
)
def transpose(what: str) -> KernelDescriptor:
    k = KernelBuilder("transpose", target="sm_80", threads=256)
    m, n = k.size("m", max=1 << 15), k.size("n", max=1 << 15)
    x, z = k.tensor("x", "f32", (m, n)), k.tensor("z", "f32", (n, m), access="write")
    a = k.registers("a", "f32", (1,))
    row, col = k.let("row", k.by * 16 + k.t // 16), k.let("col", k.bx * 16 + k.t % 16)
    with k.when(row < m), k.when(col < n):
        k.load(a[0], x[row, col])
        k.store(z[(col, row) if what == "right" else (row, col)], a[0])
    return k.finish(grid=(cdiv(n, 16), cdiv(m, 16)))


@case(
    "Indigo: guards around output",
    "the store stands under a condition on the data",
    HOLE,
    name="store_under_data",
    when="data",
)
@case("Indigo: guards around output", "only even threads store", HOLE, name="store_every_other", when="even")
@case(
    "Indigo: guards around output",
    "thread 0 of each block stores the block's element, thread 32 too",
    *TWICE,
    name="two_threads_store_row",
    when="two",
)
@case(
    "Indigo: guards around output",
    "thread 0 of each block stores the block's element",
    name="one_thread_stores_row",
    when="one",
    sizes={"n": 5},
)
def under(when: str) -> KernelDescriptor:
    k, n = builder("under", 64)
    rows = when in ("one", "two")
    x, z = k.tensor("x", "f32", (n,)), k.tensor("z", "f32", (n,), access="write")
    a = k.registers("a", "f32", (1,))
    i = k.let("i", k.bx + 0 if rows else k.bx * 64 + k.t)
    with k.when(i < n):
        k.load(a[0], x[i])
        cond = {"data": a[0] > 0.0, "even": eq(k.t % 2, 0), "one": eq(k.t, 0), "two": eq(k.t % 32, 0)}[when]
        with k.when(cond):
            k.store(z[i], a[0])
    return k.finish(grid=(n if rows else cdiv(n, 64),))


@case(
    "Triton / CUTLASS: persistent kernels",
    "a grid-stride loop whose step is the whole grid",
    name="stride_loop",
    sizes={"n": 700},
)
@case(
    "Triton / CUTLASS: persistent kernels",
    "the step is one block: every block writes everything behind its start",
    *TWICE,
    name="stride_loop_one_block",
    step="block",
)
@case(
    "Triton / CUTLASS: persistent kernels",
    "the step is one block too many",
    HOLE,
    name="stride_loop_too_far",
    step="far",
)
@case(
    "Triton / CUTLASS: persistent kernels",
    "the loop starts at the thread and not at the block's first element",
    *TWICE,
    name="stride_loop_same_start",
    start="thread",
)
def stride_loop(step: str = "grid", start: str = "block") -> KernelDescriptor:
    k, n = builder("stride_loop", 128)
    z = k.tensor("z", "f32", (n,), access="write")
    by = {"grid": k.gx * 128, "block": 128, "far": (k.gx + 1) * 128}[step]
    with k.loop("i", k.t if start == "thread" else k.bx * 128 + k.t, n, by) as i:
        k.store(z[i.var], 1.0)
    return k.finish(grid=(4,))
