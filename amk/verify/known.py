"""What this program understands of the IR. Everything else is reported as taken on trust, field by field.

The lists are kept by hand on purpose: a kind, a field, an instruction or an operator that the IR gains later is unknown
here until somebody has taught every part of this package what it means. There are two of them. `ARITHMETIC` is what the
duties of form and of arithmetic are derived for; `WALK`, less, is what the walk of a block can follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from amk.dsl.expr import Apply, subterms
from amk.dsl.instructions import PURE, ROWS, Operand, Row
from amk.dsl.kernel import KernelDescriptor, expressions, walk
from amk.dsl.layout import Padded, Strided, Swizzle
from amk.dsl.model import Model
from amk.dsl.nodes import Statement
from amk.verify.outcome import NotCovered

__all__ = ["ARITHMETIC", "WALK", "require_known", "unknown"]

Fields = Mapping[str, frozenset[str]]


class Lists(NamedTuple):
    """What is understood: of nodes the fields, of some fields the values; of rows what they say and take."""

    nodes: Fields
    values: Mapping[tuple[str, str], tuple[Any, ...]]
    row: frozenset[str]
    operand: frozenset[str]
    args: frozenset[str]
    issuers: frozenset[str]
    completions: frozenset[str]
    spaces: frozenset[str]


def _sets(words: Mapping[str, str]) -> dict[str, frozenset[str]]:
    return {kind: frozenset(names.split()) for kind, names in words.items()}


_NODES = _sets({
    "kernel": "kind format name target threads min_blocks spill_bytes grid params buffers body origin",
    "param": "name dtype min max multiple_of shape strides access align offsets",
    "buffer": "name space dtype shape layout align",
    "carry": "name dtype init next",
    "let": "name dtype value view uniform", "load": "dst src width when other", "store": "dst values",
    "atomic": "op dst value", "call": "row refs args", "for": "var lo hi step unroll carry body", "if": "cond body",
    "sync": "scope", "commit": "queue", "wait": "queue pending", "assume": "fact",
})  # fmt: skip
_ASYNC = _sets({
    "kernel": "cluster maps barriers", "tensormap": "name tensor box swizzle fill", "barrier": "name slots count",
    "load": "peer", "store": "peer", "sync": "part id threads relaxed", "wait": "read barrier parity",
    "arrive": "barrier bytes peer", "fence": "what", "team": "roles", "role": "warps registers body",
})  # fmt: skip
_VALUES: dict[tuple[str, str], tuple[Any, ...]] = {  # what a field may say
    ("param", "access"): ("read", "write", "readwrite", "add"), ("buffer", "space"): ("shared", "register"),
    ("atomic", "op"): ("add", "min", "max"),
}  # fmt: skip
_ROW = frozenset((
    "name", "isa", "since", "issuer", "operands", "args", "completes", "guard", "meaning", "feature", "family",
))  # fmt: skip
_OPERAND = frozenset(("role", "mode", "space", "nbytes", "align", "dtypes"))
_ARGS = frozenset(("value", "pred", "delta", "mask", "lane", "when"))

WALK = Lists(
    _NODES,
    _VALUES | {("sync", "scope"): ("block", "warp"), ("commit", "queue"): ("cp_async",),
               ("wait", "queue"): ("cp_async",)},
    _ROW, _OPERAND, _ARGS, frozenset(("thread", "warp")), frozenset(("now", "cp_async")),
    frozenset(("global", "shared", "register")),
)  # fmt: skip
ARITHMETIC = Lists(
    {kind: _NODES.get(kind, frozenset()) | _ASYNC.get(kind, frozenset()) for kind in _NODES.keys() | _ASYNC.keys()},
    _VALUES | {
        ("sync", "scope"): ("block", "warp", "cluster", "named"),
        ("commit", "queue"): ("cp_async", "bulk", "wgmma"), ("wait", "queue"): (None, "cp_async", "bulk", "wgmma"),
    },
    _ROW | {"multicast", "adds"}, _OPERAND | {"proxy", "lanes", "tile", "step", "box", "counted", "rank"},
    _ARGS | {"members", "bytes", "peer", "scale_d", "v0", "v1", "v2", "v3"},
    frozenset(("thread", "warp", "warpgroup")), frozenset(("now", "cp_async", "bulk", "wgmma", "barrier")),
    frozenset(("global", "shared", "register", "map", "barrier")),
)  # fmt: skip

LAYOUTS: dict[type[Model], frozenset[str]] = {
    Strided: frozenset(("strides",)), Padded: frozenset(("pad",)), Swizzle: frozenset(("bits", "base", "shift"))
}  # fmt: skip
OPERATORS = frozenset((
    "or", "and", "not", "<", "<=", ">", ">=", "==", "!=", "|", "^", "&", "<<", ">>", "+", "-", "*", "/", "//", "%",
    "neg", "min", "max", "cdiv", "select", "i32", "i64", "u32", "f32", "f64",
))  # fmt: skip
DTYPES = frozenset(("bool", "i8", "u8", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"))


def unknown(kernel: KernelDescriptor, lists: Lists) -> NotCovered | None:
    """The first thing that is not understood, if there is one."""
    try:
        require_known(kernel, lists)
    except NotCovered as fault:
        return fault
    return None


def require_known(kernel: KernelDescriptor, lists: Lists) -> None:
    """Raises NotCovered for the first thing that is not understood."""
    _fields(kernel, lists, "", "kernel")
    for i, p in enumerate(kernel.params):
        _fields(p, lists, f"/params/{i}", "param")
        _dtype(p.dtype, f"/params/{i}")
    for i, b in enumerate(kernel.buffers):
        _fields(b, lists, f"/buffers/{i}", "buffer")
        _dtype(b.dtype, f"/buffers/{i}")
        if b.layout is not None:
            _only(b.layout, LAYOUTS.get(type(b.layout), frozenset()), f"/buffers/{i}/layout", "layout")
    for i, m in enumerate(kernel.maps):
        _fields(m, lists, f"/maps/{i}", "tensormap")
    for i, x in enumerate(kernel.barriers):
        _fields(x, lists, f"/barriers/{i}", "barrier")
    for at, s in walk(kernel.body):
        _statement(s, lists, at)
        for below, e in expressions(s):
            _operators(e, lists, at + below)
    for at, e in _declared(kernel):
        _operators(e, lists, at)


def _declared(kernel: KernelDescriptor) -> Iterator[tuple[str, Any]]:
    yield from ((f"/grid/{i}", e) for i, e in enumerate(kernel.grid))
    for i, p in enumerate(kernel.params):
        yield from ((f"/params/{i}", e) for e in (*(p.shape or ()), *(p.strides or ())))


def _fields(node: Model, lists: Lists, at: str, kind: str) -> None:
    if kind not in lists.nodes:
        raise NotCovered(at, f"statements of kind {kind!r}")
    known = lists.nodes[kind]
    _only(node, known, at, kind)
    for name in known:
        allowed = lists.values.get((kind, name))
        if allowed is not None and getattr(node, name) not in allowed:
            raise NotCovered(f"{at}/{name}", f"{name} {getattr(node, name)!r} of a {kind}")


def _only(node: Model, known: frozenset[str], at: str, kind: str) -> None:
    """Fields beyond the known ones must be at their defaults."""
    for name, info in type(node).model_fields.items():
        if name in known or name in ("kind", "at"):
            continue
        if info.is_required() or getattr(node, name) != info.default:
            raise NotCovered(f"{at}/{name}", f"the field {name!r} of a {kind}")


def _dtype(dtype: str, at: str) -> None:
    if dtype not in DTYPES:
        raise NotCovered(at, f"the type {dtype}")


def _statement(s: Statement, lists: Lists, at: str) -> None:
    _fields(s, lists, at, s.kind)
    if s.kind == "call":
        if strange := s.args.keys() - lists.args:
            raise NotCovered(f"{at}/args", f"the argument {min(strange)!r} of {s.row}")
        if s.row in ROWS:  # one that no table has is malformed
            _row(ROWS[s.row], lists, at)
    elif s.kind == "for":
        for j, c in enumerate(s.carry):
            _fields(c, lists, f"{at}/carry/{j}", "carry")
            _dtype(c.dtype, f"{at}/carry/{j}")
            if c.dtype == "u64":
                raise NotCovered(f"{at}/carry/{j}", "carried values of type u64")
    elif s.kind == "team":
        for j, r in enumerate(s.roles):
            _fields(r, lists, f"{at}/roles/{j}", "role")
    elif s.kind == "let":
        _dtype(s.dtype, at)


def _row(row: Row, lists: Lists, at: str) -> None:
    """A row is understood if only the fields that this program reads say anything."""
    _plain(row, lists.row, at, row.name)
    if row.issuer not in lists.issuers or row.completes not in lists.completions:
        raise NotCovered(at, f"the instruction {row.name}, issued by a {row.issuer}, complete by {row.completes}")
    walked = lists is WALK
    for o in row.operands:
        _plain(o, lists.operand, at, row.name)
        if o.space not in lists.spaces or (walked and o.mode not in ("read", "write")):
            raise NotCovered(at, f"the operand {o.role!r} of {row.name}")
        if walked and row.issuer == "warp" and o.space != "register":
            raise NotCovered(at, f"memory operands of {row.name}, an instruction of whole warps")
    shapes = {(o.mode, o.space) for o in row.operands}
    if walked and row.completes == "cp_async" and shapes != {("write", "shared"), ("read", "global")}:
        raise NotCovered(at, f"the operands of {row.name}")


def _plain(value: Row | Operand, known: frozenset[str], at: str, name: str) -> None:
    for f in type(value)._fields:
        if f not in known and getattr(value, f) != type(value)._field_defaults.get(f):
            raise NotCovered(at, f"{f!r} of the instruction {name}")


def _operators(e: Any, lists: Lists, at: str) -> None:
    for x in subterms(e):
        if isinstance(x, Apply) and x.op not in OPERATORS:
            row = PURE.get(x.op)
            if row is None or (lists is WALK and {row.result, *row.params} - {"f32", "f64"}):
                raise NotCovered(at, f"the function {x.op}")
