"""A kernel as the Python that builds it: how the manual shows an example to people who write builders.

In: a descriptor. Out: a program that makes an equal one with KernelBuilder (places and origin aside). Terms that the
builder's operators would simplify stand as text of the grammar, which the builder takes as well. Unprintable for what
the builder has no method for. The program is for reading; nothing here runs it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from inspect import Parameter, signature
from keyword import iskeyword
from typing import Any

from amk.dsl import expr as terms
from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import BINARY, BUILTINS, COMPARISONS, Apply, Const, Elem, Expr, Var, apply
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Buffer, Param, Statement
from amk.dsl.types import nbytes

__all__ = ["Unprintable", "builder_code"]

_FUNCTIONS = {
    "cdiv": "cdiv",
    "min": "minimum",
    "max": "maximum",
    "select": "select",
    "==": "eq",
    "!=": "ne",
    "and": "both",
}
_TAKEN = frozenset((*_FUNCTIONS.values(), "k", "kernel", "KernelBuilder", "Padded", "Strided", "Swizzle"))
_ATOM = 12


class Unprintable(ValueError):
    """The builder has no method for something in a kernel."""


class _Unlike(Exception):
    """Python's operators cannot spell a term."""


def builder_code(kernel: KernelDescriptor) -> str:
    """The program; it leaves the kernel in `kernel`."""
    return _Printer(kernel).program()


