"""What blocks tell each other, as text: order no stronger than needed, nothing restricted that others write."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from amk.synth.compile import compile_cubin
from amk.synth.render import text_of

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "harness")]
import talking  # noqa: E402
from kernels import plain  # noqa: E402

KERNELS = ("histogram", "last_block_sum", "chained_scan", "look_back", "resident_sum", "peek")


@pytest.mark.parametrize("name", ["look_back", "last_block_sum"])
def test_golden(name: str, update_golden: bool) -> None:
    text, path = text_of(plain(getattr(talking, name)())), HERE.parent / "golden" / f"{name}.cu"
    if update_golden:
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8"), "run with --update-golden and review the difference"


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_it_compiles_for_old_and_new(name: str, checked: bool) -> None:
    kernel = getattr(talking, name)()
    for target in ("sm_75", "sm_90a"):
        made = compile_cubin(text_of(kernel, checked=checked), target, name=kernel.name)
        assert made.resources.static_shared_bytes == 0


@pytest.mark.parametrize("name", KERNELS)
def test_orders_are_those_of_the_proof(name: str) -> None:
    text = text_of(getattr(talking, name)())
    body = text[text.index('extern "C"') :]
    assert not re.search(r"__threadfence|\.sys|seq_cst|fence\.", text)
    assert ("amk_turn(turn_" in body) == (name in ("chained_scan", "look_back"))
    spaces = "part|done|total|ready|own|whole|state|half|here"
    assert not re.search(rf"__restrict__ ({spaces})\b", body)
    assert name == "histogram" or re.search(rf"\* ({spaces})\b", body)
