"""What is wrong with the operands of a statement: rank, space, width, the table's rows, and the access contract."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.expr import Const, Elem, subterms
from amk.dsl.instructions import ROWS
from amk.dsl.kernel import KernelDescriptor, expressions
from amk.dsl.layout import Swizzle
from amk.dsl.nodes import Buffer, Call, Param, Statement
from amk.dsl.types import nbytes
from amk.harness.form import operands

__all__ = ["contract_faults", "operand_faults", "row_faults"]

SPACES = {
    ("load", "dst"): ("register",), ("load", "src"): ("global", "shared"),
    ("store", "dst"): ("global", "shared", "register"), ("atomic", "dst"): ("global", "shared"),
    ("let", "view"): ("global", "shared", "register"),
}  # fmt: skip


def operand_faults(kernel: KernelDescriptor, s: Statement) -> Iterator[str]:
    """Rank, space and width of every operand and of every element that stands in a value."""
    for _, e in expressions(s):
        for x in subterms(e):
            if isinstance(x, Elem) and (fault := _rank(kernel, x)) is not None:
                yield fault
    for role, ref in operands(s):
        space = kernel.space(ref)
        wanted = SPACES.get((s.kind, role))
        if space and wanted and space not in wanted:
            yield f"{role} {ref} is in {space} memory; {s.kind} takes {' or '.join(wanted)}"
    if s.kind == "let":
        yield from _view(kernel, s.view, s.value is None)
    if s.kind == "store" and len(s.values) not in (1, 2, 4, 8, 16):
        yield f"{len(s.values)} values; a store writes 1, 2, 4, 8 or 16"
    if s.kind in ("load", "store"):
        yield from _width(kernel, s.src if s.kind == "load" else s.dst, s.width if s.kind == "load" else len(s.values))
    if s.kind == "load" and s.when is not None and s.other is None:
        yield "a load with `when` needs `other`, the value where it does not hold"
    if s.kind == "call" and s.row in ROWS:
        yield from _row_operands(kernel, s)


def _rank(kernel: KernelDescriptor, x: Elem) -> str | None:
    view = kernel.views.get(x.buffer)
    d = kernel.find(x.buffer)
    if isinstance(d, Param) and d.shape is None:
        return f"{x}: {d.name} is a scalar"
    if not isinstance(d, (Param, Buffer)):
        return f"{x}: {x.buffer} is no tensor or buffer"
    rank = len(d.shape or ())
    if view is None:
        return None if len(x.index) == rank else f"{x} has {len(x.index)} indices, and {d.name} has {rank} dimensions"
    return None if len(x.index) <= rank else f"{x} has {len(x.index)} indices, and the view has {rank} dimensions"


def _view(kernel: KernelDescriptor, view: Elem | None, empty: bool) -> Iterator[str]:
    if view is None and empty:
        yield "a let has a value or a view"
    elif view is not None and not empty:
        yield "a let has a value or a view, not both"
    d = kernel.find(view.buffer) if view is not None else None
    if isinstance(d, Buffer) and isinstance(d.layout, Swizzle):
        yield f"a view of {d.name}, whose swizzled layout moves with the index"


def _width(kernel: KernelDescriptor, ref: Elem, width: int) -> Iterator[str]:
    d = kernel.find(ref.buffer)
    if isinstance(d, (Param, Buffer)) and kernel.space(ref) != "register" and width * nbytes(d.dtype) > 16:
        yield f"{width} elements of {d.dtype} are {width * nbytes(d.dtype)} bytes; one access moves at most 16"


def _row_operands(kernel: KernelDescriptor, s: Call) -> Iterator[str]:
    kinds = set()
    for o in ROWS[s.row].operands:
        ref = s.refs.get(o.role)
        d = kernel.find(ref.buffer) if ref is not None else None
        if ref is None or not isinstance(d, (Param, Buffer)):
            continue
        kinds.add(d.dtype)
        if kernel.space(ref) != o.space:
            yield f"{o.role} {ref} is in {kernel.space(ref)} memory; {s.row} takes {o.space}"
        if o.dtypes and d.dtype not in o.dtypes:
            yield f"{o.role} {ref} is {d.dtype}; {s.row} takes {', '.join(o.dtypes)}"
        if o.nbytes % nbytes(d.dtype):
            yield f"{s.row} moves {o.nbytes} bytes, no whole number of elements of {d.dtype}"
    if len(kinds) > 1:
        yield f"{s.row} copies between {' and '.join(sorted(kinds))}"


def row_faults(s: Call) -> Iterator[str]:
    """How a call differs from its row."""
    row = ROWS.get(s.row)
    if row is None:
        yield f"no instruction is called {s.row!r}; known: {', '.join(sorted(ROWS))}"
        return
    roles, args = {o.role for o in row.operands}, {a.name: a for a in row.args}
    yield from (f"{s.row} needs the operand {r!r}" for r in sorted(roles - s.refs.keys()))
    yield from (f"{s.row} has no operand {r!r}" for r in sorted(s.refs.keys() - roles))
    yield from (f"{s.row} has no argument {a!r}" for a in sorted(s.args.keys() - args.keys()))
    for name, a in args.items():
        e = s.args.get(name)
        if e is None:
            if a.default is None:
                yield f"{s.row} needs the argument {name!r}"
        elif isinstance(e, Const):
            if not isinstance(e.value, bool) and not (a.low is None or a.low <= e.value) & (
                a.high is None or e.value <= a.high
            ):
                yield f"{name} = {e} lies outside [{a.low}, {a.high}]"
        elif a.constant:
            yield f"{name} = {e} must be a constant"


def contract_faults(kernel: KernelDescriptor, s: Statement) -> Iterator[str]:
    """Uses of a tensor that its `access` does not allow."""
    for role, ref in operands(s):
        d = kernel.find(ref.buffer)
        if not isinstance(d, Param) or role == "view":
            continue
        use = _use(s, role)
        allowed = {"read": "read", "write": "write", "readwrite": "read write atomic", "add": "atomic"}[
            d.access
        ].split()
        if use not in allowed:
            yield f"{use} access to {ref}, and {d.name} is declared {d.access!r}"
        if d.access == "add" and s.kind == "atomic" and s.op != "add":
            yield f"atomic {s.op} on {d.name}, which is declared 'add'"


def _use(s: Statement, role: str) -> str:
    if s.kind == "atomic":
        return "atomic"
    if s.kind == "call":
        return next((o.mode for o in ROWS[s.row].operands if o.role == role), "read")
    return "read" if s.kind == "load" and role == "src" else "write"
