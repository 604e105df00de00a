"""What the target allows: threads, grid, shared memory, registers, blocks on a multiprocessor."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.expr import Apply, Const
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.registers import assumed_registers, estimate_registers, with_margin
from amk.dsl.target import Architecture, Target
from amk.verify.address import shared_size
from amk.verify.domain import assumptions
from amk.verify.duty import Duty
from amk.verify.logic import Logic, Verdict

__all__ = ["limits", "most_registers"]

WARP = 32
SPILL = 8  # bytes of local memory traffic that one register costs: a store and a load


def limits(kernel: KernelDescriptor, target: Target, logic: Logic) -> Iterator[tuple[Duty, Verdict]]:
    """Each limit as a duty, with whether it is kept."""
    a = target.architecture
    most = a.max_threads_per_block
    yield _limit("AMK101", f"{kernel.threads} threads a block are at most {most}", kernel.threads <= most)
    for axis, e, top in zip("xyz", kernel.grid3, a.max_grid, strict=True):
        duty = Duty("AMK102", "", f"grid {axis} = {e} is at most {top}", "proof", (), f"{e} <= {top}")
        yield duty, logic.prove(Apply("<=", (e, Const(top))), assumptions(kernel))
    if kernel.cluster > 1:
        x, c = kernel.grid3[0], kernel.cluster
        claim = f"grid x = {x} is a multiple of the cluster of {c}"
        duty = Duty("AMK102", "", claim, "proof", (), f"{x} % {c} == 0")
        yield duty, logic.prove(Apply("==", (Apply("%", (x, Const(c))), Const(0))), assumptions(kernel))
    need = shared_size(kernel)
    claim = f"{need} bytes of shared memory are at most {a.shared_optin}"
    yield _limit("AMK103", claim, need <= a.shared_optin and need == kernel.shared_bytes)
    # The count of registers is an estimate, shared with the harness: the compiled binary decides.
    fit, data = _most(kernel, a), estimate_registers(kernel, data_only=True)
    live = with_margin(data)
    most = assumed_registers(kernel, target)
    claim = f"{live} registers of live data, estimated, of at most {fit}; a thread is taken to need at most {most}"
    yield _limit("AMK104", claim, live - kernel.spill_bytes // SPILL <= fit or fit == 0)  # 0: too large by other limits
    yield from _budgets(kernel, a)
    blocks = _blocks(a, kernel.threads, need)
    yield _limit("AMK105", f"{kernel.min_blocks} blocks fit on a multiprocessor", blocks >= kernel.min_blocks)


def _budgets(kernel: KernelDescriptor, a: Architecture) -> Iterator[tuple[Duty, Verdict]]:
    """setmaxnreg hands on what the block has at launch, in lumps of 8 registers a thread, and no more than that."""
    launch = most_registers(a, kernel.threads, kernel.min_blocks) // 8 * 8
    warps = (kernel.threads + WARP - 1) // WARP
    for at, s in walk(kernel.body):
        roles = [r for r in s.roles if r.registers is not None] if s.kind == "team" else []
        if not roles:
            continue
        shares = [(r.warps[1] - r.warps[0], r.registers or 0) for r in roles]
        rest = warps - sum(n for n, _ in shares)
        shares += [(rest, launch)] if rest else []
        need, have = WARP * sum(n * count for n, count in shares), WARP * warps * launch
        claim = " + ".join(f"{WARP * n} x {count}" for n, count in shares)
        kept = need <= have and all(count % 8 == 0 for _, count in shares) and "setmaxnreg" in a.features
        duty = Duty("AMK108", at, f"{claim} = {need:,} registers are at most {have:,}", "limits")
        yield duty, Verdict("proved" if kept else "refuted")


def _most(kernel: KernelDescriptor, a: Architecture) -> int:
    """Registers that a thread may hold: with which the promised blocks fit, or the budget of a role."""
    fit = most_registers(a, kernel.threads, kernel.min_blocks)
    roles = [r for _, s in walk(kernel.body) if s.kind == "team" for r in s.roles]
    return max([fit, *(r.registers for r in roles if r.registers is not None)]) if fit else 0


def _limit(rule: str, claim: str, kept: bool) -> tuple[Duty, Verdict]:
    return Duty(rule, "", claim, "limits"), Verdict("proved" if kept else "refuted")


def _blocks(a: Architecture, threads: int, shared: int) -> int:
    """Blocks that one multiprocessor holds, registers apart."""
    warps = (threads + WARP - 1) // WARP
    taken = shared + a.shared_reserved_per_block
    taken += -taken % a.shared_allocation_unit
    return min(a.warps_per_sm // warps, a.blocks_per_sm, a.shared_per_sm // taken)


def most_registers(a: Architecture, threads: int, blocks: int) -> int:
    """Registers a thread with which so many blocks fit; 0: with none.

    A warp's registers are handed out in lumps, in the quarter of the file of its sub-partition.
    """
    parts = a.warp_allocation_granularity
    warps = (threads + WARP - 1) // WARP
    if warps * blocks > a.warps_per_sm or blocks > a.blocks_per_sm or threads > a.max_threads_per_block:
        return 0
    for count in range(a.max_registers_per_thread, 0, -1):
        lump = count * WARP
        lump += -lump % a.register_allocation_unit
        fits = a.registers_per_sm // parts // lump * parts
        whole = lump * (warps + -warps % parts) <= a.registers_per_sm
        if whole and fits // warps >= blocks:
            return count
    return 0
