"""Planted faults under forged certificates: a kernel changed in one place, with a certificate that claims all there is
to claim of it. What the checker refuses must not be verified, and what it accepts must not be refused.

The two programs share no engine, so a disagreement is a bug of one of them, but for what the checker says it cannot
decide (AMK008, undecided outputs): such a kernel may be verified if it is right, which the interpreter is asked.
"""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import NamedTuple

import pytest
from forging import forge, module

from amk.dsl.kernel import KernelDescriptor
from amk.harness import judge as engine
from amk.harness.certify import certify
from amk.harness.check import check
from amk.harness.diagnostics import Report
from amk.harness.families import FAMILIES, Subject
from amk.harness.mutations import mutate
from amk.verify.outcome import Outcome
from amk.verify.verify import verify


class Judged(NamedTuple):
    """One mutant: what was done, and what the two programs say."""

    said: str
    report: Report
    outcome: Outcome

    @property
    def refuted(self) -> bool:
        """The checker has found something wrong, not only something that it cannot decide."""
        return any(d.code != "AMK008" for d in self.report.errors)

    def explain(self) -> str:
        found = [f"{d.code} {d.message}" for d in (*self.report.errors, *self.report.undecided)]
        return f"{self.said}\n  check: {found[:2]}\n  verify: {self.outcome.verdict} {self.outcome.findings[:2]}"


def judge(subject: Subject, seed: str) -> Judged:
    """A mutant drawn from the seed; raises AssertionError where the programs disagree."""
    mutant, said = mutate(subject.kernel, Random(seed))
    out = Judged(f"{subject.name} {said}", check(mutant), verify(json.dumps(forge(mutant))))
    if out.refuted:
        assert out.outcome.exit_code != 0, out.explain()
    elif out.report.ok:
        assert out.outcome.exit_code != 1, out.explain()
    elif out.outcome.exit_code == 0:
        assert right(mutant, subject), out.explain()
    return out


def right(kernel: KernelDescriptor, subject: Subject) -> bool:
    """Whether the interpreter sees no fault at the sizes of the kernel that was changed."""
    return engine._truth(kernel, subject.sizes, engine.SEEDS[:1]).fault is None


def campaign(chosen: list[Subject], seed: str, mutants: int) -> Counter[tuple[str, str]]:
    """Judges mutants of each subject by turns, and counts the verdicts of both programs."""
    out: Counter[tuple[str, str]] = Counter()
    for i in range(mutants):
        j = judge(chosen[i % len(chosen)], f"{seed}/{i}")
        out["ok" if j.report.ok else "refused" if j.refuted else "open", j.outcome.verdict] += 1
    return out


def quick() -> list[Subject]:
    return subjects("elementwise", "transpose", "reduction", "softmax")


def subjects(*families: str) -> list[Subject]:
    """A kernel of each family, of the makers of the soundness campaign."""
    return [Subject(n, *FAMILIES[n](Random(n))) for n in families]


def test_thirty_mutants_are_judged_alike() -> None:
    found = campaign(quick(), "thirty", 30)
    assert found["refused", "refused"] >= 12 and found["ok", "verified"] >= 3
    assert found["refused", "verified"] == found["ok", "refused"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["one", "two"])
def test_many_mutants_are_judged_alike(seed: str) -> None:
    """Of families of the soundness campaign that have neither roles nor tensor maps."""
    found = campaign([*quick(), *subjects("split_k", "cp_async_gemm")], seed, 90)
    assert found["refused", "refused"] + found["refused", "verified in part"] >= 50
    assert found["refused", "verified"] == found["ok", "refused"] == 0
    assert found["ok", "verified in part"] <= 3  # what the checker shows, this program nearly always shows too


@pytest.mark.slow
def test_mutants_of_rings_are_judged_alike() -> None:
    """Kernels whose order takes the most: rings of asynchronous copies, and slots that are carried round a loop."""
    kernels = module("harness/kernels")
    sizes = ({"m": 33, "n": 36, "kk": 40},)
    chosen = [
        Subject("ring_2", kernels.gemm_async(2), sizes), Subject("ring_3", kernels.gemm_async(3), sizes),
        Subject("staged", kernels.gemm_staged(), sizes),
    ]  # fmt: skip
    found = campaign(chosen, "rings", 24)
    assert found["refused", "verified"] == found["ok", "refused"] == 0 and found["refused", "refused"] >= 6


ASYNC = ("wgmma_gemm", "bulk_ring", "named_teams", "peer_swap", "mma_gemm")
ARITHMETIC = frozenset(("AMK201", "AMK202", "AMK203", "AMK204", "AMK205", "AMK208", "AMK209"))


@pytest.mark.parametrize("family", ASYNC)
def test_arithmetic_of_asynchronous_kernels_is_judged_alike(family: str) -> None:
    """What the checker accepts is not refused; what it refutes by arithmetic is refused, or said to be on trust."""
    for i in range(12):
        rng = Random(f"{family}/{i}")
        mutant, said = mutate(FAMILIES[family](rng)[0], rng)
        report = check(mutant, replay=False)
        codes = {d.code for d in report.errors}
        if report.ok:
            out = verify(certify(mutant).to_json())
            assert not out.findings, (said, out.findings)
        elif codes and codes <= ARITHMETIC:
            out = verify(json.dumps(forge(mutant)))
            assert out.exit_code == 1 or codes & {t.rule for t in out.trusted}, (said, report.errors)
