"""AMK205: misaligned access."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.rule import Rule
from amk.harness.rules.examples import example
from amk.harness.rules.witnessed import claimed

__all__ = ["Alignment"]


class Alignment(Rule):
    """Every access is aligned to its width, for all sizes.

    Why:    A misaligned vector or asynchronous access is a fault of the whole context.
    Proof:  Base, offset and every stride in bytes are multiples of the width: by coefficients, else by Z3. Boxes of a
            tensor map start at 128 bytes of shared memory, bulk copies at 16, tiles of wgmma at whole steps.
    Bad:    A load of four f32 at `i` instead of `4*i`.
    Good:   An index, strides and a base that are multiples of the width.
    Source: CUDA C++ Programming Guide, Device Memory Accesses; github.com/NVIDIA/cutlass/issues/49
    """

    code, title = "AMK205", "misaligned access"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from claimed(self, k)

    @staticmethod
    def bad() -> KernelDescriptor:
        load = {"kind": "load", "dst": "a[0]", "src": "x[i]", "width": 4, "when": "i + 4 <= n", "other": "0.0"}
        return example([load])

    @staticmethod
    def good() -> KernelDescriptor:
        load = {"kind": "load", "dst": "a[0]", "src": "x[i // 4 * 4]", "width": 4, "other": "0.0"}
        return example([{**load, "when": "i // 4 * 4 + 4 <= n"}])
