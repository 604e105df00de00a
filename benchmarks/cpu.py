"""What a machine without a GPU sees: reading a descriptor, and an fp32 GEMM on the CPU executor.

In: a number of runs. Out: median, fastest and slowest, and with `--out` a JSON file with every run and what it ran on.
Reading is load, parse and hash of 1,000 and of 10,000 statements, each with an expression of its own: in a process that
has read before (what it parsed is forgotten), and as the first thing of a new process, without its imports. The GEMM is
512 x 512 x 512 through the library call: the first call also proposes and certifies the kernel, the later ones only run
it. A matrix product of NumPy beside it shows how quick and how quiet the machine is.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import amk
from amk.dsl.expr import cdiv
from amk.dsl.text import parse

GEMM = 512  # M, N and K


def main() -> None:
    """Runs and reports."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=11, help="of reading; the GEMM runs half as often")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows = reading(args.runs) | gemm(max(args.runs // 2, 2))
    for name, row in rows.items():
        low, middle, high = min(row), statistics.median(row), max(row)
        print(f"{name:<28}  median {middle * 1e3:8.1f} ms  fastest {low * 1e3:8.1f}  slowest {high * 1e3:8.1f}")
    if args.out:
        facts = {
            "command": "python " + " ".join(sys.argv), "commit": commit(), "python": platform.python_version(),
            "numpy": np.__version__, "machine": platform.platform(), "cpus": len(os.sched_getaffinity(0)),
            "load": [round(x, 2) for x in os.getloadavg()],
            "milliseconds": {name: [round(s * 1e3, 2) for s in row] for name, row in rows.items()},
        }  # fmt: skip
        args.out.write_text(json.dumps(facts, indent=2) + "\n")


def reading(runs: int) -> dict[str, list[float]]:
    """Seconds to load, parse and hash descriptors of two sizes, here and in new processes, in turn."""
    texts = {n: statements(n) for n in (1_000, 10_000)}
    out: dict[str, list[float]] = {}
    for _ in range(runs):
        for n, text in texts.items():
            parse.cache_clear()  # else the second reading finds every expression parsed
            out.setdefault(f"read {n:,} statements", []).append(seconds(lambda text=text: read(text)))
            out.setdefault(f"read {n:,}, new process", []).append(read_anew(text))
    return out


def read(text: str) -> str:
    """The hash of a descriptor's text."""
    return amk.KernelDescriptor.from_json(text).hash


def read_anew(text: str) -> float:
    """Seconds of the first reading in a process of its own."""
    child = (
        "import sys, time; from amk.dsl.kernel import KernelDescriptor; text = sys.stdin.read()\n"
        "start = time.perf_counter(); KernelDescriptor.from_json(text).hash; print(time.perf_counter() - start)"
    )
    done = subprocess.run([sys.executable, "-c", child], input=text, capture_output=True, text=True, check=True)
    return float(done.stdout)


def statements(number: int) -> str:
    """The JSON of a kernel with so many loads, no two of the same index."""
    k = amk.KernelBuilder("long_kernel", target="sm_80", threads=256)
    n = k.size("n")
    x, z = k.tensor("x", "f32", (n,)), k.tensor("z", "f32", (n,), access="write")
    a = k.registers("a", "f32", (64,))
    i = k.let("i", k.bx * 256 + k.t)
    with k.when(i < n):
        for j in range(number):
            k.load(a[j % 64], x[i - i % (j + 1)])
        k.store(z[i], a[0])
    text: str = k.finish(grid=(cdiv(n, 256),)).to_json()
    return text


def gemm(runs: int) -> dict[str, list[float]]:
    """Seconds of the first call, of later ones, and of NumPy's product of the same arrays."""
    draw = np.random.default_rng(0)
    a, b = (draw.standard_normal((GEMM, GEMM)).astype(np.float32) for _ in "AB")
    call = amk.AutoMegaKernelGEMM(device="cpu")
    name = f"gemm {GEMM} cubed"
    out = {f"{name}, first call": [seconds(lambda: call.run(a, b))], f"{name}, later calls": [], f"{name}, NumPy": []}
    for _ in range(runs):
        out[f"{name}, later calls"].append(seconds(lambda: call.run(a, b)))
        out[f"{name}, NumPy"].append(seconds(lambda: a @ b))
    want = a.astype(np.float64) @ b
    error = np.linalg.norm(call.run(a, b) - want) / np.linalg.norm(want)
    assert call.last.executor == "cpu" and error < 1e-6, (call.last, error)
    return out


def seconds(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def commit() -> str:
    """The commit of this checkout; with `+` where files differ from it."""
    run = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+", "--abbrev=40"]
    try:
        return subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


if __name__ == "__main__":
    main()
