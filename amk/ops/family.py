"""What one operator family brings: problem, schedule, builder, reference, cost and tolerance, as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.target import Target

__all__ = ["OperatorFamily", "Problem", "Schedule", "Tolerance"]


class Problem(BaseModel):
    """What is to be computed: sizes, types, layouts. Frozen and hashable."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Schedule(BaseModel):
    """How it is to be computed: an agent's typed choices. Frozen and hashable."""

    model_config = ConfigDict(frozen=True, extra="forbid")


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
