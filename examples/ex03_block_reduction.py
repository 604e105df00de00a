"""03: sums[b] = sum of block b's 1,024 elements. New: warp shuffles, and shared memory between warps."""

from amk import KernelBuilder, KernelDescriptor
from amk.dsl.expr import cdiv, eq

THREADS, PER_THREAD = 256, 4


def build(target: str = "sm_80") -> KernelDescriptor:
    """The kernel for any n; one partial sum a block."""
    k = KernelBuilder("block_reduction", target=target, threads=THREADS)
    n = k.size("n", min=0)
    x = k.tensor("x", "f32", (n,))
    sums = k.tensor("sums", "f32", (cdiv(n, THREADS * PER_THREAD),), access="write")
    partial = k.shared("partial", "f32", (THREADS // 32,))
    a, s, other = k.registers("a", "f32", (1,)), k.registers("s", "f32", (1,)), k.registers("other", "f32", (1,))
    lane, warp = k.let("lane", k.t % 32), k.let("warp", k.t // 32)
    k.store(s[0], 0.0)
    for j in range(PER_THREAD):
        i = k.bx * (THREADS * PER_THREAD) + j * THREADS + k.t
        k.load(a[0], x[i], when=i < n, other=0.0)
        k.store(s[0], s[0] + a[0])
    for delta in (16, 8, 4, 2, 1):
        k.call("shfl.down", {"dst": other[0]}, value=s[0], delta=delta)
        k.store(s[0], s[0] + other[0])
    with k.when(eq(lane, 0)):
        k.store(partial[warp], s[0])
    k.sync()
    with k.when(k.t < 32):
        k.load(s[0], partial[lane], when=lane < THREADS // 32, other=0.0)
        for delta in (4, 2, 1):
            k.call("shfl.down", {"dst": other[0]}, value=s[0], delta=delta)
            k.store(s[0], s[0] + other[0])
        with k.when(eq(lane, 0)):
            k.store(sums[k.bx], s[0])
    return k.finish(grid=(cdiv(n, THREADS * PER_THREAD),))


if __name__ == "__main__":
    print(build().to_json(), end="")
