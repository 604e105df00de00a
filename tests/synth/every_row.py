"""A kernel that calls given rows once for each element type they take, made from the table alone. It is only printed
and compiled: what it does is in no order, and no harness would let it pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from amk.dsl.builder import Handle, KernelBuilder
from amk.dsl.expr import Elem, ExprLike
from amk.dsl.instructions import ROWS, Arg, Operand, Row
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Swizzle
from amk.dsl.types import nbytes

BYTES = 16 * 1024  # of each array


def caller(names: Iterable[str], target: str) -> KernelDescriptor:
    """The rows of these names, each with operands of its own kinds."""
    calls = _Calls(KernelBuilder("caller", target=target, threads=128, cluster=2 if target == "sm_90a" else 1))
    for name in names:
        for dtype in _dtypes(ROWS[name]):
            calls.add(ROWS[name], dtype)
    return calls.k.finish(grid=(2,))


def _dtypes(row: Row) -> tuple[str, ...]:
    """What decides the text of a call: the type that a reduction computes in, or that of a shared operand."""
    for o in row.operands:
        if o.dtypes and (o.space in ("map", "global", "shared")):
            return o.dtypes
    return ("f32",)


class _Calls:
    def __init__(self, k: KernelBuilder) -> None:
        self.k, self.sunk = k, 0
        self.made: dict[tuple[object, ...], Handle] = {}

    def add(self, row: Row, dtype: str) -> None:
        refs = {o.role: self._operand(row, o, dtype) for o in row.operands}
        self.k.call(row.name, refs, **{a.name: self._value(a, row, refs) for a in row.args})
        if row.completes == "wgmma":
            self.k.commit("wgmma")
            self.k.wait("wgmma")
        for o in row.operands:  # what nobody reads ptxas drops, volatile or not
            if o.space == "register" and o.mode != "read":
                self.k.store(self._sink(o.dtypes[0] if o.dtypes else dtype), refs[o.role])

    def _loaded(self, name: str, dtype: str, many: int) -> Handle:
        """Registers with values that the compiler does not know."""
        source = self._once(("source", dtype), lambda n: self.k.tensor(n, dtype, (256,)))
        made = self.k.registers(name, dtype, (many,))
        with self.k.loop("i", 0, many, unroll="full") as i:
            self.k.load(made[i.var], source[self.k.t + i.var])
        return made

    def _sink(self, dtype: str) -> Elem:
        """A place in global memory of its own."""
        self.sunk += 1
        out = self._once(("sink", dtype), lambda n: self.k.tensor(n, dtype, (1 << 20,), access="write"))
        return out[self.k.t + 128 * self.sunk]

    def _once(self, key: tuple[object, ...], make: Callable[[str], Handle]) -> Handle:
        if key not in self.made:
            self.made[key] = make(f"x{len(self.made)}")
        return self.made[key]

    def _operand(self, row: Row, o: Operand, dtype: str) -> Elem:
        k, size = self.k, nbytes(dtype)
        if o.space == "barrier":
            return self._once(("barrier",), lambda n: k.barrier(n))[0]
        if o.space == "map":
            rank = o.rank or 2
            box = (*[2] * (rank - 1), 128 // size)
            tensor = self._once(
                ("tensor", dtype, rank), lambda n: k.tensor(n, dtype, box, align=16, access="readwrite")
            )
            return self._once(("map", dtype, rank), lambda n: k.tensormap(n, tensor, box))[(k.bx, *[0] * (rank - 1))]
        if o.space == "register":
            kind = o.dtypes[0] if o.dtypes else dtype
            many = max(1, o.nbytes // nbytes(kind))
            return self._once(("register", kind, many), lambda n: self._loaded(n, kind, many))[0]
        if o.space == "global":
            return self._once(
                ("global", dtype), lambda n: k.tensor(n, dtype, (BYTES // size,), align=16, access="readwrite")
            )[k.bx * 16]
        if o.tile:
            shape, layout = ((256, 64) if len(o.tile) == 2 else (4, 64, 64)), Swizzle(bits=3, base=3, shift=3)
            tiles = self._once(("tile", dtype, shape), lambda n: k.shared(n, dtype, shape, layout=layout, align=1024))
            return tiles[(0,) * len(shape)]
        shared = self._once(("shared", dtype), lambda n: k.shared(n, dtype, (BYTES // size,), align=1024))
        return shared[k.t * 16 // size]

    def _value(self, a: Arg, row: Row, refs: dict[str, Elem]) -> ExprLike:
        if a.dtype == "same":
            return refs[row.operands[0].role]
        return max(1, a.low) if a.low is not None else True if a.dtype == "bool" else self.k.t
