"""The tests of a checked build: what has to hold of each operand, as C text; `print_checked` says where they stand.

Every test is a function of prelude/checked.cuh that gives true, or records what failed and gives false. An index that
is a constant inside a constant extent needs none.
"""

from __future__ import annotations

from math import prod

from amk.dsl.expr import Apply, Const, Elem, Expr, Var, apply, has_elements, names, subst
from amk.dsl.instructions import ROWS, Operand
from amk.dsl.kernel import KernelDescriptor, moved
from amk.dsl.layout import Swizzle, extent, linear, strides
from amk.dsl.nodes import Barrier, Buffer, Call, Let, Param, Statement, TensorMap
from amk.dsl.types import nbytes
from amk.synth.print_stmt import Macros, StatementPrinter

__all__ = ["FAULTS", "TestPrinter", "both"]

FAULTS = "faults_"
_NARROW = frozenset({"i8", "u8", "i32", "u32"})


def both(tests: list[str]) -> str:
    """All tests hold; the first that fails is the last that is asked."""
    return " && ".join(tests)


class TestPrinter(StatementPrinter):
    """Spells the tests of one kernel."""

    def __init__(self, kernel: KernelDescriptor, macros: Macros) -> None:
        super().__init__(kernel, macros)
        self.site, self.numbers = 0, dict[Elem, int]()  # the numbers of the statement being printed and of its operands
        self.kept: dict[str, Elem] = {}  # views, with the index that they had when they were made

    # -- operands ---------------------------------------------------------------------------------------------------
    def tests(self, ref: Elem, width: int = 1) -> list[str]:
        """What has to hold of an element and its neighbours along the last dimension, accessed at once."""
        out, d = self._bounds(ref, (width,)), self.kernel.find(ref.buffer)
        if not isinstance(d, (Param, Buffer)) or self.space(ref) == "register":
            return out
        return out + self._dense(d, ref, width) + self._placed(d, ref, width * nbytes(d.dtype))

    def operand_tests(self, s: Call, o: Operand) -> list[str]:
        """What has to hold of an operand of an instruction. What a box leaves out of a tensor is no access."""
        ref = s.refs[o.role]
        if o.space == "map":
            return []
        if o.box or o.counted:
            return self._run(s, o, ref)
        if o.tile:
            return self._bounds(ref, o.tile)
        tests = self.tests(ref, self.many(o, ref))
        return [f"(threadIdx.x % 32 >= {o.lanes} || ({both(tests)}))"] if tests and o.lanes < 32 else tests

    def many(self, o: Operand, ref: Elem) -> int:
        """Elements along the last dimension that an operand stands for."""
        return 1 if o.space == "barrier" else max(1, o.nbytes // nbytes(self.element_type(ref)))

    def blocks(self, s: Statement) -> list[str]:
        """The blocks that a statement names are those of the cluster."""
        peer, mask = getattr(s, "peer", None), None
        if s.kind == "call":
            peer, mask = s.args.get("peer"), s.args.get(ROWS[s.row].multicast)
        named = ((peer, self.kernel.cluster), (mask, 1 << self.kernel.cluster))
        return [t for e, limit in named if e is not None for t in self._within(-1, -1, e, Const(limit), 1)]

    # -- single tests -----------------------------------------------------------------------------------------------
    def _bounds(self, ref: Elem, tile: tuple[int, ...]) -> list[str]:
        """Each index lies in its dimension, with the extents of a tile in the last ones."""
        full, shape = self.full(ref), self._shape(ref)
        wide = (*(1,) * (len(shape) - len(tile)), *tile)
        dims = enumerate(zip(full.index, shape, wide, strict=True))
        return [t for n, (i, size, w) in dims for t in self._within(self.numbers[ref], n, i, size, w)]

    def _within(self, operand: int, dimension: int, i: Expr, size: Expr, width: int) -> list[str]:
        if isinstance(i, Const) and isinstance(size, Const) and 0 <= i.value <= size.value - width:
            return []
        limit = self.expr(self.in_64_bits(size) if isinstance(size, Apply) else size)
        return [f"amk_in({FAULTS}, {self.site}, {operand}, {dimension}, {self.expr(i)}, {limit}, {width})"]

    def _dense(self, d: Param | Buffer, ref: Elem, width: int) -> list[str]:
        """Neighbours lie side by side (a swizzle keeps groups together)."""
        if isinstance(d, Param):
            step = self.kernel.strides_of(d)[-1]
        elif isinstance(d.layout, Swizzle):
            step = Const(1 if width <= 1 << d.layout.base else 0)
        else:
            step = Const(strides(d.shape, d.layout)[-1])
        if width == 1 or step == Const(1):
            return []
        return [f"amk_dense({self._where(ref)}, {self.expr(step)}, {width * nbytes(d.dtype)})"]

    def _placed(self, d: Param | Buffer, ref: Elem, size: int) -> list[str]:
        """The address is aligned to what is accessed, and in global memory lies in what the launch was given."""
        at = self.address(ref)
        if isinstance(d, Param):
            ends = f"{d.name}, {d.name}_low_, {d.name}_high_"
            return [f"amk_given({self._where(ref)}, {at}, {ends}, {size}, {size})"]
        given = size == nbytes(d.dtype) and d.align % size == 0
        return [] if given else [f"amk_aligned({self._where(ref)}, {at}, {size})"]

    def _run(self, s: Call, o: Operand, ref: Elem) -> list[str]:
        """A run of bytes: a box as it lies in shared memory, or as many as an argument says."""
        d, full = self.declared(ref), self.full(ref)
        size = str(self._box_bytes(s.refs[o.box])) if o.box else self.expr(s.args[o.counted], "i32")
        tests = self._bounds(ref, (1,))
        if isinstance(d, Param):
            ends = f"{d.name}, {d.name}_low_, {d.name}_high_"
            return [*tests, f"amk_given({self._where(ref)}, {self.address(ref)}, {ends}, {size}, {o.align})"]
        at, whole = linear(full.index, strides(d.shape, d.layout)), extent(d.shape, d.layout) * nbytes(d.dtype)
        first = self.expr(at * nbytes(d.dtype))
        aligned = f"amk_aligned({self._where(ref)}, {self.address(ref)}, {o.align})"
        return [*tests, f"amk_run({self._where(ref)}, {first}, {whole}, {size})", aligned]

    def _box_bytes(self, box: Elem) -> int:
        m = self.kernel.find(box.buffer)
        assert isinstance(m, TensorMap)
        tensor = self.kernel.declarations[m.tensor]
        assert isinstance(tensor, Param)
        return prod(m.box) * nbytes(tensor.dtype)

    def _where(self, ref: Elem) -> str:
        return f"{FAULTS}, {self.site}, {self.numbers[ref]}"

    def _shape(self, ref: Elem) -> tuple[Expr, ...]:
        d = self.kernel.find(ref.buffer)
        if isinstance(d, Barrier):
            return (Const(d.slots),)
        found = self.declared(ref)
        return (found.shape or ()) if isinstance(found, Param) else tuple(map(Const, found.shape))

    # -- terms ------------------------------------------------------------------------------------------------------
    def full(self, ref: Elem) -> Elem:
        """The operand with a view replaced by what it views."""
        return moved(ref, self.kept) if ref.buffer in self.kept else self.kernel.resolve(ref)

    def keep(self, s: Let, view: Elem) -> list[tuple[str, str]]:
        """Remembers a view; an index that registers take part in is kept as a value, since its pointer keeps it."""
        full, lines = self.full(view), []
        index = list(full.index)
        for d, i in enumerate(index):
            if has_elements(i) and self.is_pointer(s.name):
                kept = f"{s.name}_{d}_"
                lines.append((kept, self.expr(i)))
                index[d], self.types[kept] = Var(kept), "i64"
        self.kept[s.name] = Elem(full.buffer, tuple(index))
        return lines

    def in_64_bits(self, e: Expr) -> Expr:
        """A term of sizes whose products are done in 64 bits."""
        types = {n: self.types.get(n, "") for n in names(e)}
        narrow = {n: apply("i64", n) for n, t in types.items() if t in _NARROW}
        return e if "u64" in types.values() else subst(e, narrow)

    def _global(self, p: Param, index: tuple[Expr, ...]) -> Expr:
        """Offsets of 64 bits: that 32 suffice is not taken on trust."""
        return super()._global(p.model_copy(update={"offsets": "i64"}), index)
