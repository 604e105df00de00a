"""Faults of asynchronous work, of roles and of clusters: refused with the right code, their repaired twins accepted."""

from __future__ import annotations

import pytest

from amk.dsl.builder import Handle, KernelBuilder
from amk.dsl.expr import Expr, both, eq
from amk.dsl.kernel import KernelDescriptor
from amk.harness.check import check

THREADS = 256


def codes(kernel: KernelDescriptor) -> set[str]:
    return {d.code for d in check(kernel, "h200").errors}


def initialised(k: KernelBuilder, *bars: Handle) -> None:
    with k.when(eq(k.t, 0)):
        for b in bars:
            for slot in range(b.shape[0]):
                k.call("mbarrier.init", {"bar": b[slot]})
        k.fence("mbarrier_init")
    k.sync()


# ------------------------------------------------------------------------------------------------ A16: named barriers
def halves(first: int, second: int, *, syncs: bool = True, shift: int = 0) -> KernelDescriptor:
    """One half of the block writes and arrives on barrier 1, the other syncs on it and reads."""
    k = KernelBuilder("halves", target="sm_90a", threads=THREADS)
    z = k.tensor("z", "f32", (128,), access="write")
    s, r = k.shared("s", "f32", (128,)), k.registers("r", "f32", (1,))
    with k.team():
        with k.role(0, 4):
            k.store(s[k.t], 1.0)
            k.sync("named", part="arrive", id=1, threads=first)
        with k.role(4, 8):
            if syncs:
                k.sync("named", id=1 + shift, threads=second)
            k.load(r[0], s[k.t - 128])
            k.store(z[k.t - 128], r[0])
    return k.finish(grid=(1,))


def test_a16_one_half_arrives_and_the_other_syncs() -> None:
    assert codes(halves(256, 256)) == set()


def test_a16_each_half_counts_itself_alone() -> None:
    """Both barriers complete, and nothing orders the halves."""
    found = codes(halves(128, 128))
    assert found & {"AMK301", "AMK206", "AMK310"}, found


def test_a16_the_other_half_never_syncs() -> None:
    assert codes(halves(256, 256, syncs=False)) & {"AMK301", "AMK206"}


def test_a16_different_counts_or_numbers() -> None:
    assert "AMK310" in codes(halves(256, 192))
    assert codes(halves(256, 256, shift=1)) & {"AMK307", "AMK206"}


def test_two_roles_that_wait_for_each_other() -> None:
    """Each syncs first on the barrier that the other comes to second."""
    k = KernelBuilder("crossed", target="sm_90a", threads=THREADS)
    z = k.tensor("z", "f32", (THREADS,), access="write")
    with k.team():
        for first, numbers in ((0, (1, 2)), (4, (2, 1))):
            with k.role(first, first + 4):
                for n in numbers:
                    k.sync("named", id=n, threads=THREADS)
    k.store(z[k.t], 1.0)
    report = check(k.finish(grid=(1,)), "h200")
    fault = next(d for d in report.errors if d.code == "AMK307")
    assert "barrier 1" in fault.message and "barrier 2" in fault.message and fault.related


