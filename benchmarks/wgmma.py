"""bf16 GEMM on the tensor cores against torch.mm: right at ragged shapes, and timed paired and interleaved.

python benchmarks/wgmma.py --out benchmarks/results/wgmma-bf16-h200.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

import amk
from amk.agents.measure import CudaEventClock, measure_pair, summarise
from amk.ops.wgmma_gemm import WgmmaSchedule, wgmma_gemm

RAGGED = [(1000, 1032, 520), (129, 264, 72), (3000, 5000, 776), (8, 8, 8), (1, 4096, 8), (257, 8, 1000)]
TIMED = [(4096, 4096, 4096), (8192, 8192, 8192), (2048, 2048, 2048), (4096, 14336, 4096), (3000, 5000, 776)]


def operands(m: int, n: int, k: int) -> list[torch.Tensor]:
    a, b = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in ((m, k), (k, n)))
    return [a, b, torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)]


def error(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> float:
    """Frobenius norm of the difference to float64, over that of the result."""
    want = a.double() @ b.double()
    return float((c.double() - want).norm() / want.norm())


def captured(call: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """One call as a graph, so that what the host takes to launch does not count."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=18)
    args = parser.parse_args()
    blocks = torch.cuda.get_device_properties(0).multi_processor_count
    rows, checked = [], []
    schedules = {
        "cluster 2": WgmmaSchedule(), "cluster 1": WgmmaSchedule(cluster=1),
        "one warpgroup": WgmmaSchedule(warpgroups=1, columns=64, slots=2, cluster=1),
        "128 columns, 3 slots": WgmmaSchedule(columns=128, slots=3),
    }  # fmt: skip
    kernels = {name: amk.compile(wgmma_gemm(s)) for name, s in schedules.items()}
    for name, kernel in kernels.items():
        for m, n, k in RAGGED:
            for count in (2, blocks):
                a, b, c = operands(m, n, k)
                kernel(A=a, B=b, C=c, blocks=count)
                checked.append({"schedule": name, "m": m, "n": n, "k": k, "blocks": count, "error": error(a, b, c)})
                if not checked[-1]["error"] < 4e-3:
                    raise SystemExit(f"wrong: {checked[-1]}")
    print(f"right at {len(checked)} problems, worst error {max(x['error'] for x in checked):.2e}", flush=True)
    clock = CudaEventClock(0, torch.cuda.current_stream().cuda_stream)
    for m, n, k in TIMED:
        a, b, c = operands(m, n, k)
        theirs = torch.empty_like(c)
        for name in ("cluster 2", "cluster 1"):
            ours = captured(partial(kernels[name], A=a, B=b, C=c, blocks=blocks))
            peer = captured(partial(torch.mm, a, b, out=theirs))
            timing = measure_pair(peer.replay, ours.replay, clock=clock, rounds=args.rounds)
            row = {"m": m, "n": n, "k": k, "schedule": name, "error": error(a, b, c), **summarise(timing, clock)}
            rows.append(row)
            print(f"{m}x{n}x{k} {name}: {row['speedup']}  error {row['error']:.2e}", flush=True)
    meta = {
        "device": torch.cuda.get_device_name(), "torch": torch.__version__, "python": platform.python_version(),
        "commit": os.environ.get("COMMIT") or subprocess.getoutput("git rev-parse HEAD"),
        "machine": subprocess.getoutput("nvidia-smi --query-gpu=driver_version,clocks.sm,clocks.mem --format=csv"),
        "command": "python benchmarks/wgmma.py",
    }  # fmt: skip
    args.out.write_text(json.dumps({"meta": meta, "checked": checked, "rows": rows}, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
