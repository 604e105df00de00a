"""Whether the model of sectors and passes counts as the hardware does: small kernels, predicted and counted by ncu.

    python benchmarks/bank_conflicts.py --predict              what is expected of each kernel
    python benchmarks/bank_conflicts.py --build build/probes   certifies, prints and compiles them; needs no GPU
    python benchmarks/bank_conflicts.py --measure build/probes --out benchmarks/results/bank-conflicts.json

`--measure` needs a GPU of the architecture that was built for, and ncu, but neither prover nor compiler. ncu wraps one
process that launches every kernel once through amk's launcher and compares its output with the CPU executor's; a first
run of a few kernels tells which counters there are and how long one kernel takes, and `--limit` seconds hold for both.
`--join CSV` compares what `ncu --csv` printed elsewhere. The result sets the counters beside what
`amk.harness.traffic` enumerates, under each variant of the rule for banks, with the share of kernels within 2 %.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bank_probes import Probe, probes

from amk.dsl.target import Target
from amk.dsl.traffic import BankRule
from amk.harness.traffic import Traffic, traffic

NEAR, FIRST = 0.02, 5  # what counts as agreement; kernels of the first run
RULES = {
    "whole warps of pairs together in loads": BankRule(),
    "pairs together in loads": BankRule(whole=False),
    "pairs together": BankRule(whole=False, stores=True),
    "pairs apart": BankRule(pairs=False),
}


class Metric(NamedTuple):
    """What a counter counts: which kinds of access, and which figure of them; whether agreement is judged by it."""

    kinds: tuple[str, ...]
    what: str
    judged: bool = True


# Wavefronts are what the data stage of L1 really did for shared memory, conflicts and all, and sectors are what its tag
# stage looked up, hit or not: both are hardware counters of exactly the two figures that the model gives, and need no
# patched code. Shown beside them: conflicts, which count what other traffic delays as well; and instructions and
# requests, which say that the binary has the accesses that were predicted.
METRICS = {
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": Metric(("shared_ld", "matrix_ld"), "passes"),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": Metric(("shared_st", "matrix_st"), "passes"),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": Metric(("global_ld",), "sectors"),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": Metric(("global_st",), "sectors"),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": Metric(("shared_ld", "matrix_ld"), "conflicts", False),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": Metric(("shared_st", "matrix_st"), "conflicts", False),
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": Metric(("global_ld",), "requests", False),
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": Metric(("global_st",), "requests", False),
    "smsp__inst_executed_op_shared_ld.sum": Metric(("shared_ld",), "requests", False),
    "smsp__inst_executed_op_shared_st.sum": Metric(("shared_st", "matrix_st"), "requests", False),
    "smsp__inst_executed_op_ldsm.sum": Metric(("matrix_ld",), "requests", False),
}
Rows = list[dict[str, Any]]


def main() -> None:
    """One of the steps."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    step = parser.add_mutually_exclusive_group(required=True)
    step.add_argument("--predict", "--dry-run", action="store_true", help="print what is expected of each kernel")
    step.add_argument("--build", type=Path, metavar="DIR", help="write binaries and expected outputs")
    step.add_argument("--measure", type=Path, metavar="DIR", help="run them under ncu and compare")
    step.add_argument("--run", type=Path, metavar="DIR", help="run them once, as ncu is made to")
    step.add_argument("--join", type=Path, metavar="CSV", help="compare the output of ncu --csv")
    parser.add_argument("--target", default="h200", help="of --build")
    parser.add_argument("--limit", type=float, default=80, help="seconds that all of --measure may take")
    parser.add_argument("--ncu", default="ncu", help="the profiler of --measure")
    parser.add_argument("--only", default="", help="of --run: names, separated by commas")
    parser.add_argument("--out", type=Path, help="of --measure and --join: the result as JSON")
    args = parser.parse_args()
    if args.predict:
        print(table(probes()))
    elif args.build:
        build(args.build, Target.find(args.target))
    elif args.run:
        run(args.run, [x for x in args.only.split(",") if x])
    else:
        text, facts = measure(args.measure, args.ncu, args.limit) if args.measure else (args.join.read_text(), {})
        found = joined(text)
        show(found)
        if args.out:
            args.out.write_text(written(found, facts), "utf-8")


