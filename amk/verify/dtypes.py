"""The types of terms, from the leaves up; the ranges of integer types."""

from __future__ import annotations

from amk.dsl.expr import BUILTINS, COMPARISONS, Apply, Const, Elem, Expr, Var, subterms
from amk.dsl.instructions import PURE
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.nodes import Buffer
from amk.verify.values import NoValue, evaluate

__all__ = ["INTEGERS", "Misfit", "Types", "family", "span"]

INTEGERS = {  # bits, and whether one of them is a sign
    "i8": (8, True), "u8": (8, False), "i32": (32, True), "u32": (32, False), "i64": (64, True), "u64": (64, False)
}  # fmt: skip
FLOATS = frozenset(("f16", "bf16", "f32", "f64", "float"))
CASTS = frozenset(("i32", "i64", "u32", "f32", "f64"))
WHOLE = frozenset(("//", "%", "cdiv", "&", "|", "^", "<<", ">>"))


class Misfit(ValueError):
    """Types that do not agree."""


def span(dtype: str) -> tuple[int, int] | None:
    """The least and the greatest value of an integer type or of bool; None for floating point."""
    if dtype == "bool":
        return 0, 1
    if dtype not in INTEGERS:
        return None
    bits, signed = INTEGERS[dtype]
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def family(dtype: str) -> str:
    """bool, int or float."""
    return "float" if dtype in FLOATS else "bool" if dtype == "bool" else "int"


class Types:
    """The types of the terms of one kernel. A constant is "int" or "float" until its place gives it a type."""

    def __init__(self, kernel: KernelDescriptor) -> None:
        self.kernel = kernel
        self.names = dict.fromkeys(BUILTINS, "i32")
        self.names |= {p.name: p.dtype for p in kernel.scalars}
        for _, s in walk(kernel.body):
            if s.kind == "let" and s.value is not None:
                self.names[s.name] = s.dtype
            elif s.kind == "for":
                self.names[s.var] = "i32"
                self.names |= {c.name: c.dtype for c in s.carry}
        self._known: dict[Expr, str] = {}

    def of(self, e: Expr) -> str:
        """The type of a term. Raises Misfit."""
        found = self._known.get(e)
        if found is None:
            found = self._known[e] = self._find(e)
        return found

    def _find(self, e: Expr) -> str:
        if isinstance(e, Const):
            return "bool" if isinstance(e.value, bool) else "int" if isinstance(e.value, int) else "float"
        if isinstance(e, Var):
            if e.name not in self.names:
                raise Misfit(f"{e.name} is no variable")
            return self.names[e.name]
        if isinstance(e, Elem):
            d = self.kernel.find(e.buffer)
            if not isinstance(d, Buffer) or d.space != "register":
                raise Misfit(f"{e} is an address, and a value is wanted")
            if any(family(self.of(i)) != "int" for i in e.index):
                raise Misfit(f"an index of {e} is no integer")
            return d.dtype
        assert isinstance(e, Apply)
        return self._applied(e, [self.of(a) for a in e.args])

    def _applied(self, e: Apply, args: list[str]) -> str:
        op = e.op
        if op in ("and", "or", "not"):
            return self._wanted(e, args, ["bool"] * len(args), "bool")
        if op in CASTS:
            if args[0] == "bool":
                raise Misfit(f"{e} casts a truth value")
            return op
        if op in PURE:
            return self._wanted(e, args, list(PURE[op].params), PURE[op].result)
        if op == "select":
            self._wanted(e, args[:1], ["bool"], "")
            return join(e, args[1], args[2])
        both = args[0] if op == "neg" else join(e, args[0], args[1])
        if op in COMPARISONS:
            return "bool"
        if both == "bool" or (op in WHOLE and family(both) != "int") or (op == "/" and family(both) != "float"):
            raise Misfit(f"{op} in {e} does not take {both}")
        return both

    def misplaced(self, e: Expr, wanted: str) -> str:
        """A whole-number constant that the type of its place cannot hold, in words; empty where there is none.

        C would make another number of it than the one that is proved about.
        """
        if wanted in INTEGERS and not _holds(wanted, e):
            return f"{e} does not fit {wanted}"
        for x in subterms(e):
            args = x.args[x.op == "select" :] if isinstance(x, Apply) else ()
            if len(args) > 1:
                typed = next((k for k in map(self.of, args) if k in INTEGERS), "i32")
                compared = isinstance(x, Apply) and x.op in COMPARISONS and typed[0] == "i"
                bad = () if compared else [a for a in args if self.of(a) == "int" and not _holds(typed, a)]
                if bad:
                    return f"{bad[0]} in {x} does not fit {typed}"
        return ""

    @staticmethod
    def _wanted(e: Apply, args: list[str], wanted: list[str], result: str) -> str:
        for a, have, want in zip(e.args, args, wanted, strict=False):
            if have != want and not (have == "float" and family(want) == "float"):
                raise Misfit(f"{a} in {e} is {have}, and {want} is wanted")
        return result


def _holds(dtype: str, e: Expr) -> bool:
    """Whether a term without names has a value of the type; one with names has claims of its own."""
    try:
        value = evaluate(e, {})
    except NoValue:
        return True
    low, high = span(dtype) or (0, 0)
    return type(value) is not int or low <= value <= high


def join(e: Expr, a: str, b: str) -> str:
    """The common type of two operands."""
    if a == b:
        return a
    if family(a) != family(b):
        raise Misfit(f"{e} mixes {a} and {b}")
    if a in ("int", "float") or b in ("int", "float"):
        return b if a in ("int", "float") else a
    if family(a) == "float" or {a, b} & {"u32", "u64"}:
        raise Misfit(f"{e} mixes {a} and {b}")
    return a if INTEGERS[a][0] >= INTEGERS[b][0] else b
