"""The campaign: a checker that is blind is caught, one that crashes too, and a seed says everything."""

from __future__ import annotations

import json
import time
from collections import Counter
from functools import lru_cache
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from amk.cli import selftest
from amk.cli.main import main
from amk.dsl.kernel import KernelDescriptor, walk
from amk.errors import InputError, Refused
from amk.harness import judge as judging
from amk.harness import samples
from amk.harness.check import check
from amk.harness.diagnostics import Diagnostic, Report
from amk.harness.explained import explanation
from amk.harness.families import FAMILIES, Subject
from amk.harness.judge import OUTCOMES, judge, outputs_of
from amk.harness.mutations import MUTATIONS, mutate
from amk.harness.soundness import Soundness
from amk.harness.summary import exit_code, summary, wilson
from amk.harness.time_limit import OutOfTime, limited

ADD = Subject("vector_add", samples.vector_add(threads=64), ({"n": 65}, {"n": 1}))
SMALL = {"add": lambda rng: (ADD.kernel, ADD.sizes), "turn": FAMILIES["transpose"]}


def blind(kernel: KernelDescriptor) -> Report:
    """A checker that sees nothing."""
    return Report(kernel.name, kernel.hash, kernel.target)


@lru_cache
def records(checker: Any = check, end: int = 24) -> list[dict[str, Any]]:
    return list(Soundness(SMALL, checker).run(0, end))


# ------------------------------------------------------------------------------------------------------- the campaign
def test_the_checker_accepts_no_faulty_mutant() -> None:
    """A few seeds of every family; the slow test and the committed results hold many more."""
    found = summary(list(Soundness(selftest.families()).run(0, 39)))
    assert found["findings"]["false_accept"] == [] and found["exit_code"] == 0
    assert found["mutants"] == 39 and found["faulty"] >= 20
    assert set(found["families"]) == set(selftest.families()) and len(found["families"]) >= 8


@pytest.mark.slow
def test_four_hundred_mutants_in_four_minutes() -> None:
    start = time.perf_counter()
    found = summary(list(Soundness(selftest.families()).run(1_000_000, 1_000_400)))
    assert found["mutants"] == 400 and found["false_accept"] == 0 and found["checker_failed"] == 0
    assert found["faulty"] >= 240 and found["false_reject"] <= 4 and found["timed_out"] == 0
    assert found["findings"]["false_reject"]["unexplained"] == 0
    assert time.perf_counter() - start < 240


def test_a_blind_checker_accepts_what_faults() -> None:
    found = summary(records(blind))
    accepts = found["findings"]["false_accept"]
    assert found["exit_code"] == 1 and found["caught"] == 0
    assert len(accepts) == found["false_accept"] == found["faulty"] >= 8
    assert {e["family"] for e in accepts} == set(SMALL) and all(e["mutation"] and "sizes" in e for e in accepts)
    again = KernelDescriptor.model_validate(accepts[0]["descriptor"])
    assert again.hash == accepts[0]["hash"]
    kinds = {e["fault"].split(" ")[0] for e in Soundness(SMALL, blind).run(1, 60, only=("turn",)) if e.get("fault")}
    assert "race" in kinds


def test_a_checker_that_refuses_all_rejects_falsely() -> None:
    def refuse(kernel: KernelDescriptor) -> Report:
        raise Refused("never")

    found = Counter(r["outcome"] for r in Soundness(SMALL, refuse).run(0, 20))
    assert set(found) <= {"caught", "outside", "not run"} and found["outside"] > 0 < found["caught"]


def test_a_checker_that_fails_is_our_fault() -> None:
    def fail(kernel: KernelDescriptor) -> Report:
        raise KeyError("lost")

    found = list(Soundness(SMALL, fail).run(0, 3))
    assert exit_code(found) == 4 and [r["message"] for r in found] == ["KeyError: 'lost'"] * 3
    assert all(r["descriptor"] for r in found)


