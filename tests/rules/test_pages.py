"""The pages of the rules: their examples run, as descriptors and as builders, and say what is written there."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from amk.dsl.kernel import KernelDescriptor
from amk.harness import docs, samples
from amk.harness.check import check
from amk.harness.diagnostics import Report
from amk.harness.mend import applied
from amk.harness.mutations import mutate
from amk.harness.proposed import proposed
from amk.harness.rules import RULES

FOLDER = Path(__file__).parents[2] / "docs" / "rules"

# Where the fault of each bad example is, as a reader of the page would say it.
PLACES = {
    "AMK002": "/body/1/body/1", "AMK003": "/body/2", "AMK004": "/body/1/body/1", "AMK005": "/body/1/body/0",
    "AMK006": "/body/0", "AMK007": "/cluster", "AMK008": "/body/0", "AMK009": "/params/0", "AMK090": "/suppress/0",
    "AMK091": "/suppress/0", "AMK101": "/threads", "AMK102": "/grid/1", "AMK103": "/buffers/1", "AMK104": "",
    "AMK105": "/min_blocks", "AMK201": "/body/1", "AMK202": "/body/0", "AMK203": "/body/0", "AMK204": "/body/0",
    "AMK205": "/body/1/body/0", "AMK206": "/body/2", "AMK207": "/body/0", "AMK208": "/body/0", "AMK301": "/body/1",
    "AMK302": "/body/0/body/0", "AMK303": "/body/4", "AMK304": "/body/1/body/0", "AMK305": "/body/1/body/0",
    "AMK306": "/body/3", "AMK308": "/body/0", "AMK313": "/body/0/body/2/body/0", "AMK314": "/body/0/body/4",
    "AMK315": "/body/0/body/2/body/0", "AMK316": "/dispatch",
    "AMK318": "/body/1/body/0", "AMK401": "/body/1/body/0", "AMK402": "/body/1/body/0",
    "AMK404": "/body/1/body/0", "AMK501": "/body/0", "AMK502": "/body/0", "AMK505": "/body/0/body/0",
    "AMK108": "/body/0", "AMK503": "/buffers/1", "AMK504": "/grid/0", "AMK506": "/buffers/0",
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_the_finding_is_at_the_place(rule: Any) -> None:
    found = [d.pointer for d in check(rule.bad(), rule.device or None).diagnostics if d.code == rule.code]
    assert found == [PLACES[rule.code]] if rule.code in PLACES else found and all(found), "say where, in PLACES"


@lru_cache(maxsize=64)
def page(code: str) -> str:
    return (FOLDER / f"{code}.md").read_text()


def blocks(code: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page(code), re.S)


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_the_descriptor_on_the_page_shows_what_the_page_says(rule: Any) -> None:
    (text,) = blocks(rule.code, "json")
    kernel = KernelDescriptor.from_json(text)
    assert kernel == rule.bad() and "examples.py" not in text
    report = check(kernel, rule.device or None)
    assert {d.code for d in report.errors or report.warnings} == {rule.code}
    for d in report.diagnostics:
        if d.code == rule.code:
            assert f"> {d.code} at `{d.pointer or 'the kernel'}`: {d.message}\n>\n> Try: {d.hint}\n" in page(rule.code)


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_the_changes_on_the_page_mend_it(rule: Any) -> None:
    """The lines with + and - turn the bad text into the good one, as `patch` would."""
    shown, changed = (blocks(rule.code, language)[0] for language in ("json", "diff"))
    text = shown
    for hunk in changed.split("\n\n"):
        lines = hunk.rstrip("\n").split("\n")
        old, new = ("\n".join(x[1:] for x in lines if x[:1] in keep) for keep in ((" ", "-"), (" ", "+")))
        assert text.count(old) == 1
        text = text.replace(old, new)
    assert KernelDescriptor.from_json(text) == rule.good()
    assert check(KernelDescriptor.from_json(text)).ok


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_the_builder_on_the_page_makes_the_descriptor(rule: Any) -> None:
    programs = blocks(rule.code, "python")
    if rule.code == "AMK003":  # the builder itself refuses it
        assert not programs
    for program in programs:
        made: dict[str, Any] = {}
        exec(program, made)
        assert made["kernel"] == rule.bad() and made["kernel"].suppress == rule.bad().suppress


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_explain_shows_the_example(rule: Any) -> None:
    text = docs.explain(rule.code)
    assert "\nExample\n\n    " in text and ("KernelBuilder(" in text or '"format": 1' in text)
    assert "\n    +" in text or "\n    -" in text


def test_the_folder_is_what_the_command_writes(tmp_path: Path) -> None:
    written = {p.name: p.read_bytes() for p in docs.write(tmp_path)}
    assert written == {p.name: p.read_bytes() for p in FOLDER.iterdir()}, "amk rules --write docs/rules"


def test_every_page_is_in_the_index_and_every_file_is_a_page() -> None:
    index = (FOLDER / "README.md").read_text()
    pages = {p.stem for p in FOLDER.glob("AMK*.md")}
    assert pages == set(docs.titles()) and all(f"[{code}]({code}.md)" in index for code in pages)


# -------------------------------------------------------------------------------------------- of every finding there is
@lru_cache(maxsize=1)
def found() -> tuple[tuple[KernelDescriptor, Report], ...]:
    """What is found in mutants, of one change or several, of all examples and of three kernels."""
    kernels = [samples.vector_add(threads=64), samples.transpose(tile=16, rows=8), samples.block_sum(threads=64)]
    kernels += [r.bad() for r in RULES if r.bad().body]
    out = []
    for i in range(160):
        rng, kernel = Random(f"hint/{i}"), kernels[i % len(kernels)]
        try:
            for _ in range(rng.choice((1, 2))):
                kernel, _ = mutate(kernel, rng)
        except (ValueError, IndexError, KeyError):
            continue
        out.append((kernel, proposed(kernel, check(kernel))))
    return tuple(out)


def test_every_finding_says_what_to_do() -> None:
    seen = set()
    for _, report in found():
        for d in report.diagnostics:
            assert len(d.hint) > 8 and "None" not in d.hint, d
            seen.add(d.code)
    assert len(seen) >= 25


def test_every_ordering_fault_has_two_places_and_values() -> None:
    faults = [(k, d) for k, report in found() for d in report.errors if d.code.startswith("AMK3")]
    for kernel, d in faults:
        if d.code == "AMK316":  # of the grid, at no statement
            continue
        if d.code in ("AMK307", "AMK312") and not d.related:  # the other party is not there, or has ended
            assert d.counterexample, d
            continue
        assert d.related and d.related[0].note and d.counterexample, d
        for place in (d.pointer, *(r.pointer for r in d.related)):
            assert place == "/threads" or json.dumps(resolve(kernel.to_dict(), place)), place
    assert len(faults) >= 20 and any("byte" in d.counterexample for _, d in faults)


def resolve(data: Any, pointer: str) -> Any:
    for part in pointer.split("/")[1:]:
        data = data[int(part) if isinstance(data, list) else part]
    return data


def test_every_proposal_applies_and_reads() -> None:
    fixes = [(k, f) for k, report in found() for d in report.diagnostics for f in d.fixes]
    for kernel, fix in fixes:
        assert KernelDescriptor.from_json(applied(kernel.to_json(), fix)).to_dict() != kernel.to_dict(), fix
    assert len(fixes) >= 60
