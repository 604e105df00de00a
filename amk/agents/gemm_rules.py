"""The GEMM rules: a small table of tiles, hard limits of the target, and a cost model that ranks them.

The model is a roofline a wave: a tile takes its FFMA issue over the share of the peak that its thread tile reaches,
the whole is the slower of waves of tiles and the traffic with memory. No constant is per shape. What a number was
measured on stands beside it; all else is an estimate, and only the order of schedules hangs on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from amk.agents.agent import Objective, Proposal, Rules
from amk.agents.gemm_reasons import reasons
from amk.dsl.occupancy import max_registers, occupancy
from amk.dsl.target import Target
from amk.errors import Refused
from amk.ops.gemm import Gemm, GemmSchedule, cdiv_int

__all__ = ["RULES", "Cost", "cost", "misfit"]

# (bm, bn, bk, tm, tn, share of the FFMA peak that full waves of the tile reach). Shares of the 16 x 8 and 8 x 8 thread
# tiles were measured on an H200 at 4096 x 4096 x 4096 (benchmarks/results); the rest are estimates that no
# measurement stands behind yet.
TILES = (
    (128, 128, 32, 16, 8, 0.74), (256, 128, 16, 16, 8, 0.69), (64, 128, 16, 16, 8, 0.71), (128, 128, 16, 8, 8, 0.57),
    (128, 64, 32, 8, 4, 0.45), (64, 128, 16, 8, 8, 0.55), (64, 64, 16, 4, 4, 0.35), (64, 32, 16, 4, 4, 0.33),
    (32, 64, 16, 4, 4, 0.33), (32, 128, 16, 4, 8, 0.40), (32, 32, 32, 4, 4, 0.30), (16, 128, 16, 4, 4, 0.30),
    (16, 64, 32, 4, 2, 0.22), (16, 32, 32, 2, 2, 0.18),
)  # fmt: skip
SHARES = {tile[:5]: tile[5] for tile in TILES}
SPECIALISED = 0.92  # of the share: 3121 us against 2866 for 128 x 128 x 32 (benchmarks/results/gemm-tiles-h200.txt)
DEFAULT_SMS, DEFAULT_BANDWIDTH, DEFAULT_CLOCK = 64, 0.8e12, 1.6e9  # a target known by architecture only
DEFAULT_L2, L2_SHARE = 32 << 20, 0.6  # what stays in L2 while other data streams through it
LAUNCH_SECONDS, STEP_SECONDS = 2.0e-6, 0.35e-6  # an empty launch; latency of a k-step that nothing hides
COLD_SECONDS = 0.8e-6  # the first load from memory
# Joules of one FFMA with its issue, of a byte from shared memory, L2 and memory, and watts that leak from an SM: orders
# of magnitude from public figures for 4 and 5 nm chips.
FFMA_J, SHARED_J, L2_J, MEMORY_J, LEAK_W = 10e-12, 5e-12, 30e-12, 60e-12, 1.0
SPLITS, GROUPS = (2, 4, 8, 16, 32, 64), (16, 8, 4, 2)
LEAST_STEPS = 4  # of a block that shares its k: fewer are mostly start and end


def registers(s: GemmSchedule) -> int:
    """Accumulators, fragments (A in two groups of rows) and addresses, per thread."""
    rows = min(s.tm, 4)
    return s.tm * s.tn + 4 * rows * (1 + (s.tm > rows)) + 4 * s.tn + 34


def misfit(s: GemmSchedule, target: Target) -> str:
    """Why a schedule does not fit a target, with the limit named, or ''."""
    arch = target.architecture
    if fault := s.fault():
        return fault
    if s.threads > arch.max_threads_per_block:
        return f"{s.threads} threads per block exceed {arch.max_threads_per_block} of {arch.name}"
    if s.shared_bytes > arch.shared_optin:
        return f"{s.shared_bytes:,} bytes of shared memory exceed {arch.shared_optin:,} of {arch.name}"
    limit = max_registers(target, s.threads)
    if registers(s) > limit:
        return f"about {registers(s)} registers per thread exceed {limit} of {arch.name} at {s.threads} threads"
    return ""


# ---------------------------------------------------------------------------------------------------------------- cost
@dataclass(frozen=True, slots=True)
class Cost:
    """What the model predicts of one call.

    seconds:  behind another call        fill:  seconds more on an idle device, until the pipeline runs
    joules:   energy                     waves: times the SMs fill with blocks        dram: bytes from and to memory
    """

    seconds: float
    fill: float
    joules: float
    waves: int
    dram: float

    def score(self, objective: Objective) -> float:
        """What the objective wants least of."""
        if objective == "energy":
            return self.joules
        return self.seconds + (self.fill if objective == "latency" else 0.0)


def cost(p: Gemm, s: GemmSchedule, target: Target) -> Cost:
    """The model's prediction for a schedule that fits."""
    sms, clock = target.sms or DEFAULT_SMS, target.clock_hz or DEFAULT_CLOCK
    bandwidth = target.bandwidth or DEFAULT_BANDWIDTH
    blocks = max(1, occupancy(target, s.threads, registers(s), s.shared_bytes).blocks_per_sm)
    tiles = cdiv_int(p.m, s.bm) * cdiv_int(p.n, s.bn) * p.batch * s.split_k
    steps = cdiv_int(cdiv_int(p.k, s.bk), s.split_k) + 1  # prologue and epilogue count as a step
    busy = max(1, min(blocks, cdiv_int(tiles, sms)))  # blocks that share an SM hide each other's latency
    waves = cdiv_int(tiles, sms * busy)
    dram = _dram_bytes(p, s, target, sms * busy)
    core = waves * steps * max(_step_seconds(s, target, clock) * busy, STEP_SECONDS)
    seconds = LAUNCH_SECONDS * (2 if s.split_k > 1 else 1) + max(core, dram / bandwidth)  # C is zeroed by a launch
    ahead = 4 * (s.slots - 1) * (s.bm + s.bn) * min(s.bk, p.k) * min(tiles, sms * busy)
    fill = COLD_SECONDS + ahead / bandwidth
    return Cost(seconds, fill, _joules(s, tiles * (steps - 1), seconds, dram, sms), waves, dram)


