"""The ELF reader against NVIDIA's own tool, and against bytes that are no cubin."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amk.errors import AmkError, CompileError
from amk.synth.cubin import read_cubin

TARGETS = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120")
SOURCES = {
    "dynamic": """
extern "C" __global__ void dynamic(float *x, int n) {
  extern __shared__ float s[];
  s[threadIdx.x] = x[threadIdx.x]; __syncthreads(); x[threadIdx.x] = s[n - threadIdx.x];
}""",
    "barriers": """
extern "C" __global__ void barriers(float *x, int n) {
  __shared__ float s[4096];
  s[threadIdx.x] = x[threadIdx.x]; __syncthreads(); asm volatile("bar.sync 3, 64;");
  x[threadIdx.x] = s[n - threadIdx.x];
}""",
    "heavy": """
extern "C" __global__ __launch_bounds__(1024) void heavy(float *x, const float *y, int n, long long q) {
  float a[96];
  #pragma unroll
  for (int i = 0; i < 96; i++) a[i] = x[i * 1024 + threadIdx.x];
  for (int k = 0; k < n; k++) {
    #pragma unroll
    for (int i = 0; i < 96; i++) a[i] = a[i] * y[k] + a[(i + 7) % 96];
  }
  #pragma unroll
  for (int i = 0; i < 96; i++) x[i * 1024 + threadIdx.x + q] = a[i];
}""",
    "caller": """
__device__ __noinline__ float helper(const float *a, int n) {
  float b[64], r = 0;
  for (int i = 0; i < n; i++) b[i % 64] = a[i];
  for (int i = 0; i < n; i++) r += b[i * 7 % 64];
  return r;
}
extern "C" __global__ void other(float *x) { x[0] = 1; }
extern "C" __global__ void caller(float *x, int n) { x[0] = helper(x, n) + helper(x + n, n); }""",
}
# bytes of parameters, barriers, launch bound: what cuobjdump does not tell
FACTS = {"dynamic": (12, 1, None), "barriers": (12, 4, None), "heavy": (32, 0, 1024), "caller": (12, 0, None)}


@lru_cache
def _cubin(name: str, target: str) -> bytes:
    pytest.importorskip("cuda.bindings.nvrtc")
    from amk.synth.compile import compile_cubin

    return compile_cubin(SOURCES[name], target, name=name).cubin


def _cuobjdump() -> Path:
    for entry in sys.path:
        for tool in Path(entry).glob("nvidia/*/bin/cuobjdump*"):
            return tool
    pytest.skip("cuobjdump is not installed (pip install nvidia-cuda-cuobjdump)")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SOURCES)
def test_equals_cuobjdump(name: str, target: str, tmp_path: Path) -> None:
    """Registers, stack and shared bytes of every kernel are those of `cuobjdump -res-usage`, on six targets."""
    (tmp_path / "k.cubin").write_bytes(_cubin(name, target))
    command = [_cuobjdump(), "-res-usage", tmp_path / "k.cubin"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)", text)
    kernels = read_cubin(_cubin(name, target))
    assert name in kernels and len(found) == len(kernels)
    for kernel, registers, stack, shared in found:
        real = kernels[kernel]
        assert (real.registers, real.stack_bytes) == (int(registers), int(stack))
        reserved = 1024 if int(shared) and int(re.findall(r"\d+", target)[0]) >= 90 else 0
        assert real.static_shared_bytes == int(shared) - reserved


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SOURCES)
def test_facts_of_the_source(name: str, target: str) -> None:
    """Parameters, barriers and launch bound are those that the source states; static shared memory has no reserve."""
    real = read_cubin(_cubin(name, target))[name]
    assert (real.parameter_bytes, real.barriers, real.max_threads) == FACTS[name]
    assert real.static_shared_bytes == (16_384 if name == "barriers" else 0)
    assert real.code_bytes > 0 and real.code_bytes % 16 == 0


@pytest.mark.parametrize(
    "data", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(58), b"PTX" * 100, b"\x7fELF" + b"\xff" * 200]
)
def test_garbage_is_refused(data: bytes) -> None:
    """Bytes that are no cubin give a CompileError that says so."""
    with pytest.raises(CompileError, match="not a readable cubin"):
        read_cubin(data)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(("sm_80", "sm_90a")), st.floats(0, 1, exclude_max=True))
def test_truncation_is_refused(target: str, part: float) -> None:
    """A cubin cut anywhere before its end of sections is a CompileError, never another exception."""
    data = _cubin("barriers", target)
    with contextlib.suppress(CompileError):
        assert read_cubin(data[: int(part * len(data))]) == read_cubin(data)  # only program headers were lost


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(("sm_80", "sm_90a", "sm_120")),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=8),
)
def test_flipped_bytes_raise_only_amk_errors(target: str, flips: list[tuple[float, int]]) -> None:
    """Any bytes overwritten by any others: an answer or an AmkError, never IndexError or struct.error."""
    data = bytearray(_cubin("heavy" if target == "sm_120" else "barriers", target))
    for place, value in flips:
        data[int(place * len(data))] = value
    with contextlib.suppress(AmkError):
        read_cubin(bytes(data))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_every_header_byte(target: str) -> None:
    """Each byte of the ELF header, of the section table and of the attributes, set to 0 and to 255, is survived."""
    data = _cubin("dynamic", target)
    for place in (*range(64), *range(0x3C0, len(data))):
        for value in (0, 255):
            try:
                read_cubin(data[:place] + bytes([value]) + data[place + 1 :])
            except AmkError:
                continue
