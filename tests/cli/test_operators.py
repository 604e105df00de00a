"""`amk new`, `run` and `compile` for any registered operator: choices, schedule files, limits, budgets."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from amk.cli.main import main
from amk.dsl.kernel import KernelDescriptor
from amk.ops.gemm import GemmSchedule

SIZES = ("--m", "64", "--n", "48", "--k", "32")
CANDIDATE = '{"BM": 128, "BN": 64, "BK": 32, "TM": 8, "TN": 4, "vec_width": 4, "double_buffer": true}'


def new(capsys: pytest.CaptureFixture[str], *args: str) -> KernelDescriptor:
    assert main(["new", "gemm", *SIZES, *args]) == 0, capsys.readouterr().err
    return KernelDescriptor.from_json(capsys.readouterr().out)


def test_a_schedule_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole schedule from a file or standard input; what it leaves out has its default; options change it."""
    (tmp_path / "s.json").write_text(CANDIDATE)
    kernel = new(capsys, "--schedule", str(tmp_path / "s.json"))
    assert kernel.origin is not None and kernel.origin.agent == "by hand"
    want = {"bn": 64, "tm": 8, "tn": 4, "double_buffer": True, "stages": 2}
    assert kernel.origin.schedule == want and [b.shape[0] for b in kernel.buffers if b.name == "a"] == [2]
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(CANDIDATE.encode())))
    assert new(capsys, "--schedule", "-").hash == kernel.hash
    other = new(capsys, "--schedule", str(tmp_path / "s.json"), "--stages", "4")
    assert [b.shape[0] for b in other.buffers if b.name == "a"] == [4]


@pytest.mark.parametrize(("text", "said"), [
    ('{"bm": 128,\n "bn" 64}', "s.json, line 2, column 7"),
    ('{"bm": 128,\n "bq": 64}', "of gemm, bq: there is no such field (s.json, line 2, column 8)"),
    ('{"bm": 128,\n "stages": "3"}', "of gemm, stages: Input should be a valid integer (s.json, line 2, column 12)"),
    ('{"bm": 128,\n "stages": true}', "stages: Input should be a valid integer"),
    ('{"BM": 96}', "of gemm, BM: Input should be 16, 32, 64, 128 or 256 (s.json, line 1, column 8)"),
    ('{"vec_width": 4.0}', "vec_width: Value error, Input should be one of 1, 2, 4"),
    ('{"BM": 64, "bm": 64}', "BM and bm are one field"),
    ('[128, 64]', "holds an array, not an object"),
    ('{"stages": 3, "double_buffer": true}', "double_buffer is exactly 2 slots, and stages is 3"),
    ('{"bm": \x1b[31m}', "line 1, column 8"),
    ("", "line 1, column 1"),
])  # fmt: skip
def test_a_schedule_that_does_not_read(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Untrusted text: what is wrong and where, and exit code 2."""
    monkeypatch.chdir(tmp_path)
    Path("s.json").write_text(text)
    assert main(["new", "gemm", *SIZES, "--schedule", "s.json"]) == 2
    err = capsys.readouterr().err
    assert said in err and "Traceback" not in err and "\x1b" not in err
    assert main(["new", "gemm", *SIZES, "--schedule", "none.json"]) == 2
    assert "cannot read none.json" in capsys.readouterr().err


def test_a_choice_takes_away_what_it_excludes(capsys: pytest.CaptureFixture[str]) -> None:
    """--double-buffer goes without --stages, --swizzle without the agent's padding; both given contradict."""
    kernel = new(capsys, "--double-buffer")
    assert [b.shape[0] for b in kernel.buffers if b.name == "a"] == [2]
    assert new(capsys, "--layout", "nt", "--swizzle").origin.schedule["swizzle"]  # type: ignore[union-attr]
    for args in (("--double-buffer", "--stages", "3"), ("--layout", "nt", "--swizzle", "--pad", "4")):
        assert main(["new", "gemm", *SIZES, *args]) == 2
    assert main(["new", "gemm", *SIZES, "--layout", "tn", "--pad", "4"]) == 2
    assert "pad would change nothing" in capsys.readouterr().err


def test_what_does_not_fit_the_target_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The limit is named, and no descriptor is written."""
    big = ("--stages", "8", "--bm", "256", "--bn", "128")
    assert main(["new", "gemm", *SIZES, "--target", "rtx-4060-ti", *big]) == 1
    out, err = capsys.readouterr()
    assert out == "" and "does not fit rtx-4060-ti" in err and "101376" in err.replace(",", "")


def test_given_choices_pick_the_proposal_that_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    """--specialise of a large problem brings the raster group that the agent has for it."""
    large = ("--m", "16384", "--n", "16384", "--k", "16384", "--target", "rtx-4060-ti", "--specialise")
    assert main(["new", "gemm", *large]) == 0
    kernel = KernelDescriptor.from_json(capsys.readouterr().out)
    assert kernel.origin is not None and kernel.origin.schedule["group"] > 1
    assert set(kernel.origin.reasons) == set(GemmSchedule.model_fields)


def test_sums_in_any_order_only_when_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    """A long k over a small C is shared out, but not unless the caller can do without the same last bits."""
    deep = ["new", "gemm", "--m", "128", "--n", "128", "--k", "65536", "--target", "h200"]
    for args, split in (([], False), (["--any-order"], True)):
        assert main(deep + args) == 0
        kernel = KernelDescriptor.from_json(capsys.readouterr().out)
        assert kernel.origin is not None and ("split_k" in kernel.origin.schedule) == split


@pytest.mark.parametrize(("args", "said"), [
    (["new", "conv", "--m", "8"], "there is no operator 'conv'\n  try: one of: gemm"),
    (["new", "--m", "8", "conv"], "there is no operator"),
    (["bench", "conv", "--m", "8"], "there is no operator 'conv'"),
    (["run", "conv", "--m", "8"], "there is no operator 'conv'\n  try: one of: gemm"),
    (["new"], "required: OPERATOR"),
    (["new", "gemm", *SIZES, "--objective", "speed"], "there is no objective 'speed'"),
])  # fmt: skip
def test_unknown_names(args: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An operator or objective that there is not is named, with those that there are."""
    assert main(args) == 2
    assert said in capsys.readouterr().err


def test_the_operator_may_stand_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "--target", "sm_80", "gemm", *SIZES]) == 0
    assert KernelDescriptor.from_json(capsys.readouterr().out).target == "sm_80"


def test_the_cpu_budget_comes_before_the_arrays(capsys: pytest.CaptureFixture[str]) -> None:
    """Forty gigabytes of operands are not made to find out that their product takes days."""
    assert main(["run", "gemm", "--m", "100000", "--n", "100000", "--k", "10000", "--device", "cpu"]) == 2
    assert "the CPU executor would take about" in (err := capsys.readouterr().err) and "hours" in err


@pytest.mark.parametrize("args", [
    ("--beta", "any", "--lda", "40", "--ldc", "52"), ("--batch", "3", "--layout", "tt"), ("--m", "0"), ("--k", "0"),
    ("--align", "4", "--n", "47"),
])  # fmt: skip
def test_run_gemm(args: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Every problem that has options runs, and agrees with float64."""
    assert main(["run", "gemm", *SIZES, *args, "--device", "cpu", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["right"] and facts["executor"] == "cpu" and facts["error"] <= facts["tolerance"]
