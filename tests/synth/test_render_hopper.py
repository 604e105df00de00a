"""Printing what warps and blocks of a cluster share: scopes, uniform values, roles, and every row of the table."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import apply
from amk.dsl.kernel import KernelDescriptor
from amk.harness.certify import certify
from amk.ops.wgmma_gemm import wgmma_gemm
from amk.synth.render import text_of

sys.path.insert(0, str(Path(__file__).parent))
from hopper_kernels import peers, ready


def body_of(kernel: KernelDescriptor) -> str:
    """The kernel alone, without the functions that it calls."""
    return text_of(kernel).partition('extern "C"')[2]


# -------------------------------------------------------------------------------------------------------------- scopes
def exchange(kind: str) -> KernelDescriptor:
    """One block tells the other by an mbarrier that memory may be read (or, with `read`, be written again)."""
    k = KernelBuilder("exchange", target="sm_90a", threads=128, cluster=2)
    z = k.tensor("z", "f32", (2, 128), access="write")
    s, r, bar = k.shared("s", "f32", (128,)), k.registers("r", "f32", (1,)), k.barrier("bar", count=128)
    other, value = 1 - k.rank, apply("f32", k.rank * 100 + k.t)
    if kind == "read":
        k.store(s[k.t], value)
    ready(k, bar)
    if kind == "read":
        k.load(r[0], s[k.t], peer=other)
    else:
        k.store(s[k.t], value, peer=other if kind == "store" else None)
    k.arrive(bar[0], peer=other)
    k.wait_phase(bar[0], 0)
    if kind == "read":
        k.store(s[k.t], 0.0)
    else:
        k.load(r[0], s[127 - k.t], peer=other if kind == "load" else None)
    k.store(z[k.bx, k.t], r[0])
    k.sync("cluster")
    return k.finish(grid=(2,))


@pytest.mark.parametrize("kind", ["store", "load", "read"])
def test_memory_is_handed_to_a_peer_in_the_cluster_s_scope(kind: str) -> None:
    """By default an arrival releases to its block alone (PTX ISA, mbarrier.arrive), and such kernels are certified."""
    kernel = exchange(kind)
    certify(kernel)
    body, text = body_of(kernel), text_of(kernel)
    assert "amk_arrive_at_peer_cluster(amk_peer(" in body and "amk_wait_phase_cluster(" in body
    assert "mbarrier.arrive.release.cluster.shared::cluster" in text and "try_wait.parity.acquire.cluster" in text


def test_only_what_peers_arrive_on_has_the_cluster_s_scope() -> None:
    body = body_of(peers())
    assert body.count("amk_wait_phase(") == 1 and body.count("amk_wait_phase_cluster(") == 1
    assert "amk_arrive_expect(" in body and "amk_arrive_at_peer_cluster(" in body


def test_slots_are_given_back_to_peers_in_the_block_s_scope() -> None:
    """Where only copies reach other blocks, an arrival says that a slot was read; a wider release costs 36 %."""
    assert "_cluster(" not in body_of(wgmma_gemm()).replace("amk_cluster", "")


# ------------------------------------------------------------------------------------------------------------- uniform
def test_a_uniform_value_is_handed_round_where_whole_warps_are() -> None:
    """In roles and in loops that all lanes go round as often, and not where some lanes may be elsewhere."""
    k = KernelBuilder("alike", target="sm_90a", threads=256)
    n = k.size("n")
    top = k.let("top", k.t // 32, uniform=True)
    with k.team():
        with k.role(0, 4):
            k.let("role", k.t // 32, uniform=True)
            with k.loop("i", k.bx, n, k.gx) as i:
                k.let("loop", i.var + top, uniform=True)
                with k.when(k.t % 32 < 4):
                    k.let("some", top + 1, uniform=True)
        with k.role(4, 8):
            half = k.let("half", n // 2)
            with k.loop("j", 0, half) as j, k.loop("q", 0, j.var):
                k.let("inner", top + 2, uniform=True)
            with k.loop("p", 0, k.t % 32):
                k.let("apart", top + 3, uniform=True)
    lines = {x.split(" = ")[0].split()[-1]: x for x in body_of(k.finish(grid=(4,))).splitlines() if "const int" in x}
    shuffled = {name for name, line in lines.items() if "__shfl_sync(0xffffffffu, " in line}
    assert shuffled == {"top", "role", "loop", "inner"} and {"some", "apart"} <= lines.keys()


def test_part_of_a_warp_hands_nothing_round() -> None:
    k = KernelBuilder("small", target="sm_90a", threads=48)
    k.let("w", k.t // 32, uniform=True)
    assert "__shfl_sync" not in body_of(k.finish(grid=(1,)))
