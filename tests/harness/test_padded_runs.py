"""A run of bytes in a padded array ends where the array does, padding counted."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from amk.dsl.kernel import KernelDescriptor
from amk.harness.check import check
from amk.harness.families import FAMILIES
from amk.harness.interpret import Fault, arguments, run


@pytest.mark.parametrize(("pad", "index", "code"), [(4, "half", ""), (8, "half", ""), (4, "half + 2", "AMK202")])
def test_the_last_row_of_padded_staging(pad: int, index: str, code: str) -> None:
    """Seed 2000412 of the campaign: rows of 128 bytes, 144 apart; the second one was said to leave the array."""
    kernel, _ = FAMILIES["bulk_ring"](Random(1))
    data = kernel.to_dict()
    next(b for b in data["buffers"] if b["name"] == "out")["layout"] = {"kind": "padded", "pad": pad}
    text = KernelDescriptor.model_validate(data).to_json().replace("out[half, 0]", f"out[{index}, 0]")
    padded = KernelDescriptor.from_json(text)
    report = check(padded)
    assert {d.code for d in report.errors} == ({code} if code else set()), [d.message for d in report.errors]
    args = arguments(padded, {"m": 4}, np.random.default_rng(0))
    if code:
        with pytest.raises(Fault, match="bounds"):
            run(padded, args, detect=True)
    else:
        run(padded, args, detect=True)
        assert np.array_equal(args["y"], 2 * args["x"])
