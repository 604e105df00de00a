"""AMK201: global access out of bounds."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.rule import Rule
from amk.harness.rules.examples import example, small
from amk.harness.rules.witnessed import claimed

__all__ = ["OutOfBounds"]


class OutOfBounds(Rule):
    """Every access to a tensor lies inside it, in each dimension, for all sizes.

    Why:    Memory of others is read or overwritten, and only some sizes show it.
    Proof:  `0 <= i` and `i + width <= size` under the guards, by affine forms, else by Z3;
            in each dimension, so also as a linear address. What of a tensor map's box lies outside has a meaning of its
            own (it is filled, or not written), and needs no proof.
    Bad:    `z[i]` without a guard, where the last block is partly outside.
    Good:   `if i < n` around it, or `when` on the load.
    Source: github.com/openvinotoolkit/openvino/pull/36559; Betts et al., GPUVerify (OOPSLA 2012)
    """

    code, title = "AMK201", "global access out of bounds"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from claimed(self, k)

    @staticmethod
    def bad() -> KernelDescriptor:
        body = small()["body"]
        return example(body=[body[0], body[1]["body"][0]])

    @staticmethod
    def good() -> KernelDescriptor:
        body = small()["body"]
        return example(body=[body[0], {**body[1]["body"][0], "when": "i < n", "other": "0.0"}])