# ------------------------------------------------------------------------------------------------------------- predict
def expected(found: list[Traffic], m: Metric) -> int:
    """What a counter should show of a launch."""
    mine = [x for x in found if x.kind in m.kinds]
    return sum(max(0, x.passes - x.least) if m.what == "conflicts" else getattr(x, m.what) for x in mine)


def table(made: list[Probe]) -> str:
    """A line for each kernel: passes of shared memory and sectors of global memory, where it has such accesses."""
    shown = [m for m in METRICS.values() if m.judged]
    names = [f"{m.kinds[0].replace('_', ' ')} {m.what}" for m in shown]
    lines = [f"{'kernel':<28}" + "".join(f"{n:>18}" for n in names)]
    for p in made:
        cells, found = [], [traffic(p.kernel, rule=rule) for rule in RULES.values()]
        for m in shown:
            each = {expected(x, m) for x in found}
            cells.append(" or ".join(map(str, sorted(each))) if any(each) else "")
        lines.append(f"{p.name:<28}" + "".join(f"{c:>18}" for c in cells))
    return "\n".join(
        [*lines, f"{len(made)} kernels; two numbers where variants of the rule differ: {', '.join(RULES)}"]
    )


# --------------------------------------------------------------------------------------------------------------- build
def build(folder: Path, target: Target) -> None:
    """Binaries of certified kernels, their outputs by the CPU executor, and a manifest with the hash of each kernel."""
    from amk.runtime.build import binary_of
    from amk.synth.compile import toolkit_version

    folder.mkdir(parents=True, exist_ok=True)
    kernels, outputs = {}, {}
    for p in probes():
        made = binary_of(p.kernel, target)
        (folder / f"{p.name}.cubin").write_bytes(made.cubin)
        kernels[p.name] = {"hash": p.kernel.hash, "registers": made.registers}
        outputs[p.name] = launched(p, None, target)
    np.savez(folder / "outputs.npz", **outputs)
    facts = {"target": target.name, "toolkit": toolkit_version(), "commit": commit(), "kernels": kernels}
    (folder / "manifest.json").write_text(json.dumps(facts, indent=1) + "\n")
    print(f"{len(kernels)} kernels for {target.name} in {folder}")


def manifest(folder: Path) -> dict[str, Any]:
    """What was built there; SystemExit where it is nothing, or other kernels than these."""
    try:
        facts: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    except (OSError, ValueError):
        raise SystemExit(f"{folder} holds no built kernels: run --build {folder} first") from None
    if {n: k["hash"] for n, k in facts["kernels"].items()} != {p.name: p.kernel.hash for p in probes()}:
        raise SystemExit(f"{folder} holds other kernels than these: run --build {folder} again")
    return facts


# ----------------------------------------------------------------------------------------------------------------- run
def run(folder: Path, only: list[str]) -> None:
    """Launches each kernel once on GPU 0, and holds its output against the expected one. Prints name and seconds."""
    target, want = Target.find(manifest(folder)["target"]), np.load(folder / "outputs.npz")
    for p in probes():
        if only and p.name not in only:
            continue
        start = time.perf_counter()
        got = launched(p, (folder / f"{p.name}.cubin").read_bytes(), target)
        if not (got == want[p.name]).all():
            raise SystemExit(f"{p.name} computed something else than the CPU executor")
        print(f"ran {p.name} {time.perf_counter() - start:.3f}", flush=True)


