"""AMK209: tensor map that cannot be made."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.builder import KernelBuilder
from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.rule import Rule
from amk.harness.rules.witnessed import claimed

__all__ = ["TensorMaps"]


class TensorMaps(Rule):
    """The driver can encode every tensor map, for all sizes of the domain.

    Why:    A pitch that is no multiple of 16 bytes has no tensor map: the launch fails for some sizes, and only there.
    Proof:  The base is aligned to 16 bytes; every stride but the last is a multiple of 16 bytes, at least 16 and below
            2**40; every extent is from 1 to 2**32. By divisors and intervals of the sizes, else by Z3.
    Bad:    Rows of n elements of two bytes, for any n.
    Good:   n declared a multiple of 8.
    Source: CUDA Driver API, cuTensorMapEncodeTiled
    """

    code, title = "AMK209", "tensor map cannot be made"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from claimed(self, k)

    @staticmethod
    def bad() -> KernelDescriptor:
        return _kernel(1)

    @staticmethod
    def good() -> KernelDescriptor:
        return _kernel(8)


def _kernel(multiple: int) -> KernelDescriptor:
    k = KernelBuilder("tensor_map", target="sm_90a", threads=32)
    n = k.size("n", min=multiple, max=2**20, multiple_of=multiple)
    k.tensormap("m", k.tensor("x", "bf16", (n, n), align=16), (64, 64), swizzle=128)
    return k.finish(grid=(1,))
