"""What every agent offers: from a problem, a target and an objective to schedules, each choice with its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from amk.dsl.target import Target
from amk.errors import ArgumentError
from amk.ops.family import Problem, Schedule

__all__ = ["OBJECTIVES", "Agent", "Objective", "Proposal", "Rules", "objective_of"]

Objective = Literal["throughput", "latency", "energy"]
OBJECTIVES: dict[Objective, str] = {
    "throughput": "least time of a call that follows others: the start of the pipeline is not counted",
    "latency": "least time of one call on an idle device: memory is cold, and the pipeline has to fill first",
    "energy": "fewest joules: instructions, bytes from shared memory, L2 and DRAM, and leakage while it runs",
}
assert get_args(Objective) == tuple(OBJECTIVES)


def objective_of(name: str) -> Objective:
    """The objective called `name`. Raises ArgumentError that names all of them."""
    if name not in OBJECTIVES:
        known = "; ".join(f"{n} ({what})" for n, what in OBJECTIVES.items())
        raise ArgumentError(f"there is no objective {name!r:.60}", hint=f"one of: {known}")
    return name


@dataclass(frozen=True, slots=True)
class Proposal:
    """One schedule, the reason of each of its fields, and what a model predicts of it.

    seconds:  of one call, without the host's part
    joules:   of one call; None where nobody has a model
    """

    schedule: Schedule
    reasons: dict[str, str]
    seconds: float
    joules: float | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """What the rule agent knows of one operator.

    propose:  (problem, target, objective, deterministic) -> proposals, the best first; Refused when nothing fits
    reasons:  (problem, schedule, target) -> a reason for every field of the schedule
    """

    propose: Callable[[Any, Target, Objective, bool], list[Proposal]]
    reasons: Callable[[Any, Any, Target], dict[str, str]]


class Agent(Protocol):
    """Proposes; never decides. Every proposal goes through the same harness."""

    name: str
    version: str

    def propose(
        self, problem: Problem, target: Target, objective: Objective = "throughput", *, deterministic: bool = True
    ) -> list[Proposal]:
        """Schedules, the best first by a model of the objective.

        `deterministic` puts schedules whose results can differ in the last bits from run to run behind all others.
        Raises ArgumentError for an unknown objective, Refused when nothing fits, naming the limit.
        """
