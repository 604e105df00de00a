"""What one operator family brings: problem, schedule, builder, reference, cost and tolerance, as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.target import Target

__all__ = ["OperatorFamily", "Problem", "Schedule", "Tolerance"]


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


@dataclass(frozen=True, slots=True)
class OperatorFamily:
    """One family. `reference` maps named NumPy arrays and scalars to named float64 results.

    `samples` are small odd sizes by parameter name, at which every new kernel is run against the reference.
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
