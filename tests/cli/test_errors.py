"""Under --json standard output holds one JSON value, whatever goes wrong; standard error says it in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import amk
from amk.cli import main as frame
from amk.cli.main import COMMANDS, main
from amk.runtime import device

Fails = Callable[..., dict[str, Any]]


@pytest.fixture
def fails(capsys: pytest.CaptureFixture[str]) -> Fails:
    """The error object of a command that fails, held against the exit code and against what is said in words."""

    def run(*words: str) -> dict[str, Any]:
        code = main(list(words))
        out, err = capsys.readouterr()
        said = json.loads(out)
        assert said.keys() == {"amk", "exit_code", "error"} and said["amk"] == amk.__version__
        error: dict[str, Any] = said["error"]
        assert code == said["exit_code"] != 0 and {"kind", "code", "message", "hint"} <= error.keys()
        first = error["message"].splitlines()[0]
        assert f"amk: error: {first}" in err and (not error["hint"] or f"  try: {error['hint']}" in err)
        return error

    return run


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_option_of_every_command(fails: Fails, name: str) -> None:
    error = fails(name, "--json", "--no-such-option")
    assert (error["kind"], error["code"], error["hint"]) == ("InputError", None, f"amk {name} --help")


CASES: dict[str, tuple[tuple[str, ...], str, str]] = {  # command: its words, and part of what is said
    "check": (("x.json", "--target", "sm_11"), "InputError", "no target is called"),
    "describe": (("none.json",), "DescriptorError", "cannot read none.json"),
    "explain": (("AMK999",), "InputError", "there is no rule"),
    "rules": (("--write", "file/rules"), "EnvironmentProblem", "cannot write into"),
    "targets": (("--detect",), "EnvironmentProblem", "no GPU is visible"),
    "new": (("gemm", "--m", "-1", "--n", "1", "--k", "1"), "InputError", "--m"),
    "emit": (("none.json",), "DescriptorError", "cannot read none.json"),
    "compile": (("file",), "DescriptorError", ""),
    "certify": (("none.json",), "DescriptorError", "cannot read none.json"),
    "verify": ((), "InputError", "required"),
    "run": (("gem",), "DescriptorError", "cannot read gem"),
    "bench": (("gemm", "--m", "8", "--n", "8", "--k", "8"), "EnvironmentProblem", "needs a GPU"),
    "cache": (("empty",), "InputError", "empty"),
    "selftest": (("soundness", "--seeds", "2:1"), "InputError", "--seeds"),
}
NEVER_FAIL = {"demo", "doctor", "schema"}  # but for their options: they show what is wrong and go on


def test_every_command_has_a_case() -> None:
    assert CASES.keys() | NEVER_FAIL == COMMANDS.keys()


@pytest.mark.parametrize("name", CASES)
def test_what_every_command_cannot_do(fails: Fails, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no descriptor, and no folder")
    none = device.DeviceStatus(False, 0, "none", "there is no driver", "install it", ())
    monkeypatch.setattr(device, "probe", lambda: none)
    monkeypatch.setattr(device, "device", lambda index: None)
    words, kind, said = CASES[name]
    error = fails(name, *words, "--json")
    assert error["kind"] == kind and said in error["message"]
    assert (error["code"] == "AMK001") == (kind == "DescriptorError")


def test_a_place_in_a_file(fails: Fails, write: Any) -> None:
    write("broken", '{"format": 1,\n "name": }')
    error = fails("emit", "broken.amk.json", "--json")
    assert (error["code"], error["line"], error["column"]) == ("AMK001", 2, 10)


def test_a_refused_kernel_has_the_code_of_its_first_finding(fails: Fails, vector_add: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(vector_add(guarded=False).to_json())
    error = fails("emit", "bad.json", "--json")
    assert error["kind"] == "Refused" and error["code"].startswith("AMK2")


def test_no_command_and_an_unknown_one(fails: Fails) -> None:
    assert fails("chekc", "--json")["hint"] == "amk check"


def test_check_asks_for_json_by_its_format(fails: Fails, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("--format", "json"), ("--format=json",), ("--json",)):
        assert "no target" in fails("check", "x.json", *words, "--target", "sm_11")["message"]
    assert main(["check", "x.json", "--format", "sarif", "--target", "sm_11"]) == 2
    assert capsys.readouterr().out == ""


def test_our_own_fault(fails: Fails, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "_dispatch", lambda argv: 1 // 0)
    error = fails("check", "--json")
    assert (error["kind"], error["code"]) == ("InternalError", "AMK900") and "ZeroDivisionError" in error["message"]
    assert Path(error["hint"].split()[1]).is_file()


def test_the_demo_shows_the_step_that_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    main(["demo", "--folder", "file", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert said["exit_code"] == 2 and "file" in said["check"]["error"] and said["check"]["hint"]
