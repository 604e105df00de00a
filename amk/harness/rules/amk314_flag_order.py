"""AMK314: flag without the order that its use needs."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix
from amk.harness.findings import findings
from amk.harness.rule import Rule
from amk.harness.rules.between_blocks import shown
from amk.harness.rules.examples_flags import handed_on

__all__ = ["AMK314"]


class AMK314(Rule):
    """A flag is read, set or counted with less order, or for fewer threads, than its use needs.

    Why:    A weak or relaxed access hands nothing over: the flag may be seen before what was written ahead of it. A
            plain access to a flag is also a race with every other one.
    Proof:  Loads of a flag acquire, stores release; a count releases, and acquires as well where its old value decides
            what is read. All of them are of the scope of the device.
    Bad:    A weak store of the flag that another block waits for.
    Good:   The store with order release.
    Fix:    The order that the use needs.
    Source: PTX ISA, memory consistency model: morally strong operations, release and acquire patterns
    """

    code, title = "AMK314", "flag without the order that it needs"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from shown(k, findings(self, k, k.messages.of("AMK314")))

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """The field that the hint names."""
        from amk.harness.repair import set_field

        field, _, value = d.hint.removeprefix("give it ").partition("=")
        yield Fix(d.hint, set_field(f"{d.pointer}/{field}", value.strip("'")), safe=True)

    @staticmethod
    def bad() -> KernelDescriptor:
        return handed_on(order="weak")

    @staticmethod
    def good() -> KernelDescriptor:
        return handed_on()
