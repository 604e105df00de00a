"""The domain of a kernel: whether any size satisfies it, and what the launcher must check before a launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amk.dsl.evaluate import function_of
from amk.dsl.expr import Expr, names
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.nodes import Param, TensorMap
from amk.harness.diagnostics import Severity

if TYPE_CHECKING:
    from amk.harness.bounds import Prover

__all__ = ["assumptions", "check_domain", "launch_facts"]


def assumptions(kernel: KernelDescriptor) -> list[tuple[str, Expr]]:
    """Every Assume with its pointer."""
    return [(where, s.fact) for where, s in walk(kernel.body) if s.kind == "assume"]


def check_domain(p: Prover) -> bool:
    """Some sizes satisfy ranges, divisors and assumptions (else everything would be proved); then, the strides."""
    from amk.harness.arithmetic import Arithmetic
    from amk.harness.bounds import Finding

    for name, (lo, hi) in p.sizes.items():
        if lo > hi:
            message = f"no value of {name!r} lies in its range and is a multiple of its divisor"
            q = next(q for q in p.context.kernel.scalars if q.name == name)
            up = -(-q.min // q.multiple_of) * q.multiple_of
            hint = f"raise max of {name} to {up} or more, or lower multiple_of"
            p.findings.append(Finding("AMK009", p.context.kernel.pointer_of(name), message, hint=hint))
    if p.findings:
        return False
    facts = assumptions(p.context.kernel)
    terms = tuple(f for _, f in facts)
    if facts and not _holds_at_a_corner(p, terms):
        status = p.referee.satisfiable(terms).status
        if status != "refuted":
            said = "no sizes satisfy" if status == "proved" else "not shown that any sizes satisfy"
            message = f"{said} the assumptions together: {'; '.join(map(str, terms))}"
            severity: Severity = "error" if status == "proved" else "undecided"
            hint = "remove the assumption that contradicts the others, or widen the ranges of its sizes"
            p.findings.append(Finding("AMK009", facts[0][0], message, severity, hint=hint))
            return False
    for f in terms:
        p.assume(f)
    Arithmetic(p).strides()
    return True


def _holds_at_a_corner(p: Prover, facts: tuple[Expr, ...]) -> bool:
    order = tuple(sorted(frozenset().union(*map(names, facts))))
    if not set(order) <= p.sizes.keys():
        return False
    for pick in (0, 1):
        try:
            if all(function_of(facts, order)(*(p.sizes[n][pick] for n in order))):
                return True
        except (ValueError, ZeroDivisionError):
            return False
    return False


def launch_facts(kernel: KernelDescriptor) -> tuple[str, ...]:
    """What the proofs rest on, as text: sizes, tensors, assumptions and non-overlap of what is written."""
    out = [_size(s) for s in kernel.scalars]
    out += [_tensor(kernel, x) for x in kernel.tensors]
    out += [_map(m) for m in kernel.maps]
    out += [f"assume {f}" for _, f in assumptions(kernel)]
    for x in kernel.tensors:
        if x.access != "read":
            others = [y.name for y in kernel.tensors if y.name != x.name]
            out.append(f"{x.name} is written: no element of it overlaps another element" + _apart(others))
    return tuple(out)


def _apart(others: list[str]) -> str:
    return f" or any of {', '.join(others)}" if others else ""


def _size(s: Param) -> str:
    step = f", a multiple of {s.multiple_of}" if s.multiple_of > 1 else ""
    return f"{s.name}: {s.dtype} in [{s.min}, {s.max}]{step}"


def _map(m: TensorMap) -> str:
    swizzle = f", swizzled over {m.swizzle} bytes" if m.swizzle else ""
    return f"{m.name}: a tensor map of {m.tensor}, boxes {list(m.box)}{swizzle}, filled with {m.fill} outside"


def _tensor(kernel: KernelDescriptor, x: Param) -> str:
    shape, strides = ", ".join(map(str, x.shape or ())), ", ".join(map(str, kernel.strides_of(x)))
    return f"{x.name}: {x.dtype}[{shape}], strides [{strides}], aligned to {x.align} bytes, {x.access}"
