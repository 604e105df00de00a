"""An estimate of the registers a thread needs, from liveness over the descriptor: before anything is compiled.

Counted at the worst statement, in 4-byte registers: elements of live register arrays, live named values, loop
variables and carried values; two for each 64-bit address that differs from another by more than a constant, since an
instruction adds a constant for free; the loads of a stretch of straight code that may be in flight at once, each into
registers of its own; and a constant for what the compiler adds.

Source: Appel and Palsberg, "Modern Compiler Implementation" (2002), chapter 10, liveness; what ptxas 13.0 does on
sm_80, sm_90a and sm_120 with the examples, golden kernels and the rule agent's GEMMs (tests/synth/test_registers.py)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, prod

from amk.dsl.expr import Apply, Const, Elem, Expr, Var, integers, names, subterms
from amk.dsl.kernel import KernelDescriptor, children, expressions
from amk.dsl.nodes import Buffer, For, Load, Param, Statement
from amk.dsl.occupancy import max_registers
from amk.dsl.target import Target
from amk.dsl.types import nbytes

__all__ = ["BASE", "MARGIN", "assumed_registers", "estimate_registers", "expected_registers", "with_margin"]

BASE = 12  # thread and block index, temporaries of one statement
MARGIN = 1.2
# Loads beyond those whose registers are declared that the compiler starts before it uses the first. It goes on until
# registers run short, about here: 64 loads of an unrolled 4 x 4 x 8 tile end at 30 registers more than the tile's own.
IN_FLIGHT = 32
_ADDRESS = 2  # registers of a 64-bit address

Terms = dict[tuple[Expr, ...], int]  # a sum of products: its factors, in a fixed order, and how often each is added


def with_margin(registers: int) -> int:
    """The estimate and the safety margin."""
    return ceil(registers * MARGIN)


def assumed_registers(kernel: KernelDescriptor, target: Target) -> int:
    """The most registers that a thread is taken to need: the estimate with its margin, within the launch bound.

    The launch bound is printed with every kernel, and the compiler keeps to it: it would rather spill, which is
    refused. A compiled count above this one is reported, since the occupancy that was promised may not hold.
    """
    most = with_margin(estimate_registers(kernel))
    return min(most, max_registers(target, kernel.threads, kernel.min_blocks) or most)


def expected_registers(kernel: KernelDescriptor, target: Target) -> int:
    """The registers that a thread is expected to take: the estimate, within the launch bound."""
    guess = estimate_registers(kernel)
    return min(guess, max_registers(target, kernel.threads, kernel.min_blocks) or guess)


def estimate_registers(kernel: KernelDescriptor, *, data_only: bool = False) -> int:
    """Registers of 4 bytes that one thread is expected to hold at the worst statement, without any margin.

    `data_only` counts register buffers and carried values alone: what the compiler cannot recompute when registers run
    short, as it can with named values and addresses.
    """
    return _estimates(kernel)[int(data_only)]


@lru_cache(maxsize=16)
def _estimates(kernel: KernelDescriptor) -> tuple[int, int]:
    """The estimate, and that of live data alone."""
    u = _Uses(kernel)
    u.segment(kernel.body, 1)
    spans, kept = u.spans(), {b.name for b in kernel.buffers} | u.carried
    return BASE + _most(u, spans), BASE + _most(u, {n: at for n, at in spans.items() if n in kept})


def _most(u: _Uses, spans: dict[object, tuple[int, int]]) -> int:
    """Registers of all names that live at the worst statement."""
    events: dict[int, int] = {}
    for name, (first, last) in spans.items():
        events[first] = events.get(first, 0) + u.weight(name)
        events[last + 1] = events.get(last + 1, 0) - u.weight(name)
    live = worst = 0
    for at in sorted(events):
        live += events[at]
        worst = max(worst, live)
    return worst


@dataclass
class _Segment:
    """A stretch of code without a branch, as often as loops repeat it: what its loads fill, and what is declared."""

    copies: int
    start: int
    loaded: int = 0
    declared: dict[Elem, int] = field(default_factory=dict)

    @property
    def extra(self) -> int:
        """Registers of loads in flight beyond those that they are declared to fill."""
        return max(0, min(IN_FLIGHT, self.loaded - sum(self.declared.values())))


@dataclass
class _Life:
    """First and last use of a name, and the innermost loops of its uses."""

    first: int
    last: int
    loops: set[int] = field(default_factory=set)


@dataclass
class _Uses:
    """Where each name is first and last used, in a numbering of the statements; loops stretch what crosses them.

    Names are those of the descriptor and, for addresses and loads in flight, terms and numbers of our own.
    """

    kernel: KernelDescriptor
    now: int = 0
    uses: dict[object, _Life] = field(default_factory=dict)
    loops: list[tuple[int, int, int]] = field(default_factory=lambda: [(0, 0, 0)])  # start, end, the loop around it
    inner: int = 0  # the innermost open loop; 0 for none
    read_first: set[object] = field(default_factory=set)
    carried: set[object] = field(default_factory=set)
    sizes: dict[object, int] = field(default_factory=dict)
    moving: set[str] = field(default_factory=set)  # values that change from one iteration of a kept loop to the next
    unrolled: dict[str, int] = field(default_factory=dict)  # variables of loops that become straight code: iterations
    here: _Segment = field(default_factory=lambda: _Segment(1, 0))

    def weight(self, name: object) -> int:
        return self.sizes.get(name, 1)

    # -- statements -------------------------------------------------------------------------------------------------
    def segment(self, body: tuple[Statement, ...], copies: int) -> None:
        """A body that starts after a branch, or with a loop that is kept."""
        outer, self.here = self.here, _Segment(copies, self.now)
        self.block(body)
        if extra := self.here.extra:
            self.sizes[self.here.start, "in flight"] = extra
            self.uses[self.here.start, "in flight"] = _Life(self.here.start, self.now, {self.inner})
        self.here = outer

    def block(self, body: tuple[Statement, ...]) -> None:
        for s in body:
            self.now += 1
            self._statement(s)
            if s.kind == "for":
                self._loop(s)
            elif s.kind == "load":
                self._load(s)
            else:
                for _, inner in children(s):
                    self.segment(inner, 1)

    def _statement(self, s: Statement) -> None:
        if s.kind == "let":
            self.sizes[s.name] = self._let_size(s.view, s.dtype)
            self._use(s.name)
            if s.value is not None and self.moving & names(s.value):
                self.moving.add(s.name)
        elif s.kind == "for":
            self.carried |= {c.name for c in s.carry}
            for n, size in ((s.var, 1), *((c.name, -(-nbytes(c.dtype) // 4)) for c in s.carry)):
                self.sizes[n] = size
                self._use(n)
        for where, e in expressions(s):
            if not where.endswith("/next"):
                self._expression(e, write=where in ("/dst", "/refs/dst"))

    def _loop(self, s: For) -> None:
        start, trips, around = self.now, _trips(s), self.inner
        self.inner = len(self.loops)
        self.loops.append((start, start, around))
        if s.unroll == "full" and trips is not None:
            self.unrolled[s.var] = trips
            self.here.copies *= trips
            self.block(s.body)
            self.here.copies //= trips or 1
        else:
            self.moving |= {s.var, *(c.name for c in s.carry)}
            self.segment(s.body, s.unroll if isinstance(s.unroll, int) else 1)
        self.now += 1
        for c in s.carry:
            self._expression(c.next, write=False)
            self._use(c.name)
        self._use(s.var)
        self.loops[self.inner] = (start, self.now, around)
        self.inner = around

    def _load(self, s: Load) -> None:
        """What a load fills, in every copy that unrolling makes of it."""
        d = self.kernel.find(s.dst.buffer)
        if not isinstance(d, Buffer) or self.kernel.space(s.src) == "register":
            return
        size = max(1, s.width * nbytes(d.dtype) // 4)
        apart = prod(self.unrolled.get(n, 1) for n in set().union(*map(names, s.dst.index)))
        self.here.loaded += size * self.here.copies
        self.here.declared[s.dst] = size * min(apart, self.here.copies)

    def _let_size(self, view: Elem | None, dtype: str) -> int:
        if view is None:
            return -(-nbytes(dtype) // 4)
        space = self.kernel.space(view)
        return _ADDRESS if space == "global" else 1 if space == "shared" else 0

    # -- operands ---------------------------------------------------------------------------------------------------
    def _expression(self, e: Expr, *, write: bool) -> None:
        variables, elements = _mentioned(e)
        for name in variables:
            if name in self.sizes:
                self._use(name)
        for x in elements:
            self._operand(x, write=write and x is e)

    def _operand(self, x: Elem, *, write: bool) -> None:
        if x.buffer in self.kernel.views:
            self._use(x.buffer)
        d = self.kernel.find(x.buffer)
        if isinstance(d, Param):
            self._address(x, d)
        elif isinstance(d, Buffer) and d.space == "register":
            self.sizes[d.name] = -(-prod(d.shape) * nbytes(d.dtype) // 4)
            if d.name not in self.uses and not write:
                self.read_first.add(d.name)
            self._use(d.name)

    def _address(self, x: Elem, p: Param) -> None:
        """Two registers for each address that no constant and no moving pointer leads to; a view has its own."""
        strides = self.kernel.strides_of(p)[-len(x.index) :]
        kept: list[tuple[tuple[Expr, ...], int]] = []
        copies = 1
        for factors, times in _summed(zip(x.index, strides, strict=True)).items():
            used = _names(factors)
            if not factors or self.moving & used or (len(factors) == 1 and used <= self.unrolled.keys()):
                continue
            copies *= prod(self.unrolled[n] for n in used if n in self.unrolled)
            kept.append((factors, times))
        if not kept and x.buffer in self.kernel.views:
            return
        key = (x.buffer, frozenset(kept))
        self.sizes[key] = _ADDRESS * copies
        self.read_first.add(key)  # no iteration changes it: it is computed before the loop, and kept
        self._use(key)
        self.uses[key].first = min(self.uses[key].first, self.here.start)

    def _use(self, name: object) -> None:
        life = self.uses.get(name)
        if life is None:
            life = self.uses[name] = _Life(self.now, self.now)
        life.last = self.now
        life.loops.add(self.inner)

    def spans(self) -> dict[object, tuple[int, int]]:
        """First and last statement of each name; a name used inside and outside of a loop lives through all of it."""
        return {name: self._span(name, life) for name, life in self.uses.items()}

    def _span(self, name: object, life: _Life) -> tuple[int, int]:
        first, last, always = life.first, life.last, name in self.read_first
        for a, b, _ in sorted((self.loops[i] for i in self._around(life.loops)), reverse=True):
            if first < a or last > b or always:
                first, last = min(first, a), max(last, b)
        return first, last

    def _around(self, inner: set[int]) -> set[int]:
        """These loops and all around them."""
        out: set[int] = set()
        for i in inner:
            while i and i not in out:
                out.add(i)
                i = self.loops[i][2]
        return out


# --------------------------------------------------------------------------------------------------------------- terms
def _trips(s: For) -> int | None:
    """Iterations of a loop with constant bounds."""
    bounds = integers(s.lo, s.hi, s.step)
    return len(range(*bounds)) if bounds is not None and bounds[2] else None


def _summed(products: Iterator[tuple[Expr, Expr]]) -> Terms:
    """The sum of products as terms; the empty product is the constant."""
    out: Terms = {}
    for index, stride in products:
        for factors, times in _times(_terms(index), _terms(stride)).items():
            out[factors] = out.get(factors, 0) + times
    return {f: n for f, n in out.items() if n}


@lru_cache(maxsize=1 << 14)
def _mentioned(e: Expr) -> tuple[tuple[str, ...], tuple[Elem, ...]]:
    """The variables and the elements in a term."""
    inside = tuple(subterms(e))
    return (
        tuple({x.name for x in inside if isinstance(x, Var)}),
        tuple(dict.fromkeys(x for x in inside if isinstance(x, Elem))),
    )


@lru_cache(maxsize=1 << 14)
def _terms(e: Expr) -> Terms:
    if isinstance(e, Const) and isinstance(e.value, int):
        return {(): e.value}
    if isinstance(e, Apply) and e.op in ("+", "-"):
        out = dict(_terms(e.args[0]))
        for factors, times in _terms(e.args[1]).items():
            out[factors] = out.get(factors, 0) + (times if e.op == "+" else -times)
        return out
    if isinstance(e, Apply) and e.op == "*":
        return _times(_terms(e.args[0]), _terms(e.args[1]))
    return {(e,): 1}


@lru_cache(maxsize=1 << 12)
def _names(factors: tuple[Expr, ...]) -> frozenset[str]:
    return frozenset().union(*map(names, factors))


def _times(a: Terms, b: Terms) -> Terms:
    out: Terms = {}
    for f, n in a.items():
        for g, m in b.items():
            both = tuple(sorted((*f, *g), key=id))
            out[both] = out.get(both, 0) + n * m
    return out
