"""Warps walked together as strands, and the same warps walked apart: what is found is the same."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from random import Random

import pytest

from amk.dsl.kernel import KernelDescriptor
from amk.harness import order, samples
from amk.harness.check import check, made_for
from amk.harness.cluster import first_split
from amk.harness.context import Context
from amk.harness.events import Program
from amk.harness.faults import Fault
from amk.harness.mutations import mutate
from amk.ops.wgmma_gemm import WgmmaSchedule, wgmma_gemm

_spec = importlib.util.spec_from_file_location("harness_kernels", Path(__file__).with_name("kernels.py"))
assert _spec is not None and _spec.loader is not None
kernels = importlib.util.module_from_spec(_spec)  # tests/synth has a module of that name too
_spec.loader.exec_module(kernels)

MUTANTS = 12
CASES = {  # with the threads that an instruction needs together
    "sum": (samples.block_sum(threads=128), 32),
    "reduce": (kernels.block_reduce(threads=128), 32),
    "staged": (kernels.gemm_staged(), 32),
    "wgmma": (wgmma_gemm(WgmmaSchedule(cluster=1, columns=64, slots=2, warpgroups=2)), 128),
    "cluster": (wgmma_gemm(WgmmaSchedule(cluster=2, columns=128, slots=2, warpgroups=1)), 128),
}


def apart(size: int):
    """A split of the block into groups of so many threads, each within a strand of the usual split."""

    def split(p: Program) -> tuple[int, ...]:
        groups = [((1 << size) - 1) << size * i for i in range(-(-p.threads // size))]
        return tuple(x for part in first_split(p) for g in groups if (x := part & g))

    return split


def found(kernel: KernelDescriptor) -> list[Fault]:
    """What the first sample with a fault shows."""
    return order.simulate(Context(kernel, made_for(kernel, None))).faults


@pytest.mark.parametrize("name", CASES)
def test_strands_find_what_single_warps_find(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict of every mutant that passes the form rules, and the kinds of fault.

    Where warps race for what one of them writes first, walking them apart may come to the read before the write: then
    the same race is also told as a read of what is not written.
    """
    kernel, size = CASES[name]
    faulty = 0
    for seed in range(MUTANTS if size == 32 else MUTANTS // 2):
        mutant = kernel if seed == 0 else mutate(kernel, Random(seed))[0]
        if any(d.code < "AMK009" for d in check(mutant, replay=False).diagnostics):
            continue
        folded = {f.code for f in found(mutant)}
        with monkeypatch.context() as m:
            m.setattr(order, "first_split", apart(size))
            single = {f.code for f in found(mutant)}
        faulty += bool(folded)
        assert single - folded <= ({"AMK206"} if "AMK301" in folded else set()) and folded <= single, (seed, single)
    assert faulty
