"""What each format makes of a finding with all that it can carry: two threads, a deadlock, repairs, suppressions."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import amk.harness.check
from amk.cli.check import check_documents
from amk.cli.checked import Checked, author_line
from amk.cli.main import main
from amk.cli.render_report import FORMATS
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.patch import patched
from amk.dsl.source import Locator
from amk.harness import samples
from amk.harness.diagnostics import Diagnostic
from amk.harness.mend import applied
from amk.harness.rules import RULES
from amk.harness.rules.examples import mirrored, scattered


# ----------------------------------------------------------------------------------------------------------------- text
def test_a_deadlock_in_text(shown: Any, deadlock: Diagnostic) -> None:
    assert shown("text", deadlock) == (
        "AMK307 deadlock                                                k.amk.json:12:5\n"
        '    12  |  {"kind": "if", "cond": "t < 128", …}\n'
        "        |  all warps wait:\n"
        "        |  100% of them\n"
        '    15  |  {"kind": "store", "dst": "s[t]", "values": ["t"]}\n'
        "        |  nobody arrives, here: line 18\n"
        "        |  nobody can go on:\n"
        '    12  |  {"kind": "if", "cond": "t < 128", …}\n'
        "        |  1. warps 1 to 3: waiting for phase 0 of full[0], held by warp 0 (ring.py:40)\n"
        '    18  |  {"kind": "load", "dst": "a[0]", "src": "s[127 - t]"}\n'
        "        |  2. warp 0: waiting for phase 1 of empty[0], held by warps 1 to 3 (back to 1.)\n"
        "  counterexample   n = 4, block 1 of 2, threads 32 and 0, byte 64  (not seen in the interpreter)\n"
        "  written at       ring.py:40\n"
        "  try              arrive before line 18\n"
        "  more             amk explain AMK307\n\n"
        "k.amk.json  sm_80: refused, 1 error, 0 undecided, 1.0 ms\n"
        "1 file: 1 error, 0 undecided, 0 warnings\n"
    )


def test_a_race_in_text_shows_both_statements_and_the_repair(real: Any) -> None:
    out = real("text", mirrored("mirror", barrier=False))
    assert '    18  |  {"kind": "load", "dst": "a[0]", "src": "s[127 - t]"}\n' in out
    assert '    15  |  {"kind": "store", "dst": "s[t]", "values": ["t"]}\n        |  thread 0 writes s[t] here' in out
    assert "block 0 of 1, threads 127 and 0, byte 0 of shared memory  (seen in the interpreter)" in out
    assert "  repair           put a block barrier before line 18  (amk check --fix)\n" in out


def test_findings_that_are_like_another_are_counted(shown: Any, real: Any) -> None:
    """What one line of the builder wrote many times, or one repair cures, is shown once; other formats have each."""
    slow = Diagnostic("AMK501", "scattered", "warning", "8 sectors", "/body/0", "k.py:7")
    other = slow._replace(pointer="/body/1", message="16 sectors")
    out = shown("text", slow, other, other._replace(pointer="/body/1/dst"), slow._replace(at="k.py:9"))
    assert out.count("AMK501 scattered") == 2 and "16 sectors" not in out
    assert "  and              2 more like it: line 18\n" in out and "4 warnings" in out
    assert len(json.loads(shown("json", slow, other))["results"][0]["diagnostics"]) == 2
    errors = [slow._replace(severity="error"), other._replace(severity="error")]
    assert shown("text", *errors).count("AMK501 scattered") == 2  # an error is never left out for its line alone
    data = json.loads(samples.transpose(tile=16, rows=8).to_json())
    data["body"] = [x for x in data["body"] if x["kind"] != "sync"]
    out = real("text", json.dumps(data, indent=1))  # each of two branches reads what each of two stores wrote
    assert "refused, 4 errors" in out and out.count("AMK301 shared data race") == 2
    assert out.count("  and              1 more like it: line ") == 2


MIRROR = """from amk import KernelBuilder

k = KernelBuilder("mirror", target="sm_80", threads=128)
s, a = k.shared("s", "i32", (128,)), k.registers("a", "i32", (1,))
with k.when(k.t < 128):
    k.store(s[k.t], k.t)
