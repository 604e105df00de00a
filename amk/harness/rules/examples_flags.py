"""What the rules about flags vary: each block but the first takes a value from the one before."""

from __future__ import annotations

from typing import Literal

from amk.dsl.builder import KernelBuilder
from amk.dsl.kernel import KernelDescriptor

__all__ = ["handed_on"]


def handed_on(
    *, waits: bool = True, order: Literal["weak", "release"] = "release",
    dispatch: Literal["any", "in_order"] = "in_order",
) -> KernelDescriptor:  # fmt: skip
    """total[i] = x[0] + ... + x[i], by one thread of each block."""
    k = KernelBuilder("handed_on", target="sm_80", threads=32, dispatch=dispatch)
    n = k.size("n", max=1 << 20)
    x, out = k.tensor("x", "i32", (n,)), k.tensor("out", "i32", (n,), access="write")
    total, ready = (k.tensor(name, "i32", (n,), access="workspace") for name in ("total", "ready"))
    r, before = k.registers("r", "i32", (1,)), k.registers("before", "i32", (1,))
    with k.when(k.t < 1):
        k.load(r[0], x[k.bx])
        k.store(before[0], 0)
        with k.when(k.bx > 0):
            if waits:
                k.wait_flag(ready[k.bx - 1], 1)
            k.load(before[0], total[k.bx - 1])
        k.store(total[k.bx], before[0] + r[0])
        k.store(ready[k.bx], 1, order=order)
        k.store(out[k.bx], before[0] + r[0])
    return k.finish(grid=(n,))
