"""The rule-based agent: each operator's own rules, or the defaults of its schedule where it has none.

In: a problem, a target and an objective. Out: a ranked list of schedules with reasons. Deterministic: the same question
gets the same list. A new operator needs nothing here; rules of its own are one line in `RULES`.
"""

from __future__ import annotations

from amk.agents import gemm_rules
from amk.agents.agent import Objective, Proposal, Rules, objective_of
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.target import Target
from amk.errors import Refused
from amk.ops import family_of
from amk.ops.family import OperatorFamily, Problem, Schedule

__all__ = ["RULES", "RuleAgent", "refuse_misfit"]

RULES: dict[str, Rules] = {"gemm": gemm_rules.RULES}
LIMITS = ("AMK101", "AMK103", "AMK104")  # threads, shared memory and registers of one block
DEFAULT_FLOPS, DEFAULT_BANDWIDTH = 10e12, 0.8e12  # a target known by architecture only


class RuleAgent:
    """Proposes by fixed rules and a cost model."""

    name, version = "rules", "1"

    def propose(
        self, problem: Problem, target: Target, objective: Objective = "throughput", *, deterministic: bool = True
    ) -> list[Proposal]:
        """Schedules that fit, the best first; see `Agent.propose`."""
        wanted, family = objective_of(objective), family_of(problem)
        if family.name not in RULES:
            return [_default(family, problem, target)]
        return RULES[family.name].propose(problem, target, wanted, deterministic)

    def reasons(self, problem: Problem, schedule: Schedule, target: Target) -> dict[str, str]:
        """Why each field of the schedule would be what it is; "default" where the operator has no rules."""
        family = family_of(problem)
        if family.name not in RULES:
            return dict.fromkeys(family.schedule.model_fields, "default")
        return RULES[family.name].reasons(problem, schedule, target)


def _default(family: OperatorFamily, problem: Problem, target: Target) -> Proposal:
    """The schedule's own defaults, and the roofline as predicted time."""
    missing = [n for n, f in family.schedule.model_fields.items() if f.is_required()]
    if missing:
        raise Refused(
            f"no agent has rules for {family.name}, and its schedule has no default for {', '.join(missing)}",
            hint="give the schedule",
        )
    flops = family.flops(problem) / (target.fp32_flops or DEFAULT_FLOPS)
    traffic = family.bytes(problem) / (target.bandwidth or DEFAULT_BANDWIDTH)
    return Proposal(family.schedule(), dict.fromkeys(family.schedule.model_fields, "default"), max(flops, traffic))


def refuse_misfit(kernel: KernelDescriptor, target: Target) -> None:
    """Raises Refused, naming the limit, for a block that is larger than the target allows."""
    from amk.harness.context import Context
    from amk.harness.rules import RULES as CHECKS

    context = Context(kernel, target)
    for rule in (r for r in CHECKS if r.code in LIMITS):
        for found in rule().check(context):
            if found.severity == "error":
                raise Refused(
                    f"the schedule does not fit {target.name}: {found.message} ({found.code})", hint=found.hint
                )