def launched(p: Probe, cubin: bytes | None, target: Target) -> Any:
    """The output of one launch of a binary on GPU 0, or of the CPU executor."""
    from amk.runtime.build import Binary
    from amk.runtime.kernel import CompiledKernel, bind, execute_on_cpu

    z = np.full(p.output, 7, {"f16": np.float16, "u32": np.uint32}.get(p.dtype, np.int32))
    if cubin is None:
        execute_on_cpu(p.kernel, *bind(p.kernel, {**p.inputs, "z": z}))
        return z
    made = CompiledKernel(p.kernel, target, 0)
    made._binary = Binary(p.kernel, target, cubin, "", "", "", 0, 0, p.kernel.shared_bytes, hit=False)
    made(**p.inputs, z=z)
    return z


# ------------------------------------------------------------------------------------------------------------- measure
def measure(folder: Path, ncu: str, limit: float) -> tuple[str, dict[str, Any]]:
    """The CSV of ncu over all kernels, or over as many as the time is enough for; and facts of the run."""
    start, built = time.monotonic(), manifest(folder)
    names, metrics = [p.name for p in probes()], list(METRICS)
    if shutil.which(ncu) is None:
        raise SystemExit(f"{ncu} is not there: install Nsight Compute, or name it with --ncu")
    few = spread(names, FIRST)
    _, said, metrics = profiled(folder, ncu, few, metrics, start + limit)
    # the first kernel also pays for the start of CUDA and of the profiler
    each = max(0.001, *map(float, re.findall(r"^ran \S+ ([\d.]+)$", said, re.M)[1:]))
    left = start + limit - time.monotonic()
    chosen = spread(names, max(FIRST, int(0.8 * left / each)))
    text, said, metrics = profiled(folder, ncu, chosen, metrics, start + limit)
    query = ("nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,clocks.mem", "--format=csv,noheader")
    facts = {
        "device": _output(*query), "ncu": _output(ncu, "--version").split("\n")[-1],
        "python": platform.python_version(), "toolkit": built["toolkit"], "target": built["target"],
        "seconds": round(time.monotonic() - start, 1), "metrics": metrics,
    }  # fmt: skip
    return text, facts


