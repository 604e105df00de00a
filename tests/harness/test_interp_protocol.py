"""What barriers and mbarriers ask of those that use them: halves in turn, counts, parities, bytes."""

from __future__ import annotations

import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import eq
from amk.harness.check import check
from amk.harness.interpret import Fault, arguments, run, witness

WAITS = "thread 0 waits for a phase of parity 0 of full[1], whose phase "
MODES = [{}, {"detect": True}, {"seed": 5, "detect": True}]


def fault_of(kernel, **options):
    with pytest.raises(Fault) as e:
        run(kernel, arguments(kernel, {}), **options)
    return e.value


def halves(*parts, some=False):
    """Halves of the cluster's barrier in a row, by all warps (or the last of them by one warp)."""
    k = KernelBuilder("halves", target="sm_90a", threads=64, cluster=2)
    for part in parts[: len(parts) - some]:
        k.sync("cluster", part=part)
    if some:
        with k.when(k.t >= 32):
            k.sync("cluster", part=parts[-1])
    return k.finish(grid=(4,))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("parts", [["arrive", "wait"], ["both", "arrive", "wait", "both"], ["arrive", "wait"] * 3])
def test_halves_in_turn(parts, mode):
    run(halves(*parts), {}, **mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "parts, some, said",
    [
        (["arrive", "arrive", "wait"], False, "warp 0 arrives"),
        (["arrive", "both", "wait"], False, "warp 0 arrives"),
        (["wait"], False, "warp 0 waits"),
        (["arrive", "wait", "wait"], False, "warp 0 waits"),
        (["arrive", "arrive"], True, "warp 1 arrives"),
        (["both", "wait"], True, "warp 1 waits"),
    ],
)
def test_halves_out_of_turn(parts, some, said, mode):
    e = fault_of(halves(*parts, some=some), **mode)
    assert e.kind == "phase" and e.message.startswith(said)


def barrier(count=32, waits=(0,), expects=None, init=True):
    """All 32 threads arrive on one mbarrier and wait for the phases of these parities."""
    k = KernelBuilder("phases", target="sm_90a", threads=32)
    bar = k.barrier("full", slots=2, count=count)
    if init:
        with k.when(eq(k.t, 0)):
            k.call("mbarrier.init", {"bar": bar[1]})
        k.sync()
    for parity in waits:
        k.arrive(bar[1], bytes=expects)
        k.wait_phase(bar[1], parity)
    return k.finish(grid=(1,))


@pytest.mark.parametrize("mode", MODES)
def test_phases_in_turn(mode):
    run(barrier(waits=(0, 1, 0, 1, 0)), {}, **mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "fields, kind, said",
    [
        ({"waits": (2,)}, "phase", "the parity 2 of a wait on full[1]"),
        ({"waits": (-1,)}, "phase", "the parity -1 of a wait on full[1]"),
        ({"count": 33}, "deadlock", f"{WAITS}0 lacks 1 arrivals"),
        ({"waits": (0, 0)}, "deadlock", f"{WAITS}2 lacks 32 arrivals"),  # phase 2 has the parity of phase 0
        ({"expects": 1 << 15}, "phase", "phase 0 of full[1] expects 1048576 bytes"),
        ({"expects": -16}, "phase", "phase 0 of full[1] expects -16 bytes"),
        ({"expects": 16}, "deadlock", f"{WAITS}0 lacks 512 bytes"),
        ({"init": False}, "phase", "full[1] is used before it is initialised"),
    ],
)
def test_phases_out_of_turn(fields, kind, said, mode):
    kernel = barrier(**fields)
    e = fault_of(kernel, **mode)
    assert e.kind == kind and e.message.startswith(said)


def test_more_arrivals_than_a_phase_takes():
    assert fault_of(barrier(count=31), detect=True).kind == "phase"


@pytest.mark.parametrize("mode", MODES)
def test_the_blocks_barrier_is_named_barrier_0(mode):
    """Warps that meet at barrier 0 by its name and by the block's barrier meet each other."""
    k = KernelBuilder("zero", target="sm_90a", threads=64)
    z, s, a = k.tensor("z", "i32", (32,), access="write"), k.shared("s", "i32", (32,)), k.registers("a", "i32", (1,))
    with k.team():
        with k.role(0, 1):
            k.store(s[k.t], 7 * k.t)
            k.sync("named", id=0, threads=64)
        with k.role(1, 2):
            k.sync()
            k.load(a[0], s[k.t - 32])
            k.store(z[k.t - 32], a[0])
    kernel = k.finish(grid=(1,))
    args = arguments(kernel, {})
    run(kernel, args, **mode)
    assert args["z"].tolist() == [7 * i for i in range(32)]


