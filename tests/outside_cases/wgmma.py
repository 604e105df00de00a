"""Tensor cores of a warpgroup (wgmma): fences, groups, registers and operands in flight."""

from __future__ import annotations

from contextlib import nullcontext

from outside_cases.case import case

from amk.dsl.builder import Handle, KernelBuilder
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Swizzle

UNLANDED, EXIT, PROXY, REGISTERS, RACE = "AMK303", "AMK308", "AMK309", "AMK311", "AMK301"
PTX = "PTX ISA: wgmma"
CONSAN = "Triton ConSan tests: wgmma"
ROWS_OF_32_BYTES = Swizzle(bits=1, base=3, shift=3)


def operand(k: KernelBuilder, name: str) -> Handle:
    """A tile of 64 x 16 halves in shared memory, filled by 128 threads with its tensor."""
    x = k.tensor(f"{name}_in", "bf16", (64, 16))
    s = k.shared(name, "bf16", (64, 16), layout=ROWS_OF_32_BYTES, align=256)
    one = k.registers(f"{name}_one", "bf16", (1,))
    with k.loop("i", 0, 8) as i:
        e = k.let("e", i.var * 128 + k.t)
        k.load(one[0], x[e // 16, e % 16])
        k.store(s[e // 16, e % 16], one[0])
    return s


@case(
    PTX,
    "fill, fence to the other proxy, barrier, fence, multiply, commit, wait, store",
    name="product",
    asynchronous=True,
    sizes={},
)
@case(
    PTX,
    "the accumulators are stored while the product is in flight",
    REGISTERS,
    name="product_no_wait",
    wait="none",
    asynchronous=True,
)
@case(
    PTX,
    "the wait leaves the only group pending",
    REGISTERS,
    name="product_wait_leaves_one",
    wait="one",
    asynchronous=True,
)
@case(
    PTX,
    "the group is never closed, so the wait covers nothing",
    REGISTERS,
    EXIT,
    name="product_not_committed",
    commit=False,
    asynchronous=True,
)
@case(
    PTX,
    "no fence of the registers after the accumulators were written",
    REGISTERS,
    name="product_no_fence",
    fence=False,
    start=True,
    asynchronous=True,
)
@case(
    PTX,
    "accumulators written, a fence, and then the product adds to them",
    name="product_adds",
    start=True,
    asynchronous=True,
    sizes={},
)
@case(
    PTX,
    "the product adds to accumulators that nobody wrote",
    "AMK207",
    name="product_adds_to_nothing",
    adds=True,
    asynchronous=True,
)
@case(
    CONSAN,
    "no fence to the other proxy between threads' stores and the product",
    PROXY,
    name="product_no_proxy_fence",
    proxy=False,
    asynchronous=True,
)
@case(
    CONSAN,
    "no barrier between threads' stores and the product",
    RACE,
    PROXY,
    "AMK206",
    name="product_no_barrier",
    barrier=False,
    asynchronous=True,
)
@case(
    CONSAN,
    "an operand is overwritten while the product reads it",
    RACE,
    UNLANDED,
    name="product_operand_refilled",
    refill="early",
    asynchronous=True,
)
@case(
    CONSAN,
    "an operand is overwritten after the wait and a barrier",
    name="product_operand_refilled_late",
    refill="late",
    asynchronous=True,
    sizes={},
)
@case(
    CONSAN,
    "an operand is overwritten after the wait, but other warps may not have waited",
    RACE,
    UNLANDED,
    name="product_operand_refilled_no_barrier",
    refill="no barrier",
    asynchronous=True,
)
@case(
    "CUTLASS issues: instruction of a warpgroup",
    "one warp leaves the product out",
    "AMK305",
    "AMK302",
    name="product_one_warp_out",
    below=96,
    asynchronous=True,
)
def product(
    wait: str = "all", commit: bool = True, fence: bool = True, start: bool = False, adds: bool = False,
    proxy: bool = True, barrier: bool = True, refill: str = "", below: int = 128,
) -> KernelDescriptor:  # fmt: skip
    k = KernelBuilder("product", target="sm_90a", threads=128)
    z = k.tensor("z", "f32", (128, 32), access="write")
    acc = k.registers("acc", "f32", (32,))
    a, b = operand(k, "a"), operand(k, "b")
    if proxy:
        k.fence("async")
    if barrier:
        k.sync()
    if start:
        with k.loop("c", 0, 32, unroll="full") as c:
            k.store(acc[c.var], 1.0)
    if fence:
        k.fence("wgmma")
    with k.when(k.t < below) if below < 128 else nullcontext():
        refs = {"acc": acc[0], "a": a[0, 0], "b": b[0, 0]}
        k.call("wgmma.m64n64k16.bf16.k.k", refs, scale_d=start or adds)
    if commit:
        k.commit("wgmma")
    if refill == "early":
        k.store(a[k.t % 64, k.t // 64], 0.0)
    if wait == "all":
        k.wait("wgmma")
    elif wait == "one":
        k.wait("wgmma", pending=1)
    if refill == "late":
        k.sync()
    if refill in ("late", "no barrier"):
        k.store(a[k.t % 64, k.t // 64], 0.0)
    with k.loop("o", 0, 32, unroll="full") as o:
        k.store(z[k.t, o.var], acc[o.var])
    if wait != "all":
        k.wait("wgmma")
    return k.finish(grid=(1,))