def test_a_seed_says_everything() -> None:
    def drawn(*ranges: tuple[int, int]) -> list[dict[str, Any]]:
        found = [r for a, b in ranges for r in Soundness(SMALL, blind).run(a, b)]
        return [{n: v for n, v in r.items() if n != "seconds"} for r in found]

    assert drawn((0, 12)) == drawn((0, 5), (5, 12))
    assert len({r["hash"] for r in drawn((0, 12))}) > 9
    assert {r["family"] for r in drawn((1, 2))} == {"turn"}


def test_seeds_that_are_done_and_other_families_are_left_out() -> None:
    kept: list[dict[str, Any]] = []
    found = list(Soundness(SMALL, blind).run(0, 8, done={0, 2}, only=("add",), keep=kept.append))
    assert [r["seed"] for r in found] == [4, 6] and kept == found
    assert list(Soundness(SMALL, blind).run(0, 8, seconds=0)) == []


@pytest.mark.parametrize("name", FAMILIES)
def test_every_kernel_of_a_family_is_right(name: str) -> None:
    """Accepted, free of faults, and computed alike by both schedules; families vary."""
    made = {}
    for variant in range(8):
        kernel, sizes = FAMILIES[name](Random(f"{name}/{variant}"))
        if kernel.hash not in made:
            made[kernel.hash] = kernel
            report = check(kernel)
            assert report.ok, [d.message for d in (*report.errors, *report.undecided)]
            assert outputs_of(Subject(name, kernel, tuple(sizes)))
    assert len(made) > 1


def test_a_kernel_that_has_lost_all_its_statements() -> None:
    """A second mutation of a kernel without a body: declarations are left to change."""
    one = ADD.kernel.replaced(body=ADD.kernel.body[:1])
    empty = ADD.kernel.replaced(body=())
    for i in range(200):
        mutate(one, Random(i))
        mutate(empty, Random(i))


def test_a_family_that_is_wrong_is_not_mutated() -> None:
    guard = next(s for _, s in walk(ADD.kernel.body) if s.kind == "if")
    wrong = ADD.kernel.replaced(body=(ADD.kernel.body[0], *guard.body))
    with pytest.raises(InputError, match="wrong is no family to mutate"):
        list(Soundness({"wrong": lambda rng: (wrong, ADD.sizes)}).run(0, 1))
    with pytest.raises(InputError, match="no family to mutate: bounds"):
        list(Soundness({"wrong": lambda rng: (wrong, ADD.sizes)}, blind).run(0, 1))


# ---------------------------------------------------------------------------------------------------------- verdicts
def test_a_false_reject_says_why_and_is_kept_whole() -> None:
    """Grouped by what its message says of every mutant alike."""

    def strict(kernel: KernelDescriptor) -> Report:
        found = Diagnostic("AMK201", "out of bounds", "error", f"x[{kernel.threads}] may be 7 of 'n'", "/body/0")
        return blind(kernel)._replace(diagnostics=(found,))

    found = list(Soundness({"add": SMALL["add"]}, strict).run(0, 24))
    rejects = [r for r in found if r["outcome"] == "false reject"]
    (group,) = summary(found)["findings"]["false_reject"]["by_reason"]
    assert group["reason"] == ".. may be .. of .." and group["count"] == len(rejects) > 0 == len(group["why"])
    assert summary(found)["findings"]["false_reject"]["unexplained"] == len(rejects)
    assert all(r["descriptor"] for r in rejects)