# -------------------------------------------------------------------------------- A13: bytes, A3: threads that are gone
def staged(rows: int, expected: int, *, arrivals: int = 1, count: int = 1, guard: bool = False) -> KernelDescriptor:
    """A box of `rows` x 64 halves, its bytes expected by the threads below `arrivals` (`guard`: and below n)."""
    k = KernelBuilder("staged", target="sm_90a", threads=THREADS)
    n = k.size("n", max=THREADS) if guard else None
    x = k.tensor("x", "bf16", (16, 64), align=16)
    z = k.tensor("z", "bf16", (THREADS,), access="write")
    m = k.tensormap("m", x, (rows, 64))
    s, r, bar = (
        k.shared("s", "bf16", (16, 64), align=128),
        k.registers("r", "bf16", (1,)),
        k.barrier("full", count=count),
    )
    initialised(k, bar)
    with k.when(both(k.t < arrivals, k.t < n) if n is not None else k.t < arrivals):
        k.arrive(bar[0], bytes=expected)
    with k.when(eq(k.t, 0)):
        k.call("tma.load.2d", {"dst": s[0, 0], "src": m[0, 0], "bar": bar[0]})
    k.wait_phase(bar[0], 0)
    k.load(r[0], s[k.t // 64, k.t % 64])
    k.store(z[k.t], r[0])
    return k.finish(grid=(1,))


def test_a13_bytes_of_eight_rows_for_a_box_of_sixteen() -> None:
    report = check(staged(16, 1024), "h200")
    assert {d.code for d in report.errors} == {"AMK307"}
    assert "full[0]" in report.errors[0].message and "1024 bytes" in report.errors[0].message


def test_a13_both_clamped_or_both_whole() -> None:
    assert codes(staged(16, 2048)) == set() and codes(staged(8, 1024)) == set()


def test_a3_arrivals_that_count_threads_that_are_gone() -> None:
    """The count is that of the block, and threads beyond the size have returned: the phase never ends."""
    assert codes(staged(16, 16, arrivals=128, count=128, guard=True)) == {"AMK307"}
    assert codes(staged(16, 16, arrivals=128, count=128)) == set()


def test_reading_before_the_wait_or_after_another() -> None:
    for spoil in ("no wait", "other barrier"):
        k = KernelBuilder("early", target="sm_90a", threads=64)
        x, z = k.tensor("x", "f32", (64,), align=16), k.tensor("z", "f32", (64,), access="write")
        s, r = k.shared("s", "f32", (64,)), k.registers("r", "f32", (1,))
        full, other = k.barrier("full"), k.barrier("other")
        initialised(k, full, other)
        with k.when(eq(k.t, 0)):
            k.arrive(other[0])
            k.arrive(full[0], bytes=256)
            k.call("bulk.load", {"dst": s[0], "src": x[0], "bar": full[0]}, bytes=256)
        if spoil == "other barrier":
            k.wait_phase(other[0], 0)
        k.load(r[0], s[k.t])
        k.store(z[k.t], r[0])
        k.wait_phase(full[0], 0)
        assert codes(k.finish(grid=(1,))) == {"AMK303"}, spoil


# ----------------------------------------------------------------------------------------------- rings of bulk copies
def ring(
    slots: int, *, drains: int = 4, parity: int = 1, release: str = "last", skip: bool = False
) -> KernelDescriptor:
    """One producer warp, four warps that drain: each waits for a slot, reads it, and one lane a warp frees it."""
    k = KernelBuilder("ring", target="sm_90a", threads=160)
    n = k.size("n", max=2**20)
    x = k.tensor("x", "f32", (n, 128), align=16)
    z = k.tensor("z", "f32", (n, 128), access="write")
    s, r = k.shared("s", "f32", (slots, 128)), k.registers("r", "f32", (1,))
    full, empty = k.barrier("full", slots=slots), k.barrier("empty", slots=slots, count=drains)
    initialised(k, full, empty)

    def after(slot: Expr, bit: Expr) -> dict[str, Expr]:
        from amk.dsl.expr import select

        last = eq(slot, slots - 1)
        return {"slot": select(last, 0, slot + 1), "bit": select(last, bit ^ 1, bit)}

    with k.team():
        with k.role(4, 5), k.when(eq(k.t, 128)), k.loop("i", 0, n, slot=0, bit=parity) as i:
            if not skip:
                k.wait_phase(empty[i.slot], i.bit)
            k.arrive(full[i.slot], bytes=512)
            k.call("bulk.load", {"dst": s[i.slot, 0], "src": x[i.var, 0], "bar": full[i.slot]}, bytes=512)
            i.next(**after(i.slot, i.bit))
        with k.role(0, 4), k.loop("j", 0, n, slot=0, bit=0) as j:
            k.wait_phase(full[j.slot], j.bit)
            if release == "first":
                with k.when(eq(k.t % 32, 0)):
                    k.arrive(empty[j.slot])
            k.load(r[0], s[j.slot, k.t])
            if release == "last":
                k.sync("warp")
            if release != "first":
                with k.when(eq(k.t % 32, 0)):
                    k.arrive(empty[j.slot])
            k.store(z[j.var, k.t], r[0])
            j.next(**after(j.slot, j.bit))
    return k.finish(grid=(1,))


@pytest.mark.parametrize("slots", [1, 2, 3, 4])
def test_a_ring_is_accepted(slots: int) -> None:
    assert codes(ring(slots)) == set()


@pytest.mark.parametrize(("spoil", "wanted"), [
    ({"drains": 5}, {"AMK307"}), ({"drains": 3}, {"AMK310"}), ({"parity": 0}, {"AMK307"}), ({"skip": True}, {"AMK310"}),
    ({"release": "first"}, {"AMK301"}), ({"release": "no warp barrier"}, {"AMK301"}),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("slots", [1, 2, 3])
def test_a_ring_with_one_thing_wrong(slots: int, spoil: dict[str, int | str | bool], wanted: set[str]) -> None:
    assert codes(ring(slots, **spoil)) & wanted  # type: ignore[arg-type]
