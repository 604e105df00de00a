"""Inputs that nobody meant: a share of the campaign, and that it would see a fault."""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from amk.cli import selftest_fuzz
from amk.cli.main import main
from amk.dsl.kernel import KernelDescriptor
from amk.errors import AmkError
from amk.harness import fuzz
from amk.harness.check import check
from amk.harness.families import FAMILIES
from amk.harness.fuzz import fuzzed, taken
from amk.harness.time_limit import limited


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


def _spoiled(name: str, change: Any) -> KernelDescriptor:
    data = FAMILIES[name](Random(f"{name}/0"))[0].to_dict()
    change({x["name"]: x for x in (*data["buffers"], *data["params"])}, data)
    return KernelDescriptor.model_validate(data)


def test_the_least_integer_is_printed_and_read_again() -> None:
    """Seeds 7938 and 97763: as a number it was read, as the text `-9223372036854775808` it was not."""
    data = FAMILIES["elementwise"](Random(0))[0].to_dict()
    kernel = KernelDescriptor.model_validate({**data, "grid": [-(2**63)]})
    assert KernelDescriptor.from_json(kernel.to_json()) == kernel and str(kernel.grid[0]) == "-9223372036854775808"
    with pytest.raises(AmkError, match="integer outside 64 bits"):
        KernelDescriptor.from_json(kernel.to_json().replace("-9223372036854775808", "-9223372036854775809"))


def test_shared_memory_that_no_device_has_is_not_simulated() -> None:
    """Seed 24831: sets of that many bits took gigabytes."""
    kernel = _spoiled("mma_gemm", lambda named, data: named["sb"].update(shape=[2, 2**31 - 1, 8]))
    assert {"AMK103", "AMK008"} <= {d.code for d in check(kernel).errors}


def test_counterexamples_of_many_steps_are_not_replayed() -> None:
    """Seeds 8750 and 68648: thousands of rounds warp by warp took 10 s."""
    kernel = _spoiled("bulk_ring", lambda named, data: named["y"].update(shape=[2572, *named["y"]["shape"][1:]]))
    with limited(5.0):
        found = [d for d in check(kernel).errors if d.code == "AMK201"]
    assert found and not found[0].confirmed and found[0].counterexample["m"] > 2500
