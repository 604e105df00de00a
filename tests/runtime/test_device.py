"""Devices, contexts, probing and forks, with a fake driver (and the real one where it is missing)."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
import time
import types
import warnings

import pytest
from fake_driver import FakeDriver

from amk.errors import EnvironmentProblem, LaunchError
from amk.runtime import device as devices
from amk.runtime.buffers import allocate
from amk.runtime.driver import Driver


@pytest.fixture
def gpus():
    fake = FakeDriver(("sm_90a", "sm_86"))
    devices.install(fake)
    yield fake
    devices.install(None)


def in_child(work) -> str:
    """What `work` returns in a forked child."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = work()
        except BaseException as fault:
            text = f"{type(fault).__name__}: {fault}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


def test_facts(gpus):
    hopper, ampere = devices.device(0), devices.device(1)
    assert (hopper.target, hopper.compute_capability, hopper.sm_count) == ("sm_90a", (9, 0), 132)
    assert (ampere.target, ampere.shared_optin_bytes, ampere.clock_mhz) == ("sm_86", 101376, 1980)
    assert devices.device(0) is hopper


@pytest.mark.parametrize(
    ("capability", "name"), [((9, 0), "sm_90a"), ((10, 0), "sm_100a"), ((8, 6), "sm_86"), ((12, 0), "sm_120")]
)
def test_target_name(capability, name):
    assert devices.target_name(capability) == name


@pytest.mark.parametrize("index", [-1, 2])
def test_a_device_that_is_not_there(gpus, index):
    with pytest.raises(EnvironmentProblem, match=f"no GPU {index}(?s:.*)0 to 1"):
        devices.device(index)
    with pytest.raises(EnvironmentProblem), devices.ensure_context(index):
        pass


def test_the_callers_context_comes_back(gpus):
    with devices.ensure_context(0):
        assert devices.current_device() == 0
        with devices.ensure_context(1):
            assert devices.current_device() == 1
            with devices.ensure_context(1):
                assert len(gpus.stack) == 2  # already current: nothing pushed
        assert devices.current_device() == 0
    assert gpus.stack == [] and devices.current_device() == 0


def test_the_context_comes_back_after_an_error(gpus):
    with pytest.raises(ValueError), devices.ensure_context(1):
        raise ValueError
    assert gpus.stack == []


def test_primary_contexts_are_opened_once(gpus, monkeypatch):
    retain = gpus.retain_primary
    monkeypatch.setattr(gpus, "retain_primary", lambda index: (time.sleep(0.05), retain(index))[1])

    def use():
        with devices.ensure_context(1):
            pass

    threads = [threading.Thread(target=use) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gpus.calls("retain") == [(1,)]


def test_current_device_follows_torch(gpus, monkeypatch):
    cuda = types.SimpleNamespace(is_initialized=lambda: True, current_device=lambda: 1)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    assert devices.current_device() == 1


def test_probe_with_gpus(gpus):
    status = devices.probe()
    assert (status.available, status.count, status.driver, status.cuda, status.names) == (
        True, 2, "580.159.04", "13.0", ("Fake sm_90a", "Fake sm_86"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue Aug 5 2026\nGCC version:  gcc 12.3.0\n",
         "580.159.04"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  590.44  Release Build\n", "590.44"),
        ("something else 12.3.0\n", None), ("", None), (None, None),
    ],
)  # fmt: skip
def test_the_drivers_own_version(monkeypatch, gpus, text, version):
    """Read from the kernel module; without it the CUDA version stands in, told apart by the 0 before it."""
    from amk.runtime.driver import Driver

    def opened(path, **_):
        assert path == "/proc/driver/nvidia/version"
        if text is None:
            raise FileNotFoundError(path)
        return io.StringIO(text)

    monkeypatch.setattr("builtins.open", opened)
    assert Driver.release(gpus) == version
    monkeypatch.setattr(type(gpus), "release", Driver.release)
    assert devices.probe().driver == (version or "0.13.0")


@pytest.mark.parametrize(
    ("status", "says"), [("CUDA_ERROR_NO_DEVICE", "CUDA_VISIBLE_DEVICES"), ("CUDA_ERROR_UNKNOWN", "")]
)
def test_probe_without_a_gpu(monkeypatch, status, says):
    fake = FakeDriver()
    fake.start_status = status
    monkeypatch.setattr(devices, "Driver", lambda: fake)
    devices.install(None)
    found = devices.probe()
    assert not found.available and found.count == 0 and status in found.reason and says in found.hint


def test_probe_never_raises(monkeypatch):
    def broken():
        raise OSError("libcuda is cut short")

    monkeypatch.setattr(devices, "Driver", broken)
    devices.install(None)
    assert "cut short" in devices.probe().reason


def test_importing_starts_nothing():
    code = (
        "import sys, amk, amk.runtime.device, amk.runtime.launch, amk.runtime.arrays, amk.agents.measure\n"
        "assert amk.runtime.device._RUNTIME is None and 'cuda' not in sys.modules, 'started'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_fork_after_start_says_so(gpus):
    devices.device(0)
    text = in_child(lambda: str(devices.driver()))
    assert "EnvironmentProblem" in text and "forked after CUDA had started" in text and "spawn" in text
    assert "forked" in in_child(lambda: devices.probe().reason)  # and not "no GPU"


def test_fork_before_start_is_fine(monkeypatch):
    devices.install(None)
    monkeypatch.setattr(devices, "Driver", FakeDriver)
    assert in_child(lambda: devices.device(0).target) == "sm_90a"


def test_fork_after_someone_else_started_cuda(monkeypatch):
    fake = FakeDriver()
    fake.start_status = "CUDA_ERROR_NOT_INITIALIZED"
    monkeypatch.setattr(devices, "Driver", lambda: fake)
    devices.install(None)
    with pytest.raises(EnvironmentProblem, match="forked after CUDA had started"):
        devices.driver()


def test_a_forked_child_owns_no_buffer(gpus):
    """B9: the memory is the parent's: a child that drops a buffer neither frees it nor complains."""
    held = [allocate(64, 0, 0x30)]

    def child():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            held.clear()
        return f"{len(caught)} {len(gpus.calls('free'))} {len(gpus.calls('free_async'))}"

    assert in_child(child) == "0 0 0"
    held[0].close()


def test_a_fork_while_another_thread_starts_cuda(monkeypatch):
    """B9: the child has no such thread, so it must not wait for it."""
    devices.install(None)
    monkeypatch.setattr(devices, "Driver", FakeDriver)
    with devices._LOCK:
        assert in_child(lambda: str(devices._LOCK.acquire(timeout=5))) == "True"


class Status(int):
    name = "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"


def test_a_binary_that_does_not_suit_names_both_versions(monkeypatch):
    api = types.SimpleNamespace(
        cuLaunchKernel=None,
        cuModuleLoadData=lambda image: (Status(222), None),
        cuDriverGetVersion=lambda: (0, 12080),
    )
    bindings = types.ModuleType("cuda.bindings")
    bindings.driver = api
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    with pytest.raises(LaunchError, match=r"supports CUDA 12.8") as caught:
        Driver().load_module(b"")
    assert caught.value.status == Status.name and "NVRTC" in caught.value.hint and "cubin" in caught.value.hint
