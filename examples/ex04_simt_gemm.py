"""04: C = A B in fp32. New: register tiles, a ring of cp.async stages, and an agent that chooses them for a target."""

from amk import KernelDescriptor
from amk.api import proposed
from amk.dsl.target import Target
from amk.ops.gemm import Gemm


def build(target: str = "sm_80", m: int = 1024, n: int = 1024, k: int = 1024) -> KernelDescriptor:
    """The rule agent's first choice for a problem, valid for every size of the same divisibility."""
    return proposed(Gemm(m=m, n=n, k=k), Target.find(target))


if __name__ == "__main__":
    print(build().to_json(), end="")
