"""Kernels that go wrong in one thread each, with the record that a checked build of them has to leave.

No certificate stands behind them: they are printed by `text_of`. Shared with the tests on a device, so that what is
seen as threads on the CPU is seen there as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import cdiv, select
from amk.dsl.kernel import KernelDescriptor

THREADS = 32
KEPT = 7.0  # what an output holds before the run


@dataclass(frozen=True)
class Broken:
    """A kernel, its sizes, and the fault: in which thread and block, and what z holds afterwards.

    x holds its own indices, z `KEPT` everywhere before and z(i) at i afterwards. `lengths` are those of the arrays,
    where they are not what the kernel declares. `failed` counts the tests that fail in the whole run.
    """

    make: Callable[[], KernelDescriptor]
    sizes: dict[str, int]
    kind: str
    said: str
    thread: int
    z: Callable[[int], float]
    block: int = 0
    failed: int = 1
    lengths: dict[str, int] = field(default_factory=dict)
    in_interpreter: bool = True  # which knows no launch with other arrays or sizes than declared

    def kernel(self, name: str) -> KernelDescriptor:
        return self.make().model_copy(update={"name": name})


class Small(KernelBuilder):
    """A builder with a size n, x[n] to read, z[n] to write, and four registers."""

    def __init__(self, **options: int) -> None:
        super().__init__("broken", target="sm_80", threads=THREADS)
        self.n = self.size("n", max=1 << 20, **options)
        self.x = self.tensor("x", "f32", (self.n,), align=16)
        self.z = self.tensor("z", "f32", (self.n,), access="readwrite", align=16)
        self.r = self.registers("r", "f32", (4,))


def read_past() -> KernelDescriptor:
    """z[i] = x[i + 1]: the last thread reads x[n]."""
    k = Small()
    i = k.let("i", k.bx * THREADS + k.t)
    with k.when(i < k.n):
        k.load(k.r[0], k.x[i + 1])
        k.store(k.z[i], k.r[0])
    return k.finish(grid=(cdiv(k.n, THREADS),))


def read_before() -> KernelDescriptor:
    """z[i] = x[i - 1]: the first thread of the first block reads x[-1]; and a barrier that all have to reach."""
    k = Small()
    i = k.let("i", k.bx * THREADS + k.t)
    with k.when(i < k.n):
        k.load(k.r[0], k.x[i - 1], when=i < k.n, other=0.0)
        k.sync("warp")
        k.store(k.z[i], k.r[0])
    return k.finish(grid=(cdiv(k.n, THREADS),))


def write_past() -> KernelDescriptor:
    """z[i + 1] = x[i]."""
    k = Small()
    i = k.let("i", k.bx * THREADS + k.t)
    with k.when(i < k.n):
        k.load(k.r[0], k.x[i])
        k.store(k.z[i + 1], k.r[0])
    return k.finish(grid=(cdiv(k.n, THREADS),))


def vector_past() -> KernelDescriptor:
    """Four elements a thread where n is no multiple of four: the last vector ends behind x and z."""
    k = Small()
    i = k.let("i", k.t * 4)
    with k.when(i < k.n):
        k.load(k.r[0], k.x[i], width=4)
        k.store(k.z[i], *(k.r[j] + 1.0 for j in range(4)))
    return k.finish(grid=(1,))


def atomic_past() -> KernelDescriptor:
    """z[i + 1] += 1."""
    k = Small()
    with k.when(k.t < k.n):
        k.atomic("add", k.z[k.t + 1], 1.0)
    return k.finish(grid=(1,))


def shared_past() -> KernelDescriptor:
    """s[t + 1] = x[t], a barrier, z[t] = s[t]: the last thread writes s[32], and all go on."""
    k = Small()
    s = k.shared("s", "f32", (THREADS,))
    k.store(s[k.t], -1.0)
    k.sync()
    k.load(k.r[0], k.x[k.t])
    k.store(s[k.t + 1], k.r[0])
    k.sync()
    k.load(k.r[1], s[k.t])
    k.store(k.z[k.t], k.r[1])
    return k.finish(grid=(1,))


def shared_read_past() -> KernelDescriptor:
    """z[t] = s[0, t // 31 * 4] of rows of four: in the last thread inside the array and outside its row."""
    k = Small()
    s = k.shared("s", "f32", (8, 4))
    k.store(s[k.t // 4, k.t % 4], 2.0)
    k.sync()
    k.load(k.r[0], s[0, k.t // 31 * 4])
    k.store(k.z[k.t], k.r[0])
    return k.finish(grid=(1,))


def register_read() -> KernelDescriptor:
    """z[t] = r[t // 7]: index 4 in threads 28 to 31, of which only thread 28 looks."""
    k = Small()
    k.store(k.r[0], 1.0, 2.0, 3.0, 4.0)
    with k.when(k.t <= 28):
        k.store(k.z[k.t], k.r[k.t // 7] + 1.0)
    return k.finish(grid=(1,))


def register_write() -> KernelDescriptor:
    """r[t // 7] = 9: thread 28 writes r[4]."""
    k = Small()
    k.store(k.r[0], 1.0, 2.0, 3.0, 4.0)
    with k.when(k.t <= 28):
        k.store(k.r[k.t // 7], 9.0)
        k.store(k.z[k.t], k.r[0] + k.r[1] + k.r[2] + k.r[3])
    return k.finish(grid=(1,))


def shuffle_into() -> KernelDescriptor:
    """The result of a shuffle goes to w[t // 31], which is 1 in the last thread, of an array of one; nobody hangs."""
    k = Small()
    w = k.registers("w", "f32", (1,))
    k.load(k.r[0], k.x[k.t])
    k.store(w[0], 5.0)
    k.call("shfl.down", {"dst": w[k.t // 31]}, value=k.r[0], delta=1)
    k.store(k.z[k.t], w[0])
    return k.finish(grid=(1,))


def misaligned() -> KernelDescriptor:
    """Two elements at x[2 t] and, in thread 3, at x[2 t + 1]."""
    k = Small()
    with k.when(k.t < 4):
        k.load(k.r[0], k.x[k.t * 2 + k.t // 3], width=2)
        k.store(k.z[k.t], k.r[0] + k.r[1])
    return k.finish(grid=(1,))


def shared_misaligned() -> KernelDescriptor:
    """The same in shared memory, as a store."""
    k = Small()
    s = k.shared("s", "f32", (THREADS,))
    k.store(s[k.t], 1.0)
    k.sync()
    with k.when(k.t < 4):
        k.store(s[k.t * 2 + k.t // 3], 2.0, 3.0)
    k.sync()
    k.load(k.r[0], s[k.t])
    k.store(k.z[k.t], k.r[0])
    return k.finish(grid=(1,))


def strided_vector() -> KernelDescriptor:
    """Two neighbours of a tensor whose elements are `step` apart."""
    k = KernelBuilder("broken", target="sm_80", threads=THREADS)
    n, step = k.size("n", max=1 << 20), k.size("step", max=8)
    x = k.tensor("x", "f32", (n,), strides=(step,), align=16)
    z = k.tensor("z", "f32", (n,), access="readwrite", align=16)
    r = k.registers("r", "f32", (2,))
    with k.when(k.t < 1):
        k.load(r[0], x[0], width=2)
        k.store(z[0], r[0] + r[1])
    return k.finish(grid=(1,))


def copy_from_past() -> KernelDescriptor:
    """cp.async from x[4 t], 16 bytes each, behind the end in thread 7: zeros arrive."""
    k = Small()
    s = k.shared("s", "f32", (THREADS,))
    k.store(s[k.t], -1.0)
    k.sync()
    with k.when(k.t < 8):
        k.call("cp.async.16", {"dst": s[k.t * 4], "src": k.x[k.t * 4]})
    k.commit()
    k.wait(pending=0)
    k.sync()
    with k.when(k.t < k.n):
        k.load(k.r[0], s[k.t])
        k.store(k.z[k.t], k.r[0])
    return k.finish(grid=(1,))


def copy_to_past() -> KernelDescriptor:
    """cp.async into s[4 t + 4]: behind the end in thread 7, where nothing is copied."""
    k = Small()
    s = k.shared("s", "f32", (THREADS,))
    k.store(s[k.t], -1.0)
    k.sync()
    with k.when(k.t < 8):
        k.call("cp.async.16", {"dst": s[k.t * 4 + 4], "src": k.x[k.t * 4]})
    k.commit()
    k.wait(pending=0)
    k.sync()
    k.load(k.r[0], s[k.t])
    k.store(k.z[k.t], k.r[0])
    return k.finish(grid=(1,))


def through_a_view() -> KernelDescriptor:
    """A view keeps the index that its registers had: x[q + t] with q = 5, though q is 100 when it is used."""
    k = Small()
    q = k.registers("q", "i32", (1,))
    k.store(q[0], 5)
    v = k.view("v", k.x[q[0]])
    k.store(q[0], 100)
    with k.when(k.t < 12):
        k.load(k.r[0], v[k.t])
        k.store(k.z[k.t], k.r[0])
    return k.finish(grid=(1,))


def assumption() -> KernelDescriptor:
    """The square of n is a multiple of 8, it is assumed; the first thread alone gets there."""
    k = Small()
    with k.when(k.bx * THREADS + k.t < 1):
        k.assume(k.n * k.n % 8 < 1)
        k.store(k.z[0], 1.0)
    return k.finish(grid=(1,))


def domain() -> KernelDescriptor:
    """n is declared a multiple of four, and the copy of four at a time rests on it."""
    k = Small(multiple_of=4)
    i = k.let("i", k.t * 4)
    with k.when(i < k.n):
        k.load(k.r[0], k.x[i], width=4)
        k.store(k.z[i], *(k.r[j] for j in range(4)))
    return k.finish(grid=(1,))


def no_step() -> KernelDescriptor:
    """A loop by n // 64, which is 0: it would never end."""
    k = Small()
    with k.when(k.t < 1):
        k.store(k.z[0], 1.0)
        with k.loop("i", 0, k.n, k.n // 64) as loop:
            k.store(k.z[loop.var], 2.0)
        k.store(k.z[1], 3.0)
    return k.finish(grid=(1,))


def copy() -> KernelDescriptor:
    """z = x, right for the arrays that it declares."""
    k = Small()
    i = k.let("i", k.bx * THREADS + k.t)
    with k.when(i < k.n):
        k.load(k.r[0], k.x[i])
        k.store(k.z[i], k.r[0])
    return k.finish(grid=(cdiv(k.n, THREADS),))


def lazily() -> KernelDescriptor:
    """Nothing fails: r[t] is a value only where t < 4."""
    k = Small()
    k.store(k.r[0], 1.0, 2.0, 3.0, 4.0)
    k.store(k.z[k.t], select(k.t < 4, k.r[k.t], 0.5))
    return k.finish(grid=(1,))


def _kept(i: int) -> float:
    return KEPT


BROKEN = {
    "read_past": Broken(
        read_past, {"n": 40}, "bounds", "x[i + 1]: index 0 is 40, outside 0..39", 7,
        lambda i: i + 1 if i < 39 else 0, block=1,
    ),
    "read_before": Broken(
        read_before, {"n": 64}, "bounds", "x[i - 1]: index 0 is -1, outside 0..63", 0, lambda i: i - 1 if i else 0,
    ),
    "write_past": Broken(
        write_past, {"n": 40}, "bounds", "z[i + 1]: index 0 is 40, outside 0..39", 7,
        lambda i: i - 1 if i else KEPT, block=1,
    ),
    "vector_past": Broken(
        vector_past, {"n": 30}, "bounds", "x[i]: index 0 is 30, outside 0..29", 7,
        lambda i: i + 1 if i < 28 else KEPT, failed=2,
    ),
    "atomic_past": Broken(
        atomic_past, {"n": 20}, "bounds", "z[t + 1]: index 0 is 20, outside 0..19", 19,
        lambda i: KEPT + (i > 0),
    ),
    "shared_past": Broken(
        shared_past, {"n": 32}, "bounds", "s[t + 1]: index 0 is 32, outside 0..31", 31,
        lambda i: i - 1,
    ),
    "shared_read_past": Broken(
        shared_read_past, {"n": 32}, "bounds", "s[0, t // 31 * 4]: index 1 is 4, outside 0..3", 31,
        lambda i: 2 if i < 31 else 0,
    ),
    "register_read": Broken(
        register_read, {"n": 32}, "bounds", "register r: index 4 in dimension 0, outside 0..3", 28,
        lambda i: i // 7 + 2 if i < 28 else 1 if i == 28 else KEPT,
    ),
    "register_write": Broken(
        register_write, {"n": 32}, "bounds", "register r: index 4 in dimension 0, outside 0..3", 28,
        lambda i: 10 - (i // 7 + 1) + 9 if i < 28 else 10 if i == 28 else KEPT,
    ),
    "shuffle_into": Broken(
        shuffle_into, {"n": 32}, "bounds", "register w: index 1 in dimension 0, outside 0..0", 31,
        lambda i: i + 1 if i < 31 else 5,
    ),
    "misaligned": Broken(
        misaligned, {"n": 32}, "alignment", "x[t * 2 + t // 3] is not 8 contiguous bytes aligned to 8", 3,
        lambda i: 4 * i + 1 if i < 3 else 0 if i == 3 else KEPT,
    ),
    "shared_misaligned": Broken(
        shared_misaligned, {"n": 32}, "alignment", "s[t * 2 + t // 3] is not 8 contiguous bytes aligned to 8", 3,
        lambda i: 1 if i > 5 else 3 if i % 2 else 2,
    ),
    "strided_vector": Broken(
        strided_vector, {"n": 8, "step": 2}, "alignment", "x[0] is not 8 contiguous bytes aligned to 8", 0,
        lambda i: 0 if i == 0 else KEPT, lengths={"x": 15},
    ),
    "copy_from_past": Broken(
        copy_from_past, {"n": 28}, "bounds", "x[t * 4]: index 0 is 28, outside 0..27", 7, lambda i: i,
    ),
    "copy_to_past": Broken(
        copy_to_past, {"n": 32}, "bounds", "s[t * 4 + 4]: index 0 is 32, outside 0..31", 7,
        lambda i: i - 4 if i > 3 else -1,
    ),
    "through_a_view": Broken(
        through_a_view, {"n": 16}, "bounds", "v[t]: index 0 is 16, outside 0..15", 11,
        lambda i: i + 5 if i < 11 else 0 if i == 11 else KEPT,
    ),
    "assumption": Broken(
        assumption, {"n": 6}, "assume", "the assumption n * n % 8 < 1 does not hold", 0, lambda i: KEPT if i else 1,
    ),
    "domain": Broken(
        domain, {"n": 30}, "assume", "n = 30 is outside what was proved: a multiple of 4 in [1, 1048576]", -1,
        lambda i: i if i < 28 else KEPT, failed=34, in_interpreter=False,
    ),
    "no_step": Broken(
        no_step, {"n": 40}, "assume", "the step n // 64 of the loop over i is 0, not positive", 0,
        lambda i: 1 if i == 0 else 3 if i == 1 else KEPT, in_interpreter=False,
    ),
    "wrong_size": Broken(
        copy, {"n": 30}, "bounds", "x[i]: byte 116 of x, whose memory ends at byte 116", 29,
        lambda i: i if i < 29 else 0, lengths={"x": 29}, in_interpreter=False,
    ),
}  # fmt: skip
