"""Certificates that say `meaning: checked`: kernels that are safe and compute something else get none."""

from __future__ import annotations

import pytest

import amk
from amk.dsl.kernel import KernelDescriptor, Origin
from amk.dsl.target import Target
from amk.errors import Refused
from amk.harness.samples import vector_add
from amk.ops.gemm import Gemm, GemmSchedule, build

SMALL = GemmSchedule(bm=32, bn=32, bk=16, tm=2, tn=4, stages=2, vec_width=4)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"value": "cdiv(K, 16)"', '"value": "cdiv(K, 16)"'),
        ('"value": "cdiv(K, 16)"', '"value": "min(cdiv(K, 16), 40)"'),
        ('"value": "cdiv(K, 16)"', '"value": "select(K > 999, 62, cdiv(K, 16))"'),
        ('"value": "cdiv(K, 16)"', '"value": "cdiv(min(K, 600), 16)"'),
        ("alpha * acc[0, 0]", "alpha * acc[0, 1]"),
        ("alpha * acc[0, 0]", "acc[0, 0]"),
    ],
)
def test_a_wrong_sum_is_refused_however_late_it_goes_wrong(old: str, new: str) -> None:
    text = build(Gemm(m=64, n=64, k=64), SMALL, Target.find("sm_80")).to_json()
    assert old in text
    kernel = KernelDescriptor.from_json(text.replace(old, new, 1))
    if old == new:
        assert amk.certify(kernel).meaning == "checked"
    else:
        with pytest.raises(Refused, match="AMK403|AMK008"):
            amk.certify(kernel)


@pytest.mark.parametrize(
    ("old", "new"), [("fma(beta,", "fma(beta,"), ("fma(beta,", "fma(1.0,"), ("fma(beta,", "fma(alpha,")]
)
def test_a_wrong_factor_of_c_is_refused(old: str, new: str) -> None:
    text = build(Gemm(m=64, n=64, k=64, beta="any"), SMALL, Target.find("sm_80")).to_json()
    assert old in text
    kernel = KernelDescriptor.from_json(text.replace(old, new))
    if old == new:
        assert amk.certify(kernel).meaning == "checked"
    else:
        with pytest.raises(Refused, match="AMK403"):
            amk.certify(kernel)


def test_a_kernel_that_only_claims_an_operator_is_refused() -> None:
    kernel = vector_add()
    claimed = kernel.model_copy(update={"origin": Origin(operator="gemm", problem={"m": 1, "n": 1, "k": 1})})
    with pytest.raises(Refused, match="AMK403.*not those of gemm"):
        amk.certify(claimed)
    with pytest.raises(Refused, match="AMK403.*not those of gemm"):
        amk.certify(
            build(Gemm(m=64, n=64, k=64), SMALL, Target.find("sm_80")).model_copy(
                update={"origin": Origin(operator="gemm", problem={"m": "many"})}
            )
        )
