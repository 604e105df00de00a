"""AMK007: not on this target."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.instructions import ROWS
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Statement
from amk.dsl.target import Architecture, Feature
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix
from amk.harness.rule import Rule
from amk.harness.rules.examples import example

__all__ = ["OnTarget"]


class OnTarget(Rule):
    """Every instruction, every construct and the cluster exist on the target.

    Why:    The assembler refuses what an architecture lacks, or the launch does.
    Proof:  The row's first architecture and its feature, what barriers, roles and peers need, and the cluster size are
            compared with the target's data. wgmma exists on sm_90a alone, whatever comes after it.
    Bad:    A cluster of 2 blocks on sm_80.
    Good:   No cluster, or a target that has them.
    Source: CUDA C++ Programming Guide, Technical Specifications per Compute Capability; PTX ISA, Target ISA Notes
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
        for i, m in enumerate(k.kernel.maps):
            yield from self._lacking(k, machine, f"/maps/{i}", f"the tensor map {m.name}", "tma")
        for i, b in enumerate(k.kernel.barriers):
            yield from self._lacking(k, machine, f"/barriers/{i}", f"the mbarrier {b.name}", "mbarrier")
        for pointer, s in k.statements.items():
            if s.kind == "call" and s.row in ROWS and ROWS[s.row].since > have:
                message = f"{s.row} exists since sm_{ROWS[s.row].since}, and {k.target.name} is {machine.name}"
                hint = (
                    f"set the target to sm_{ROWS[s.row].since} or newer, or use an instruction that {machine.name} has"
                )
                yield self.report(k, pointer, message, hint=hint)
            for what, feature in _needs(s):
                yield from self._lacking(k, machine, pointer, what, feature)

    def _lacking(self, k: Context, machine: Architecture, pointer: str, what: str, need: str) -> Iterator[Diagnostic]:
        if need not in machine.features:
            message = f"{what} needs {need}, which {k.target.name} ({machine.name}) does not have"
            yield self.report(k, pointer, message, hint="choose another instruction or another target")

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


def _needs(s: Statement) -> Iterator[tuple[str, Feature]]:
    """What a statement is, and the feature that it needs."""
    if s.kind == "call" and s.row in ROWS and ROWS[s.row].feature:
        yield s.row, ROWS[s.row].feature  # type: ignore[misc]
    elif s.kind == "sync" and s.scope == "cluster":
        yield "a barrier of the cluster", "cluster"
    elif s.kind in ("load", "store", "arrive") and s.peer is not None:
        yield f"the peer of a {s.kind}", "cluster"
    elif s.kind in ("wait", "commit") and s.queue in ("bulk", "wgmma"):
        yield f"a {s.kind} of the queue {s.queue}", "tma" if s.queue == "bulk" else "wgmma"
    elif s.kind == "fence":
        yield f"the fence {s.what}", "wgmma" if s.what == "wgmma" else "tma" if s.what == "async" else "cluster"
    elif s.kind == "arrive" and s.bytes is not None:
        yield "an arrival that expects bytes", "tma"
    elif s.kind == "team" and any(r.registers is not None for r in s.roles):
        yield "the register budget of a role", "setmaxnreg"
