"""KernelDescriptor: the root of the IR, its JSON, its hash, and the walks that everything else shares.

In: JSON text (untrusted) or nodes from a builder. Out: one frozen value whose JSON, hash and printed text are the same
in every process.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

from amk.dsl.expr import Const, Elem, Expr, ExprError, subst
from amk.dsl.fields import Code, Ex, Name, Pointer, Reason, whole
from amk.dsl.layout import extent, offset
from amk.dsl.model import Field, Model
from amk.dsl.nodes import Barrier, Buffer, Node, Param, Statement, Stmt, TensorMap
from amk.dsl.types import Dispatch, nbytes
from amk.errors import DescriptorError

if TYPE_CHECKING:
    from pydantic import ValidationError

__all__ = [
    "FORMAT", "TURN", "Declaration", "KernelDescriptor", "Origin", "Suppression", "children", "expressions", "load",
    "walk",
]  # fmt: skip

FORMAT = 1
TURN = "turn_"  # of no declaration: names that end so are the printer's
Declaration = Param | TensorMap | Buffer | Barrier
Short = Annotated[str, Field(max_length=4096)]


class Origin(Model):
    """Where a kernel comes from. Shown and used to look up the operator's reference; no part of the hash."""

    agent: Short = ""
    operator: Annotated[str, Field(max_length=64)] = ""
    problem: dict[str, Any] = {}
    schedule: dict[str, Any] = {}
    reasons: dict[str, Short] = {}


class Suppression(Model):
    """A warning that the author has looked at and means, with the reason. Shown as such; no part of the hash.

    `pointer` is the statement or declaration that it is about, with all below it; without one it is the whole kernel.
    """

    code: Code
    reason: Reason
    pointer: Pointer = ""


