"""Register budgets of roles, at the last value that fits what a block has at launch and at the next."""

from __future__ import annotations

from typing import Any

import pytest

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.target import Target
from amk.harness.check import check
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.rules.amk108_role_registers import RoleRegisters
from amk.harness.rules.examples import example


def found(kernel: KernelDescriptor, target: str = "sm_90a") -> list[Diagnostic]:
    """What the rule says, whatever the others would."""
    return list(RoleRegisters().check(Context(kernel, Target.find(target))))


def team(*roles: tuple[int, int, int | None], threads: int = 384, min_blocks: int = 1) -> KernelDescriptor:
    made = [{"warps": [a, b], "body": [], **({"registers": r} if r is not None else {})} for a, b, r in roles]
    body = [{"kind": "team", "roles": made}]
    return example(target="sm_90a", threads=threads, min_blocks=min_blocks, body=body)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (lambda: team((0, 4, 40), (4, 12, 232)), []),  # 40*128 + 232*256 = 168*384
        (lambda: team((0, 4, 24), (4, 12, 240)), []),
        (lambda: team((0, 4, 48), (4, 12, 232)), ["65,536 registers; the block has 384 x 168 = 64,512"]),
        (lambda: team((0, 4, None), (4, 12, 168)), []),
        (lambda: team((0, 4, None), (4, 12, 176)), ["128 x 168 = 66,560 registers"]),
        (lambda: team((0, 4, 40), (4, 12, 236)), ["role 1 has a budget of 236"]),
        (lambda: team((0, 4, 41), (4, 12, 236)), ["role 0 has a budget of 41", "role 1 has a budget of 236"]),
        (lambda: team((0, 4, 24), (4, 8, 104), threads=256, min_blocks=4), []),  # 64 a thread at launch
        (lambda: team((0, 4, 24), (4, 8, 112), threads=256, min_blocks=4), ["the block has 256 x 64"]),
        (lambda: team((0, 1, None), (1, 9, None), threads=288), []),
        (lambda: team((0, 8, 168), (8, 9, None), threads=288), []),  # 9 warps: 3 on one scheduler, 168 and not 224
        (lambda: team((0, 8, 224), (8, 9, None), threads=288), ["the block has 288 x 168"]),
    ],
)
def test_budgets(kernel: Any, words: list[str]) -> None:
    got = found(kernel())
    assert len(got) == len(words) and all(w in d.message for w, d in zip(words, got, strict=True)), got
    assert {d.code for d in check(kernel()).errors} == ({"AMK108"} if words else set())


def test_what_is_proved_is_listed() -> None:
    (o,) = [o for o in check(team((0, 4, 40), (4, 12, 232))).obligations if o.rule == "AMK108"]
    assert o.claim == "128 x 40 + 256 x 232 = 64,512 registers are at most 64,512"


def test_budgets_need_a_target_that_moves_registers() -> None:
    (d,) = found(team((0, 4, 40), (4, 12, 232)), "A100")
    assert "cannot move registers" in d.message
