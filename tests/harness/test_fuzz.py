"""Inputs that nobody meant: a share of the campaign, and that it would see a fault."""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from typing import Any

import pytest

from amk.cli import selftest_fuzz
from amk.cli.main import main
from amk.errors import AmkError
from amk.harness import fuzz
from amk.harness.fuzz import fuzzed, taken


def test_a_share_of_the_campaign() -> None:
    """A seed says everything; inputs are of all kinds, and some of them are kernels."""
    found = [taken(seed) for seed in range(1_000_000, 1_000_400)]
    assert [f for f in found if f.outcome not in ("refused", "checked")] == []
    assert 20 < sum(f.outcome == "checked" for f in found) < 200
    assert {f.said for f in found} >= {"DescriptorError", "exit code 0", "exit code 1", "exit code 2"}
    drawn = [fuzzed(seed) for seed in range(60)]
    assert drawn == [fuzzed(seed) for seed in range(60)] and len(set(drawn)) > 50
    trees = 0
    for data in drawn:
        with suppress(ValueError, RecursionError):
            trees += isinstance(json.loads(data), dict)
    assert 20 < trees < 55


@pytest.mark.parametrize(("fault", "outcome"), [(KeyError("x"), "failed"), (MemoryError(), "failed"), (None, "hung")])
def test_faults_are_seen(fault: Exception | None, outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(kernel: Any) -> Any:
        if fault:
            raise fault
        while True:
            pass

    monkeypatch.setattr(fuzz, "check", check)
    monkeypatch.setattr(fuzz, "LIMIT_S", 0.1)
    found = [taken(seed) for seed in range(150)]
    assert {f.outcome for f in found} == {"refused", outcome}


def test_a_refusal_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(kernel: Any) -> Any:
        raise AmkError("no")

    monkeypatch.setattr(fuzz, "check", check)
    assert {taken(seed).outcome for seed in range(150)} == {"refused", "checked"}


def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["selftest", "fuzz", "--seeds", "5:35", "--commands", "2", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["done"] == sum(shown["outcomes"].values()) == 30 and shown["findings"] == []
    assert shown["commands"] == sum(shown["command_codes"].values()) == 2
    monkeypatch.setattr(fuzz, "check", lambda kernel: 1 // 0)
    assert main(["selftest", "fuzz", "--seeds", "0:150", "--commands", "0"]) == 4
    assert "failed seed " in capsys.readouterr().out
    assert main(["selftest", "fuzz", "--seeds", "0:9", "--commands", "-1"]) == 2
    assert main(["selftest", "fuzz", "--seeds", "0:9", "--memory", "1"]) == 2
    assert main(["selftest", "fuzz", "--seeds", "9:9"]) == 0


@pytest.mark.parametrize(("code", "text", "outcome"), [(0, b"", "checked"), (4, b"", "failed"), (-9, b"", "failed"),
                                                       (2, b"Traceback (most", "failed")])  # fmt: skip
def test_what_a_command_may_say(code: int, text: bytes, outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(words: list[str], **options: Any) -> Any:
        return subprocess.CompletedProcess(words, code, b"", text)

    monkeypatch.setattr(selftest_fuzz.subprocess, "run", run)
    assert [f.outcome for f in selftest_fuzz._commands(0, 10, 3)] == [outcome] * 3


def test_a_command_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(words: list[str], *, timeout: float, **options: Any) -> Any:
        raise subprocess.TimeoutExpired(words, timeout)

    monkeypatch.setattr(selftest_fuzz.subprocess, "run", run)
    assert [f.outcome for f in selftest_fuzz._commands(7, 9, 5)] == ["hung"] * 2
