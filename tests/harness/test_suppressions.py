"""Suppressions: warnings alone, with a reason, counted; and none ever yields a certificate for an error."""

from __future__ import annotations

import itertools
import json
from functools import lru_cache
from random import Random
from typing import Any

import pytest

from amk.cli.main import main
from amk.dsl.builder import KernelBuilder
from amk.dsl.kernel import KernelDescriptor, Suppression
from amk.errors import DescriptorError, Refused
from amk.harness import samples
from amk.harness.certify import certify
from amk.harness.check import check
from amk.harness.docs import titles
from amk.harness.mutations import mutate
from amk.harness.rules import RULES
from amk.harness.rules.examples import scattered

ERRORS = [code for code, (_, severity) in titles().items() if severity == "error"]
WARNINGS = [code for code, (_, severity) in titles().items() if severity == "warning"]


def suppressing(kernel: KernelDescriptor, codes: list[str], pointer: str = "") -> KernelDescriptor:
    meant = tuple(Suppression(code=c, reason="it must pass", pointer=pointer) for c in codes)
    data = {**kernel.to_dict(), "suppress": [m.model_dump() for m in meant]}
    return KernelDescriptor.from_json(json.dumps(data))


def codes(found: Any) -> list[str]:
    return [d.code for d in found]


# --------------------------------------------------------------------------------------------------------- what it does
def test_a_suppressed_warning_is_counted_with_its_reason() -> None:
    report = check(scattered("AMK501", "one pass, once"))
    assert report.ok and not report.warnings and not report.diagnostics
    (d,) = report.suppressed
    assert d.code == "AMK501" and d.suppressed == "one pass, once" and d.pointer == "/body/0"
    assert report.to_dict()["suppressed"][0]["suppressed"] == "one pass, once"
    assert report.exit_code(strict=True) == 0 and report.shown((), ("AMK5",)).suppressed == ()
    assert "suppressed" not in check(scattered()).to_dict()


def test_a_pointer_is_about_what_stands_there_and_below() -> None:
    kernel = scattered()
    for pointer, hit in (("/body/0", True), ("/body", True), ("", True), ("/body/1", False), ("/bod", False)):
        report = check(suppressing(kernel, ["AMK501"], pointer))
        assert bool(report.suppressed) is hit, pointer
        assert codes(report.warnings) == ([] if hit else ["AMK501", "AMK091"]), pointer


def test_the_hash_and_the_kernel_are_the_same_with_and_without() -> None:
    plain, meant = scattered(), scattered("AMK501", "why not")
    assert plain == meant and plain.hash == meant.hash
    assert '"suppress"' in meant.to_json() and '"suppress"' not in plain.to_json()
    assert KernelDescriptor.from_json(meant.to_json()).suppress == meant.suppress
    assert check(plain).warnings and not check(meant).warnings  # nothing of a report is remembered by the hash


@pytest.mark.parametrize("entry", [
    {"code": "AMK501"}, {"code": "AMK501", "reason": ""}, {"code": "AMK501", "reason": " \t\n "},
    {"code": "AMK501", "reason": "x" * 1025}, {"code": "AMK5", "reason": "all"}, {"code": "amk501", "reason": "why"},
    {"code": "AMK501", "reason": "why", "pointer": "body/0"}, {"code": "AMK501", "reason": "why", "until": "friday"},
    {"code": "AMK501", "reason": 5}, "AMK501",
])  # fmt: skip
def test_a_suppression_without_a_reason_or_of_no_code_does_not_read(entry: Any) -> None:
    with pytest.raises(DescriptorError) as e:
        KernelDescriptor.from_json(json.dumps({**scattered().to_dict(), "suppress": [entry]}))
    assert e.value.pointer.startswith("/suppress/0") and e.value.line == 1


def test_the_builder_knows_where_its_statements_went() -> None:
    k = KernelBuilder("meant", target="sm_80", threads=32)
    n = k.size("n", min=32)
    x, a = k.tensor("x", "f32", (n, n)), k.registers("a", "f32", (2,))
    with k.loop("j", 0, 2), k.suppressed("AMK501", "a column is wanted"):
        k.load(a[0], x[k.t, 0])
        k.load(a[1], x[k.t, 1])
    k.suppress("AMK502", "the whole kernel")
    kernel = k.finish(grid=(1,))
    assert [(s.code, s.pointer) for s in kernel.suppress] == [
        ("AMK501", "/body/0/body/0"), ("AMK501", "/body/0/body/1"), ("AMK502", ""),
    ]  # fmt: skip
    report = check(kernel)
    assert codes(report.suppressed) == ["AMK501"] * 2 and codes(report.warnings) == ["AMK091"]
    with pytest.raises(DescriptorError, match="says why"):
        k.suppress("AMK501", " ")
        k.finish(grid=(1,))


