"""A wait retires what each of its threads has committed itself, whoever waits along."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from amk.dsl.kernel import KernelDescriptor
from amk.harness.check import check
from amk.harness.families import FAMILIES
from amk.harness.interpret import Fault, arguments, run


def ring(cond: str, **fields: Any) -> KernelDescriptor:
    """bulk_ring with the wait that frees half of its staging guarded and changed; lane 0 alone stores and commits."""
    kernel, _ = FAMILIES["bulk_ring"](Random(1))
    data = kernel.to_dict()
    guard = data["body"][2]["roles"][0]["body"][1]["body"][0]
    assert guard["cond"] == "lane == 0" and guard["body"][0]["queue"] == "bulk"
    guard["cond"] = cond
    guard["body"][0].update(fields)
    return KernelDescriptor.model_validate(data)


@pytest.mark.parametrize(
    ("cond", "fields", "right"),
    [
        ("lane == 0", {}, True),
        ("lane < 32", {}, True),  # the other lanes wait for nothing
        ("lane < 7", {}, True),
        ("lane < 32", {"pending": 0}, True),
        ("lane < 32", {"pending": 2}, False),
        ("lane == 1", {}, False),
        ("lane > 0", {}, False),
    ],
)
def test_a_wait_is_for_what_its_threads_committed(cond: str, fields: dict[str, Any], right: bool) -> None:
    kernel = ring(cond, **fields)
    report = check(kernel)
    assert report.ok == right, [d.message for d in report.errors]
    try:
        run(kernel, arguments(kernel, {"m": 5}, np.random.default_rng(0)), detect=True)
        shown = ""
    except Fault as e:
        shown = e.kind
    assert shown == ("" if right else "async") and {d.code for d in report.errors} == (set() if right else {"AMK303"})
