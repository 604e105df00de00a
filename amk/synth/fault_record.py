"""The record that a checked build leaves in memory: its bytes come in, the first fault and the number of all go out.

The bytes are those of `amk_faults` in prelude/checked.cuh. A fault names its place by number (parameters first, then
statements in program order) and its operand by number among those of the statement, so that the kernel alone is enough
to read it. The words are those of the interpreter, which finds the same faults on the CPU.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from amk.dsl.expr import Elem, subterms
from amk.dsl.kernel import KernelDescriptor, expressions, walk
from amk.dsl.nodes import Statement
from amk.harness.interp_fault import Fault, FaultKind

__all__ = ["RECORD_BYTES", "first_fault", "operands"]

_LAYOUT = struct.Struct("<Q2q8i")
RECORD_BYTES = _LAYOUT.size
_INDEX, _BYTES, _ALIGNMENT, _ASSUME, _SIZE, _STEP = range(6)  # as the prelude numbers them


@dataclass(frozen=True, slots=True)
class _Record:
    """What failed, as numbers; -1 where a fault has no operand or no dimension."""

    count: int
    index: int
    limit: int
    kind: int
    place: int
    operand: int
    dimension: int
    thread: int
    x: int
    y: int
    z: int


def operands(kernel: KernelDescriptor, s: Statement) -> tuple[Elem, ...]:
    """Every operand that a statement names, in order, each once; of a view also those in the index that it keeps."""
    found: dict[Elem, None] = {}
    for _, e in expressions(s):
        for x in (x for x in subterms(e) if isinstance(x, Elem)):
            kept = (y for y in subterms(kernel.resolve(x))[1:] if isinstance(y, Elem))
            found |= dict.fromkeys((x, *kept))
    return tuple(found)


def first_fault(kernel: KernelDescriptor, data: bytes) -> tuple[Fault, int] | None:
    """The first fault and the number of all; None where nothing failed. `data` is `RECORD_BYTES` long."""
    r = _Record(*_LAYOUT.unpack(data))
    if not r.count:
        return None
    if r.kind == _SIZE:
        pointer, said = f"/params/{r.place}", _size(kernel, r)
    else:
        pointer, s = list(walk(kernel.body))[r.place - len(kernel.params)]
        said = _statement(kernel, s, r)
    kind, text, values = said
    return Fault(kind, text, pointer=pointer, block=(r.x, r.y, r.z), threads=(r.thread,), values=values), r.count


_Said = tuple[FaultKind, str, dict[str, object]]  # kind, words, values


def _size(kernel: KernelDescriptor, r: _Record) -> _Said:
    p = kernel.params[r.place]
    text = f"{p.name} = {r.index} is outside what was proved: a multiple of {p.multiple_of} in [{p.min}, {p.max}]"
    return "assume", text, {"operand": p.name, "index": r.index}


def _statement(kernel: KernelDescriptor, s: Statement, r: _Record) -> _Said:
    if r.kind == _ASSUME:
        assert s.kind == "assume"
        return "assume", f"the assumption {s.fact} does not hold", {}
    if r.kind == _STEP:
        assert s.kind == "for"
        return "assume", f"the step {s.step} of the loop over {s.var} is {r.index}, not positive", {"index": r.index}
    outside, values = f"outside 0..{r.limit - 1}", dict[str, object](index=r.index, limit=r.limit)
    if r.operand < 0:
        return "bounds", f"blocks of the cluster: {r.index}, {outside}", values
    ref = operands(kernel, s)[r.operand]
    name, values = kernel.resolve(ref).buffer, {"operand": str(ref), **values}
    if r.kind == _ALIGNMENT:
        return "alignment", f"{ref} is not {r.limit} contiguous bytes aligned to {r.limit}", {"operand": str(ref)}
    if r.kind == _BYTES:
        end = "begins" if r.index < r.limit else "ends"
        return "bounds", f"{ref}: byte {r.index} of {name}, whose memory {end} at byte {r.limit}", values
    text = f"{ref}: index {r.dimension} is {r.index}, {outside}"
    if kernel.space(ref) == "register":
        text = f"register {name}: index {r.index} in dimension {r.dimension}, {outside}"
    return "bounds", text, values | {"dimension": r.dimension}
