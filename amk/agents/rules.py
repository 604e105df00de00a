"""The rule-based GEMM agent: a small table of tiles, hard limits of the target, and a cost model that ranks them.

The model is a roofline a wave: a tile takes its FFMA issue over the share of the peak that its thread tile reaches,
the whole is the slower of waves of tiles and the memory traffic. No constant is per shape.
"""

from __future__ import annotations

from collections.abc import Iterator

from amk.agents.agent import Objective, Proposal
from amk.dsl.occupancy import max_registers, occupancy
from amk.dsl.target import Target
from amk.errors import Refused
from amk.ops.family import Problem
from amk.ops.gemm import Gemm, GemmSchedule, cdiv_int

__all__ = ["RuleAgent", "misfit"]

# (bm, bn, bk, tm, tn, share of the FFMA peak that full waves of the tile reach). Shares of the 16 x 8 and 8 x 8 thread
# tiles were measured on an H200 at 4096 x 4096 x 4096 (benchmarks/results); the rest are estimates that no
# measurement stands behind yet.
TILES = (
    (128, 128, 32, 16, 8, 0.74), (256, 128, 16, 16, 8, 0.69), (64, 128, 16, 16, 8, 0.71), (128, 128, 16, 8, 8, 0.57),
    (128, 64, 32, 8, 4, 0.45), (64, 128, 16, 8, 8, 0.55), (64, 64, 16, 4, 4, 0.35), (64, 32, 16, 4, 4, 0.33),
    (32, 64, 16, 4, 4, 0.33), (32, 128, 16, 4, 8, 0.40), (32, 32, 32, 4, 4, 0.30), (16, 128, 16, 4, 4, 0.30),
    (16, 64, 32, 4, 2, 0.22), (16, 32, 32, 2, 2, 0.18),
)  # fmt: skip
DEFAULT_SMS, DEFAULT_BANDWIDTH, DEFAULT_CLOCK = 64, 0.8e12, 1.6e9  # a target known by architecture only
LAUNCH_SECONDS, STEP_SECONDS = 2.0e-6, 0.35e-6  # an empty launch; latency of a k-step that nothing hides


def shared_bytes(s: GemmSchedule) -> int:
    """Bytes of both rings."""
    return 4 * s.slots * (s.bm + s.bn) * s.bk + 4 * s.slots * s.pad * (s.bm + s.bn)


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
    if shared_bytes(s) > arch.shared_optin:
        return f"{shared_bytes(s):,} bytes of shared memory exceed {arch.shared_optin:,} of {arch.name}"
    limit = max_registers(target, s.threads)
    if registers(s) > limit:
        return f"about {registers(s)} registers per thread exceed {limit} of {arch.name} at {s.threads} threads"
    return ""


class RuleAgent:
    """Deterministic: the same problem on the same target gives the same list."""

    name, version = "rules", "1"

    def propose(self, problem: Problem, target: Target, objective: Objective = "throughput") -> list[Proposal]:
        """Schedules that fit, the fastest first. Raises Refused when none does."""
        assert isinstance(problem, Gemm)
        made, last = [], "no tile fits"
        for s, share in self._candidates(problem, target):
            if reason := misfit(s, target):
                last = reason
                continue
            made.append(Proposal(s, self._reasons(problem, s, target), self.seconds(problem, s, target, share)))
        if not made:
            raise Refused(f"no schedule fits {target.name}: {last}")
        return sorted(made, key=lambda p: self._score(p, objective))

    @staticmethod
    def _score(p: Proposal, objective: Objective) -> tuple[float, int]:
        """Ties go to the smaller block for latency, to the larger (fewer bytes moved) for throughput and energy."""
        assert isinstance(p.schedule, GemmSchedule)
        size = p.schedule.bm * p.schedule.bn
        return p.seconds, size if objective == "latency" else -size

    @staticmethod
    def _candidates(p: Gemm, target: Target) -> Iterator[tuple[GemmSchedule, float]]:
        """One schedule a tile, with its share of the peak: the most stages that fit, the widest copies allowed."""
        for bm, bn, bk, tm, tn, share in TILES:
            for stages in (3, 2):
                choices = {"bm": bm, "bn": bn, "bk": bk, "tm": tm, "tn": tn, "vec_width": p.vector(), "stages": stages}
                s = GemmSchedule.model_validate(choices | {"pad": 4 if p.trans_b else 0})
                while s.fault() and s.vec_width > 1:
                    s = s.model_copy(update={"vec_width": s.vec_width // 2})
                if not misfit(s, target) or stages == 2:
                    yield s, share
                    break

    @staticmethod
    def seconds(p: Gemm, s: GemmSchedule, target: Target, share: float) -> float:
        """Predicted time."""
        sms, clock = target.sms or DEFAULT_SMS, target.clock_hz or DEFAULT_CLOCK
        blocks = max(1, occupancy(target, s.threads, registers(s), shared_bytes(s)).blocks_per_sm)
        tiles = cdiv_int(p.m, s.bm) * cdiv_int(p.n, s.bn) * p.batch * s.split_k
        steps = cdiv_int(cdiv_int(p.k, s.bk), s.split_k) + 1  # prologue and epilogue count as a step
        ffma = s.bm * s.bn * s.bk / target.architecture.fp32_lanes
        copies = (s.bm + s.bn) * s.bk / s.vec_width / 32  # issue slots beyond those of 16-byte copies
        step = (ffma / share + copies * (1 - s.vec_width / 4)) / clock
        busy = max(1, min(blocks, cdiv_int(tiles, sms)))  # blocks that share an SM hide each other's latency
        waves = cdiv_int(tiles, sms * busy)
        traffic = 4.0 * p.batch * (p.m * p.k + p.k * p.n + 2 * p.m * p.n) / (target.bandwidth or DEFAULT_BANDWIDTH)
        return LAUNCH_SECONDS + max(waves * steps * max(step * busy, STEP_SECONDS), traffic)

    @staticmethod
    def _reasons(p: Gemm, s: GemmSchedule, target: Target) -> dict[str, str]:
        sms = target.sms or DEFAULT_SMS
        tiles = cdiv_int(p.m, s.bm) * cdiv_int(p.n, s.bn) * p.batch
        return {
            "bm": f"{s.bm} x {s.bn} tiles give {tiles} blocks for {sms} SMs",
            "tm": f"{s.tm} x {s.tn} accumulators a thread: {s.tm * s.tn} FFMA for {s.tm + s.tn} shared words",
            "bk": f"{s.bk} k a step keep a row of the tile at {4 * s.bk} bytes",
            "stages": f"{s.slots} slots take {shared_bytes(s):,} of {target.architecture.shared_optin:,} shared bytes",
            "vec_width": f"rows, pitches and bases of this problem are multiples of {s.vec_width} elements",
            "pad": f"{s.pad} elements after each row: k-contiguous B is read by four rows at once"
            if s.pad
            else "no padding: at most two rows of A are read at once, and measured faster than padded",
        }
