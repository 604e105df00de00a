"""Compilation: what comes out, what is refused and how, and the gate that holds the binary against the certificate."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from amk.dsl.occupancy import max_registers
from amk.dsl.target import Target
from amk.errors import CompileError, EnvironmentProblem, InputError
from amk.synth import compile as module
from amk.synth.compile import FLAGS, Compiled, compile_cubin, supported_targets, toolkit_version, verify_binary
from amk.synth.cubin import Resources

SMALL = 'extern "C" __global__ void small(float *x) { x[threadIdx.x] = 1; }'
SPILLING = """
extern "C" __global__ __launch_bounds__(1024, 2) void spilling(float *x, const float *y, int n) {
  float a[64];
  #pragma unroll
  for (int i = 0; i < 64; i++) a[i] = x[i * 1024 + threadIdx.x];
  for (int k = 0; k < n; k++) {
    #pragma unroll
    for (int i = 0; i < 64; i++) a[i] = a[i] * y[k] + a[(i + 7) % 64];
  }
  #pragma unroll
  for (int i = 0; i < 64; i++) x[i * 1024 + threadIdx.x] = a[i];
}"""
LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'other' for 'sm_90a'
ptxas info    : Function properties for other
ptxas         .     16 bytes stack frame, 7 bytes spill stores, 7 bytes spill loads
ptxas info    : Used 20 registers, used 0 barriers
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
ptxas         .     304 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 304 bytes cumulative stack size
ptxas info    : Function properties for _Z1fPfi
ptxas         .     0 bytes stack frame, 4 bytes spill stores, 2 bytes spill loads
"""
K = Resources("k", 32, 304, 0, 0, None, 12, 256)


@pytest.fixture(scope="module", autouse=True)
def _compiler() -> None:
    pytest.importorskip("cuda.bindings.nvrtc")


def _compiled(registers: int, *, shared: int = 0, spills: int = 0, bound: int | None = None) -> Compiled:
    real = Resources("k", registers, 0, shared, 1, bound, 8, 128)
    return Compiled(b"", "the log", real, spills, spills, "sm_90a", "13.0.88", FLAGS, 0.1)


def _verify(compiled: Compiled, threads: int, **changed: object) -> None:
    limits = {"max_registers": None, "max_shared_bytes": 49_152, "max_spill_bytes": 0, **changed}
    verify_binary(compiled, threads=threads, **limits)  # type: ignore[arg-type]


def test_a_small_kernel() -> None:
    """A kernel becomes an ELF file for its target with log, resources, flags, toolkit and time."""
    done = compile_cubin(SMALL, "sm_90a", name="small")
    assert done.cubin.startswith(b"\x7fELF") and "Used" in done.log
    assert (done.spill_stores, done.spill_loads, done.flags) == (0, 0, FLAGS)
    assert done.resources.parameter_bytes == 8 and 0 < done.seconds < 60
    assert done.toolkit == toolkit_version() and done.target == "sm_90a"


def test_same_text_same_binary() -> None:
    """The compiler is deterministic: the cache may stand in for it."""
    assert len({compile_cubin(SMALL, "sm_90a", name="small").cubin for _ in range(3)}) == 1


def test_flags_reach_the_compiler() -> None:
    """Extra flags come after the fixed ones and change the text that is compiled."""
    text = SMALL.replace("= 1", "= VALUE")
    with pytest.raises(CompileError, match="VALUE"):
        compile_cubin(text, "sm_80", name="small")
    assert compile_cubin(text, "sm_80", name="small", flags=("-DVALUE=2",)).flags == (*FLAGS, "-DVALUE=2")


