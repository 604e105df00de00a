"""The tensor-core GEMM with one thing wrong: each way of spoiling its protocol is refused, and what is right is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.nodes import Statement
from amk.dsl.target import Target
from amk.harness.context import Context
from amk.harness.faults import Fault
from amk.ops.wgmma_gemm import WgmmaSchedule, wgmma_gemm

H200 = Target.find("h200")
SMALL = {
    1: WgmmaSchedule(warpgroups=1, columns=64, slots=2, cluster=1),
    2: WgmmaSchedule(warpgroups=1, columns=128, slots=2, cluster=2),
}
ORDERED = ("sync", "fence", "commit", "wait", "arrive", "call")
# What may go without a race or a hang: what is computed is another thing, and the meaning check shows that.
HARMLESS = ("prefetch.tensormap", "wgmma.", "tma.store")


def faults(kernel: KernelDescriptor) -> list[Fault]:
    return Context(kernel, H200).order.faults


def changed(body: tuple[Statement, ...], place: list[int], make: Callable[[Any], tuple[Any, ...]]) -> tuple[Any, ...]:
    """The body with the statement at a place replaced by what is made of it."""
    i, s = place[0], body[place[0]]
    if len(place) == 1:
        return (*body[:i], *make(s), *body[i + 1 :])
    if s.kind == "team":
        roles = list(s.roles)
        r = place[1]
        roles[r] = roles[r].model_copy(update={"body": changed(roles[r].body, place[2:], make)})
        return (*body[:i], s.model_copy(update={"roles": tuple(roles)}), *body[i + 1 :])
    assert s.kind in ("for", "if")
    return (*body[:i], s.model_copy(update={"body": changed(s.body, place[1:], make)}), *body[i + 1 :])


def spoiled(kernel: KernelDescriptor, pointer: str, make: Callable[[Any], tuple[Any, ...]]) -> KernelDescriptor:
    return kernel.replaced(body=changed(kernel.body, [int(x) for x in pointer.split("/") if x.isdigit()], make))


def places(cluster: int) -> list[str]:
    return [p for p, s in walk(wgmma_gemm(SMALL[cluster]).body) if s.kind in ORDERED]


@pytest.mark.parametrize("cluster", SMALL)
def test_as_written_it_is_accepted(cluster: int) -> None:
    assert [f.message for f in faults(wgmma_gemm(SMALL[cluster]))] == []


@pytest.mark.parametrize(("cluster", "pointer"), [(c, p) for c in SMALL for p in places(c)])
def test_no_ordering_statement_can_go(cluster: int, pointer: str) -> None:
    kernel = wgmma_gemm(SMALL[cluster])
    dropped = dict(walk(kernel.body))[pointer]
    found = faults(spoiled(kernel, pointer, lambda s: ()))
    found = [f for f in found if f.code != "AMK207"]  # the first wgmma also gives the sums their first value
    harmless = dropped.kind == "call" and dropped.row.startswith(HARMLESS)
    redundant = cluster == 1 and pointer == f"/body/{len(kernel.body) - 1}"  # nothing is shared after it
    assert bool(found) != (harmless or redundant), [f.message for f in found]
    assert all(f.code != "AMK008" for f in found)


def first(kernel: KernelDescriptor, **wanted: object) -> str:
    """The first statement with these fields."""
    for pointer, s in walk(kernel.body):
        if all(str(getattr(s, n, None)) == str(v) for n, v in wanted.items()):
            return pointer
    raise LookupError(wanted)


def _update(**fields: object) -> Callable[[Any], tuple[Any, ...]]:
    return lambda s: (type(s)(**{**s.model_dump(), **fields}),)


SPOILED: dict[str, tuple[str, Callable[[KernelDescriptor], KernelDescriptor]]] = {
    "16 bytes too many are expected": (
        "AMK307", lambda k: spoiled(k, first(k, kind="arrive", barrier="ab_full[slot3]"), _update(bytes=16400))
    ),
    "16 bytes too few are expected": (
        "AMK307", lambda k: spoiled(k, first(k, kind="arrive", barrier="ab_full[slot3]"), _update(bytes=16368))
    ),
    "one arrival too many is declared": ("AMK307", lambda k: _count(k, 1)),
    "one arrival too few is declared": ("AMK310", lambda k: _count(k, -1)),
    "the producer starts with the wrong parity": ("AMK307", lambda k: _parity(k, "1", "0")),
    "the drain starts with the wrong parity": ("AMK307", lambda k: _parity(k, "0", "1")),
    "the slot read is freed instead of the one before": (
        "AMK310",
        lambda k: spoiled(k, first(k, kind="arrive", barrier="ab_empty[held]"), _update(barrier="ab_empty[slot1]")),
    ),
    "two groups of wgmma are left unfinished": (
        "AMK301", lambda k: spoiled(k, first(k, kind="wait", queue="wgmma", pending=1), _update(pending=2))
    ),
    "every lane frees the slot": (
        "AMK310", lambda k: spoiled(k, first(k, kind="if", cond="lane < 1"), lambda s: s.body)
    ),
    "every lane of the producer's warp copies": (
        "AMK310", lambda k: spoiled(k, first(k, kind="if", cond="t == 128"), lambda s: s.body)
    ),
    "the tile is copied into the next slot": (
        "AMK206", lambda k: spoiled(k, first(k, kind="call", row="tma.load.2d"), _refs("dst", "a[1 - slot3, 0, 0]"))
    ),
    "the proxy fence comes before the stores": ("AMK309", lambda k: _swapped(k)),
    "staging is not waited for": (
        "AMK303", lambda k: spoiled(k, first(k, kind="wait", queue="bulk"), _update(pending=1))
    ),
    "the producer writes where its copy goes": (
        "AMK303", lambda k: spoiled(k, first(k, kind="call", row="tma.load.2d"), lambda s: (s, _store(k)))
    ),
}  # fmt: skip


def _count(k: KernelDescriptor, by: int) -> KernelDescriptor:
    full, empty = k.barriers
    return k.replaced(barriers=(full, empty.model_copy(update={"count": empty.count + by})))


def _parity(k: KernelDescriptor, old: str, new: str) -> KernelDescriptor:
    def start(s: Any) -> tuple[Any, ...]:
        carry = [c if not c.name.startswith("parity") else type(c)(**{**c.model_dump(), "init": new}) for c in s.carry]
        return (s.model_copy(update={"carry": tuple(carry)}),)

    for pointer, s in walk(k.body):
        if s.kind == "for" and any(c.name.startswith("parity") and str(c.init) == old for c in s.carry):
            return spoiled(k, pointer, start)
    raise LookupError(old)


def _refs(role: str, ref: str) -> Callable[[Any], tuple[Any, ...]]:
    from amk.dsl.expr import as_expr

    return lambda s: (s.model_copy(update={"refs": {**s.refs, role: as_expr(ref)}}),)


def _swapped(k: KernelDescriptor) -> KernelDescriptor:
    fence = first(k, kind="fence", what="async")
    before = first(k, kind="call", row="stmatrix.x4")
    s = dict(walk(k.body))[fence]
    return spoiled(spoiled(k, fence, lambda s: ()), before, lambda x: (s, x))


def _store(k: KernelDescriptor) -> Statement:
    from amk.dsl.nodes import Store

    return Store(dst="a[0, 0, 0]", values=(0.0,))


@pytest.mark.parametrize("name", SPOILED)
def test_each_fault_is_named(name: str) -> None:
    code, make = SPOILED[name]
    found = faults(make(wgmma_gemm(SMALL[1])))
    assert found and found[0].code == code, [(f.code, f.message) for f in found]
    assert found[0].message and found[0].pointer.startswith("/body")


def test_a_deadlock_says_who_waits_for_what() -> None:
    (f,) = faults(_count(wgmma_gemm(SMALL[1]), 1))
    assert (
        "thread 0 waits for phase" in f.message and "thread 128 waits for phase 0 of ab_empty[0]: 1 of 5" in f.message
    )
    assert f.related and {"M", "N", "K", "blocks"} <= f.counterexample.keys()
