"""What the rules share for one kernel on one target: the engines' results, each computed once and on demand."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from amk.dsl.expr import Elem
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.nodes import Statement
from amk.dsl.record import field, record
from amk.dsl.target import Target
from amk.harness.diagnostics import Diagnostic, Obligation

if TYPE_CHECKING:
    from amk.harness.advice_warp import Warp
    from amk.harness.bounds import BoundsResult
    from amk.harness.coverage import CoverageResult, Site
    from amk.harness.events import Program
    from amk.harness.messages import Messages
    from amk.harness.order import OrderResult

__all__ = ["Context", "ProverChoice"]

ProverChoice = Literal["auto", "z3", "both"]


@record()
class Context:
    """A kernel, a target, and how bounds are to be proved (`z3`: every obligation again by Z3; `both`: compared).

    `found` is what all other rules said, once they have: AMK091 looks at it.
    """

    kernel: KernelDescriptor
    target: Target
    prover: ProverChoice = "auto"
    obligations: list[Obligation] = field(default_factory=list)
    found: list[Diagnostic] = field(default_factory=list)

    @cached_property
    def statements(self) -> dict[str, Statement]:
        """Each statement by its JSON pointer, in program order."""
        return dict(walk(self.kernel.body))

    @cached_property
    def bounds(self) -> BoundsResult:
        """Bounds, overflow, alignment, divisions and domain of the kernel, for all sizes."""
        from amk.harness.bounds import prove_bounds

        return prove_bounds(self)

    @cached_property
    def order(self) -> OrderResult:
        """Races, initialisation, shared bounds, barriers and asynchronous groups, by enumeration."""
        from amk.harness.order import simulate

        return simulate(self)

    @cached_property
    def program(self) -> Program:
        """The kernel prepared for evaluation. Raises Unsupported."""
        from amk.harness.events import Program

        return Program(self.kernel)

    def follows_data(self, ref: Elem) -> bool:
        """Whether an index of an operand depends on data."""
        from amk.harness.faults import Unsupported

        try:
            return any(map(self.program.data, ref.index))
        except Unsupported:  # then nothing is accepted
            return False

    @cached_property
    def messages(self) -> Messages:
        """What blocks tell each other by flags, and what that shows."""
        from amk.harness.messages import messages

        return messages(self)

    @cached_property
    def coverage(self) -> CoverageResult:
        """Outputs written once, reads of what other threads write, by structure or enumeration."""
        from amk.harness.coverage import cover

        return cover(self)

    @cached_property
    def warp(self) -> Warp:
        """One warp of an interior block, for advice. Raises Unsupported."""
        from amk.harness.advice_warp import Warp

        return Warp(self.program)

    @cached_property
    def side_by_side(self) -> list[list[Any]]:
        """Statements that one vector access would do, for advice. Raises Unsupported."""
        from amk.harness.advice_width import side_by_side

        return list(side_by_side(self.program, self.kernel.body))

    @cached_property
    def single_accesses(self) -> list[Site]:
        """Accesses of single threads to global memory, for advice. Raises Unsupported."""
        from amk.harness.advice_warp import sites

        return sites(self.program)
