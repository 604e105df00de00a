"""The tensor-core GEMM in the interpreter: right at odd sizes on every kind of schedule, in any order of events."""

from __future__ import annotations

import numpy as np
import pytest

from amk.harness.interpret import arguments, run
from amk.ops.wgmma_gemm import WgmmaSchedule, wgmma_gemm

CASES = [
    (WgmmaSchedule(), (300, 520, 200), 4),
    (WgmmaSchedule(slots=2, cluster=1), (129, 264, 136), 1),
    (WgmmaSchedule(warpgroups=1, columns=128, slots=3), (70, 200, 320), 2),
    (WgmmaSchedule(warpgroups=1, columns=64, slots=2, cluster=1), (200, 136, 64), 3),
    (WgmmaSchedule(warpgroups=2, columns=192, slots=3, cluster=1), (1, 8, 8), 1),
    (WgmmaSchedule(warpgroups=1, columns=256, slots=4, cluster=2), (64, 256, 72), 2),
    (WgmmaSchedule(warpgroups=2, columns=128, slots=4, cluster=2, group=1), (257, 136, 128), 2),
    (WgmmaSchedule(warpgroups=1, columns=64, slots=4, cluster=1, group=2), (65, 72, 584), 2),
]


def product(a, dtype):
    """A B in float64, and C."""

    def wide(x):
        return (x.astype(np.uint32) << 16).view(np.float32).astype(float) if dtype == "bf16" else x.astype(float)

    return wide(a["A"]) @ wide(a["B"]), wide(a["C"])


def right(kernel, dtype, shape, blocks, **options):
    m, n, k = shape
    a = arguments(kernel, {"M": m, "N": n, "K": k, "blocks": blocks})
    run(kernel, a, **options)
    want, got = product(a, dtype)
    # half a unit in the last place of the result, and the float32 sums
    half = 2.0**-8 if dtype == "bf16" else 2.0**-11
    return bool((np.abs(want - got) <= np.abs(want) * half * 1.01 + 1e-4).all())


@pytest.mark.parametrize("schedule, shape, blocks", CASES)
def test_it_multiplies(schedule, shape, blocks):
    assert right(wgmma_gemm(schedule), "bf16", shape, blocks)


def test_it_multiplies_halves():
    assert right(wgmma_gemm(CASES[2][0], dtype="f16"), "f16", (70, 136, 72), 2)


@pytest.mark.parametrize("schedule, shape, blocks", [CASES[2], CASES[3]])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_any_order_of_events_gives_the_same(schedule, shape, blocks, seed):
    kernel = wgmma_gemm(schedule)
    results = []
    for options in ({}, {"seed": seed}):
        a = arguments(kernel, dict(zip("MNK", shape, strict=True)) | {"blocks": blocks})
        run(kernel, a, **options)
        results.append(a["C"])
    assert np.array_equal(*results)


@pytest.mark.parametrize("schedule, shape, blocks", [CASES[2], CASES[3]])
def test_nothing_is_wrong_with_it(schedule, shape, blocks):
    assert right(wgmma_gemm(schedule), "bf16", shape, blocks, detect=True, coverage=True)


def test_nothing_is_wrong_in_another_order():
    assert right(wgmma_gemm(CASES[2][0]), "bf16", (130, 136, 136), 2, detect=True, seed=7)


def test_chosen_blocks_bring_their_cluster():
    kernel = wgmma_gemm(CASES[2][0])
    a = arguments(kernel, {"M": 300, "N": 8, "K": 8, "blocks": 4})
    run(kernel, a, blocks=[(3, 0, 0)])
    written = a["C"][:, 0] != 0x7FC1
    assert written[128:256].all() and not written[:128].any() and not written[256:].any()
