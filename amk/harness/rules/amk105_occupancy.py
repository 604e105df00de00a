"""AMK105: min_blocks does not fit."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.occupancy import occupancy
from amk.dsl.registers import assumed_registers
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix, Obligation
from amk.harness.rule import Rule
from amk.harness.rules.examples import example

__all__ = ["Occupancy"]


class Occupancy(Rule):
    """`min_blocks` blocks fit on an SM by warps, blocks and shared memory.

    Why:    A promise to the compiler that the SM cannot keep costs registers for nothing.
    Proof:  NVIDIA's occupancy formula without registers (those are AMK104). How many blocks fit with the registers
            that are estimated is noted, and compared with what fits once the kernel is compiled.
    Bad:    min_blocks=3 with 1024 threads.
    Good:   min_blocks=2, or smaller blocks.
    Fix:    `min_blocks` becomes what fits.
    Source: cuda_occupancy.h of the CUDA toolkit
    """

    code, title = "AMK105", "min_blocks does not fit"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        d, machine = k.kernel, k.target.architecture
        if d.threads > machine.max_threads_per_block or d.shared_bytes > machine.shared_optin:
            return  # AMK101 and AMK103
        most = occupancy(k.target, d.threads, 0, d.shared_bytes)
        if most.blocks_per_sm < d.min_blocks:
            message = f"min_blocks is {d.min_blocks}, and {most.blocks_per_sm} fit on an SM (limit: {most.limited_by})"
            yield self.report(k, "/min_blocks", message, hint=f"set min_blocks to {max(1, most.blocks_per_sm)}")
            return
        registers = assumed_registers(d, k.target)
        fits = occupancy(k.target, d.threads, registers, d.shared_bytes)
        claim = f"with at most {registers} registers a thread {fits.blocks_per_sm} blocks fit on an SM, limited by "
        k.obligations.append(Obligation(self.code, "", claim + fits.limited_by, "structure"))

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """The promise that the SM can keep, on the target that the file was made for."""
        from amk.harness.repair import set_field

        most = occupancy(k.target, k.kernel.threads, 0, k.kernel.shared_bytes).blocks_per_sm
        if most and k.target.architecture.name == k.kernel.target:
            yield Fix(f"set min_blocks to {most}", set_field("/min_blocks", most), safe=True)

    @staticmethod
    def bad() -> KernelDescriptor:
        return example(threads=1024, min_blocks=3)

    @staticmethod
    def good() -> KernelDescriptor:
        return example(threads=1024, min_blocks=2)
