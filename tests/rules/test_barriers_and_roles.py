"""The limits of named barriers, mbarriers and register budgets, each at the last value that is allowed and the next."""

from __future__ import annotations

from typing import Any

import pytest

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.target import Target
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.rules.amk106_named_barriers import NamedBarriers
from amk.harness.rules.amk107_mbarrier import MOST, MbarrierLimits
from amk.harness.rules.amk108_role_registers import RoleRegisters
from amk.harness.rules.examples import example

Data = dict[str, Any]


def found(rule: type, kernel: KernelDescriptor, target: str = "sm_90a") -> list[Diagnostic]:
    """What one rule says, whatever the others would."""
    return list(rule().check(Context(kernel, Target.find(target))))


# --------------------------------------------------------------------------------------------------------------- AMK106
def meet(number: int, threads: int) -> Data:
    return {"kind": "sync", "scope": "named", "id": number, "threads": threads}


BLOCK: Data = {"kind": "sync"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ([meet(15, 128)], []),
        ([meet(1, 0)], []),  # no count: the whole block
        ([meet(1, 160)], ["160 threads are to arrive, and the block has 128"]),
        ([meet(1, 33)], ["33 threads are no whole number of warps"]),
        ([meet(0, 64)], []),
        ([meet(0, 64), BLOCK], ["barrier 0 is that of the whole block"]),
        ([meet(2, 64), meet(2, 96)], ["barrier 2 counts 96 threads here and 64 elsewhere"]),
        ([meet(2, 64), meet(3, 96), meet(2, 64)], []),
    ],
)
def test_named_barriers(body: list[Data], words: list[str]) -> None:
    got = found(NamedBarriers, example(body=body))
    assert len(got) == len(words) and all(w in d.message for w, d in zip(words, got, strict=True))
    assert all(d.code == "AMK106" and d.hint for d in got)


def test_a_block_that_is_no_whole_number_of_warps_counts_whole_ones() -> None:
    assert not found(NamedBarriers, example(threads=100, body=[meet(1, 128)]))


def test_both_places_of_two_counts_are_named() -> None:
    (d,) = found(NamedBarriers, example(body=[meet(2, 64), meet(2, 96)]))
    assert d.pointer == "/body/1" and d.related[0].pointer == "/body/0"


# --------------------------------------------------------------------------------------------------------------- AMK107
def ring(count: int, *expected: str, slots: int = 4, sizes: tuple[int, int] = (1, 64)) -> KernelDescriptor:
    size = {"kind": "param", "name": "n", "dtype": "i32", "min": sizes[0], "max": sizes[1]}
    body = [{"kind": "arrive", "barrier": "full[0]", "bytes": e} for e in expected]
    full = {"kind": "barrier", "name": "full", "slots": slots, "count": count}
    return example(target="sm_90a", params=[size], buffers=[], barriers=[full], body=body)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (lambda: ring(MOST), []),
        (lambda: ring(MOST + 1), ["expects 1,048,576 arrivals"]),
        (lambda: ring(1, str(MOST)), []),
        (lambda: ring(1, str(MOST + 1)), ["1048576 bytes, up to 1,048,576"]),
        (lambda: ring(1, "-16"), ["-16 bytes"]),
        (lambda: ring(1, "n*16384", sizes=(1, 63)), []),
        (lambda: ring(1, "n*16384"), ["up to 1,048,576"]),
        (lambda: ring(1, "min(n, 63)*16384"), []),
        (lambda: ring(1, "bx*16"), ["a number without a bound"]),
        (lambda: ring(2, str(MOST), "1"), ["2 arrivals at full[0] expect 1,048,576 bytes together"]),
        (lambda: ring(2, "32768", "32768"), []),
    ],
)
def test_mbarriers(kernel: Any, words: list[str]) -> None:
    got = found(MbarrierLimits, kernel())
    assert len(got) == len(words) and all(w in d.message for w, d in zip(words, got, strict=True))


def test_what_is_proved_of_pending_bytes_is_listed() -> None:
    k = Context(ring(2, "32768", "n*16"), Target.find("sm_90a"))
    assert not list(MbarrierLimits().check(k))
    assert [o.claim for o in k.obligations] == ["2 arrivals of at most 32,768 bytes at full[0] are at most 1,048,575"]


def test_mbarriers_take_eight_aligned_bytes_each() -> None:
    odd = {"kind": "buffer", "name": "s", "space": "shared", "dtype": "i8", "shape": [3]}
    full = {"kind": "barrier", "name": "full", "slots": 5, "count": 1}
    k = example(target="sm_90a", params=[], buffers=[odd], barriers=[full], body=[])
    assert k.shared_offsets["full"] == 8 and k.shared_bytes == 8 + 8 * 5


# --------------------------------------------------------------------------------------------------------------- AMK108
def team(*roles: tuple[int, int, int | None], threads: int = 384) -> KernelDescriptor:
    made = [{"warps": [a, b], "body": [], **({"registers": r} if r is not None else {})} for a, b, r in roles]
    return example(target="sm_90a", threads=threads, body=[{"kind": "team", "roles": made}])


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (lambda: team((0, 4, 40), (4, 12, 232)), []),  # 40*128 + 232*256 = 168*384
        (lambda: team((0, 4, 24), (4, 12, 240)), []),
        (lambda: team((0, 4, 48), (4, 12, 232)), ["65,536 registers; the block has 384 x 168 = 64,512"]),
        (lambda: team((0, 4, None), (4, 12, 168)), []),
        (lambda: team((0, 4, None), (4, 12, 176)), ["128 x 168 = 66,560 registers"]),
        (lambda: team((0, 4, 16), (4, 12, 168)), ["role 0 has 16 registers"]),
        (lambda: team((0, 4, 40), (4, 12, 236)), ["role 1 has 236 registers"]),
        (lambda: team((0, 4, 40), (4, 12, 264)), ["role 1 has 264 registers"]),
        (lambda: team((0, 1, 24), (1, 9, 240), threads=288), ["role 0 has warps 0 to 0", "role 1 has warps 1 to 8"]),
        (lambda: team((0, 1, None), (1, 9, None), threads=288), []),
        (lambda: team((0, 8, 168), (8, 9, None), threads=288), []),  # 9 warps: 3 on one scheduler, 168 and not 224
        (lambda: team((0, 8, 224), (8, 9, None), threads=288), ["the block has 288 x 168"]),
    ],
)
def test_budgets(kernel: Any, words: list[str]) -> None:
    got = found(RoleRegisters, kernel())
    assert len(got) == len(words) and all(w in d.message for w, d in zip(words, got, strict=True)), got


def test_budgets_need_a_target_that_moves_registers() -> None:
    (d,) = found(RoleRegisters, team((0, 4, 40), (4, 12, 232)), "A100")
    assert "cannot move registers" in d.message
