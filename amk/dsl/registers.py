"""An estimate of the registers a thread takes, from liveness over the descriptor: before anything is compiled.

`liveness` says what each stretch of straight code needs. Two numbers follow: what it takes with everything kept that
can be, and what it takes at least, with addresses computed again and loads waiting. Where a step of occupancy lies
between them, ptxas goes down towards it; where none does, up to it: registers below a step cost nothing.

The weights were fitted to what ptxas 13.5 takes for golden kernels and random schedules on seven targets; how far the
estimate is from kernels that were held out stands in benchmarks/results/registers.json. It proves nothing: what a
kernel cannot do without is held against the register file (AMK104), and the compiled binary is checked again.
"""

from __future__ import annotations

from bisect import bisect_left
from math import ceil

from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.liveness import Stretch, liveness
from amk.dsl.occupancy import max_registers
from amk.dsl.target import Target

__all__ = [
    "BASE", "MARGIN", "assumed_registers", "estimate_registers", "expected_registers", "has_budgets", "with_margin",
]  # fmt: skip

BASE = 12  # of live data: thread and block index, temporaries of one statement
MARGIN = 1.2
FEWER = 10  # registers of margin at least: a small kernel is off by a few, and has room

# Registers a thread with which one warp more fits on each scheduler (65,536 for 4 schedulers, in lumps of 256 a warp).
STEPS = (40, 48, 56, 64, 72, 80, 96, 128, 168, 255)
LOWEST = 8  # a thread is given no fewer: lumps of 256 registers a warp
LEAST = 4  # the stack pointer, temporaries of a statement
LOOP, LOOP_LEAST = 3.5, 7.0  # for each loop around: what the code behind it needs and nothing computes again cheaply
DATA = 0.92  # of the elements in arrays: the last are read before the last are loaded
STREAM = 0.25  # of the array with the most loads that need not be there at once
FEW, MOVING, MOVING_SHARED = 16, 0.5, 0.5  # addresses computed in a stretch: the first few together, the rest in part
IN_FLIGHT, IN_FLIGHT_LEAST = 50, 5  # loads that unrolled code starts before it uses the first; more than is declared
UNROLLED_LEAST = 0.6  # of these, what stays where registers are short
# How much of the way from a step up to everything kept: ptxas before Blackwell gives up much for a step, less where
# unrolled code has loads to overlap; and little where sizes are constants, or from sm_100 on.
KEEPS, KEEPS_UNROLLED, KEEPS_ALL = 0.44, 0.6, 0.92
NO_LIMIT = 222  # where nothing holds it back, a count ends anywhere between 190 and 255


def with_margin(registers: int) -> int:
    """The estimate and the safety margin."""
    return ceil(registers * MARGIN)


def assumed_registers(kernel: KernelDescriptor, target: Target) -> int:
    """The most registers that a thread is taken to need: the estimate with its margin, within the launch bound.

    The launch bound is printed with every kernel, and the compiler keeps to it: it would rather spill, which is
    refused. A compiled count above this one is reported, since the occupancy that was promised may not hold.
    """
    guess = estimate_registers(kernel, target)
    most = max(with_margin(guess), guess + FEWER)
    return min(most, max_registers(target, kernel.threads, kernel.min_blocks) or most)


def expected_registers(kernel: KernelDescriptor, target: Target) -> int:
    """The registers that a thread is expected to take: the estimate, within the launch bound."""
    return estimate_registers(kernel, target)


def has_budgets(kernel: KernelDescriptor) -> bool:
    """Whether a role has a register budget."""
    return any(r.registers is not None for _, s in walk(kernel.body) if s.kind == "team" for r in s.roles)


def estimate_registers(kernel: KernelDescriptor, target: Target | None = None, *, data_only: bool = False) -> int:
    """Registers of 4 bytes that one thread is expected to take on a target (its own by default), without any margin.

    A kernel whose roles have budgets takes at launch all that its block may have, for the roles to share out.
    `data_only` counts register arrays and carried values alone: what the compiler cannot compute again when registers
    run short, as it can named values and addresses. That figure knows no target.
    """
    found = liveness(kernel)
    if data_only:
        return BASE + found.data
    machine = target or Target.find(kernel.target)
    cap = max_registers(machine, kernel.threads, kernel.min_blocks) or STEPS[-1]
    if has_budgets(kernel) and machine.has("setmaxnreg"):
        return cap
    kept, least = max(map(_kept, found.stretches)), max(map(_least, found.stretches))
    return min(_settled(kept, min(kept, least), cap, _keeps(kernel, machine)), cap if cap < STEPS[-1] else NO_LIMIT)


def _keeps(kernel: KernelDescriptor, target: Target) -> float:
    sizes = any(p.dtype not in ("f16", "bf16", "f32", "f64") for p in kernel.scalars)
    if not sizes or target.architecture.compute_capability >= (10, 0):
        return KEEPS_ALL
    return KEEPS_UNROLLED if any(s.unrolled for s in liveness(kernel).stretches) else KEEPS


def _settled(kept: float, least: float, cap: int, keeps: float) -> int:
    """Between the two, as the steps of occupancy draw it."""
    step = min(STEPS[min(bisect_left(STEPS, least), len(STEPS) - 1)], cap)
    if kept > step:
        return round(step + keeps * (kept - step))
    return step if kept >= STEPS[0] else max(LOWEST, round(kept))


def _kept(s: Stretch) -> float:
    """Registers with everything kept that can be."""
    return DATA * s.data + s.globals + s.guards + _in_flight(s) + LOOP * s.depth + _always(s)


def _least(s: Stretch) -> float:
    """Registers with loads that wait, and addresses and conditions computed again."""
    data = min(s.sunk, s.data - STREAM * s.streamed)
    return DATA * data + UNROLLED_LEAST * _in_flight(s) + LOOP_LEAST * s.depth + _always(s)


def _always(s: Stretch) -> float:
    moving = min(s.moving, FEW) + MOVING * max(0, s.moving - FEW) + MOVING_SHARED * s.moving_shared
    return LEAST + s.carried + s.values + s.shared + moving


def _in_flight(s: Stretch) -> int:
    return min(s.reused, max(0, IN_FLIGHT - s.filled)) + min(s.unrolled, max(IN_FLIGHT_LEAST, IN_FLIGHT - s.filled))