def test_more_sizes_are_tried_before_a_reject_counts_as_false() -> None:
    """Where nothing is computed the guard that is off by one shows nothing; at one of the other sizes it does."""
    kernel, _ = FAMILIES["transpose"](Random(3))
    data = kernel.to_dict()
    load = next(s for s in data["body"] if s["kind"] == "for")["body"][0]
    load["when"] = load["when"].replace("< m", "< m + 1")
    mutant = KernelDescriptor.model_validate(data)
    unconfirmed = check(mutant, replay=False)
    assert not unconfirmed.ok and not any(d.confirmed for d in unconfirmed.errors)
    nothing = Subject("turn", kernel, ({"m": 0, "n": 9}, {"m": 33, "n": 0}))
    assert judging._truth(mutant, nothing.sizes, (None,)).fault is None
    verdict = judge(mutant, nothing, {}, lambda k: unconfirmed)
    assert verdict.outcome == "caught" and verdict.fault.startswith("bounds") and not verdict.replayed


def test_a_replayed_counterexample_is_enough() -> None:
    kernel = ADD.kernel
    data = kernel.to_dict()
    data["body"][1]["cond"] = "i < n + 1"
    verdict = judge(KernelDescriptor.model_validate(data), ADD, {})
    assert verdict.outcome == "caught" and verdict.replayed and verdict.rule == "AMK201" and verdict.faulty


def test_numbers_that_differ_are_reported_apart() -> None:
    right = {(("n", 1),): {"z": np.ones(3)}}
    assert judging._same(right, {(("n", 1),): {"z": np.ones(3)}}) and judging._same(right, {})
    assert not judging._same(right, {(("n", 1),): {"z": np.zeros(3)}})
    data = ADD.kernel.to_dict()
    store = next(s for s in data["body"][1]["body"] if s["kind"] == "store")
    store["values"] = [store["values"][0].replace("+", "-")]
    verdict = judge(KernelDescriptor.model_validate(data), ADD, outputs_of(ADD))
    assert verdict.outcome == "accepted" and verdict.other_results


def test_sizes_move_into_the_domain() -> None:
    p = SimpleNamespace(min=3, max=10, multiple_of=4)
    assert [judging._allowed(p, n) for n in (0, 5, 9, 99)] == [4, 8, 8, 8]  # type: ignore[arg-type]


def test_every_mutation_is_reached_and_changes_the_kernel() -> None:
    kernels = [make(Random(i))[0] for i in range(2) for make in FAMILIES.values()]
    reached = set()
    for i in range(1500):
        kernel = kernels[i % len(kernels)]
        mutant, said = mutate(kernel, Random(i))
        assert mutant.hash != kernel.hash
        reached.add(said.split(":")[0])
    assert reached == set(MUTATIONS)


def test_a_mutant_has_so_many_seconds() -> None:
    def slow(kernel: KernelDescriptor) -> Report:
        while True:
            pass

    (found,) = Soundness(SMALL, slow, limit=0.05).run(0, 1)
    assert found["outcome"] == "timed out" and found["descriptor"] and found["seconds"] < 3
    with pytest.raises(OutOfTime), limited(0.01):
        slow(ADD.kernel)


# ---------------------------------------------------------------------------------------------------------- summaries
def test_bounds_by_wilson() -> None:
    """Values of the score interval: of none, 0 of 100 (z2 / (100 + z2)), 5 of 10 (symmetric)."""
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(0, 100) == pytest.approx((0.0, 0.036993), abs=1e-6)
    low, high = wilson(5, 10)
    assert low == pytest.approx(0.236593, abs=1e-5) and low + high == pytest.approx(1.0)
    assert wilson(100, 100)[1] == 1.0


def test_limits_explain_what_they_are_about() -> None:
    assert "lemma 6" in explanation("AMK401", "'y' is neither in tile form nor in grid-stride form: …")
    assert explanation("AMK401", "y[0] is never written with n = 1") == explanation("AMK301", "a race") == ""
    assert "orders of blocks" in explanation("AMK201", "x[t] can reach the size n", "look_back")
    assert explanation("AMK201", "x[t] can reach the size n", "softmax") == ""


def test_counts_add_up() -> None:
    found = summary(records(blind))
    for counts in (found, *found["families"].values()):
        assert sum(counts[o.replace(" ", "_")] for o in OUTCOMES) == counts["mutants"] > 0
    assert sum(c["mutants"] for c in found["families"].values()) == found["mutants"]
    assert json.loads(json.dumps(found)) == found
    assert summary([])["rates"]["faulty"]["wilson_95"] == [0.0, 1.0]