# ------------------------------------------------------------------------------------------------------ never an error
@pytest.mark.parametrize("code", ERRORS)
def test_a_suppression_of_an_error_is_an_error(code: str) -> None:
    report = check(suppressing(scattered(), [code]))
    assert codes(report.errors) == ["AMK090"] and report.exit_code() == 1
    assert report.errors[0].pointer == "/suppress/0" and code in report.errors[0].message
    with pytest.raises(Refused):
        certify(suppressing(scattered(), [code]))


def test_a_code_that_no_rule_has_is_an_error_too() -> None:
    (d,) = check(suppressing(scattered(), ["AMK599"])).errors
    assert d.code == "AMK090" and "no rule has the code" in d.message and "AMK5" in d.hint


def test_an_unused_suppression_cannot_be_suppressed() -> None:
    report = check(suppressing(samples.vector_add(), ["AMK501", "AMK091"]))
    assert codes(report.warnings) == ["AMK091", "AMK091"] and not report.suppressed


@pytest.mark.parametrize(
    "rule", [r for r in RULES if r.severity == "error" and r.code != "AMK090"], ids=lambda r: r.code
)
def test_no_suppression_takes_an_error_away(rule: Any) -> None:
    kernel = rule.bad()
    errors = set(codes(check(kernel).errors))
    for chosen in ([rule.code], WARNINGS, ERRORS, [*WARNINGS, *ERRORS]):
        report = check(suppressing(kernel, chosen))
        assert set(codes(report.errors)) >= errors and not report.ok
        assert all(d.severity == "warning" for d in report.suppressed)
        with pytest.raises(Refused):
            certify(suppressing(kernel, chosen))


# ------------------------------------------------------------------------------------------------------------- mutants
@lru_cache(maxsize=1)
def faulty() -> tuple[KernelDescriptor, ...]:
    """Mutants with an error, of kernels that are right."""
    kernels = (samples.vector_add(threads=64), samples.transpose(tile=16, rows=8), samples.block_sum(threads=64))
    made = (mutate(kernels[i % 3], Random(f"suppress/{i}"))[0] for i in range(60))
    return tuple(itertools.islice((m for m in made if check(m).errors), 24))


def test_there_are_mutants_to_ask_about() -> None:
    found = {d.code for m in faulty() for d in check(m).errors}
    assert len(faulty()) == 24 and len(found) >= 6


@pytest.mark.parametrize("number", range(24))
def test_no_combination_yields_a_certificate(
    number: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Suppressions, --select, --ignore and --strict, in every mixture that the seed draws."""
    monkeypatch.chdir(tmp_path)
    kernel, rng = faulty()[number], Random(number)
    found = [d.code for d in check(kernel).errors]
    for _ in range(3):
        hidden = rng.sample([*found, *WARNINGS, *ERRORS], 4)
        meant = rng.choice([[], WARNINGS, found, hidden])
        text = suppressing(kernel, list(meant), rng.choice(["", "/body", "/body/0"])).to_json()
        (tmp_path / "k.amk.json").write_text(text)
        options = rng.choice([
            [], ["--ignore", ",".join(hidden)], ["--ignore", "AMK"], ["--select", rng.choice(WARNINGS)],
            ["--select", "AMK5", "--ignore", ",".join(found)],
        ])  # fmt: skip
        strict = rng.choice([[], ["--strict"]])
        code = main(["check", "k.amk.json", "--certify", "--json", *options, *strict])
        (result,) = json.loads(capsys.readouterr().out)["results"]
        assert code in (1, 2) and "certificate" not in result and result["refused"], (options, meant)
        assert main(["emit", "k.amk.json"]) in (1, 2)
        assert "__global__" not in capsys.readouterr().out


def test_the_same_options_do_certify_a_right_kernel(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What refuses above is the error, not the way of asking."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.amk.json").write_text(scattered("AMK501", "one pass").to_json())
    assert main(["check", "k.amk.json", "--certify", "--json", "--ignore", "AMK"]) == 0
    assert json.loads(capsys.readouterr().out)["results"][0]["certificate"]
