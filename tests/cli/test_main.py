"""The frame: help, version, errors, exit codes, pipes, interrupts, start-up cost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from amk import __version__
from amk.cli import main as frame
from amk.cli.main import COMMANDS, main
from amk.errors import AmkError

HEAVY = ("cuda", "numpy", "z3", "jinja2", "rich", "networkx")


def amk(*args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "amk", *args], capture_output=True, text=True, check=False, **options)


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"amk {__version__}\n"
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in COMMANDS)
    assert main([]) == 2


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_json(name: str, capsys: pytest.CaptureFixture[str], harness: Any) -> None:
    assert main([name, "--help"]) == 0
    assert "--json" in capsys.readouterr().out


def test_unknown_command_suggests(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chekc"]) == 2
    assert capsys.readouterr().err == "amk: error: there is no command 'chekc'\n  try: amk check\n"


def test_bad_option_is_unusable_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "x.json", "--format", "yaml"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("amk: error: ") and "try: amk check --help" in err


def test_start_is_quick_and_light() -> None:
    """30 ms over a bare interpreter on an idle core; and nothing heavy is loaded, which keeps it so."""
    pairs = [(_seconds("-m", "amk", "--version"), _seconds("-c", "")) for _ in range(7)]
    assert min(p[0] for p in pairs) - min(p[1] for p in pairs) < 0.15
    probe = (
        "import sys; from amk.cli.main import main; main(['--version']); "
        f"print([m for m in sys.modules if m.split('.')[0] in {(*HEAVY, 'pydantic')!r}])"
    )
    assert subprocess.check_output([sys.executable, "-c", probe], text=True).splitlines()[-1] == "[]"


def _seconds(*args: str) -> float:
    """Processor time of a command: other work may run beside it."""

    def spent() -> float:
        t = os.times()
        return t.children_user + t.children_system

    start = spent()
    subprocess.run([sys.executable, *args], capture_output=True, check=True)
    return spent() - start


@pytest.mark.parametrize("code", [1, 2, 3, 4])
def test_amk_errors_are_sentences(
    code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = AmkError("it \x1b[31mbroke", hint="mend it")
    fault.exit_code = code
    monkeypatch.setattr(frame, "_dispatch", lambda argv: (_ for _ in ()).throw(fault))
    assert main(["check"]) == code
    assert capsys.readouterr().err == "amk: error: it broke\n  try: mend it\n"


def test_our_own_fault_leaves_a_report(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(frame, "_dispatch", lambda argv: 1 // 0)
    assert main(["check"]) == 4
    err = capsys.readouterr().err
    assert "Traceback" not in err and "ZeroDivisionError" in err
    report = Path(err.split("send ")[1].split(" with")[0])
    assert "Traceback" in report.read_text() and __version__ in report.read_text()
    report.unlink()


def test_debug_keeps_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMK_DEBUG", "1")
    monkeypatch.setattr(frame, "_dispatch", lambda argv: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        main(["check"])


def test_interrupt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def stopped(argv: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(frame, "_dispatch", stopped)
    assert main(["check"]) == 130
    assert capsys.readouterr().err == "amk: interrupted\n"


def test_interrupt_of_a_process() -> None:
    command = [sys.executable, "-m", "amk", "check", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        time.sleep(1)  # it waits for standard input by now
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=30) == 130
        assert run.stderr is not None and run.stderr.read() == "amk: interrupted\n"


def test_a_closed_pipe_keeps_the_exit_code() -> None:
    read, written = os.pipe()
    os.close(read)
    with subprocess.Popen([sys.executable, "-m", "amk", "schema"], stdout=written, stderr=subprocess.PIPE) as run:
        os.close(written)
        _, err = run.communicate(timeout=60)
    assert (run.returncode, err) == (0, b"")


def test_closed_stdout() -> None:
    run = subprocess.run(["sh", "-c", f"{sys.executable} -m amk --version >&-"], capture_output=True, check=False)
    assert (run.returncode, run.stderr) == (0, b"")


def test_a_terminal_without_the_characters() -> None:
    run = amk("--help", env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert run.returncode == 0 and "\\u2026" in run.stdout


def test_targets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["targets", "--json"]) == 0
    assert {"sm_80", "sm_90a", "h200"} <= {t["name"] for t in json.loads(capsys.readouterr().out)}
    assert main(["targets", "h200", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["architecture"] == "sm_90a"
    assert main(["targets", "sm_99"]) == 2
