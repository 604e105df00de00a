"""Why the GEMM rules choose what they choose: a schedule comes in, a sentence for each of its fields comes out.

Measured figures are of an H200 at 4096 x 4096 x 4096 (benchmarks/results/gemm-tiles-h200.txt).
"""

from __future__ import annotations

from amk.dsl.target import Target
from amk.ops.gemm import Gemm, GemmSchedule, cdiv_int

__all__ = ["reasons"]


def reasons(p: Gemm, s: GemmSchedule, target: Target) -> dict[str, str]:
    """A reason for every field."""
    return {**_tile(p, s, target), **_copies(p, s, target), **_loop(s), **_blocks(p, s, target)}


def _tile(p: Gemm, s: GemmSchedule, target: Target) -> dict[str, str]:
    tiles = cdiv_int(p.m, s.bm) * cdiv_int(p.n, s.bn) * p.batch
    sms = f"{target.sms} SMs" if target.sms else "an unknown number of SMs"
    return {
        "bm": f"{s.bm} x {s.bn} tiles give {tiles * s.split_k:,} blocks for {sms}",
        "bn": f"{s.bm * s.bn // (s.bm + s.bn)} FFMA for each element that a block copies",
        "bk": f"{s.bk} k a step keep a row of the tile at {4 * s.bk} bytes, and {cdiv_int(p.k, s.bk):,} steps",
        "tm": f"{s.tm} x {s.tn} accumulators a thread: {s.tm * s.tn} FFMA for {s.tm + s.tn} shared words",
        "tn": f"with tm, {s.threads} threads in {s.warps[0]} x {s.warps[1]} warps cover the tile",
    }


def _copies(p: Gemm, s: GemmSchedule, target: Target) -> dict[str, str]:
    room = f"up to {s.shared_bytes:,} of {target.architecture.shared_optin:,} shared bytes"
    return {
        "vec_width": f"rows, pitches and bases of this problem are multiples of {p.vector()} elements"
        + ("" if s.vec_width == p.vector() else f"; {s.vec_width} is what the tile's threads divide into"),
        "stages": f"{s.slots} slots take {room}; 2 were 6 % slower than 3 on an H200",
        "double_buffer": "two slots" if s.double_buffer else "stages says how many slots there are",
        "swizzle": "spreads rows without padding" if s.swizzle else "6 % slower than padding on an H200",
        "pad": f"{s.pad} elements after each row: k-contiguous B is read by four rows at once"
        if s.pad
        else "none: at most two rows of A are read at once, and 3 % faster than padded on an H200",
    }


def _loop(s: GemmSchedule) -> dict[str, str]:
    order = {"interleaved": "6 % faster than rows on an H200", "rows": "a warp's threads fill row after row"}
    return {
        "unroll": f"the body is {4 * s.tm * s.tn} FFMA, which hides the loop" if s.unroll == 1 else "fewer branches",
        "serpentine": "operands come again in the next FFMA: 2 % faster on an H200" if s.serpentine else "in order",
        "order": order[s.order],
        "spill_bytes": "a tile that spills is not worth having: none is allowed"
        if not s.spill_bytes
        else f"a thread may spill {s.spill_bytes} bytes",
    }


def _blocks(p: Gemm, s: GemmSchedule, target: Target) -> dict[str, str]:
    fixed = "sizes stay arguments: one binary for all of them, and 8 % faster on an H200"
    return {
        "split_k": f"{s.split_k} blocks share the k of a tile, since tiles alone leave SMs idle; they add into C in no "
        "fixed order, so that the last bits can differ from run to run"
        if s.split_k > 1
        else "one block sums a tile, always in the same order",
        "group": f"{s.group} rows of tiles are walked together, so that L2 keeps what they share"
        if s.group > 1
        else "row after row of tiles" + ("" if s.specialise else ": grouping needs sizes that are constants"),
        "specialise": ("grouping divides by the number of tiles" if s.group > 1 else "sizes are constants")
        if s.specialise
        else fixed,
    }
