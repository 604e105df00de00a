"""AMK503: occupancy limiter."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.registers import expected_registers
from amk.harness.advice_device import limiter
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.rule import Rule
from amk.harness.rules.examples import example, small

__all__ = ["AMK503"]


class AMK503(Rule):
    """Little less of one resource would let more blocks onto an SM, or schedulers of an SM stand idle.

    Why:    warps hide each other's latency; below one a scheduler, part of the SM does nothing at all.
    Proof:  none needed, this is advice by NVIDIA's occupancy formula: fewer than 4 warps fit, and shared memory or
            registers are why; or occupancy is under a half, and a sixteenth of the shared memory less lets in a block
            that brings a quarter more warps; or the block size leaves a third of the warps over. Steps of registers
            are told only where the compiled count is known (`--measured`).
    Bad:    57,344 bytes of shared memory on sm_80: 2 blocks fit, and with 2,432 bytes less 3 would.
    Good:   54,784 bytes.
    Source: cuda_occupancy.h of the CUDA toolkit
    """

    code = "AMK503"
    title = "occupancy limiter"
    severity = "warning"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        found = limiter(k.kernel, k.target, expected_registers(k.kernel, k.target))
        if found is not None:
            yield self.report(k, found.pointer, found.message, counterexample=found.values, hint=found.hint)

    @staticmethod
    def bad() -> KernelDescriptor:
        return _kernel(57344)

    @staticmethod
    def good() -> KernelDescriptor:
        return _kernel(54784)


def _kernel(size: int) -> KernelDescriptor:
    tile = {"kind": "buffer", "name": "s", "space": "shared", "dtype": "i8", "shape": [size]}
    return example(buffers=[*small()["buffers"], tile])
