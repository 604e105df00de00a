"""AMK108: register budgets of warp roles."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Role, Team
from amk.dsl.occupancy import max_registers
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Obligation
from amk.harness.rule import Rule
from amk.harness.rules.examples import example

__all__ = ["RoleRegisters"]

LEAST, MOST, STEP, GROUP = 24, 256, 8, 4  # registers, registers, registers, warps of a warpgroup


class RoleRegisters(Rule):
    """Register budgets of roles are legal, belong to whole warpgroups, and fit what the block has at launch.

    Why:    `setmaxnreg` moves registers between the warps of a block. All warps of a warpgroup execute it together,
            else it is undefined; and a role that asks for more than the others give back waits for ever.
    Proof:  Budgets are constants: 24 to 256 in steps of 8. A role's warps begin and end at multiples of 4. At launch
            every thread has the most registers with which `min_blocks` blocks fit on an SM (to multiples of 8, whole
            warps on each of the 4 schedulers); the budgets of all warps, those without one counting as at launch, are
            at most that.
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
            faults = [f for i, r in enumerate(s.roles) for f in _faults(i, r)]
            yield from (self.report(k, at, message, hint=hint) for message, hint in faults)
            if not faults:
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


def _faults(i: int, r: Role) -> Iterator[tuple[str, str]]:
    """What is wrong with one role's budget by itself."""
    if r.registers is None:
        return
    if not LEAST <= r.registers <= MOST or r.registers % STEP:
        near = min(MOST, max(LEAST, r.registers // STEP * STEP))
        message = f"role {i} has {r.registers} registers a thread; budgets are {LEAST} to {MOST} in steps of {STEP}"
        yield message, f"use {near}"
    if r.warps[0] % GROUP or r.warps[1] % GROUP:
        message = f"role {i} has warps {r.warps[0]} to {r.warps[1] - 1}, no whole warpgroups of {GROUP}"
        yield message, "give a budget to roles of whole warpgroups only"


def _kernel(consumers: int) -> KernelDescriptor:
    roles = [{"warps": [0, 4], "registers": 40, "body": []}, {"warps": [4, 12], "registers": consumers, "body": []}]
    return example(target="sm_90a", threads=384, body=[{"kind": "team", "roles": roles}])
