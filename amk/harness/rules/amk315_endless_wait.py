"""AMK315: wait for another block that may never end."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.findings import findings
from amk.harness.rule import Rule
from amk.harness.rules.between_blocks import shown
from amk.harness.rules.examples_flags import handed_on
from amk.harness.rules.witnessed import claimed

__all__ = ["AMK315"]


class AMK315(Rule):
    """A block waits for a flag, and it is not sure that the block which sets it can run.

    Why:    A device runs as many blocks as fit and starts others when these end. A block that waits for one that has
            not started waits for ever, and the device with it.
    Proof:  Blocks that count their number when they start (dispatch in_order) may wait for earlier ones: of all that
            are not done, the first waits for nobody. Blocks that all run at once (dispatch resident) may also wait for
            what every block does before it waits itself: lemma 13.
    Bad:    A wait for the block before, in a grid that is dispatched in any order.
    Good:   The same, dispatched in order.
    Source: CUDA C++ Programming Guide, cooperative groups: grid synchronisation; Merrill and Garland, "Single-pass
            Parallel Prefix Scan with Decoupled Look-back" (NVIDIA, 2016)
    """

    code, title = "AMK315", "wait for another block that may never end"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from claimed(self, k)
        yield from shown(k, findings(self, k, k.messages.of("AMK315")))

    @staticmethod
    def bad() -> KernelDescriptor:
        return handed_on(dispatch="any")

    @staticmethod
    def good() -> KernelDescriptor:
        return handed_on()
