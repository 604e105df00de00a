"""AMK108: register budgets of warp roles."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Team
from amk.dsl.occupancy import max_registers
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Obligation
from amk.harness.rule import Rule
from amk.harness.rules.examples import example

__all__ = ["RoleRegisters"]

STEP = 8  # registers of which a budget is a multiple


class RoleRegisters(Rule):
    """Register budgets of roles come in eights, and together fit what the block has at launch.

    Why:    `setmaxnreg` moves registers between the warps of a block: a role that asks for more than the others give
            back waits for ever.
    Proof:  Budgets are constants. At launch every thread has the most registers with which `min_blocks` blocks fit on
            an SM (in eights, whole warps on each of the 4 schedulers); the budgets of all warps, those without one
            counting as at launch, are at most that. That budgets are 24 to 256 and roles whole warpgroups is AMK001
            and AMK006.
    Bad:    40 and 248 registers for 1 and 2 warpgroups that start with 168 a thread.
    Good:   40 and 232.
    Source: PTX ISA, "setmaxnreg"; CUDA C++ Programming Guide, Technical Specifications per Compute Capability
    """

    code, title = "AMK108", "register budgets of roles"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        for at, s in k.statements.items():
            if s.kind != "team" or all(r.registers is None for r in s.roles):
                continue
            if not k.target.has("setmaxnreg"):
                message = f"a role has a register budget, and {k.target.name} cannot move registers between warps"
                yield self.report(k, at, message, hint="leave `registers` out, or choose sm_90a or later")
                continue
            odd = [(i, r) for i, r in enumerate(s.roles) if (r.registers or 0) % STEP]
            for i, r in odd:
                message = f"role {i} has a budget of {r.registers} registers, which is no multiple of {STEP}"
                yield self.report(k, f"{at}/roles/{i}", message, hint=f"give it {(r.registers or 0) // STEP * STEP}")
            if not odd:
                yield from self._sum(k, at, s)

    def _sum(self, k: Context, at: str, s: Team) -> Iterator[Diagnostic]:
        d = k.kernel
        launch, warps = max_registers(k.target, d.threads, d.min_blocks) // STEP * STEP, -(-d.threads // 32)
        budgets = [(r.warps[1] - r.warps[0], r.registers) for r in s.roles if r.registers is not None]
        rest = warps - sum(n for n, _ in budgets)
        need, have = 32 * (sum(n * r for n, r in budgets) + rest * launch), 32 * warps * launch
        parts = " + ".join(f"{32 * n} x {r}" for n, r in [*budgets, *([(rest, launch)] if rest else [])])
        if need > have:
            message = f"the roles take {parts} = {need:,} registers; the block has {d.threads} x {launch} = {have:,}"
            yield self.report(k, at, message, hint="lower the largest budget, or use fewer warps")
            return
        claim = f"{parts} = {need:,} registers are at most {have:,}"
        k.obligations.append(Obligation(self.code, at, claim, "structure"))

    @staticmethod
    def bad() -> KernelDescriptor:
        return _kernel(248)

    @staticmethod
    def good() -> KernelDescriptor:
        return _kernel(232)


def _kernel(consumers: int) -> KernelDescriptor:
    roles = [{"warps": [0, 4], "registers": 40, "body": []}, {"warps": [4, 12], "registers": consumers, "body": []}]
    return example(target="sm_90a", threads=384, body=[{"kind": "team", "roles": roles}])
