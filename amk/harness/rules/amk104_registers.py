"""AMK104: too many registers."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.occupancy import allocated_registers, max_registers
from amk.dsl.registers import assumed_registers, estimate_registers, with_margin
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix, Obligation
from amk.harness.rule import Rule
from amk.harness.rules.examples import example, small

__all__ = ["Registers"]

SPILL = 8  # bytes of local memory traffic that keep one register free: a store and a load
MOST_ELEMENTS = 1024  # four times what a thread can hold: nothing that large becomes registers


def _budgets(kernel: KernelDescriptor) -> Iterator[int]:
    """What threads of roles may hold, where roles say so."""
    for _, s in walk(kernel.body):
        if s.kind == "team":
            yield from (r.registers for r in s.roles if r.registers is not None)


class Registers(Rule):
    """The registers of data that has to stay live, with a margin, fit a thread and the register file.

    Why:    The compiler spills to memory, or the launch fails because the block does not fit on an SM.
    Proof:  Liveness of register buffers and carried values over the descriptor, 20 % added for named values and
            addresses (which the compiler can recompute), less what the kernel may spill (`spill_bytes`; a register
            costs 8, to store and to load it), against 255 and what is left for `min_blocks` blocks. What a thread
            needs with all names and addresses is estimated too, and the compiled binary is held to both.
    Bad:    A 16 x 16 tile of f32 in registers with 512 threads.
    Good:   A smaller tile, or fewer threads.
    Fix:    A promise of `min_blocks` that the registers do not allow is lowered to what they do.
    Source: cuda_occupancy.h of the CUDA toolkit; github.com/HazyResearch/ThunderKittens/issues/37
    """

    code, title = "AMK104", "too many registers"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        d, machine = k.kernel, k.target.architecture
        for i, b in enumerate(d.buffers):
            if b.space == "register" and prod(b.shape) > MOST_ELEMENTS:
                message = f"{b.name} has {prod(b.shape):,} elements; no thread has registers for that"
                yield self.report(k, f"/buffers/{i}", message, hint=f"keep {b.name} in shared memory, or tile it")
                return
        guess = estimate_registers(d, data_only=True)
        need, fit = with_margin(guess) - d.spill_bytes // SPILL, max_registers(k.target, d.threads, d.min_blocks)
        fit = max([fit, *_budgets(d)]) if fit else 0
        if need <= fit or not fit:  # fit 0: AMK101 or AMK105
            claim = f"{need} registers for live data with a margin of 20 % are at most {fit}; a thread is expected to "
            claim += f"take about {estimate_registers(d, k.target)}, and at most {assumed_registers(d, k.target)}"
            k.obligations.append(Obligation(self.code, "", claim, "structure"))
            return
        file = allocated_registers(machine, d.threads, need, d.min_blocks)
        message = (
            f"about {guess} registers of live data a thread, {need} with the margin; {k.target.name} allows {fit} with "
            f"{d.threads} threads x {d.min_blocks} blocks ({file} of {machine.registers_per_sm} of the file)"
        )
        yield self.report(
            k, "", message, hint=f"{self._ways(k, need)}keep at most {fit} registers a thread: a smaller tile"
        )

    @staticmethod
    def _blocks(k: Context, need: int) -> int:
        """The most blocks an SM, below min_blocks, whose registers suffice; 0 if one is too many already."""
        fits = (
            m for m in range(k.kernel.min_blocks - 1, 0, -1) if need <= max_registers(k.target, k.kernel.threads, m)
        )
        return next(fits, 0)

    def _ways(self, k: Context, need: int) -> str:
        blocks = self._blocks(k, need)
        return f"set min_blocks to {blocks}, or " if blocks else ""

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """Fewer blocks an SM, where that leaves the registers, on the target that the file was made for."""
        from amk.harness.repair import set_field

        guess = estimate_registers(k.kernel, data_only=True)
        blocks = self._blocks(k, with_margin(guess) - k.kernel.spill_bytes // SPILL) if d.pointer == "" else 0
        if blocks and k.target.architecture.name == k.kernel.target:
            yield Fix(f"set min_blocks to {blocks}", set_field("/min_blocks", blocks), safe=True)

    @staticmethod
    def bad() -> KernelDescriptor:
        body = [
            {"kind": "store", "dst": "r[0]", "values": ["0.0"]},
            {"kind": "store", "dst": "a[0]", "values": ["r[0]"]},
        ]
        tile = {"kind": "buffer", "name": "r", "space": "register", "dtype": "f32", "shape": [256]}
        return example(threads=512, buffers=[*small()["buffers"], tile], body=body)

    @staticmethod
    def good() -> KernelDescriptor:
        body = [
            {"kind": "store", "dst": "r[0]", "values": ["0.0"]},
            {"kind": "store", "dst": "a[0]", "values": ["r[0]"]},
        ]
        tile = {"kind": "buffer", "name": "r", "space": "register", "dtype": "f32", "shape": [64]}
        return example(threads=512, buffers=[*small()["buffers"], tile], body=body)
