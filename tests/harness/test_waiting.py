"""Who waits for whom in a deadlock: a cycle where there is one, else the chain to what nobody brings about."""

from __future__ import annotations

import json

import pytest

from amk.cli.main import main
from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import eq
from amk.dsl.kernel import KernelDescriptor
from amk.harness.check import check
from amk.harness.diagnostics import Diagnostic
from amk.harness.rules.examples_async import copied
from amk.harness.waiting import NOBODY, _shortest


def ring(first: int = 1, *, cluster: int = 1, third: bool = False) -> KernelDescriptor:
    """Warp 0 fills a slot when it is empty, warps 1 and 2 take what is in it; `first`: the producer's first parity."""
    k = KernelBuilder("ring", target="sm_90a", threads=128 if third else 96, cluster=cluster)
    s, a = k.shared("s", "i32", (32,)), k.registers("a", "i32", (1,))
    full, empty = k.barrier("full", count=32), k.barrier("empty", count=64)
    with k.when(eq(k.t, 0)):
        k.call("mbarrier.init", {"bar": full[0]})
        k.call("mbarrier.init", {"bar": empty[0]})
        k.fence("mbarrier_init")
    k.sync()
    with k.team():
        with k.role(0, 1), k.loop("i", 0, 2, parity=first) as i:
            k.wait_phase(empty[0], i.parity)
            k.store(s[k.t], i.var)
            k.arrive(full[0])
            i.next(parity=1 - i.parity)
        with k.role(1, 3), k.loop("j", 0, 2, seen=0) as j:
            k.wait_phase(full[0], j.seen)
            k.load(a[0], s[k.t % 32])
            k.arrive(empty[0])
            j.next(seen=1 - j.seen)
        if third:
            with k.role(3, 4):
                k.store(a[0], 0)
    k.sync()
    return k.finish(grid=(cluster,))


def deadlock(kernel: KernelDescriptor) -> Diagnostic:
    (d,) = [d for d in check(kernel).errors if d.code == "AMK307"]
    return d


def test_the_ring_itself_is_free_of_it() -> None:
    assert check(ring()).ok and check(ring(third=True)).ok


@pytest.mark.parametrize("cluster", [1, 2])
def test_producer_and_consumer_wait_for_each_other(cluster: int) -> None:
    d = deadlock(ring(0, cluster=cluster))
    of = " of block 0" if cluster > 1 else ""
    one, two = d.cycle
    assert {one.who, two.who} == {f"warp 0{of}", f"warps 1 to 2{of}"}
    assert one.held_by == two.who and two.held_by == one.who
    said = {w.who: w.what for w in d.cycle}
    assert said[f"warp 0{of}"].startswith("phase 0 of empty[0]: 64 of 64 arrivals missing")
    assert said[f"warps 1 to 2{of}"].startswith("phase 0 of full[0]: 32 of 32 arrivals missing")
    assert all(w.pointer.startswith("/body/2/roles/") and w.at for w in d.cycle) and d.confirmed


def test_who_has_come_to_a_barrier_waits_behind_the_cycle() -> None:
    """Warp 3 waits at the last block barrier; the cycle is between the two others."""
    d = deadlock(ring(0, third=True))
    assert len(d.cycle) == 2 and not any("warp 3" in w.who for w in d.cycle)
    assert "the block barrier" in d.message


def test_bytes_that_nobody_sends_are_held_by_nobody() -> None:
    d = deadlock(copied("short_of_bytes", expected=512))
    (step,) = d.cycle
    assert step.held_by == NOBODY and "256 bytes missing" in step.what and step.pointer == d.pointer
    assert [r.note for r in d.related] == ["this arrives on it, or lets a copy complete on it"] * 2


def test_the_shortest_way_round_is_shown() -> None:
    assert _shortest({0: [1], 1: [2], 2: [0, 1]}) == [1, 2]
    assert _shortest({0: [1], 1: [2], 2: [0]}) == [0, 1, 2]
    assert _shortest({0: [0]}) == [0] and _shortest({0: [1], 1: []}) == [0, 1]
    assert _shortest({0: []}) == [0] and _shortest({0: [1, 2], 1: [], 2: [1]}) == [0, 1]


def test_the_command_shows_the_cycle(
    tmp_path: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # type: ignore[arg-type]
    with open("ring.amk.json", "w") as file:
        file.write(ring(0).to_json())
    assert main(["check", "ring.amk.json"]) == 1
    out = " ".join(capsys.readouterr().out.replace("|", " ").split())
    assert "nobody can go on:" in out and " 1. warp 0: waiting" in out and "(back to 1.)" in out
    assert main(["check", "ring.amk.json", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["results"][0]["diagnostics"]
    assert [len(d["cycle"]) for d in found if d["code"] == "AMK307"] == [2]
