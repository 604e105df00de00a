"""Expressions as closures over a machine: integers in int64 with their range checked, floats in their own type.

A closure takes the machine and returns something that broadcasts against (blocks, threads), with one leading axis for
each loop that is executed as an array axis.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from amk.dsl.expr import CASTS, COMPARISONS, Apply, Const, Elem, Expr, Var
from amk.dsl.infer import family, infer, variable_types
from amk.dsl.instructions.pure import PURE
from amk.dsl.kernel import KernelDescriptor

if TYPE_CHECKING:
    from amk.harness.interp_machine import Machine

__all__ = ["Compiler", "Value", "narrow", "ndim", "widen_bf16"]

Value = Callable[["Machine"], Any]


def ndim(value: Any) -> int:
    """As np.ndim, without making an array of a number first."""
    return getattr(value, "ndim", 0)


def _guarded(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A division that gives 0 where the divisor is 0 (lanes that are masked off may hold anything)."""

    def divide(a: Any, b: Any) -> Any:
        if ndim(a) == ndim(b) == 0:
            return function(int(a), int(b)) if b else 0
        return function(a, b)

    return divide


_OPS: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": np.true_divide, "//": _guarded(operator.floordiv),
    "%": _guarded(operator.mod), "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "cdiv": _guarded(lambda a, b: a // b + (a % b != 0)), "min": np.minimum, "max": np.maximum,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
    "neg": operator.neg,
}  # fmt: skip
_RANGE = {"i32": (-(2**31), 2**31 - 1), "int": (-(2**31), 2**31 - 1)}


def widen_bf16(bits: Any) -> Any:
    """float32 of bf16 bits."""
    return (np.asarray(bits, np.uint32) << np.uint32(16)).view(np.float32)


def narrow(value: Any, dtype: str) -> Any:
    """A value as it stands in a variable of `dtype` (integers stay wide; u32 wraps)."""
    if dtype == "u32":
        return value & 0xFFFFFFFF
    if dtype in ("f32", "f64"):
        return np.asarray(value, np.float32 if dtype == "f32" else np.float64)
    return value


