"""The report lists what was shown, and by what: bounds, ordering and outputs; and nothing for a kernel with a fault."""

from __future__ import annotations

from amk.dsl.target import Target
from amk.harness.check import check
from amk.harness.samples import transpose, vector_add
from amk.ops.gemm import Gemm, GemmSchedule, build


def shown(kernel, by: str) -> set[str]:  # type: ignore[no-untyped-def]
    return {o.rule for o in check(kernel).obligations if o.by == by}


def test_ordering_is_listed_with_bounds_and_outputs() -> None:
    assert shown(transpose(), "enumeration") == {"AMK202", "AMK206", "AMK207", "AMK301", "AMK302"}
    assert "AMK401" in shown(transpose(), "structure") and "AMK201" in shown(transpose(), "affine")
    assert shown(vector_add(), "enumeration") == {"AMK207"}


def test_copies_are_listed() -> None:
    small = GemmSchedule(bm=32, bn=32, bk=16, tm=2, tn=4, vec_width=4)
    assert "AMK303" in shown(build(Gemm(m=64, n=64, k=64), small, Target.find("sm_80")), "enumeration")


def test_a_faulty_kernel_shows_no_order() -> None:
    kernel = transpose()
    broken = kernel.model_copy(update={"body": tuple(s for s in kernel.body if s.kind != "sync")})
    assert not shown(broken, "enumeration")
