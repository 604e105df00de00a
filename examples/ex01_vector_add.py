"""01: z = x + y. One thread an element, and a guard for the last block."""

from amk import KernelBuilder, KernelDescriptor
from amk.dsl.expr import cdiv


def build(target: str = "sm_80") -> KernelDescriptor:
    """The kernel for any n."""
    k = KernelBuilder("vector_add", target=target, threads=256)
    n = k.size("n", min=0)
    x, y = (k.tensor(name, "f32", (n,)) for name in "xy")
    z = k.tensor("z", "f32", (n,), access="write")
    a = k.registers("a", "f32", (2,))
    i = k.let("i", k.bx * 256 + k.t)
    with k.when(i < n):
        k.load(a[0], x[i])
        k.load(a[1], y[i])
        k.store(z[i], a[0] + a[1])
    return k.finish(grid=(cdiv(n, 256),))


if __name__ == "__main__":
    print(build().to_json(), end="")
