"""Every rule's page is complete, its bad example shows exactly its fault, and its good example shows none."""

from __future__ import annotations

import re

import pytest

from amk.harness.check import check
from amk.harness.rules import RULES

SECTIONS = ("Why:", "Proof:", "Bad:", "Good:", "Source:")


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_bad_shows_exactly_this_fault(rule):
    report = check(rule.bad())
    found = {d.code for d in report.errors} or {d.code for d in report.warnings}
    assert found == {rule.code}, [d.to_dict() for d in report.diagnostics]


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_good_shows_no_fault(rule):
    report = check(rule.good())
    assert report.ok, [d.to_dict() for d in report.diagnostics]
    assert rule.code not in {d.code for d in report.diagnostics}


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_page_is_complete(rule):
    page = rule.__doc__ or ""
    assert re.fullmatch(r"AMK\d{3}", rule.code) and rule.title
    assert all(s in page for s in SECTIONS), rule.code
    assert rule.__module__.rsplit(".", 1)[1].startswith(rule.code.lower())


def test_codes_are_unique_and_ordered():
    codes = [r.code for r in RULES]
    assert codes == sorted(set(codes))


def test_every_rule_file_is_registered():
    from pathlib import Path

    import amk.harness.rules as package

    files = {p.stem for p in Path(package.__path__[0]).glob("amk[0-9]*.py")}
    assert files == {r.__module__.rsplit(".", 1)[1] for r in RULES}