class KernelDescriptor(Node):
    """A whole kernel: thread hierarchy, parameters, storage and body.

    `dispatch` is what blocks may rely on: nothing (`any`), that `bx` counts them in the order in which they started
    (`in_order`), or that all of them run at once (`resident`, a cooperative launch).
    """

    format: Literal[1] = 1
    name: Name
    target: Annotated[str, Field(max_length=32, pattern=r"^sm_\d{2,3}[af]?$")]
    threads: Annotated[int, whole(1, 1 << 20)]
    cluster: Annotated[int, whole(1, 16)] = 1
    dispatch: Dispatch = "any"
    min_blocks: Annotated[int, whole(1, 32)] = 1
    spill_bytes: Annotated[int, whole(0, 1 << 16)] = 0
    grid: Annotated[tuple[Ex, ...], Field(min_length=1, max_length=3)]
    params: tuple[Param, ...] = ()
    maps: tuple[TensorMap, ...] = ()
    buffers: tuple[Buffer, ...] = ()
    barriers: tuple[Barrier, ...] = ()
    body: tuple[Stmt, ...] = ()
    suppress: Annotated[tuple[Suppression, ...], Field(max_length=1000)] = ()
    origin: Origin | None = None

    # -- names ------------------------------------------------------------------------------------------------------
    @cached_property
    def declarations(self) -> dict[str, Declaration]:
        """Every declared name (the first of a name that stands twice, which is a form fault)."""
        out: dict[str, Declaration] = {}
        groups: tuple[tuple[Declaration, ...], ...] = (self.params, self.maps, self.buffers, self.barriers)
        for d in (d for group in groups for d in group):
            out.setdefault(d.name, d)
        return out

    @cached_property
    def views(self) -> dict[str, Elem]:
        """Each named operand (`Let` with a view), with views of views resolved to the buffer itself."""
        out: dict[str, Elem] = {}
        for _, s in walk(self.body):
            if s.kind == "let" and s.view is not None:
                out[s.name] = moved(s.view, out)
        return out

    def resolve(self, ref: Elem) -> Elem:
        """The operand with a view replaced by what it views: buffer name and full index tuple."""
        return moved(ref, self.views)

    def find(self, name: str) -> Declaration | None:
        """The declaration of a name; a view stands for the buffer it views."""
        view = self.views.get(name)
        return self.declarations.get(view.buffer if view is not None else name)

    def pointer_of(self, name: str) -> str:
        """The JSON pointer of a declared parameter or buffer ('' for any other name)."""
        named = [f"/params/{i}" for i, p in enumerate(self.params) if p.name == name]
        named += [f"/buffers/{i}" for i, b in enumerate(self.buffers) if b.name == name]
        return named[0] if named else ""

    def space(self, ref: Elem) -> str:
        """global, shared, register or '' for an undeclared name."""
        d = self.find(ref.buffer)
        return "global" if isinstance(d, Param) else d.space if isinstance(d, Buffer) else ""

    @property
    def grid3(self) -> tuple[Expr, Expr, Expr]:
        """The grid with absent dimensions as 1."""
        g = (*self.grid, Const(1), Const(1))
        return g[0], g[1], g[2]

    @property
    def scalars(self) -> tuple[Param, ...]:
        return tuple(p for p in self.params if p.shape is None)

    @property
    def tensors(self) -> tuple[Param, ...]:
        return tuple(p for p in self.params if p.shape is not None)

    def replaced(self, **fields: Any) -> KernelDescriptor:
        """The kernel with other fields, and nothing remembered of this one."""
        return self.model_copy(update=fields)

    # -- storage ----------------------------------------------------------------------------------------------------
    @cached_property
    def shared_offsets(self) -> dict[str, int]:
        """Byte offset of each shared array and barrier array in the block's one dynamic segment."""
        return self._shared[0]

    @property
    def shared_bytes(self) -> int:
        """Bytes of dynamic shared memory that the launch asks for."""
        return self._shared[1]

    @cached_property
    def _shared(self) -> tuple[dict[str, int], int]:
        at, out = 0, {}
        for b in self.buffers:
            if b.space == "shared":
                at = -(-at // b.align) * b.align
                out[b.name] = at
                at += extent(b.shape, b.layout) * nbytes(b.dtype)
        for m in self.barriers:
            at = -(-at // 8) * 8
            out[m.name] = at
            at += 8 * m.slots
        if self.dispatch == "in_order":  # where the block keeps its number
            at = -(-at // 4) * 4
            out[TURN] = at
            at += 4
        return out, at

    def shared_byte(self, ref: Elem) -> Expr:
        """Byte address of an element of a shared buffer, from the start of the segment (views resolved)."""
        e = self.resolve(ref)
        b = self.declarations[e.buffer]
        assert isinstance(b, Buffer) and b.space == "shared"
        return offset(b.shape, b.layout, e.index) * nbytes(b.dtype) + self.shared_offsets[b.name]

    def strides_of(self, p: Param) -> tuple[Expr, ...]:
        """Strides of a tensor parameter in elements, row-major where it declares none."""
        if p.strides is not None:
            return p.strides
        out: list[Expr] = [Const(1)]
        for n in reversed((p.shape or ())[1:]):
            out.append(out[-1] * n)
        return tuple(reversed(out))

    # -- text -------------------------------------------------------------------------------------------------------
    def to_dict(self, *, places: bool = True) -> dict[str, Any]:
        """JSON data with defaults left out; `places=False` also leaves out what is no part of the hash."""
        data = _dump(self, places)
        return {"format": FORMAT, **data}

    def to_json(self) -> str:
        """Readable JSON, one statement a line; `KernelDescriptor.from_json` gives back an equal kernel."""
        return _pretty(self.to_dict(), 0) + "\n"

    @cached_property
    def hash(self) -> str:
        """Hex digest of everything but places, suppressions and origin; equal in every process."""
        text = json.dumps(self.to_dict(places=False), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    @classmethod
    def from_json(cls, text: str | bytes, *, name: str = "<input>") -> KernelDescriptor:
        """The kernel of a JSON text; DescriptorError with line and column for anything else."""
        from amk.dsl.source import read_object

        data = read_object(text, name=name)
        plain = text.decode() if isinstance(text, bytes) else text
        _check_format(data, plain, name)
        try:
            return cls.model_validate(data)
        except ValueError as e:
            _raise_first(e, plain, name)
        except RecursionError:
            raise DescriptorError("descriptor nests too deeply", line=1, column=1) from None

    def __hash__(self) -> int:
        return hash(self.hash)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KernelDescriptor) and self.hash == other.hash


def load(path: str) -> KernelDescriptor:
    """The kernel in a file."""
    from amk.dsl.files import read_bytes
    from amk.dsl.source import MAX_BYTES

    try:
        data = read_bytes(path, MAX_BYTES + 1)
    except (OSError, ValueError) as e:
        why = e.strerror if isinstance(e, OSError) else str(e)
        raise DescriptorError(f"cannot read {path}: {why}", hint="give the path of a descriptor file") from None
    return KernelDescriptor.from_json(data, name=str(path))


# ---------------------------------------------------------------------------------------------------------------- walk
def children(s: Statement) -> tuple[tuple[str, tuple[Statement, ...]], ...]:
    """The bodies of a statement, each with its JSON pointer below the statement."""
    if s.kind == "team":
        return tuple((f"/roles/{i}/body", r.body) for i, r in enumerate(s.roles))
    return (("/body", s.body),) if s.kind in ("for", "if") else ()


def walk(body: tuple[Statement, ...], pointer: str = "/body") -> Iterator[tuple[str, Statement]]:
    """Every statement with its JSON pointer, in program order."""
    for i, s in enumerate(body):
        here = f"{pointer}/{i}"
        yield here, s
        for below, inner in children(s):
            yield from walk(inner, here + below)


def expressions(s: Statement) -> Iterator[tuple[str, Expr]]:
    """Every expression standing in a statement itself, with its pointer below the statement."""
    cls: Any = type(s)
    for name in _expression_fields(cls):
        value = getattr(s, name)
        if isinstance(value, Expr):
            yield f"/{name}", value
        elif isinstance(value, dict):
            yield from ((f"/{name}/{k}", v) for k, v in value.items())
        elif isinstance(value, tuple):
            for i, x in enumerate(value):
                if isinstance(x, Expr):
                    yield f"/{name}/{i}", x
                elif name == "carry":
                    yield f"/carry/{i}/init", x.init
                    yield f"/carry/{i}/next", x.next


@lru_cache(maxsize=64)
def _expression_fields(cls: type[Node]) -> tuple[str, ...]:
    skip = {"kind", "name", "dtype", "body", "roles", "at", "width", "unroll", "scope", "queue", "row", "op", "order"}
    return tuple(n for n in cls.model_fields if n not in skip)


def moved(ref: Elem, views: dict[str, Elem]) -> Elem:
    """The operand with a view of `views` replaced by what it views, its index added dimension by dimension."""
    base = views.get(ref.buffer)
    if base is None:
        return ref
    lead = len(base.index) - len(ref.index)
    return Elem(base.buffer, (*base.index[:lead], *(b + i for b, i in zip(base.index[lead:], ref.index, strict=False))))


def inline(e: Expr, lets: dict[str, Expr]) -> Expr:
    """The term with every Let of `lets` replaced by its value (Lets are pure)."""
    return subst(e, lets)


# ---------------------------------------------------------------------------------------------------------------- JSON
_UNHASHED = frozenset(("at", "origin", "suppress"))  # what is shown, and neither proved nor printed


def _dump(node: Model, places: bool) -> dict[str, Any]:
    out: dict[str, Any] = {}
    cls: Any = type(node)
    for name, default in _fields(cls):
        value = getattr(node, name)
        if name == "kind":
            out[name] = value
        elif not (value is default or (type(value) is type(default) and value == default)) and (
            places or name not in _UNHASHED
        ):
            out[name] = _plain(value, places)
    return out


def _plain(value: Any, places: bool) -> Any:
    if isinstance(value, Expr):
        return str(value)
    if isinstance(value, Model):
        return _dump(value, places)
    if isinstance(value, tuple):
        return [_plain(x, places) for x in value]
    if isinstance(value, dict):
        return {k: _plain(v, places) for k, v in value.items()}
    return value


@lru_cache(maxsize=64)
def _fields(cls: type[Model]) -> tuple[tuple[str, Any], ...]:
    missing = object()
    return tuple((n, missing if f.is_required() else f.default) for n, f in cls.model_fields.items() if n != "format")


def _pretty(value: Any, depth: int) -> str:
    flat = json.dumps(value, ensure_ascii=False, allow_nan=False)
    nested = isinstance(value, dict) and ("body" in value or "roles" in value or depth == 0)
    listed = isinstance(value, list) and depth == 1 and bool(value) and isinstance(value[0], dict)
    if not nested and not listed and (len(flat) < 100 or not _has_body(value)):
        return flat
    pad, end = "  " * (depth + 1), "  " * depth
    if isinstance(value, dict):
        items = [f"{pad}{json.dumps(k)}: {_pretty(v, depth + 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(items) + "\n" + end + "}"
    return "[\n" + ",\n".join(pad + _pretty(v, depth + 1) for v in value) + "\n" + end + "]"


def _has_body(value: Any) -> bool:
    if isinstance(value, dict):
        return "body" in value or "kind" in value or any(map(_has_body, value.values()))
    return isinstance(value, list) and any(map(_has_body, value))


def _check_format(data: dict[str, Any], text: str, name: str) -> None:
    from amk.dsl.source import raise_at

    found = data.get("format", FORMAT)
    if type(found) is int and found > FORMAT:
        message = f"descriptor format {found} is newer than {FORMAT}, the newest this amk reads"
        raise_at(text, "/format", message, name=name, hint="upgrade amk")
    if type(found) is not int or found < 1:
        raise_at(text, "/format", f"'format' is a whole number from 1 to {FORMAT}", name=name)
    if not isinstance(data.pop("$schema", ""), str):  # for editors: it says nothing about the kernel
        raise_at(text, "/$schema", "'$schema' is a string, the address of the JSON Schema", name=name)


def _raise_first(found: ValueError, text: str, name: str) -> NoReturn:
    from amk.dsl.source import escape, raise_at

    error: ValidationError = found  # type: ignore[assignment]  # of a model it is no other
    first = error.errors(include_url=False)[0]
    pointer = "".join(f"/{p}" for p in first["loc"] if not _is_tag(p))
    inner = (first.get("ctx") or {}).get("error")
    message = escape(str(inner) if inner is not None else first["msg"], 200)
    if isinstance(inner, ExprError):
        message += f" (character {inner.column + 1} of the expression)"
    raise_at(text, pointer, f"{escape(pointer or '/', 120)}: {message}", name=name, hint="see `amk schema`")


def _is_tag(part: int | str) -> bool:
    """Pydantic puts the discriminator's value into the place; the JSON has no such level."""
    return part in _TAGS


_TAGS = frozenset({
    "let", "load", "store", "atomic", "call", "for", "if", "team", "sync", "fence", "commit", "arrive", "wait",
    "assume", "strided", "padded", "swizzle", "param", "buffer", "tensormap",
})  # fmt: skip
