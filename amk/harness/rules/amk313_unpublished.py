"""AMK313: read of what another block may not have written yet."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.findings import findings, unsupported
from amk.harness.rule import Rule
from amk.harness.rules.between_blocks import shown
from amk.harness.rules.examples_flags import handed_on

__all__ = ["AMK313"]


class AMK313(Rule):
    """A block reads from the workspace what another block writes, without having seen a flag of that block.

    Why:    Blocks run in any order and at the same time. Without a flag that is released after the write and acquired
            before the read, the old value is as right as the new one.
    Proof:  Every element of the workspace is written once (AMK401, AMK402). At each read, what the thread knows of
            flags is held against what the writing block does before it sets or counts its flag: lemmas 10 to 12.
    Bad:    `total[bx - 1]`, read without a wait.
    Good:   The wait for the flag of that block.
    Source: PTX ISA, memory consistency model: release and acquire patterns, causality order
    """

    code, title = "AMK313", "read of another block's unpublished write"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from shown(k, findings(self, k, k.messages.of("AMK313")))
        yield from unsupported(k, k.messages.of("AMK008"))

    @staticmethod
    def bad() -> KernelDescriptor:
        return handed_on(waits=False)

    @staticmethod
    def good() -> KernelDescriptor:
        return handed_on()
