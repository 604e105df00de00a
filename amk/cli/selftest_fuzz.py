"""`amk selftest fuzz`: inputs that nobody meant, in this process under a limit of memory, some through the command."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amk.cli.output import clean, paint, say, say_json
from amk.errors import InputError

if TYPE_CHECKING:
    from amk.harness.fuzz import Fuzzed

__all__ = ["run_fuzz"]

MOST_KEPT = 50
HANG_S = 10.0  # of a command, wall clock; it is asked again before it counts, since a machine may be busy
_FOUND = ("failed", "hung")


def run_fuzz(args: Namespace, first: int, end: int) -> int:
    """0, or 4 where an input led to anything but a sentence or a report."""
    if args.memory < 256:
        raise InputError("--memory is at least 256 MiB", hint="amk selftest fuzz --memory 2048")
    if args.commands < 0:
        raise InputError("--commands is not negative", hint="amk selftest fuzz --commands 20")
    start, was = time.perf_counter(), _limit_memory(args.memory << 20)
    try:
        found = _here(first, end, args.seconds)
    finally:
        _limit_memory(was)
    apart = list(_commands(first, end, args.commands))
    bad = [f for f in (*found["inputs"], *apart) if f.outcome in _FOUND]
    data = {
        "seeds": [first, end], "done": found["done"], "outcomes": found["outcomes"], "said": found["said"],
        "slowest": found["slowest"], "memory_mib": args.memory, "commands": len(apart),
        "command_codes": dict(Counter(f.said for f in apart)), "findings": [f._asdict() for f in bad[:MOST_KEPT]],
        "seconds": round(time.perf_counter() - start, 1), "exit_code": 4 if bad else 0,
    }  # fmt: skip
    if args.json:
        say_json(data)
    else:
        _show(data)
    return 4 if bad else 0


def _limit_memory(size: int | None) -> int | None:
    """Limits the address space of this process; the limit that there was. None where the system has no such limit."""
    try:
        import resource
    except ImportError:  # not POSIX
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if size is not None:
        resource.setrlimit(resource.RLIMIT_AS, (size if hard < 0 else min(size, hard), hard))
    return soft


def _here(first: int, end: int, seconds: float | None) -> dict[str, Any]:
    """All inputs in this process: counts, the slowest, and those that led to a fault."""
    from amk.harness.fuzz import taken

    start, outcomes, said = time.perf_counter(), Counter[str](), Counter[str]()
    inputs: list[Fuzzed] = []
    slowest = {"seed": first, "seconds": 0.0}
    for seed in range(first, end):
        if seconds is not None and time.perf_counter() - start > seconds:
            break
        f = taken(seed)
        outcomes[f.outcome] += 1
        if f.outcome in _FOUND:
            inputs.append(f)
        else:
            said[f"{f.outcome}: {f.said}"] += 1
        if f.seconds > slowest["seconds"]:
            slowest = {"seed": seed, "seconds": round(f.seconds, 3)}
    done = sum(outcomes.values())
    return {"done": done, "outcomes": dict(outcomes), "said": dict(said), "slowest": slowest, "inputs": inputs}


def _commands(first: int, end: int, count: int) -> Iterator[Fuzzed]:
    """Inputs at even distances through `amk check` as a process of its own."""
    from amk.harness.fuzz import Fuzzed, fuzzed

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "input.amk.json"
        for i in range(min(count, end - first)):
            seed = first + i * (end - first) // min(count, end - first)
            file.write_bytes(fuzzed(seed))
            start = time.perf_counter()
            outcome, said = _command(file)
            if outcome == "hung":
                outcome, said = _command(file)
            yield Fuzzed(seed, outcome, time.perf_counter() - start, said)


def _command(file: Path) -> tuple[str, str]:
    words = [sys.executable, "-m", "amk", "check", str(file)]
    try:
        done = subprocess.run(words, capture_output=True, timeout=HANG_S, check=False)
    except subprocess.TimeoutExpired:
        return "hung", f"longer than {HANG_S:g} s"
    said = done.stdout + done.stderr
    if done.returncode not in (0, 1, 2, 3) or b"Traceback" in said:
        return "failed", said[-500:].decode("utf-8", "replace")
    return "checked", f"exit code {done.returncode}"


def _show(data: dict[str, Any]) -> None:
    for f in data["findings"]:
        say(f"{paint(f['outcome'], 'red')} seed {f['seed']}: {clean(f['said'])}")
    counts = ", ".join(f"{n} {outcome}" for outcome, n in sorted(data["outcomes"].items()))
    slow, (first, end) = data["slowest"], data["seeds"]
    say(f"seeds {first}:{end}: {data['done']} inputs under {data['memory_mib']} MiB ({counts}), "
        f"{data['commands']} through the command; the slowest took {slow['seconds']} s (seed {slow['seed']}); "
        f"{data['seconds']} s")  # fmt: skip
