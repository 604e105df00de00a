"""Remarks of ptxas: as two versions print them, and as the compiler here prints them when provoked."""

from __future__ import annotations

import importlib.util
import re

import pytest

from amk.errors import CompileError
from amk.synth.advisories import Advisory, advisories
from amk.synth.compile import compile_cubin, verify_binary

LOSS = "Potential Performance Loss: "


@pytest.mark.parametrize(
    ("line", "code", "kind", "text"),
    [
        (
            f"ptxas info    : (C7508) {LOSS}'setmaxnreg' ignored; unable to determine register count at entry.",
            "C7508", "registers", "'setmaxnreg' ignored; unable to determine register count at entry",
        ),
        (
            f"ptxas info    : (C7511) {LOSS}wgmma.mma_async instructions are serialized due to insufficient register "
            "resources for the wgmma pipeline in the function 'f' in line 101",
            "C7511", "serialised", "wgmma.mma_async instructions are serialized due to insufficient register resources "
            "for the wgmma pipeline",
        ),
        (
            f"ptxas info    : (C7514) {LOSS}wgmma.mma_async instructions are serialized due to non wgmma instructions "
            "reading accumulator registers of  a wgmma between start and end of the pipeline stage in the function 'f'",
            "C7514", "serialised", "wgmma.mma_async instructions are serialized due to non wgmma instructions reading "
            "accumulator registers of a wgmma between start and end of the pipeline stage",
        ),
        (
            "ptxas info    : (C7517) warpgroup.wait is injected in around line 106 by compiler to allow use of "
            "registers defined by GMMA in function 'f'",
            "C7517", "injected", "warpgroup.wait is injected by compiler to allow use of registers defined by GMMA",
        ),
        ("ptxas warning : (C7999) something new", "C7999", "other", "something new"),
    ],
)  # fmt: skip
def test_a_remark_is_read(line: str, code: str, kind: str, text: str) -> None:
    assert advisories(f"noise\n{line}\nptxas info    : Used 90 registers") == (Advisory(code, kind, text),)  # type: ignore[arg-type]


def test_remarks_that_differ_by_place_are_one() -> None:
    line = "ptxas info    : (C7517) wgmma.wait_group is injected in around line {} by compiler in function 'f'"
    assert len(advisories("\n".join(line.format(n) for n in range(5)))) == 1
    assert advisories("C7508 in a comment\n(C7508) alone") == ()
    many = "\n".join(f"ptxas info : (C{n}) remark" for n in range(1000, 2000))
    assert len(advisories(many)) == 100


BUDGETS = """extern "C" __global__ void __launch_bounds__(384{blocks}) f(float* z) {{
  if (threadIdx.x < 128) {{ asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); }}
  else {{ asm volatile("setmaxnreg.inc.sync.aligned.u32 232;"); z[threadIdx.x] = 1.0f; }}
}}"""
WGMMA = """typedef unsigned long long u64;
__device__ __forceinline__ void mma(float (&d)[4], u64 a, u64 b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
}
extern "C" __global__ void __launch_bounds__(128, 1) f(float* z, u64 a, u64 b) {
  float d[4] = {0.f, 0.f, 0.f, 0.f};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  mma(d, a, b);
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  BEFORE
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  z[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}"""
needs_nvrtc = pytest.mark.skipif(importlib.util.find_spec("cuda") is None, reason="needs NVRTC")


@needs_nvrtc
def test_budgets_without_a_minimum_of_blocks_are_ignored_and_refused() -> None:
    """The printer's launch bound always has one, so this is what a compiler that changes its mind would look like."""
    bare, bound = (compile_cubin(BUDGETS.format(blocks=b), "sm_90a", name="f") for b in ("", ", 1"))
    assert [a.kind for a in advisories(bare.log)] == ["registers"] and advisories(bound.log) == ()
    assert bound.resources.registers == 168
    limits = {"max_registers": None, "max_shared_bytes": 0, "max_spill_bytes": 0, "threads": 384}
    assert verify_binary(bare, **limits)[0].startswith("ptxas C7508")  # type: ignore[arg-type]
    assert verify_binary(bound, **limits, role_registers=True) == ()  # type: ignore[arg-type]
    with pytest.raises(CompileError, match="C7508: 'setmaxnreg' ignored"):
        verify_binary(bare, **limits, role_registers=True)  # type: ignore[arg-type]


@needs_nvrtc
@pytest.mark.parametrize(
    ("before", "kinds"),
    [
        ("", set()),
        ("d[1] += 1.0f;", {"injected"}),
        ("d[1] += 1.0f; mma(d, a, b);", {"injected", "serialised"}),
        ("z[threadIdx.x + 128] = d[1];", {"injected"}),
    ],
)
def test_accumulators_that_are_touched_before_the_wait(before: str, kinds: set[str]) -> None:
    """C7517 and C7511, out of the log of the compiler that is here; no remark of it is missed."""
    log = compile_cubin(WGMMA.replace("BEFORE", before), "sm_90a", name="f").log
    found = advisories(log)
    assert {a.kind for a in found} == kinds
    assert {a.code for a in found} == set(re.findall(r"\((C\d+)\)", log))
