"""An estimate of the registers a thread needs, from liveness over the descriptor: before anything is compiled.

Counted at the worst statement, in 4-byte registers: elements of live register buffers, live named values, loop
variables, and an address for each global tensor used in the innermost loop; plus a constant for what the compiler adds.

Source: Appel and Palsberg, "Modern Compiler Implementation" (2002), chapter 10, liveness.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, prod

from amk.dsl.expr import Elem, Expr, Var, subterms
from amk.dsl.kernel import KernelDescriptor, children, expressions
from amk.dsl.nodes import Buffer, Statement
from amk.dsl.types import nbytes

__all__ = ["BASE", "MARGIN", "estimate_registers", "with_margin"]

BASE = 12  # thread and block index, temporaries of one statement
MARGIN = 1.2


def with_margin(registers: int) -> int:
    """The estimate and the safety margin."""
    return ceil(registers * MARGIN)


def estimate_registers(kernel: KernelDescriptor, *, data_only: bool = False) -> int:
    """Registers of 4 bytes that one thread is expected to hold at the worst statement, without any margin.

    `data_only` counts register buffers and carried values alone: what the compiler cannot recompute when registers run
    short, as it can with named values and addresses.
    """
    u = _Uses(kernel)
    u.block(kernel.body)
    if data_only:
        kept = {b.name for b in kernel.buffers} | u.carried
        u.uses = {n: at for n, at in u.uses.items() if n in kept}
    events: dict[int, int] = {}
    for name, (first, last) in u.spans().items():
        events[first] = events.get(first, 0) + u.weight(name)
        events[last + 1] = events.get(last + 1, 0) - u.weight(name)
    live = worst = 0
    for at in sorted(events):
        live += events[at]
        worst = max(worst, live)
    return BASE + worst


@dataclass
class _Uses:
    """Where each name is first and last used, in a numbering of the statements; loops stretch what crosses them."""

    kernel: KernelDescriptor
    now: int = 0
    uses: dict[str, list[int]] = field(default_factory=dict)
    loops: list[tuple[int, int]] = field(default_factory=list)
    read_first: set[str] = field(default_factory=set)
    carried: set[str] = field(default_factory=set)
    sizes: dict[str, int] = field(default_factory=dict)

    def weight(self, name: str) -> int:
        return self.sizes.get(name, 1)

    def block(self, body: tuple[Statement, ...]) -> None:
        for s in body:
            self.now += 1
            self._statement(s)
            start = self.now
            for _, inner in children(s):
                self.block(inner)
            if s.kind == "for":
                self.now += 1
                for c in s.carry:
                    self._expression(c.next, write=False)
                    self._use(c.name)
                self._use(s.var)
                self.loops.append((start, self.now))

    def _statement(self, s: Statement) -> None:
        if s.kind == "let":
            self.sizes[s.name] = self._let_size(s.view, s.dtype)
            self._use(s.name)
        elif s.kind == "for":
            self.carried |= {c.name for c in s.carry}
            for n, size in ((s.var, 1), *((c.name, -(-nbytes(c.dtype) // 4)) for c in s.carry)):
                self.sizes[n] = size
                self._use(n)
        for where, e in expressions(s):
            if not where.endswith("/next"):
                self._expression(e, write=where in ("/dst", "/refs/dst"))

    def _let_size(self, view: Elem | None, dtype: str) -> int:
        if view is None:
            return -(-nbytes(dtype) // 4)
        space = self.kernel.space(view)
        return 2 if space == "global" else 1 if space == "shared" else 0

    def _expression(self, e: Expr, *, write: bool) -> None:
        for x in subterms(e):
            if isinstance(x, Var):
                if x.name in self.sizes:
                    self._use(x.name)
            elif isinstance(x, Elem):
                self._operand(x, write=write and x is e)

    def _operand(self, x: Elem, *, write: bool) -> None:
        if x.buffer in self.kernel.views:
            self._use(x.buffer)
        full = self.kernel.resolve(x)
        d = self.kernel.declarations.get(full.buffer)
        if isinstance(d, Buffer) and d.space == "shared":
            return
        if isinstance(d, Buffer):
            self.sizes[d.name] = -(-prod(d.shape) * nbytes(d.dtype) // 4)
        elif x.buffer not in self.kernel.views:
            self.sizes[full.buffer] = 2
        if full.buffer not in self.uses and not write:
            self.read_first.add(full.buffer)
        self._use(full.buffer)

    def _use(self, name: str) -> None:
        self.uses.setdefault(name, []).append(self.now)

    def spans(self) -> dict[str, tuple[int, int]]:
        """First and last statement of each name; a name used inside and outside of a loop lives through all of it."""
        out = {}
        for name, at in self.uses.items():
            first, last = at[0], at[-1]
            for a, b in sorted(self.loops, reverse=True):
                inside = any(a <= n <= b for n in at)
                if inside and (first < a or last > b or name in self.read_first):
                    first, last = min(first, a), max(last, b)
            out[name] = (first, last)
        return out
