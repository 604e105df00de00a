"""Faults of asynchronous work: each statement of the tensor-core GEMM that orders something, taken out, is told."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import eq
from amk.harness.interpret import Fault, arguments, confirm, run
from amk.harness.rules import RULES
from amk.ops.wgmma_gemm import WgmmaSchedule

_spec = importlib.util.spec_from_file_location("hopper", Path(__file__).with_name("hopper.py"))
hopper = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(hopper)

SMALL = WgmmaSchedule(warpgroups=1, columns=64, slots=2, cluster=1)
PAIR = WgmmaSchedule(warpgroups=1, columns=128, slots=2, cluster=2)
SIZES = {"M": 65, "N": 136, "K": 264}


def without(kind, number=0, **fields):
    """An edit that takes out one statement (a Let of a name that nobody uses takes its place)."""

    def edit(data):
        found = hopper.statements(data, kind, **fields)[number]
        found.clear()
        found.update({"kind": "let", "name": "unused", "value": "0"})

    return edit


def fault_of(kernel, sizes, **options):
    with pytest.raises(Fault) as e:
        run(kernel, arguments(kernel, sizes), **{"detect": True, **options})
    return e.value


DROPPED = [
    (without("call", row="mbarrier.init"), {"phase"}),
    (without("fence", what="mbarrier_init"), {"phase"}),
    (without("sync", scope="cluster"), {"phase", "exit"}),
    (without("sync", 1, scope="cluster"), {"exit"}),
    (without("wait", barrier="ab_full"), {"uninitialised", "async"}),
    (without("wait", barrier="ab_empty"), {"phase"}),
    (without("fence", what="wgmma"), {"wgmma"}),
    (without("commit", queue="wgmma"), {"async"}),
    (without("wait", queue="wgmma"), {"async"}),
    (without("wait", 1, queue="wgmma"), {"wgmma"}),
    (without("arrive", barrier="ab_empty"), {"deadlock"}),
    (without("arrive", barrier="ab_full"), {"deadlock"}),
    (without("call", row="tma.load.2d"), {"deadlock"}),
    (without("call", row="stmatrix"), {"uninitialised"}),
    (without("fence", what="async"), {"proxy"}),
    (without("sync", scope="warp"), {"async"}),
    (without("sync", 1, scope="warp"), {"race"}),
    (without("wait", queue="bulk"), {"async"}),
    (without("wait", 2, queue="bulk"), {"exit"}),
    (without("commit", queue="bulk"), {"async", "exit"}),
]


@pytest.mark.parametrize("edit, kinds", DROPPED)
def test_what_is_left_out_is_told(edit, kinds):
    assert fault_of(hopper.spoiled(edit, PAIR), SIZES).kind in kinds


def test_a_store_left_out_leaves_elements_unwritten():
    kernel = hopper.spoiled(without("call", row="tma.store.2d"), SMALL)
    assert fault_of(kernel, SIZES, detect=False, coverage=True).kind == "unwritten"


def test_the_wrong_number_of_bytes():
    def more(data):
        hopper.statements(data, "arrive", barrier="ab_full")[0]["bytes"] = "16400"

    def less(data):
        hopper.statements(data, "arrive", barrier="ab_full")[0]["bytes"] = "16368"

    assert fault_of(hopper.spoiled(more, SMALL), SIZES).kind == "deadlock"
    assert fault_of(hopper.spoiled(less, SMALL), SIZES).kind == "phase"


def test_the_wrong_parity():
    def edit(data):
        loop = hopper.statements(data, "for", var="tile")[0]
        next(c for c in loop["carry"] if c["name"].startswith("parity"))["init"] = "1"

    assert fault_of(hopper.spoiled(edit, SMALL), SIZES).kind in ("uninitialised", "phase", "deadlock", "async")


def test_late_copies_change_the_result():
    """Without the waits the result is wrong, whatever is looked for."""
    kernel = hopper.spoiled(without("wait", queue="wgmma"), SMALL)
    results = []
    for k in (kernel, hopper.gemm(SMALL)):
        a = arguments(k, SIZES)
        run(k, a)
        results.append(a["C"])
    assert not np.array_equal(*results)


BY_CODE = {
    "AMK307": "deadlock", "AMK308": "async", "AMK309": "proxy", "AMK310": "phase", "AMK311": "wgmma", "AMK312": "exit",
}  # fmt: skip


@pytest.mark.parametrize("code", BY_CODE)
def test_each_rule_has_a_kind_of_its_own(code):
    rule = next(r for r in RULES if r.code == code)
    assert fault_of(rule.bad(), {}).kind == BY_CODE[code]
    assert confirm(rule.bad(), {"bx": 0, "rank": 0}, code) and not confirm(rule.good(), {"bx": 0, "rank": 0}, code)
    for seed in (None, 1, 2):
        run(rule.good(), arguments(rule.good(), {}), detect=True, seed=seed)


def test_counterexamples_of_the_gemm_are_confirmed():
    kernel = hopper.spoiled(without("arrive", barrier="ab_full"), PAIR)
    point = {"M": 65, "N": 8, "K": 72, "blocks": 2, "bx": 1, "rank": 1}
    assert confirm(kernel, point, "AMK307")
    assert not confirm(kernel, point, "AMK309") and not confirm(hopper.gemm(PAIR), point, "AMK307")


def mailbox(order=True, reuse=True):
    """Warp 0 hands warp 1 two values through one slot, and waits before it uses the slot again."""
    k = KernelBuilder("mailbox", target="sm_90a", threads=64)
    z = k.tensor("z", "i32", (2, 32), access="write")
    s, a = k.shared("s", "i32", (32,)), k.registers("a", "i32", (1,))
    full, free = k.barrier("full", count=32), k.barrier("taken", count=32)
    with k.when(eq(k.t, 0)):
        k.call("mbarrier.init", {"bar": full[0]})
        k.call("mbarrier.init", {"bar": free[0]})
    k.sync()
    with k.team():
        with k.role(0, 1), k.loop("i", 0, 2) as i:
            with k.when(i.var > 0):
                if reuse:
                    k.wait_phase(free[0], 0)
            k.store(s[k.t], i.var * 100 + k.t)
            k.arrive(full[0])
        with k.role(1, 2), k.loop("j", 0, 2) as j:
            if order:
                k.wait_phase(full[0], j.var)
            k.load(a[0], s[k.t - 32])
            k.store(z[j.var, k.t - 32], a[0])
            with k.when(j.var < 1):
                k.arrive(free[0])
    return k.finish(grid=(1,))


@pytest.mark.parametrize("options", [{}, {"detect": True}, {"seed": 5}, {"seed": 6, "detect": True}])
def test_a_mailbox(options):
    kernel = mailbox()
    a = arguments(kernel, {})
    run(kernel, a, **options)
    assert np.array_equal(a["z"], np.add.outer([0, 100], np.arange(32)))


def test_a_mailbox_without_its_order():
    assert fault_of(mailbox(order=False), {}).kind in ("race", "uninitialised")
    assert fault_of(mailbox(reuse=False), {}).kind in ("race", "phase")


def test_an_arrival_by_one_lane_says_nothing_of_the_others():
    k = KernelBuilder("lanes", target="sm_90a", threads=64)
    z, s, a = k.tensor("z", "i32", (32,), access="write"), k.shared("s", "i32", (32,)), k.registers("a", "i32", (1,))
    bar = k.barrier("full")
    with k.when(eq(k.t, 0)):
        k.call("mbarrier.init", {"bar": bar[0]})
    k.sync()
    with k.team():
        with k.role(0, 1):
            k.store(s[k.t], k.t)
            with k.when(eq(k.t, 0)):
                k.arrive(bar[0])
        with k.role(1, 2):
            k.wait_phase(bar[0], 0)
            k.load(a[0], s[k.t - 32])
            k.store(z[k.t - 32], a[0])
    e = fault_of(k.finish(grid=(1,)), {})
    assert e.kind == "race" and e.threads == (33,)  # thread 32 reads what the thread that arrives has stored


def test_a_phase_that_ends_before_a_warp_has_seen_the_last():
    """Nothing makes warp 0 wait for warp 1 between two phases: warp 1 may then wait for the third."""
    k = KernelBuilder("overrun", target="sm_90a", threads=64)
    bar = k.barrier("tick", count=32)
    with k.when(eq(k.t, 0)):
        k.call("mbarrier.init", {"bar": bar[0]})
    k.sync()
    with k.team():
        with k.role(0, 1), k.loop("i", 0, 2) as i:
            k.arrive(bar[0])
            k.wait_phase(bar[0], i.var)
        with k.role(1, 2), k.loop("j", 0, 2) as j:
            k.wait_phase(bar[0], j.var)
    kernel = k.finish(grid=(1,))
    kinds = set()
    for seed in (None, *range(6)):
        try:
            run(kernel, arguments(kernel, {}), detect=True, seed=seed)
        except Fault as e:
            kinds.add(e.kind)
    assert kinds and kinds <= {"phase", "deadlock"}
