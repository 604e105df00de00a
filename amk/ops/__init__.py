"""The operators, one file a family; REGISTRY is what agents, the command and the certificate's meaning look up."""

from __future__ import annotations

from amk.ops import gemm
from amk.ops.family import OperatorFamily

__all__ = ["REGISTRY"]

REGISTRY: dict[str, OperatorFamily] = {f.name: f for f in (gemm.FAMILY,)}