class Compiler:
    """Closures of the expressions of one kernel, made once each; `detect` adds the checks."""

    def __init__(self, kernel: KernelDescriptor, detect: bool) -> None:
        self.kernel, self.detect = kernel, detect
        self.types = variable_types(kernel)
        self._made: dict[tuple[int, str], tuple[Expr, Value]] = {}  # by identity, which is quicker than equality

    def type_of(self, e: Expr) -> str:
        """Its dtype, or "int"/"float" for constants."""
        return infer(e, self.types, self.kernel)

    def value(self, e: Expr, want: str = "") -> Value:
        """The closure; `want` is the type that its context gives to constants."""
        made = self._made.get((id(e), want))
        if made is None:
            made = self._made[(id(e), want)] = (e, self._make(e, want))
        return made[1]

    def _make(self, e: Expr, want: str) -> Value:
        if want in ("f16", "bf16") and self.type_of(e) == "float":
            whole, narrowed = self._make(e, "f32"), PURE[want].numpy()
            return lambda m: narrowed(whole(m))
        if isinstance(e, Const):
            return self._constant(e, want)
        if isinstance(e, Var):
            name = e.name
            return lambda m: m.env[name]
        if isinstance(e, Elem):
            element = e
            return lambda m: m.registers.read(element)
        assert isinstance(e, Apply)
        return self._apply(e, want)

    @staticmethod
    def _constant(e: Const, want: str) -> Value:
        value: Any = e.value
        if isinstance(value, float) or (want in ("f32", "f64", "float") and not isinstance(value, bool)):
            value = np.float64(value) if want == "f64" else np.float32(value)
        return lambda m: value

    def _apply(self, e: Apply, want: str) -> Value:
        op = e.op
        if op in ("and", "or", "not"):
            return self._logic(e)
        if op == "select":
            return self._select(e, want)
        if op in CASTS:
            return self._cast(e)
        if op in PURE:
            return self._pure(e)
        return self._arithmetic(e, want)

    def _logic(self, e: Apply) -> Value:
        first = self.value(e.args[0])
        if e.op == "not":
            return lambda m: np.logical_not(first(m))
        second, stop = self.value(e.args[1]), e.op == "or"
        join = np.logical_or if stop else np.logical_and

        def both(m: Machine) -> Any:
            a = first(m)
            if np.ndim(a) == 0:
                return a if bool(a) is stop else second(m)
            return join(a, m.under(np.logical_not(a) if stop else a, second))

        return both

    def _select(self, e: Apply, want: str) -> Value:
        kind = self.type_of(e)
        kind = want if kind in ("int", "float") and want else kind
        cond, yes, no = self.value(e.args[0]), self.value(e.args[1], kind), self.value(e.args[2], kind)

        def choose(m: Machine) -> Any:
            c = cond(m)
            if np.ndim(c) == 0:
                return yes(m) if c else no(m)
            return np.where(c, m.under(c, yes), m.under(np.logical_not(c), no))

        return choose

    def _cast(self, e: Apply) -> Value:
        source, inner, to = self.type_of(e.args[0]), self.value(e.args[0]), e.op
        if to in ("f32", "f64"):
            target = np.float32 if to == "f32" else np.float64
            if source == "bf16":
                return lambda m: widen_bf16(inner(m)).astype(target)
            return lambda m: np.asarray(inner(m)).astype(target)
        if family(source) == "float":
            raw = inner
            inner = (
                (lambda m: widen_bf16(raw(m)).astype(np.int64))
                if source == "bf16"
                else (lambda m: np.asarray(raw(m)).astype(np.int64))
            )
        if to == "u32":
            return lambda m: inner(m) & 0xFFFFFFFF
        return self._checked(inner, to, e)

    def _pure(self, e: Apply) -> Value:
        row = PURE[e.op]
        meaning = row.numpy()
        args = [self.value(a, p) for a, p in zip(e.args, row.params, strict=True)]
        if e.op != "fma":
            return lambda m: meaning(*(f(m) for f in args))
        a, b, c = args
        return lambda m: meaning(_wide(a(m)), _wide(b(m)), c(m))  # widened once, before they are broadcast

    def _arithmetic(self, e: Apply, want: str) -> Value:
        kinds = [self.type_of(a) for a in e.args]
        joined = next((k for k in kinds if k not in ("int", "float")), want or kinds[0])
        args = [self.value(a, joined) for a in e.args]
        if e.op in ("<<", ">>"):
            return self._shift(e, args, joined)
        op = _OPS[e.op]
        if len(args) == 1:
            only = args[0]
            return self._checked(lambda m: op(only(m)), joined, e)
        first, second = args
        if self.detect and e.op in ("//", "%", "cdiv") and family(joined) == "int":
            return self._checked(self._division(e, first, second), joined, e)
        if e.op in COMPARISONS:
            return lambda m: op(first(m), second(m))
        return self._checked(lambda m: op(first(m), second(m)), joined, e)

    def _shift(self, e: Apply, args: list[Value], joined: str) -> Value:
        first, second = args
        left, top = e.op == "<<", 63 if self.type_of(e.args[0]) in ("i64", "u64") else 31

        def shift(m: Machine) -> Any:
            a, n = first(m), second(m)
            if self.detect:
                m.check((np.asarray(n) < 0) | (np.asarray(n) > top), "overflow", f"shift count outside 0..{top} in {e}")
                m.check(np.asarray(a) < 0, "overflow", f"a negative number is shifted in {e}", value=a)
            return a << n if left else a >> n

        return self._checked(shift, joined, e)

    def _division(self, e: Apply, first: Value, second: Value) -> Value:
        """Checks the operands for which C differs; `cdiv` rounds up there as here, whatever the dividend's sign."""
        op, any_sign = _OPS[e.op], e.op == "cdiv"

        def divide(m: Machine) -> Any:
            a, b = first(m), second(m)
            bad = (np.asarray(b) <= 0) | (np.asarray(a) < 0 if not any_sign else np.False_)
            m.check(bad, "overflow", f"negative or zero operand of {e}", value=a)
            return op(a, b)

        return divide

    def _checked(self, inner: Value, dtype: str, e: Apply) -> Value:
        """The value held to the range of its integer type; u32 wraps."""
        if dtype == "u32":
            return lambda m: inner(m) & 0xFFFFFFFF
        if not self.detect or dtype not in _RANGE:
            return inner
        low, high = _RANGE[dtype]

        def held(m: Machine) -> Any:
            v = inner(m)
            wide = np.asarray(v)
            m.check((wide < low) | (wide > high), "overflow", f"{e} leaves 32 bits", value=wide)
            return v

        return held


def _wide(value: Any) -> Any:
    return np.asarray(value).astype(np.float64)
