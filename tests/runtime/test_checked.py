"""Checked runs: hidden arguments and the record with a fake driver, faults of the CPU executor, and who shares what."""

from __future__ import annotations

import ctypes
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from fake_driver import ExecutingDriver

import amk
from amk.errors import AmkError, EnvironmentProblem, KernelFault, LaunchError
from amk.harness.samples import vector_add
from amk.runtime import build
from amk.runtime import device as devices
from amk.runtime.kernel import CompiledKernel
from amk.runtime.place import device_target
from amk.synth.cache import Cache, Entry

sys.path.insert(0, str(Path(__file__).parent.parent / "synth"))
from broken_kernels import BROKEN, KEPT

RECORD = struct.Struct("<Q2q8i")


class CheckedDriver(ExecutingDriver):
    """Leaves `record` where the hidden parameters say, and keeps the others."""

    record = bytes(RECORD.size)
    ends: tuple[int, ...] = ()

    def launch(self, function, x, y, z, block, shared, stream, params):
        super().launch(function, x, y, z, block, shared, stream, params)
        kernel = function["kernel"]
        first, tensors = len(kernel.params), len(kernel.tensors)
        table = (ctypes.c_void_p * (first + 1 + 2 * tensors)).from_address(params)
        place, *ends = (ctypes.c_int64.from_address(a).value for a in table[first:])
        assert ctypes.string_at(place, RECORD.size) == bytes(RECORD.size), "the record is cleared before the launch"
        ctypes.memmove(place, self.record, RECORD.size)
        self.ends = tuple(ends)

    def fill(self, pointer, byte, nbytes, stream):
        super().fill(pointer, byte, nbytes, stream)
        ctypes.memset(pointer, byte, nbytes)


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    fake, cache = CheckedDriver(), Cache(tmp_path)

    def make(kernel, target, *, checked=False):
        fake.log.append(("make", checked))
        return Entry(fake.image(kernel, target.architecture.name), "", "", "{}", {})

    monkeypatch.setattr(build, "default_cache", lambda: cache)
    monkeypatch.setattr(build, "_make", make)
    device_target.cache_clear()
    devices.install(fake)
    yield fake
    devices.install(None)
    device_target.cache_clear()


def arrays(n=40):
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, n), dtype=np.float32)
    return {"x": x, "y": y, "z": np.full(n, KEPT, np.float32)}


def test_a_good_run_gives_its_result_and_waits(gpu):
    kernel, given = amk.compile(vector_add(), device=0, checked=True), arrays()
    kernel(**given)
    assert (given["z"] == given["x"] + given["y"]).all()
    assert gpu.ends == (0, 160) * 3 and gpu.calls("make") == [(True,)]
    launched = next(i for i, entry in enumerate(gpu.log) if entry[0] == "launch")
    assert any(entry[0] == "sync_stream" for entry in gpu.log[launched:]) and not gpu.memory


def test_a_fault_is_raised_and_host_arrays_stay_as_they_were(gpu):
    """What the record says, by statement, author's place, thread and block; memory is given back."""
    gpu.record = RECORD.pack(5, 40, 40, 0, 7, 1, 0, 7, 1, 2, 3)
    kernel, given = amk.compile(vector_add(), device=0, checked=True), arrays()
    with pytest.raises(KernelFault) as caught:
        kernel(**given)
    e = caught.value
    assert (e.kind, e.pointer, e.block, e.thread) == ("bounds", "/body/1/body/1", (1, 2, 3), 7)
    assert (e.operand, e.dimension, e.index, e.limit, e.count) == ("y[i]", 0, 40, 40, 5)
    assert e.at.startswith("samples.py:") and f"at {e.at} (the first of 5)" in e.message
    assert (
        "kernel 'vector_add': bounds at /body/1/body/1 in block (1, 2, 3), thread 7: y[i]: index 0 is 40" in e.message
    )
    assert (given["z"] == KEPT).all() and not gpu.memory and e.exit_code == 1 and e.hint


