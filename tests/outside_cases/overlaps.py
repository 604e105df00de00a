"""Two names or two widths for one place: vectors over elements, pitches, views, rows and diagonals."""

from __future__ import annotations

from outside_cases.case import case

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import eq
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Padded

RACE = "AMK301"


@case(
    "GPUVerify: races on elements of vectors",
    "16 threads store vectors of 4, and a thread of the other half stores one lane of them",
    RACE,
    name="vector_and_lane",
    element=7,
)
@case(
    "GPUVerify: races on elements of vectors",
    "the single element lies behind all vectors",
    name="vector_and_far_element",
    element=64,
    sizes={},
)
@case(
    "GPUVerify: races on elements of vectors",
    "vectors of 4 at a stride of 2 overlap",
    RACE,
    name="vectors_overlap",
    element=64,
    stride=2,
)
def vector_and_element(element: int, stride: int = 4) -> KernelDescriptor:
    k = KernelBuilder("vector_and_element", target="sm_80", threads=64)
    z = k.tensor("z", "f32", (32,), access="write")
    s, a = k.shared("s", "f32", (72,)), k.registers("a", "f32", (1,))
    width = 4 if stride == 4 else 2
    with k.when(k.t < 16):
        k.store(s[k.t * stride], *(1.0 for _ in range(width)))
        if width == 2:
            k.store(s[k.t * stride + 2], 1.0, 1.0)
    with k.when(eq(k.t, 40)):
        k.store(s[element], 2.0)
    k.sync()
    with k.when(k.t < 32):
        k.load(a[0], s[k.t])
        k.store(z[k.t], a[0])
    return k.finish(grid=(1,))


@case(
    "Faial: two-dimensional arrays",
    "each thread stores on the diagonal and reads the next place on it",
    RACE,
    name="diagonal_next",
    row=1,
    col=1,
)
@case(
    "Faial: two-dimensional arrays",
    "each thread reads the place right of its own, off the diagonal",
    name="diagonal_right",
    row=0,
    col=1,
    sizes={},
)
@case(
    "GPUVerify: alignment of three components",
    "rows padded by one: the place right of the diagonal is not in the next row",
    name="pitch_of_four",
    row=0,
    col=1,
    pad=1,
    sizes={},
)
def diagonal(row: int, col: int, pad: int = 0) -> KernelDescriptor:
    k = KernelBuilder("diagonal", target="sm_80", threads=31)
    z = k.tensor("z", "f32", (31,), access="write")
    s, a = k.shared("s", "f32", (32, 33), layout=Padded(pad=pad)), k.registers("a", "f32", (1,))
    with k.loop("i", 0, 32) as i:
        k.store(s[i.var, k.t + 1], 0.0)
    with k.when(eq(k.t, 0)), k.loop("q", 0, 32) as q:
        k.store(s[q.var, 0], 0.0)
    k.sync()
    k.store(s[k.t, k.t], 1.0)
    k.load(a[0], s[k.t + row, k.t + col])
    k.store(z[k.t], a[0])
    return k.finish(grid=(1,))


@case(
    "Faial: aliases of shared arrays",
    "a view that starts at the thread's element, read at 1 while the neighbour writes there",
    RACE,
    name="view_of_neighbour",
    near=1,
)
@case(
    "Faial: aliases of shared arrays",
    "the view is read at 0, the thread's own element",
    name="view_of_own",
    near=0,
    sizes={},
)
def view(near: int) -> KernelDescriptor:
    k = KernelBuilder("view", target="sm_80", threads=32)
    z = k.tensor("z", "i32", (32,), access="write")
    s, r = k.shared("s", "i32", (40,)), k.registers("r", "i32", (1,))
    with k.when(k.t < 8):
        k.store(s[k.t + 32], 0)
    k.store(s[k.t], 0)
    k.sync()
    k.store(s[k.t], k.t)
    v = k.view("v", s[k.t])
    k.load(r[0], v[near])
    k.store(z[k.t], r[0])
    return k.finish(grid=(1,))


@case(
    "GPUVerify: benign races",
    "65 threads store t div 64: all equal values but one",
    RACE,
    name="same_value_but_one",
    threads=65,
)
@case(
    "GPUVerify: benign races",
    "threads store one value to one place: still two writers",
    RACE,
    name="same_value",
    threads=64,
)
def same_value(threads: int) -> KernelDescriptor:
    k = KernelBuilder("same_value", target="sm_80", threads=threads)
    z = k.tensor("z", "i32", (1,), access="write")
    s, r = k.shared("s", "i32", (1,)), k.registers("r", "i32", (1,))
    k.store(s[0], k.t // 64)
    k.sync()
    with k.when(eq(k.t, 0)):
        k.load(r[0], s[0])
        k.store(z[0], r[0])
    return k.finish(grid=(1,))


@case(
    "Faial: proofs with products of two thread numbers",
    "16 x 16 threads: row times 16 plus column, each its own place",
    name="row_times_pitch",
    pitch=16,
    sizes={},
)
@case(
    "Faial: proofs with products of two thread numbers",
    "row times 15 plus column: rows share their ends",
    RACE,
    name="row_times_less",
    pitch=15,
)
def product(pitch: int) -> KernelDescriptor:
    k = KernelBuilder("product", target="sm_80", threads=256)
    z = k.tensor("z", "i32", (256,), access="write")
    s, r = k.shared("s", "i32", (256,)), k.registers("r", "i32", (1,))
    at = k.let("at", k.t // 16 * pitch + k.t % 16)
    k.store(s[at], k.t)
    k.load(r[0], s[at])
    k.store(z[k.t], r[0])
    return k.finish(grid=(1,))
