"""AMK102: grid too large."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from amk.dsl.evaluate import function_of
from amk.dsl.expr import Expr, names
from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Obligation
from amk.harness.rule import Rule
from amk.harness.rules.examples import example, small

__all__ = ["Grid"]


class Grid(Rule):
    """The grid fits the target's limits for all sizes of the domain.

    Why:    A grid of 65,536 blocks in y does not launch: large inputs fail where small ones pass.
    Proof:  The largest value of each grid expression over the domain, against the limit of its dimension.
    Bad:    One block a row in y, for 65,536 rows.
    Good:   Rows in x, or a domain of at most 65,535 rows.
    Source: CUDA C++ Programming Guide, Technical Specifications per Compute Capability;
            github.com/ml-explore/mlx/issues/2267
    """

    code, title = "AMK102", "grid too large"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        limits = k.target.architecture.max_grid
        for axis, e, top, limit in zip("xyz", k.kernel.grid3, k.bounds.grid, limits, strict=True):
            if top <= limit:
                k.obligations.append(Obligation(self.code, "", f"grid {axis} = {e} is at most {top}", "affine"))
                continue
            said = self._largest(e, limit, k.bounds.domain)
            message = f"grid {axis} = {e} reaches {top}, and {k.target.name} allows {limit}{said}"
            yield self.report(k, "", message, hint="lower the size's max, or put this dimension on x")

    @staticmethod
    def _largest(e: Expr, limit: int, domain: dict[str, tuple[int, int]]) -> str:
        """The largest size that fits, where one size decides (grid expressions grow with it)."""
        order = tuple(names(e))
        if len(order) != 1 or order[0] not in domain:
            return ""
        of = function_of((e,), order)
        lo, hi = domain[order[0]]
        fits = bisect_right(range(lo, hi + 1), limit, key=lambda n: of(n)[0]) + lo - 1
        return f"; it fits up to {order[0]} = {fits}" if fits >= lo else ""

    @staticmethod
    def bad() -> KernelDescriptor:
        params = small()["params"]
        return example(body=[], params=[{**params[0], "max": 65536}, *params[1:]], grid=["1", "n"])

    @staticmethod
    def good() -> KernelDescriptor:
        params = small()["params"]
        return example(body=[], params=[{**params[0], "max": 65535}, *params[1:]], grid=["1", "n"])
