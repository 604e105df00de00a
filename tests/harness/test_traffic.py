"""Whole launches, counted; and the kernels that are held against ncu: what is predicted, run and joined."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.target import Target
from amk.harness.events import Unsupported
from amk.harness.traffic import Traffic, totals, traffic
from amk.ops.gemm import Gemm, GemmSchedule, build

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import bank_conflicts as bench


def test_blocks_warps_iterations_and_lanes_are_counted() -> None:
    """Two blocks of a warp and a half, three iterations, and a guard that leaves ten threads."""
    k = KernelBuilder("counted", target="sm_80", threads=48)
    x, a = k.tensor("x", "f32", (4096,)), k.registers("a", "f32", (1,))
    s = k.shared("s", "f32", (96,))
    with k.loop("i", 0, 3) as i:
        k.store(s[k.t * 2], 0.0)
        with k.when(k.t < 10):
            k.load(a[0], x[k.bx * 2048 + i.var * 64 + k.t])
    found = traffic(k.finish(grid=(2,)))
    assert found == [
        # a whole warp has a two-way conflict, 16 lanes have none
        Traffic("/body/0/body/0", "shared_st", 4, 12, 6 * (2 + 1), 0, 12),
        Traffic("/body/0/body/1/body/0", "global_ld", 4, 6, 0, 6 * 2, 6 * 2),
    ]
    assert totals(found)["shared_st"] == {"requests": 12, "passes": 18, "sectors": 0}


def test_carried_values_and_named_ones_are_followed() -> None:
    k = KernelBuilder("carried", target="sm_80", threads=32)
    s, a = k.shared("s", "f32", (2048,)), k.registers("a", "f32", (1,))
    with k.loop("i", 0, 4, gap=1) as loop:
        k.load(a[0], s[k.let("at", k.t * (loop.gap + 1))])
        loop.next(gap=loop.gap + 1)
    (found,) = traffic(k.finish(grid=(1,)))
    assert (found.requests, found.passes) == (4, 2 + 1 + 4 + 1)  # strides 2, 3, 4 and 5


def test_what_depends_on_data_is_not_counted() -> None:
    k = KernelBuilder("gather", target="sm_80", threads=32)
    x, r = k.tensor("x", "i32", (64,)), k.registers("r", "i32", (1,))
    k.load(r[0], x[k.t])
    k.load(r[0], x[r[0]])
    with pytest.raises(Unsupported, match=r"r\[0\]"):
        traffic(k.finish(grid=(1,)))


def test_a_gemm_of_fixed_sizes() -> None:
    """64 x 64 x 64 in tiles of 32 x 32 x 8: each tile of A is copied by each of two columns of blocks."""
    schedule = GemmSchedule(bm=32, bn=32, bk=8, tm=4, tn=4, stages=2, vec_width=4, specialise=True)
    sums = totals(traffic(build(Gemm(m=64, n=64, k=64), schedule, Target.find("sm_80"))))
    assert sums["global_copy"]["sectors"] == 2 * 2 * 64 * 64 * 4 // 32
    assert sums["global_st"]["sectors"] == 64 * 64 * 4 // 32


# --------------------------------------------------------------------------------------------------------- the probes
PROBES = bench.probes()


def test_the_probes_cover_what_the_model_says() -> None:
    widths = {(t.kind, t.width) for p in PROBES for t in traffic(p.kernel)}
    for kind in ("shared_ld", "shared_st", "global_ld", "global_st"):
        assert {(kind, 4), (kind, 8), (kind, 16)} <= widths
    assert len(PROBES) >= 50 and len({p.name for p in PROBES}) == len(PROBES)
    differ = [p.name for p in PROBES if _passes(p, "pairs together") != _passes(p, "pairs apart")]
    assert len(differ) >= 6, "the two variants must be told apart"


def _passes(p: Any, variant: str) -> int:
    return totals(traffic(p.kernel, rule=bench.RULES[variant])).get("shared_ld", {}).get("passes", 0)


@pytest.mark.slow
def test_every_probe_runs_on_the_cpu_executor() -> None:
    """Certified, and what a load yields is what its index says."""
    for p in PROBES:
        z = bench.launched(p, "cpu")
        if p.name.endswith("ld4_column_swizzled"):
            assert (z[:, 0] == [t % 32 * 32 + t // 32 for t in range(128)]).all()
        if p.name.endswith("gl16_stride8"):
            assert (z == np.arange(128)[:, None] * 8 + np.arange(4)).all()


@pytest.mark.slow
def test_the_compiler_keeps_every_access_of_the_probes(tmp_path: Path) -> None:
    """One instruction a statement, as wide as it says: else counters would count something else."""
    tool = _nvdisasm()
    from amk.synth.compile import compile_cubin
    from amk.synth.render import text_of

    kinds = {"shared_ld": "LDS", "shared_st": "STS", "global_ld": "LDG", "global_st": "STG"}
    for p in PROBES[::4]:
        file = tmp_path / "k.cubin"
        file.write_bytes(compile_cubin(text_of(p.kernel), "sm_90a", name=p.name).cubin)
        listing = subprocess.run([tool, "-c", file], capture_output=True, text=True, check=True).stdout
        got: Counter[tuple[str, int]] = Counter()
        for name, rest in re.findall(r"\b(LDS|STS|LDG|STG)((?:\.\w+)*)", listing):
            parts = rest.split(".")
            got[name, 16 if "128" in parts else 8 if "64" in parts else 2 if "U16" in parts else 4] += 1
        assert got == Counter((kinds[t.kind], t.width) for t in traffic(p.kernel)), p.name


def _nvdisasm() -> str:
    for entry in sys.path:
        for tool in Path(entry).glob("nvidia/*/bin/nvdisasm*"):
            return str(tool)
    found = shutil.which("nvdisasm")
    if found is None:
        pytest.skip("nvdisasm is not installed (pip install nvidia-cuda-nvdisasm)")
    return found


# --------------------------------------------------------------------------------------------------------------- ncu
def as_ncu(long: bool, variant: str, spoil: dict[str, float] | None = None) -> str:
    """The CSV that ncu would print if it counted what is predicted."""
    lines = ["==PROF== Connected to process 7", "p00 ran"]
    if long:
        lines.append('"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"')
    else:
        lines.append(",".join(f'"{c}"' for c in ("ID", "Kernel Name", *bench.METRICS)))
    for i, p in enumerate(PROBES):
        sums = totals(traffic(p.kernel, rule=bench.RULES[variant]))
        values = {m: sums.get(kind, {}).get(what, 0) for m, (kind, what) in bench.METRICS.items()}
        values |= spoil or {} if i == 0 else {}
        texts = {m: f"{v:,}" for m, v in values.items()}
        name = f"{p.name}(const int *, int *)"
        if long:
            lines += [f'"{i}","{name}","{m}","","{v}"' for m, v in texts.items()]
        else:
            lines.append(",".join(f'"{c}"' for c in (i, name, *texts.values())))
    return "\n".join([*lines, "==PROF== Disconnected"])


@pytest.mark.parametrize("long", [True, False])
def test_counters_that_are_as_predicted_are_all_near(long: bool) -> None:
    found = bench.joined(as_ncu(long, "pairs apart"))
    near, kernels = bench.judged(found["pairs apart"])
    assert near == kernels == len(PROBES)
    assert bench.judged(found["pairs together"])[0] < kernels


def test_a_counter_that_is_off_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    metric = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
    found = bench.joined(as_ncu(True, "pairs together", {metric: 5}))
    bench.show(found)
    shown = capsys.readouterr().out
    assert f"pairs together: {len(PROBES) - 1} of {len(PROBES)} kernels" in shown
    assert "p00_ld4_stride1" in shown and "4 predicted, 5 counted" in shown
    assert '"variant": "pairs together"' in bench.written(found)


def test_what_is_no_csv_of_ncu_is_refused() -> None:
    with pytest.raises(SystemExit, match="ncu --csv"):
        bench.counters("ncu: command not found")
