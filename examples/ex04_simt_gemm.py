"""04: C = A B in fp32. New: register tiles, a ring of cp.async stages, and an agent that chooses them for a target.

The kernel is built in amk/ops/gemm.py; this prints the descriptor that the rule agent proposes first:
python examples/ex04_simt_gemm.py | amk check -
"""

from typing import Any

from amk import KernelDescriptor
from amk.api import proposed
from amk.dsl.target import Target
from amk.ops.gemm import FAMILY, Gemm

SIZES = ({"M": 4, "N": 4, "K": 4}, {"M": 130, "N": 132, "K": 68})


def build(target: str = "sm_80", m: int = 1024, n: int = 1024, k: int = 1024) -> KernelDescriptor:
    """The rule agent's first choice for a problem, valid for every size of the same divisibility."""
    return proposed(Gemm(m=m, n=n, k=k), Target.find(target))


def reference(args: dict[str, Any]) -> dict[str, Any]:
    """What the kernel computes, in float64."""
    return FAMILY.reference(args)


if __name__ == "__main__":
    print(build().to_json(), end="")
