"""C1: a binary in the cache that the driver refuses is made again once, with one warning; both faults are told."""

from __future__ import annotations

import sys
import threading
import warnings

import numpy as np
import pytest
from fake_driver import ExecutingDriver
from fake_torch import Tensor, module

from amk.api import AutoMegaKernelGEMM, compile
from amk.errors import CompileError, LaunchError
from amk.harness.samples import vector_add
from amk.runtime import arrays, build, gemm_plan, streams
from amk.runtime import device as devices
from amk.runtime.place import device_target
from amk.synth.cache import Cache, CacheWarning, Entry

RNG = np.random.default_rng(4)
DAMAGED = b"\x7fELF cut short"


class Workshop:
    """What stands in for prover and compiler: how often it was asked, and what it gives."""

    def __init__(self, fake: ExecutingDriver, cache: Cache) -> None:
        self.fake, self.cache, self.made, self.gives = fake, cache, 0, None

    def make(self, kernel, target, *, checked=False):
        self.made += 1
        if isinstance(self.gives, Exception):
            raise self.gives
        return Entry(self.gives or self.fake.image(kernel, target.architecture.name), "", "", "{}", {})

    def damage(self, kernel, target):
        """An entry with right digests and a binary that no driver takes."""
        self.cache.put(build.key_of(kernel, target), Entry(DAMAGED, "", "", "{}", {}))

    def broken(self):
        """Binaries that were refused, whatever they are."""
        return len(self.fake.calls("refuse"))


@pytest.fixture
def shop(monkeypatch, tmp_path):
    fake = ExecutingDriver()
    made = Workshop(fake, Cache(tmp_path))
    monkeypatch.setattr(build, "default_cache", lambda: made.cache)
    monkeypatch.setattr(build, "_make", made.make)
    monkeypatch.setitem(sys.modules, "torch", module())
    monkeypatch.setattr(streams, "_RAW", {})
    monkeypatch.setattr(arrays, "_READERS", {})
    monkeypatch.setattr(gemm_plan, "_TORCH", gemm_plan._Torch())
    device_target.cache_clear()
    devices.install(fake)
    yield made
    devices.install(None)
    device_target.cache_clear()


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def add(kernel, n=40):
    """Runs the vector addition; whether its result is right."""
    x, y, z = Tensor(normal(n)), Tensor(normal(n)), Tensor(np.full(n, np.nan, np.float32))
    kernel(**dict(zip((p.name for p in kernel.kernel.tensors), (x, y, z), strict=True)))
    return bool((z.array == x.array + y.array).all())


@pytest.fixture
def kernel(shop):
    """A compiled kernel whose entry in the cache is damaged."""
    made = compile(vector_add(), device=0)
    shop.damage(made.kernel, made.target)
    return made


def test_it_is_made_again_once(shop, kernel):
    """Discarded, one warning that says why, the right result; the next object finds a whole entry."""
    with pytest.warns(CacheWarning, match="CUDA_ERROR_INVALID_IMAGE") as caught:
        assert add(kernel)
    assert len(caught) == 1 and shop.made == 1 and not kernel.binary.hit
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert add(kernel) and add(compile(vector_add(), device=0))
    assert shop.made == 1 and shop.broken() == 1


def test_through_the_gemm(shop):
    """The general path and the plan that it leaves behind."""
    a, b = Tensor(normal(16, 16)), Tensor(normal(16, 16))
    AutoMegaKernelGEMM().run(a, b)
    (kernel,) = shop.fake.kernels.values()
    key = build.key_of(kernel, device_target(0))
    with pytest.warns(CacheWarning):
        shop.cache.discard(key, "the test needs a damaged one")
    shop.damage(kernel, device_target(0))
    devices.install(shop.fake)
    gemm, made = AutoMegaKernelGEMM(), shop.made
    with pytest.warns(CacheWarning, match="INVALID_IMAGE") as caught:
        first = gemm.run(a, b)
    assert len(caught) == 1 and shop.made == made + 1 and not gemm.last.cache_hit
    second = gemm.run(a, b)
    assert gemm.last.seconds is None  # by the plan
    for c in (first, second):
        assert np.allclose(c.array, a.array @ b.array, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("gives", [b"other rubbish", DAMAGED], ids=["another", "the same bytes"])
def test_refused_again(shop, kernel, gives):
    """LaunchError names both, and neither this call nor the next makes a third."""
    shop.gives = gives
    with pytest.warns(CacheWarning) as caught, pytest.raises(LaunchError) as fault:
        add(kernel)
    assert fault.value.status == "CUDA_ERROR_INVALID_IMAGE"
    assert fault.value.message.count("CUDA_ERROR_INVALID_IMAGE") == 2 and "made again" in fault.value.message
    assert len(caught) == 1 and shop.made == 1 and shop.broken() == 2
    with pytest.raises(LaunchError, match="made again"):
        add(kernel)
    assert shop.made == 1


def test_it_cannot_be_made_again(shop, kernel):
    """The fault of the making stands beside the driver's; the next call tries again."""
    shop.gives = CompileError("no such instruction")
    with pytest.warns(CacheWarning), pytest.raises(LaunchError, match=r"INVALID_IMAGE.*no such instruction"):
        add(kernel)
    assert shop.made == 1
    shop.gives = None
    assert add(kernel) and shop.made == 2


def test_a_new_binary_is_not_made_again(shop):
    """What was compiled just now and is refused is no fault of the cache."""
    shop.gives = DAMAGED
    with pytest.raises(LaunchError) as fault:
        add(compile(vector_add(), device=0))
    assert shop.made == 1 and "made again" not in fault.value.message


@pytest.mark.parametrize("status", ["CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_ILLEGAL_ADDRESS"])
def test_the_device_is_at_fault(shop, kernel, status, monkeypatch):
    """Memory that is full and a context that is broken say nothing about the binary."""

    def fails(image):
        raise shop.fake.fail(status)

    monkeypatch.setattr(shop.fake, "load_module", fails)
    with pytest.raises(LaunchError, match=status):
        add(kernel)
    assert shop.made == 0 and shop.cache.get(build.key_of(kernel.kernel, kernel.target)) is not None


def test_a_folder_that_does_not_let_go(shop, kernel, monkeypatch):
    """The damaged entry stays on disk, and its successor is used from memory."""
    from amk.synth import cache_disk

    monkeypatch.setattr(cache_disk, "quarantine", lambda root, digest: False)
    with pytest.warns(CacheWarning) as caught:
        assert add(kernel)
    assert len(caught) == 1 and shop.made == 1
    assert add(compile(vector_add(), device=0)) and shop.made == 1


def test_sixteen_threads(shop, kernel):
    """One making for all, through one object or through sixteen."""
    right, ready = [], threading.Barrier(16)
    calls = [kernel if i % 2 else compile(vector_add(), device=0) for i in range(16)]

    def work(call):
        ready.wait()
        right.append(add(call))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        threads = [threading.Thread(target=work, args=(call,)) for call in calls]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert right == [True] * 16 and shop.made == 1
    assert len([w for w in caught if w.category is CacheWarning]) == 1
