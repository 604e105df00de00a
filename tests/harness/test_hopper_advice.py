"""Speed advice about warp-specialised kernels: matrices by their rows, boxes and tiles left to the hardware."""

from __future__ import annotations

import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.layout import Padded, spanned

from .hopper import SCHEDULES, found, gemm

ADVICE = ("AMK501", "AMK502", "AMK505", "AMK506")


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_nothing_is_advised_about_wgmma_gemm(schedule):
    assert found(gemm(schedule), ADVICE) == []


@pytest.mark.parametrize(
    ("row", "layout", "column", "degree"),
    [
        ("stmatrix.x4", None, "k", 8),
        ("stmatrix.x4", spanned(128, 2), "k", None),
        ("stmatrix.x4", Padded(pad=8), "k", None),
        ("ldmatrix.x4", None, "k", 8),
        ("ldmatrix.x4.trans", spanned(128, 2), "k", None),
        ("ldmatrix.x1", None, "row", None),  # eight lanes name rows of one 128-byte line; the others name nothing
        ("ldmatrix.x1", None, "k", 8),
    ],
)
def test_rows_of_matrices(row, layout, column, degree):
    k = KernelBuilder("matrix", target="sm_90a", threads=32)
    s, r = k.shared("s", "bf16", (32, 64), layout=layout, align=1024), k.registers("r", "u32", (4,))
    at = (k.t % 16, k.t // 16 * 8) if column == "k" else (k.t // 8, k.t % 8 * 8)
    if row.startswith("st"):
        k.call(row, {"dst": s[at]}, **{f"v{i}": r[i] for i in range(4)})
    else:
        k.call(row, {"dst": r[0], "src": s[at]})
    said = found(k.finish(grid=(1,)), ("AMK502",))
    assert [d.counterexample["degree"] for d in said] == ([] if degree is None else [degree])


@pytest.mark.parametrize(("pitch", "conflict"), [(32, True), (33, False)])
def test_an_access_of_a_role_is_looked_at_in_a_warp_of_it(pitch, conflict):
    k = KernelBuilder("roles", target="sm_90a", threads=128)
    s = k.shared("s", "f32", (32 * 33,))
    with k.team():
        with k.role(0, 3):
            k.store(s[k.t % 32], 0.0)
        with k.role(3, 4):
            k.store(s[(k.t - 96) * pitch], 0.0)
    assert bool(found(k.finish(grid=(1,)), ("AMK502",))) == conflict


def test_boxes_and_bulk_copies_are_not_uncoalesced():
    k = KernelBuilder("bulk", target="sm_90a", threads=32)
    x, s, bar = k.tensor("x", "f32", (4096, 1024), align=16), k.shared("s", "f32", (32, 1024)), k.barrier("bar")
    k.call("bulk.load", {"dst": s[k.t, 0], "src": x[k.t, 0], "bar": bar[0]}, bytes=4096)
    assert found(k.finish(grid=(1,)), ADVICE) == []
