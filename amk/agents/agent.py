"""What every agent offers: from a problem, a target and an objective to schedules, each choice with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from amk.dsl.target import Target
from amk.ops.family import Problem, Schedule

__all__ = ["Agent", "Objective", "Proposal"]

Objective = Literal["throughput", "latency", "energy"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """One schedule, the reason of each choice, and the predicted time in seconds."""

    schedule: Schedule
    reasons: dict[str, str]
    seconds: float


class Agent(Protocol):
    """Proposes; never decides. Every proposal goes through the same harness."""

    name: str
    version: str

    def propose(self, problem: Problem, target: Target, objective: Objective = "throughput") -> list[Proposal]:
        """Schedules, the best first. Raises Refused when nothing fits, naming the limit."""
