"""The interpreter against the ordering engine: what one refuses, the other shows; what one accepts, the other runs."""

from __future__ import annotations

import copy
import importlib.util
from pathlib import Path

import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import eq
from amk.dsl.kernel import KernelDescriptor
from amk.harness.check import check
from amk.harness.interpret import Fault, arguments, confirm, run
from amk.ops.wgmma_gemm import WgmmaSchedule

_spec = importlib.util.spec_from_file_location("hopper", Path(__file__).with_name("hopper.py"))
hopper = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(hopper)

SCHEDULES = [WgmmaSchedule(warpgroups=1, columns=64, slots=2, cluster=1),
             WgmmaSchedule(warpgroups=1, columns=128, slots=2, cluster=2)]  # fmt: skip
ORDER = ("sync", "fence", "commit", "arrive", "wait")
SIZES = {"M": 129, "N": 264, "K": 264}  # several tiles a block, more steps than slots


def _sites(data):
    out = []

    def walk(body):
        for i, s in enumerate(body):
            if s["kind"] in ORDER or (s["kind"] == "call" and s["row"].startswith(("tma.load", "mbarrier"))):
                out.append((body, i))
            for inner in (s.get("body", []), *(r["body"] for r in s.get("roles", []))):
                walk(inner)

    walk(data["body"])
    return out


def dropped(schedule):
    """The kernel with each of its ordering statements left out, one at a time."""
    base = hopper.gemm(schedule).to_dict()
    for n in range(len(_sites(base))):
        data = copy.deepcopy(base)
        body, i = _sites(data)[n]
        what = {k: v for k, v in body[i].items() if k != "at"}
        body[i] = {"kind": "let", "name": "unused", "value": "0"}
        yield what, KernelDescriptor.model_validate(data)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_they_agree_on_each_statement_left_out(schedule):
    apart = []
    for what, kernel in dropped(schedule):
        refused = not check(kernel).ok
        try:
            run(kernel, arguments(kernel, SIZES), detect=True)
            shown = False
        except Fault:
            shown = True
        if refused is not shown:
            apart.append((what, "refused" if refused else "accepted", "shown" if shown else "not shown"))
    assert not apart


_spec = importlib.util.spec_from_file_location("spoils", Path(__file__).with_name("test_spoiled_wgmma.py"))
spoils = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(spoils)


@pytest.mark.parametrize("name", spoils.SPOILED)
def test_what_the_engine_finds_is_shown(name):
    _, make = spoils.SPOILED[name]
    kernel = make(spoils.wgmma_gemm(spoils.SMALL[1]))
    fault = spoils.faults(kernel)[0]
    assert confirm(kernel, fault.counterexample, fault.code), (fault.code, fault.message)


def counted(parity):
    """Four phases that all threads wait for; `parity` of the step."""
    k = KernelBuilder("counted", target="sm_90a", threads=64)
    bar = k.barrier("tick", count=64)
    with k.when(eq(k.t, 0)):
        k.call("mbarrier.init", {"bar": bar[0]})
    k.sync()
    with k.loop("i", 0, 4) as i:
        k.arrive(bar[0])
        k.wait_phase(bar[0], parity(i.var))
    return k.finish(grid=(1,))


def test_a_parity_that_is_none():
    """A wait for parity 2 went on at once in the engine, and nobody can say what it does on a device."""
    right, wrong = counted(lambda i: i % 2), counted(lambda i: i)
    assert check(right).ok
    run(right, {}, detect=True)
    found = [d for d in check(wrong).errors if d.code == "AMK310"]
    assert found and "parity 2" in found[0].message and found[0].confirmed
