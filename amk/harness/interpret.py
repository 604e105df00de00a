"""The interpreter: a second meaning of the IR in NumPy, for all threads of many blocks at once.

In: a kernel and its arguments. Out: written tensors, or (with `detect`) a Fault as it happens: out of bounds, races,
uninitialised reads, divergent barriers, overflow, misalignment, asynchronous copies touched too early, and faults of
mbarriers, proxies, wgmma and clusters. It shares no code with the provers, so that each can be held against the other.
Kernels whose threads wait for each other elsewhere than at barriers of the block run by strands, a cluster at a time
(`interp_schedule`): TMA, bulk copies and wgmma then land as late as the kernel allows, or at random with a seed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import index
from typing import Any, Literal

import numpy as np

from amk.dsl.evaluate import function_of
from amk.dsl.flags import communicates
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.nodes import Param
from amk.dsl.target import Target
from amk.dsl.types import DTYPES, nbytes
from amk.errors import ArgumentError, InputError, Refused
from amk.harness.interp_args import (
    arguments,
    complete,
    estimate_lane_ops,
    grid_of,
    hollow,
    rounded_down,
    shape_of,
    strides_of,
    tensor_bytes,
)
from amk.harness.interp_fault import FAMILIES, Fault, FaultKind, family_of
from amk.harness.interp_machine import Machine
from amk.harness.interp_memory import GlobalMemory, unwritten
from amk.harness.interp_program import Program

__all__ = ["Fault", "FaultKind", "arguments", "confirm", "estimate_lane_ops", "run", "witness"]

Block = tuple[int, int, int]
BATCH_BYTES = 1 << 20
MAX_CONFIRM_BYTES, MAX_CONFIRM_OPS = 256 << 20, 200_000_000
MAX_CONFIRM_STEPS = 60_000
MAX_BLOCKS = 64


def run(
    kernel: KernelDescriptor, args: Mapping[str, Any], *, detect: bool = False, coverage: bool = False,
    blocks: Literal["all"] | Sequence[Block] = "all", seed: int | None = None, max_lane_ops: int | None = None,
    workers: int = 2, watch: frozenset[str] | None = None, without_memory: bool = False,
) -> None:  # fmt: skip
    """Executes the kernel; tensor arguments are written in place.

    `detect` raises Fault for what goes wrong; `coverage` raises one for an output element that is not written exactly
    once (whole grid only); `seed` runs threads in random sub-batches between ordering points; `blocks` picks blocks.
    `watch` names the kinds of faults to raise (out of bounds always is). `without_memory` says that nothing
    stands behind the tensors (see `hollow`): then only where accesses land is checked.
    A deadlock, and an mbarrier that is used against its protocol, are Faults whatever is asked for.
    Raises Refused for what it does not execute (early exits) and beyond `max_lane_ops`.
    """
    program = _program(kernel, args, detect, coverage, seed, max_lane_ops)
    program.tensors.hollow = without_memory
    chosen = list(_all_blocks(program.grid)) if blocks == "all" else [b for b in blocks if _inside(b, program.grid)]
    program.watch = watch
    if _by_strands(kernel):
        _clusters(program, chosen)
        if coverage and blocks == "all":
            unwritten(program.tensors)
        return
    batches = -(-len(chosen) // _batch(kernel, detect))
    size = max(1, -(-len(chosen) // max(1, batches)))  # equal parts, so that workers end together
    parts = [chosen[i : i + size] for i in range(0, len(chosen), size)]
    alone = detect or coverage or seed is not None or len(parts) < 2 or workers < 2
    if alone:
        for p in parts:
            _run_batch(program, p)
    else:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(lambda p: _run_batch(program, p), parts))
    if coverage and blocks == "all":
        unwritten(program.tensors)


def _run_batch(program: Program, blocks: list[Block]) -> None:
    gx, gy, _ = program.grid
    linear = np.array([x + gx * (y + gy * z) for x, y, z in blocks], np.int64)
    with np.errstate(all="ignore"):
        Machine(program, blocks, linear).launch()


_HELD = ("team", "arrive", "fence")


def _by_strands(kernel: KernelDescriptor) -> bool:
    """Whether parts of a block may wait for each other, so that lock step is no way to run it, or rows ask for it."""
    if communicates(kernel):
        return True
    for _, s in walk(kernel.body):
        if s.kind in _HELD or (s.kind in ("load", "store") and s.peer is not None):
            return True
        if s.kind == "sync" and (s.scope in ("named", "cluster") or s.part != "both" or s.relaxed):
            return True
        if s.kind in ("wait", "commit") and s.queue != "cp_async":
            return True
        if s.kind == "call" and not s.row.startswith(("cp.async.", "shfl.", "vote.", "match.", "redux.")):
            return True
    return False


def _clusters(program: Program, chosen: list[Block]) -> None:
    """Runs whole clusters, one after another: those in which a chosen block lies."""
    from amk.harness.interp_schedule import run_cluster

    if communicates(program.kernel):
        run_cluster(program, chosen, 0)
        return
    size, (gx, gy, _) = program.kernel.cluster, program.grid
    for x, y, z in dict.fromkeys((x - x % size, y, z) for x, y, z in chosen):
        run_cluster(program, [(x + i, y, z) for i in range(size)], x + gx * (y + gy * z))


def _all_blocks(grid: Block) -> Any:
    return ((x, y, z) for z, y, x in itertools.product(*map(range, reversed(grid))))


def _inside(b: Block, grid: Block) -> bool:
    return all(0 <= i < n for i, n in zip(b, grid, strict=True))


def _batch(kernel: KernelDescriptor, detect: bool) -> int:
    """Blocks of one batch: as many as keep the registers in cache."""
    registers = sum(int(np.prod(b.shape)) * nbytes(b.dtype) for b in kernel.buffers if b.space == "register")
    one = max(registers, 64) * kernel.threads + kernel.shared_bytes // 8
    return int(max(1, min(4096, (4 if detect else 1) * BATCH_BYTES // one)))


def _program(
    kernel: KernelDescriptor,
    args: Mapping[str, Any],
    detect: bool,
    coverage: bool,
    seed: int | None,
    budget: int | None,
) -> Program:
    scalars = {p.name: _scalar(p, args) for p in kernel.scalars}
    grid = grid_of(kernel, scalars)
    if grid[0] % kernel.cluster:
        text = f"{grid[0]} blocks are no multiple of the cluster of {kernel.cluster}"
        raise ArgumentError(text, hint="give other sizes")
    arrays = {p.name: _array(p, args, scalars) for p in kernel.tensors}
    strides = {p.name: strides_of(kernel, p, scalars) for p in kernel.tensors}
    if detect:
        _exact_strides(kernel, scalars)
    tensors = GlobalMemory(arrays, strides)
    if coverage:
        tensors.counts = {
            p.name: np.zeros(arrays[p.name].size, np.int64) for p in kernel.tensors if p.access == "write"
        }
    return Program(kernel, detect, grid, scalars, tensors, budget, seed)


def _exact_strides(kernel: KernelDescriptor, scalars: Mapping[str, Any]) -> None:
    """The device computes the strides again, in C."""
    for i, p in enumerate(kernel.params):
        for e in kernel.strides_of(p) if p.shape else ():
            for wrong in rounded_down(e, scalars):
                raise Fault("overflow", f"negative operand of {wrong}", pointer=f"/params/{i}")


def _scalar(p: Param, args: Mapping[str, Any]) -> Any:
    if p.name not in args:
        raise ArgumentError(f"argument {p.name!r} is missing")
    value, family = args[p.name], DTYPES[p.dtype].family
    try:
        if family == "int":
            return index(value)
        return bool(value) if family == "bool" else np.dtype(DTYPES[p.dtype].numpy).type(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"{p.name} is {type(value).__name__}, and the kernel takes {p.dtype}") from None


def _array(p: Param, args: Mapping[str, Any], scalars: dict[str, Any]) -> Any:
    """The array of a tensor, its dtype and shape as declared."""
    array, want = args.get(p.name), np.dtype(DTYPES[p.dtype].numpy)
    if not isinstance(array, np.ndarray):
        raise ArgumentError(f"argument {p.name!r} is missing or not a NumPy array")
    shape = shape_of(p, scalars)
    if array.dtype != want or array.shape != shape:
        raise ArgumentError(
            f"{p.name} is {array.dtype}{array.shape}, and the kernel takes {want}{shape} at these sizes"
        )
    return array


# -------------------------------------------------------------------------------------------------------------- confirm
_UNUSABLE = (Refused, ArgumentError, ValueError, KeyError, ZeroDivisionError, OverflowError, MemoryError, IndexError)


def confirm(kernel: KernelDescriptor, counterexample: Mapping[str, int], code: str) -> bool:
    """Whether a run at the counterexample's sizes shows the fault that `code` is about (False beyond the budget)."""
    if code == "AMK102":
        return _too_many_blocks(kernel, counterexample)
    if code == "AMK209":
        return _no_map(kernel, counterexample)
    return any(f is not None for f in _faults(kernel, counterexample, family_of(code)))


