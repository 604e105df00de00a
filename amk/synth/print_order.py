"""Barriers, fences, groups, mbarriers and warp roles as CUDA text."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from amk.dsl.expr import Const, Elem, Expr
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.nodes import Arrive, Barrier, Buffer, Commit, Statement, Sync, Team, Wait
from amk.dsl.occupancy import max_registers
from amk.dsl.target import Target
from amk.synth.print_address import AddressPrinter
from amk.synth.print_expr import unsupported

__all__ = ["OrderPrinter", "addresses_shared"]

_ROWS = ("mbarrier.", "tma.", "bulk.", "ldmatrix", "stmatrix", "wgmma.")


def addresses_shared(kernel: KernelDescriptor) -> bool:
    """Whether any statement takes addresses in shared memory as numbers."""
    for _, s in walk(kernel.body):
        if s.kind == "arrive" or (s.kind == "wait" and s.barrier is not None):
            return True
        if (s.kind == "call" and s.row.startswith(_ROWS)) or (s.kind in ("load", "store") and s.peer is not None):
            return True
    return False


class OrderPrinter(AddressPrinter):
    """Spells what orders threads and memory in one kernel."""

    # -- addresses --------------------------------------------------------------------------------------------------
    def shared_at(self, ref: Elem) -> str:
        """The address of an element of shared memory, or of an mbarrier, as a number."""
        d = self.kernel.find(ref.buffer)
        if isinstance(d, Barrier):
            return self._from("shared_", ref.index[0] * 8 + self.kernel.shared_offsets[d.name])
        if not isinstance(d, Buffer) or d.space != "shared":
            raise unsupported(f"the operand {ref}")
        return self._from("shared_", self.kernel.shared_byte(ref))

    def _from(self, base: str, offset: Expr) -> str:
        return base if offset == Const(0) else f"{base} + {self._inside(offset, 'i32', lambda level: level >= 6)}"

    # -- barriers ---------------------------------------------------------------------------------------------------
    def barrier(self, s: Sync) -> str:
        """The barrier of a scope, or one half of it."""
        if s.scope == "named":
            return f"amk_bar_{'arrive' if s.part == 'arrive' else 'sync'}<{s.id}, {s.threads}>()"
        if s.scope == "cluster":
            kind = "_relaxed" if s.relaxed else ""
            halves = [f"amk_cluster_{half}{kind}()" for half in ("arrive", "wait") if s.part in (half, "both")]
            return "; ".join(halves)
        if s.relaxed or s.part != "both":
            raise unsupported(f"half of a barrier of scope {s.scope!r}")
        return {"block": "__syncthreads()", "warp": "__syncwarp()"}[s.scope]

    def commit(self, s: Commit) -> str:
        """Closes the open group of a queue."""
        return "amk_commit_group()" if s.queue == "cp_async" else f"amk_commit_{s.queue}()"

    def waiting(self, s: Wait) -> str:
        """Waits for groups, or for a phase."""
        if s.barrier is not None:
            name = "amk_wait_phase" + ("_cluster" if s.barrier.buffer in self._handed_over else "")
            return f"{name}({self.shared_at(s.barrier)}, {self.expr(_given(s.parity), 'i32')})"
        if s.flag is not None:
            return f"amk_wait_flag({self.address(s.flag)}, {self.expr(_given(s.value), self.element_type(s.flag))})"
        if s.queue == "cp_async":
            return f"amk_wait_group<{s.pending}>()"
        return f"amk_wait_{s.queue}{'_read' if s.read else ''}<{s.pending}>()"

    def arrival(self, s: Arrive) -> str:
        """Arrives on an mbarrier of this block or of a peer."""
        at = self.shared_at(s.barrier)
        name = "amk_arrive" + ("_expect" if s.bytes is not None else "")
        if s.peer is not None:
            scope = "_cluster" if s.barrier.buffer in self._handed_over else ""
            name, at = f"{name}_at_peer{scope}", f"amk_peer({at}, {self.expr(s.peer, 'i32')})"
        return f"{name}({at}{'' if s.bytes is None else ', ' + self.expr(s.bytes, 'i32')})"

    @cached_property
    def _handed_over(self) -> frozenset[str]:
        """Barriers whose phases hand memory from one block of the cluster to another.

        By default an arrival releases, and a wait acquires, to the block (.cta). Loads and stores in a peer's memory
        need it to the cluster. Where blocks are reached by the asynchronous proxy alone, an arrival at a peer only says
        that slots were read, and copies make themselves visible on their mbarriers: there the cluster's scope would
        cost a fence of the whole GPU for each arrival (36 % of a GEMM).
        """
        body = [s for _, s in walk(self.kernel.body)]
        if not any(s.kind in ("load", "store") and s.peer is not None for s in body):
            return frozenset()
        return frozenset(s.barrier.buffer for s in body if s.kind == "arrive" and s.peer is not None)

    # -- roles ------------------------------------------------------------------------------------------------------
    def roles(self, s: Team) -> Iterator[tuple[str, str, str]]:
        """Of each role: the test that leads to it, the change of its registers, its statements."""
        k = self.kernel
        have = max_registers(Target.find(k.target), k.threads, k.min_blocks) // 8 * 8  # with which the block starts
        for i, role in enumerate(s.roles):
            first, end = (32 * w for w in role.warps)
            lower = f"threadIdx.x >= {first} && " if first else ""
            words = ["else"] if i else []
            words += [f"if ({lower}threadIdx.x < {end})"] if i + 1 < len(s.roles) else []
            budget = ""
            if role.registers is not None:
                budget = f"amk_{'fewer' if role.registers < have else 'more'}_registers<{role.registers}>()"
            yield " ".join(words), budget, self.body(role.body)

    def body(self, statements: tuple[Statement, ...]) -> str:
        """The statements, indented by one step."""
        raise NotImplementedError


def _given(e: Expr | None) -> Expr:
    """A term that the form rules have found to be there."""
    assert e is not None
    return e
