"""Mutants under compute-sanitizer: does a tool that watches a device see what the interpreter and the checker see?

    python benchmarks/sanitizer_mutants.py --build FOLDER     draws, judges, prints and compiles mutants; needs no GPU
    python benchmarks/sanitizer_mutants.py --measure FOLDER... --out benchmarks/results/sanitizer-mutants.json

Half of those for racecheck race in shared memory in a run of the interpreter, half of those for memcheck leave an
array; the others are right. What may wait for ever (divergent barriers, deadlocks, waits for another block) and
what the interpreter does not run to its end is never launched. racecheck gets many mutants a process, memcheck one,
since a fault ends the context. `--launch` is the process that the tools watch; it needs neither prover nor torch.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from amk.dsl.kernel import KernelDescriptor

ROOT = Path(__file__).parent.parent
TOOLS = ("racecheck", "memcheck")
BATCH = 20  # mutants a process, under racecheck
HERE = "python benchmarks/sanitizer_mutants.py"


# ------------------------------------------------------------------------------------------------------------- building
def subjects() -> list[tuple[KernelDescriptor, dict[str, int]]]:
    """Right kernels, with the sizes at which their mutants run."""
    sys.path[:0] = [str(ROOT / "tests" / "harness")]
    import kernels
    import talking

    return [
        (kernels.vector_add(), {"n": 600}),
        (kernels.grid_stride(), {"n": 5000}),
        (kernels.transpose(), {"m": 70, "n": 45}),
        (kernels.transpose("swizzle"), {"m": 64, "n": 33}),
        (kernels.block_reduce(), {"n": 700}),
        (kernels.gemm_staged(), {"m": 33, "n": 40, "k": 20}),
        (talking.histogram(), {"n": 500}),
        (talking.block_sums(), {"n": 7}),
    ]


def build(folder: Path, seed: int, races: int, bounds: int) -> None:
    """Draws mutants until there are enough of each group, and writes what a launch needs."""
    from amk.harness.mutations import mutate
    from amk.synth.compile import compile_cubin
    from amk.synth.render import text_of

    folder.mkdir(parents=True, exist_ok=True)
    rng, known = Random(seed), subjects()
    wanted = {"race": races // 2, "right race": races // 2, "bounds": bounds // 2, "right bounds": bounds // 2}
    rows: list[dict[str, Any]] = []
    seen: set[str] = set()
    while any(wanted.values()):
        original, sizes = rng.choice(known)
        try:
            mutant, said = mutate(original, rng)
        except ValueError:
            continue
        if mutant.hash in seen:
            continue
        seen.add(mutant.hash)
        row = judged(mutant, sizes, {g.split()[0] for g in wanted if wanted[g]})
        group = row and next((g for g in wanted if wanted[g] and row["group"] == g.split()[0]), None)
        if row is None or group is None:
            continue
        number = len(rows)
        named = mutant.replaced(name=f"m{number:03d}_{original.name}", origin=None)
        try:
            made = compile_cubin(text_of(named), "sm_90a", name=named.name)
        except Exception as fault:  # what the printer or the compiler refuses is no mutant to launch
            print(f"left out: {said}: {fault}", file=sys.stderr)
            continue
        wanted[group] -= 1
        tool = "racecheck" if "race" in group else "memcheck"
        (folder / f"{number:03d}.cubin").write_bytes(made.cubin)
        (folder / f"{number:03d}.json").write_text(named.to_json())
        rows.append(
            {"number": number, "tool": tool, "kernel": original.name, "mutation": said, "hash": mutant.hash, **row}
        )
        (folder / "manifest.json").write_text(json.dumps({"seed": seed, "drawn": len(seen), "mutants": rows}, indent=1))
        print(number, tool, row["interpreter"], row["checker"], said, sep="\t", flush=True)


def judged(kernel: KernelDescriptor, wanted: dict[str, int], groups: set[str]) -> dict[str, Any] | None:
    """The group of a mutant and both verdicts; None for one that is not launched, or of no group that is wanted."""
    from amk.errors import AmkError
    from amk.harness.check import check
    from amk.harness.interp_args import complete

    try:
        sizes = complete(kernel, {n: v for n, v in wanted.items() if n in {p.name for p in kernel.scalars}})
        if groups == {"bounds"} and not fault_of(kernel, sizes, "bounds"):
            return None
        report = check(kernel, "h200", replay=False)
    except (AmkError, ValueError, ZeroDivisionError, OverflowError, KeyError):
        return None
    codes = sorted({d.code for d in report.errors})
    if {"AMK302", "AMK305", "AMK307", "AMK315"} & set(codes) or any(c < "AMK100" for c in codes):
        return None
    faults = {kind: fault_of(kernel, sizes, kind) for kind in ("bounds", "race", "")}
    if any(f == "unknown" for f in faults.values()):
        return None
    first = faults["bounds"] or faults["race"] or faults[""]
    shared = {b.name for b in kernel.buffers if b.space == "shared"}
    if faults["bounds"]:
        group = "bounds"
    elif faults["race"] and faults["race"].split(":")[1].split(",")[0].strip() in shared:
        group = "race"
    elif not first and report.ok:
        group = "right"
    else:
        return None
    row = {
        "group": group,
        "interpreter": first or "right",
        "checker": codes,
        "sizes": {n: int(v) for n, v in sizes.items()},
    }
    return row | ({"inside": stays_inside(kernel, sizes)} if group == "bounds" else {})


def fault_of(kernel: KernelDescriptor, sizes: dict[str, Any], kind: str) -> str:
    """The first fault of a kind ("" for any) in three runs, as `kind: message`; "" for none."""
    from amk.errors import AmkError
    from amk.harness.interpret import Fault, arguments, run

    watch = frozenset((kind,)) if kind else None
    for seed in (None, 1, 2):
        try:
            run(kernel, arguments(kernel, sizes), detect=True, seed=seed, max_lane_ops=20_000_000, watch=watch)
        except Fault as fault:
            return f"{fault.kind}: {fault.message}" if not kind or fault.kind == kind else "unknown"
        except (AmkError, ValueError, ZeroDivisionError, OverflowError, IndexError, KeyError):
            return "unknown"
    return ""


def stays_inside(kernel: KernelDescriptor, sizes: dict[str, Any]) -> bool:
    """Whether an index outside its dimension is an address inside what was allocated: no tool that watches addresses
    can see that one."""
    from amk.harness.interpret import Fault, arguments, run

    args = arguments(kernel, sizes)
    try:
        run(kernel, args, detect=True, watch=frozenset(("bounds",)))
    except Fault as fault:
        name = kernel.resolve(_operand(str(fault.values.get("operand", "")))).buffer
        d = kernel.declarations.get(name)
        space = kernel.space(_operand(f"{name}[0]"))
        dimension = int(fault.values.get("dimension", 0))  # type: ignore[call-overload]
        rank = len(getattr(d, "shape", ()) or ())
        return (
            space == "register"
            or (space == "global" and dimension == rank - 1 > 0)
            or (space == "shared" and len([b for b in kernel.buffers if b.space == "shared"]) > 1)
        )
    return False


def _operand(text: str) -> Any:
    from amk.dsl.expr import Elem
    from amk.dsl.text import parse

    found = parse(text)
    assert isinstance(found, Elem)
    return found


# ------------------------------------------------------------------------------------------------------------ launching
def launch(folder: Path, numbers: list[int]) -> None:
    """Runs some mutants, one after another."""
    from amk.harness.interp_args import arguments
    from amk.runtime.build import Binary
    from amk.runtime.device import driver, ensure_context
    from amk.runtime.kernel import CompiledKernel
    from amk.runtime.place import target_of

    rows = {r["number"]: r for r in json.loads((folder / "manifest.json").read_text())["mutants"]}
    for n in numbers:
        kernel = KernelDescriptor.from_json((folder / f"{n:03d}.json").read_text())
        f = CompiledKernel(kernel, target_of(0), 0)
        code, target = (folder / f"{n:03d}.cubin").read_bytes(), target_of(0)
        f._binary = Binary(kernel, target, code, "", "", "{}", 32, 0, kernel.shared_bytes, False)
        sizes = rows[n]["sizes"]
        args = arguments(kernel, sizes)
        print("mutant", n, flush=True)
        f(**{p.name: args[p.name] for p in kernel.params})
        with ensure_context(0):
            driver().synchronize()
        print("ended", n, flush=True)


# ------------------------------------------------------------------------------------------------------------ measuring
def measure(folders: list[Path], out: Path) -> None:
    """Runs every mutant under its tool and writes the table."""
    rows = [{"draw": f.name, **r} for f in folders for r in json.loads((f / "manifest.json").read_text())["mutants"]]
    jobs: list[tuple[Path, str, list[int]]] = []
    for f in folders:
        race, memory = ([r["number"] for r in rows if (r["draw"], r["tool"]) == (f.name, t)] for t in TOOLS)
        jobs += [(f, "racecheck", race[i : i + BATCH]) for i in range(0, len(race), BATCH)]
        jobs += [(f, "memcheck", [n]) for n in memory]
    with ThreadPoolExecutor(6) as pool:
        texts = list(pool.map(lambda job: watched(*job), jobs))
    started, said = set(), {(r["draw"], r["number"]): list[str]() for r in rows}
    for (f, _, numbers), text in zip(jobs, texts, strict=True):
        started |= {(f.name, int(n)) for n in re.findall(r"^mutant (\d+)$", text, re.M)}
        for n, line in told(numbers, text):
            said[f.name, n].append(line)
    for r in rows:
        key = r["draw"], r["number"]
        r |= {"launched": key in started, "tool says": said[key][:2]}
        r["agree"] = bool(r["tool says"]) == (r["group"] != "right")
    agreed = {t: {"agree": sum(r["agree"] for r in rows if r["tool"] == t)} for t in TOOLS}
    for t in TOOLS:
        agreed[t]["of"] = sum(r["tool"] == t for r in rows)
    facts = {"command": "python " + " ".join(sys.argv), "commit": os.environ.get("COMMIT", ""), "device": gpu()}
    out.write_text(json.dumps({**facts, "agreed": agreed, "mutants": rows}, indent=1) + "\n")
    print(agreed, "not launched:", [(r["draw"], r["number"]) for r in rows if not r["launched"]])
    for r in rows:
        if not r["agree"]:
            print(r["draw"], r["number"], r["tool"], r["group"], r.get("inside", ""), r["interpreter"][:90], sep=" | ")


def watched(folder: Path, tool: str, numbers: list[int]) -> str:
    """What a tool prints about one process."""
    me = [sys.executable, __file__, "--launch", str(folder), *map(str, numbers)]
    command = ["compute-sanitizer", "--tool", tool, "--print-limit", "2000", *me]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired as e:
        return (e.stdout or b"").decode() + "\ntimed out"
    return done.stdout + done.stderr


def told(numbers: list[int], text: str) -> Iterator[tuple[int, str]]:
    """The findings of a tool, each with the mutant whose kernel it names."""
    for block in re.split(r"\n=+ *\n", text):
        head = re.search(
            r"((?:Error|Warning): Race reported.*|Invalid __\w+__ .*|.*out of bounds.*|.*[Mm]isaligned.*)", block
        )
        if head is None:
            continue
        name = re.search(r"\bm(\d{3})_", block)
        n = int(name[1]) if name else numbers[0] if len(numbers) == 1 else -1
        if n in numbers:
            yield n, head[1].strip()[:160]


def gpu() -> str:
    found = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,clocks.mem", "--format=csv,noheader"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return found.stdout.strip()


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=Path)
    p.add_argument("--measure", type=Path, nargs="+")
    p.add_argument("--races", type=int, default=80, help="mutants for racecheck")
    p.add_argument("--bounds", type=int, default=40, help="mutants for memcheck")
    p.add_argument("--launch", nargs="+")
    p.add_argument("--out", type=Path, default=Path("sanitizer-mutants.json"))
    p.add_argument("--seed", type=int, default=1)
    given = p.parse_args()
    if given.launch:
        launch(Path(given.launch[0]), [int(n) for n in given.launch[1:]])
    elif given.build:
        build(given.build, given.seed, given.races, given.bounds)
    elif given.measure:
        measure(given.measure, given.out)
    else:
        p.error("say --build, --measure or --launch")


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
