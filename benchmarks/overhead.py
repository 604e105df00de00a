"""Host time of a warm call, ours beside torch.mm with `out=`: paired, interleaved, with an A/A control.

python benchmarks/overhead.py --out benchmarks/results/overhead.json

A batch is 200 calls without waiting for the GPU, then a wait outside the clock. The sides take turns in random order,
so that a busy host slows both. Exit code 2: no torch, or no GPU.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import amk
from amk.runtime.device import device, probe

SIZES = (16, 256)
CALLS = 200


def batch_us(call: Callable[[], object], wait: Callable[[], object]) -> float:
    """Microseconds a call on the host, over one batch."""
    wait()
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    found = (time.perf_counter() - start) / CALLS * 1e6
    wait()
    return found


def interleave(
    sides: dict[str, Callable[[], object]], wait: Callable[[], object], rounds: int, seed: int = 0
) -> dict[str, list[float]]:
    """Each side once a round, in random order; three rounds of warm-up are dropped."""
    chance, found = random.Random(seed), {name: [] for name in sides}
    for turn in range(rounds + 3):
        order = list(sides)
        chance.shuffle(order)
        for name in order:
            us = batch_us(sides[name], wait)
            if turn >= 3:
                found[name].append(us)
    return found


def summary(ours: Sequence[float], theirs: Sequence[float], again: Sequence[float]) -> dict[str, float]:
    """Medians in microseconds, and medians of the ratios within a round (below 1: ours is cheaper)."""
    low, *_, high = statistics.quantiles(ours, n=10)
    return {
        "amk_us": round(statistics.median(ours), 3), "amk_p10_us": round(low, 3), "amk_p90_us": round(high, 3),
        "torch_us": round(statistics.median(theirs), 3),
        "ratio": round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 4),
        "control_ratio": round(statistics.median(a / b for a, b in zip(again, theirs, strict=True)), 4),
    }  # fmt: skip


def steps(gemm: amk.AutoMegaKernelGEMM, args: tuple[Any, Any, Any], wait: Callable[[], object]) -> dict[str, float]:
    """What the parts of a warm call cost by themselves, in microseconds; the rest is Python between them."""
    from amk.runtime import gemm_plan

    a, b, c = args
    _, plan = gemm.plans.run(a, b, c, 1.0, 0.0, None)  # type: ignore[misc]
    api, stream = plan.runtime.driver, gemm_plan._TORCH.stream
    block = plan._block()
    handle, pointers = stream(plan.device), (a.data_ptr(), b.data_ptr(), c.data_ptr())
    plan.launch(*pointers, 1.0, 0.0, handle)

    def read() -> None:
        for x in args:
            _ = x.shape, x.stride(), x.data_ptr(), x.device, x.dtype, x.is_neg()

    gemm_plan._CALL.pack_into(block.memory, gemm_plan.STREAM_OFFSET, handle, *pointers, 1.0, 0.0)
    parts: dict[str, Callable[[], object]] = {
        "reading three tensors": read,
        "current stream": lambda: stream(plan.device),
        "current context": api.current,
        "packing": lambda: gemm_plan._CALL.pack_into(block.memory, 32, handle, *pointers, 1.0, 0.0),
        "driver call": lambda: api.launch_prepared(plan.function, block.config, block.params),
        "whole call": lambda: gemm.run(a, b, c),
    }
    found = interleave(parts, wait, 15)
    return {name: round(statistics.median(values), 3) for name, values in found.items()}


def facts() -> dict[str, str]:
    """Device, driver, versions and commit, as in the other benchmarks."""

    def said(*command: str) -> str:
        try:
            return subprocess.run(command, capture_output=True, text=True).stdout.strip()
        except OSError:
            return ""

    import torch

    return {
        "device": device(0).name, "cuda": probe().driver,
        "driver": said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").partition("\n")[0],
        "torch": torch.__version__, "python": platform.python_version(), "host": platform.processor() or "unknown",
        "commit": said("git", "rev-parse", "HEAD"), "command": "python " + " ".join(sys.argv),
    }  # fmt: skip


def main() -> int:
    """Prints a table; with --out also writes it as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=40)
    args = parser.parse_args()
    status = probe()
    try:
        import torch
    except ImportError:
        print("overhead: torch is not installed, and it is what this is measured against", file=sys.stderr)
        return 2
    if not status.available or not torch.cuda.is_available():
        print(f"overhead: no GPU: {status.reason or 'torch sees none'}", file=sys.stderr)
        return 2
    torch.backends.cuda.matmul.allow_tf32 = False
    gemm, rows, wait = amk.AutoMegaKernelGEMM(), [], torch.cuda.synchronize
    for n in SIZES:
        a, b = torch.randn(n, n, device="cuda"), torch.randn(n, n, device="cuda")
        ours, theirs = torch.empty(n, n, device="cuda"), torch.empty(n, n, device="cuda")
        for _ in range(2):
            gemm.run(a, b, ours)
        torch.mm(a, b, out=theirs)
        error = float((ours - theirs).norm() / theirs.norm())
        if not error < 1e-5 or gemm.last.seconds is not None:
            print(f"overhead: the warm path was not taken or is wrong (error {error})", file=sys.stderr)
            return 1

        def mm(a: Any = a, b: Any = b, out: Any = theirs) -> None:
            torch.mm(a, b, out=out)

        def run(a: Any = a, b: Any = b, out: Any = ours) -> None:
            gemm.run(a, b, out)

        found = interleave({"amk": run, "torch": mm, "again": mm}, wait, args.rounds)
        row = {
            "n": n,
            **summary(found["amk"], found["torch"], found["again"]),
            "steps": steps(gemm, (a, b, ours), wait),
        }
        rows.append(row)
        print(f"{n}^3: amk {row['amk_us']} us, torch.mm {row['torch_us']} us, ratio {row['ratio']}, "
              f"torch against itself {row['control_ratio']}\n  {row['steps']}")  # fmt: skip
    if args.out:
        args.out.write_text(json.dumps({"meta": facts(), "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
