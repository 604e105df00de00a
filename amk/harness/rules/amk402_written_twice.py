"""AMK402: output element written twice."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.findings import findings
from amk.harness.rule import Rule
from amk.harness.rules.examples import filled

__all__ = ["AMK402"]


class AMK402(Rule):
    """An element of a tensor that two stores write, by two threads or by one.

    Why:    two threads race, and the last one wins; tiles that overlap also do the work twice.
    Proof:  as for AMK401: the elements of one tile are all different, and tiles do not overlap; or by counting.
    Bad:    128 threads a block, blocks 64 apart.
    Good:   blocks 128 apart.
    Limits: as for AMK401.
    Source: `index -> (index // tile, index % tile)` is a bijection; docs/soundness.md, section on coverage.
    """

    code = "AMK402"
    title = "output element written twice"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from findings(self, k, k.coverage.of("AMK402"))

    @staticmethod
    def bad() -> KernelDescriptor:
        return filled("written_twice", tile=64)

    @staticmethod
    def good() -> KernelDescriptor:
        return filled("written_twice")
