"""AMK502: shared bank conflict."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.builder import KernelBuilder
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Padded
from amk.harness.advice import bank_conflicts
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.findings import findings
from amk.harness.rule import Rule

__all__ = ["AMK502"]


class AMK502(Rule):
    """Lanes of one pass of a shared access want different words of the same bank.

    Why:    the access is repeated for each of them: a column of a 32-wide tile takes 32 passes.
    Proof:  none needed, this is advice: 32 banks of 4 bytes; 4-byte accesses in one pass, 8 bytes in two half-warps,
            16 bytes in four quarter-warps; lanes that read the same word share it.
    Bad:    a column of a 32 x 32 float tile.
    Good:   rows padded by one element, or a swizzle.
    Source: CUDA C++ Programming Guide, shared memory; https://github.com/deepspeedai/DeepSpeed/pull/8055.
    """

    code = "AMK502"
    title = "shared bank conflict"
    severity = "warning"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from findings(self, k, bank_conflicts(k))

    @staticmethod
    def bad() -> KernelDescriptor:
        return _kernel(0)

    @staticmethod
    def good() -> KernelDescriptor:
        return _kernel(1)


def _kernel(pad: int) -> KernelDescriptor:
    k = KernelBuilder("bank_conflict", target="sm_80", threads=32)
    s = k.shared("s", "f32", (32, 32), layout=Padded(pad=pad))
    k.store(s[k.t, 31], 0.0)
    return k.finish(grid=(1,))