# no barrier
k.load(a[0], s[127 - k.t])
print(k.finish(grid=(1,)).to_json(), end="")
"""


def test_the_manual_shows_what_the_command_prints(real: Any, tmp_path: Path) -> None:
    (tmp_path / "mirror.py").write_text(MIRROR)
    root = Path(__file__).parents[2]
    made = subprocess.run(
        [sys.executable, "mirror.py"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    manual = (root / "docs" / "cli.md").read_text()
    shown = next(x for x in manual.split("```\n") if x.startswith("AMK301"))
    assert real("text", made.stdout, "mirror.amk.json").startswith(shown)


def test_suppressed_warnings_are_counted_in_text(real: Any) -> None:
    out = real("text", scattered("AMK501", "one pass"))
    assert ", 1 suppressed, " in out and "AMK501" not in out
    out = real("text", scattered("AMK301", "it works"))
    assert "AMK090 suppression of an error" in out and '"code": "AMK301", "reason": "it works"' in out


@pytest.mark.parametrize("code", ["AMK101", "AMK102", "AMK105", "AMK009", "AMK506"])
def test_a_finding_about_a_declaration_shows_it(real: Any, code: str) -> None:
    kernel = next(r for r in RULES if r.code == code).bad()
    line = real("text", kernel).splitlines()[1]
    assert re.match(r' +\d+  \|  ("threads": 2048|"n"|"min_blocks": 3|\{"kind": "(param|buffer)", )', line), line


def test_the_authors_line_is_shown_where_it_can_be_trusted(tmp_path: Path, real: Any) -> None:
    (tmp_path / "made.py").write_text("# one\nk.store(s[k.t], k.t)\n")
    text = mirrored("mirror", barrier=False).to_json()
    text = re.sub(r'"at": "[^"]*"', '"at": "made.py:2"', text)
    assert "  written at       made.py:2  k.store(s[k.t], k.t)\n" in real("text", text)
    os.utime(tmp_path / "made.py", (2e9, 2e9))  # edited after the descriptor was written
    assert "  written at       made.py:2\n" in real("text", text)


@pytest.mark.parametrize("at", [
    "/etc/passwd:1", "../made.py:1", "made.py", "made.txt:1", "made.py:0", "made.py:9", "made.py:99999999", "link:1",
    "sub/made.py:1", "missing.py:1", "folder.py:1", "pipe.py:1", "large.py:1", "binary.py:1", "", None,
])  # fmt: skip
def test_no_other_file_is_looked_into(tmp_path: Path, at: str | None) -> None:
    (tmp_path / "made.py").write_text("k.sync()\n")
    (tmp_path / "made.txt").write_text("k.sync()\n")
    (tmp_path / "large.py").write_bytes(b"k\n" * (1 << 20))
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\n")
    (tmp_path / "folder.py").mkdir()
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "k.amk.json").write_text(scattered().to_json())
    (r,) = check_documents(["k.amk.json"], [None])
    assert author_line(r, at) == "" and author_line(r, "made.py:1") == "k.sync()"


def test_a_report_tells_itself_in_a_script() -> None:
    report = amk.check(mirrored("mirror", barrier=False))
    first, second = str(report).splitlines()
    assert first == "mirror on sm_80: refused, 1 error, 0 undecided, 0 warnings"
    assert re.match(r"AMK301 shared data race \(error\) at examples.py:\d+: thread 0 writes .*; try: ", second)
    assert str(amk.check(mirrored("mirror"))) == "mirror on sm_80: ok, 0 errors, 0 undecided, 0 warnings"


# ----------------------------------------------------------------------------------------------------------------- JSON
def test_json_carries_everything(shown: Any, deadlock: Diagnostic) -> None:
    (result,) = json.loads(shown("json", deadlock))["results"]
    (d,) = result["diagnostics"]
    assert d["cycle"] == [
        {"who": "warps 1 to 3", "waits_for": "phase 0 of full[0]", "held_by": "warp 0",
         "pointer": "/body/0", "at": "ring.py:40", "line": 12, "column": 5},
        {"who": "warp 0", "waits_for": "phase 1 of empty[0]", "held_by": "warps 1 to 3",
         "pointer": "/body/1", "line": 18, "column": 5},
    ]  # fmt: skip
    assert (d["line"], d["column"], d["end_line"], d["end_column"]) == (12, 5, 12, 6)
    assert d["related"][0]["line"] == 15 and d["counterexample"]["byte"] == 64 and d["confirmed"] is False


def test_a_fix_in_json_is_a_json_patch_that_mends(real: Any, tmp_path: Path) -> None:
    (result,) = json.loads(real("json", mirrored("mirror", barrier=False)))["results"]
    fix = result["diagnostics"][0]["fixes"][0]
    assert fix == {
        "title": "put a block barrier before /body/1", "safe": True,
        "patch": [{"op": "add", "path": "/body/1", "value": {"kind": "sync"}}],
    }  # fmt: skip
    data = json.loads((tmp_path / "k.amk.json").read_text())
    data["body"].insert(1, fix["patch"][0]["value"])
    assert amk.check(KernelDescriptor.model_validate(data)).ok


def test_json_lists_what_is_suppressed(real: Any) -> None:
    (result,) = json.loads(real("json", scattered("AMK501", "one pass")))["results"]
    assert result["ok"] and result["diagnostics"] == []
    (d,) = result["suppressed"]
    assert (d["code"], d["suppressed"], d["line"]) == ("AMK501", "one pass", 15)


# --------------------------------------------------------------------------------------------------------------- GitHub
def parsed(out: str) -> list[tuple[str, dict[str, str], str]]:
    """Workflow commands as the runner reads them."""
    found = []
    for line in out.splitlines():
        level, where, said = re.fullmatch(r"::(\w+) ([^:]*)::(.*)", line).groups()  # type: ignore[union-attr]
        fields = dict(x.split("=", 1) for x in where.split(","))
        for coded, plain in (("%3A", ":"), ("%2C", ","), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
            fields = {k: v.replace(coded, plain) for k, v in fields.items()}
            said = said if coded in ("%3A", "%2C") else said.replace(coded, plain)
        found.append((level, fields, said))
    return found


def test_github_commands_are_escaped(shown: Any, deadlock: Diagnostic) -> None:
    odd = deadlock._replace(title="50% dead: a, b\n::error::c", message="a%0Ab\n::warning::x\x1b[2J")
    ((level, fields, said),) = parsed(shown("github", odd))
    assert level == "error" and fields["title"] == "AMK307 50% dead: a, b ::error::c"
    assert said.startswith("a%0Ab\n::warning::x\nline 15: nobody arrives, here: line 18\n")
    assert "line 12: warps 1 to 3: waiting for phase 0 of full[0], held by warp 0\n" in said
    assert "counterexample: n = 4, block 1 of 2, threads 32 and 0, byte 64  (not seen in the interpreter)" in said


def test_github_says_where_a_statement_ends(real: Any) -> None:
    ((_, fields, _),) = parsed(real("github", mirrored("mirror", barrier=False)))
    assert fields["file"] == "k.amk.json" and fields["title"] == "AMK301 shared data race"
    assert (fields["line"], fields["endLine"], fields["col"]) == ("18", "18", "5") and int(fields["endColumn"]) > 60
    text = mirrored("mirror", barrier=False).to_json()
    spread = re.sub(r'\{"kind": "load".*', lambda m: json.dumps(json.loads(m[0]), indent=4), text)
    ((_, fields, _),) = parsed(real("github", spread))
    assert fields["line"] == "18" and int(fields["endLine"]) == 23 and "col" not in fields and "endColumn" not in fields


def test_github_tells_what_is_suppressed(real: Any) -> None:
    ((level, fields, said),) = parsed(real("github", scattered("AMK501", "one pass, 100%")))
    assert (level, fields["title"]) == ("notice", "1 suppressed on sm_80")
    assert said == "AMK501 uncoalesced global access: one pass, 100%"


def test_github_paths_are_the_repositorys(real: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    kernel = mirrored("m", barrier=False)
    assert parsed(real("github", kernel, "sub/a,b.json"))[0][1]["file"] == "sub/a,b.json"
    assert parsed(real("github", kernel, f"{tmp_path}/k.json"))[0][1]["file"] == "k.json"
    monkeypatch.chdir(tmp_path / "sub")
    assert parsed(real("github", kernel, "../k.json"))[0][1]["file"] == "../k.json"
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    (tmp_path / "sub" / "k.json").write_text(kernel.to_json())
    assert parsed(FORMATS["github"](list(check_documents(["k.json"], [None]))))[0][1]["file"] == "sub/k.json"


# -------------------------------------------------------------------------------------------------------------- regions
def test_regions_are_those_of_the_text(tmp_path: Path) -> None:
    text = scattered("AMK501", "meant").to_json()
    (tmp_path / "k.amk.json").write_text(text)
    (r,) = check_documents(["k.amk.json"], [None])
    assert isinstance(r, Checked)
    for pointer in ("/threads", "/params/0", "/body/0", "/body/0/src", "/suppress/0/reason"):
        start, end = Locator(text).span(pointer)
        assert json.loads(text[start:end]) == r.document.value(pointer)
        line, column, last, until = r.region(pointer)
        assert line == last and text.split("\n")[line - 1][column - 1 : until - 1] == text[start:end]
    assert r.region("")[:3] == (1, 1, 1) and r.region("/body/77") == r.region("/body")
    assert r.document.snippet("/threads") == '"threads": 32' and r.document.snippet("/body/77") == ""


def test_a_patch_of_several_edits_is_one_replacement(tmp_path: Path, real: Any) -> None:
    kernel = next(r for r in RULES if r.code == "AMK302").bad()
    (result,) = json.loads(real("json", kernel))["results"]
    fix = result["diagnostics"][0]["fixes"][0]
    assert [e["op"] for e in fix["patch"]] == ["move", "remove"] and fix["patch"][0]["from"] == "/body/0/body/0"
    d = amk.harness.proposed.proposed(kernel, amk.check(kernel)).errors[0]
    text = (tmp_path / "k.amk.json").read_text()
    assert applied(text, d.fixes[0]) == patched(text, d.fixes[0].edits)


@pytest.mark.parametrize("format", ["text", "json", "sarif", "github"])
def test_all_formats_of_all_rules_are_printable(
    format: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for r in RULES:
        (tmp_path / f"{r.code}.amk.json").write_text(r.bad().to_json())
    assert main(["check", ".", "--format", format]) == 2
    out = capsys.readouterr().out
    assert all(c.isprintable() or c == "\n" for c in out) and all(r.code in out for r in RULES if not r.device)
