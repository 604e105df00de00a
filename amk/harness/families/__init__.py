"""The kernels that the soundness campaign mutates: families, each a maker of small right kernels from a seed.

A maker draws tiles, threads, stages and layouts, and gives the kernel with the sizes at which its mutants run. Tiles
are as small as the instructions allow, so that a check and a run take milliseconds; sizes stay symbols, so that what is
proved is proved for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import NamedTuple

from amk.dsl.kernel import KernelDescriptor
from amk.harness.families.asynchronous import bulk_ring, named_teams, wgmma_gemm
from amk.harness.families.blocks import elementwise, reduction, softmax, split_k, transpose
from amk.harness.families.clusters import peer_swap
from amk.harness.families.messages import histogram, last_block, look_back
from amk.harness.families.products import cp_async_gemm, mma_gemm, simt_gemm

__all__ = ["FAMILIES", "Maker", "Sizes", "Subject"]

Sizes = Mapping[str, int]


class Subject(NamedTuple):
    """A kernel that is right, and the sizes at which its mutants run (moved into each mutant's own domain)."""

    name: str
    kernel: KernelDescriptor
    sizes: Sequence[Sizes]


Maker = Callable[[Random], tuple[KernelDescriptor, Sequence[Sizes]]]

FAMILIES: dict[str, Maker] = {
    "elementwise": elementwise, "transpose": transpose, "reduction": reduction, "softmax": softmax,
    "split_k": split_k, "simt_gemm": simt_gemm, "cp_async_gemm": cp_async_gemm, "mma_gemm": mma_gemm,
    "wgmma_gemm": wgmma_gemm, "bulk_ring": bulk_ring, "named_teams": named_teams, "peer_swap": peer_swap,
    "histogram": histogram, "last_block": last_block, "look_back": look_back,
}  # fmt: skip
