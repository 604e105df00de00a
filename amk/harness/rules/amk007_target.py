"""AMK007: not on this target."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.instructions import ROWS
from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix
from amk.harness.rule import Rule
from amk.harness.rules.examples import example

__all__ = ["OnTarget"]


class OnTarget(Rule):
    """Every instruction and the cluster exist on the target.

    Why:    The assembler refuses what an architecture lacks, or the launch does.
    Proof:  The row's first architecture and the cluster size are compared with the target's data.
    Bad:    A cluster of 2 blocks on sm_80.
    Good:   No cluster, or a target that has them.
    Source: CUDA C++ Programming Guide, Technical Specifications per Compute Capability
    """

    code, title = "AMK007", "not on this target"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        machine = k.target.architecture
        have = 10 * machine.compute_capability[0] + machine.compute_capability[1]
        if k.kernel.cluster > machine.max_cluster:
            message = f"a cluster of {k.kernel.cluster} blocks; {k.target.name} has at most {machine.max_cluster}"
            yield self.report(
                k, "/cluster", message, hint=f"use cluster={machine.max_cluster}, or a target with clusters"
            )
        for pointer, s in k.statements.items():
            if s.kind == "call" and s.row in ROWS and ROWS[s.row].since > have:
                message = f"{s.row} exists since sm_{ROWS[s.row].since}, and {k.target.name} is {machine.name}"
                hint = (
                    f"set the target to sm_{ROWS[s.row].since} or newer, or use an instruction that {machine.name} has"
                )
                yield self.report(k, pointer, message, hint=hint)

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """A cluster that fits; not safe, since the target may be what is wrong."""
        from amk.harness.repair import set_field

        if d.pointer == "/cluster":
            most = k.target.architecture.max_cluster
            yield Fix(f"set cluster to {most}", set_field("/cluster", most))

    @staticmethod
    def bad() -> KernelDescriptor:
        return example(cluster=2)

    @staticmethod
    def good() -> KernelDescriptor:
        return example()
