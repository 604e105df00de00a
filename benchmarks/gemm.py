"""fp32 GEMM against torch.mm (tf32 off): paired, interleaved, with an A/A control. Prints a table, writes JSON.

python benchmarks/gemm.py --out benchmarks/results/gemm-fp32.json
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import time
from functools import partial
from pathlib import Path

import torch

import amk
from amk.agents.measure import CudaEventClock, measure_pair, summarise

SHAPES = [(4096, 4096, 4096), (2048, 2048, 2048), (1024, 1024, 1024), (8192, 8192, 8192), (3000, 5000, 777),
          (16, 4096, 4096), (1023, 1025, 1027), (256, 256, 256), (512, 4096, 14336)]  # fmt: skip


def overhead_us(call, calls: int = 2000) -> float:
    """Host time of a warm call in microseconds (median of 7 batches), the stream kept from filling up."""
    found = []
    for _ in range(7):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls // 7):
            call()
        found.append((time.perf_counter() - start) / (calls // 7))
        torch.cuda.synchronize()
    return sorted(found)[3] * 1e6


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=18)
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    gemm, rows = amk.AutoMegaKernelGEMM(), []
    clock = CudaEventClock(0, torch.cuda.current_stream().cuda_stream)
    for m, n, k in SHAPES:
        a, b = torch.randn(m, k, device="cuda"), torch.randn(k, n, device="cuda")
        ours, theirs = torch.empty(m, n, device="cuda"), torch.empty(m, n, device="cuda")
        gemm.run(a, b, ours)
        timing = measure_pair(
            partial(torch.mm, a, b, out=theirs), partial(gemm.run, a, b, ours), clock=clock, rounds=args.rounds
        )
        error = float((ours.double() - a.double() @ b.double()).norm() / (a.double() @ b.double()).norm())
        row = {"m": m, "n": n, "k": k, "kernel": gemm.last.kernel, "error": error, **summarise(timing, clock)}
        rows.append(row)
        print(f"{m}x{n}x{k}: {row['speedup']}  error {error:.2e}  {gemm.last.kernel}", flush=True)
    a, b = torch.randn(16, 16, device="cuda"), torch.randn(16, 16, device="cuda")
    c = torch.empty(16, 16, device="cuda")
    overhead = {
        "amk_us": overhead_us(lambda: gemm.run(a, b, c)),
        "torch_us": overhead_us(lambda: torch.mm(a, b, out=c)),
    }
    print("overhead", overhead)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    meta = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "python": platform.python_version(),
            "commit": commit, "command": "python benchmarks/gemm.py"}  # fmt: skip
    args.out.write_text(json.dumps({"meta": meta, "overhead": overhead, "rows": rows}, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
