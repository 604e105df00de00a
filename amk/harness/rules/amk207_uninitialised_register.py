"""AMK207: uninitialised register read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amk.dsl.builder import KernelBuilder
from amk.dsl.infer import family
from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix
from amk.harness.findings import findings
from amk.harness.form import declared
from amk.harness.rule import Rule
from amk.harness.rules.witnessed import witnessed

__all__ = ["AMK207"]


class AMK207(Rule):
    """A register element is read that nothing has surely written.

    Why:    an accumulator that starts from whatever was in the register gives a different wrong result each time.
    Proof:  a forward must-analysis with the index of each register element; loops of constant trip count are run
            through, a loop over a size may run zero times (unless it is shown to run), and an `if` counts under its own
            condition only. Instructions read and write as many registers as their row says; a sum that starts in the
            first round of a loop (`scale_d = step != 0`) is looked at in that round by itself.
    Bad:    `acc[0] = acc[0] + 1` with no first value.
    Good:   `acc[0] = 0` before it.
    Source: Nielson, Nielson and Hankin, Principles of Program Analysis, section 2.1.
    """

    code = "AMK207"
    title = "uninitialised register read"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from witnessed(k, findings(self, k, k.order.of("AMK207")))

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """A first value for the whole array; not safe, since zero may not be what a sum, a product or a maximum starts
        from."""
        from amk.harness.repair import insert

        b = next((b for b in k.kernel.buffers if f"of '{b.name}' before" in d.message), None)
        if b is None or not d.pointer.startswith("/body/"):
            return
        zero = {"float": "0.0", "bool": "false"}.get(family(b.dtype), "0")
        names = [_free(k, f"z{i}") for i in range(len(b.shape))]
        inner: dict[str, Any] = {"kind": "store", "dst": f"{b.name}[{', '.join(names)}]", "values": [zero]}
        for name, n in zip(reversed(names), reversed(b.shape), strict=True):
            inner = {"kind": "for", "var": name, "hi": str(n), "unroll": "full", "body": [inner]}
        yield Fix(f"start {b.name} from {zero}", insert("/".join(d.pointer.split("/")[:3]), inner))

    @staticmethod
    def bad() -> KernelDescriptor:
        return _kernel(False)

    @staticmethod
    def good() -> KernelDescriptor:
        return _kernel(True)


def _kernel(first: bool) -> KernelDescriptor:
    k = KernelBuilder("uninitialised_register", target="sm_80", threads=32)
    acc = k.registers("acc", "i32", (1,))
    if first:
        k.store(acc[0], 0)
    k.store(acc[0], acc[0] + 1)
    return k.finish(grid=(1,))


def _free(k: Context, name: str) -> str:
    """The name, or the name with the first number that makes it a new one."""
    taken = {n for _, n in declared(k.kernel)}
    return next(n for n in (name, *(f"{name}_{i}" for i in range(len(taken) + 1))) if n not in taken)
