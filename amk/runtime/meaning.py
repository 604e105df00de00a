"""Does a kernel compute what its operator means? The interpreter against the operator's float64 reference.

The operator is looked up by `origin.operator`; the harness itself knows none. Sizes are small and odd; a kernel of
fixed sizes is run at corner, edge and middle blocks, and only what those blocks wrote is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amk.dsl.expr import Const
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Param
from amk.ops import REGISTRY

__all__ = ["meaning_of"]


def meaning_of(kernel: KernelDescriptor) -> Callable[[KernelDescriptor], str | None] | None:
    """The check for the kernel's operator, or None when it names none."""
    return _compare if kernel.origin is not None and kernel.origin.operator in REGISTRY else None


def _compare(kernel: KernelDescriptor) -> str | None:
    """None when every sample agrees, else what differed."""
    import numpy as np

    from amk.harness.interpret import Fault, arguments, run

    assert kernel.origin is not None
    family = REGISTRY[kernel.origin.operator]
    for n, sizes in enumerate(_samples(kernel)[: 1 if _fixed(kernel) else None]):
        args = arguments(kernel, sizes, np.random.default_rng(n))
        before = {k: np.array(v) for k, v in args.items()}
        try:
            run(kernel, args, blocks=_blocks(kernel, sizes))
        except Fault as fault:
            return f"at {_text(sizes)}: {fault}"
        expected = family.reference({**kernel.origin.problem, **before, "beta": before.get("beta", 0.0)})
        for name, want in expected.items():
            if fault_text := _difference(name, np.asarray(args[name]), want, kernel):
                return f"at {_text(sizes)}: {fault_text}"
    return None


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

    wished = REGISTRY[kernel.origin.operator].samples
    return [{n: snap(spans[n], v) for n, v in sizes.items() if n in spans} for sizes in wished]


def _blocks(kernel: KernelDescriptor, sizes: dict[str, int]) -> Any:
    if not _fixed(kernel):
        return "all"
    x, y, z = (g.value for g in kernel.grid3)  # type: ignore[attr-defined]
    return [
        (i, j, k) for i in sorted({0, x // 2, x - 1}) for j in sorted({0, y // 2, y - 1}) for k in range(min(z, 64))
    ]


def _text(sizes: dict[str, int]) -> str:
    return ", ".join(f"{k}={v}" for k, v in sizes.items()) or "its fixed sizes"
