"""Statements as CUDA text: every decision is made here, and the templates only lay the pieces out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amk.dsl.expr import BUILTINS, Const, Elem, Expr, names, subterms
from amk.dsl.instructions import ROWS
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Atomic, Call, For, Let, Load, Statement, Store
from amk.dsl.types import nbytes
from amk.synth.print_expr import ADD, unsupported
from amk.synth.print_rows import RowPrinter

__all__ = ["KINDS", "Macros", "StatementPrinter", "comment"]

KINDS = frozenset({
    "let", "load", "store", "atomic", "call", "for", "if", "team", "sync", "fence", "commit", "arrive", "wait",
    "assume",
})  # fmt: skip
_ATOMIC_TYPES = {"add": ("i32", "u32", "i64", "u64", "f32", "f64"), "min": ("i32", "u32", "i64", "u64")}
_LONGEST = 80  # characters of a place that a comment shows


@dataclass(frozen=True)
class Macros:
    """The compiled macros: one a statement kind, one an instruction row."""

    statements: Any
    rows: Mapping[str, Any]


def comment(place: str | None) -> str:
    """A place as the end of a line: what could end the comment or continue it on the next line is dropped."""
    if not place:
        return ""
    kept = (
        "".join(c for c in place[:_LONGEST] if c.isprintable() and c not in "\\?").replace("*/", "").replace("/*", "")
    )
    return f"  // {kept.strip()}" if kept.strip() else ""


class StatementPrinter(RowPrinter):
    """Spells the statements of one kernel."""

    def __init__(self, kernel: KernelDescriptor, macros: Macros) -> None:
        super().__init__(kernel)
        self.macros = macros
        self.whole_warps = kernel.threads % 32 == 0  # whole warps run what is printed now
        self.alike = set(BUILTINS) - {"t"} | {p.name for p in kernel.scalars}  # names that all lanes know the same of

    def body(self, statements: tuple[Statement, ...]) -> str:
        """The statements, indented by one step; each line ends with a line break."""
        lines = [line for s in statements for line in self.statement(s).splitlines() if line.strip()]
        return "".join(f"  {line}\n" for line in lines)

    def statement(self, s: Statement) -> str:
        """One statement with everything inside it."""
        if s.kind not in KINDS:
            raise unsupported(f"a statement {s.kind!r}")
        around, self.whole_warps = self.whole_warps, self.whole_warps and self._by_whole_warps(s)
        text = str(getattr(self.macros.statements, s.kind)(s, self, comment(s.at)))
        self.whole_warps = around
        return text

    def _by_whole_warps(self, s: Statement) -> bool:
        """Whether all lanes of a warp that come to a statement run what is inside it together."""
        if isinstance(s, For):
            alike = s.until is None and all(self._same(e) for e in (s.lo, s.hi, s.step))
            self.alike |= {s.var} if alike else set()
            return alike
        if isinstance(s, Let) and s.value is not None and (s.uniform or self._same(s.value)):
            self.alike.add(s.name)
        return s.kind != "if"

    def _same(self, e: Expr) -> bool:
        return not _reads(e) and names(e) <= self.alike

    # -- values -----------------------------------------------------------------------------------------------------
    def let_value(self, s: Let) -> str:
        """The value of a Let; a uniform one is taken from lane 0 where all lanes are there to give it."""
        value = self.expr(_given(s.value), s.dtype)
        return f"__shfl_sync(0xffffffffu, {value}, 0)" if s.uniform and self._all_lanes(s) else value

    def _all_lanes(self, s: Let) -> bool:
        return self.whole_warps and s.dtype not in ("bool", "f16", "bf16", "i8", "u8")

    def lanes(self, ref: Elem, width: int) -> list[str]:
        """The elements of an operand and its neighbours along the last dimension."""
        return [self.element(x) for x in self._neighbours(ref, width)]

    def _require_width(self, ref: Elem, width: int) -> None:
        if width & (width - 1) or width * nbytes(self.element_type(ref)) > 16:
            raise unsupported(f"an access of {width} elements at {ref}")

    # -- memory -----------------------------------------------------------------------------------------------------
    def load_lines(self, s: Load) -> str:
        """Registers := memory, or := registers."""
        self._require_width(s.src, s.width)
        if s.order == "acquire":
            return f"{self.element(s.dst)} = amk_load_acquire({self.address(s.src)});"
        dst = self.lanes(s.dst, s.width)
        if s.peer is None and s.width == 1:
            return f"{dst[0]} = {self.element(s.src)};"
        taken = f"amk_load<{s.width}>({self.address(s.src)})" if s.peer is None else self._of_peer(s, s.peer)
        parts = " ".join(f"{d} = v_.v[{i}];" for i, d in enumerate(dst))
        return f"{{ const auto v_ = {taken}; {parts} }}"

    def _of_peer(self, s: Load, peer: Expr) -> str:
        """Elements in the shared memory of another block."""
        at = f"amk_peer({self.shared_at(s.src)}, {self.expr(peer, 'i32')})"
        return f"amk_load_peer<{self.ctype(self.element_type(s.src))}, {s.width}>({at})"

    def peer_line(self, s: Store) -> str:
        """Values into the shared memory of another block."""
        at = f"amk_peer({self.shared_at(s.dst)}, {self.expr(_given(s.peer), 'i32')})"
        return f"amk_store_peer<{self.ctype(self.element_type(s.dst))}>({at}, {self.values(s)});"

    @staticmethod
    def _neighbours(ref: Elem, width: int) -> list[Elem]:
        return [Elem(ref.buffer, (*ref.index[:-1], ref.index[-1] + i)) for i in range(width)]

    def other_lines(self, s: Load) -> str:
        """Registers := what stands in for memory that is not read."""
        dst, dtype = self.lanes(s.dst, s.width), self.element_type(s.dst)
        value = self.expr(_given(s.other), dtype)
        if s.width == 1 or isinstance(s.other, Const):
            return " ".join(f"{d} = {value};" for d in dst)
        return f"const {self.ctype(dtype)} v_ = {value}; " + " ".join(f"{d} = v_;" for d in dst)

    def values(self, s: Store) -> str:
        """The values of a store, one an element."""
        dtype = self.element_type(s.dst)
        self._require_width(s.dst, len(s.values))
        return ", ".join(self.expr(v, dtype) for v in s.values)

    def assignments(self, s: Store) -> str:
        """Registers := values, all of them read before the first is written."""
        dst, dtype = self.lanes(s.dst, len(s.values)), self.element_type(s.dst)
        values = [self.expr(v, dtype) for v in s.values]
        if len(dst) == 1 or all(isinstance(v, Const) for v in s.values):
            return " ".join(f"{d} = {v};" for d, v in zip(dst, values, strict=True))
        given = ", ".join(f"v{i}_ = {v}" for i, v in enumerate(values))
        taken = " ".join(f"{d} = v{i}_;" for i, d in enumerate(dst))
        return f"{{ const {self.ctype(dtype)} {given}; {taken} }}"

    def flag_line(self, s: Store) -> str:
        """A flag := a value, with release."""
        return f"amk_store_release({self.address(s.dst)}, {self.values(s)});"

    def atomic_line(self, s: Atomic) -> str:
        """An atomic update, and the register that gets the old value."""
        old = "" if s.old is None else f"{self.element(s.old)} = "
        return f"{old}{self.atomic_name(s)}({self.atomic_args(s)});"

    def atomic_name(self, s: Atomic) -> str:
        """The function of an atomic update."""
        dtype = self.element_type(s.dst)
        if dtype not in _ATOMIC_TYPES.get(s.op, _ATOMIC_TYPES["min"]):
            raise unsupported(f"an atomic {s.op} of {dtype}")
        if s.order != "relaxed":
            if s.op != "add" or dtype not in ("i32", "u32") or s.scope != "device":
                raise unsupported(f"an atomic {s.op} of {dtype} with order {s.order} and scope {s.scope}")
            return f"amk_count_{s.order}" if s.old is not None or s.order != "release" else "amk_count_up"
        return f"atomic{s.op.capitalize()}" + ("_block" if s.scope == "block" else "")

    def atomic_args(self, s: Atomic) -> str:
        """Its address and value; signed 64-bit addition is that of unsigned numbers, which CUDA has."""
        dtype = self.element_type(s.dst)
        value, u64 = self.expr(s.value, dtype), self.ctype("u64")
        if s.op == "add" and dtype == "i64":
            return f"({u64}*){self.address(s.dst)}, ({u64})({value})"
        same = self.type_of(s.value) in (dtype, "int", "float")
        return f"{self.address(s.dst)}, " + (value if same else f"({self.ctype(dtype)})({value})")

    # -- instructions -----------------------------------------------------------------------------------------------
    def instruction(self, s: Call) -> str:
        """The macro of the row, with its operands as elements (registers) or addresses (memory)."""
        row = ROWS.get(s.row)
        if row is None:
            raise unsupported(f"the instruction {s.row!r}")
        return str(self.macros.rows[row.macro](*self.call_parts(row, s)))

    # -- control ----------------------------------------------------------------------------------------------------
    def unroll(self, s: For) -> str:
        """The pragma of a loop."""
        return "#pragma unroll" if s.unroll == "full" else f"#pragma unroll {s.unroll}"

    def loop_start(self, s: For) -> str:
        """The loop variable; bounds that read registers are kept, since Python evaluates a range once."""
        kept = "".join(f", {n} = {self.expr(e)}" for n, e in (("hi_", s.hi), ("step_", s.step)) if _reads(e))
        return f"{s.var} = {self.expr(s.lo)}{kept}"

    def loop_test(self, s: For) -> str:
        """The test before each turn; a bound that binds less tightly than the comparison stands in parentheses."""
        return f"{s.var} < {'hi_' if _reads(s.hi) else self._inside(s.hi, 'i32', lambda level: level >= ADD)}"

    def loop_step(self, s: For) -> str:
        return f"++{s.var}" if s.step == Const(1) else f"{s.var} += {'step_' if _reads(s.step) else self.expr(s.step)}"

    def end_lines(self, s: For) -> list[str]:
        """The end of a round: the next one's carried values, all computed before the first changes, and the exit."""
        if s.until is not None and not s.carry:
            return [f"if ({self.expr(s.until, 'bool')}) break;"]
        if s.until is not None:
            return [f"const bool over_ = {self.expr(s.until, 'bool')};", *self._next(s), "if (over_) break;"]
        return self._next(s)

    def _next(self, s: For) -> list[str]:
        if len(s.carry) == 1:
            c = s.carry[0]
            return [f"{c.name} = {self.expr(c.next, c.dtype)};"]
        given = [f"const {self.ctype(c.dtype)} next{i}_ = {self.expr(c.next, c.dtype)};" for i, c in enumerate(s.carry)]
        return given + [f"{c.name} = next{i}_;" for i, c in enumerate(s.carry)]


def _reads(e: Expr) -> bool:
    return any(isinstance(x, Elem) for x in subterms(e))


def _given(e: Expr | None) -> Expr:
    """A term that the template has found to be there."""
    assert e is not None
    return e
