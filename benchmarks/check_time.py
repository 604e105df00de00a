"""How long a whole cold `amk check` takes, and how that grows with the kernel.

In: a number of runs. Out: a table, and with `--out` a JSON file with every run and what it ran on.
Each run is a new process with parse, validation, advice and report; the files take turns, and so does a bare
interpreter, which shows how quiet the machine was. One run before them fills the bytecode cache, as installing does.
Beside wall time stand processor time (user and system, which other processes disturb less) and the number of Python
calls (which nothing disturbs). Growth: rings of 2 to 8 stages with 1 to 16 unrolled steps, the processor time of
reading and checking each in a process of its own (the best of the runs), fitted by least squares of its logarithm over
that of statements x stages.
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
from collections.abc import Iterable
from math import log
from pathlib import Path
from typing import Any

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import both, cdiv
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.target import Target
from amk.harness import samples
from amk.ops.gemm import Gemm, GemmSchedule, build
from amk.ops.wgmma_gemm import WgmmaSchedule, wgmma_gemm

Row = tuple[float, float]  # wall and processor seconds of a run

STAGES, STEPS = (2, 4, 8), (1, 2, 4, 8, 16)
GOALS = {"simt": (200, 300), "row": (200, 300), "wgmma": (500, None), "wgmma cluster": (800, None)}  # milliseconds
FLOOR = "python -c ''"
_TIMED = """
import sys, time
from amk.dsl.kernel import KernelDescriptor
from amk.harness import advice, bounds, check, coverage, order, rules
text = open(sys.argv[1]).read()
start = time.process_time()
assert check.check(KernelDescriptor.from_json(text)).ok
print(time.process_time() - start)
"""
_COUNTED = """
import cProfile, io, sys
from contextlib import redirect_stdout
from amk.cli.main import main
seen = cProfile.Profile()
with redirect_stdout(io.StringIO()):
    seen.runcall(main, ["check", sys.argv[1]])
print(sum(x.callcount for x in seen.getstats()))
"""


def main() -> None:
    """Runs and reports."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=15, help="processes for each kernel")
    parser.add_argument("--growth", type=int, default=3, help="processes for each point of the fit; 0: no fit")
    parser.add_argument("--host", default="", help="what machine it was, for --out")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = {name: written(folder, name, k) for name, k in kernels().items()}
        rows = times(files, args.runs)
        calls = {name: int(said(_COUNTED, file)) for name, file in files.items()}
        points = growth(folder, args.growth) if args.growth else []
    for name, row in rows.items():
        print(shown(name, row, calls.get(name)))
    exponent = slope([(p["statements"] * p["stages"], p["seconds"]) for p in points]) if points else None
    if points:
        print(f"growth over statements x stages: exponent {exponent:.2f} (goal: at most 1.4)")
    if args.out:
        args.out.write_text(json.dumps(facts(args, rows, calls, points, exponent), indent=1) + "\n")


def kernels() -> dict[str, KernelDescriptor]:
    """The kernels that have a goal."""
    two = build(Gemm(m=4096, n=4096, k=4096), GemmSchedule(stages=2), Target.find("h200"))
    return {
        "simt": two, "row sum": samples.block_sum(), "row transpose": samples.transpose(),
        "wgmma": wgmma_gemm(WgmmaSchedule(cluster=1)), "wgmma cluster": wgmma_gemm(WgmmaSchedule(cluster=2)),
    }  # fmt: skip


def ring(stages: int, steps: int) -> KernelDescriptor:
    """Sums of columns through a ring of cp.async with so many slots, `steps` rows a step, unrolled."""
    k = KernelBuilder("ring", target="sm_80", threads=64)
    m, n = k.size("m", max=1 << 20), k.size("n", multiple_of=4)
    x, out = k.tensor("x", "f32", (m, n), align=16), k.tensor("sums", "f32", (n,), access="write", align=16)
    tile = k.shared("tile", "f32", (stages, steps, 256))
    acc, a = k.registers("acc", "f32", (4,)), k.registers("a", "f32", (4,))
    column, rounds = k.let("column", k.bx * 256 + k.t * 4), k.let("rounds", cdiv(m, steps))

    def issue(step: Any) -> None:
        for i in range(steps):
            refs = {"dst": tile[step % stages, i, k.t * 4], "src": x[step * steps + i, column]}
            k.call("cp.async.16", refs, when=both(step * steps + i < m, column < n))
        k.commit()

    for e in range(4):
        k.store(acc[e], 0.0)
    with k.loop("s", 0, stages - 1, unroll="full") as s:
        issue(s.var)
    with k.loop("r", 0, rounds) as r:
        k.wait(pending=stages - 2)
        k.sync()
        issue(r.var + stages - 1)
        for i in range(steps):
            k.load(a[0], tile[r.var % stages, i, k.t * 4], width=4)
            for e in range(4):
                k.store(acc[e], acc[e] + a[e])
    k.wait(pending=0)
    with k.when(column < n):
        k.store(out[column], *(acc[e] for e in range(4)))
    return k.finish(grid=(cdiv(n, 256),))


