"""The printed text run on the host by a C++ compiler, one OS thread per CUDA thread, under its sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from amk.dsl.kernel import KernelDescriptor
from amk.synth.render import text_of

sys.path.insert(0, str(Path(__file__).parent))
from kernels import GOLDEN, PRODUCT, block_sum, gemm, transpose, vector_add

SHIM = Path(__file__).parent / "shim"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None or sys.platform != "linux", reason="needs g++ on Linux"),
]

HEAD = '#include "amk_shim.hpp"\n#include <cmath>\n#include <cstdio>\n#include <cstdlib>\n'
ADD = """int main() {
  const int n = 520;
  float *x = (float*)aligned_alloc(16, n * 4), *y = (float*)aligned_alloc(16, n * 4);
  float *z = (float*)aligned_alloc(16, n * 4);
  for (int i = 0; i < n; ++i) { x[i] = i; y[i] = 2 * i; z[i] = -1; }
  amk_launch(64, {(n + 255) / 256, 1, 1}, [=] { vector_add(n, x, y, z); });
  for (int i = 0; i < n; ++i) if (z[i] != 3 * i) { std::printf("wrong at %d\\n", i); return 1; }
}"""
TRANSPOSE = """int main() {
  const int rows = 33, cols = 45;
  float *x = (float*)malloc(rows * cols * 4), *out = (float*)malloc(rows * cols * 4);
  for (int i = 0; i < rows * cols; ++i) { x[i] = i; out[i] = -1; }
  amk_launch(256, {2, 2, 1}, [=] { transpose(rows, cols, x, out); });
  for (int i = 0; i < rows; ++i) for (int j = 0; j < cols; ++j)
    if (out[j * rows + i] != x[i * cols + j]) { std::printf("wrong at %d %d\\n", i, j); return 1; }
}"""
SUM = """int main() {
  const int n = 5000;
  float *x = (float*)malloc(n * 4), *total = (float*)malloc(4);
  for (int i = 0; i < n; ++i) x[i] = i % 7;
  *total = 0;
  double want = 0;
  for (int i = 0; i < n; ++i) want += x[i];
  amk_launch(256, {8, 1, 1}, [=] { block_sum(n, x, total); });
  if (*total != want) { std::printf("wrong: %f %f\\n", *total, want); return 1; }
}"""
GEMM = """int main() {
  const int m = 35, n = 36, depth = 20;
  float *a = (float*)aligned_alloc(16, m * depth * 4), *b = (float*)aligned_alloc(16, depth * n * 4);
  float *c = (float*)aligned_alloc(16, m * n * 4);
  for (int i = 0; i < m * depth; ++i) a[i] = i % 5 - 2;
  for (int i = 0; i < depth * n; ++i) b[i] = i % 7 - 3;
  for (int i = 0; i < m * n; ++i) c[i] = NAN;
  amk_launch(64, {2, 2, 1}, [=] { gemm(m, n, depth, a, b, c); });
  for (int i = 0; i < m; ++i) for (int j = 0; j < n; ++j) {
    float want = 0;
    for (int k = 0; k < depth; ++k) want += a[i * depth + k] * b[k * n + j];
    if (c[i * n + j] != want) { std::printf("wrong at %d %d: %f %f\\n", i, j, c[i * n + j], want); return 1; }
  }
}"""
# The operator's kernels: A and B as they are stored, C the sum of products of small whole numbers, which f32 holds.
PRODUCT_MAIN = """int main() {{
  const int m = {m}, n = {n}, depth = {k}, batch = {batch};
  const bool ta = {ta}, tb = {tb};
  float *a = amk_floats(batch * m * depth), *b = amk_floats(batch * depth * n), *c = amk_floats(batch * m * n);
  for (int i = 0; i < batch * m * depth; ++i) a[i] = i % 5 - 2;
  for (int i = 0; i < batch * depth * n; ++i) b[i] = i % 7 - 3;
  for (int i = 0; i < batch * m * n; ++i) c[i] = {start};
  amk_launch({threads}, {{{grid}}}, [=] {{ {name}({args}); }});
  for (int z = 0; z < batch; ++z) for (int i = 0; i < m; ++i) for (int j = 0; j < n; ++j) {{
    float want = {beta} * 3;
    for (int k = 0; k < depth; ++k) {{
      const float x = a[z * m * depth + (ta ? k * m + i : i * depth + k)];
      want += 2 * x * b[z * depth * n + (tb ? j * depth + k : k * n + j)];
    }}
    const float got = c[(z * m + i) * n + j];
    if (got != want) {{ std::printf("wrong at %d %d %d: %f %f\\n", z, i, j, got, want); return 1; }}
  }}
}}"""


def product_main(name: str) -> str:
    """A main function that runs a kernel of the operator at its problem's own sizes, by its parameters' names."""
    (p, s), kernel = PRODUCT[name], GOLDEN[name]()
    pitches = {f"ld{x}": str(v) for x, v in zip("abc", p.leading, strict=True)}
    sizes = {
        "M": "m",
        "N": "n",
        "K": "depth",
        "A": "a",
        "B": "b",
        "C": "c",
        "batch": "batch",
        "alpha": "2",
        "beta": "1",
    }
    steps = {"batch_a": "m * depth", "batch_b": "depth * n", "batch_c": "m * n"}
    tiles = (-(-p.n // s.bn), -(-p.m // s.bm))
    grid = (p.batch, *tiles) if p.batch > 1 else (tiles[0] * tiles[1], 1, 1) if s.group > 1 else (*tiles, s.split_k)
    start = "0" if s.split_k > 1 else "3" if p.beta == "any" else "NAN"
    return PRODUCT_MAIN.format(
        m=p.m, n=p.n, k=p.k, batch=p.batch, ta=int(p.trans_a), tb=int(p.trans_b), threads=s.threads, name=kernel.name,
        grid=", ".join(map(str, grid)), args=", ".join({**sizes, **pitches, **steps}[x.name] for x in kernel.params),
        start=start, beta=int(p.beta == "any"),
    )  # fmt: skip


CASES = {
    "vector_add": (lambda: vector_add(4, 64), ADD), "transpose": (transpose, TRANSPOSE), "block_sum": (block_sum, SUM),
    "gemm": (gemm, GEMM), "gemm_swizzled": (lambda: gemm(swizzle=True), GEMM),
    **{name: (GOLDEN[name], product_main(name)) for name in PRODUCT},
}  # fmt: skip


def run(
    kernel: KernelDescriptor, main: str, sanitizer: str, folder: Path, text: str = ""
) -> subprocess.CompletedProcess[str]:
    """What a program of the kernel's text (or another text) and a main function says."""
    return execute(build((text or text_of(kernel)) + main, kernel.shared_bytes, sanitizer, folder))


