"""Calls of instruction rows as CUDA text: operands as each kind of instruction takes them."""

from __future__ import annotations

from typing import Any

from amk.dsl.expr import Apply, Const, Elem, Expr, apply, as_expr
from amk.dsl.instructions import ROWS, Operand, Row
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.layout import Swizzle, strides
from amk.dsl.nodes import Barrier, Buffer, Call
from amk.dsl.types import nbytes
from amk.synth.print_expr import unsupported
from amk.synth.print_order import OrderPrinter

__all__ = ["RowPrinter", "wgmma_functions"]

_NUMBERS = ("tma", "bulk", "ldmatrix", "stmatrix", "mbarrier")  # rows that take shared addresses as numbers
_PTX = {
    "i32": "s32", "u32": "u32", "i64": "s64", "u64": "u64", "f32": "f32", "f64": "f64", "f16": "noftz.f16",
    "bf16": "noftz.bf16",
}  # fmt: skip


class RowPrinter(OrderPrinter):
    """Spells the calls of one kernel."""

    def call_parts(self, row: Row, s: Call) -> tuple[dict[str, Any], dict[str, str]]:
        """Operands and arguments for the macro of a row."""
        family = row.macro.split("_")[0]
        args = self._arguments(row, s)
        if family == "wgmma":
            return self._wgmma(row, s), args
        if family in ("ldmatrix", "stmatrix", "mma"):
            return self._bound(row, s, args), args
        return {o.role: self._operand(row, o, s.refs[o.role]) for o in row.operands} | self._extras(row, s), args

    def _operand(self, row: Row, o: Operand, ref: Elem) -> str:
        if o.space == "map":
            return f"&{ref.buffer}"
        if o.space == "barrier":
            return self.shared_at(ref)
        if o.space == "register":
            return self.element(ref)
        by_number = o.space == "shared" and row.name.startswith(_NUMBERS)
        return self.shared_at(ref) if by_number else self.address(ref)

    def _extras(self, row: Row, s: Call) -> dict[str, str]:
        """Coordinates of a box, innermost first; the count of an mbarrier; the type of a reduction."""
        out = {}
        for o in row.operands:
            ref = s.refs[o.role]
            if o.space == "map":
                out["at"] = ", ".join(self.expr(i, "i32") for i in reversed(ref.index))
            elif o.space == "global" and o.mode == "update":
                out["type"] = _PTX[self.element_type(ref)]
            elif row.name == "mbarrier.init":
                d = self.kernel.find(ref.buffer)
                assert isinstance(d, Barrier)
                out["count"] = str(d.count)
        return out

    def _arguments(self, row: Row, s: Call) -> dict[str, str]:
        out = {}
        for a in row.args:
            value: Expr | None = s.args.get(a.name, as_expr(a.default) if a.default is not None else None)
            if value is None:
                raise unsupported(f"{s.row} without {a.name!r}")
            if a.name == "members" and isinstance(value, Const):
                out[a.name] = f"0x{int(value.value):08x}u"
                continue
            same = row.operands[0].role
            out[a.name] = self.expr(value, self.element_type(s.refs[same]) if a.dtype == "same" else a.dtype)
        return out

    # -- operands of inline PTX -------------------------------------------------------------------------------------
    def _bound(self, row: Row, s: Call, args: dict[str, str]) -> dict[str, Any]:
        """Operands numbered in the order in which the macro binds them, outputs first."""
        lists: dict[str, list[str]] = {}
        binds: dict[str, list[str]] = {}
        for o in row.operands:
            ref = s.refs[o.role]
            if o.space == "register":
                kind = "f" if self.element_type(ref) == "f32" else "r"
                sign = {"write": "=", "update": "+", "read": ""}[o.mode]
                many = o.nbytes // nbytes(self.element_type(ref))
                binds[o.role] = [f'"{sign}{kind}"({x})' for x in self._registers(ref, many)]
            else:
                binds[o.role] = [f'"r"({self.shared_at(ref)})']
        if args:
            binds["given"] = [f'"r"({x})' for x in args.values()]
        number = 0
        for role, held in binds.items():
            lists[role] = [f"%{number + i}" for i in range(len(held))]
            number += len(held)
        memory = {o.role for o in row.operands if o.space == "shared"}
        braces = {r: x[0] if r in memory else f"{{{', '.join(x)}}}" for r, x in lists.items()}
        parts = row.name.split(".")
        shape = ".".join(reversed(parts[1:])) if row.family != "mma" else parts[1]
        return {"list": braces, "bind": {r: ", ".join(x) for r, x in binds.items()}, "shape": shape, "type": parts[-1]}

    def _registers(self, ref: Elem, many: int) -> list[str]:
        e = self.kernel.resolve(ref)
        return [self.register(Elem(e.buffer, (*e.index[:-1], e.index[-1] + i))) for i in range(many)]

    # -- wgmma ------------------------------------------------------------------------------------------------------
    def _wgmma(self, row: Row, s: Call) -> dict[str, str]:
        out = {"function": _function(row.name)}
        for o in row.operands:
            ref = s.refs[o.role]
            out[o.role] = f"&{self.element(ref)}" if o.space == "register" else self._tile(o, ref)
        return out

    def _tile(self, o: Operand, ref: Elem) -> str:
        """The descriptor of a tile: its start, the strides between groups of 8 rows and between chunks, the swizzle."""
        e = self.kernel.resolve(ref)
        d = self.kernel.declarations[e.buffer]
        if not isinstance(d, Buffer) or not isinstance(d.layout, Swizzle):
            raise unsupported(f"the tile {ref}, which is not swizzled")
        size = nbytes(d.dtype)
        pitch = [n * size for n in strides(d.shape, d.layout)]
        row, mode = pitch[-2], 4 - d.layout.bits  # swizzles of 128, 64 and 32 bytes are 1, 2 and 3
        leading = pitch[-3] if len(o.tile) == 3 else 16
        start: Expr = Const(self.kernel.shared_offsets[d.name] // 16)
        for i, n in zip(e.index, pitch, strict=True):
            start = start + _divided(i, n, 16)
        return f"amk_tile<{leading // 16}, {8 * row // 16}, {mode}>({self._from('tiles_', start)})"


def _divided(i: Expr, by: int, unit: int) -> Expr:
    """i * by / unit, term by term, for what the form rules have shown to be divisible."""
    if by % unit == 0:
        return i * (by // unit)
    if isinstance(i, Const):
        return Const(int(i.value) * by // unit)
    if isinstance(i, Apply) and i.op in ("+", "-"):
        return apply(i.op, *(_divided(x, by, unit) for x in i.args))
    if isinstance(i, Apply) and i.op == "*":
        for x, c in (i.args, i.args[::-1]):
            if isinstance(c, Const) and int(c.value) * by % unit == 0:
                return x * (int(c.value) * by // unit)
    return apply("//", i * by, unit)


def _function(name: str) -> str:
    return "amk_" + name.replace(".", "_")


def wgmma_functions(kernel: KernelDescriptor) -> list[dict[str, str]]:
    """What the template prints the function of each wgmma of a kernel from."""
    names = {s.row for _, s in walk(kernel.body) if s.kind == "call" and s.row.startswith("wgmma.")}
    return [_described(ROWS[n]) for n in sorted(names)]


def _described(row: Row) -> dict[str, str]:
    _, shape, dtype, a, b = row.name.split(".")
    sums = row.operand("acc").nbytes // 4
    from_registers = a == "reg"
    first = [f"%{sums + i}" for i in range(4)] if from_registers else [f"%{sums}"]
    after = sums + len(first)
    majors = ", ".join(str(int(x == "mn")) for x in ((b,) if from_registers else (a, b)))
    inputs = ", ".join(f'"r"(a[{i}])' for i in range(4)) if from_registers else '"l"(a)'
    return {
        "name": _function(row.name), "shape": shape, "dtype": dtype,
        "a_type": "const unsigned*" if from_registers else "unsigned long long",
        "sums": "{" + ", ".join(f"%{i}" for i in range(sums)) + "}",
        "outputs": ", ".join(f'"+f"(d[{i}])' for i in range(sums)),
        "a": "{" + ", ".join(first) + "}" if from_registers else first[0], "b": f"%{after}", "add": f"%{after + 1}",
        "inputs": inputs, "flags": f"1, 1, {majors}",
    }  # fmt: skip
