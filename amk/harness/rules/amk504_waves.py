"""AMK504: wave quantisation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.registers import expected_registers
from amk.harness.advice_device import waves
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.rule import Rule
from amk.harness.rules.examples import example

__all__ = ["AMK504"]


class AMK504(Rule):
    """The grid fills the device badly: a last wave that is mostly empty, or SMs that never get a block.

    Why:    blocks that do not fill the last wave take as long as those that do.
    Proof:  none needed, this is advice for a known device: a constant grid of two waves or more that leaves a quarter
            of all places empty, or a grid whose largest size gives at most half of the SMs a block. A place is what
            occupancy gives with the expected registers; clusters come whole. Grids that follow a size are judged at
            the largest alone, since for some sizes the last wave of any of them holds a single block.
    Bad:    220 blocks of 1,024 threads on 108 SMs that hold 2 each: 4 run alone at the end.
    Good:   216 blocks.
    Source: NVIDIA Deep Learning Performance Guide, "Wave Quantization"
    """

    code = "AMK504"
    title = "wave quantisation"
    severity = "warning"
    device = "a100"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        if k.target.sms is None:
            return
        x, y, z = k.bounds.grid
        found = waves(k.kernel, k.target, expected_registers(k.kernel, k.target), (x, y, z))
        if found is not None:
            yield self.report(k, found.pointer, found.message, counterexample=found.values, hint=found.hint)

    @staticmethod
    def bad() -> KernelDescriptor:
        return _kernel(220)

    @staticmethod
    def good() -> KernelDescriptor:
        return _kernel(216)


def _kernel(blocks: int) -> KernelDescriptor:
    size = 1024 * blocks
    params = [
        {"kind": "param", "name": "x", "dtype": "f32", "shape": [str(size)], "align": 16},
        {"kind": "param", "name": "z", "dtype": "f32", "shape": [str(size)], "align": 16, "access": "write"},
    ]
    body: list[dict[str, Any]] = [
        {"kind": "load", "dst": "a[0]", "src": "x[bx*1024 + t]"},
        {"kind": "store", "dst": "z[bx*1024 + t]", "values": ["a[0]"]},
    ]
    return example(threads=1024, grid=[str(blocks)], params=params, body=body)