def test_spills_are_counted() -> None:
    """Spill bytes come from the log, and the stack of the binary is there to hold them."""
    done = compile_cubin(SPILLING, "sm_90a", name="spilling")
    assert done.spill_stores > 0 and done.spill_loads > 0 and done.resources.stack_bytes > 0
    assert done.resources.max_threads == 1024
    with pytest.raises(CompileError, match="spilled, none allowed"):
        _verify(done, 1024)
    spilled = done.spill_stores + done.spill_loads
    _verify(done, 1024, max_spill_bytes=spilled)
    with pytest.raises(CompileError, match=rf"bytes spilled, {spilled - 1} allowed"):
        _verify(done, 1024, max_spill_bytes=spilled - 1)


def test_spills_of_helpers_count_and_of_other_kernels_do_not() -> None:
    """Bytes spilled by a device function that was not inlined belong to the kernel; another kernel's do not."""
    assert module._read_log(LOG, K) == (16, 10)


@pytest.mark.parametrize("log", ["", LOG.replace("Used 32", "Used 33"), LOG.replace("12 bytes spill stores", "none")])
def test_log_and_binary_must_agree(log: str) -> None:
    """A log that is silent, or that counts other registers than the binary, is refused: one of the two is misread."""
    with pytest.raises(CompileError):
        module._read_log(log, K)


def test_first_error_line_and_log() -> None:
    """A syntax error names file and line, and carries the whole log."""
    with pytest.raises(CompileError, match=r"k\.cu\(2\): error: expected") as caught:
        compile_cubin("int unused;\nint x = ;", "sm_90a", name="k")
    assert "int x = ;" in caught.value.log and caught.value.exit_code == 1


def test_illegal_instruction_is_a_compile_error() -> None:
    """What only the assembler can see (an instruction that the target lacks) is a CompileError too."""
    text = 'extern "C" __global__ void k() { asm volatile("wgmma.fence.sync.aligned;"); }'
    compile_cubin(text, "sm_90a", name="k")
    with pytest.raises(CompileError, match=r"(?i)error.*sm_90a|wgmma") as caught:
        compile_cubin(text, "sm_90", name="k")
    assert caught.value.log


@pytest.mark.parametrize(
    "target", ["sm_70", "sm_80a", "sm_9", "sm_90b", "90a", "", "compute_90", "sm_90a\n", "sm_90 -x"]
)
def test_unknown_target_names_the_known(target: str) -> None:
    """A target that NVRTC does not have is refused before compiling, with those that it has."""
    with pytest.raises(InputError, match=r"sm_80, .*sm_90"):
        compile_cubin(SMALL, target, name="small")


@pytest.mark.parametrize(("text", "why"), [("a\0b", "NUL"), ("\ud800", "UTF-8"), ("int x;", "has no kernel 'k'")])
def test_text_that_would_be_misread(text: str, why: str) -> None:
    """NUL would cut the text short unseen; a missing or mangled kernel is said at once, not at launch."""
    with pytest.raises(CompileError, match=why):
        compile_cubin(text, "sm_90a", name="k")


def test_missing_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the CUDA modules: an EnvironmentProblem with the pip command, and no traceback of an import."""
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(EnvironmentProblem, match=r"pip install .*nvidia-cuda-nvrtc"):
        compile_cubin(SMALL, "sm_90a", name="small")


def test_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the binding but without the NVRTC library behind it: the same."""
    from cuda.bindings import nvrtc

    def absent() -> None:
        raise RuntimeError("Failure finding libnvrtc.so\nsecond line")

    monkeypatch.setattr(nvrtc, "nvrtcVersion", absent)
    with pytest.raises(EnvironmentProblem, match=r"Failure finding libnvrtc\.so\n  try: pip install"):
        supported_targets()


def test_import_needs_no_cuda() -> None:
    """Importing the module, and asking for the version of an installed wheel, imports no CUDA module (C1's key)."""
    code = "import sys; from amk.synth import compile as c; c._wheel_versions() and c.toolkit_version();"
    code += "sys.exit(any(name.split('.')[0] == 'cuda' for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=False).returncode == 0


def test_toolkit_is_the_loaded_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """C1: once the library is loaded its own version counts, whatever wheels lie about."""
    loaded = toolkit_version() if supported_targets() else ""
    monkeypatch.setattr(module, "_wheel_versions", lambda: ["99.1.2"])
    assert loaded.startswith(toolkit_version()) and toolkit_version() != "99.1.2"


