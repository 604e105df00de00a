"""How long a whole `amk check` process takes, on the GEMM that the rule agent proposes for a target.

In: a target and a number of runs. Out: the median and the slowest run, and with `--out` a JSON file with every run and
what it ran on. Each run is a new process; one run before them fills the bytecode cache, as installing does. Runs of a
bare interpreter alternate with them and show how quiet the machine was.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from amk.api import proposed
from amk.dsl.target import Target
from amk.ops.gemm import Gemm


def main() -> None:
    """Runs and reports."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", default="h200")
    parser.add_argument("--size", type=int, default=4096, help="M, N and K of the problem")
    parser.add_argument("--runs", type=int, default=21)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    kernel = proposed(Gemm(m=args.size, n=args.size, k=args.size), Target.find(args.target))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "gemm.amk.json")
        file.write_text(kernel.to_json())
        check = [sys.executable, "-m", "amk", "check", str(file)]
        seconds(check)
        runs = [(seconds(check), seconds([sys.executable, "-c", ""])) for _ in range(args.runs)]
    rows = {"amk check": sorted(r[0] for r in runs), "python -c ''": sorted(r[1] for r in runs)}
    for name, row in rows.items():
        print(f"{name:<12}  median {statistics.median(row) * 1e3:.0f} ms, slowest {row[-1] * 1e3:.0f} ms")
    if args.out:
        facts = {
            "kernel": kernel.name, "target": args.target, "command": "python " + " ".join(sys.argv),
            "python": platform.python_version(), "machine": platform.platform(), "cpus": len(os.sched_getaffinity(0)),
            "milliseconds": {name: [round(s * 1e3, 1) for s in row] for name, row in rows.items()},
        }  # fmt: skip
        args.out.write_text(json.dumps(facts, indent=2) + "\n")


def seconds(command: list[str]) -> float:
    """Wall time of one process that ends with exit code 0."""
    environment = {n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