def _too_many_blocks(kernel: KernelDescriptor, sizes: Mapping[str, int]) -> bool:
    try:
        limits = Target.find(kernel.target).architecture.max_grid
        grid = grid_of(kernel, complete(kernel, sizes))
        return grid[0] % kernel.cluster != 0 or any(n > most for n, most in zip(grid, limits, strict=True))
    except (*_UNUSABLE, InputError):
        return False


def _no_map(kernel: KernelDescriptor, sizes: Mapping[str, int]) -> bool:
    """Whether the driver refuses a tensor map of the kernel at these sizes, by its extents or strides."""
    try:
        known = complete(kernel, sizes)
        for d in (kernel.declarations[m.tensor] for m in kernel.maps):
            assert isinstance(d, Param) and d.shape is not None
            values = function_of((*d.shape, *kernel.strides_of(d)[:-1]), tuple(known))(*known.values())
            steps = [n * nbytes(d.dtype) for n in values[len(d.shape) :]]
            if any(not 1 <= n <= 1 << 32 for n in values[: len(d.shape)]):
                return True
            if any(n % 16 or not 16 <= n < 1 << 40 for n in steps):
                return True
    except _UNUSABLE:
        pass
    return False


def witness(
    kernel: KernelDescriptor, code: str, sizes: Mapping[str, int] | None = None, pointer: str | None = None
) -> tuple[dict[str, int], str] | None:
    """The first block and thread that show the fault that `code` is about, with the sizes of that run, and where.

    For findings that the provers make without values. `sizes` as far as they are known (the smallest of the domain
    otherwise); `pointer` is the statement that has to show it. None where no such run does.
    """
    family, given = family_of(code), sizes or {}
    for least, fault in enumerate(_faults(kernel, given, family)):
        if fault is not None and fault.block is not None and pointer in (None, fault.pointer):
            known = complete(kernel, given, least)
            first = _first(kernel, known, fault, family)
            held = {p.name: int(known[p.name]) for p in kernel.scalars if DTYPES[p.dtype].family == "int"}
            axes = zip(("bx", "by", "bz"), first.block or (), grid_of(kernel, known), strict=True)
            threads = {"t": first.threads[0]} if first.threads else {}
            return held | {name: b for name, b, n in axes if n > 1} | threads, first.pointer
    return None


