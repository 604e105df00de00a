"""Whatever the rule agent proposes first is accepted by the check, on every target, for random problems."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from amk.api import proposed
from amk.cli.main import main
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.target import Target
from amk.harness.check import check
from amk.ops.gemm import Gemm

NAMED = ("h200", "rtx-4060-ti", "a100", "b200")


def problems(seed: int, count: int) -> list[Gemm]:
    """Problems of every kind: odd, tiny, empty, long, transposed, batched, padded, with and without beta."""
    r = random.Random(seed)
    sizes = (0, 1, 2, 3, 7, 16, 31, 32, 33, 56, 64, 100, 127, 128, 255, 256, 1000, 1024, 1027, 4096, 5000, 16384)

    def size() -> int:
        return r.choice(sizes) if r.random() < 0.7 else r.randint(1, 3000)

    out = []
    for _ in range(count):
        m, n, k = size(), size(), size()
        ta, tb = r.random() < 0.5, r.random() < 0.5
        pad = r.choice((0, 0, 1, 4, 60))
        out.append(
            Gemm(
                m=m, n=n, k=k, batch=r.choice((1, 1, 1, 3, 70000)), trans_a=ta, trans_b=tb,
                lda=(m if ta else k) + pad, ldb=(k if tb else n) + pad, ldc=n + pad if r.random() < 0.5 else 0,
                beta=r.choice(("zero", "any")), align=r.choice((4, 8, 16)),
            )
        )  # fmt: skip
    return out


def accept(kernel: KernelDescriptor, target: Target, problem: Gemm) -> None:
    """No error, nothing undecided."""
    report = check(kernel, target)
    where = (target.name, problem, (kernel.origin.schedule if kernel.origin else {}))
    assert report.exit_code() == 0 and not report.errors, (where, report.diagnostics)


@pytest.mark.parametrize("name", NAMED)
def test_first_proposals_are_accepted(name: str) -> None:
    """Seven random problems: the first proposal for the target passes its check."""
    target = Target.find(name)
    for problem in problems(20, 7):
        accept(proposed(problem, target), target, problem)


def test_descriptors_survive_json() -> None:
    """A proposal read back from its JSON is the same kernel and passes the same check."""
    target = Target.find("h200")
    for problem in problems(4, 1):
        kernel = proposed(problem, target)
        again = KernelDescriptor.from_json(kernel.to_json())
        assert again.hash == kernel.hash
        accept(again, target, problem)


@pytest.mark.slow
def test_a_folder_of_first_proposals_is_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Random problems (AMK_TEST_PROBLEMS of them) on every known target, as one `amk check` of one folder."""
    written: set[str] = set()
    for problem in problems(2026, int(os.environ.get("AMK_TEST_PROBLEMS", "6"))):
        for target in Target.all():
            kernel = proposed(problem, target)
            if kernel.hash not in written:  # the hash covers the architecture
                written.add(kernel.hash)
                (tmp_path / f"{len(written):04}.amk.json").write_text(kernel.to_json())
    assert written
    code = main(["check", str(tmp_path)])
    last = capsys.readouterr().out.splitlines()[-1]
    assert code == 0 and last.startswith(f"{len(written)} files: 0 errors, 0 undecided"), last
