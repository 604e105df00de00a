"""Advice on what the whole device does: what limits the blocks of an SM, and how blocks fill it in waves.

In: a kernel, a target, and the registers that are expected or that were measured. Out: `Remark`s, which two rules and
`amk compile` turn into what they show. Thresholds are here and in the pages of the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

from amk.dsl.expr import integers
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import extent
from amk.dsl.occupancy import Occupancy, at_once, max_registers, occupancy
from amk.dsl.target import Architecture, Target
from amk.dsl.types import nbytes

__all__ = ["Remark", "limiter", "waves"]

SCHEDULERS = 4
NEAR_SHARED, NEAR_REGISTERS = 1 / 16, 8  # of a block's shared memory; registers a thread
GAIN, ENOUGH = 1.25, 0.5  # warps that a step must win, and the occupancy from which more is worth little
UNUSED = 1 / 3  # of an SM's warps that a block size leaves over
EMPTY, IDLE = 0.25, 0.5  # places of all waves, and SMs, that stay empty


class Remark(NamedTuple):
    """What is lost, with its numbers, and what would win it back; `pointer` is what to change in the descriptor."""

    message: str
    hint: str
    values: Mapping[str, int]
    pointer: str


def limiter(d: KernelDescriptor, target: Target, registers: int, *, measured: bool = False) -> Remark | None:
    """What keeps blocks off an SM, where little would let more in, or where schedulers stand idle.

    Steps of registers are told for a measured count alone: the estimate is not that exact.
    """
    now = occupancy(target, d.threads, registers, d.shared_bytes)
    if now.blocks_per_sm == 0:
        return None  # AMK101, AMK103 and AMK104
    machine = target.architecture
    if now.warps < SCHEDULERS and now.limited_by in ("shared", "registers"):
        what = f"{d.shared_bytes:,} bytes of shared memory" if now.limited_by == "shared" else f"{registers} registers"
        message = (
            f"{now.warps} of an SM's {SCHEDULERS} schedulers have a warp: {what} let {now.blocks_per_sm} blocks of "
            f"{d.threads} threads fit"
        )
        where = _largest(d) if now.limited_by == "shared" else "/threads"
        return Remark(message, "use fewer stages, a smaller tile, or more threads a block", _values(now), where)
    if now.fraction >= ENOUGH and now.limited_by != "warps":
        return None
    if now.limited_by == "shared":
        return _shared_step(d, target, registers, now)
    if now.limited_by == "registers" and measured:
        return _register_step(d, target, registers, now)
    left = machine.warps_per_sm - now.warps
    if now.limited_by == "warps" and left >= UNUSED * machine.warps_per_sm:
        message = f"blocks of {d.threads} threads use {now.warps} of the {machine.warps_per_sm} warps of an SM"
        hint = f"use a block size that divides {32 * machine.warps_per_sm}"
        return Remark(message, hint, _values(now), "/threads")
    return None


def _shared_step(d: KernelDescriptor, target: Target, registers: int, now: Occupancy) -> Remark | None:
    room = _shared_for(target.architecture, now.blocks_per_sm + 1)
    over = d.shared_bytes - room
    if not 0 < over <= NEAR_SHARED * d.shared_bytes:
        return None
    then = occupancy(target, d.threads, registers, room)
    if then.warps < GAIN * now.warps:
        return None
    message = (
        f"{now.blocks_per_sm} blocks fit on an SM, limited by {d.shared_bytes:,} bytes of shared memory; with {over:,} "
        f"bytes less {then.blocks_per_sm} would"
    )
    hint = "take away padding, or make a tile smaller"
    return Remark(message, hint, {**_values(now), "over": over}, _largest(d))


def _largest(d: KernelDescriptor) -> str:
    """The pointer of the largest array in shared memory."""
    sizes = {b.name: extent(b.shape, b.layout) * nbytes(b.dtype) for b in d.buffers if b.space == "shared"}
    return d.pointer_of(max(sizes, key=lambda name: sizes[name])) if sizes else "/threads"


def _shared_for(machine: Architecture, blocks: int) -> int:
    """The most shared memory of a block of which so many fit on an SM."""
    unit = machine.shared_allocation_unit
    return machine.shared_per_sm // blocks // unit * unit - machine.shared_reserved_per_block


def _register_step(d: KernelDescriptor, target: Target, registers: int, now: Occupancy) -> Remark | None:
    room = max_registers(target, d.threads, now.blocks_per_sm + 1)
    if not 0 < registers - room <= NEAR_REGISTERS:
        return None
    then = occupancy(target, d.threads, room, d.shared_bytes)
    if then.warps < GAIN * now.warps:
        return None
    message = (
        f"{now.blocks_per_sm} blocks fit on an SM, limited by {registers} registers a thread; with {room} it would be "
        f"{then.blocks_per_sm}"
    )
    hint, values = f"set min_blocks to {then.blocks_per_sm}", {**_values(now), "over": registers - room}
    return Remark(message, hint, values, "/threads")


def _values(now: Occupancy) -> dict[str, int]:
    return {"blocks_per_sm": now.blocks_per_sm, "warps": now.warps}


def waves(d: KernelDescriptor, target: Target, registers: int, largest: tuple[int, int, int]) -> Remark | None:
    """How a grid fills the device: places that stay empty in its last wave, or SMs that never get a block.

    `largest` is the most blocks along each axis for any size.
    """
    now, sms = occupancy(target, d.threads, registers, d.shared_bytes), target.sms
    places = at_once(target, now.blocks_per_sm, d.cluster)
    if not sms or not places:
        return None
    blocks = prod(largest)
    if blocks <= IDLE * sms:
        which = f"{blocks:,} blocks{_any_size(d)} leave" if blocks > 1 else f"1 block{_any_size(d)} leaves"
        message = f"{which} {sms - blocks} of {sms} SMs without one"
        hint = "use smaller tiles, or share the work of a tile"
        return Remark(message, hint, {"blocks": blocks, "sms": sms}, "/grid/0")
    if integers(*d.grid) is None:
        return None
    rounds = -(-blocks // places)
    empty = rounds * places - blocks
    if rounds < 2 or empty < EMPTY * rounds * places:
        return None
    message = (
        f"{blocks:,} blocks take {rounds} waves of {places:,} ({now.blocks_per_sm} an SM), the last with "
        f"{places - empty}: {100 * empty // (rounds * places)} % of the places stay empty"
    )
    hint = "choose a tile whose count comes closer to whole waves, or let blocks walk over tiles"
    return Remark(message, hint, {"blocks": blocks, "waves": rounds, "empty": empty}, "/grid/0")


def _any_size(d: KernelDescriptor) -> str:
    return "" if integers(*d.grid) is not None else ", the most for any size,"
