"""Kernels whose blocks speak to each other, on a GPU: many blocks, many launches, the right sums every time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amk
from amk.errors import LaunchError, Refused
from amk.runtime.build import Binary
from amk.runtime.device import device, probe
from amk.runtime.kernel import CompiledKernel
from amk.runtime.place import target_of
from amk.synth.compile import compile_cubin
from amk.synth.render import text_of

sys.path.insert(0, str(Path(__file__).parent.parent / "harness"))
import talking

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not probe().available, reason="no GPU")]
RNG = np.random.default_rng(11)


def ints(*shape: int) -> Any:
    return RNG.integers(-9, 9, shape).astype(np.int32)


def check(f: Any, want: Any, times: int = 5, **args: Any) -> None:
    for _ in range(times):  # the workspace is zeroed before each launch
        out = np.full(want.shape, 77, np.int32)
        f(out=out, **args)
        assert (out == want).all()


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("n", [1, 63, 1 << 12, 1_000_003])
def test_look_back(n: int, checked: bool) -> None:
    x = ints(n)
    check(amk.compile(talking.look_back(), checked=checked), x.cumsum(), x=x)


@pytest.mark.parametrize("n", [1, 2, 5000])
def test_chained_scan(n: int) -> None:
    x = ints(n)
    check(amk.compile(talking.chained_scan()), x.cumsum(), x=x)


@pytest.mark.parametrize(("rows", "parts"), [(1, 1), (3, 64), (2000, 33)])
def test_last_block_sum(rows: int, parts: int) -> None:
    x = ints(rows, parts, 32)
    check(amk.compile(talking.last_block_sum()), 2 * x.sum(1), x=x)


def test_histogram() -> None:
    x = RNG.integers(-50, 90, 1_000_000).astype(np.int32)
    check(amk.compile(talking.histogram()), np.bincount(np.clip(x, 0, 31), minlength=32), x=x)


def test_resident_sum() -> None:
    x = ints(8, 32)
    check(amk.compile(talking.resident_sum()), np.roll(x + 1, -1, 0)[:, ::-1], x=x, times=50)


def test_a_grid_that_does_not_fit_is_refused_and_does_not_hang() -> None:
    """By the checker, which knows the device; by the driver where it does not. The next launch is as good as ever."""
    x, kernel = ints(1 << 20), talking.chained_scan(dispatch="resident")
    with pytest.raises(Refused, match="AMK316"):
        amk.compile(kernel)(x=x, out=np.zeros(1 << 20, np.int32))
    made = compile_cubin(text_of(kernel), device(0).target, name=kernel.name)
    f = CompiledKernel(kernel, target_of(0), 0)
    f._binary = Binary(
        kernel, target_of(0), made.cubin, "", made.log, "{}", made.resources.registers, 0, kernel.shared_bytes, False
    )
    with pytest.raises(LaunchError, match="COOPERATIVE_LAUNCH_TOO_LARGE"):
        f(x=x, out=np.zeros(1 << 20, np.int32))
    check(f, x[:500].cumsum(), x=x[:500])


def test_a_workspace_of_the_caller() -> None:
    """It is zeroed as well, and holds afterwards what the blocks said."""
    x, total, ready = ints(100), np.full(100, 5, np.int32), np.full(100, 5, np.uint32)
    check(amk.compile(talking.chained_scan()), x.cumsum(), x=x, total=total, ready=ready)
    assert (total == x.cumsum()).all() and (ready == 1).all()
