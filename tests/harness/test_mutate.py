"""The campaign: a checker that is blind is caught, one that crashes too, and a seed says everything."""

from __future__ import annotations

import json
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from amk.cli.main import main
from amk.cli.selftest import subjects
from amk.dsl.kernel import KernelDescriptor, walk
from amk.errors import InputError
from amk.harness import mutate as engine
from amk.harness import samples
from amk.harness.check import check
from amk.harness.diagnostics import Diagnostic, Report
from amk.harness.mutate import Subject, campaign
from amk.harness.mutations import MUTATIONS, mutate

ADD = Subject("vector_add", samples.vector_add(), ({"n": 1}, {"n": 65}))
TURN = Subject("transpose", samples.transpose(), ({"m": 17, "n": 5},))


def blind(kernel: KernelDescriptor) -> Report:
    """A checker that sees nothing."""
    return Report(kernel.name, kernel.hash, kernel.target)


@pytest.fixture(scope="module")
def small() -> engine.Campaign:
    return campaign(subjects(), seed=2, mutants=36)


def test_the_checker_accepts_no_faulty_mutant(small: engine.Campaign) -> None:
    assert small.false_accepts == [] and small.crashes == [] and small.exit_code == 0
    assert small.total.mutants == 36 and small.total.faulty >= 15
    assert {name: t.mutants for name, t in small.by_kernel.items()} == {s.name: 4 for s in subjects()}
    assert json.loads(json.dumps(small.to_dict()))["faulty"] == small.total.faulty


def test_a_blind_checker_accepts_what_faults() -> None:
    found = campaign([ADD, TURN], seed=3, mutants=20, checker=blind)
    assert found.exit_code == 1 and found.total.refused == 0
    assert len(found.false_accepts) == found.total.false_accepts >= 5
    first = found.false_accepts[0]
    assert first["kernel"] in ("vector_add", "transpose") and first["mutation"] and first["sizes"]
    again = KernelDescriptor.model_validate(first["descriptor"])
    assert again.hash not in (ADD.kernel.hash, TURN.kernel.hash)


def test_races_are_among_what_a_blind_checker_accepts() -> None:
    found = campaign([TURN], seed=5, mutants=30, checker=blind)
    assert any(e["fault"].startswith("race") for e in found.false_accepts)


def test_a_checker_that_refuses_all_rejects_falsely() -> None:
    from amk.errors import Refused

    def refuse(kernel: KernelDescriptor) -> Report:
        raise Refused("never")

    found = campaign([ADD], seed=3, mutants=10, checker=refuse)
    assert found.exit_code == 0 and found.total.refused == 10
    assert 0 < found.total.unjudged == 10 - found.total.faulty - len(found.oracle_failures)


def test_a_checker_that_fails_is_our_fault() -> None:
    def fail(kernel: KernelDescriptor) -> Report:
        raise KeyError("lost")

    found = campaign([ADD], seed=3, mutants=3, checker=fail)
    assert found.exit_code == 4 and [e["error"] for e in found.crashes] == ["KeyError: 'lost'"] * 3


def test_a_seed_draws_the_same_mutants() -> None:
    def drawn(seed: int) -> list[str]:
        return [mutate(s.kernel, Random(f"{seed}/{i}"))[1] for s in (ADD, TURN) for i in range(30)]

    assert drawn(1) == drawn(1) != drawn(2)
    runs = [
        campaign([ADD, TURN], seed=2, mutants=12, checker=blind).to_dict() | {"seconds": 0, "slowest_check": 0}
        for _ in range(2)
    ]
    assert runs[0] == runs[1]


