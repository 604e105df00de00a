"""Does a kernel compute what its operator means? The interpreter against the operator's float64 reference.

The operator is looked up by `origin.operator`; the harness itself knows none. Sizes are small and odd, and one at a
time is larger than whatever constants the kernel holds against it (a loop of at most 40 steps of 16 is run at 641).
A kernel of fixed sizes is run at corner, edge and middle blocks, and only what those blocks wrote is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from amk.dsl.expr import Apply, Const, Expr, integers, names, subst, subterms
from amk.dsl.kernel import KernelDescriptor, expressions, walk
from amk.dsl.nodes import Param
from amk.ops import REGISTRY

__all__ = ["meaning_of"]

FLOATS = ("f16", "bf16", "f32", "f64")
_LARGEST = 1 << 14  # of a size that is run: a longer loop would take seconds


def meaning_of(kernel: KernelDescriptor) -> Callable[[KernelDescriptor], str | None] | None:
    """The check for the kernel's operator, or None when it names none."""
    return _compare if kernel.origin is not None and kernel.origin.operator in REGISTRY else None


def _compare(kernel: KernelDescriptor) -> str | None:
    """None when every sample agrees, else what differed, or why the kernel is none of its operator."""
    assert kernel.origin is not None
    try:
        return _differences(kernel)
    except (KeyError, TypeError, ValueError) as cause:  # the origin is a claim of the descriptor's author
        return (
            f"its arguments or its problem are not those of {kernel.origin.operator} ({type(cause).__name__}: {cause})"
        )


def _differences(kernel: KernelDescriptor) -> str | None:
    import numpy as np

    from amk.harness.interpret import Fault, arguments, run

    assert kernel.origin is not None
    family = REGISTRY[kernel.origin.operator]
    for n, sizes in enumerate(_samples(kernel)[: 1 if _fixed(kernel) else None]):
        args = arguments(kernel, {**sizes, **_factors(kernel)}, np.random.default_rng(n))
        before = {k: np.array(v) for k, v in args.items()}
        try:
            run(kernel, args, blocks=_blocks(kernel, sizes))
        except Fault as fault:
            return f"at {_text(sizes)}: {fault}"
        expected = family.reference({**kernel.origin.problem, **before})
        for name, want in expected.items():
            if fault_text := _difference(name, np.asarray(args[name]), want, kernel):
                return f"at {_text(sizes)}: {fault_text}"
    return None


def _factors(kernel: KernelDescriptor) -> dict[str, float]:
    """The float scalars, all different and none of them 0 or 1, so that each is missed where a kernel leaves it out."""
    names = [p.name for p in kernel.scalars if p.dtype in FLOATS]
    return {name: (1.375 + 0.25 * i) * (-1) ** i for i, name in enumerate(names)}


def _difference(name: str, got: Any, want: Any, kernel: KernelDescriptor) -> str:
    import numpy as np

    assert kernel.origin is not None
    family = REGISTRY[kernel.origin.operator]
    if _fixed(kernel):  # blocks that did not run left the poison in place
        keep = ~np.isnan(got)
        got, want = got[keep], np.asarray(want)[keep]
    error = np.linalg.norm(got - want) / max(float(np.linalg.norm(want)), 1e-30) if got.size else 0.0
    limit = 4 * family.tolerance.relative(family.problem.model_validate(kernel.origin.problem))
    if got.size == 0 and np.size(want):
        return f"{name} was not written at all"
    return "" if error <= limit else f"{name} differs from the reference by {error:.3g} (allowed {limit:.3g})"


def _fixed(kernel: KernelDescriptor) -> bool:
    return all(isinstance(g, Const) for g in kernel.grid)


def _samples(kernel: KernelDescriptor) -> list[dict[str, int]]:
    """The family's sample sizes, moved into the kernel's domain; strides are left to be packed."""
    assert kernel.origin is not None
    spans = {p.name: p for p in kernel.scalars}

    def snap(p: Param, value: int) -> int:
        value += -value % p.multiple_of
        return max(p.min + -p.min % p.multiple_of, min(value, p.max))

    wished = [dict(sizes) for sizes in REGISTRY[kernel.origin.operator].samples]
    small = {n: min(sizes.get(n, 1) for sizes in wished) for n in spans if any(n in sizes for sizes in wished)}
    wished += [{**small, n: v} for n, v in _turns(kernel).items() if n in small and v > max(s[n] for s in wished)]
    return [{n: snap(spans[n], v) for n, v in sizes.items() if n in spans} for sizes in wished]


def _turns(kernel: KernelDescriptor) -> dict[str, int]:
    """For each size a value beyond the product of the constants in any term of sizes alone that it stands in."""
    sizes = frozenset(p.name for p in kernel.scalars)
    lets: dict[str, Expr] = {}
    out: dict[str, int] = {}
    for _, s in walk(kernel.body):
        if s.kind == "let" and s.value is not None:
            lets[s.name] = subst(s.value, lets)
        for x in (x for _, e in expressions(s) for x in subterms(subst(e, lets))):
            if isinstance(x, Apply) and names(x) and names(x) <= sizes:
                constants = (c.value for c in subterms(x) if isinstance(c, Const) and type(c.value) is int)
                turn = min(prod(c for c in constants if c > 1), _LARGEST)
                out.update({n: turn + 1 for n in names(x) if turn >= out.get(n, 0)})
    return out


def _blocks(kernel: KernelDescriptor, sizes: dict[str, int]) -> Any:
    grid = integers(*kernel.grid3)
    if grid is None:
        return "all"
    x, y, z = grid
    return [
        (i, j, k) for i in sorted({0, x // 2, x - 1}) for j in sorted({0, y // 2, y - 1}) for k in range(min(z, 64))
    ]


def _text(sizes: dict[str, int]) -> str:
    return ", ".join(f"{k}={v}" for k, v in sizes.items()) or "its fixed sizes"
