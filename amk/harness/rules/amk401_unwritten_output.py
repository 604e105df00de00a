"""AMK401: output element may stay unwritten."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.expr import Apply
from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix
from amk.harness.findings import findings, unsupported
from amk.harness.rule import Rule
from amk.harness.rules.examples import filled

__all__ = ["AMK401"]


class AMK401(Rule):
    """An element of an output tensor that no thread writes, at some size.

    Why:    the caller reads what was in memory before; with whole tiles it never shows.
    Proof:  in tile form (`index = tile * block + rel`, a grid of `cdiv(size, tile)`, guards that are exactly
            `index < size`) for all sizes, by enumerating one tile. The number of a tile may be made of block indices,
            of the rank in a cluster and of loops over tiles, persistent ones (`range(bx, tiles, gx)`) and rasters
            included, by a lemma each; boxes of a tensor map end at the tensor's edge. In grid-stride form (a loop over
            a vector by all threads of a constant grid) for all sizes, by a lemma; where all sizes are constants, by
            counting every element over the whole grid.
    Bad:    a grid of `n // 128` blocks of 128.
    Good:   a grid of `cdiv(n, 128)`.
    Fix:    A grid that rounds down is rounded up.
    Limits: any other kernel of symbolic sizes is run at several small and ragged sizes: it is refused where that shows
            a fault, and is undecided where it shows none.
    Source: `index -> (index // tile, index % tile)` is a bijection; docs/soundness.md, section on coverage.
    """

    code = "AMK401"
    title = "output element may stay unwritten"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from findings(self, k, k.coverage.of("AMK401"))
        yield from unsupported(k, k.coverage.of("AMK008"))

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """A grid that counts the last, partial tile too."""
        from amk.dsl.patch import Edit

        for i, e in enumerate(k.kernel.grid if d.severity == "error" else ()):
            if isinstance(e, Apply) and e.op == "//":
                up = Apply("cdiv", e.args)
                yield Fix(f"launch {up} blocks", (Edit("replace", f"/grid/{i}", str(up)),), safe=True)

    @staticmethod
    def bad() -> KernelDescriptor:
        return filled("unwritten_output", whole=False)

    @staticmethod
    def good() -> KernelDescriptor:
        return filled("unwritten_output")
