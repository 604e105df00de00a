"""`amk check --fix` and `--diff`: what is written, how, and what never is."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import amk.cli.fix
from amk.cli.main import main
from amk.dsl import files
from amk.dsl.files import replace_bytes
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.target import Target
from amk.harness.check import check
from amk.harness.rules.examples import example, mirrored, scattered, small

RACY = mirrored("mirror", barrier=False).to_json()


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Any:
    def command(*args: object) -> tuple[int, str, str]:
        code = main(["check", *map(str, args)])
        return (code, *capsys.readouterr())

    return command


def test_a_file_is_repaired_in_place(command: Any, tmp_path: Path) -> None:
    path = tmp_path / "k.amk.json"
    path.write_text(RACY)
    code, out, err = command("k.amk.json", "--fix")
    assert code == 0 and err == "" and check(KernelDescriptor.from_json(path.read_bytes())).ok
    first, second = out.splitlines()[:2]
    assert first == (
        "k.amk.json: repaired AMK301 shared data race: put a block barrier before /body/1 "
        f"(mend {amk_place()} too, which wrote it)"
    )
    assert second.startswith("k.amk.json  sm_80: ok, ")
    assert [p.name for p in tmp_path.iterdir() if p.name != "cache"] == ["k.amk.json"]  # nothing left aside
    assert command("k.amk.json", "--fix")[1].startswith("k.amk.json  sm_80: ok")  # and nothing to do again


def amk_place() -> str:
    (d,) = check(mirrored("mirror", barrier=False)).errors
    assert d.at
    return d.at


def test_what_cannot_be_repaired_stays_byte_for_byte(command: Any, tmp_path: Path) -> None:
    path = tmp_path / "k.amk.json"
    text = RACY.replace("127 - t", "t + 1").replace("\n", "\r\n")  # an index beyond the array
    path.write_bytes(text.encode())
    before = path.stat()
    code, out, _ = command("k.amk.json", "--fix")
    assert code == 1 and "AMK202" in out and "repaired" not in out
    assert path.read_bytes() == text.encode() and path.stat().st_mtime_ns == before.st_mtime_ns


def test_the_rest_of_the_text_stays(command: Any, tmp_path: Path) -> None:
    path = tmp_path / "k.amk.json"
    text = '{\n\t"$schema": "../x.json",\n' + RACY[2:].replace('"threads": 128', '"threads":   128').replace(
        "\n", "\r\n"
    )
    path.write_bytes(text.encode())
    assert command("k.amk.json", "--fix")[0] == 0
    new = path.read_bytes().decode()
    assert new.replace('{"kind": "sync"},\r\n    ', "") == text


def test_permissions_and_links_stay(command: Any, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "k.json", tmp_path / "k.amk.json"
    real.write_text(RACY)
    real.chmod(0o640)
    link.symlink_to("real/k.json")
    assert command("k.amk.json", "--fix")[0] == 0
    assert link.is_symlink() and stat.S_IMODE(real.stat().st_mode) == 0o640 and "sync" in real.read_text()


@pytest.mark.parametrize("broken", ["mkstemp", "fsync", "replace", "chmod"])
def test_a_failure_loses_nothing(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    path, other = tmp_path / "a.amk.json", tmp_path / "b.amk.json"
    path.write_text(RACY), other.write_text(RACY)

    def fail(*args: object, **more: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as m:
        m.setattr(tempfile if broken == "mkstemp" else files.os, broken, fail)
        code, out, err = command("a.amk.json", "--fix", "--json")
    assert code == 2 and path.read_text() == RACY
    assert "cannot write a.amk.json: No space left on device" in err
    (result,) = json.loads(out)["results"]
    assert result["refused"].startswith("cannot write") and "repairs" not in result
    assert result["diagnostics"][0]["code"] == "AMK301"  # what is there still
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "cache") == ["a.amk.json", "b.amk.json"]
    assert command("a.amk.json", "b.amk.json", "--fix")[0] == 0


def test_a_file_that_changed_meanwhile_is_left_alone(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "k.amk.json"
    path.write_text(RACY)
    real = amk.cli.fix._write

    def late(d: Any, data: bytes) -> None:
        path.write_text("mine now")
        real(d, data)

    monkeypatch.setattr(amk.cli.fix, "_write", late)
    code, _, err = command("k.amk.json", "--fix")
    assert code == 2 and "changed by somebody else" in err and path.read_text() == "mine now"


def test_a_pipe_is_no_file_to_write(command: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="no regular file"):
        replace_bytes(tmp_path / "pipe", b"x")
    # as `amk check --fix <(make-it)` does
    script = f"{sys.executable} -m amk check --fix <(cat racy.json); echo code $?"
    (tmp_path / "racy.json").write_text(RACY)
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=tmp_path, env=environment())
    assert "code 2" in done.stdout and "Traceback" not in done.stderr and "error: " in done.stderr


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


def test_new_files_have_the_usual_permissions(tmp_path: Path) -> None:
    replace_bytes(tmp_path / "new", b"text")
    (tmp_path / "other").write_text("text")
    modes = [stat.S_IMODE((tmp_path / n).stat().st_mode) for n in ("new", "other")]
    assert modes[0] == modes[1] and (tmp_path / "new").read_bytes() == b"text"
    Target.find("h200").save(tmp_path / "t.json")
    assert Target.load(tmp_path / "t.json").name == "h200"


# ------------------------------------------------------------------------------------------------------- standard input
def test_standard_input_goes_to_standard_output(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def feed(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))

    feed(RACY)
    code, out, err = command("-", "--fix")
    assert code == 0 and check(KernelDescriptor.from_json(out)).ok and "repaired AMK301" in err
    feed(out)
    assert command("-", "--fix")[1] == out
    feed("{ broken")
    code, out, err = command("-", "--fix")
    assert code == 2 and out == "{ broken" and "AMK001" in err  # what comes in is never lost
    feed(RACY)
    code, out, err = command("-", "--fix", "--format", "json")
    assert json.loads(err)["results"][0]["repairs"][0]["code"] == "AMK301" and "sync" in out


def test_standard_input_stands_alone(command: Any, tmp_path: Path) -> None:
    (tmp_path / "k.amk.json").write_text(RACY)
    code, out, err = command("-", "k.amk.json", "--fix")
    assert code == 2 and out == "" and "stands alone" in err and (tmp_path / "k.amk.json").read_text() == RACY


# --------------------------------------------------------------------------------------------------------------- --diff
def test_a_diff_changes_nothing_and_can_be_applied(command: Any, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    paths = [tmp_path / "a.amk.json", tmp_path / "sub" / "b.amk.json"]
    for path in paths:
        path.write_text(RACY.rstrip("\n") if path.name[0] == "b" else RACY)
    old = [p.read_text() for p in paths]
    code, out, err = command(".", "--diff")
    assert code == 1 and [p.read_text() for p in paths] == old  # the code is that of the files as they are
    assert out.count('+    {"kind": "sync"},\n') == 2 and out.startswith("--- a/")
    assert "would repair AMK301" in err and "AMK301 shared data race" in err
    (tmp_path / "patch").write_text(out)
    subprocess.run(["git", "apply", "--unsafe-paths", "patch"], check=True, cwd=tmp_path)
    assert command(".")[0] == 0
    assert command(".", "--diff")[:2] == (0, "")


def test_a_diff_in_json(command: Any, tmp_path: Path) -> None:
    (tmp_path / "k.amk.json").write_text(RACY)
    code, out, err = command("k.amk.json", "--diff", "--json")
    (result,) = json.loads(out)["results"]
    assert code == 1 and err == "" and '+    {"kind": "sync"},' in result["diff"]
    assert result["diagnostics"][0]["code"] == "AMK301" and result["repairs"][0]["fix"]["safe"] is True


def test_fix_and_diff_exclude_each_other(command: Any) -> None:
    assert command("k.amk.json", "--diff", "--fix")[0] == 2


# ------------------------------------------------------------------------------------------------------- with the rest
def test_repairs_do_not_depend_on_what_is_shown(command: Any, tmp_path: Path) -> None:
    path = tmp_path / "k.amk.json"
    path.write_text(RACY)
    code, out, _ = command("k.amk.json", "--fix", "--ignore", "AMK3", "--strict")
    assert code == 0 and "repaired AMK301" in out


def test_what_is_left_decides_the_code(command: Any, tmp_path: Path) -> None:
    body = [small()["body"][0], {"kind": "store", "dst": "z[i]", "values": ["1"]}]  # an integer, and no guard
    (tmp_path / "k.amk.json").write_text(example(body=body).to_json())
    code, out, _ = command("k.amk.json", "--fix")
    assert code == 0 and "repaired AMK004" in out and "repaired AMK201" in out
    (tmp_path / "k.amk.json").write_text(scattered("AMK301", "no").to_json())
    code, out, _ = command("k.amk.json", "--fix")
    assert code == 0 and "repaired AMK090" in out and "AMK501" in out  # the warning that was there is left


def test_a_repaired_file_can_be_certified_at_once(command: Any, tmp_path: Path) -> None:
    (tmp_path / "k.amk.json").write_text(RACY)
    code, out, _ = command("k.amk.json", "--fix", "--certify", "--json")
    assert code == 0 and json.loads(out)["results"][0]["certificate"]


def test_several_files_and_targets(command: Any, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.amk.json").write_text(RACY)
    (tmp_path / "c.amk.json").write_text("{")
    code, out, _ = command(".", "--fix", "--target", "sm_80", "--target", "h200", "--json")
    results = json.loads(out)["results"]
    assert code == 2 and [(r["file"], r["target"]) for r in results] == [
        ("./a.amk.json", "sm_80"), ("./a.amk.json", "h200"), ("./b.amk.json", "sm_80"), ("./b.amk.json", "h200"),
        ("./c.amk.json", ""),
    ]  # fmt: skip
    assert [len(r.get("repairs", [])) for r in results] == [1, 0, 1, 0, 0] and (
        tmp_path / "c.amk.json"
    ).read_text() == "{"


def test_an_unknown_target_changes_nothing(command: Any, tmp_path: Path) -> None:
    (tmp_path / "k.amk.json").write_text(RACY.replace('"sm_80"', '"sm_81"'))
    code, out, _ = command("k.amk.json", "--fix")
    assert code == 2 and "sm_81" in out and "sync" not in (tmp_path / "k.amk.json").read_text()


def test_our_own_fault_changes_nothing(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import amk.harness.check as module

    def crash(*args: object, **how: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(module, "check", crash)
    monkeypatch.setattr("amk.harness.mend.check", crash)
    (tmp_path / "k.amk.json").write_text(RACY)
    code, out, _ = command("k.amk.json", "--fix")
    assert code == 4 and "AMK900" in out and (tmp_path / "k.amk.json").read_text() == RACY