def _faults(kernel: KernelDescriptor, point: Mapping[str, int], family: frozenset[str]) -> Iterator[Fault | None]:
    """The first fault of the family at the sizes of a point, missing ones from the least of the domain, then from 1."""
    for least in (0, 1) if family else ():
        try:
            sizes = complete(kernel, point, least)
            yield _fault(kernel, sizes, _blocks(kernel, sizes, point, family), family)
        except _UNUSABLE:
            yield None


def _blocks(
    kernel: KernelDescriptor, sizes: dict[str, Any], point: Mapping[str, int], family: frozenset[str]
) -> Literal["all"] | list[Block]:
    grid = grid_of(kernel, sizes)
    return "all" if math.prod(grid) <= MAX_BLOCKS or "unwritten" in family else _near(grid, point)


def _fault(
    kernel: KernelDescriptor, sizes: dict[str, Any], blocks: Literal["all"] | list[Block], family: frozenset[str]
) -> Fault | None:
    """The first fault of a run of some blocks, if it is of the family."""
    coverage = "unwritten" in family
    # Where accesses land can be shown without the memory that they would land in.
    empty = tensor_bytes(kernel, sizes) > MAX_CONFIRM_BYTES
    if empty and not family <= FAMILIES["AMK2"] - {"uninitialised"}:
        return None
    share = 1.0 if blocks == "all" else len(blocks) / float(math.prod(grid_of(kernel, sizes)))
    work = estimate_lane_ops(kernel, sizes) * share
    if work > MAX_CONFIRM_OPS or _steps(kernel, sizes, blocks) > MAX_CONFIRM_STEPS:
        return None
    args = hollow(kernel, sizes) if empty else arguments(kernel, sizes)
    options: dict[str, Any] = {"detect": not coverage, "coverage": coverage, "without_memory": empty}
    for seed in (None, 1, 2) if communicates(kernel) else (None,):  # how many blocks run at once differs by the seed
        fresh = arguments(kernel, sizes) if seed else args
        try:
            run(kernel, fresh, blocks=blocks, max_lane_ops=MAX_CONFIRM_OPS, watch=family, seed=seed, **options)
        except Fault as e:
            return e if e.kind in family else None
    return None


