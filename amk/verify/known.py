"""What this program understands of the IR. Everything else is reported as not re-checked, field by field.

The lists are kept by hand on purpose: a kind, a field, an instruction or an operator that the IR gains later is unknown
here until somebody has taught every part of this package what it means.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amk.dsl.expr import Apply, subterms
from amk.dsl.instructions import PURE, ROWS, Operand, Row
from amk.dsl.kernel import KernelDescriptor, expressions, walk
from amk.dsl.layout import Padded, Strided, Swizzle
from amk.dsl.model import Model
from amk.dsl.nodes import Statement
from amk.verify.outcome import NotCovered

__all__ = ["require_known"]

KERNEL = {
    "kind", "format", "name", "target", "threads", "min_blocks", "spill_bytes", "grid", "params", "buffers", "body",
    "origin",
}  # fmt: skip
PARAM = {"name", "dtype", "min", "max", "multiple_of", "shape", "strides", "access", "align", "offsets"}
BUFFER = {"name", "space", "dtype", "shape", "layout", "align"}
LAYOUTS: dict[type[Model], set[str]] = {
    Strided: {"strides"}, Padded: {"pad"}, Swizzle: {"bits", "base", "shift"}
}  # fmt: skip
STATEMENTS = {
    "let": {"name", "dtype", "value", "view", "uniform"},
    "load": {"dst", "src", "width", "when", "other"},
    "store": {"dst", "values"},
    "atomic": {"op", "dst", "value"},
    "call": {"row", "refs", "args"},
    "for": {"var", "lo", "hi", "step", "unroll", "carry", "body"},
    "if": {"cond", "body"},
    "sync": {"scope"},
    "commit": {"queue"},
    "wait": {"queue", "pending"},
    "assume": {"fact"},
}
CARRY = {"name", "dtype", "init", "next"}
VALUES: dict[tuple[str, str], tuple[Any, ...]] = {  # what a field may say
    ("param", "access"): ("read", "write", "readwrite", "add"), ("buffer", "space"): ("shared", "register"),
    ("sync", "scope"): ("block", "warp"), ("commit", "queue"): ("cp_async",), ("wait", "queue"): ("cp_async",),
    ("atomic", "op"): ("add", "min", "max"),
}  # fmt: skip
OPERATORS = frozenset((
    "or", "and", "not", "<", "<=", ">", ">=", "==", "!=", "|", "^", "&", "<<", ">>", "+", "-", "*", "/", "//", "%",
    "neg", "min", "max", "cdiv", "select", "i32", "i64", "u32", "f32", "f64",
))  # fmt: skip
DTYPES = frozenset(("bool", "i8", "u8", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"))
ROW = {"name", "isa", "since", "issuer", "operands", "args", "completes", "guard", "meaning"}
OPERAND = {"role", "mode", "space", "nbytes", "align", "dtypes"}


def require_known(kernel: KernelDescriptor) -> None:
    """Raises NotCovered for the first thing that this program does not re-check."""
    _fields(kernel, KERNEL, "", "kernel")
    for i, p in enumerate(kernel.params):
        _fields(p, PARAM, f"/params/{i}", "param")
        _dtype(p.dtype, f"/params/{i}")
    for i, b in enumerate(kernel.buffers):
        _fields(b, BUFFER, f"/buffers/{i}", "buffer")
        _dtype(b.dtype, f"/buffers/{i}")
        if b.layout is not None:
            _fields(b.layout, LAYOUTS.get(type(b.layout), set()), f"/buffers/{i}/layout", "layout")
    for at, s in walk(kernel.body):
        _statement(s, at)
        for below, e in expressions(s):
            _operators(e, at + below)
    for at, e in _declared(kernel):
        _operators(e, at)


def _declared(kernel: KernelDescriptor) -> Iterator[tuple[str, Any]]:
    yield from ((f"/grid/{i}", e) for i, e in enumerate(kernel.grid))
    for i, p in enumerate(kernel.params):
        yield from ((f"/params/{i}", e) for e in (*(p.shape or ()), *(p.strides or ())))


def _fields(node: Model, known: set[str], at: str, kind: str) -> None:
    """Fields beyond the known ones must be at their defaults."""
    for name, info in type(node).model_fields.items():
        value = getattr(node, name)
        if name in known or name in ("kind", "at"):
            allowed = VALUES.get((kind, name))
            if allowed is not None and value not in allowed:
                raise NotCovered(f"{at}/{name}", f"{name} {value!r} of a {kind}")
        elif info.is_required() or value != info.default:
            raise NotCovered(f"{at}/{name}", f"the field {name!r} of a {kind}")


def _dtype(dtype: str, at: str) -> None:
    if dtype not in DTYPES:
        raise NotCovered(at, f"the type {dtype}")


def _statement(s: Statement, at: str) -> None:
    if s.kind not in STATEMENTS:
        raise NotCovered(at, f"statements of kind {s.kind!r}")
    _fields(s, STATEMENTS[s.kind], at, s.kind)
    if s.kind == "call":
        if s.row in ROWS:  # one that no table has is malformed
            _row(ROWS[s.row], at)
    elif s.kind == "for":
        for j, c in enumerate(s.carry):
            _fields(c, CARRY, f"{at}/carry/{j}", "carry")
            _dtype(c.dtype, f"{at}/carry/{j}")
            if c.dtype == "u64":
                raise NotCovered(f"{at}/carry/{j}", "carried values of type u64")
    elif s.kind == "let":
        _dtype(s.dtype, at)


def _row(row: Row, at: str) -> None:
    """A row is understood if only the fields that this program reads say anything."""
    _plain(row, ROW, at, row.name)
    if row.issuer not in ("thread", "warp") or row.completes not in ("now", "cp_async"):
        raise NotCovered(at, f"the instruction {row.name}, issued by a {row.issuer}, complete by {row.completes}")
    for o in row.operands:
        _plain(o, OPERAND, at, row.name)
        if o.space not in ("global", "shared", "register") or o.mode not in ("read", "write"):
            raise NotCovered(at, f"the operand {o.role!r} of {row.name}")
        if row.issuer == "warp" and o.space != "register":
            raise NotCovered(at, f"memory operands of {row.name}, an instruction of whole warps")
    shapes = {(o.mode, o.space) for o in row.operands}
    if row.completes == "cp_async" and shapes != {("write", "shared"), ("read", "global")}:
        raise NotCovered(at, f"the operands of {row.name}")


def _plain(value: Row | Operand, known: set[str], at: str, name: str) -> None:
    for f in type(value)._fields:
        if f not in known and getattr(value, f) != type(value)._field_defaults.get(f):
            raise NotCovered(at, f"{f!r} of the instruction {name}")


def _operators(e: Any, at: str) -> None:
    for x in subterms(e):
        if isinstance(x, Apply) and x.op not in OPERATORS:
            row = PURE.get(x.op)
            if row is None or {row.result, *row.params} - {"f32", "f64"}:
                raise NotCovered(at, f"the function {x.op}")