# -------------------------------------------------------------------------------------------------------- the command
@pytest.mark.parametrize(("checker", "code"), [(blind, 1), (check, 0)])
def test_the_command_says_so(
    checker: Any, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(selftest, "families", lambda: SMALL)
    monkeypatch.setattr("amk.harness.soundness.Soundness", lambda families: Soundness(families, checker))
    assert main(["selftest", "soundness", "--seeds", "3:11", "--json"]) == code
    shown = json.loads(capsys.readouterr().out)
    assert shown["exit_code"] == code and shown["mutants"] == 8 and shown["seeds"] == [3, 11]
    assert bool(shown["findings"]["false_accept"]) == bool(code)
    assert main(["selftest", "soundness", "--seeds", "3:11", "--families", "turn"]) == code
    said = capsys.readouterr().out
    assert ("\nfalse accept turn" in said) == bool(code) and "add" not in said


def test_a_run_goes_on_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(selftest, "families", lambda: SMALL)
    file = tmp_path / "ledger"
    command = ["selftest", "soundness", "--json", "--ledger", str(file), "--seeds"]
    assert main([*command, "0:3"]) == 0
    first = file.read_text()
    file.write_text(first + first.splitlines()[-1][:40])  # cut off while it was written
    assert main([*command, "0:6"]) == 0
    lines = file.read_text().splitlines()
    assert file.read_text().startswith(first) and [json.loads(x)["seed"] for x in lines[1:]] == list(range(6))
    capsys.readouterr()
    monkeypatch.setattr(Soundness, "record", lambda self, seed: pytest.fail("this seed is done"))
    assert main([*command, "1:6"]) == 0
    assert json.loads(capsys.readouterr().out)["mutants"] == 5


GOOD = {"seed": 0, "family": "add", "mutation": "m", "hash": "h", "outcome": "accepted", "seconds": 0.1}


@pytest.mark.parametrize(
    "line",
    ["{", "[]", "7", "[" * 5000, "\x00", '{"seed": NaN}', *(json.dumps({**GOOD, **change}) for change in (
        {"seed": "1"}, {"seed": True}, {"outcome": "good"}, {"outcome": []}, {"family": "x"}, {"seconds": "1"},
        {"hash": None}, {"message": 3}, {"fault": {}},
    ))],
)  # fmt: skip
def test_a_ledger_that_does_not_read(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(selftest, "families", lambda: SMALL)
    file = tmp_path / "ledger"
    command = ["selftest", "soundness", "--seeds", "0:0", "--ledger", str(file)]
    assert main(command) == 0
    file.write_text(file.read_text() + json.dumps(GOOD) + "\n")
    assert main(command) == 0
    file.write_text(file.read_text() + line + "\n")
    assert main(command) == 2
    assert f"{file}, line 3: " in capsys.readouterr().err


def test_a_ledger_of_another_checker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ledger"
    file.write_bytes(b"\xff\xfe\n")
    assert main(["selftest", "soundness", "--seeds", "0:0", "--ledger", str(file)]) == 2
    assert "line 1: it is of another version" in capsys.readouterr().err
    assert main(["selftest", "soundness", "--seeds", "0:0", "--ledger", str(tmp_path)]) == 2


@pytest.mark.parametrize(
    "words",
    [["speed"], ["soundness", "--seeds", "5"], ["soundness", "--seeds", "5:4"], ["soundness", "--seeds=-1:4"],
     ["soundness", "--seeds", "a:b"], ["soundness", "--seeds", "0:99999999999999999"], ["soundness", "--seeds", "²:³"],
     ["soundness", "--families", "none"]],
)  # fmt: skip
def test_unusable_arguments(words: list[str]) -> None:
    assert main(["selftest", *words]) == 2
