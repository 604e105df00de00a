"""Prints the verdict of each case of some themes: `python tests/outside_cases/probe.py shared_races`."""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from outside_cases.case import CASES

from amk.harness.check import check
from amk.harness.diagnostics import Report


def told(report: Report) -> set[str]:
    """The codes of all that speaks against a kernel."""
    return {d.code for d in (*report.errors, *report.undecided)}


def main(themes: list[str]) -> None:
    """One line a case: whether the verdict is right, how long it took, what was found."""
    for theme in themes:
        importlib.import_module(f"outside_cases.{theme}")
    for c in CASES.values():
        start = time.perf_counter()
        report = check(c.make())
        found = told(report)
        good = report.ok if not c.codes else not report.ok and bool(found & set(c.codes))
        words = f"{c.name} wants {c.codes or 'ok'} got {sorted(found)}"
        print("  " if good else "XX", f"{time.perf_counter() - start:5.2f}s", words)
        if not good:
            for d in (*report.errors, *report.undecided):
                print("       ", d.code, d.severity, d.pointer, d.message[:220], d.counterexample)


if __name__ == "__main__":
    main(sys.argv[1:])
