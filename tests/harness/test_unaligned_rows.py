"""Accesses that start between two cells of the ordering check, in kernels whose trip counts it takes as any numbers."""

import importlib.util
from pathlib import Path

from amk.harness.check import check
from amk.ops.wgmma_gemm import WgmmaSchedule

_spec = importlib.util.spec_from_file_location("hopper", Path(__file__).with_name("hopper.py"))
hopper = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(hopper)


def test_a_row_of_stmatrix_that_is_not_aligned_is_refused():
    """It ended in a traceback: only the first of the walks was repeated with cells of single elements."""

    def shift(data):
        right = "16 + t % 32 // 16 * 8"
        s = next(x for x in hopper.statements(data, "call", row="stmatrix") if right in x["refs"]["dst"])
        s["refs"]["dst"] = s["refs"]["dst"].replace(right, right + " - 2")

    kernel = hopper.spoiled(shift, WgmmaSchedule(warpgroups=1, columns=64, slots=2, cluster=1))
    assert "AMK205" in {d.code for d in check(kernel).errors}