def test_arrays_are_told_by_their_bytes_in_both_directions(gpu):
    """A view of every second element backwards begins behind most of its memory."""
    from amk.runtime.arrays import view
    from amk.runtime.checked import _ends

    v = view(np.zeros(40, np.float32)[::-2], "x")
    assert _ends(v) == (-19 * 8, 4)
    assert _ends(view(np.zeros((0, 3), np.float32), "x")) == (0, 0)
    assert _ends(view(np.zeros((4, 8), np.float32)[:, :3], "x")) == (0, 3 * 32 + 12)


def test_a_capture_is_refused_before_anything_is_launched(gpu):
    kernel = amk.compile(vector_add(), device=0, checked=True)
    kernel(**arrays())
    before = len(gpu.calls("launch"))
    views, scalars = _bound(kernel)
    gpu.capturing[0x77] = "active"
    with pytest.raises(LaunchError, match="graph capture"):
        kernel._launch(views, scalars, 0x77)
    assert len(gpu.calls("launch")) == before


def _bound(kernel):
    from dataclasses import replace

    from amk.runtime.kernel import bind

    views, scalars = bind(kernel.kernel, arrays())
    return {n: replace(v, device=0, framework="cai") for n, v in views.items()}, scalars


def test_a_gemm_is_checked_at_every_call(gpu):
    """No prepared launch goes round the record, and the plain object beside it shares nothing."""
    a, b = np.random.default_rng(2).standard_normal((2, 20, 20), dtype=np.float32)
    plain, checked = amk.AutoMegaKernelGEMM(device=0), amk.AutoMegaKernelGEMM(device=0, checked=True)
    for _ in range(2):
        assert np.allclose(checked.run(a, b), a @ b, atol=1e-4)
    assert gpu.calls("prepared") == [] and gpu.calls("make") == [(True,)]
    gpu.record = RECORD.pack(1, 0, 0, 4, 0, -1, -1, 0, 0, 0, 0)
    with pytest.raises(KernelFault, match=r"at /params/0 .*is outside what was proved") as caught:
        checked.run(a, b)
    assert caught.value.kind == "assume" and not checked.plans._plans and plain.checked is False


# -------------------------------------------------------------------------------------------------- the CPU executor
@pytest.fixture
def unproved(monkeypatch):
    """A way to run kernels that no certificate stands behind."""
    monkeypatch.setattr(CompiledKernel, "_certify", lambda self: None)


@pytest.mark.parametrize("name", [n for n, b in BROKEN.items() if b.in_interpreter and b.kind == "bounds"])
def test_the_cpu_executor_says_the_same(name, unproved):
    b = BROKEN[name]
    n = b.sizes["n"]
    kernel = amk.compile(b.kernel(name), device="cpu", checked=True)
    with pytest.raises(KernelFault) as caught:
        kernel(x=np.arange(n, dtype=np.float32), z=np.full(n, KEPT, np.float32))
    e = caught.value
    assert b.said in e.message and (e.kind, e.thread, e.block) == (b.kind, b.thread, (b.block, 0, 0))
    found = int(b.said.split("index 0 is ")[-1].split(",")[0]) if "index 0 is" in b.said else e.index
    assert e.index == found and e.dimension in (0, 1) and isinstance(e.limit, int) and e.operand
    assert e.at.startswith("broken_kernels.py:") and e.at in e.message


def test_a_good_kernel_runs_checked_on_the_cpu():
    given = arrays()
    amk.compile(vector_add(), device="cpu", checked=True)(**given)
    assert (given["z"] == given["x"] + given["y"]).all()
    gemm = amk.AutoMegaKernelGEMM(device="cpu", checked=True)
    a, b = np.random.default_rng(3).standard_normal((2, 17, 17), dtype=np.float32)
    assert np.allclose(gemm.run(a, b), a @ b, atol=1e-4)


def test_a_checked_run_costs_more_of_the_budget():
    a = np.ones((40, 40), np.float32)
    amk.AutoMegaKernelGEMM(device="cpu", cpu_budget=1e6).run(a, a)
    with pytest.raises(EnvironmentProblem, match="minutes"):
        amk.AutoMegaKernelGEMM(device="cpu", cpu_budget=1e6, checked=True).run(a, a)


def test_the_error_is_one_of_ours_and_is_data():
    e = KernelFault("m", kind="bounds", thread=0, index=-1, limit=3)
    assert isinstance(e, AmkError) and e.to_dict()["thread"] == 0 and e.to_dict()["dimension"] is None
