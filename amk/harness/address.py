"""Where in memory a fault strikes: the operand of the statement, evaluated at the counterexample.

In: a kernel and a finding with values. Out: the finding with `byte` among its values, the distance in bytes from the
start of the tensor (or of the block's shared memory). A finding that has it already, or whose values do not say where,
stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from amk.dsl.expr import Elem, Expr, names
from amk.dsl.kernel import KernelDescriptor, inline, walk
from amk.dsl.layout import linear
from amk.dsl.nodes import Buffer, Param, Statement
from amk.dsl.types import nbytes
from amk.harness.diagnostics import Diagnostic
from amk.harness.form import operands

__all__ = ["accessed", "located"]

_NO_VALUE = (ValueError, KeyError, ZeroDivisionError, OverflowError, AssertionError)


def located(kernel: KernelDescriptor, d: Diagnostic) -> Diagnostic:
    """The finding with the byte that it is about."""
    if not d.counterexample or d.severity != "error" or "byte" in d.counterexample:
        return d
    try:
        ref = accessed(kernel, d)
        byte = None if ref is None else _byte(kernel, ref, d.counterexample)
    except _NO_VALUE:
        return d
    return d if byte is None else d._replace(counterexample={**d.counterexample, "byte": byte})


def accessed(kernel: KernelDescriptor, d: Diagnostic) -> Elem | None:
    """The operand in memory that a finding names, or the only one that its statement has."""
    s = next((s for pointer, s in walk(kernel.body) if pointer == d.pointer), None)
    found = list(_in_memory(kernel, s)) if s is not None and d.code[:4] in ("AMK2", "AMK3", "AMK4") else []
    return next((ref for ref in found if str(ref) in d.message), found[0] if len(found) == 1 else None)


def _in_memory(kernel: KernelDescriptor, s: Statement) -> Iterator[Elem]:
    yield from (ref for role, ref in operands(s) if role != "view" and kernel.space(ref) in ("global", "shared"))


def _byte(kernel: KernelDescriptor, ref: Elem, at: Mapping[str, int]) -> int | None:
    full = kernel.resolve(ref)
    owner = kernel.declarations[full.buffer]
    lets = _lets(kernel)
    if isinstance(owner, Param):
        strides = tuple(inline(x, lets) for x in kernel.strides_of(owner))
        return _value(linear(tuple(inline(i, lets) for i in full.index), strides) * nbytes(owner.dtype), at)
    assert isinstance(owner, Buffer)
    return _value(inline(kernel.shared_byte(full), lets), at)


def _lets(kernel: KernelDescriptor) -> dict[str, Expr]:
    """Every named value in terms of sizes, blocks, the thread, loop variables and carried values."""
    out: dict[str, Expr] = {}
    for _, s in walk(kernel.body):
        if s.kind == "let" and s.value is not None:
            out[s.name] = inline(s.value, out)
    return out


def _value(e: Expr, at: Mapping[str, int]) -> int | None:
    """The value of a term; None where a name in it has none. Blocks that are not named are the first."""
    from amk.dsl.evaluate import function_of

    order = tuple(sorted(names(e)))
    known = {"bx": 0, "by": 0, "bz": 0, **at}
    if not set(order) <= known.keys():
        return None
    return int(function_of((e,), order)(*(known[n] for n in order))[0])