def written(folder: str, name: str, kernel: KernelDescriptor) -> str:
    """The path of the kernel's file."""
    file = Path(folder, f"{name.replace(' ', '-')}.amk.json")
    file.write_text(kernel.to_json())
    return str(file)


# --------------------------------------------------------------------------------------------------------------- timing
def times(files: dict[str, str], runs: int) -> dict[str, list[Row]]:
    """Each file and a bare interpreter in turn, `runs` times."""
    commands = {FLOOR: ["-c", ""], **{name: ["-m", "amk", "check", file] for name, file in files.items()}}
    for words in commands.values():
        one(words)
    out: dict[str, list[Row]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, words in commands.items():
            out[name].append(one(words))
    return out


def one(words: list[str]) -> Row:
    """One process that ends with exit code 0."""
    nowhere = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    start = time.perf_counter()
    pid = os.posix_spawn(sys.executable, [sys.executable, *words], environment(), file_actions=nowhere)
    _, status, used = os.wait4(pid, 0)
    wall = time.perf_counter() - start
    if status:
        raise SystemExit(f"{' '.join(words)} ended with exit code {os.waitstatus_to_exitcode(status)}")
    return wall, used.ru_utime + used.ru_stime


def said(program: str, file: str) -> str:
    """What a program in a new process prints about a file."""
    words = [sys.executable, "-c", program, file]
    return subprocess.run(words, env=environment(), capture_output=True, check=True, text=True).stdout


def environment() -> dict[str, str]:
    """The environment of an installed package, whose bytecode is kept."""
    return {n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"}


def growth(folder: str, runs: int) -> list[dict[str, Any]]:
    """Stages, steps, statements and the least processor seconds of each ring."""
    made = {(a, b): ring(a, b) for a in STAGES for b in STEPS}
    files = {at: written(folder, f"ring-{at[0]}-{at[1]}", k) for at, k in made.items()}
    best = dict.fromkeys(made, float("inf"))
    for _ in range(runs):
        for at, file in files.items():
            best[at] = min(best[at], float(said(_TIMED, file)))
    return [
        {"stages": a, "steps": b, "statements": sum(1 for _ in walk(k.body)), "seconds": round(best[a, b], 4)}
        for (a, b), k in made.items()
    ]


def slope(points: Iterable[tuple[float, float]]) -> float:
    """The exponent e of y = c x^e by least squares of the logarithms."""
    xs, ys = zip(*((log(x), log(y)) for x, y in points), strict=True)
    x0, y0 = statistics.fmean(xs), statistics.fmean(ys)
    return sum((x - x0) * (y - y0) for x, y in zip(xs, ys, strict=True)) / sum((x - x0) ** 2 for x in xs)


# --------------------------------------------------------------------------------------------------------------- report
def shown(name: str, row: list[Row], calls: int | None) -> str:
    """A line of the table, in milliseconds."""
    wall, cpu = (sorted(x[i] * 1e3 for x in row) for i in (0, 1))
    goal = next((g for n, g in reversed(GOALS.items()) if name.startswith(n)), None)
    want = "" if goal is None else f"  goal {goal[0]}" + (f", p95 {goal[1]}" if goal[1] else "")
    counted = "" if calls is None else f"  {calls:>9,} calls"
    return (
        f"{name:<14} wall median {statistics.median(wall):5.0f} p95 {wall[p95(wall)]:5.0f}"
        f"  cpu least {cpu[0]:5.0f} median {statistics.median(cpu):5.0f} p95 {cpu[p95(cpu)]:5.0f}{counted}{want}"
    )


def p95(values: list[float]) -> int:
    """The place of the 95th percentile among sorted values."""
    return min(len(values) - 1, -(-95 * len(values) // 100) - 1)


def facts(
    args: argparse.Namespace, rows: dict[str, list[Row]], calls: dict[str, int], points: list[dict[str, Any]],
    exponent: float | None,
) -> dict[str, Any]:  # fmt: skip
    """Everything measured, and where."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, check=True, text=True).stdout.strip()
    return {
        "command": "python " + " ".join(sys.argv), "commit": commit, "host": args.host, "cpu": processor(),
        "cpus": len(os.sched_getaffinity(0)), "load": [round(x, 2) for x in os.getloadavg()],
        "python": platform.python_version(), "machine": platform.platform(), "goals": GOALS, "calls": calls,
        "wall_milliseconds": {n: [round(x[0] * 1e3, 1) for x in row] for n, row in rows.items()},
        "cpu_milliseconds": {n: [round(x[1] * 1e3, 1) for x in row] for n, row in rows.items()},
        "growth": {"exponent": exponent and round(exponent, 3), "points": points},
    }  # fmt: skip


def processor() -> str:
    """The name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((x.partition(":")[2].strip() for x in lines if x.startswith("model name")), platform.processor())


if __name__ == "__main__":
    main()
