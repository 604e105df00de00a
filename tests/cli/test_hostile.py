"""Files, arguments and streams that nobody sane would hand over: a sentence and the right exit code, and no waiting."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amk.cli.main import main
from amk.harness.samples import vector_add

Amk = Callable[..., tuple[int, str]]
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /dev/zero, /dev/full and named pipes")
GOOD = json.loads(vector_add().to_json())


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AMK_CACHE_DIR", str(tmp_path / "cache"))
    Path("good.amk.json").write_text(json.dumps(GOOD))
    np.save("x.npy", np.zeros(8, np.float32))
    return tmp_path


@pytest.fixture
def amk(here: Path, capsys: pytest.CaptureFixture[str]) -> Amk:
    """One command in this process: its exit code and all it said, free of anything that could drive a terminal."""

    def run(*args: object) -> tuple[int, str]:
        code = main(list(map(str, args)))
        out, err = capsys.readouterr()
        said = out + err
        assert code in (0, 1, 2, 3) and "Traceback" not in said and "fault of amk" not in said, said[-2000:]
        assert all(c.isprintable() or c in "\n\xa0" for c in said), said[-2000:]
        return code, said

    return run


def nested(depth: int) -> dict[str, Any]:
    body: list[Any] = []
    for _ in range(depth):
        body = [{"kind": "if", "cond": "t < 3", "body": body}]
    return {**GOOD, "body": body}


def let(value: str) -> dict[str, Any]:
    return {**GOOD, "body": [{"kind": "let", "name": "q", "value": value}]}


def growing(n: int, value: str) -> dict[str, Any]:
    first = {"kind": "let", "name": "q0", "value": "t"}
    rest = [{"kind": "let", "name": f"q{i}", "value": value.replace("q", f"q{i - 1}")} for i in range(1, n)]
    return {**GOOD, "body": [first, *rest]}


ENDLESS = {"kind": "for", "var": "i", "lo": "0", "hi": "2147483647", "body": [
    {"kind": "for", "var": "j", "lo": "0", "hi": "2147483647", "body": [
        {"kind": "store", "dst": "a[0]", "values": ["1.0"]}]}]}  # fmt: skip
TEXT = json.dumps(GOOD)
FILES: dict[str, bytes | str | dict[str, Any]] = {
    "truncated": TEXT[: len(TEXT) // 2], "binary": bytes(range(256)) * 20, "bom": "\ufeff" + TEXT, "empty": "",
    "utf16": TEXT.encode("utf-16"), "nul": "\0" * 100, "long name": {**GOOD, "name": "a" * 10**6},
    "long key": {**GOOD, "k" * 10**6: 1}, "deep array": "[" * 10**5 + "]" * 10**5, "deep object": '{"a":' * 10**5,
    "deep body": nested(28), "deeper body": nested(60), "nan": TEXT.replace("64", "NaN", 1),
    "infinite": TEXT.replace("64", "1e999", 1), "huge": TEXT.replace("64", "9" * 5000, 1), "64 bits": TEXT.replace(
        "64", "9" * 20, 1), "twice": '{"name": "x",' + TEXT[1:], "parentheses": let("(" * 5000 + "1" + ")" * 5000),
    "long sum": let("1" + "+1" * 30000), "doubling": growing(60, "q+q"), "chain": growing(2000, "q+1"),
    "terminal name": {**GOOD, "name": "\x1b]0;owned\x07x"}, "terminal expression": let("\x1b[31m+1"),
    "terminal key": {**GOOD, "\x1b[2Jx": 1}, "terminal target": {**GOOD, "target": "sm_80\x1b[2J"},
    "terminal place": {**GOOD, "body": [{"kind": "let", "name": "q", "value": "zz", "at": "\x1b[2Jx:1"}]},
    "right to left": {**GOOD, "origin": {"agent": "\u202eevil", "operator": "\x1b[2J"}},
    "array": "[]", "null": "null", "many values": "[" + "1," * 500_000 + "1]", "large": " " * (17 << 20),
    "no threads": {**GOOD, "threads": 0}, "half threads": {**GOOD, "threads": 64.5}, "true": {**GOOD, "threads": True},
    "endless loop": {**GOOD, "body": [ENDLESS]}, "grid of floats": {**GOOD, "grid": ["1.5"]}, "no grid": {
        **GOOD, "grid": []}, "grid of threads": {**GOOD, "grid": ["t"]}, "negative grid": {**GOOD, "grid": ["0 - 1"]},
    "four axes": {**GOOD, "grid": ["1"] * 4}, "number grid": {**GOOD, "grid": [4]}, "surrogate": '{"name": "\\ud800"}',
    "next format": {**GOOD, "format": 2}, "no format": {**GOOD, "format": None}, "C word": {**GOOD, "name": "class"},
    "line break": {**GOOD, "name": "a\nb"}, "shape 0": {**GOOD, "buffers": [{**GOOD["buffers"][0], "shape": [0]}]},
    "registers": {**GOOD, "buffers": [{**GOOD["buffers"][0], "shape": [2**31]}]},
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_every_command_takes_every_file(amk: Amk, name: str) -> None:
    data = FILES[name]
    raw = json.dumps(data) if isinstance(data, dict) else data
    Path("bad.amk.json").write_bytes(raw if isinstance(raw, bytes) else raw.encode("utf-8", "surrogatepass"))
    for command in (["check"], ["check", "--format", "github"], ["describe"], ["emit"]):
        amk(command[0], "bad.amk.json", *command[1:])
    for form in ("json", "sarif"):
        json.loads(amk("check", "bad.amk.json", "--format", form)[1])
    assert amk("check", "good.amk.json", "--target", "bad.amk.json")[0] == 2


def test_many_named_values_do_not_cost_their_square() -> None:
    from time import process_time

    from amk.dsl.kernel import KernelDescriptor
    from amk.harness.form import undefined

    def seconds(n: int) -> float:
        """Of this process alone, and the least of three: other work may run beside."""
        body = [{"kind": "let", "name": f"q{i}", "value": "t + 1"} for i in range(n)]
        kernel, spent = KernelDescriptor.model_validate({**GOOD, "body": body}), []
        for _ in range(3):
            start = process_time()
            assert not list(undefined(kernel))
            spent.append(process_time() - start)
        return min(spent)

    seconds(100)
    assert seconds(8000) < 16 * max(seconds(1000), 0.002)


# --------------------------------------------------------------------------------------------- what is no plain file
ODD = ["folder", "loop", "missing", "", "a" * 5000, "x\0y", "line\nbreak", "\x1b[2J", "/dev/null", "/dev/zero"]


@linux
@pytest.mark.parametrize("path", ODD)
def test_paths_that_are_no_descriptors(amk: Amk, path: str) -> None:
    os.mkdir("folder")
    os.symlink("loop", "loop")
    for command in ("check", "describe", "emit", "compile"):
        assert amk(command, path)[0] == 2
    assert amk("check", "good.amk.json", "--target", path + ".json")[0] == 2
    assert amk("run", "good.amk.json", "--arg", f"x={path or '.'}")[0] == 2


@linux
def test_a_pipe_without_its_other_end_is_not_waited_for(here: Path) -> None:
    """As a file, in a folder, as a target, as an array and as an output."""
    os.mkdir("in")
    for name in ("pipe", "pipe.json", "in/pipe.amk.json", "pipe.npy"):
        os.mkfifo(name)
    os.symlink("/dev/zero", "in/zero.amk.json")
    os.symlink("gone", "in/gone.amk.json")
    good = "good.amk.json"
    commands = [
        ["check", "pipe"], ["check", "in"], ["describe", "pipe"], ["check", good, "--target", "pipe.json"],
        ["run", good, "--arg", "x=pipe.npy"], ["new", "gemm", "--m", "8", "--n", "8", "--k", "8", "-o", "pipe"],
    ]  # fmt: skip
    running = [
        subprocess.Popen([sys.executable, "-m", "amk", *c], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for c in commands
    ]
    for command, process in zip(commands, running, strict=True):
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == 2 and b"Traceback" not in out + err, (command, err)


@linux
@pytest.mark.parametrize("wait", [0.0, 0.5])
def test_a_pipe_with_a_writer_is_read_to_its_end(amk: Amk, wait: float) -> None:
    """Also one whose writer is slow, and more than a pipe holds at once."""
    os.mkfifo("pipe")
    text = TEXT + " " * 200_000

    def write() -> None:
        with open("pipe", "w") as file:
            pause.wait(wait)
            file.write(text)

    pause = threading.Event()
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)  # so that the writer is there before the command looks
    thread = threading.Thread(target=write)
    thread.start()
    pause.wait(0.1)
    # The pipe is opened again by the command; ours must not take part of the text.
    code, _ = amk("check", "pipe")
    os.close(reader)
    thread.join()
    assert code == 0


def test_names_cannot_drive_a_terminal(amk: Amk) -> None:
    for name in ("bad\x1b[31m.amk.json", "bad\nname.amk.json", "\u202ebad.amk.json", "-dash.amk.json"):
        Path(name).write_text("{")
    assert amk("check", ".")[0] == 2
    assert amk("check", "./-dash.amk.json")[0] == 2
    amk("check", ".", "--format", "sarif")
    amk("check", ".", "--format", "github")


@linux
@pytest.mark.parametrize("path", ["folder", "missing/x", "a" * 5000, "", "x\0", "loop", "/dev/full"])
def test_outputs_that_cannot_be_written(amk: Amk, path: str) -> None:
    os.mkdir("folder")
    os.symlink("loop", "loop")
    sizes = ["--m", "8", "--n", "8", "--k", "8"]
    assert amk("new", "gemm", *sizes, "-o", path)[0] == (0 if path == "" else 2)  # no -o: it is printed
    if path not in ("folder", "", "/dev/full"):
        assert amk("rules", "--write", path + ("/x" if path == "loop" else ""))[0] == (0 if path == "missing/x" else 2)
    if path in ("loop", "x\0"):
        assert amk("demo", "--folder", path, "--json")[0] == 2


# ---------------------------------------------------------------------------------------------------- arrays of a run
def array_file(kind: str) -> bytes:
    """Bytes of a .npy file, damaged or of another kind."""
    out = io.BytesIO()

    def header(text: str) -> bytes:
        return b"\x93NUMPY\x01\x00\x76\x00" + text.encode().ljust(117) + b"\n"

    arrays: dict[str, Any] = {
        "double": np.zeros(8), "scalar": np.float32(3), "complex": np.zeros(8, "c8"), "swapped": np.zeros(8, ">f4"),
        "records": np.zeros(3, [("a", "f4")]), "text": np.array(["a"]), "truth": np.zeros(8, bool), "plane": np.zeros(
            (2, 4), "f4"), "objects": np.array([{}, 1], dtype=object),
    }  # fmt: skip
    if kind in arrays:
        np.save(out, arrays[kind], allow_pickle=True)
    elif kind == "several":
        np.savez(out, x=np.zeros(8, "f4"))
    raw = {
        "empty": b"", "pickle": pickle.dumps({"a": 1}), "zip": b"PK\x03\x04" + b"\1" * 100,
        "expression": header("{'descr': '<f4', 'fortran_order': False, 'shape': (10**12,), }"),
        "too large": header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }"),
        "negative": header("{'descr': 'V99999999999', 'fortran_order': False, 'shape': (-1,), }"),
        "short": header("{'descr': '<f4', 'fortran_order': False, 'shape': (8,), }") + b"\0" * 4,
    }  # fmt: skip
    return raw.get(kind, out.getvalue())


@pytest.mark.parametrize("kind", [
    "double", "scalar", "complex", "swapped", "records", "text", "truth", "plane", "objects", "several", "empty",
    "pickle", "zip", "expression", "too large", "negative", "short",
])  # fmt: skip
def test_arrays_that_are_none(amk: Amk, kind: str) -> None:
    Path("bad.npy").write_bytes(array_file(kind))
    assert amk("run", "good.amk.json", "--device", "cpu", "--arg", "x=bad.npy", "--arg", "y=x.npy")[0] == 2


@pytest.mark.parametrize("options", [
    ["--arg", "n=-5"], ["--arg", "n=1000000000000000"], ["--arg", "n=nan"], ["--arg", "n=1e999"], ["--arg", "n=0x10"],
    ["--arg", "n=" + "9" * 5000], ["--arg", "n=x.npy"], ["--arg", "x"], ["--arg", "=x"], ["--arg", "q=1"],
    ["--out", "z"], ["--out", "q=z.npy"], ["--out", "n=z.npy"], ["--device", "\x1b[2J"], ["--device", "\u00b2"],
    ["--seed", "-1"], ["--seed", "9" * 40],
], ids=lambda o: " ".join(o)[:30])  # fmt: skip
def test_arguments_of_a_run(amk: Amk, options: list[str]) -> None:
    given = ["--arg", "x=x.npy", "--arg", "y=x.npy"]
    assert (
        amk("run", "good.amk.json", *([] if "--device" in options else ["--device", "cpu"]), *given, *options)[0] == 2
    )


@pytest.mark.parametrize("args", [
    ["explain", "\x1b[2J"], ["explain", ""], ["explain", "A" * 10**5], ["frob\x1b[2J"], [""], ["--", "check"],
    ["check"], ["check", "x", "--format", "\x1b"], ["check", "--select", "\x1b[2J", "x"],
    ["check", "good.amk.json", "--target", "a" * 9999],
    ["targets", "\x1b[2J"], ["targets", "--detect", "--device", "-1"], ["selftest", "x"],
    ["selftest", "soundness", "--seeds", "x"], ["new", "nope"], ["new", "gemm"], ["bench", "nope"],
    ["new", "gemm", "--m", "9" * 25, "--n", "1", "--k", "1"], ["new", "gemm", "--m", "1.5"],
    ["new", "gemm", "--m", "1", "--n", "1", "--k", "1", "--bm", "0"],
    ["run", "gemm", "--m", "1", "--n", "1", "--k", "1", "--seed", "-1"], ["run", "nope"],
], ids=lambda a: " ".join(a)[:40])  # fmt: skip
def test_arguments(amk: Amk, args: list[str]) -> None:
    assert amk(*args)[0] == 2


def test_too_little_memory_is_no_fault_of_ours(amk: Amk, monkeypatch: pytest.MonkeyPatch) -> None:
    def hungry(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("amk.cli.execute.run_operator", hungry)
    assert "memory" in amk("run", "gemm", "--m", "1", "--n", "1", "--k", "1")[1]


# ---------------------------------------------------------------------------------------------------------- the cache
@linux
@pytest.mark.parametrize("damage", ["file", "loop", "short", "random", "pipe", "device", "folder", "names"])
def test_a_damaged_cache(amk: Amk, damage: str) -> None:
    cache = Path("cache")
    if damage == "file":
        cache.write_text("x")
    elif damage == "loop":
        cache.symlink_to("cache")
    else:
        assert amk("emit", "good.amk.json")[0] == 0
        folder = cache / ("a" * 64)
        folder.mkdir(parents=True, mode=0o700)
        os.chmod(cache, 0o700)
        for name in ("entry.json", "kernel.cubin", "key.json", "source.cu", "certificate.json"):
            spoil(folder / name, damage)
    for action in ("ls", "verify", "gc"):
        assert amk("cache", action, "--folder", "cache")[0] in (0, 1, 2)
        amk("cache", action, "--folder", "cache", "--json")


def spoil(path: Path, damage: str) -> None:
    make: dict[str, Callable[[], object]] = {
        "short": lambda: path.write_bytes(b"{"),
        "random": lambda: path.write_bytes(bytes(range(256))),
        "pipe": lambda: os.mkfifo(path),
        "device": lambda: path.symlink_to("/dev/zero"),
        "folder": lambda: path.mkdir(),
        "names": lambda: path.with_name(path.name + "\x1b[2J\n").write_text("x"),
    }
    make[damage]()


# ------------------------------------------------------------------------------------------------------------ streams
@linux
@pytest.mark.parametrize("command, code", [
    ("amk rules > /dev/full", 2), ("amk check good.amk.json > /dev/full", 2), ("amk check - <&-", 2),
    ("amk rules >&- 2>&-", 0), ("amk check nothing.json --format sarif", 2), ("amk schema | head -1", 0),
    ("amk check nothing.json good.amk.json --json | head -1", 2),
])  # fmt: skip
def test_streams_that_are_closed_or_full(here: Path, command: str, code: int) -> None:
    """And the folder where the command runs goes away as well."""
    os.mkdir("gone")
    script = command.replace("amk", f"{sys.executable} -m amk", 1).replace("good.amk.json", str(here / "good.amk.json"))
    whole = f"cd gone && rmdir ../gone && set -o pipefail && {script}; exit ${{PIPESTATUS[0]}}"
    run = subprocess.run(["bash", "-c", whole], capture_output=True, timeout=60, check=False)
    assert (run.returncode, b"Traceback" in run.stderr + run.stdout) == (code, False), run.stderr
