"""The command over the real harness, printer and compiler: what a user sees."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amk.cli.demo import without_sync
from amk.cli.main import main
from amk.dsl.kernel import KernelDescriptor, walk

GEMM = ("gemm", "--m", "64", "--n", "48", "--k", "32")


@pytest.fixture
def gemm(tmp_path: Path) -> Path:
    path = tmp_path / "gemm.amk.json"
    assert main(["new", *GEMM, "-o", str(path)]) == 0
    return path


def test_a_kernel_that_leaves_its_array(vector_add: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.json").write_text(vector_add(guarded=False).to_json())
    assert main(["check", "bad.json", "--json"]) == 1
    (result,) = json.loads(capsys.readouterr().out)["results"]
    found = next(d for d in result["diagnostics"] if d["code"].startswith("AMK2"))
    assert found["counterexample"] and found["line"] > 1
    assert main(["explain", found["code"]]) == 0


def test_a_good_kernel_is_clean_and_light(vector_add: Any, tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text(vector_add().to_json())
    heavy = ("cuda", "numpy", "z3", "jinja2", "rich", "networkx")
    probe = (
        "import sys; from amk.cli.main import main; code = main(['check', 'good.json'])\n"
        f"print(code, [m for m in sys.modules if m.split('.')[0] in {heavy!r}])"
    )
    assert subprocess.check_output([sys.executable, "-c", probe], text=True).splitlines()[-1] == "0 []"


def test_a_missing_barrier_is_a_race(gemm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = KernelDescriptor.from_json(gemm.read_text())
    (tmp_path / "broken.json").write_text(without_sync(kernel).to_json())
    assert main(["check", str(gemm)]) == 0
    capsys.readouterr()
    assert main(["check", "broken.json", "--json"]) == 1
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert {d["code"][:4] for d in result["diagnostics"] if d["severity"] == "error"} == {"AMK3"}


def test_without_sync_keeps_the_rest(gemm: Path) -> None:
    kernel = KernelDescriptor.from_json(gemm.read_text())
    kept = [s for _, s in walk(kernel.body) if s.kind != "sync"]
    assert [s.kind for _, s in walk(without_sync(kernel).body)] == [s.kind for s in kept]


def test_emit(vector_add: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "good.json").write_text(vector_add().to_json())
    assert main(["emit", "good.json"]) == 0
    text = capsys.readouterr().out
    assert "__global__" in text and "vector_add" in text
    assert main(["emit", "good.json", "-o", "good.cu", "--json"]) == 0
    assert (tmp_path / "good.cu").read_text() == text
    assert json.loads(capsys.readouterr().out)["meaning"] == "not checked"


def test_emit_refuses_what_is_wrong(vector_add: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.json").write_text(vector_add(guarded=False).to_json())
    assert main(["emit", "bad.json"]) == 1
    out, err = capsys.readouterr()
    assert out == "" and "is refused on sm_80: AMK2" in err


def test_compile(vector_add: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "good.json").write_text(vector_add().to_json())
    assert main(["compile", "good.json", "--target", "sm_80", "--target", "sm_90a", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["target"], second["target"]) == ("sm_80", "sm_90a")
    assert first["registers"] > 0 and first["spill_bytes"] == 0 and first["occupancy"] == 1.0 and not first["cached"]
    assert main(["compile", "good.json", "-o", "good.cubin"]) == 0
    assert (tmp_path / "good.cubin").read_bytes()[:4] == b"\x7fELF"
    assert main(["compile", "good.json", "--target", "all", "-o", "good.cubin"]) == 2


def test_checked_builds(vector_add: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The text has its tests, the binary an entry of its own in the cache, and a run the same result."""
    (tmp_path / "good.json").write_text(vector_add().to_json())
    assert main(["emit", "good.json", "--checked"]) == 0
    assert "amk_in(faults_, " in capsys.readouterr().out
    assert main(["emit", "good.json", "--checked", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["checked"] is True
    made = []
    for options in ((), ("--checked",), ("--checked",)):
        assert main(["compile", "good.json", *options, "--json"]) == 0
        made += json.loads(capsys.readouterr().out)
    assert [m["cached"] for m in made[1:]] == [False, True]
    assert made[0]["cubin_bytes"] < made[1]["cubin_bytes"] == made[2]["cubin_bytes"]
    assert main(["run", *GEMM, "--device", "cpu", "--checked", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["right"]
    np.save(tmp_path / "x.npy", np.arange(5, dtype=np.float32))
    assert main(["run", "good.json", "--device", "cpu", "--checked", "--arg", "x=x.npy", "--arg", "n=5"]) == 0


def test_what_fails_in_a_checked_run_is_told(
    vector_add: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that slipped past the harness: exit code 1, in words and as JSON with all its numbers."""
    from amk.runtime.kernel import CompiledKernel

    monkeypatch.setattr(CompiledKernel, "_certify", lambda self: None)
    (tmp_path / "bad.json").write_text(vector_add(guarded=False).to_json())
    np.save(tmp_path / "x.npy", np.arange(5, dtype=np.float32))
    args = ("run", "bad.json", "--device", "cpu", "--checked", "--arg", "x=x.npy", "--arg", "n=5")
    assert main([*args, "--json"]) == 1
    out, err = capsys.readouterr()
    assert "bounds at /body/1/body/0" in err and "in block (0, 0, 0), thread 5: x[i]: index 0 is 5, outside 0..4" in err
    error = json.loads(out)["error"]
    assert (error["kind"], error["pointer"], error["fault"]["thread"]) == ("KernelFault", "/body/1/body/0", 5)
    assert error["fault"] == error["fault"] | {"operand": "x[i]", "dimension": 0, "index": 5, "limit": 5}


def test_run_an_operator(capsys: pytest.CaptureFixture[str]) -> None:
    for layout in ("nn", "tt"):
        assert main(["run", *GEMM, "--layout", layout, "--device", "cpu", "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert facts["right"] and facts["executor"] == "cpu" and facts["error"] <= facts["tolerance"]


@pytest.mark.slow
def test_run_a_batch_with_beta() -> None:
    args = ("--beta", "any", "--batch", "2", "--layout", "tn", "--lda", "68", "--ldc", "52")
    assert main(["run", *GEMM, *args, "--device", "cpu"]) == 0


def test_run_a_descriptor(vector_add: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "good.json").write_text(vector_add().to_json())
    x = np.arange(5, dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    args = ("--device", "cpu", "--arg", "x=x.npy", "--arg", "n=5", "--out", "z=z.npy")
    assert main(["run", "good.json", *args]) == 0
    assert "names no operator" in capsys.readouterr().out
    assert np.array_equal(np.load(tmp_path / "z.npy"), 2 * x)


def test_run_an_operators_descriptor(gemm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(0)
    np.save(tmp_path / "a.npy", random.standard_normal((64, 32), np.float32))
    np.save(tmp_path / "b.npy", random.standard_normal((32, 48), np.float32))
    np.save(tmp_path / "c.npy", np.zeros((64, 48), np.float32))
    arrays = [x for n in "ABC" for x in ("--arg", f"{n}={n.lower()}.npy")]
    assert main(["run", str(gemm), "--device", "cpu", *arrays, "--arg", "alpha=2.0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["right"] is True


def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = time.perf_counter()
    assert main(["demo"]) == 0
    assert time.perf_counter() - start < 60
    out = capsys.readouterr().out
    assert all(word in out for word in ("AMK3", "counterexample", "sm_120", "right", "amk describe"))
    files = {p.name for p in (tmp_path / "amk-demo").iterdir()}
    assert {"gemm.amk.json", "broken.amk.json", "sm_80.cu", "sm_90a.cubin"} <= files
    assert main(["demo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run"]["right"] is True


def test_a_refusal_has_the_code_of_the_check(tmp_path: Path, vector_add: Any) -> None:
    data = json.loads(vector_add().to_json())
    data["body"][1]["body"][0]["src"] = "nowhere[i]"
    (tmp_path / "bad.json").write_text(json.dumps(data))
    assert [main([command, "bad.json"]) for command in ("check", "emit", "compile")] == [2, 2, 2]


def test_a_file_on_one_line_shows_the_place(
    tmp_path: Path, vector_add: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.json").write_text(json.dumps(vector_add(guarded=False).to_dict()))
    assert main(["check", "bad.json"]) == 1
    assert '     1  |  {"kind": "load", "dst": "a[0]"' in capsys.readouterr().out


@pytest.mark.parametrize("args", [("check", "--certify"), ("emit",), ("compile",), ("run", "--device", "cpu")])
def test_an_xor_kept_on_one_side_is_safe_and_wrong(
    args: tuple[str, ...], gemm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Plain `check` has no rule against it (docs/why.md); whatever needs a certificate refuses it with AMK403."""
    text = gemm.read_text()
    assert text.count('"src": "a[slot, wm + lm, q * 4]"') == 1
    (tmp_path / "xor.json").write_text(text.replace("a[slot, wm + lm, q * 4]", "a[slot, wm + lm, (q ^ 1) * 4]"))
    assert main(["check", "xor.json"]) == 0
    if args[0] == "run":
        for name, shape in (("A", (64, 32)), ("B", (32, 48)), ("C", (64, 48))):
            np.save(tmp_path / f"{name}.npy", np.ones(shape, np.float32))
            args += ("--arg", f"{name}={name}.npy")
    capsys.readouterr()
    assert main([args[0], "xor.json", *args[1:]]) == 1
    assert "AMK403" in "".join(capsys.readouterr())
