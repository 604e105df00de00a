"""`amk demo`: the whole flow on this machine, in under a minute and without a GPU; its files stay in amk-demo/."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from amk.cli.output import paint, report_fault, say, say_json, table
from amk.dsl.kernel import KernelDescriptor

__all__ = ["add_demo", "without_sync"]

TARGETS = ("sm_80", "sm_90a", "sm_120")
SIZE = 512  # of the GEMM that is checked and compiled
RUN = 96  # of the one that the CPU executor runs


def add_demo(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """The options of `amk demo`."""
    parser.add_argument("--folder", type=Path, default=Path("amk-demo"), help="where its files go (default amk-demo)")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=run_demo)


def run_demo(args: Namespace) -> int:
    """Four steps; a step that fails is shown, the others still run, and the worst code comes back."""
    from amk.cli.check import worst

    facts: dict[str, Any] = {}
    code = 0
    for number, (title, step) in enumerate(_STEPS, 1):
        start = time.perf_counter()
        if not args.json:
            say(paint(f"{number}. {title}", "bold"))
        text, found, facts[step.__name__.lstrip("_")] = _guarded(step, args.folder)
        code = worst((code, found))
        if not args.json:
            say("\n".join("   " + line for line in text.splitlines()))
            say(f"   ({time.perf_counter() - start:.1f} s)\n")
    if args.json:
        say_json({"exit_code": code, "folder": str(args.folder), **facts})
    else:
        say(_NEXT.format(folder=args.folder))
    return code


def _guarded(step: Callable[[Path], tuple[str, int, Any]], folder: Path) -> tuple[str, int, Any]:
    from amk.errors import AmkError

    try:
        return step(folder)
    except AmkError as fault:
        text = f"{paint('failed', 'red')}: {fault.message}" + (f"\n  try: {fault.hint}" if fault.hint else "")
        return text, fault.exit_code, {"error": fault.message, "hint": fault.hint}
    except Exception as fault:  # a step that breaks must not hide the steps after it
        return paint("failed, by a fault of amk", "red"), report_fault(fault), {"error": repr(fault)}


# --------------------------------------------------------------------------------------------------------------- steps
def _doctor(folder: Path) -> tuple[str, int, Any]:
    from amk.cli.doctor import examine

    found = {f.name: f for f in examine()}
    names = ("python", "gpu", "nvrtc", "z3", "cache")
    rows: list[tuple[str, str]] = []
    for name in names:
        rows.append((name, found[name].found))
        rows += [("", f"try: {found[name].install}")] if found[name].state == "lacking" else []
    return table(rows), 0, {n: found[n].found for n in names}


def _check(folder: Path) -> tuple[str, int, Any]:
    """The good kernel passes, and the one without a barrier does not: 1 if either goes the other way."""
    from amk.cli.check import check_documents
    from amk.cli.make import write_file
    from amk.cli.render_text import text

    _make_folder(folder)
    good, broken = folder / "gemm.amk.json", folder / "broken.amk.json"
    kernel = _gemm(TARGETS[1])
    write_file(str(good), kernel.to_json().encode())
    write_file(str(broken), without_sync(kernel).to_json().encode())
    first, second = check_documents([str(good), str(broken)], [None])
    shown = _first_only(text([second]))
    lines = f"{text([first])}\nthe same with its barrier taken out:\n\n{shown}"
    right = first.code == 0 and second.code == 1
    codes = sorted({d.code for d in second.report.diagnostics})
    return lines, 0 if right else max(first.code, 1), {"good": first.code, "broken": second.code, "found": codes}


def _make_folder(folder: Path) -> None:
    from amk.errors import EnvironmentProblem

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as e:
        why = e.strerror if isinstance(e, OSError) else str(e)
        raise EnvironmentProblem(f"cannot make the folder {folder}: {why}", hint="--folder OTHER") from None


def _first_only(shown: str) -> str:
    """The first finding and the last lines: one counterexample says enough."""
    findings = shown.split("\n\n")
    return shown if len(findings) <= 2 else f"{findings[0]}\n\n(and {len(findings) - 2} more)\n{findings[-1]}"


def without_sync(kernel: KernelDescriptor) -> KernelDescriptor:
    """The kernel with every block barrier taken out."""
    return kernel.model_copy(update={"body": _stripped(kernel.body), "name": "broken", "origin": None})


def _stripped(body: Sequence[Any]) -> tuple[Any, ...]:
    kept = (s for s in body if not (s.kind == "sync" and s.scope == "block"))
    return tuple(s.model_copy(update={"body": _stripped(s.body)}) if s.kind in ("for", "if") else s for s in kept)


def _compile(folder: Path) -> tuple[str, int, Any]:
    from amk.cli.make import build, built_table, write_file

    found = []
    for name in TARGETS:
        made = build(_gemm(name), None)
        write_file(str(folder / f"{name}.cubin"), made.cubin)
        write_file(str(folder / f"{name}.cu"), made.source.encode())
        found.append(made)
    seconds = sum(b.seconds for b in found)
    lines = f"{built_table(found)}\nproved, printed and compiled in {seconds:.1f} s; meaning: {found[0].meaning}"
    return lines, 0, [b.to_dict() for b in found]


def _run(folder: Path) -> tuple[str, int, Any]:
    from amk.cli.execute import run_operator
    from amk.ops.gemm import Gemm

    facts = run_operator("gemm", Gemm(m=RUN, n=RUN + 4, k=RUN + 8), device="cpu")
    say_right = paint("right", "green") if facts["right"] else paint("wrong", "red")
    lines = (
        f"{RUN} x {RUN + 4} x {RUN + 8} on the CPU executor by {facts['kernel']}: {say_right}, "
        f"error {facts['error'] or 0:.2g} against float64 (allowed {facts['tolerance']:.2g})"
    )
    return lines, 0 if facts["right"] else 1, facts


def _gemm(target: str) -> KernelDescriptor:
    """The rule agent's GEMM for a target, sizes left open."""
    from amk.api import proposed
    from amk.dsl.target import Target
    from amk.ops.gemm import Gemm

    return proposed(Gemm(m=SIZE, n=SIZE, k=SIZE), Target.find(target))


_STEPS: tuple[tuple[str, Callable[[Path], tuple[str, int, Any]]], ...] = (
    ("this machine", _doctor),
    ("check: a GEMM for every size, and the same with a fault", _check),
    ("synthesise: proved, printed and compiled, without a GPU", _compile),
    ("run, and compare", _run),
)

_NEXT = """Files are in {folder}/. Next:
  amk describe {folder}/gemm.amk.json
  amk new gemm --m 1024 --n 1024 --k 1024 --target h200 > mine.amk.json
  amk check mine.amk.json --certify
  amk compile mine.amk.json --target all"""
