"""The reduction domain, each k once: safe kernels that leave some of it out or count it twice get no certificate."""

from __future__ import annotations

import re

import pytest

import amk
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.target import Target
from amk.errors import Refused
from amk.harness.check import check
from amk.ops.gemm import Gemm, GemmSchedule, build

SMALL = GemmSchedule(bm=32, bn=32, bk=16, tm=2, tn=4, stages=2, vec_width=4)
NEXT = re.escape("(step + 1) * 16")
MUTANTS = {
    "a depth that does not fill the K tile": (r'("var": "q",\s+"hi": )"4"', r'\1"3"'),
    "one k of the depth twice, another never": (r"(ra\[0, i2, )1(\], rb\[0, )1", r"\g<1>0\g<2>0"),
    "k of A against another k of B": (r"(ra\[0, i2, 1\], rb\[0, )1", r"\g<1>0"),
    "the first K tile twice, the last never": (rf"(from1?\[(?:0, )?){NEXT}", r"\1step * 16"),
    "a K tile of A against another of B": (rf"(from\[0, ){NEXT}", r"\1step * 16"),
    "the last vector of a ragged tail left out": (rf"{NEXT} \+ t % 4 \* 4 < K", "(step + 1) * 16 + t % 4 * 4 + 4 < K"),
    "the first K tile alone ragged": (r"and t // 8 < K", "and t // 8 < K - 1"),
    "sums that do not start at zero": (r'\["0\.0"\]', '["1.0"]'),
    "sums that start again in each step": (
        r"(fma\(ra\[0, i4, 3\], rb\[0, 3, [^]]+\], )acc\[.*?3 - j4\)\]",
        r"\g<1>0.0",
    ),
}


def kernel() -> KernelDescriptor:
    return build(Gemm(m=64, n=64, k=64), SMALL, Target.find("sm_80"))


def test_the_kernel_itself_is_certified() -> None:
    assert amk.certify(kernel()).meaning == "checked"


@pytest.mark.parametrize("name", MUTANTS)
def test_what_is_left_out_or_counted_twice_is_refused(name: str) -> None:
    """Each mutant passes every rule of safety; comparing it with its operator refuses it."""
    old, new = MUTANTS[name]
    text, count = re.subn(old, new, kernel().to_json())
    mutant = KernelDescriptor.from_json(text)
    assert count and check(mutant).ok, [str(d.message) for d in check(mutant).errors]
    with pytest.raises(Refused, match="AMK403"):
        amk.certify(mutant)
