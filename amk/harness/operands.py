"""What is wrong with the operands of a statement: rank, space, width, the table's rows, and the access contract."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.expr import Const, Elem, subterms
from amk.dsl.flags import flag_faults
from amk.dsl.instructions import ROWS, Arg
from amk.dsl.kernel import KernelDescriptor, expressions
from amk.dsl.layout import Swizzle
from amk.dsl.nodes import Barrier, Buffer, Call, Param, Statement, TensorMap
from amk.dsl.types import nbytes
from amk.harness.form import operands, place
from amk.harness.row_operands import call_operands

__all__ = ["contract_faults", "operand_faults", "row_faults", "tensor_of"]

SPACES = {
    ("load", "dst"): ("register",), ("load", "src"): ("global", "shared"),
    ("store", "dst"): ("global", "shared", "register"), ("atomic", "dst"): ("global", "shared"),
    ("atomic", "old"): ("register",), ("wait", "flag"): ("global",),
    ("let", "view"): ("global", "shared", "register"),
    ("arrive", "barrier"): ("barrier",), ("wait", "barrier"): ("barrier",),
}  # fmt: skip
_ALLOWED = {
    "read": ("read",), "write": ("write",), "readwrite": ("read", "write", "atomic"), "add": ("atomic",),
    "workspace": ("read", "write", "atomic"),
}  # fmt: skip
IN_WORDS = {"map": "a tensor map", "barrier": "a barrier"}


def operand_faults(kernel: KernelDescriptor, s: Statement) -> Iterator[str]:
    """Rank, space and width of every operand and of every element that stands in a value."""
    for _, e in expressions(s):
        for x in subterms(e):
            if isinstance(x, Elem) and (fault := _rank(kernel, x)) is not None:
                yield fault
    for role, ref in operands(s):
        found, wanted = place(kernel, ref), SPACES.get((s.kind, role))
        if found and wanted and found not in wanted:
            yield f"{role} {ref} is {_where(found)}; {s.kind} takes {_listed(wanted)}"
    if s.kind == "let":
        yield from _view(kernel, s.view, s.value is None)
    if s.kind == "store" and len(s.values) not in (1, 2, 4, 8, 16):
        yield f"{len(s.values)} values; a store writes 1, 2, 4, 8 or 16"
    if s.kind in ("load", "store"):
        yield from _width(kernel, s.src if s.kind == "load" else s.dst, s.width if s.kind == "load" else len(s.values))
        yield from _peer(kernel, s)
    if s.kind == "load" and s.when is not None and s.other is None:
        yield "a load with `when` needs `other`, the value where it does not hold"
    yield from flag_faults(kernel, s)
    if s.kind == "call" and s.row in ROWS:
        yield from _row_operands(kernel, s)
        yield from call_operands(kernel, s)


def _where(found: str) -> str:
    return IN_WORDS.get(found, f"in {found} memory")


def _listed(wanted: tuple[str, ...]) -> str:
    return " or ".join(IN_WORDS.get(x, x) for x in wanted)


def _rank(kernel: KernelDescriptor, x: Elem) -> str | None:
    view = kernel.views.get(x.buffer)
    d = kernel.find(x.buffer)
    if isinstance(d, Param) and d.shape is None:
        return f"{x}: {d.name} is a scalar"
    if d is None:
        return f"{x}: {x.buffer} is no tensor, buffer, tensor map or barrier"
    rank = len(d.box) if isinstance(d, TensorMap) else 1 if isinstance(d, Barrier) else len(d.shape or ())
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


def _peer(kernel: KernelDescriptor, s: Statement) -> Iterator[str]:
    """Another block is reached through shared memory, and in a cluster."""
    assert s.kind in ("load", "store")
    if s.peer is None:
        return
    ref = s.src if s.kind == "load" else s.dst
    if place(kernel, ref) not in ("shared", ""):
        yield f"a {s.kind} with a peer reaches shared memory, and {ref} is {_where(place(kernel, ref))}"
    if kernel.cluster == 1:
        yield f"a {s.kind} with a peer in a kernel without a cluster: there is no other block"


def tensor_of(kernel: KernelDescriptor, name: str) -> Param | None:
    """The tensor that an operand touches, by itself or through its tensor map."""
    d = kernel.find(name)
    if isinstance(d, TensorMap):
        d = kernel.declarations.get(d.tensor)
    return d if isinstance(d, Param) and d.shape is not None else None


def _row_operands(kernel: KernelDescriptor, s: Call) -> Iterator[str]:
    moved = set()
    for o in ROWS[s.row].operands:
        ref = s.refs.get(o.role)
        found = place(kernel, ref) if ref is not None else ""
        if ref is None or not found:
            continue
        if found != o.space:
            yield f"{o.role} {ref} is {_where(found)}; {s.row} takes {_listed((o.space,))}"
            continue
        dtype = _dtype(kernel, ref)
        if o.space in ("global", "shared", "map") and dtype and not o.tile:
            moved.add(dtype)
        if o.dtypes and dtype and dtype not in o.dtypes:
            yield f"{o.role} {ref} is {dtype}; {s.row} takes {', '.join(o.dtypes)}"
        if dtype and o.nbytes % nbytes(dtype):
            yield f"{s.row} moves {o.nbytes} bytes, no whole number of elements of {dtype}"
    if len(moved) > 1:
        yield f"{s.row} copies between {' and '.join(sorted(moved))}"


def _dtype(kernel: KernelDescriptor, ref: Elem) -> str:
    d = kernel.find(ref.buffer)
    if isinstance(d, TensorMap):
        d = tensor_of(kernel, ref.buffer)
    return d.dtype if isinstance(d, (Param, Buffer)) else ""


def row_faults(kernel: KernelDescriptor, s: Call) -> Iterator[str]:
    """How a call differs from its row."""
    row = ROWS.get(s.row)
    if row is None:
        yield f"no instruction is called {s.row!r}{_close(s.row)}"
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
            yield from _constant(kernel, a, e, row.multicast)
        elif a.constant:
            yield f"{name} = {e} must be a constant"


def _constant(kernel: KernelDescriptor, a: Arg, e: Const, multicast: str) -> Iterator[str]:
    if isinstance(e.value, bool):
        return
    if (a.low is not None and e.value < a.low) or (a.high is not None and e.value > a.high):
        yield f"{a.name} = {e} lies outside [{a.low}, {a.high}]"
    elif a.multiple_of > 1 and e.value % a.multiple_of:
        yield f"{a.name} = {e} is no multiple of {a.multiple_of}"
    elif a.name == multicast and e.value >= 1 << kernel.cluster:
        yield f"{a.name} = {e} names a block outside the cluster of {kernel.cluster}"
    elif a.name == "peer" and e.value >= kernel.cluster:
        yield f"{a.name} = {e} lies outside the cluster of {kernel.cluster}"


def _close(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, list(ROWS), 3, 0.6)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def contract_faults(kernel: KernelDescriptor, s: Statement) -> Iterator[str]:
    """Uses of a tensor that its `access` does not allow."""
    for role, ref in operands(s):
        d = tensor_of(kernel, ref.buffer)
        if d is None or role == "view" or not (use := _use(s, role)):
            continue
        if use not in _ALLOWED[d.access]:
            through = "" if ref.buffer == d.name else f" (through {ref.buffer})"
            yield f"{use} access to {ref}, and {d.name}{through} is declared {d.access!r}"
        op = _operator(s) if use == "atomic" else ""
        if d.access == "add" and use == "atomic" and op != "add":
            yield f"atomic {op} on {d.name}, which is declared 'add'"


def _use(s: Statement, role: str) -> str:
    """How a statement uses the tensor of an operand; '' where it does not touch its elements."""
    if s.kind == "atomic":
        return "atomic"
    if s.kind != "call":
        return "read" if (s.kind, role) in (("load", "src"), ("wait", "flag")) else "write"
    if s.row not in ROWS:
        return ""
    o = next((o for o in ROWS[s.row].operands if o.role == role), None)
    if o is None or (o.space == "map" and not any(x.box == role for x in ROWS[s.row].operands)):
        return ""
    return "atomic" if o.mode == "update" else o.mode


def _operator(s: Statement) -> str:
    if s.kind == "call":  # bulk.reduce.add, tma.reduce.add.2d
        return s.row.split(".")[2]
    return s.op if s.kind == "atomic" else ""
