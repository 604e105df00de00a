"""Every outside case gets the verdict that it must get, and faults get the right kind."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from outside_cases.case import Case
from outside_cases.table import PAGE, cases, page

from amk.harness.check import check
from amk.harness.diagnostics import Report
from amk.harness.interpret import arguments, run

ALL = cases()
# Where the checker is known to be wrong: the case and why. An entry goes when the checker is mended (strict).
WRONG: dict[str, str] = {
    "modulo_by_size": "AMK008: the ordering check takes no remainder by a size in a shared index",
    "sum_started_always": "AMK207 takes no account of a condition on the thread that all threads meet",
}


@cache
def verdict(case: Case) -> Report:
    """The report of a case, on the target that its kernel is for."""
    return check(case.make())


def marked(listed: list[Case]) -> list[object]:
    """Cases as parameters, those of WRONG as strict expected failures."""

    def marks(c: Case) -> list[pytest.MarkDecorator]:
        return [pytest.mark.xfail(strict=True, reason=WRONG[c.name])] if c.name in WRONG else []

    return [pytest.param(c, id=c.name, marks=marks(c)) for c in listed]


def kinds(report: Report) -> set[str]:
    """What a refusal names: the errors, and what is undecided only where there is no error."""
    return {d.code for d in report.errors or report.undecided}


@pytest.mark.parametrize("case", marked([c for c in ALL if not c.faulty]))
def test_a_right_kernel_is_accepted(case: Case) -> None:
    report = verdict(case)
    assert report.ok and not report.undecided, [(d.code, d.message) for d in (*report.errors, *report.undecided)]


@pytest.mark.parametrize("case", marked([c for c in ALL if c.faulty]))
def test_a_faulty_kernel_is_refused(case: Case) -> None:
    report = verdict(case)
    assert not report.ok and (report.errors or report.undecided)


def test_the_kind_of_fault_is_right() -> None:
    """At least 95 in 100 refusals name one of the rules that a reader would expect."""
    refused = [c for c in ALL if c.faulty and not verdict(c).ok]
    off = [c.name for c in refused if not kinds(verdict(c)) & set(c.codes)]
    assert len(off) <= 0.05 * len(refused), off


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in ALL if c.sizes is not None and not c.faulty])
def test_a_right_kernel_runs_without_a_fault(case: Case) -> None:
    """The interpreter agrees: no race, nothing read before it is written, every output written."""
    kernel = case.make()
    run(kernel, arguments(kernel, case.sizes or {}), detect=True, coverage=True)


def test_there_are_as_many_as_promised() -> None:
    assert len(ALL) >= 120
    assert sum(c.faulty for c in ALL) >= 60 and sum(not c.faulty for c in ALL) >= 40
    assert sum(c.asynchronous for c in ALL) >= 30
    assert len(WRONG) <= 2, "what the checker gets wrong only becomes less"


def test_every_case_says_where_it_is_from() -> None:
    assert all(c.origin and c.idea and "|" not in c.origin + c.idea for c in ALL)
    assert len({c.make().hash for c in ALL}) == len(ALL), "two cases are one kernel"


def test_the_page_lists_them(update_golden: bool) -> None:
    text = page(ALL)
    if update_golden:
        PAGE.write_text(text)
    assert PAGE.read_text() == text, "run this test with --update-golden"