def _step_seconds(s: GemmSchedule, target: Target, clock: float) -> float:
    """FFMA issue of one k-step of a tile, and the issue slots of its copies beyond those of 16-byte ones."""
    share = SHARES.get((s.bm, s.bn, s.bk, s.tm, s.tn), min(0.74, 0.0625 * math.sqrt(s.tm * s.tn)))
    ffma = s.bm * s.bn * s.bk / target.architecture.fp32_lanes
    copies = (s.bm + s.bn) * s.bk / s.vec_width / 32
    return (ffma / (share * (SPECIALISED if s.specialise else 1.0)) + copies * (1 - s.vec_width / 4)) / clock


def _dram_bytes(p: Gemm, s: GemmSchedule, target: Target, resident: int) -> float:
    """Bytes from and to memory: what a wave of `resident` blocks shares, or L2 keeps, is read once."""
    rows, cols = cdiv_int(p.m, s.bm) or 1, cdiv_int(p.n, s.bn) or 1
    keeps = L2_SHARE * (target.l2_bytes or DEFAULT_L2)
    high = min(rows, max(s.group, cdiv_int(resident, cols)))  # rows of tiles that a wave covers
    wide = min(cols, cdiv_int(resident, high))
    a, b = 4.0 * p.m * p.k, 4.0 * p.k * p.n
    again_a = 1 if 4 * high * s.bm * p.k <= keeps else cdiv_int(cols, wide)
    again_b = 1 if b <= keeps else cdiv_int(rows, high)
    adds = 2 * s.split_k if s.split_k > 1 else 1 if p.beta == "zero" else 2
    return p.batch * (a * again_a + b * again_b + 4.0 * p.m * p.n * adds)