def build(text: str, shared_bytes: int, sanitizer: str, folder: Path) -> Path:
    """The program of a text with its main function."""
    source, program = folder / "main.cpp", folder / "main"
    source.write_text(HEAD + text)
    flags = [
        "-std=c++17",
        "-O1",
        "-g",
        "-fno-strict-aliasing",
        "-ffp-contract=off",
        f"-fsanitize={sanitizer}",
        "-pthread",
    ]
    define = f"-DAMK_SHARED_BYTES={shared_bytes}"
    command = ["g++", *flags, define, f"-I{SHIM}", "-D__restrict__=__restrict", str(source), "-o", str(program)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return program


def execute(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What a program says."""
    env = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}  # the little main functions free nothing
    command = [str(program), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=program.parent, env=env)


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
@pytest.mark.parametrize("name", CASES)
def test_right_and_clean(name: str, sanitizer: str, tmp_path: Path) -> None:
    make, main = CASES[name]
    done = run(make(), main, sanitizer, tmp_path)
    assert done.returncode == 0 and "ERROR" not in done.stderr and "runtime error" not in done.stderr, (
        done.stdout + done.stderr
    )


@pytest.mark.parametrize("make, main", [
    (lambda: transpose(sync=False), TRANSPOSE), (lambda: block_sum(sync=False), SUM), (lambda: gemm(syncs=False), GEMM),
])  # fmt: skip
def test_a_missing_barrier_is_a_race(make, main: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    done = run(make(), main, "thread", tmp_path)
    assert "data race" in done.stderr


def without(kind: str, text: str) -> str:
    """A text without the calls of a kind."""
    assert kind in text
    return "".join(line for line in text.splitlines(keepends=True) if not line.strip().startswith(kind))


@pytest.mark.parametrize("name", PRODUCT)
def test_a_missing_barrier_of_the_operator_is_a_race(name: str, tmp_path: Path) -> None:
    text = without("__syncthreads", text_of(GOLDEN[name]()))
    assert "data race" in run(GOLDEN[name](), product_main(name), "thread", tmp_path, text).stderr


def test_a_missing_wait_of_the_operator_reads_too_early(tmp_path: Path) -> None:
    text = without("amk_wait_group", text_of(GOLDEN["gemm_nn_ring"]()))
    assert "wrong at" in run(GOLDEN["gemm_nn_ring"](), product_main("gemm_nn_ring"), "address", tmp_path, text).stdout


def test_an_overrun_of_shared_memory_is_seen(tmp_path: Path) -> None:
    kernel = transpose()
    text = text_of(kernel).replace("tile[(warp + r) * 33 + lane]", "tile[(warp + r) * 34 + lane]")
    assert text != text_of(kernel)
    assert "use-after-poison" in run(kernel, TRANSPOSE, "address", tmp_path, text).stderr


def test_an_overrun_of_global_memory_is_seen(tmp_path: Path) -> None:
    kernel = vector_add(4, 64)
    text = text_of(kernel).replace("if (i < n)", "if (i < n + 4)")
    assert "heap-buffer-overflow" in run(kernel, ADD, "address", tmp_path, text).stderr
