"""The kernels that are held against ncu: what is predicted, built, run under a profiler and joined.

No GPU and no ncu here: a program of that name prints what it would count if the model were right.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amk.dsl.target import Target
from amk.harness.traffic import traffic
from amk.runtime import device as devices

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parents[1] / "runtime"))
import bank_conflicts as bench
from fake_driver import ExecutingDriver

PROBES = bench.probes()
DEFAULT, APART = "pairs together in loads", "pairs apart"
LOADS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"


# -------------------------------------------------------------------------------------------------------------- kernels
def test_the_probes_cover_what_the_model_says() -> None:
    widths = {(t.kind, t.width) for p in PROBES for t in traffic(p.kernel)}
    for kind in ("shared_ld", "shared_st", "global_ld", "global_st"):
        assert {(kind, 4), (kind, 8), (kind, 16)} <= widths
    assert {("matrix_ld", 16), ("matrix_st", 16)} <= widths
    assert len(PROBES) >= 70 and len({p.name for p in PROBES}) == len(PROBES)
    predicted = {v: [_counts(p, v) for p in PROBES] for v in bench.RULES}
    assert len({json.dumps(x) for x in predicted.values()}) == len(bench.RULES), "variants must be told apart"


def _counts(p: Any, variant: str) -> list[int]:
    found = traffic(p.kernel, rule=bench.RULES[variant])
    return [bench.expected(found, m) for m in bench.METRICS.values()]


def test_predict_prints_a_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["bank_conflicts.py", "--dry-run"])
    bench.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(PROBES) + 2
    assert "p04_ld4_stride32                           128               128" in "\n".join(lines)
    assert any("ld16_fragment_padded" in line and "8 or 16" in line for line in lines)


@pytest.mark.slow
def test_the_compiler_keeps_every_access_of_the_probes(built: Path) -> None:
    """One instruction a statement, as wide as it says: else counters would count something else. Of every eighth."""
    tool = _nvdisasm()
    kinds = {
        "shared_ld": "LDS", "shared_st": "STS", "global_ld": "LDG", "global_st": "STG", "matrix_ld": "LDSM",
        "matrix_st": "STSM",
    }  # fmt: skip
    for p in PROBES[::8]:
        command = [tool, "-c", str(built / f"{p.name}.cubin")]
        listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        got: Counter[tuple[str, int]] = Counter()
        for name, rest in re.findall(r"\b(LDSM|STSM|LDS|STS|LDG|STG)((?:\.\w+)*)", listing):
            parts = {*rest.split("."), name[3:]}
            got[name, 16 if parts & {"128", "M"} else 8 if "64" in parts else 2 if "U16" in parts else 4] += 1
        assert got == Counter((kinds[t.kind], t.width) for t in traffic(p.kernel)), p.name


def _nvdisasm() -> str:
    for entry in sys.path:
        for tool in Path(entry).glob("nvidia/*/bin/nvdisasm*"):
            return str(tool)
    found = shutil.which("nvdisasm")
    if found is None:
        pytest.skip("nvdisasm is not installed (pip install nvidia-cuda-nvdisasm)")
    return found


# ------------------------------------------------------------------------------------------------------- build and run
@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("cuda") is None:
        pytest.skip("needs NVRTC")
    folder: Path = tmp_path_factory.mktemp("probes")
    with pytest.MonkeyPatch.context() as m:
        m.setenv("AMK_CACHE_DIR", str(folder / "cache"))
        bench.build(folder, Target.find("h200"))
    return folder


@pytest.mark.slow
def test_what_is_built_is_certified_compiled_and_executed(built: Path) -> None:
    facts, outputs = bench.manifest(built), np.load(built / "outputs.npz")
    assert facts["target"] == "h200" and set(facts["kernels"]) == {p.name for p in PROBES} == set(outputs.files)
    of = {p.name[4:]: outputs[p.name] for p in PROBES}
    assert (of["ld4_column_swizzled"][:, 0] == [t % 32 * 32 + t // 32 for t in range(128)]).all()
    assert (of["gl16_stride8"] == np.arange(128)[:, None] * 8 + np.arange(4)).all()
    assert (of["st8_even_lanes"][::2] == np.arange(256).reshape(128, 2)[::2]).all() and not of["st8_even_lanes"][
        1::2
    ].any()
    assert (of["stm4_padded"] == of["stm4_pitch128"]).all()
    (built / "manifest.json").write_text(
        json.dumps({**facts, "kernels": {**facts["kernels"], PROBES[0].name: {"hash": ""}}})
    )
    with pytest.raises(SystemExit, match="other kernels than these"):
        bench.manifest(built)
    (built / "manifest.json").write_text(json.dumps(facts))


def test_what_was_not_built_is_not_run(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="run --build"):
        bench.run(tmp_path, [])


def test_the_process_that_is_counted_needs_neither_prover_nor_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Through amk's launcher, on a driver that executes; a kernel that computes something else is told."""
    fake, some = ExecutingDriver(), PROBES[::10]
    for p in some:
        (tmp_path / f"{p.name}.cubin").write_bytes(fake.image(p.kernel, "sm_90a"))
    want = {p.name: bench.launched(p, None, Target.find("h200")) for p in some}
    np.savez(tmp_path / "outputs.npz", **want)
    monkeypatch.setattr(bench, "manifest", lambda folder: {"target": "h200"})
    for name in ("z3", "jinja2", "cuda.bindings.nvrtc"):
        monkeypatch.setitem(sys.modules, name, None)
    devices.install(fake)
    try:
        bench.run(tmp_path, [p.name for p in some])
        ran = re.findall(r"^ran (\S+) [\d.]+$", capsys.readouterr().out, re.M)
        assert ran == [p.name for p in some] and len(fake.calls("launch")) == len(some)
        np.savez(tmp_path / "outputs.npz", **{**want, some[-1].name: want[some[-1].name] + 1})
        with pytest.raises(SystemExit, match=f"{some[-1].name} computed something else"):
            bench.run(tmp_path, [p.name for p in some])
    finally:
        devices.install(None)