def _joules(s: GemmSchedule, steps: int, seconds: float, dram: float, sms: int) -> float:
    """Energy of `steps` k-steps of tiles, of the traffic with memory, and of the time it takes."""
    ffma = s.bm * s.bn * s.bk
    shared = 4 * ffma * (s.tm + s.tn) / (s.tm * s.tn)
    return (
        steps * (FFMA_J * ffma + SHARED_J * shared + L2_J * 4 * (s.bm + s.bn) * s.bk)
        + MEMORY_J * dram
        + (LEAK_W * sms * seconds)
    )


# ----------------------------------------------------------------------------------------------------------- proposing
def propose(p: Gemm, target: Target, objective: Objective, deterministic: bool) -> list[Proposal]:
    """Schedules that fit, the best first. Ties go to the smaller block for latency, else to the larger."""
    made: list[tuple[bool, float, int, Proposal]] = []
    last = "no tile fits"
    for s in _candidates(p, target):
        if reason := misfit(s, target):
            last = reason
            continue
        c, size = cost(p, s, target), s.bm * s.bn
        proposal = Proposal(s, reasons(p, s, target), c.seconds, c.joules)
        late = deterministic and s.split_k > 1
        made.append((late, c.score(objective), size if objective == "latency" else -size, proposal))
    if not made:
        raise Refused(f"no schedule fits {target.name}: {last}")
    return [m[3] for m in sorted(made, key=lambda m: m[:3])]


def _candidates(p: Gemm, target: Target) -> Iterator[GemmSchedule]:
    """For each tile the plain schedule, the k shared out where blocks are too few, and grouped tiles where L2 helps."""
    for bm, bn, bk, tm, tn, _ in TILES:
        s = _plain(p, target, {"bm": bm, "bn": bn, "bk": bk, "tm": tm, "tn": tn})
        yield s
        if misfit(s, target):
            continue
        yield from _split(p, s, target)
        yield from _grouped(p, s, target)


def _plain(p: Gemm, target: Target, tile: dict[str, int]) -> GemmSchedule:
    """The most stages that fit, the widest copies allowed."""
    for stages in (3, 2):
        choices = {**tile, "vec_width": p.vector(), "stages": stages, "pad": 4 if p.trans_b else 0}
        s = GemmSchedule.model_validate(choices)
        while s.fault() and s.vec_width > 1:
            s = s.model_copy(update={"vec_width": s.vec_width // 2})
        if not misfit(s, target):
            break
    return s


def _split(p: Gemm, s: GemmSchedule, target: Target) -> Iterator[GemmSchedule]:
    """The fastest split, if one is faster than none: too few tiles for the SMs, and a long k."""
    tiles, steps = cdiv_int(p.m, s.bm) * cdiv_int(p.n, s.bn), cdiv_int(p.k, s.bk)
    if p.beta != "zero" or p.batch > 1 or not 0 < tiles < (target.sms or DEFAULT_SMS):
        return
    made = [s.model_copy(update={"split_k": n}) for n in SPLITS if n * LEAST_STEPS <= steps]
    best = min([s, *made], key=lambda c: cost(p, c, target).seconds)
    if best is not s:
        yield best


def _grouped(p: Gemm, s: GemmSchedule, target: Target) -> Iterator[GemmSchedule]:
    """The raster group that moves the fewest bytes, if it saves a tenth of them: operands larger than L2."""
    rows = cdiv_int(p.m, s.bm)
    if p.batch > 1 or not p.m or not p.n:
        return
    made = [s.model_copy(update={"specialise": True, "group": g}) for g in GROUPS if rows % g == 0]
    best = min(made, key=lambda c: cost(p, c, target).dram, default=None)
    if best is not None and cost(p, best, target).dram < 0.9 * cost(p, s, target).dram:
        yield best


RULES = Rules(propose, reasons)