@pytest.mark.parametrize("mode", MODES[1:])
@pytest.mark.parametrize("sync", [False, True])
def test_everyone_that_waits_knows_the_mbarrier(mode, sync):
    """The thread that initialises it may go on at once; the others have to be told, in any order of events."""
    k = KernelBuilder("known", target="sm_90a", threads=64)
    bar = k.barrier("full")
    with k.when(eq(k.t, 0)):
        k.call("mbarrier.init", {"bar": bar[0]})
        k.arrive(bar[0])
    if sync:
        k.sync()
    k.wait_phase(bar[0], 0)
    kernel = k.finish(grid=(1,))
    if sync:
        run(kernel, {}, **mode)
        return
    e = fault_of(kernel, **mode)
    assert e.kind == "phase" and "need not see it initialised" in e.message and e.threads != (0,)


def pushes(start=True, end=True, how="store"):
    """A block writes into its peer's memory (or reads it), between two barriers of the cluster."""
    k = KernelBuilder("pushes", target="sm_90a", threads=32, cluster=2)
    s, a = k.shared("s", "i32", (32,)), k.registers("a", "i32", (1,))
    if how == "load":
        k.store(s[k.t], k.rank)
    if start:
        k.sync("cluster", relaxed=how == "store")
    if how == "load":
        k.load(a[0], s[k.t], peer=1 - k.rank)
    else:
        k.store(s[k.t], k.rank, peer=1 - k.rank)
    if end:
        k.sync("cluster")
    return k.finish(grid=(4,))


@pytest.mark.parametrize("mode", MODES[1:])
@pytest.mark.parametrize(
    "fields, said",
    [({"start": False}, ("need not have started",)), ({"end": False}, ("may end before", "after its end"))],
)
@pytest.mark.parametrize("how", ["load", "store"])
def test_peers_are_there_while_their_memory_is_used(how, fields, said, mode):
    run(pushes(how=how), {}, **mode)
    assert check(pushes(how=how)).ok
    kernel = pushes(how=how, **fields)
    e = fault_of(kernel, **mode)
    assert e.kind == "exit" and any(words in e.message for words in said)
    assert any(d.code == "AMK312" and d.confirmed for d in check(kernel).errors)


@pytest.mark.parametrize("all_warps", [False, True])
def test_a_warp_barrier_tells_the_initialisers_warp_only(all_warps):
    """Thread 0's warp knows of the mbarrier; that another warp has met too says nothing of it."""
    k = KernelBuilder("warps", target="sm_90a", threads=64)
    bar = k.barrier("full", count=64 if all_warps else 32)
    with k.when(eq(k.t, 0)):
        k.call("mbarrier.init", {"bar": bar[0]})
    k.sync("warp")
    with k.when(k.t < 64 if all_warps else k.t < 32):
        k.arrive(bar[0])
        k.wait_phase(bar[0], 0)
    kernel = k.finish(grid=(1,))
    errors = check(kernel).errors
    if not all_warps:
        assert not errors
        run(kernel, {}, detect=True)
        return
    assert [(d.code, d.confirmed, d.counterexample["t"]) for d in errors] == [("AMK310", True, 32)]
    assert "need not see it initialised" in fault_of(kernel, detect=True).message


def test_the_first_block_of_a_fault_in_a_later_block_of_its_cluster():
    """Runs of earlier blocks show the same fault, as blocks run with their clusters: the search has to end there."""
    k = KernelBuilder("later", target="sm_90a", threads=32, cluster=2)
    z = k.tensor("z", "i32", (4, 32), access="write")
    with k.when(eq(k.rank, 1)):
        k.store(z[k.bx, k.t + 1], k.t)
    kernel = k.finish(grid=(4,))
    (found,) = check(kernel).errors
    assert (found.code, found.confirmed) == ("AMK201", True)
    counterexample, pointer = witness(kernel, "AMK201")
    assert counterexample["bx"] == 1 and counterexample["t"] == 31 and pointer == found.pointer
