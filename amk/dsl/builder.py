"""KernelBuilder: how an author writes a kernel in plain Python. It records where each statement was written.

k = KernelBuilder("vector_add", target="sm_80", threads=256)
n = k.size("n")
x, z = k.tensor("x", "f32", (n,)), k.tensor("z", "f32", (n,), access="write")
a = k.registers("a", "f32", (1,))
i = k.let("i", k.bx * 256 + k.t)
with k.when(i < n):
    k.load(a[0], x[i])
    k.store(z[i], a[0] + a[0])
kernel = k.finish(grid=(cdiv(n, 256),))
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from amk.dsl.expr import Elem, Expr, ExprLike, Var, as_expr
from amk.dsl.kernel import KernelDescriptor, Origin, Suppression, walk
from amk.dsl.layout import Layout
from amk.dsl.names import RESERVED
from amk.dsl.nodes import (
    Arrive,
    Assume,
    Atomic,
    Barrier,
    Buffer,
    Call,
    Carry,
    Commit,
    Fence,
    For,
    If,
    Let,
    Load,
    Node,
    Param,
    Role,
    Statement,
    Store,
    Sync,
    Team,
    TensorMap,
    Wait,
)  # fmt: skip
from amk.dsl.types import Access, Dispatch, Queue, Scope
from amk.errors import DescriptorError

__all__ = ["Handle", "KernelBuilder", "Loop"]

_HERE = os.path.dirname(__file__)


class Handle:
    """A declared tensor or buffer, or a view: `h[i, j]` is an operand (and a value, for registers)."""

    __slots__ = ("name", "shape")

    def __init__(self, name: str, shape: tuple[Any, ...] = ()) -> None:
        self.name, self.shape = name, shape

    def __getitem__(self, index: ExprLike | tuple[ExprLike, ...]) -> Elem:
        return Elem(self.name, tuple(map(as_expr, index if isinstance(index, tuple) else (index,))))


class Loop:
    """An open loop: its variable, its carried values by attribute, and `next(...)` to set what they become."""

    def __init__(self, var: Expr, carried: dict[str, Expr]) -> None:
        self.var, self.carried, self.nexts = var, carried, {**carried}
        self.exit: Expr | None = None

    def __getattr__(self, name: str) -> Expr:
        try:
            found: Expr = self.__dict__["carried"][name]
            return found
        except KeyError:
            raise AttributeError(f"the loop carries no {name!r}") from None

    def next(self, **values: ExprLike) -> None:
        """What the carried values become in the next iteration."""
        unknown = values.keys() - self.carried.keys()
        if unknown:
            raise DescriptorError(f"the loop carries no {sorted(unknown)[0]!r}")
        self.nexts.update({k: as_expr(v) for k, v in values.items()})

    def until(self, cond: ExprLike) -> None:
        """The threads for which the condition holds at the end of a round leave the loop after it."""
        self.exit = as_expr(cond)


class KernelBuilder:
    """Collects declarations and statements; `finish` makes the frozen descriptor."""

    t, bx, by, bz = Var("t"), Var("bx"), Var("by"), Var("bz")
    gx, gy, gz = Var("gx"), Var("gy"), Var("gz")
    rank = Var("rank")

    def __init__(
        self, name: str, *, target: str, threads: int, cluster: int = 1, min_blocks: int = 1, spill_bytes: int = 0,
        dispatch: Dispatch = "any",
    ) -> None:  # fmt: skip
        self.name, self.target, self.threads, self.cluster = name, target, threads, cluster
        self.dispatch = dispatch
        self.min_blocks, self.spill_bytes = min_blocks, spill_bytes
        self._params: list[Param] = []
        self._maps: list[TensorMap] = []
        self._barriers: list[Barrier] = []
        self._buffers: list[Buffer] = []
        self._stack: list[list[Statement]] = [[]]
        self._roles: list[list[Role]] = []
        self._used: dict[str, int] = {}
        self._meant: list[tuple[str, str, str | list[Statement]]] = []

    # -- declarations -----------------------------------------------------------------------------------------------
    def size(self, name: str, *, min: int = 1, max: int = 2**31 - 2**16, multiple_of: int = 1) -> Expr:
        """A size known at launch: an i32 in [min, max] and a multiple of `multiple_of`."""
        return self.scalar(name, "i32", min=min, max=max, multiple_of=multiple_of)

    def scalar(self, name: str, dtype: str, **limits: int) -> Expr:
        """A scalar argument."""
        self._params.append(_make(Param, name=self._fresh(name), dtype=dtype, **limits))
        return Var(self._params[-1].name)

    def tensor(
        self, name: str, dtype: str, shape: Sequence[ExprLike], *, access: Access = "read", align: int | None = None,
        strides: Sequence[ExprLike] | None = None, offsets: Literal["i32", "i64"] = "i64",
    ) -> Handle:  # fmt: skip
        """A tensor in global memory; `strides` in elements (row-major by default), `align` of the base in bytes."""
        from amk.dsl.types import nbytes

        given = None if strides is None else tuple(map(as_expr, strides))
        p = _make(
            Param, name=self._fresh(name), dtype=dtype, shape=tuple(map(as_expr, shape)), strides=given,
            access=access, align=align or nbytes(dtype), offsets=offsets,
        )  # fmt: skip
        self._params.append(p)
        return Handle(p.name, p.shape or ())

    def shared(
        self, name: str, dtype: str, shape: Sequence[int], *, layout: Layout | None = None, align: int = 16
    ) -> Handle:
        """An array in shared memory."""
        return self._buffer("shared", name, dtype, shape, layout, align)

    def registers(self, name: str, dtype: str, shape: Sequence[int]) -> Handle:
        """An array in registers, private to the thread."""
        return self._buffer("register", name, dtype, shape, None, 16)

    def tensormap(
        self, name: str, tensor: Handle, box: Sequence[int], *, swizzle: int = 0, fill: Literal["zero", "nan"] = "zero"
    ) -> Handle:
        """A TMA view of a tensor: boxes of `box` elements, swizzled over `swizzle` bytes in shared memory."""
        fields = {"tensor": tensor.name, "box": tuple(box), "swizzle": swizzle, "fill": fill}
        m = _make(TensorMap, name=self._fresh(name), **fields)
        self._maps.append(m)
        return Handle(m.name, m.box)

    def barrier(self, name: str, *, slots: int = 1, count: int = 1) -> Handle:
        """An array of mbarriers, each completing a phase after `count` arrivals."""
        b = _make(Barrier, name=self._fresh(name), slots=slots, count=count)
        self._barriers.append(b)
        return Handle(b.name, (b.slots,))

    def _buffer(
        self, space: str, name: str, dtype: str, shape: Sequence[int], layout: Layout | None, align: int
    ) -> Handle:
        b = _make(
            Buffer, name=self._fresh(name), space=space, dtype=dtype, shape=tuple(shape), layout=layout, align=align
        )
        self._buffers.append(b)
        return Handle(b.name, b.shape)

    # -- statements -------------------------------------------------------------------------------------------------
    def let(self, name: str, value: ExprLike, *, dtype: str = "i32", uniform: bool = False) -> Expr:
        """A named value; the name gets a number if it is taken."""
        n = self._fresh(name)
        self._add(Let, name=n, dtype=dtype, value=as_expr(value), uniform=uniform)
        return Var(n)

    def view(self, name: str, operand: Elem) -> Handle:
        """A named operand whose address is computed once: `v[i, j]` moves it by `i, j` in its last dimensions."""
        n = self._fresh(name)
        self._add(Let, name=n, view=operand)
        return Handle(n)

    def load(
        self, dst: Elem, src: Elem, *, width: int = 1, when: ExprLike | None = None, other: ExprLike | None = None,
        peer: ExprLike | None = None, order: Literal["weak", "acquire"] = "weak",
    ) -> None:  # fmt: skip
        """Registers := memory; `peer` is the rank of the block whose shared memory it is."""
        self._add(Load, dst=dst, src=src, width=width, when=when, other=other, peer=peer, order=order)

    def store(
        self, dst: Elem, *values: ExprLike, peer: ExprLike | None = None, order: Literal["weak", "release"] = "weak"
    ) -> None:
        """Memory or a register := values; `peer` is the rank of the block whose shared memory it is."""
        self._add(Store, dst=dst, values=tuple(map(as_expr, values)), peer=peer, order=order)

    def atomic(
        self, op: Literal["add", "min", "max"], dst: Elem, value: ExprLike, *, old: Elem | None = None,
        order: Literal["relaxed", "acquire", "release", "acq_rel"] = "relaxed",
        scope: Literal["block", "device"] = "device",
    ) -> None:  # fmt: skip
        """An atomic update; the register `old` gets the value from before."""
        self._add(Atomic, op=op, dst=dst, value=as_expr(value), old=old, order=order, scope=scope)

    def call(self, row: str, refs: dict[str, Elem], **args: ExprLike) -> None:
        """One instruction of the table."""
        self._add(Call, row=row, refs=refs, args={k: as_expr(v) for k, v in args.items()})

    # -- order ------------------------------------------------------------------------------------------------------
    def sync(
        self, scope: Scope = "block", *, part: Literal["both", "arrive", "wait"] = "both", id: int = 0,
        threads: int = 0, relaxed: bool = False,
    ) -> None:  # fmt: skip
        """A barrier, or one half of it."""
        self._add(Sync, scope=scope, part=part, id=id, threads=threads, relaxed=relaxed)

    def fence(self, what: Literal["async", "mbarrier_init", "wgmma"]) -> None:
        """Orders proxies, mbarrier initialisation or registers of wgmma."""
        self._add(Fence, what=what)

    def commit(self, queue: Queue = "cp_async") -> None:
        """Closes the open group."""
        self._add(Commit, queue=queue)

    def wait(self, queue: Queue = "cp_async", *, pending: int = 0, read: bool = False) -> None:
        """Waits until at most `pending` groups are unfinished; `read`: until their sources have been read."""
        self._add(Wait, queue=queue, pending=pending, read=read)

    def arrive(self, barrier: Elem, *, bytes: ExprLike | None = None, peer: ExprLike | None = None) -> None:
        """Arrives on an mbarrier and expects `bytes` more; `peer` is the rank of the block whose mbarrier it is."""
        self._add(Arrive, barrier=barrier, bytes=bytes, peer=peer)

    def wait_phase(self, barrier: Elem, parity: ExprLike) -> None:
        """Waits until the phase of this parity of an mbarrier is over."""
        self._add(Wait, barrier=barrier, parity=as_expr(parity))

    def wait_flag(self, flag: Elem, value: ExprLike) -> None:
        """Waits until a flag of the workspace has at least a value; what was released with it is seen after it."""
        self._add(Wait, flag=flag, value=as_expr(value))

    def assume(self, fact: ExprLike) -> None:
        """A fact about the input that the launcher checks."""
        self._add(Assume, fact=as_expr(fact))

    @contextmanager
    def when(self, cond: ExprLike) -> Iterator[None]:
        """Statements for the threads whose condition holds."""
        at = _place()
        self._stack.append([])
        yield
        body = tuple(self._stack.pop())
        self._stack[-1].append(_make(If, cond=as_expr(cond), body=body, at=at))

    @contextmanager
    def team(self) -> Iterator[None]:
        """Splits the block: inside, `with k.role(first, end)` says what the warps first <= warp < end do."""
        at = _place()
        self._roles.append([])
        yield
        self._stack[-1].append(_make(Team, roles=tuple(self._roles.pop()), at=at))

    @contextmanager
    def role(self, first: int, end: int, *, registers: int | None = None) -> Iterator[None]:
        """One role of the team around it; `registers` is what a thread of it may hold."""
        if not self._roles:
            raise DescriptorError("a role stands in a team", hint="write `with k.team():` around it")
        self._stack.append([])
        yield
        role = _make(Role, warps=(first, end), registers=registers, body=tuple(self._stack.pop()))
        self._roles[-1].append(role)

    @contextmanager
    def loop(
        self, var: str, lo: ExprLike, hi: ExprLike, step: ExprLike = 1, *, unroll: int | Literal["full"] = 1,
        **carry: ExprLike | tuple[ExprLike, str],
    ) -> Iterator[Loop]:  # fmt: skip
        """`for var in range(lo, hi, step)`; keyword arguments are carried values: `s=0`, or `s=(0.0, "f32")`.

        The first is the initial value, an i32 unless the second says otherwise. `loop.until(condition)` inside
        lets a thread leave after the round in which the condition holds.
        """
        at, v = _place(), self._fresh(var)
        renamed = {name: self._fresh(name) for name in carry}
        loop = Loop(Var(v), {name: Var(n) for name, n in renamed.items()})
        self._stack.append([])
        yield loop
        body = tuple(self._stack.pop())
        carried = tuple(
            _make(Carry, name=n, **_started(carry[name]), next=loop.nexts[name]) for name, n in renamed.items()
        )
        node = _make(
            For,
            var=v,
            lo=as_expr(lo),
            hi=as_expr(hi),
            step=as_expr(step),
            unroll=unroll,
            carry=carried,
            until=loop.exit,
            body=body,
            at=at,
        )
        self._stack[-1].append(node)

    # -- warnings that are meant ------------------------------------------------------------------------------------
    def suppress(self, code: str, reason: str, pointer: str = "") -> None:
        """Says that a warning of the whole kernel, or of one statement or declaration of it, is meant, and why."""
        self._meant.append((code, reason, pointer))

    @contextmanager
    def suppressed(self, code: str, reason: str) -> Iterator[None]:
        """Says that a warning about the statements inside is meant, and why."""
        body, start = self._stack[-1], len(self._stack[-1])
        yield
        self._meant.append((code, reason, body[start:]))

    def _suppressions(self) -> tuple[Suppression, ...]:
        places = {id(s): pointer for pointer, s in walk(tuple(self._stack[0]))}
        found: list[Suppression] = []
        for code, reason, where in self._meant:
            pointers = [where] if isinstance(where, str) else [places[id(s)] for s in where]
            found += [_make(Suppression, code=code, reason=reason, pointer=p) for p in pointers]
        return tuple(found)

    # -- the end ----------------------------------------------------------------------------------------------------
    def finish(self, *, grid: Sequence[ExprLike], origin: Origin | None = None) -> KernelDescriptor:
        """The frozen descriptor."""
        made: KernelDescriptor = _make(
            KernelDescriptor, name=self.name, target=self.target, threads=self.threads, cluster=self.cluster,
            dispatch=self.dispatch, min_blocks=self.min_blocks, spill_bytes=self.spill_bytes,
            grid=tuple(map(as_expr, grid)),
            params=tuple(self._params), maps=tuple(self._maps), buffers=tuple(self._buffers),
            barriers=tuple(self._barriers), body=tuple(self._stack[0]), origin=origin,
            suppress=self._suppressions(),
        )  # fmt: skip
        return made

    def _add(self, node: type[Node], **fields: Any) -> None:
        self._stack[-1].append(_make(node, at=_place(), **fields))

    def _fresh(self, name: str) -> str:
        """The name, or the name with the first free number that does not make it a reserved one (`i32`)."""
        if name not in self._used:
            self._used[name] = 1
            return name
        while (made := f"{name}{self._used[name]}") in self._used or made in RESERVED:
            self._used[name] += 1
        return self._fresh(f"{name}{self._used[name]}")


def _started(carried: ExprLike | tuple[ExprLike, str]) -> dict[str, Any]:
    """The initial value of a carried value, and its type where it is given."""
    if isinstance(carried, tuple):
        first, dtype = carried
        return {"init": as_expr(first), "dtype": dtype}
    return {"init": as_expr(carried)}


def _make(node: Any, **fields: Any) -> Any:
    try:
        return node(**fields)
    except ValueError as e:
        first = e.errors(include_url=False)[0]  # type: ignore[attr-defined]  # pydantic's ValidationError
        where = ".".join(map(str, first["loc"]))
        raise DescriptorError(f"{node.__name__} {where}: {first['msg']}") from None


def _place() -> str | None:
    """File and line of the nearest caller outside the dsl package; of an idiom, its caller."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_HERE) and not name.endswith("contextlib.py"):
            return f"{os.path.basename(name)}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return None
