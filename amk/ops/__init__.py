"""The operators, one file a family; REGISTRY is what agents, the command and the certificate's meaning look up."""

from __future__ import annotations

from amk.errors import ArgumentError
from amk.ops import gemm
from amk.ops.family import OperatorFamily, Problem

__all__ = ["REGISTRY", "family_of"]

REGISTRY: dict[str, OperatorFamily] = {f.name: f for f in (gemm.FAMILY,)}


def family_of(problem: Problem) -> OperatorFamily:
    """The family of a problem. Raises ArgumentError for what no registered family computes."""
    for family in REGISTRY.values():
        if isinstance(problem, family.problem):
            return family
    known = ", ".join(f"{f.problem.__name__} ({name})" for name, f in REGISTRY.items())
    raise ArgumentError(f"{type(problem).__name__} is the problem of no registered operator", hint=f"one of: {known}")
