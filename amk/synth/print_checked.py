"""Checked builds: the same statements by the same printer, each access behind a test of where it lands.

What fails is recorded (see `fault_record`) and left out: nothing is stored, and what is loaded is 0. Execution goes on,
so that no barrier waits for a thread that gave up; waits for an mbarrier end once anything has failed. An instruction
of a whole warp or warpgroup is executed all the same where it can be: it reads the start of the array instead, and its
result goes where nobody looks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from amk.dsl.expr import Const, Elem, Expr, has_elements
from amk.dsl.instructions import ROWS, Operand, Row
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Call, For, Load, Statement, Wait
from amk.dsl.types import DTYPES
from amk.synth.fault_record import operands
from amk.synth.print_expr import LOOSE, literal
from amk.synth.print_stmt import Macros, comment
from amk.synth.print_tests import FAULTS, TestPrinter, both

__all__ = ["CheckedPrinter"]


class CheckedPrinter(TestPrinter):
    """Spells the statements of one kernel with their tests; `checks` are the macros of checked.cu.j2."""

    def __init__(self, kernel: KernelDescriptor, macros: Macros, checks: Any) -> None:
        super().__init__(kernel, macros)
        self.checks = checks
        self.begun = len(kernel.params) - 1  # number of the last place whose printing has begun
        self.whole: Call | None = None  # the instruction of a whole warp or warpgroup that is being printed

    # -- the frame --------------------------------------------------------------------------------------------------
    def signature(self) -> list[str]:
        """Hidden parameters: the record, and of each tensor the bytes it has before and after its first element."""
        ends = [f"const long long {p.name}_{end}_" for p in self.kernel.tensors for end in ("low", "high")]
        return [f"amk_faults* const {FAULTS}", *ends]

    def opening(self) -> list[str]:
        """Lines before the body: each size lies in its domain."""
        lines = []
        for place, p in enumerate(self.kernel.params):
            if p.shape is None and DTYPES[p.dtype].family == "int":
                domain = ", ".join(literal(n, "i64") for n in (p.min, p.max, p.multiple_of))
                lines.append(f"amk_size({FAULTS}, {place}, {p.name}, {domain});")
        return lines

    # -- statements -------------------------------------------------------------------------------------------------
    def statement(self, s: Statement) -> str:
        """One statement behind its tests, with everything inside it."""
        outer = self.site, self.numbers, self.whole
        self.begun += 1
        self.site, self.whole = self.begun, s if s.kind == "call" and _is_whole(s) else None
        self.numbers = {ref: i for i, ref in enumerate(operands(self.kernel, s))}
        try:
            return self._tested(s)
        finally:
            self.site, self.numbers, self.whole = outer

    def _tested(self, s: Statement) -> str:
        if s.kind == "assume":
            fact = self.expr(self.in_64_bits(s.fact), "bool")
            return str(self.checks.holds(f"{FAULTS}, {self.site}", fact, comment(s.at)))
        text = super().statement(s)
        if s.kind == "let" and s.view is not None:
            kept = self.keep(s, s.view)
            return text + "".join(str(self.checks.kept(name, value, comment(s.at))) for name, value in kept)
        if self.whole is not None and (lost := self._lost(self.whole)):
            return str(self.checks.scoped(lost, _indented(text)))
        tests = self._guards(s)
        return str(self.checks.guarded(both(tests), _indented(text))) if tests else text

    def _guards(self, s: Statement) -> list[str]:
        """The tests without which a statement does nothing at all."""
        if s.kind == "load":
            return self.tests(s.dst, s.width)
        if s.kind == "store":
            return self.blocks(s) + self.tests(s.dst, len(s.values))
        if s.kind == "atomic":
            return self.tests(s.dst)
        if s.kind == "wait" and s.flag is not None:
            return self.tests(s.flag)
        if s.kind in ("arrive", "wait") and s.barrier is not None:
            return self.blocks(s) + self.tests(s.barrier)
        return self._call_guards(s) if s.kind == "call" else []

    def _call_guards(self, s: Call) -> list[str]:
        """The tests before a call: of one thread, or, of a whole warp that stores, the vote of all lanes."""
        row = ROWS[s.row]
        if self.whole is None:
            return self.blocks(s) + [t for o in row.operands if not _off(row, o) for t in self.operand_tests(s, o)]
        stores = (o for o in row.operands if o.space == "shared" and o.mode != "read")
        tests = [t for o in stores for t in self.operand_tests(s, o)]
        return [f"__all_sync(0xffffffffu, {both(tests)})"] if tests else []

    # -- what stands in for what fails ------------------------------------------------------------------------------
    def load_lines(self, s: Load) -> str:
        """Registers := memory, or 0."""
        lines = super().load_lines(s)
        tests = self.blocks(s) + self.tests(s.src, s.width)
        zero = literal(0, self.element_type(s.dst))
        zeros = " ".join(f"{d} = {zero};" for d in self.lanes(s.dst, s.width))
        return str(self.checks.either(both(tests), lines, zeros)) if tests else lines

    def waiting(self, s: Wait) -> str:
        """Waits for groups, or for a phase or a flag for as long as nothing has failed."""
        if s.flag is not None and s.value is not None:
            value = self.expr(s.value, self.element_type(s.flag))
            return f"amk_wait_flag_or_fault({FAULTS}, {self.address(s.flag)}, {value})"
        if s.barrier is None:
            return super().waiting(s)
        assert s.parity is not None
        scope = "_cluster" if s.barrier.buffer in self._handed_over else ""
        return f"amk_wait_phase{scope}_or_fault({FAULTS}, {self.shared_at(s.barrier)}, {self.expr(s.parity, 'i32')})"

    def _arguments(self, row: Row, s: Call) -> dict[str, str]:
        """Where a source fails, the guard of the row is off: zeros are written."""
        out = super()._arguments(row, s)
        tests = [t for o in row.operands if _off(row, o) for t in self.operand_tests(s, o)]
        if row.guard is not None and tests:
            out[row.guard] = both([f"({out[row.guard]})", *tests])
        return out

    def loop_test(self, s: For) -> str:
        """The test before each turn; a loop that does not go forward would never end, and has none."""
        test = super().loop_test(s)
        if isinstance(s.step, Const) and s.step.value > 0:
            return test
        step = "step_" if has_elements(s.step) else self.expr(s.step)
        return both([test, f"amk_forward({FAULTS}, {self.site}, {step})"])

    def _print(self, e: Expr, want: str) -> tuple[int, str]:
        """A term; a register as a value is 0 where its index fails."""
        tests = self.tests(e) if isinstance(e, Elem) else []
        if not isinstance(e, Elem) or not tests:
            return super()._print(e, want)
        zero = literal(0, self.element_type(e))
        return LOOSE, str(self.checks.value(both(tests), self.register(e), zero))

    # -- instructions of whole warps --------------------------------------------------------------------------------
    def _lost(self, s: Call) -> list[str]:
        """Declarations of what stands in for registers of a whole warp's instruction whose index may fail."""
        found = ((o, s.refs[o.role]) for o in ROWS[s.row].operands if o.space == "register")
        return [
            f"{self.ctype(self.element_type(ref))} lost{self.numbers[ref]}_[{self.many(o, ref)}] = {{}};"
            for o, ref in found if self.operand_tests(s, o)
        ]  # fmt: skip

    def element(self, ref: Elem) -> str:
        """The element, or what stands in for a register of a whole warp's instruction."""
        text = super().element(ref)
        return self._or_lost(ref, [text])[0] if self.whole is not None and self.space(ref) == "register" else text

    def _registers(self, ref: Elem, many: int) -> list[str]:
        return self._or_lost(ref, super()._registers(ref, many))

    def _or_lost(self, ref: Elem, texts: list[str]) -> list[str]:
        assert self.whole is not None
        row, refs = ROWS[self.whole.row], self.whole.refs
        tests = self.operand_tests(self.whole, next(o for o in row.operands if refs[o.role] == ref))
        lost = [f"lost{self.numbers[ref]}_[{i}]" for i in range(len(texts))]
        # NVRTC takes `*(a ? &b : &c)` as an output of inline PTX, and not `(a ? b : c)`
        pairs = [(f"&{x}", f"&{y}") for x, y in zip(texts, lost, strict=True)]
        return [f"*({self.checks.value(both(tests), x, y)})" for x, y in pairs] if tests else texts

    def shared_at(self, ref: Elem) -> str:
        """An address in shared memory; of what a whole warp reads, that of the array where it fails."""
        spell = super().shared_at
        if self.whole is None:
            return spell(ref)
        o = next(o for o in ROWS[self.whole.row].operands if o.space == "shared")
        return self._or_start(o, ref, spell) if o.mode == "read" else spell(ref)

    def _tile(self, o: Operand, ref: Elem) -> str:
        return self._or_start(o, ref, partial(super()._tile, o))

    def _or_start(self, o: Operand, ref: Elem, spell: Callable[[Elem], str]) -> str:
        assert self.whole is not None
        full, tests = self.full(ref), self.operand_tests(self.whole, o)
        start = Elem(full.buffer, (Const(0),) * len(full.index))
        return f"({self.checks.value(both(tests), spell(ref), spell(start))})" if tests else spell(ref)


def _is_whole(s: Call) -> bool:
    """Whether all threads of a warp or warpgroup have to reach a call together."""
    row = ROWS.get(s.row)
    return row is not None and row.issuer != "thread"


def _off(row: Row, o: Operand) -> bool:
    """Whether the guard of a row switches an operand off."""
    return row.guard is not None and o.mode == "read"


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines() if line.strip())
