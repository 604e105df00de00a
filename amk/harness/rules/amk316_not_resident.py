"""AMK316: blocks that have to run at once do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.occupancy import occupancy
from amk.dsl.registers import assumed_registers
from amk.dsl.target import Target
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Obligation
from amk.harness.rule import Rule
from amk.harness.rules.examples import example

__all__ = ["AMK316"]


class AMK316(Rule):
    """A grid with dispatch resident has more blocks than run on the device at once.

    Why:    Its blocks wait for each other. One that cannot start is waited for for ever; the driver refuses such a
            launch, but only on the device.
    Proof:  The largest grid of the domain against the SMs of the device (of an architecture: of the largest that is
            known) times the blocks that fit on one by threads, shared memory and the registers that the kernel may
            take. The cooperative launch holds the compiled kernel against the device once more.
    Bad:    1024 blocks of 1024 threads on an A100 of 108 SMs.
    Good:   216 blocks.
    Source: CUDA Driver API, cuLaunchCooperativeKernel; cuda_occupancy.h of the CUDA toolkit
    """

    code, title = "AMK316", "blocks that have to run at once do not fit"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        if k.kernel.dispatch != "resident":
            return
        blocks, largest = prod(k.bounds.grid), _largest(k.target)
        registers = assumed_registers(k.kernel, k.target)
        each = occupancy(k.target, k.kernel.threads, registers, k.kernel.shared_bytes).blocks_per_sm
        if largest is not None and blocks > (room := each * (largest.sms or 0)):
            message = f"up to {blocks} blocks have to run at once; {largest.name} has room for {room}, {each} on an SM"
            hint = f"launch at most {room} blocks, each of which takes several tiles"
            yield self.report(k, "/dispatch", message, hint=hint)
            return
        claim = f"at most {blocks} blocks run at once, {each} on an SM; the launch is refused where they do not fit"
        k.obligations.append(Obligation(self.code, "/dispatch", claim, "structure"))

    @staticmethod
    def bad() -> KernelDescriptor:
        return example(body=[], threads=1024, grid=["1024"], dispatch="resident")

    @staticmethod
    def good() -> KernelDescriptor:
        return example(body=[], threads=1024, grid=["216"], dispatch="resident")


def _largest(target: Target) -> Target | None:
    """The target, or of an architecture the device of it with most SMs; None where none is known."""
    known = [target] if target.sms else [t for t in Target.all() if t.architecture == target.architecture and t.sms]
    return max(known, key=lambda t: t.sms or 0, default=None)
