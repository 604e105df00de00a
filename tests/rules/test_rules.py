"""Every rule's page is complete, its bad example shows exactly its fault, and its good example shows none."""

from __future__ import annotations

import re

import pytest

from amk.harness.check import check
from amk.harness.rules import RULES

SECTIONS = ("Why:", "Proof:", "Bad:", "Good:", "Source:")


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_bad_shows_exactly_this_fault(rule):
    report = check(rule.bad(), rule.device or None)
    found = {d.code for d in report.errors} or {d.code for d in report.warnings}
    assert found == {rule.code}, [d.to_dict() for d in report.diagnostics]


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_good_shows_no_fault(rule):
    report = check(rule.good(), rule.device or None)
    assert report.ok, [d.to_dict() for d in report.diagnostics]
    assert rule.code not in {d.code for d in report.diagnostics}


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_page_is_complete(rule):
    page = rule.__doc__ or ""
    assert re.fullmatch(r"AMK\d{3}", rule.code) and rule.title
    assert all(s in page for s in SECTIONS), rule.code
    assert rule.__module__.rsplit(".", 1)[1].startswith(rule.code.lower())


# Findings without values, and why there can be none: each is true of the descriptor as such, whatever is launched.
NO_COUNTEREXAMPLE = {
    "AMK002": "a name is not there for any size",
    "AMK003": "a name is taken for any size",
    "AMK004": "a type is wrong for any size",
    "AMK005": "the number of indices does not depend on sizes",
    "AMK006": "a constant of an instruction is out of range",
    "AMK007": "the target has not what the kernel asks for",
    "AMK008": "nothing here models the construct, so nothing can run it",
    "AMK009": "no sizes satisfy the domain",
    "AMK090": "a suppression is no statement",
    "AMK101": "the number of threads is a constant",
    "AMK103": "bytes of shared memory are a constant",
    "AMK104": "registers are counted from the text",
    "AMK105": "blocks that fit on an SM follow from constants",
    "AMK108": "budgets are constants",
    "AMK316": "the largest grid of the domain is what counts",
    "AMK404": "the declared access does not depend on sizes",
}


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_an_error_has_a_confirmed_counterexample_or_a_reason_why_there_is_none(rule):
    for d in check(rule.bad(), rule.device or None).errors:
        if rule.code in NO_COUNTEREXAMPLE:
            assert not d.counterexample, "remove it from the list"
        else:
            assert d.counterexample and d.confirmed, d


def test_codes_are_unique_and_ordered():
    codes = [r.code for r in RULES]
    assert codes == sorted(set(codes))


def test_every_rule_file_is_registered():
    from pathlib import Path

    import amk.harness.rules as package

    files = {p.stem for p in Path(package.__path__[0]).glob("amk[0-9]*.py")}
    assert files == {r.__module__.rsplit(".", 1)[1] for r in RULES}
