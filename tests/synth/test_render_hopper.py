"""Printing what warps and blocks of a cluster share: scopes, uniform values, roles, and every row of the table."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import apply
from amk.dsl.instructions import ROWS
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Swizzle
from amk.harness.certify import certify
from amk.ops.wgmma_gemm import WgmmaSchedule, wgmma_gemm
from amk.synth.compile import Compiled, compile_cubin, verify_binary
from amk.synth.render import text_of

sys.path.insert(0, str(Path(__file__).parent))
from every_row import caller
from hopper_kernels import peers, ready
from sass import Code

needs_nvrtc = pytest.mark.skipif(importlib.util.find_spec("cuda") is None, reason="needs NVRTC")


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
    assert "amk_wait_phase_cluster_or_fault(faults_, " in text_of(kernel, checked=True)


def test_a_checked_vector_at_a_peer_is_one_access() -> None:
    """It moves as one instruction, so that it has to be aligned as one."""
    text = text_of(peers(), checked=True)
    assert "amk_aligned(faults_, " in text and ", 16)" in text and "amk_store_peer<float>(" in text


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
            with k.loop("e", 0, half) as early:  # lanes leave it in different rounds
                k.let("left", early.var + top, uniform=True)
                early.until(early.var > k.t % 32)
    lines = {x.split(" = ")[0].split()[-1]: x for x in body_of(k.finish(grid=(4,))).splitlines() if "const int" in x}
    shuffled = {name for name, line in lines.items() if "__shfl_sync(0xffffffffu, " in line}
    assert shuffled == {"top", "role", "loop", "inner"} and {"some", "apart", "left"} <= lines.keys()


def test_part_of_a_warp_hands_nothing_round() -> None:
    k = KernelBuilder("small", target="sm_90a", threads=48)
    k.let("w", k.t // 32, uniform=True)
    assert "__shfl_sync" not in body_of(k.finish(grid=(1,)))


# ---------------------------------------------------------------------------------------------------------------- rows
FAMILIES = sorted({n.split(".")[0] for n in ROWS})
MACHINE = {  # what each call becomes: one instruction of these names
    "bulk": ("UBLKCP", "UBLKRED"), "cp": ("LDGSTS",), "griddepcontrol": ("ACQBULK", "PREEXIT"), "ldmatrix": ("LDSM",),
    "mbarrier": ("SYNCS",), "mma": ("HMMA",), "prefetch": ("UTMACCTL",), "shfl": ("SHFL",), "stmatrix": ("STSM",),
    "tma": ("UTMALDG", "UTMASTG", "UTMAREDG"), "wgmma": ("HGMMA",),
}  # fmt: skip


def sampled(family: str) -> list[str]:
    """The rows of a family; of wgmma four widths, with every type and every way operands lie."""
    widths = [f"m64n{n}k16" for n in (8, 24, 64, 256)]
    return [n for n in ROWS if n.split(".")[0] == family and (family != "wgmma" or n.split(".")[1] in widths)]


@needs_nvrtc
@pytest.mark.parametrize("family", FAMILIES)
def test_every_row_compiles_to_one_instruction(family: str, tmp_path: Path) -> None:
    """The macro of each row, for each element type that it takes, as text that NVRTC takes."""
    kernel = caller(sampled(family), "sm_90a")
    code = Code(compile_cubin(text_of(kernel), "sm_90a", name="caller").cubin, tmp_path)
    assert code.count(*MACHINE[family]) == sum(s.kind == "call" for s in kernel.body), code.lines


@needs_nvrtc
def test_rows_from_before_hopper_compile_for_ampere() -> None:
    names = [n for n in ROWS if ROWS[n].since == 80 and not n.startswith("mbarrier")]
    assert {n.split(".")[0] for n in names} == {"cp", "shfl", "ldmatrix", "mma"}
    compile_cubin(text_of(caller(names, "sm_80")), "sm_80", name="caller")


@needs_nvrtc
@pytest.mark.slow
def test_every_wgmma_compiles(tmp_path: Path) -> None:
    names = [n for n in ROWS if n.startswith("wgmma.")]
    code = Code(compile_cubin(text_of(caller(names, "sm_90a")), "sm_90a", name="caller").cubin, tmp_path)
    assert code.count("HGMMA") == len(names) > 200


# -------------------------------------------------------------------------------------------------------- machine code
@needs_nvrtc
@pytest.mark.parametrize("cluster", [1, 2])
def test_the_loop_of_the_tensor_core_gemm_is_short(cluster: int, tmp_path: Path) -> None:
    """As short as by hand: descriptors are added to and not built again, nothing is moved to uniform registers.

    No fence is wider than the block, and the compiler put no wait of its own between the products (C7510, C7517).
    """
    made = compile_cubin(text_of(wgmma_gemm(WgmmaSchedule(cluster=cluster))), "sm_90a", name="gemm")
    code = Code(made.cubin, tmp_path)
    loop = code.innermost("HGMMA")
    assert made.resources.registers == 168 and made.spill_stores == made.spill_loads == 0
    assert _told(made) == ()
    assert sum(x.startswith("HGMMA") for x in loop) == code.count("HGMMA") == 4
    assert len(loop) <= 52 and not any(x.startswith(("R2UR", "MEMBAR", "CCTL", "LDL", "STL")) for x in loop)
    assert code.count("MEMBAR.ALL.GPU", "MEMBAR.SC", "ERRBAR") == 0
    assert code.count("UTMALDG") == (3 if cluster == 2 else 5) and code.count("UTMASTG") == 4


@needs_nvrtc
def test_a_wait_that_the_compiler_adds_is_told() -> None:
    """A loop that waits again each round: what it does with the sums needs no round, and is computed before it."""
    k = KernelBuilder("hoisted", target="sm_90a", threads=128)
    n = k.size("n")
    z = k.tensor("z", "f32", (n, 128, 8), access="write")
    a, b = (k.shared(x, "bf16", (64, 64), layout=Swizzle(bits=3, base=3, shift=3), align=1024) for x in "ab")
    acc = k.registers("acc", "f32", (8,))
    k.fence("wgmma")
    k.call("wgmma.m64n16k16.bf16.k.k", {"acc": acc[0], "a": a[0, 0], "b": b[0, 0]}, scale_d=False)
    k.commit("wgmma")
    with k.loop("i", 0, n) as i:
        k.wait("wgmma")
        for j in range(8):
            k.store(z[i.var, k.t, j], acc[j] * 3.0)
    made = compile_cubin(text_of(k.finish(grid=(1,))), "sm_90a", name="hoisted")
    (warning,) = _told(made)
    assert "wgmma.wait_group is injected" in warning


def _told(made: Compiled) -> tuple[str, ...]:
    limits = {"max_registers": 255, "max_shared_bytes": 227 << 10, "max_spill_bytes": 0}
    return verify_binary(made, **limits, threads=made.resources.max_threads or 128)