def test_small_kernels_give_as_many_mutants_as_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 of nine kernels are 223 of each; draws that were there before give way to kernels changed twice."""
    judged: list[KernelDescriptor] = []
    monkeypatch.setattr(engine._Judge, "judge", lambda self, mutant, said: judged.append(mutant))
    campaign([ADD], seed=7, mutants=400)
    assert len({m.hash for m in judged}) == len(judged) == 400


def test_a_false_reject_says_why_and_what_was_seen() -> None:
    """Grouped by what its message says of every mutant alike, with the sizes at which it ran without a fault."""

    def strict(kernel: KernelDescriptor) -> Report:
        found = Diagnostic("AMK201", "out of bounds", "error", f"x[{kernel.threads}] may be 7 of 'n'", "/body/0")
        return blind(kernel)._replace(diagnostics=(found,))

    found = campaign([ADD], seed=3, mutants=20, checker=strict)
    ((reason, rejects),) = found.rejects_by_reason()
    assert reason == "AMK201 .. may be .. of .." and len(rejects) == found.total.false_rejects > 0
    assert all(r["saw"].startswith("no fault, and ") and r["sizes"] for r in rejects)
    shown = found.to_dict()["false_rejects"]["by_reason"]
    assert [(g["reason"], g["count"]) for g in shown] == [(reason, len(rejects))] and shown[0]["mutants"] == rejects


def test_more_sizes_are_tried_before_a_reject_counts_as_false() -> None:
    """At the size of the subject the guard that is off by one shows nothing; at one of eight others it does."""
    turn, data = Subject("transpose", TURN.kernel, ({"m": 0, "n": 5},)), TURN.kernel.to_dict()
    first = next(s for s in data["body"] if s["kind"] == "if")
    first["cond"] = first["cond"].replace("< m", "< m - 1")
    mutant = KernelDescriptor.model_validate(data)
    judge = engine._Judge(turn, check, found := engine.Campaign(0))
    judge.expect_right()
    judge.subject = TURN  # whose sizes say how large the others may be
    refused = check(mutant)
    assert not refused.ok
    judge._reject(mutant, refused, engine._truth(mutant, turn.sizes), {})
    assert found.total.faulty == 1 and found.total.false_rejects == 0


def test_every_mutation_is_reached_and_changes_the_kernel() -> None:
    kernels, reached = [s.kernel for s in subjects()], set()
    for i in range(900):
        kernel = kernels[i % len(kernels)]
        mutant, said = mutate(kernel, Random(i))
        assert mutant.hash != kernel.hash
        reached.add(said.split(":")[0])
    assert reached == set(MUTATIONS)


def test_a_kernel_that_is_wrong_is_not_mutated() -> None:
    kernel = ADD.kernel
    guard = next(s for _, s in walk(kernel.body) if s.kind == "if")
    wrong = kernel.model_copy(update={"body": (kernel.body[0], *guard.body)})
    with pytest.raises(InputError, match="no kernel to mutate: bounds"):
        campaign([Subject("wrong", wrong, ({"n": 3},))], seed=1, mutants=1)


def test_numbers_that_differ_are_reported_apart() -> None:
    right = {(("n", 1),): {"z": engine.np.ones(3)}}
    assert engine._same(right, {(("n", 1),): {"z": engine.np.ones(3)}}) and engine._same(right, {})
    assert not engine._same(right, {(("n", 1),): {"z": engine.np.zeros(3)}})


def test_sizes_move_into_the_domain() -> None:
    p = SimpleNamespace(min=3, max=10, multiple_of=4)
    assert [engine._allowed(p, n) for n in (0, 5, 9, 99)] == [4, 8, 8, 8]


@pytest.mark.parametrize(("checker", "code"), [(blind, 1), (check, 0)])
def test_the_command_says_so(
    checker: Any, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("amk.cli.selftest.subjects", lambda: [ADD])
    whole = engine.campaign
    monkeypatch.setattr(engine, "campaign", lambda *a, **k: whole(*a, **k, checker=checker))
    assert main(["selftest", "soundness", "--seed", "3", "--mutants", "8", "--json"]) == code
    shown = json.loads(capsys.readouterr().out)
    assert shown["exit_code"] == code and shown["mutants"] == 8 and bool(shown["false_accepts"]) == bool(code)
    assert main(["selftest", "soundness", "--seed", "3", "--mutants", "8"]) == code
    assert ("false accept " in capsys.readouterr().out) == bool(code)


def test_unusable_arguments() -> None:
    assert main(["selftest", "soundness", "--mutants", "-1"]) == 2
    assert main(["selftest", "speed"]) == 2
