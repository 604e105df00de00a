"""The domain of a kernel: the values of its names, what the launcher checks, and whether any size satisfies it."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.expr import Apply, Const, Expr, Var, apply
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.nodes import Param
from amk.verify.dtypes import span
from amk.verify.logic import Logic
from amk.verify.values import DATA, NoValue, evaluate

__all__ = ["BLOCKS", "GRID", "assumptions", "declare", "launch_facts", "rank_of", "satisfied", "strides_of"]

BLOCKS, GRID = ("bx", "by", "bz"), ("gx", "gy", "gz")
TOP = 2**31 - 1


def rank_of(kernel: KernelDescriptor) -> Expr:
    """The rank of a block in its cluster."""
    return apply("%", "bx", kernel.cluster) if kernel.cluster > 1 else Const(0)


def assumptions(kernel: KernelDescriptor) -> tuple[Expr, ...]:
    """Every fact that the kernel assumes of its sizes."""
    return tuple(s.fact for _, s in walk(kernel.body) if s.kind == "assume")


def declare(logic: Logic, kernel: KernelDescriptor) -> tuple[Expr, ...]:
    """Tells the solver the names of a kernel; returns what holds everywhere: assumptions, and blocks in the grid."""
    for p in kernel.scalars:
        whole = span(p.dtype)
        if whole is None or p.dtype == "bool":
            logic.declare(p.name, p.dtype)
            continue
        logic.declare(p.name, p.dtype, max(whole[0], p.min), min(whole[1], p.max), p.multiple_of)
        logic.sizes.append(p.name)
    logic.declare("t", "i32", 0, kernel.threads - 1)
    for block in BLOCKS:
        logic.declare(block, "i32", 0, TOP)
    inside = (Apply("<", (Var(b), g)) for b, g in zip(BLOCKS, kernel.grid3, strict=True))
    return (*assumptions(kernel), *inside)


def satisfied(logic: Logic, kernel: KernelDescriptor) -> str:
    """Whether any sizes satisfy ranges, divisors and assumptions: proved, refuted or unknown."""
    for pick in (0, 1):  # the smallest and the largest sizes first
        at = {p.name: _end(p, pick) for p in kernel.scalars}
        if all(v is not None for v in at.values()) and _all_hold(assumptions(kernel), at):
            return "proved"
    found = logic.point(assumptions(kernel), {p.name for p in kernel.scalars if span(p.dtype)})
    return {"proved": "refuted", "refuted": "proved"}.get(found.status, "unknown")


def _end(p: Param, pick: int) -> object:
    whole = span(p.dtype)
    if whole is None or p.dtype == "bool":
        return bool(pick) if whole else float(pick)
    low, high, m = max(whole[0], p.min), min(whole[1], p.max), p.multiple_of
    ends = -(-low // m) * m, high // m * m
    return ends[pick] if ends[0] <= ends[1] else None


def _all_hold(facts: tuple[Expr, ...], at: dict[str, object]) -> bool:
    try:
        return all(v is not DATA and bool(v) for v in (evaluate(f, at) for f in facts))
    except NoValue:
        return False


def launch_facts(kernel: KernelDescriptor) -> Iterator[str]:
    """What the launcher has to check before each launch, as text."""
    for p in kernel.scalars:
        step = f", a multiple of {p.multiple_of}" if p.multiple_of > 1 else ""
        yield f"{p.name}: {p.dtype} in [{p.min}, {p.max}]{step}"
    for x in kernel.tensors:
        shape, strides = ", ".join(map(str, x.shape or ())), ", ".join(map(str, strides_of(x)))
        yield f"{x.name}: {x.dtype}[{shape}], strides [{strides}], aligned to {x.align} bytes, {x.access}"
    for m in kernel.maps:
        swizzle = f", swizzled over {m.swizzle} bytes" if m.swizzle else ""
        yield f"{m.name}: a tensor map of {m.tensor}, boxes {list(m.box)}{swizzle}, filled with {m.fill} outside"
    for fact in assumptions(kernel):
        yield f"assume {fact}"
    for x in kernel.tensors:
        if x.access != "read":
            others = ", ".join(y.name for y in kernel.tensors if y.name != x.name)
            apart = f" or any of {others}" if others else ""
            yield f"{x.name} is written: no element of it overlaps another element{apart}"


def strides_of(x: Param) -> tuple[Expr, ...]:
    """Elements between neighbours of each dimension: as declared, or row-major."""
    if x.strides is not None:
        return x.strides
    out: list[Expr] = [Const(1)]
    for n in (x.shape or ())[:0:-1]:
        out.insert(0, out[0] * n)
    return tuple(out)
