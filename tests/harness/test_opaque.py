"""Trip counts that the cutoff cannot read: accepted when every number is right, and never when one is wrong."""

from __future__ import annotations

import pytest

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Statement
from amk.dsl.target import Target
from amk.harness.check import check
from amk.harness.opaque import opaque
from amk.ops.gemm import Gemm, GemmSchedule, build


def split(parts: int, **other: object) -> KernelDescriptor:
    """A GEMM whose k is shared by several blocks, each with a ring of three slots."""
    s = GemmSchedule(bm=32, bn=32, bk=16, tm=2, tn=4, vec_width=4, split_k=parts, **other)  # type: ignore[arg-type]
    return build(Gemm(m=64, n=64, k=256), s, Target.find("sm_80"))


def without(body: tuple[Statement, ...], kind: str) -> tuple[Statement, ...]:
    kept = tuple(s for s in body if s.kind != kind)
    return tuple(s.model_copy(update={"body": without(s.body, kind)}) if s.kind in ("for", "if") else s for s in kept)


@pytest.mark.parametrize("parts", [2, 3, 16, 64])
def test_a_shared_sum_is_accepted(parts: int) -> None:
    report = check(split(parts))
    assert report.ok and "AMK301" in {o.rule for o in report.obligations}, report.diagnostics


@pytest.mark.parametrize("kind", ["sync", "wait", "commit"])
def test_a_shared_sum_without_its_order_is_refused(kind: str) -> None:
    kernel = split(16)
    report = check(kernel.replaced(body=without(kernel.body, kind)))
    assert report.exit_code() == 1 and not {o.rule for o in report.obligations} & {"AMK301", "AMK303"}
    assert report.errors[0].confirmed, report.diagnostics  # sizes were found at which the kernel itself shows it


def test_statements_keep_their_places() -> None:
    kernel = split(16)
    found = opaque(kernel)
    assert found is not None and len(found.kernel.body) == len(kernel.body)
    (mine,) = found.kernel.params[len(kernel.params) :]
    assert mine.name == "mine" and mine.min < 0 < mine.max  # min(each, steps - first), by intervals alone


def test_a_kernel_without_such_counts_has_none() -> None:
    assert opaque(build(Gemm(m=8, n=8, k=8), GemmSchedule(bm=32, bn=32, bk=16, tm=2, tn=4, specialise=True),
                        Target.find("sm_80"))) is None  # fmt: skip
