"""`amk check`: the four formats, exit codes, targets, filters, hostile files."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

import amk
from amk.cli.check import worst
from amk.cli.main import main
from amk.errors import Refused

pytestmark = pytest.mark.usefixtures("harness")


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Any:
    def check(*args: object) -> tuple[int, str]:
        code = main(["check", *map(str, args)])
        return code, capsys.readouterr().out

    return check


def test_text(check: Any, write: Any) -> None:
    write("bad")
    code, out = check("bad.amk.json")
    assert code == 1
    assert out == (
        "AMK201 out of bounds                                         bad.amk.json:21:9\n"
        '    21  |  {"kind": "load", "dst": "a[0]", "src": "x[i]"}\n'
        "        |  x[i] reaches 1 beyond x\n"
        '     9  |  {"kind": "param", "name": "x", "dtype": "f32", "shape": ["n"], "align": 4}\n'
        "        |  x has n elements\n"
        "  counterexample   n = 1, thread 1  (seen in the interpreter)\n"
        "  written at       kernel.py:7\n"
        "  try              guard it: i < n\n"
        "  repair           guard line 17  (amk check --fix)\n"
        "  more             amk explain AMK201\n\n"
        "bad.amk.json  sm_80: refused, 1 error, 0 undecided, 1.2 ms\n"
        "1 file: 1 error, 0 undecided, 0 warnings\n"
    )


def test_clean_is_one_line(check: Any, write: Any) -> None:
    write("good")
    assert check("good.amk.json") == (0, "good.amk.json  sm_80: ok, 1 claim proved (1 affine), 1.2 ms\n")


@pytest.mark.parametrize(("codes", "together"), [
    ((0, 0), 0), ((0, 3), 3), ((3, 1), 1), ((1, 2), 2), ((2, 4, 1), 4), ((), 0),
])  # fmt: skip
def test_worst(codes: tuple[int, ...], together: int) -> None:
    assert worst(codes) == together


@pytest.mark.parametrize(("names", "code"), [
    (("good",), 0), (("slow",), 0), (("hard",), 3), (("bad",), 1), (("hard", "bad"), 1), (("good", "hard"), 3),
])  # fmt: skip
def test_exit_codes(check: Any, write: Any, names: tuple[str, ...], code: int) -> None:
    for name in names:
        write(name)
    assert check(*(f"{n}.amk.json" for n in names))[0] == code


def test_strict(check: Any, write: Any) -> None:
    write("slow")
    assert check("slow.amk.json", "--strict")[0] == 1
    assert check("slow.amk.json", "--strict", "--ignore", "AMK5")[0] == 0


def test_hidden_is_still_a_fault(check: Any, write: Any) -> None:
    write("bad")
    code, out = check("bad.amk.json", "--ignore", "AMK2,AMK3")
    assert code == 1 and "1 hidden" in out and "AMK201" not in out
    assert check("bad.amk.json", "--select", "amk201")[0] == 1


@pytest.mark.parametrize(("codes", "said"), [
    ("E501", "'E501' is no rule code"), ("AMK999", "no rule has the code 'AMK999'"), ("AMK3,AMK201x", "'AMK201X'"),
    ("AMK202", "try: AMK201"), ("AMK7", "no rule has the code 'AMK7'"),
])  # fmt: skip
@pytest.mark.parametrize("option", ["--select", "--ignore"])
def test_a_code_that_no_rule_has_is_refused(
    write: Any, option: str, codes: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write("bad")
    assert main(["check", "bad.amk.json", option, codes]) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err


def test_json(check: Any, write: Any) -> None:
    write("bad"), write("good")
    code, out = check("bad.amk.json", "good.amk.json", "--json")
    data = json.loads(out)
    assert data["exit_code"] == code == 1 and data["amk"] == amk.__version__
    assert [r["exit_code"] for r in data["results"]] == [1, 0]
    (found,) = data["results"][0]["diagnostics"]
    assert (found["code"], found["line"], found["column"], found["counterexample"]) == (
        "AMK201",
        21,
        9,
        {"n": 1, "t": 1},
    )
    assert found["related"][0]["line"] == 9


def test_github(check: Any, write: Any) -> None:
    write("bad")
    _, out = check("bad.amk.json", "--format", "github")
    assert out.startswith(
        "::error file=bad.amk.json,line=21,endLine=21,col=9,endColumn=78,title=AMK201 out of bounds::"
        "x[i] reaches 1 beyond x%0A"
    )
    assert out.count("\n") == 1


def test_sarif(check: Any, write: Any) -> None:
    write("sub/bad"), write("slow")
    code, out = check("sub/bad.amk.json", "slow.amk.json", "--format", "sarif")
    log = json.loads(out)
    (run,) = log["runs"]
    assert code == 1 and log["version"] == "2.1.0" and log["$schema"].endswith("sarif-schema-2.1.0.json")
    driver = run["tool"]["driver"]
    assert driver["name"] == "amk" and [r["id"] for r in driver["rules"]] == ["AMK201", "AMK501"]
    first, second = run["results"]
    for found in (first, second):
        assert driver["rules"][found["ruleIndex"]]["id"] == found["ruleId"]
        assert found["level"] in ("error", "warning") and found["message"]["text"]
        assert found["partialFingerprints"]["amkFinding/v2"].endswith(":0")
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "sub/bad.amk.json", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 21, "startColumn": 9, "endLine": 21, "endColumn": 79}
    assert first["relatedLocations"][0]["message"]["text"] == "x has n elements"


def test_sarif_is_valid(check: Any, write: Any, sarif_schema: dict[str, Any], tmp_path: Path) -> None:
    """Findings of every severity with all that they can carry, files that do not read, an absolute path, and none."""
    write("good"), write("bad"), write("slow"), write("hard"), write("broken", "{")
    validator = jsonschema.Draft7Validator(sarif_schema)
    names = ("bad", "slow", "hard", "broken")
    for paths in ([f"{n}.amk.json" for n in names], [f"/none{tmp_path}/x.json"], ["good.amk.json"]):
        log = json.loads(check(*paths, "--format", "sarif")[1])
        validator.validate(log)
    (run,) = json.loads(check(*(f"{n}.amk.json" for n in names), "--format", "sarif")[1])["runs"]
    assert [r["ruleId"] for r in run["results"]] == ["AMK201", "AMK501", "AMK201", "AMK001"]
    assert all(re.match("[a-z]+:.", rule["helpUri"]) for rule in run["tool"]["driver"]["rules"])
    run["results"][0]["level"] = "fatal"
    assert not validator.is_valid({**log, "runs": [run]})


def test_unreadable_files_are_findings_with_a_place(check: Any, write: Any) -> None:
    write("good"), write("broken", '{"format": 1,\n "name": }')
    code, out = check("broken.amk.json", "missing.json", "good.amk.json")
    assert code == 2
    assert "broken.amk.json:2:10" in out and "cannot read missing.json: No such file" in out and "good.amk.json" in out


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[1] / "dsl" / "hostile").glob("*")), ids=lambda p: p.stem
)
@pytest.mark.parametrize("format", ["text", "json", "sarif", "github"])
def test_hostile_files(check: Any, path: Path, format: str) -> None:
    code, out = check(path, "--format", format)
    assert code == 2
    assert all(c.isprintable() or c in "\n\xa0" for c in out)
    if format in ("json", "sarif"):
        json.loads(out)


def test_folders_and_stdin(check: Any, write: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("b/good", "a/good", "a/slow"):
        write(name)
    (tmp_path / "a" / "other.json").write_text("not a descriptor")
    files = [r["file"] for r in json.loads(check(".", "--json")[1])["results"]]
    assert files == sorted(files) and len(files) == 3
    data = (tmp_path / "a/good.amk.json").read_bytes()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    code, out = check("-")
    assert code == 0 and out.startswith("<stdin>  sm_80: ok")
    (tmp_path / "empty").mkdir()
    assert check("empty")[0] == 2


def test_targets(check: Any, write: Any, harness: Any) -> None:
    write("good")
    assert check("good.amk.json", "--target", "sm_90a", "--target", "sm_120", "--prover", "both")[0] == 0
    assert harness.calls == [("good", "sm_90a", "both"), ("good", "sm_120", "both")]
    harness.calls.clear()
    assert check("good.amk.json", "--target", "all")[0] == 0
    assert [c[1] for c in harness.calls] == ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120"]
    assert check("good.amk.json", "--target", "sm_12")[0] == 2


def test_our_fault_does_not_stop_the_others(check: Any, write: Any, harness: Any) -> None:
    harness.crash = True
    write("good"), write("broken", "{")
    code, out = check("good.amk.json", "broken.amk.json")
    assert code == 4 and "AMK900" in out and "AMK001" in out and "\x1b" not in out


def test_certify(check: Any, write: Any, harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def certify(kernel: Any, target: Any) -> Any:
        report = harness.check(kernel, target, prover="z3")
        if not report.ok:
            raise Refused("1 error", report=report)
        return SimpleNamespace(report=report, digest="abc123", meaning="not checked")

    monkeypatch.setattr(amk, "certify", certify, raising=False)
    write("good"), write("bad")
    code, out = check("good.amk.json", "--certify")
    assert code == 0 and "certificate abc123, meaning: not checked" in out
    code, out = check("bad.amk.json", "--certify")
    assert code == 1 and "not certified" in out


def test_colours_only_on_a_terminal(check: Any, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    write("bad")
    assert "\x1b" not in check("bad.amk.json")[1]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[31;1mAMK201" in check("bad.amk.json")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in check("bad.amk.json")[1]


def test_a_bad_name_cannot_drive_the_terminal(check: Any, write: Any, tmp_path: Path) -> None:
    path = tmp_path / "bad\x1b[2J.json"
    path.write_text("{")
    code, out = check(path)
    assert code == 2 and "\x1b" not in out


def test_check_imports_nothing_heavy(write: Any) -> None:
    write("good")
    probe = (
        "import sys, types; m = types.ModuleType('amk.harness.check'); sys.modules['amk.harness.check'] = m\n"
        "from amk.harness.diagnostics import Report\n"
        "m.check = lambda k, t, prover: Report(k.name, k.hash, 'sm_80')\n"
        "from amk.cli.main import main; code = main(['check', 'good.amk.json'])\n"
        "heavy = ('cuda', 'numpy', 'z3', 'jinja2', 'rich', 'networkx')\n"
        "print(code, [m for m in sys.modules if m.split('.')[0] in heavy])"
    )
    assert subprocess.check_output([sys.executable, "-c", probe], text=True).splitlines()[-1] == "0 []"
