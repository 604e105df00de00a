"""Single choices of sizes and block: those that a certificate lists, and those that are added to find faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from amk.dsl.expr import Apply, Const, Var, integers, names, subterms
from amk.dsl.kernel import KernelDescriptor, expressions, walk
from amk.dsl.nodes import Param
from amk.verify.domain import BLOCKS, assumptions
from amk.verify.dtypes import family, span
from amk.verify.values import DATA, NoValue, evaluate

__all__ = ["Case", "grid_of", "in_domain", "likely", "read_case"]

Case = dict[str, Any]
ROWS = ((0, 1), (0, 3), (1, 0), (1, 1), (2, -1), (3, 2), (5, 3), (9, -1))  # whole tiles, and elements more


def grid_of(kernel: KernelDescriptor, case: Mapping[str, Any]) -> tuple[int, int, int]:
    """The blocks of the grid at these sizes. Raises NoValue."""
    x, y, z = (evaluate(g, case) for g in kernel.grid3)
    return max(0, int(x)), max(0, int(y)), max(0, int(z))


def in_domain(kernel: KernelDescriptor, case: Mapping[str, Any]) -> str:
    """Why a case is none of the kernel's; empty where it is one."""
    for p in kernel.scalars:
        value, whole = case[p.name], span(p.dtype)
        if family(p.dtype) == "float":
            continue
        if p.dtype == "bool":
            if type(value) is not bool:
                return f"{p.name} = {value} is no truth value"
            continue
        assert whole is not None
        if not max(whole[0], p.min) <= value <= min(whole[1], p.max) or value % p.multiple_of:
            return f"{p.name} = {value} lies outside its domain"
    try:
        for fact in assumptions(kernel):
            if evaluate(fact, case) is DATA or not evaluate(fact, case):
                return f"the assumption {fact} does not hold"
        for block, count in zip(BLOCKS, grid_of(kernel, case), strict=True):
            if not 0 <= case[block] < max(count, 1):
                return f"{block} = {case[block]} is no block of the grid"
    except NoValue as why:
        return f"{why} has no value there"
    return ""


def read_case(kernel: KernelDescriptor, data: Any) -> Case | None:
    """A case of a certificate; None where it is not one."""
    if not isinstance(data, dict) or data.keys() != {p.name for p in kernel.scalars} | set(BLOCKS):
        return None
    out: Case = {}
    kinds = {p.name: family(p.dtype) for p in kernel.scalars}
    for name, value in data.items():
        kind = kinds.get(name, "int")
        if kind == "float" and isinstance(value, str) and len(value) < 40:
            try:
                out[name] = float(value)
            except ValueError:
                return None
            if repr(out[name]) != value:
                return None
        elif (kind == "int" and type(value) is int) or (kind == "bool" and type(value) is bool):
            out[name] = value
        else:
            return None
    return out


# ---------------------------------------------------------------------------------------------------------- own choice
def likely(kernel: KernelDescriptor) -> Iterator[Case]:
    """Sizes around whole tiles, all together and each apart, and for each of them blocks at the corners of the grid."""
    units = {p.name: _unit(kernel, p) for p in kernel.scalars}
    choices = [dict.fromkeys(units, row) for row in ROWS]
    choices += [dict.fromkeys(units, (1, 1)) | {n: row} for n in units for row in ((0, 0), (3, -1), (40, 1))]
    seen: set[tuple[Any, ...]] = set()
    for choice in choices:
        case = {p.name: _value(p, units[p.name], *choice[p.name]) for p in kernel.scalars}
        try:
            grid = grid_of(kernel, case)
        except NoValue:
            continue
        for at in product(*(sorted({0, max(0, n - 1), max(0, n // 2)}) for n in grid)):
            whole = case | dict(zip(BLOCKS, at, strict=True))
            key = tuple(map(str, whole.values()))
            if key not in seen and not in_domain(kernel, whole):
                seen.add(key)
                yield whole


def _unit(kernel: KernelDescriptor, p: Param) -> int:
    """The size of a tile in a parameter: what it is divided by or compared with; else the threads of a block."""
    places = [*kernel.grid, *(e for _, s in walk(kernel.body) for _, e in expressions(s))]
    for e in (x for place in places for x in subterms(place)):
        if isinstance(e, Apply) and e.op in ("cdiv", "//", "%") and p.name in names(e.args[0]):
            by = integers(e.args[1])
            if by is not None and by[0] > 1:
                return by[0]
    steps = [s for _, s in walk(kernel.body) if s.kind == "for" and Var(p.name) in subterms(s.hi)]
    return next((int(s.step.value) for s in steps if isinstance(s.step, Const)), 0) or kernel.threads


def _value(p: Param, unit: int, tiles: int, more: int) -> Any:
    whole = span(p.dtype)
    if whole is None or p.dtype == "bool":
        return bool(tiles % 2) if whole else float(tiles % 2)
    low, high, m = max(whole[0], p.min), min(whole[1], p.max), p.multiple_of
    wanted = min(max(tiles * unit + more * m, low), high) // m * m
    return wanted if wanted >= low else -(-low // m) * m