def test_threads_compile_at_once() -> None:
    """Eight compilations in four threads give the binaries that one thread gives."""
    texts = [SMALL.replace("= 1", f"= {i}") for i in range(8)]
    alone = [compile_cubin(text, "sm_90a", name="small").cubin for text in texts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda text: compile_cubin(text, "sm_90a", name="small").cubin, texts)) == alone


def test_interpreter_runs_on_while_compiling() -> None:
    """The lock of the interpreter is free during a compilation: another thread gets many turns."""
    done = threading.Event()
    worker = threading.Thread(target=lambda: (compile_cubin(SPILLING, "sm_90a", name="spilling"), done.set()))
    worker.start()
    turns = 0
    while not done.is_set():
        turns += 1
        time.sleep(0.002)
    worker.join()
    assert turns > 5


def test_register_file() -> None:
    """A8: 512 threads of 162 registers do not fit into 65,536, and the message names both numbers."""
    with pytest.raises(CompileError, match=r"512 threads x 162 registers take 86,016 .* > 65,536") as caught:
        _verify(_compiled(162), 512)
    assert caught.value.log == "the log"
    _verify(_compiled(128), 512)


@pytest.mark.parametrize(
    ("registers", "threads", "blocks", "fits"),
    [
        (168, 384, 1, True),  # 12 warps of 5,376
        (129, 480, 1, False),  # 61,920 by plain product; 15 warps take 16 places of 4,352
        (64, 1024, 1, True),
        (65, 1024, 1, False),
        (255, 32, 8, True),  # 8 warps of 8,192: exactly full
        (255, 32, 9, False),
        (32, 1024, 2, True),
        (33, 1024, 2, False),
    ],
)
def test_register_lumps(registers: int, threads: int, blocks: int, fits: bool) -> None:
    """A8: registers are given out in lumps per warp and warps in fours, so the plain product is too lenient."""
    if fits:
        return _verify(_compiled(registers), threads, blocks_per_sm=blocks)
    with pytest.raises(CompileError, match="65,536"):
        _verify(_compiled(registers), threads, blocks_per_sm=blocks)


def test_gate_names_every_broken_assumption() -> None:
    """Registers, shared memory, spills and launch bound in one message, each with both numbers; all right passes."""
    bad = _compiled(80, shared=40_000, spills=4, bound=128)
    with pytest.raises(CompileError) as caught:
        _verify(bad, 256, max_registers=64, dynamic_shared_bytes=10_000)
    said = str(caught.value)
    assert "80 registers > 64" in said and "50,000 bytes of shared memory > 49,152" in said
    assert "4 + 4 bytes spilled" in said and "256 threads > the launch bound of 128" in said
    good = replace(bad, spill_stores=0, spill_loads=0)
    _verify(good, 128, max_registers=80, dynamic_shared_bytes=9_152)


def test_more_registers_than_estimated() -> None:
    """Fewer blocks than promised are slower, not wrong: a warning with both numbers; fewer than asked for, refused."""
    a100, said = Target.find("A100"), {"assumed_registers": 64, "target": Target.find("A100")}

    def warnings(registers: int, **more: object) -> tuple[str, ...]:
        limits = {"max_registers": None, "max_shared_bytes": 49_152, "max_spill_bytes": 0, **said, **more}
        return verify_binary(_compiled(registers), threads=256, **limits)  # type: ignore[arg-type]

    assert warnings(64) == () and max_registers(a100, 256, 4) == 64
    assert warnings(72) == ("72 registers where at most 64 were estimated: 3 blocks fit on an SM instead of 4",)
    assert warnings(72, dynamic_shared_bytes=49_000) == ("72 registers where at most 64 were estimated",)
    with pytest.raises(CompileError, match="72 registers > 64"):
        warnings(72, max_registers=64, blocks_per_sm=4)
