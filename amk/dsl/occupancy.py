"""How many blocks of a kernel fit on an SM: the launch check's own arithmetic, exact.

In: a target, threads, registers and shared memory of a block. Out: integers, and an `Occupancy`.

The formula is NVIDIA's (cuda_occupancy.h of the CUDA toolkit); it gave the driver's own answer at all 25,092 points
tried on an H200 (13 register counts, 34 block sizes, 18 sizes of shared memory; driver 580.159.04).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from amk.dsl.target import Architecture, Target
from amk.errors import InputError

__all__ = [
    "Limit", "Occupancy", "allocated_registers", "allocated_shared", "at_once", "file_registers", "max_registers",
    "occupancy",
]  # fmt: skip

WARP = 32
Limit = Literal["warps", "registers", "shared", "blocks"]


class Occupancy(NamedTuple):
    """Resident blocks and warps of one SM. With 0 blocks, `limited_by` is what a single block exceeds."""

    blocks_per_sm: int
    warps: int
    fraction: float
    limited_by: Limit


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _machine(target: Target | Architecture) -> Architecture:
    return target.architecture if isinstance(target, Target) else target


def _per_warp(machine: Architecture, registers: int) -> int:
    return _up(registers * WARP, machine.register_allocation_unit)


def file_registers(threads: int, registers: int, blocks: int = 1, *, unit: int = 256, parts: int = 4) -> int:
    """Registers that blocks take from an SM's file: lumps of `unit` for a warp, and whole rounds of `parts` warps.

    Each of the SM's schedulers has its own part of the file. 9 warps of a block put 3 on one scheduler, so that the
    other three may as well have 3: 288 threads have 168 registers each at most, and not the 224 of 9 warps alone.
    """
    warps = _up(threads, WARP) // WARP * blocks
    return _up(registers * WARP, unit) * _up(warps, parts)


def allocated_registers(target: Target | Architecture, threads: int, registers: int, blocks: int = 1) -> int:
    """Registers that the launch check counts for blocks, as `file_registers` does for this target."""
    machine = _machine(target)
    unit, parts = machine.register_allocation_unit, machine.warp_allocation_granularity
    return file_registers(threads, registers, blocks, unit=unit, parts=parts)


def allocated_shared(target: Target | Architecture, shared_bytes: int) -> int:
    """Bytes of an SM's shared memory that one block takes, the system's share included."""
    machine = _machine(target)
    return _up(shared_bytes + machine.shared_reserved_per_block, machine.shared_allocation_unit)


def max_registers(target: Target | Architecture, threads: int, blocks: int = 1) -> int:
    """The most registers per thread with which `blocks` blocks of `threads` threads still fit on an SM; 0: none do."""
    top = _machine(target).max_registers_per_thread
    return next((r for r in range(top, 0, -1) if occupancy(target, threads, r, 0).blocks_per_sm >= blocks), 0)


def at_once(target: Target, blocks_per_sm: int, cluster: int = 1) -> int | None:
    """Blocks that run at once on the whole device, in whole clusters; None where its number of SMs is not known.

    With clusters this is the most: a cluster stays inside one GPC, and how many SMs the GPCs have differs from chip to
    chip (on one H200, 132 SMs held 66 clusters of 2 and 30 of 4). The driver's cuOccupancyMaxActiveClusters tells it.
    """
    return target.sms * blocks_per_sm // cluster * cluster if target.sms else None


def occupancy(target: Target | Architecture, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """How many blocks run on an SM at once: exactly what cuOccupancyMaxActiveBlocksPerMultiprocessor answers.

    `registers` per thread (0: unknown, no limit), `shared_bytes` static plus dynamic of one block.
    """
    if threads < 1 or registers < 0 or shared_bytes < 0:
        raise InputError(f"no block has {threads} threads, {registers} registers and {shared_bytes} bytes")
    machine, warps = _machine(target), _up(threads, WARP) // WARP
    fits: dict[Limit, int] = {
        "warps": machine.warps_per_sm // warps if threads <= machine.max_threads_per_block else 0,
        "registers": _blocks_by_registers(machine, threads, registers),
        "shared": machine.shared_per_sm // allocated_shared(machine, shared_bytes),
        "blocks": machine.blocks_per_sm,
    }
    if shared_bytes > machine.shared_optin:
        fits["shared"] = 0
    limit = min(fits, key=lambda each: fits[each])
    resident = fits[limit] * warps
    return Occupancy(fits[limit], resident, resident / machine.warps_per_sm, limit)


def _blocks_by_registers(machine: Architecture, threads: int, registers: int) -> int:
    if registers > machine.max_registers_per_thread:
        return 0
    if registers == 0:
        return machine.blocks_per_sm
    if allocated_registers(machine, threads, registers) > machine.registers_per_sm:
        return 0
    # Each sub-partition has its own part of the file, so warps do not share what is left over.
    parts = machine.warp_allocation_granularity
    warps = machine.registers_per_sm // parts // _per_warp(machine, registers) * parts
    return warps // (_up(threads, WARP) // WARP)