class _Printer:
    """The lines so far, how deep they are in, and what Python calls each name."""

    def __init__(self, kernel: KernelDescriptor) -> None:
        self.kernel, self.lines, self.depth = kernel, list[str](), 0
        self.python: dict[str, str] = {n: f"k.{n}" for n in BUILTINS}
        self.imports: dict[str, set[str]] = {}

    def program(self) -> str:
        d = self.kernel
        limits: dict[str, Any] = {
            "cluster": (d.cluster, 1),
            "dispatch": (d.dispatch, "any"),
            "min_blocks": (d.min_blocks, 1),
            "spill_bytes": (d.spill_bytes, 0),
        }
        named = {"target": _text(d.target), "threads": d.threads, **_changed(limits)}
        self.add(f"k = {self.made('KernelBuilder', '__init__', _text(d.name), **named)}")
        self.declare()
        self.body(d.body)
        for s in d.suppress:
            self.does("suppress", _text(s.code), _text(s.reason), **_changed({"pointer": (s.pointer, "")}))
        grid = ", ".join(map(self.term, d.grid))
        self.add(f"kernel = k.finish(grid=({grid}{',' if len(d.grid) == 1 else ''}))")
        heads = [f"from {module} import {', '.join(sorted(found))}" for module, found in sorted(self.imports.items())]
        return "\n".join(["from amk import KernelBuilder", *heads, "", *self.lines]) + "\n"

    def does(self, method: str, *values: object, **named: object) -> None:
        """A line that calls the builder."""
        self.add(self.made(f"k.{method}", method, *values, **named))

    def names(self, name: str, method: str, *values: object, **named: object) -> None:
        """A line that gives a name to what the builder makes."""
        made = self.made(f"k.{method}", method, _text(name), *values, **named)
        self.add(f"{self.name(name)} = {made}")

    def made(self, spelling: str, method: str, *values: object, **named: object) -> str:
        """A call of the builder; Unprintable if it has no such method, or none that takes these arguments."""
        found = getattr(KernelBuilder, method, None)
        known = signature(found).parameters if found is not None else {}
        free = any(p.kind is Parameter.VAR_KEYWORD for p in known.values())
        if found is None or not (free or named.keys() <= known.keys()):
            raise Unprintable(f"{method} with {', '.join(named)}")
        return f"{spelling}({_call(*values, **named)})"

    def add(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def use(self, module: str, name: str) -> str:
        self.imports.setdefault(module, set()).add(name)
        return name

    def name(self, name: str) -> str:
        """The Python variable of a name."""
        if name in self.python:
            raise Unprintable(f"the name {name} twice")
        self.python[name] = name + "_" if iskeyword(name) or name in _TAKEN else name
        return self.python[name]

    # -- declarations -----------------------------------------------------------------------------------------------
    def declare(self) -> None:
        for p in self.kernel.params:
            self.scalar(p) if p.shape is None else self.tensor(p)
        for b in self.kernel.buffers:
            self.buffer(b)
        for m in self.kernel.maps:
            more = {n: _value(v) for n, v in _extra(m, "name", "tensor", "box").items()}
            self.names(m.name, "tensormap", self.python[m.tensor], _plain(tuple(m.box)), **more)
        for x in self.kernel.barriers:
            self.names(x.name, "barrier", **{n: _value(v) for n, v in _extra(x, "name").items()})

    def scalar(self, p: Param) -> None:
        usual = {"min": 1, "max": 2**31 - 2**16} if p.dtype == "i32" else {"min": 0, "max": 2**31 - 1}
        limits = {"min": (p.min, usual["min"]), "max": (p.max, usual["max"]), "multiple_of": (p.multiple_of, 1)}
        if p.dtype == "i32":
            self.names(p.name, "size", **_changed(limits))
        else:
            self.names(p.name, "scalar", _text(p.dtype), **_changed(limits))

    def tensor(self, p: Param) -> None:
        usual: dict[str, Any] = {"access": (p.access, "read"), "align": (p.align, nbytes(p.dtype))}
        more = _changed({**usual, "offsets": (p.offsets, "i64")})
        if p.strides is not None:
            more["strides"] = self.listed(p.strides)
        self.names(p.name, "tensor", _text(p.dtype), self.listed(p.shape or ()), **more)

    def buffer(self, b: Buffer) -> None:
        if b.space == "register" and (b.layout is not None or b.align != 16):
            raise Unprintable("a layout of registers")
        more: dict[str, Any] = _changed({"align": (b.align, 16)})
        if b.layout is not None:
            made = type(b.layout).__name__
            fields = {n: _plain(v) for n, v in b.layout.model_dump(exclude={"kind"}).items()}
            more["layout"] = f"{self.use('amk.dsl.layout', made)}({_call(**fields)})"
        method = "registers" if b.space == "register" else b.space
        self.names(b.name, method, _text(b.dtype), _plain(b.shape), **more)

    # -- statements -------------------------------------------------------------------------------------------------
    def body(self, statements: tuple[Statement, ...]) -> None:
        for s in statements:
            getattr(self, "do_" + s.kind, self.plain)(s)

    def block(self, head: str, statements: tuple[Statement, ...]) -> None:
        self.add(f"with {head}:")
        self.depth += 1
        self.body(statements)
        if not statements:
            self.add("pass")
        self.depth -= 1

    def plain(self, s: Any) -> None:
        raise Unprintable(f"a {s.kind}")

    def do_let(self, s: Any) -> None:
        if s.view is not None:
            self.names(s.name, "view", self.term(s.view))
            return
        value = self.term(s.value)
        more = _changed({"dtype": (s.dtype, "i32"), "uniform": (s.uniform, False)})
        self.names(s.name, "let", value, **more)

    def do_load(self, s: Any) -> None:
        self.does("load", self.term(s.dst), self.term(s.src), **self.extra(s, "dst", "src"))

    def do_store(self, s: Any) -> None:
        self.does("store", self.term(s.dst), *map(self.term, s.values), **self.extra(s, "dst", "values"))

    def do_atomic(self, s: Any) -> None:
        more = self.extra(s, "op", "dst", "value")
        self.does("atomic", _text(s.op), self.term(s.dst), self.term(s.value), **more)

    def do_call(self, s: Any) -> None:
        refs = ", ".join(f"{_text(n)}: {self.term(e)}" for n, e in s.refs.items())
        args = {n: self.term(e) for n, e in s.args.items()}
        self.does("call", _text(s.row), "{" + refs + "}", **args)

    def do_sync(self, s: Any) -> None:
        scope = () if s.scope == "block" else (_text(s.scope),)
        self.does("sync", *scope, **self.extra(s, "scope"))

    def do_fence(self, s: Any) -> None:
        self.does("fence", _text(s.what))

    def do_commit(self, s: Any) -> None:
        self.does("commit", *(() if s.queue == "cp_async" else (_text(s.queue),)))

    def do_arrive(self, s: Any) -> None:
        self.does("arrive", self.term(s.barrier), **self.extra(s, "barrier"))

    def do_wait(self, s: Any) -> None:
        if s.barrier is not None:
            self.does("wait_phase", self.term(s.barrier), self.term(s.parity))
            return
        if s.flag is not None:
            self.does("wait_flag", self.term(s.flag), self.term(s.value))
            return
        queue = () if s.queue == "cp_async" else (_text(s.queue),)
        self.does("wait", *queue, **self.extra(s, "queue"))

    def do_assume(self, s: Any) -> None:
        self.does("assume", self.term(s.fact))

    def do_if(self, s: Any) -> None:
        self.block(self.made("k.when", "when", self.term(s.cond)), s.body)

    def do_for(self, s: Any) -> None:
        bounds = [self.term(s.lo), self.term(s.hi), *([] if s.step == Const(1) else [self.term(s.step)])]
        started = {c.name: self.term(c.init) for c in s.carry}
        carried = {
            c.name: started[c.name] if c.dtype == "i32" else f"({started[c.name]}, {_text(c.dtype)})" for c in s.carry
        }
        more = _changed({"unroll": (s.unroll, 1)})
        loop = self.name(s.var)
        self.python |= {s.var: f"{loop}.var", **{c.name: f"{loop}.{c.name}" for c in s.carry}}
        self.block(f"{self.made('k.loop', 'loop', _text(s.var), *bounds, **more, **carried)} as {loop}", s.body)
        nexts = {c.name: self.term(c.next) for c in s.carry if c.next != Var(c.name)}
        if nexts:
            self.add(f"    {loop}.next({_call(**nexts)})")
        if s.until is not None:
            self.add(f"    {loop}.until({self.term(s.until)})")

    def do_team(self, s: Any) -> None:
        self.add(f"with {self.made('k.team', 'team')}:")
        self.depth += 1
        for role in s.roles:
            more = _changed({"registers": (role.registers, None)})
            self.block(self.made("k.role", "role", *role.warps, **more), role.body)
        self.depth -= 1

    def extra(self, s: Any, *shown: str) -> dict[str, str]:
        """The fields of a statement that are not what they are by default, but for those shown already."""
        return {n: self.term(v) if isinstance(v, Expr) else _value(v) for n, v in _extra(s, *shown).items()}

    # -- terms ------------------------------------------------------------------------------------------------------
    def listed(self, values: tuple[Expr, ...]) -> str:
        return f"({', '.join(map(self.term, values))}{',' if len(values) == 1 else ''})"

    def term(self, e: Expr) -> str:
        """The term in Python's operators where they make just this term, else in the grammar's text."""
        imports = {module: set(found) for module, found in self.imports.items()}
        try:
            text, made = self.spelled(e, 0)
        except _Unlike:
            text, made = "", None
        if made == e:
            return text
        self.imports = imports
        return _text(str(e))

    def spelled(self, e: Expr, outer: int) -> tuple[str, Expr]:
        """Python's text of a term, and the term that it makes."""
        if isinstance(e, Const):
            return (f"({e.value!r})" if outer and str(e.value)[0] == "-" else repr(e.value)), e
        if isinstance(e, Var):
            return self.known(e.name), e
        if isinstance(e, Elem):
            inside = [self.spelled(i, 0) for i in e.index]
            return f"{self.known(e.buffer)}[{', '.join(t for t, _ in inside)}]", Elem(
                e.buffer, tuple(x for _, x in inside)
            )
        assert isinstance(e, Apply)
        if e.op in _FUNCTIONS:
            return self.function(e)
        if e.op == "neg":
            text, made = self.spelled(e.args[0], _ATOM)
            return f"-{text}", apply("neg", made)
        return self.operator(e, outer)

    def operator(self, e: Apply, outer: int) -> tuple[str, Expr]:
        level = BINARY.get(e.op, 0)
        if not level or e.op == "or":
            raise _Unlike
        a, b = e.args
        # Python has no term on the left of these to ask, or would turn the comparison round.
        if isinstance(a, Const) and (isinstance(b, Const) or e.op not in ("+", "-", "*")):
            raise _Unlike
        left, x = self.spelled(a, level + (e.op in COMPARISONS))
        right, y = self.spelled(b, level + 1)
        text = f"{left} {e.op} {right}"
        return (f"({text})" if level < outer else text), apply(e.op, x, y)

    def function(self, e: Apply) -> tuple[str, Expr]:
        inside = [self.spelled(a, 0) for a in e.args]
        name = self.use("amk.dsl.expr", _FUNCTIONS[e.op])
        made: Callable[..., Expr] = getattr(terms, name)
        return f"{name}({', '.join(t for t, _ in inside)})", made(*(x for _, x in inside))

    def known(self, name: str) -> str:
        if name not in self.python or (name in BUILTINS and not hasattr(KernelBuilder, name)):
            raise _Unlike
        return self.python[name]


def _call(*values: object, **named: object) -> str:
    return ", ".join([*map(str, values), *(f"{n}={v}" for n, v in named.items())])


def _changed(given: dict[str, tuple[Any, Any]]) -> dict[str, Any]:
    """Arguments that differ from what the builder takes without them, as Python text."""
    return {n: _value(value) for n, (value, usual) in given.items() if value != usual}


def _extra(node: Any, *shown: str) -> dict[str, Any]:
    return dict(_differing(node, shown))


def _differing(node: Any, shown: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name, f in type(node).model_fields.items():
        value = getattr(node, name)
        if name not in ("kind", "at", *shown) and value != f.default:
            yield name, value


def _text(value: str) -> str:
    """A string literal, as Python and JSON both write it."""
    return json.dumps(value, ensure_ascii=False)


def _value(value: Any) -> str:
    return _text(value) if isinstance(value, str) else repr(value)


def _plain(value: Any) -> str:
    return repr(tuple(value) if isinstance(value, (list, tuple)) else value)