def _steps(kernel: KernelDescriptor, sizes: dict[str, Any], blocks: Literal["all"] | list[Block]) -> float:
    """Statements that a run takes one after another, about: whatever they do, each costs its share of a millisecond.

    Blocks in lock step count once; strands, which are taken warp by warp and block by block, ten times as much.
    """
    all_blocks = max(1, math.prod(grid_of(kernel, sizes)))
    each = estimate_lane_ops(kernel, sizes) / (kernel.threads * all_blocks)
    return 10 * each * (all_blocks if blocks == "all" else len(blocks)) if _by_strands(kernel) else each


def _first(kernel: KernelDescriptor, sizes: dict[str, Any], fault: Fault, family: frozenset[str]) -> Fault:
    """The fault of an earlier block: each axis is cut in halves, from the slowest on, as long as a fault is left."""
    grid = grid_of(kernel, sizes)
    for axis in (2, 1, 0):
        low = 0
        while fault.block is not None and low < fault.block[axis]:
            middle = (low + fault.block[axis]) // 2
            sides = [sorted({0, b, n - 1}) for b, n in zip(fault.block[:axis], grid, strict=False)]
            sides += [[middle], *([b] for b in fault.block[axis + 1 :])]
            found = _fault(kernel, sizes, [(x, y, z) for z, y, x in itertools.product(*reversed(sides))], family)
            # A block runs with its cluster: what is found may be in a later block than those that were asked for.
            if found is None or found.block is None or found.block[axis] >= fault.block[axis]:
                low = middle + 1
            else:
                fault = found
    return fault


def _near(grid: Block, point: Mapping[str, int]) -> list[Block]:
    """The blocks that a counterexample names (also as `bx'` or `bx_2`), their neighbours, and the corners."""
    axes = []
    for name, n in zip(("bx", "by", "bz"), grid, strict=True):
        named = {v for k, v in point.items() if k.rstrip("'_0123456789") == name}
        wanted = {0, n - 1} | {v + d for v in named for d in (-1, 0, 1)}
        axes.append(sorted(v for v in wanted if 0 <= v < n))
    return [(x, y, z) for z, y, x in itertools.product(axes[2], axes[1], axes[0])]