# ------------------------------------------------------------------------------------------------------------- measure
NCU = """#!{python}
import sys
import time

if "--version" in sys.argv:
    print("Version 2025.3")
    raise SystemExit
said = dict(zip(sys.argv, sys.argv[1:]))
if {lacking!r} in said["--metrics"]:
    print("==ERROR== Failed to find metric " + {lacking!r})
    raise SystemExit(1)
for name in said["--only"].split(","):
    print("ran", name, "0.010", flush=True)
time.sleep({pause})
mine = ['"ID"', *('"' + n + "(" for n in said["--only"].split(","))]
lines = open({counted!r}).read().splitlines()
open(said["--log-file"], "w").write(chr(10).join(x for x in lines if any(n in x for n in mine)))
"""


@pytest.fixture
def ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a program that is called as ncu is. The built kernels are not looked at."""

    def make(lacking: str = "?", pause: float = 0, text: str = "") -> str:
        path, counted = tmp_path / "ncu", tmp_path / "counted.csv"
        counted.write_text(text or as_ncu(True, APART))
        path.write_text(NCU.format(python=sys.executable, lacking=lacking, pause=pause, counted=str(counted)))
        path.chmod(0o755)
        return str(path)

    monkeypatch.setattr(bench, "manifest", lambda folder: {"toolkit": "13.0", "target": "h200"})
    return make


def test_a_measurement_becomes_a_result(
    ncu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COMMIT", "1234567")
    out, program = tmp_path / "out.json", ncu(lacking="smsp__inst_executed_op_ldsm")
    monkeypatch.setattr(sys, "argv", ["b.py", "--measure", str(tmp_path), "--ncu", program, "--out", str(out)])
    bench.main()
    found, said = json.loads(out.read_text()), capsys.readouterr()
    assert found["variants"][APART] == {"near": len(PROBES), "kernels": len(PROBES)}
    assert found["variants"][DEFAULT]["near"] < len(PROBES) and found["commit"] == "1234567"
    assert found["ncu"] == "Version 2025.3" and found["seconds"] > 0
    assert found["command"] == "python benchmarks/bank_conflicts.py --measure … --ncu … --out …"
    assert "this ncu has no smsp__inst_executed_op_ldsm.sum" in said.err and f"{APART}: {len(PROBES)} of" in said.out
    assert "smsp__inst_executed_op_ldsm.sum" not in found["metrics"]
    assert len(found["rows"]) > 3 * len(PROBES)


def test_a_profiler_that_hangs_is_ended(ncu: Any, tmp_path: Path) -> None:
    start = time.monotonic()
    with pytest.raises(SystemExit, match="took too long"):
        bench.measure(tmp_path, ncu(pause=60), 1.0)
    assert time.monotonic() - start < 15


def test_a_profiler_that_fails_is_told(ncu: Any, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="ncu ended with 1:\n==ERROR== Failed to find metric l1tex__t_sectors"):
        bench.measure(tmp_path, ncu(lacking="l1tex__t_sectors_pipe_lsu_mem_global_op_ld"), 60)
    with pytest.raises(SystemExit, match="ncu ended with 0:\nran p"):
        bench.measure(tmp_path, ncu(text="nothing"), 60)
    with pytest.raises(SystemExit, match="install Nsight Compute"):
        bench.measure(tmp_path, str(tmp_path / "none"), 60)


def test_as_many_kernels_as_the_time_is_enough_for() -> None:
    names = [str(i) for i in range(10)]
    assert bench.spread(names, 4) == ["0", "2", "5", "7"] and bench.spread(names, 99) == names


# ---------------------------------------------------------------------------------------------------------------- join
def as_ncu(long: bool, variant: str, spoil: dict[str, float | str] | None = None) -> str:
    """The CSV that ncu would print if it counted what is predicted."""
    lines = ["==PROF== Connected to process 7", "p00 ran"]
    if long:
        lines.append('"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"')
    else:
        lines.append(",".join(f'"{c}"' for c in ("ID", "Kernel Name", *bench.METRICS)))
        lines.append(",".join('""' for _ in range(len(bench.METRICS) + 2)))  # units
    for i, p in enumerate(PROBES):
        values: dict[str, float | str] = dict(zip(bench.METRICS, _counts(p, variant), strict=True))
        values |= spoil or {} if i == 0 else {}
        texts = {m: v if isinstance(v, str) else f"{v:,}" for m, v in values.items()}
        name = f"{p.name}(const int *, int *)"
        if long:
            lines += [f'"{i}","{name}","{m}","","{v}"' for m, v in texts.items()]
        else:
            lines.append(",".join(f'"{c}"' for c in (i, name, *texts.values())))
    return "\n".join([*lines, "==PROF== Disconnected"])


@pytest.mark.parametrize("long", [True, False])
def test_counters_that_are_as_predicted_are_all_near(long: bool) -> None:
    found = bench.joined(as_ncu(long, APART))
    near, kernels = bench.judged(found[APART])
    assert near == kernels == len(PROBES)
    assert all(bench.judged(rows)[0] < kernels for variant, rows in found.items() if variant != APART)


@pytest.mark.parametrize(("value", "counted"), [(5, "5 counted"), ("n/a", "not counted")])
def test_a_counter_that_is_off_or_missing_is_shown(
    value: float | str, counted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = bench.joined(as_ncu(True, DEFAULT, {LOADS: value}))
    bench.show(found)
    shown = capsys.readouterr().out
    assert f"{DEFAULT}: {len(PROBES) - 1} of {len(PROBES)} kernels" in shown
    assert "p00_ld4_stride1" in shown and f"4 predicted, {counted}" in shown
    rows = json.loads(bench.written(found, {}))["rows"]
    assert {r["kernel"] for r in rows} == {p.name for p in PROBES}


def test_what_is_no_csv_of_ncu_is_refused() -> None:
    with pytest.raises(SystemExit, match="ncu --csv"):
        bench.counters("ncu: command not found")
