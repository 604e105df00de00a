"""Loops over a size: what is shown for all sizes is held against walks at every size from 0 to 30, one by one.

Random loops of two to four statements a round: stores, loads, copies, barriers, guards near the first and the last
rounds, slots that go round and values that are carried. A loop that is shown must be free of faults at each size, and
of those that are free of faults most must be shown.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import Expr, both, select
from amk.dsl.kernel import KernelDescriptor
from amk.verify.block import Block
from amk.verify.domain import declare
from amk.verify.logic import Logic
from amk.verify.order import at_cases, decide
from amk.verify.outcome import Wrong
from amk.verify.path import Path

SIZES = range(31)


def guard(rng: Random, v: Expr, n: Expr) -> Expr | None:
    """A condition that turns near the beginning or the end, or none."""
    d = rng.randint(0, 3)
    return rng.choice([None, None, v + d < n, v >= d, v < n - d, both(v >= d, v + 1 < n), (v + d) % 2 < 1])


def loop(seed: int) -> KernelDescriptor:
    """A kernel of 32 threads with one random loop."""
    rng = Random(seed)
    k = KernelBuilder("loop", target="sm_80", threads=32)
    n, slots, every = k.size("n", min=0), rng.randint(1, 4), rng.randint(1, 2)
    x = k.tensor("x", "i32", (32,), align=4)
    s, a = k.shared("s", "i32", (slots, 32)), k.registers("a", "i32", (1,))
    k.store(a[0], 0)
    if rng.random() < 0.7:
        for i in range(slots):
            k.store(s[i, k.t], 0)
    if rng.random() < 0.7:
        k.sync()
    with k.loop("v", 0, n, every, c=0) as v:
        for _ in range(rng.randint(2, 4)):
            slot = rng.choice([v.var % slots, (v.var + rng.randint(0, 3)) % slots, v.c])
            cond = guard(rng, v.var, n)
            kind = rng.choice(("store", "load", "load", "copy", "sync", "sync"))
            with k.when(v.var >= 0 if cond is None else cond):
                _statement(k, kind, s, a, x, slot)
        if rng.random() < 0.8:
            k.commit()
            k.wait(pending=rng.randint(0, 1))
        if rng.random() < 0.6:
            k.sync()
        v.next(c=select(v.c >= slots - 1, 0, v.c + 1))
    if rng.random() < 0.5:
        k.wait(pending=0)
    if rng.random() < 0.5:
        k.sync()
        k.load(a[0], s[0, 31 - k.t])
    return k.finish(grid=(1,))


def _statement(k: KernelBuilder, kind: str, s: Any, a: Any, x: Any, slot: Expr) -> None:
    if kind == "sync":
        k.sync()
    elif kind == "store":
        k.store(s[slot, k.t], a[0])
    elif kind == "load":
        k.load(a[0], s[slot, 31 - k.t])
    else:
        k.call("cp.async.4", {"dst": s[slot, k.t], "src": x[k.t]})


def fault_at(kernel: KernelDescriptor, n: int) -> str:
    """The rule that a walk at one size breaks; empty where it breaks none."""
    try:
        Block(kernel, Logic()).run(Path(known={"n": n, "bx": 0, "by": 0, "bz": 0}))
    except Wrong as fault:
        return fault.rule
    return ""


def judged(seed: int) -> tuple[str, str]:
    """What is said for all sizes, and the first fault at one; raises AssertionError where they contradict."""
    kernel, logic = loop(seed), Logic()
    found = decide(kernel, logic, declare(logic, kernel))
    first = next((f"{rule} at n={n}" for n in SIZES if (rule := fault_at(kernel, n))), "")
    if found.status == "proved":
        assert not first, (seed, first)
    elif found.status == "refuted":
        assert fault_at(kernel, found.at["n"]) == found.rule
    return found.status, first


def campaign(seeds: range) -> dict[tuple[str, bool], int]:
    out: dict[tuple[str, bool], int] = {}
    for seed in seeds:
        status, first = judged(seed)
        out[status, bool(first)] = out.get((status, bool(first)), 0) + 1
    return out


def test_loops_that_are_shown_have_no_fault_at_any_size() -> None:
    found = campaign(range(24))
    assert found["proved", False] >= 4 and found["refuted", True] >= 8
    assert found.get(("unknown", True), 0) == 0, "a fault at a small size is found"


@pytest.mark.slow
def test_many_loops_that_are_shown_have_no_fault_at_any_size() -> None:
    found = campaign(range(1000, 1600))
    assert found["proved", False] >= 60 and found["refuted", True] >= 300
    assert found.get(("unknown", True), 0) == 0
    assert found.get(("unknown", False), 0) <= found["proved", False] // 4


def test_cases_outside_of_the_domain_are_not_walked() -> None:
    kernel = loop(1)
    cases = [{"n": -1, "bx": 0, "by": 0, "bz": 0}, {"n": 1, "bx": 1, "by": 0, "bz": 0}]
    assert at_cases(kernel, Logic(), cases) == (None, 0)


# --------------------------------------------------------------------------------------------- loops that threads leave
def left_early(slot: Any) -> KernelDescriptor:
    """Odd threads make two rounds and even ones one, with a carried value that each stores at, and reads `slot` of."""
    k = KernelBuilder("left", target="sm_80", threads=32)
    s, a = k.shared("s", "i32", (4, 32)), k.registers("a", "i32", (1,))
    with k.loop("v", 0, k.t % 2 + 1, c=0) as v:
        v.next(c=select(v.c >= 3, 0, v.c + 1))
    k.store(s[v.c, k.t], 1)
    k.load(a[0], s[slot(k.t), k.t])
    return k.finish(grid=(1,))


def test_a_thread_that_leaves_a_loop_keeps_what_it_carries() -> None:
    def verdict(slot: Any) -> str:
        kernel, logic = left_early(slot), Logic()
        return decide(kernel, logic, declare(logic, kernel)).status

    assert verdict(lambda t: t % 2 + 1) == "proved"
    assert verdict(lambda t: t * 0 + 2) == verdict(lambda t: t * 0 + 1) == "refuted"


@pytest.mark.parametrize("end", [lambda k: k.t + 1, lambda k: k.size("n", min=0)])
def test_what_a_loop_carries_on_is_read_too(end: Any) -> None:
    """The register that the next round's value is taken from was never written."""
    k = KernelBuilder("carried", target="sm_80", threads=32)
    w = k.registers("w", "f32", (1,))
    with k.loop("v", 0, end(k), c=0.0) as v:
        v.next(c=v.c + w[0])
    kernel, logic = k.finish(grid=(1,)), Logic()
    found = decide(kernel, logic, declare(logic, kernel))
    assert (found.status, found.rule) == ("refuted", "AMK207")
