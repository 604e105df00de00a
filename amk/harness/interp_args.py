"""Arguments for the interpreter: sizes in the declared domain, tensors with the declared strides, cost of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from amk.dsl.evaluate import function_of
from amk.dsl.expr import BUILTINS, Apply, Expr, Var, parts
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import For, If, Let, Param, Statement, Team
from amk.dsl.types import DTYPES, ZEROED
from amk.errors import ArgumentError
from amk.harness.interp_registers import poison

__all__ = [
    "arguments", "complete", "estimate_lane_ops", "grid_of", "hollow", "rounded_down", "shape_of", "strides_of",
    "tensor_bytes",
]  # fmt: skip

UNKNOWN_TRIPS = 16


def evaluate(e: Expr, sizes: Mapping[str, Any]) -> int:
    """The integer value of a term over the sizes."""
    names = tuple(sorted(n for n, v in sizes.items() if isinstance(v, (int, np.integer))))
    return int(function_of((e,), names)(*(int(sizes[n]) for n in names))[0])


def rounded_down(e: Expr, sizes: Mapping[str, Any]) -> Iterator[Apply]:
    """The divisions of a negative number in a term over the sizes: C, which computes it, rounds them up."""
    if isinstance(e, Apply) and e.op == "select":
        cond, yes, no = e.args
        yield from rounded_down(cond, sizes)
        yield from rounded_down(yes if evaluate(cond, sizes) else no, sizes)
        return
    for x in parts(e):
        yield from rounded_down(x, sizes)
    if isinstance(e, Apply) and e.op in ("//", "%", ">>") and evaluate(e.args[0], sizes) < 0:
        yield e


def _values(what: str, terms: tuple[Expr, ...], sizes: Mapping[str, Any]) -> tuple[int, ...]:
    try:
        return tuple(evaluate(e, sizes) for e in terms)
    except (ValueError, ZeroDivisionError, OverflowError) as e:
        raise ArgumentError(f"{what} has no value at these sizes: {e}", hint="give other sizes") from None


def grid_of(kernel: KernelDescriptor, sizes: Mapping[str, Any]) -> tuple[int, int, int]:
    """Blocks in x, y and z."""
    x, y, z = _values("the grid", kernel.grid3, sizes)
    return x, y, z


def shape_of(p: Param, sizes: Mapping[str, Any]) -> tuple[int, ...]:
    """Extents of a tensor parameter."""
    return _values(f"the shape of {p.name}", p.shape or (), sizes)


def strides_of(kernel: KernelDescriptor, p: Param, sizes: Mapping[str, Any]) -> tuple[int, ...]:
    """Strides of a tensor parameter in elements."""
    return _values(f"a stride of {p.name}", kernel.strides_of(p), sizes)


def complete(kernel: KernelDescriptor, sizes: Mapping[str, Any], floor: int = 0) -> dict[str, Any]:
    """The sizes with the smallest of its domain (from `floor` on) for every scalar that is missing."""
    out: dict[str, Any] = {}
    for p in kernel.scalars:
        least = -(-(max(p.min, floor) if floor else p.min) // p.multiple_of) * p.multiple_of
        integer = DTYPES[p.dtype].family == "int"
        out[p.name] = sizes.get(p.name, least if integer else p.dtype != "bool" and 1.0)
    _pack(kernel, sizes, out)
    return out


def _pack(kernel: KernelDescriptor, given: Mapping[str, Any], out: dict[str, Any]) -> None:
    """Strides that nobody gave become those of a packed tensor, rounded up to their divisor."""
    divisor = {p.name: p.multiple_of for p in kernel.scalars}
    for p in kernel.tensors:
        step = 1
        for n, s in zip(reversed(shape_of(p, out)), reversed(kernel.strides_of(p)), strict=True):
            if isinstance(s, Var) and s.name not in given:
                out[s.name] = max(out[s.name], step + -step % divisor[s.name])
            (stride,) = _values(f"a stride of {p.name}", (s,), out)
            step = max(stride, 1) * max(n, 1)


def tensor_bytes(kernel: KernelDescriptor, sizes: Mapping[str, Any]) -> int:
    """Bytes of all tensors."""
    return sum(_storage(kernel, p, sizes)[1] * DTYPES[p.dtype].nbytes for p in kernel.tensors)


def arguments(
    kernel: KernelDescriptor, sizes: Mapping[str, Any], rng: Any = None, *, low: int = 0, high: int = 8
) -> dict[str, Any]:
    """Random inputs (normal floats, integers in [low, high)) and poisoned outputs, at the declared strides."""
    draw = rng if rng is not None else np.random.default_rng(0)
    out = complete(kernel, sizes)
    scalars = dict(out)
    for p in kernel.tensors:
        out[p.name] = _tensor(kernel, p, scalars, draw, low, high)
    return out


def hollow(kernel: KernelDescriptor, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """As `arguments`, for tensors that no memory holds: each is one element, seen at every index. Where an access
    lands can be checked, what it moves means nothing."""
    out = complete(kernel, sizes)
    shapes = {p: shape_of(p, out) for p in kernel.tensors}
    for p, shape in shapes.items():
        one = np.zeros((), DTYPES[p.dtype].numpy)
        out[p.name] = np.lib.stride_tricks.as_strided(one, shape, (0,) * len(shape))
    return out


def _storage(kernel: KernelDescriptor, p: Param, sizes: Mapping[str, Any]) -> tuple[tuple[int, ...], int]:
    """Strides in elements, and elements of storage."""
    shape = shape_of(p, sizes)
    strides = strides_of(kernel, p, sizes)
    if any(n < 0 for n in shape) or any(s < 0 for s in strides):
        raise ArgumentError(f"{p.name} has a negative extent or stride at these sizes: {shape}, {strides}")
    if not all(shape):
        return strides, 0
    return strides, 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


def _tensor(kernel: KernelDescriptor, p: Param, sizes: dict[str, Any], rng: Any, low: int, high: int) -> Any:
    strides, size = _storage(kernel, p, sizes)
    shape, dtype = shape_of(p, sizes), np.dtype(DTYPES[p.dtype].numpy)
    flat = _fill(p, max(size, 1), rng, dtype, low, high)
    if size == 0:
        return np.zeros(shape, dtype)
    return np.lib.stride_tricks.as_strided(flat, shape, tuple(s * dtype.itemsize for s in strides))


def _fill(p: Param, size: int, rng: Any, dtype: Any, low: int, high: int) -> Any:
    if p.access == "write":
        return poison(np.zeros(size, dtype))
    if p.access in ZEROED:
        return np.zeros(size, dtype)
    if p.dtype == "bf16":
        return (rng.standard_normal(size).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if dtype.kind == "f":
        return rng.standard_normal(size).astype(dtype)
    return rng.integers(0, 2, size).astype(dtype) if p.dtype == "bool" else rng.integers(low, high, size).astype(dtype)


# --------------------------------------------------------------------------------------------------------------- cost
def estimate_lane_ops(kernel: KernelDescriptor, sizes: Mapping[str, Any]) -> int:
    """Statements times threads that a run of the whole grid executes, about (loops counted at block 0, thread 0)."""
    known = complete(kernel, sizes)
    grid = grid_of(kernel, known)
    env = {**known, **dict.fromkeys(BUILTINS, 0), **dict(zip(("gx", "gy", "gz"), grid, strict=True))}
    return _cost(kernel.body, env) * kernel.threads * math.prod(grid)


def _cost(body: tuple[Statement, ...], env: dict[str, Any]) -> int:
    total = 0
    for s in body:
        total += 1
        if isinstance(s, Let) and s.value is not None:
            _bind(env, s.name, s.value)
        elif isinstance(s, If):
            total += _cost(s.body, env)
        elif isinstance(s, For):
            total += _loop(s, env)
        elif isinstance(s, Team):
            warps = max(r.warps[1] for r in s.roles)
            total += sum(_cost(r.body, env) * (r.warps[1] - r.warps[0]) for r in s.roles) // warps
    return total


def _loop(s: For, env: dict[str, Any]) -> int:
    try:
        lo, hi, step = (evaluate(e, env) for e in (s.lo, s.hi, s.step))
        trips = len(range(lo, hi, step))
    except (ValueError, ZeroDivisionError):
        lo, trips = 0, UNKNOWN_TRIPS
    env[s.var] = lo
    for c in s.carry:
        _bind(env, c.name, c.init)
    return trips * (_cost(s.body, env) + len(s.carry))


def _bind(env: dict[str, Any], name: str, value: Expr) -> None:
    try:
        env[name] = evaluate(value, env)
    except (ValueError, ZeroDivisionError):
        env.pop(name, None)
