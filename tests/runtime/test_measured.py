"""What a binary really takes, as findings; and the commands that show them. Compiles without a GPU."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from amk.cli.main import main
from amk.dsl.builder import KernelBuilder
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.target import Target
from amk.errors import CompileError, Refused
from amk.harness import samples
from amk.harness.docs import titles
from amk.harness.rules.examples import example
from amk.runtime.measured import _remarks, measured
from amk.synth.advisories import Advisory
from amk.synth.cache import Cache

SM80 = Target.find("sm_80")
pytestmark = pytest.mark.skipif(importlib.util.find_spec("cuda") is None, reason="needs NVRTC")


def sums(spill_bytes: int = 0, *, count: int = 48) -> KernelDescriptor:
    """`count` sums in a thread that may take 32 registers: from about 30 on it spills."""
    k = KernelBuilder("sums", target="sm_80", threads=1024, min_blocks=2, spill_bytes=spill_bytes)
    n = k.size("n", max=1 << 20)
    x = k.tensor("x", "f32", (n, count * 1024))
    z = k.tensor("z", "f32", (count * 1024,), access="write")
    a, v = k.registers("a", "f32", (count,)), k.registers("v", "f32", (1,))
    for i in range(count):
        k.store(a[i], 0.0)
    with k.loop("r", 0, n) as r:
        for i in range(count):
            k.load(v[0], x[r.var, i * 1024 + k.t])
            k.store(a[i], a[i] * 0.5 + v[0])
    for i in range(count):
        k.store(z[i * 1024 + k.t], a[i])
    return k.finish(grid=(1,))


def indexed() -> KernelDescriptor:
    """A register array indexed by the thread: it lies in local memory."""
    k = KernelBuilder("indexed", target="sm_80", threads=32)
    x, z = k.tensor("x", "i32", (64, 32)), k.tensor("z", "i32", (32,), access="write")
    a = k.registers("a", "i32", (64,))
    with k.loop("i", 0, 64) as i:
        k.load(a[i.var], x[i.var, k.t])
    k.store(z[k.t], a[(k.t * 37 + 5) % 64])
    return k.finish(grid=(1,))


def test_counts_and_occupancy(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    m = measured(samples.transpose(), SM80, cache)
    assert m.ok and m.diagnostics == () and 20 <= m.registers <= m.assumed_registers
    assert (m.spill_bytes, m.stack_bytes, m.shared_bytes, m.barriers) == (0, 0, 4220, 1)
    assert m.blocks_per_sm == 8 and m.occupancy == 1.0 and m.limited_by == "warps"
    assert "registers" in str(m) and json.dumps(m.to_dict())
    assert measured(samples.transpose(), SM80, cache) == m  # read again from the cache


def test_spills_are_told_or_refused(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    allowed = measured(sums(4096), SM80, cache)
    (told,) = [d for d in allowed.diagnostics if d.code == "AMK111"]
    assert told.severity == "warning" and "bytes spilled a thread, 4096 allowed" in told.message
    refused = measured(sums(allowed.spill_bytes - 1), SM80, cache)
    assert not refused.ok and refused.registers == 0 and str(refused) == "no binary"
    (d,) = refused.diagnostics
    assert d.code == "AMK110" and f"bytes spilled, {allowed.spill_bytes - 1} allowed" in d.message


def test_a_stack_without_spills_is_told(tmp_path: Path) -> None:
    m = measured(indexed(), SM80, Cache(tmp_path))
    assert m.ok and m.stack_bytes == 256
    assert [d.code for d in m.diagnostics] == ["AMK111"] and "256 bytes of stack" in m.diagnostics[0].message


def test_more_registers_than_estimated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amk.runtime.build.assumed_registers", lambda kernel, target: 8)
    (d,) = measured(samples.vector_add(), SM80, Cache(tmp_path)).diagnostics
    assert d.code == "AMK115" and "registers where at most 8 were estimated" in d.message


def test_no_certificate_no_binary(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="AMK101"):
        measured(example(threads=2048), SM80, Cache(tmp_path))


def test_a_compiler_that_refuses_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = "ptxas info : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to.\nptxas fatal : no"

    def refuse(*args: object, **more: object) -> object:
        raise CompileError("ptxas fatal : (C7602) Insufficient registers (32)", log=log)

    monkeypatch.setattr("amk.synth.compile.compile_cubin", refuse)
    m = measured(samples.vector_add(), SM80, Cache(tmp_path))
    assert [(d.code, d.severity) for d in m.diagnostics] == [("AMK110", "error"), ("AMK112", "warning")]
    assert "C7602" in m.diagnostics[0].message


def test_remarks_become_findings() -> None:
    said = (
        Advisory("C7508", "registers", "'setmaxnreg' ignored"), Advisory("C7511", "serialised", "serialized"),
        Advisory("C7517", "injected", "a wait"), Advisory("C7999", "other", "something"),
    )  # fmt: skip
    roles = [{"warps": [0, 4], "registers": 40, "body": []}, {"warps": [4, 12], "registers": 232, "body": []}]
    budgets = example(target="sm_90a", threads=384, body=[{"kind": "team", "roles": roles}])
    for kernel, severity in ((samples.vector_add(), "warning"), (budgets, "error")):
        found = list(_remarks(kernel, said))
        assert [d.code for d in found] == ["AMK112", "AMK113", "AMK114"]
        assert found[0].severity == severity and {d.severity for d in found[1:]} == {"warning"}
        assert all(d.code in titles() and d.title == titles()[d.code][0] and d.hint for d in found)


# ------------------------------------------------------------------------------------------------------- the commands
@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AMK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("amk.runtime.build.default_cache", lambda: Cache(tmp_path / "cache"))
    return tmp_path / "k.amk.json"


def test_check_measured(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(indexed().to_json())
    assert main(["check", str(file), "--measured"]) == 0
    shown = capsys.readouterr().out
    assert "AMK111 spills or stack (warning)" in shown and "measured: " in shown and "256 of stack" in shown
    assert main(["check", str(file), "--measured", "--strict", "--json"]) == 1
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert result["measured"]["stack_bytes"] == 256 and result["measured"]["ok"]
    assert {d["code"] for d in result["diagnostics"]} == {"AMK111"}
    assert main(["check", str(file)]) == 0 and "measured: " not in capsys.readouterr().out


def test_check_measured_refuses_a_binary_that_spills(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spilled = measured(sums(4096), SM80).spill_bytes
    file.write_text(sums(spilled - 1).to_json())
    assert main(["check", str(file)]) == 0  # the descriptor alone does not show it
    capsys.readouterr()
    assert main(["check", str(file), "--measured"]) == 1
    shown = capsys.readouterr().out
    assert "AMK110 binary refused" in shown and "measured: no binary" in shown


def test_a_kernel_that_is_wrong_is_not_compiled(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(example(threads=2048).to_json())
    assert main(["check", str(file), "--measured", "--json"]) == 1
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert "measured" not in result and [d["code"] for d in result["diagnostics"]] == ["AMK101"]


def test_compile_measured(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(indexed().to_json())
    assert main(["compile", str(file), "--measured", "--target", "sm_80", "-o", str(file) + ".cubin"]) == 0
    shown = capsys.readouterr().out
    assert "sm_80: " in shown and "AMK111" in shown and Path(str(file) + ".cubin").read_bytes()[:4] == b"\x7fELF"
    assert main(["compile", str(file), "--measured", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["ok"] and found["target"] == "sm_80" and found["diagnostics"][0]["code"] == "AMK111"


def test_a_checked_build_is_not_measured(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(indexed().to_json())
    assert main(["compile", str(file), "--measured", "--checked"]) == 2
    assert "give --measured or --checked" in capsys.readouterr().err
