"""`amk new`, `cache`, `doctor`, and the refusals of `run` and `bench`."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

import amk
from amk.cli.environment import VARIABLES
from amk.cli.main import main
from amk.dsl.kernel import KernelDescriptor

SIZES = ("--m", "64", "--n", "48", "--k", "32")


def new(capsys: pytest.CaptureFixture[str], *args: str) -> KernelDescriptor:
    assert main(["new", "gemm", *SIZES, *args]) == 0
    return KernelDescriptor.from_json(capsys.readouterr().out)


def test_new_is_the_agents_choice_with_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = new(capsys, "--target", "sm_80")
    assert kernel.target == "sm_80" and kernel.origin is not None
    assert kernel.origin.agent == "rules 1" and kernel.origin.reasons
    assert kernel.hash == new(capsys, "--target", "sm_80").hash


def test_new_takes_choices(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = new(capsys, "--layout", "tn", "--bm", "64", "--bn", "64", "--tm", "4", "--tn", "4", "--stages", "3")
    assert kernel.origin is not None and kernel.origin.agent.endswith("changed by hand")
    assert kernel.origin.problem["trans_a"] and not kernel.origin.problem["trans_b"]
    assert [b.shape[0] for b in kernel.buffers if b.name == "a"] == [3]
    assert "M" in {p.name for p in new(capsys, "--symbolic").scalars}
    assert "M" not in {p.name for p in new(capsys, "--specialise").scalars}


@pytest.mark.parametrize(("args", "said"), [
    (["gemm", "--m", "3", "--n", "3"], "--k: Field required"),
    (["gemm", "--m", "-1", "--n", "3", "--k", "3"], "--m: Input should be"),
    (["gemm", *SIZES, "--bm", "17"], "'17' is none of 16, 32"),
    (["gemm", *SIZES, "--bm", "16", "--tm", "16"], "schedule: "),
    (["gemm", *SIZES, "--target", "sm_11"], "no target is called"),
    (["gem"], "there is no operator 'gem'"),
])  # fmt: skip
def test_new_refuses(args: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", *args]) == 2
    assert said in capsys.readouterr().err


def test_new_writes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "gemm", *SIZES, "-o", "k.amk.json"]) == 0
    KernelDescriptor.from_json((tmp_path / "k.amk.json").read_text())
    assert main(["new", "gemm", *SIZES, "-o", "none/k.amk.json"]) == 2
    assert "cannot write none/k.amk.json: No such file" in capsys.readouterr().err


def test_doctor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMK_CASH_DIR", "x")
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in (*VARIABLES, "python", "nvrtc", "z3", "cache"))
    assert "AMK_CASH_DIR" in out and "is not a variable of amk" in out
    assert main(["doctor", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert {f["name"] for f in data["findings"]} >= {"python", "gpu", "nvrtc", "z3", "cache"}
    assert data["unknown_variables"] == ["AMK_CASH_DIR"]


def read_from_the_environment() -> set[str]:
    """Every variable that the code reads: get, getenv, setdefault, pop, a subscript or `in` of os.environ."""
    found: set[str] = set()
    for path in Path(amk.__file__).parent.rglob("*.py"):
        for n in ast.walk(ast.parse(path.read_text())):
            named: list[ast.expr] = []
            if isinstance(n, ast.Call) and re.search(r"environ\.(get|setdefault|pop)$|getenv$", ast.unparse(n.func)):
                named = n.args[:1]
            elif isinstance(n, ast.Subscript) and ast.unparse(n.value).endswith("environ"):
                named = [n.slice]
            elif isinstance(n, ast.Compare) and ast.unparse(n.comparators[0]).endswith("environ"):
                named = [n.left]
            found |= {x.value if isinstance(x, ast.Constant) else f"{path.name}:{n.lineno}" for x in named}
    return found


def test_the_table_of_variables_is_what_the_code_reads() -> None:
    """No variable is read that the table does not have, and none is in it that nothing reads."""
    own = {"environment.py:" + str(n) for n in range(1, 100)}  # the table's own reading of each of its names
    others = {"COLUMNS", "NO_COLOR", "TERM", "XDG_CACHE_HOME", "PYDANTIC_DISABLE_PLUGINS", "GITHUB_WORKSPACE"}
    assert read_from_the_environment() - own - others == VARIABLES.keys()


def test_no_text_names_a_variable_that_is_none() -> None:
    """In the code, its messages, the documents and the tests' own settings."""
    root = Path(__file__).parents[2]
    texts = [*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "amk").rglob("*.py"), root / ".ci" / "run"]
    named = {x for p in texts for x in re.findall(r"\bAMK_[A-Z_]+\b", p.read_text())}
    assert named - {"AMK_"} == VARIABLES.keys()


def test_cache(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from amk.synth.cache import Cache, CacheKey, Entry

    key = CacheKey("d" * 64, "sm_90a", "h200", "rules 1", "13.0", (), "t", "0.1.0")
    Cache(tmp_path / "cache").put(key, Entry(b"cubin", "text", "log", "{}"))
    assert main(["cache", "ls"]) == 0
    assert "sm_90a  h200    rules 1" in capsys.readouterr().out
    assert main(["cache", "verify", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"good": 1, "damaged": []}
    (tmp_path / "cache" / "v1" / key.digest() / "kernel.cubin").write_bytes(b"other")
    assert main(["cache", "verify"]) == 1
    assert "moved away" in capsys.readouterr().out
    assert main(["cache", "gc", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == 0


def test_bench_needs_a_gpu(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from amk.runtime import device

    none = device.DeviceStatus(False, 0, "none", "there is no driver", "install it", ())
    monkeypatch.setattr(device, "probe", lambda: none)
    assert main(["bench", "gemm", *SIZES]) == 2
    assert capsys.readouterr().err == "amk: error: amk bench needs a GPU: there is no driver\n  try: install it\n"


@pytest.mark.parametrize(("args", "said"), [
    (["--arg", "x"], "'x' is no NAME=VALUE"),
    (["--arg", "x=none.npy"], "cannot read none.npy"),
    (["--arg", "y=1"], "has no argument 'y'"),
    ([], "the shape of z is not known"),
])  # fmt: skip
def test_run_file_refuses(args: list[str], said: str, write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    write("kernel")
    assert main(["run", "kernel.amk.json", "--device", "cpu", *args]) == 2
    assert said in capsys.readouterr().err


def test_run_never_unpickles(write: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    write("kernel")
    np.save(tmp_path / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
    assert main(["run", "kernel.amk.json", "--arg", "x=x.npy"]) == 2
    assert "cannot read x.npy" in capsys.readouterr().err