def spread(names: list[str], n: int) -> list[str]:
    """At most `n` of the names, evenly."""
    return names if n >= len(names) else [names[i * len(names) // n] for i in range(n)]


def profiled(
    folder: Path, ncu: str, names: list[str], metrics: list[str], deadline: float
) -> tuple[str, str, list[str]]:  # fmt: skip
    """The CSV, what the process printed, and the counters that this ncu has; those it lacks are left out."""
    while True:
        rc, text, said = _under_ncu(folder, ncu, names, metrics, deadline)
        if rc == 0 and '"ID"' in text:
            return text, said, metrics
        errors = [line for line in (text + "\n" + said).splitlines() if "==ERROR==" in line]
        lacking = [m for m in metrics if not METRICS[m].judged and any(m.removesuffix(".sum") in e for e in errors)]
        if not lacking:
            raise SystemExit(f"ncu ended with {rc}:\n" + "\n".join((errors or (text + said).splitlines())[-8:]))
        print("this ncu has no " + ", ".join(lacking), file=sys.stderr)
        metrics = [m for m in metrics if m not in lacking]


def _under_ncu(folder: Path, ncu: str, names: list[str], metrics: list[str], deadline: float) -> tuple[int, str, str]:
    """One run. Clocks stay as they are: counts do not depend on them. Past the deadline all its processes are ended."""
    with tempfile.TemporaryDirectory() as place:
        log = Path(place) / "ncu.csv"
        command = [
            ncu, "--csv", "--log-file", str(log), "--print-units", "base", "--clock-control", "none", "--cache-control",
            "none", "--metrics", ",".join(metrics),
            sys.executable, __file__, "--run", str(folder), "--only", ",".join(names),
        ]  # fmt: skip
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        try:
            said, _ = process.communicate(timeout=max(1.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise SystemExit(
                f"ncu took too long over {len(names)} kernels and was ended: give a higher --limit"
            ) from None
        return process.returncode, log.read_text() if log.exists() else "", said


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


# ---------------------------------------------------------------------------------------------------------------- join
def joined(text: str) -> dict[str, Rows]:
    """For each variant of the rule: kernel, counter, what was predicted, what was counted (None: nothing), and the
    difference; of the kernels that were counted at all."""
    counted = counters(text)
    out: dict[str, Rows] = {variant: [] for variant in RULES}
    for p in (p for p in probes() if p.name in counted):
        for variant, rule in RULES.items():
            found = traffic(p.kernel, rule=rule)
            for name, m in METRICS.items():
                want, got = expected(found, m), counted[p.name].get(name)
                if (got is None and (not m.judged or not want)) or (not want and not got):
                    continue
                off = 1.0 if got is None else abs(got - want) / max(want, got)
                out[variant].append(
                    {"kernel": p.name, "kinds": "+".join(m.kinds), "what": m.what, "judged": m.judged,
                     "predicted": want, "counted": got, "off": round(off, 4)}
                )  # fmt: skip
    return out


def counters(text: str) -> dict[str, dict[str, float]]:
    """Values by kernel and metric of ncu's CSV, one metric a line or one a column; other lines are skipped."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise SystemExit('no line begins with "ID": this is not what ncu --csv prints')
    out: dict[str, dict[str, float]] = {}
    for row in csv.DictReader(line for line in lines[start:] if line.startswith('"')):
        name = (row.get("Kernel Name") or "").split("(")[0].strip()
        named = {row["Metric Name"]: row["Metric Value"]} if "Metric Name" in row else row
        read = {m: float(v.replace(",", "")) for m, v in named.items() if m in METRICS and _number(v)}
        if name and read:
            out.setdefault(name, {}).update(read)
    return out


def _number(text: str | None) -> bool:
    return bool(text) and text.replace(",", "").replace(".", "", 1).isdigit()  # type: ignore[union-attr]


def judged(rows: Rows) -> tuple[int, int]:
    """Kernels whose passes and sectors all lie within 2 %, and kernels that were counted."""
    of: dict[str, list[bool]] = {}
    for r in rows:
        if r["judged"]:
            of.setdefault(r["kernel"], []).append(r["off"] <= NEAR)
    return sum(map(all, of.values())), len(of)


def show(found: dict[str, Rows]) -> None:
    """The share of each variant, and every difference."""
    for variant, rows in found.items():
        near, kernels = judged(rows)
        print(f"{variant}: {near} of {kernels} kernels within {NEAR:.0%}")
        for r in rows:
            if r["off"] > NEAR:
                note = "" if r["judged"] else "  (not judged)"
                counted = "not" if r["counted"] is None else f"{r['counted']:g}"
                print(
                    f"  {r['kernel']:<28} {r['kinds']} {r['what']}: {r['predicted']} predicted, {counted} counted{note}"
                )


def written(found: dict[str, Rows], facts: dict[str, Any]) -> str:
    """The results file: facts, then a row a line. Variants that predict the same of a kernel share their rows."""
    command = ["python", "benchmarks/bank_conflicts.py", *("…" if Path(x).is_absolute() else x for x in sys.argv[1:])]
    head: dict[str, Any] = {"command": " ".join(command), "commit": commit(), **facts, "within": NEAR}
    head["variants"] = {v: dict(zip(("near", "kernels"), judged(rows), strict=True)) for v, rows in found.items()}
    said: dict[str, list[str]] = {}
    for variant, rows in found.items():
        for r in rows:
            said.setdefault(json.dumps(r), []).append(variant)
    lines = [json.dumps({**json.loads(r), "variants": v}) if len(v) < len(found) else r for r, v in said.items()]
    facts_text = json.dumps(head, indent=1, ensure_ascii=False)[:-2]
    return facts_text + ',\n "rows": [\n  ' + ",\n  ".join(sorted(lines)) + "\n ]\n}\n"


def commit() -> str:
    """The commit that COMMIT names, else that of this checkout; with `+` where files differ from it."""
    folder = str(Path(__file__).parent)
    return os.environ.get("COMMIT") or _output("git", "-C", folder, "describe", "--always", "--dirty=+", "--abbrev=40")


if __name__ == "__main__":
    main()
