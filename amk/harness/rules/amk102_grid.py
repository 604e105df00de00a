"""AMK102: grid too large."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from amk.dsl.evaluate import function_of
from amk.dsl.expr import Expr, names
from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix, Obligation
from amk.harness.rule import Rule
from amk.harness.rules.examples import example, small
from amk.harness.rules.witnessed import claimed

__all__ = ["Grid"]


class Grid(Rule):
    """The grid fits the target's limits and is made of whole clusters, for all sizes of the domain.

    Why:    A grid of 65,536 blocks in y does not launch: large inputs fail where small ones pass. Neither does a grid
            whose blocks do not make up clusters.
    Proof:  The largest value of each grid expression over the domain, against the limit of its dimension; the grid in
            x is a multiple of the cluster, by its divisors, else by Z3.
    Bad:    One block a row in y, for 65,536 rows.
    Good:   Rows in x, or a domain of at most 65,535 rows.
    Source: CUDA C++ Programming Guide, Technical Specifications per Compute Capability;
            github.com/ml-explore/mlx/issues/2267
    """

    code, title = "AMK102", "grid does not fit"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from claimed(self, k)
        limits = k.target.architecture.max_grid
        for n, (axis, e, top, limit) in enumerate(zip("xyz", k.kernel.grid3, k.bounds.grid, limits, strict=True)):
            if top <= limit:
                k.obligations.append(Obligation(self.code, "", f"grid {axis} = {e} is at most {top}", "affine"))
                continue
            sizes, fits = self._first(k, e, limit)
            said = f"; it fits up to {next(iter(names(e)))} = {fits}" if fits is not None else ""
            message = f"grid {axis} = {e} reaches {top}, and {k.target.name} allows {limit}{said}"
            ways = f"set max of {next(iter(names(e)))} to {fits}" if fits is not None else "lower the max of its sizes"
            ways += "" if axis == "x" else f", or put this dimension on x, which takes {limits[0]} blocks"
            yield self.report(k, f"/grid/{n}", message, counterexample=sizes, hint=ways)

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """A smaller domain; not safe, since callers may need the sizes that it leaves out."""
        from amk.harness.repair import set_field

        n = int(d.pointer.rpartition("/")[2])
        e = k.kernel.grid3[n]
        _, fits = self._first(k, e, k.target.architecture.max_grid[n])
        name = next(iter(names(e)), "")
        if fits is not None and fits < k.bounds.domain[name][1]:  # a grid may also grow as a size gets less
            edits = set_field(f"{k.kernel.pointer_of(name)}/max", fits)
            yield Fix(f"set max of {name} to {fits}", edits)

    @staticmethod
    def _first(k: Context, e: Expr, limit: int) -> tuple[dict[str, int], int | None]:
        """Sizes that are too large: the first one, and the last that fits, where one size decides (grids grow with it);
        else the largest of each, if that is beyond the limit."""
        domain, order = k.bounds.domain, tuple(sorted(names(e)))
        if not order or not set(order) <= domain.keys():
            return {}, None
        of = function_of((e,), order)
        if len(order) > 1:
            most = [domain[n][1] for n in order]
            return dict(zip(order, most, strict=True)) if of(*most)[0] > limit else {}, None
        (name,), (lo, hi) = order, domain[order[0]]
        sizes = range(lo, hi + 1, next(p.multiple_of for p in k.kernel.scalars if p.name == name))
        fit = bisect_right(sizes, limit, key=lambda n: of(n)[0])
        return {name: sizes[fit]} if fit < len(sizes) else {}, sizes[fit - 1] if fit else None

    @staticmethod
    def bad() -> KernelDescriptor:
        params = small()["params"]
        return example(body=[], params=[{**params[0], "max": 65536}, *params[1:]], grid=["1", "n"])

    @staticmethod
    def good() -> KernelDescriptor:
        params = small()["params"]
        return example(body=[], params=[{**params[0], "max": 65535}, *params[1:]], grid=["1", "n"])
