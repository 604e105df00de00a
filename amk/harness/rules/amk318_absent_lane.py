"""AMK318: shuffle from a lane that takes no part."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import Expr, has_elements, names
from amk.dsl.instructions.warp import ALL_LANES, members_of
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Call
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Related
from amk.harness.faults import Unsupported
from amk.harness.rule import Rule

__all__ = ["AMK318"]


class AMK318(Rule):
    """A shuffle of some lanes of a warp that reads a lane which its mask does not name.

    Why:    the value of a lane that takes no part is undefined; on one GPU it is an old register, on the next zero.
    Proof:  the mask, the distance and the thread are known, so each lane's source is computed. A source beyond the
            warp gives the lane its own value and is no fault. With all 32 lanes every source takes part.
    Bad:    `shfl.down` by 8 among the first 16 lanes: lane 8 reads lane 16.
    Good:   `shfl.bfly` by 8, which stays among them.
    Source: PTX ISA, shfl.sync (undefined if a thread reads one that is inactive or not in the mask).
    """

    code = "AMK318"
    title = "shuffle from a lane that takes no part"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        for pointer, s in k.statements.items():
            if s.kind == "call" and s.row.startswith("shfl.") and members_of(s) != ALL_LANES:
                yield from self._source(k, pointer, s)

    def _source(self, k: Context, pointer: str, s: Call) -> Iterator[Diagnostic]:
        members, hint = members_of(s), "read a lane that `members` names, or let all 32 lanes take part"
        try:
            given = k.program.inline(s.args[_OPERAND[s.row]])
        except Unsupported:  # the engine says so at the statement that it means
            return
        if names(given) - {"t"} or has_elements(given):
            message = f"{s.row} of lanes {members:#010x} reads lane {given}, which is not known to take part"
            first = {"t": (members & -members).bit_length() - 1}
            yield self.report(k, pointer, message, counterexample=first, related=_around(pointer), hint=hint)
            return
        for t, by in enumerate(_tabulated(k, given)):
            lane = _SOURCE[s.row](t % 32, by)
            if members >> t % 32 & 1 and 0 <= lane < 32 and not members >> lane & 1:
                message = f"lane {t % 32} reads lane {lane} by {s.row}, which only lanes {members:#010x} take part in"
                yield self.report(k, pointer, message, counterexample={"t": t}, related=_around(pointer), hint=hint)
                return

    @staticmethod
    def bad() -> KernelDescriptor:
        return _kernel("shfl.down", delta=8)

    @staticmethod
    def good() -> KernelDescriptor:
        return _kernel("shfl.bfly", mask=8)


_OPERAND = {"shfl.down": "delta", "shfl.up": "delta", "shfl.bfly": "mask", "shfl.idx": "lane"}
_SOURCE = {
    "shfl.down": lambda lane, by: lane + by, "shfl.up": lambda lane, by: lane - by,
    "shfl.bfly": lambda lane, by: lane ^ by, "shfl.idx": lambda lane, by: by & 31,
}  # fmt: skip


def _around(pointer: str) -> tuple[Related, ...]:
    """The statement that lets only some lanes come, or the instruction itself."""
    outer = pointer.rpartition("/body/")[0]
    return (Related(outer or pointer, "where lanes are told apart"),)


def _tabulated(k: Context, e: Expr) -> Iterator[int]:
    """The value of a term in each thread."""
    column = k.program.column(e)
    values = tuple(k.program.value(x, {}) for x in column.keys)
    by = [0] * k.kernel.threads
    for (value,), (_, threads) in zip(column.at(values), column.classes, strict=True):
        for t in range(k.kernel.threads):
            if threads >> t & 1:
                by[t] = value
    yield from by


def _kernel(row: str, **by: int) -> KernelDescriptor:
    k = KernelBuilder("absent_lane", target="sm_80", threads=32)
    r = k.registers("r", "f32", (1,))
    k.store(r[0], 1.0)
    with k.when(k.t < 16):
        k.call(row, {"dst": r[0]}, value=r[0], members=0xFFFF, **by)
    return k.finish(grid=(1,))
