"""AMK103: too much shared memory."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import extent
from amk.dsl.nodes import Buffer
from amk.dsl.types import nbytes
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Obligation
from amk.harness.rule import Rule
from amk.harness.rules.examples import example, small

__all__ = ["SharedMemory"]


class SharedMemory(Rule):
    """A block's shared memory fits what the target gives one block.

    Why:    A configuration tuned for one GPU does not launch on another.
    Proof:  The bytes of the block's one segment against the architecture's opt-in limit.
    Bad:    196,608 bytes on sm_80, which gives 166,912.
    Good:   Fewer stages or a smaller tile.
    Source: CUDA C++ Programming Guide, Technical Specifications per Compute Capability;
            github.com/triton-lang/triton/issues/2596
    """

    code, title = "AMK103", "too much shared memory"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        need, limit = k.kernel.shared_bytes, k.target.architecture.shared_optin
        if need > limit:
            message = f"{need} bytes of shared memory; {k.target.name} gives a block {limit}"
            largest = max((b for b in k.kernel.buffers if b.space == "shared"), key=_bytes)
            hint = f"make {largest.name} smaller ({_bytes(largest)} bytes): fewer stages or a smaller tile"
            yield self.report(k, k.kernel.pointer_of(largest.name), message, hint=f"{hint}, {need - limit} bytes less")
        else:
            k.obligations.append(Obligation(self.code, "", f"{need} bytes of shared memory fit {limit}", "structure"))

    @staticmethod
    def bad() -> KernelDescriptor:
        big = {"kind": "buffer", "name": "s", "space": "shared", "dtype": "f32", "shape": [49152]}
        return example(buffers=[*small()["buffers"], big])

    @staticmethod
    def good() -> KernelDescriptor:
        big = {"kind": "buffer", "name": "s", "space": "shared", "dtype": "f32", "shape": [36864]}
        return example(buffers=[*small()["buffers"], big])


def _bytes(b: Buffer) -> int:
    """Bytes of a shared array, gaps included."""
    return extent(b.shape, b.layout) * nbytes(b.dtype)
