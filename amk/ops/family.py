"""What one operator family brings: problem, schedule, builder, reference, cost and tolerance, as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

from amk.dsl.kernel import KernelDescriptor, Origin
from amk.dsl.target import Target

__all__ = ["OperatorFamily", "Problem", "Schedule", "Tolerance", "sizes_by_name"]


class Problem(BaseModel):
    """What is to be computed: sizes, types, layouts. Frozen and hashable."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Schedule(BaseModel):
    """How it is to be computed: an agent's typed choices. Frozen and hashable."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _literally(cls, value: Any, info: ValidationInfo) -> Any:
        """Of a closed set of choices, true is not 1 and 4.0 not 4."""
        annotation = cls.model_fields[info.field_name or ""].annotation
        if get_origin(annotation) is Literal and type(value) not in {type(c) for c in get_args(annotation)}:
            raise ValueError(f"Input should be one of {', '.join(map(str, get_args(annotation)))}")
        return value

    def with_choices(self, given: Mapping[str, Any]) -> Self:
        """This schedule with the given choices in place of its own. Raises pydantic's ValidationError."""
        return type(self).model_validate({**self.model_dump(), **given})


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Largest relative error (Frobenius norm, against float64) that still counts as right, and where it comes from."""

    relative: Callable[[Any], float]
    source: str


def sizes_by_name(problem: Any) -> dict[str, int]:
    """The problem's whole numbers under their own names, and in upper case (field m is the kernel's m or M)."""
    whole = {n: v for n, v in problem.model_dump().items() if type(v) is int}
    return whole | {n.upper(): v for n, v in whole.items()}


@dataclass(frozen=True, slots=True)
class OperatorFamily:
    """One family; one such value in `REGISTRY` is all that agents, the command and the harness need of it.

    name, summary:  what the command calls it, and one line for people
    build:          (problem, schedule, target) -> descriptor; ArgumentError for choices that contradict each other
    reference:      named NumPy arrays and scalars, and the problem's fields, -> named float64 results
    flops, bytes:   of a problem: operations, and the least traffic with global memory in bytes
    tolerance:      largest relative error that still counts as right
    samples:        small odd sizes by parameter name, at which every new kernel is run against the reference
    sizes:          of a problem: values of the kernel's integer parameters (what it leaves out is packed, or smallest)
    """

    name: str
    summary: str
    problem: type[Problem]
    schedule: type[Schedule]
    build: Callable[[Any, Any, Target], KernelDescriptor]
    reference: Callable[[Mapping[str, Any]], dict[str, Any]]
    flops: Callable[[Any], int]
    bytes: Callable[[Any], int]
    tolerance: Tolerance
    samples: tuple[dict[str, int], ...]
    sizes: Callable[[Any], dict[str, int]] = sizes_by_name

    def kernel(self, problem: Problem, schedule: Schedule, target: Target) -> KernelDescriptor:
        """What `build` makes, with operator, problem and schedule as its origin (by which its meaning is checked)."""
        made = self.build(problem, schedule, target)
        facts = {
            "operator": self.name, "problem": problem.model_dump(),
            "schedule": schedule.model_dump(exclude_defaults=True),
        }  # fmt: skip
        return made.model_copy(update={"origin": (made.origin or Origin()).model_copy(update=facts)})
