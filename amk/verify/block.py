"""A walk of one block, statement by statement, for all threads: races, initialisation, bounds of shared memory,
barriers, asynchronous copies.

The walk stands for a whole class of sizes and blocks (those that satisfy the facts of its path), or for a single case.
Whatever it depends on, a condition, a trip count, an index of shared memory, is either known, or proved by Z3 to be the
same everywhere in the class, or left open: then an access may happen (so it races) and need not (so it initialises
nothing). What cannot be left open raises Loose, and the class is walked again in smaller pieces, or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from amk.dsl.expr import Apply, Elem, Expr, has_elements, names, subterms
from amk.dsl.instructions import ROWS
from amk.dsl.kernel import KernelDescriptor, expressions, walk
from amk.dsl.nodes import Buffer, Statement
from amk.dsl.types import nbytes
from amk.verify.cells import Cells
from amk.verify.followed import Summary, followed
from amk.verify.form import accesses
from amk.verify.lanes import ones
from amk.verify.logic import Logic
from amk.verify.outcome import Loose, NotCovered, Unable, Wrong
from amk.verify.path import Here, Path, Registers, merged
from amk.verify.settle import Settler
from amk.verify.values import DATA

__all__ = ["Block", "held", "ordered"]

_REFS = ("/dst", "/src", "/view", "/refs/dst", "/refs/src")  # operands in memory, or registers that are written
ORDERING = frozenset(("sync", "commit", "wait"))
MOST = 500_000  # statements of one walk


def ordered(body: tuple[Statement, ...]) -> bool:
    """Whether a body holds a barrier, a commit or a wait."""
    return any(s.kind in ORDERING for _, s in walk(body))


def _writes(body: tuple[Statement, ...]) -> bool:
    """Whether a body writes shared memory or registers."""
    return any(s.kind in ("store", "load", "call") for _, s in walk(body))


class Block:
    """Walks the blocks of one kernel. `steps` counts statements.

    With `split`, both answers to an open condition that all threads share are walked, wherever it guards a write.
    """

    def __init__(self, kernel: KernelDescriptor, logic: Logic, *, split: bool = False) -> None:
        self.kernel, self.logic, self.split = kernel, logic, split
        self.settle = Settler(kernel, logic)
        self.everyone = self.settle.lanes.everyone
        self.pointers = {id(s): at for at, s in walk(kernel.body)}
        self.cells = Cells(kernel)
        self.followed = followed(kernel, self.settle.names)
        self.summaries: dict[tuple[Any, ...], Summary] = {}
        self.steps = 0
        self._read_by: dict[int, tuple[Elem, ...]] = {}

    def run(self, start: Path) -> list[Path]:
        """The whole kernel from a first state. Raises Wrong, Loose, Unable."""
        ends = self.body(self.kernel.body, start, Here(self.everyone))
        for p in ends:
            p.memory.finish()
        return ends

    # -- control -----------------------------------------------------------------------------------------------------
    def body(self, statements: tuple[Statement, ...], start: Path, here: Here) -> list[Path]:
        """Statements in order, over every path that they split into."""
        paths = [start]
        for s in statements:
            self.steps += len(paths)
            if self.steps > MOST:
                raise Unable(self.pointers[id(s)], f"more than {MOST} statements to walk")
            if s.kind in ("for", "if"):
                paths = merged(q for p in paths for q in self._split(s, p, here))
            else:
                for p in paths:
                    self.statement(s, p, here)
        return paths

    def _split(self, s: Any, p: Path, here: Here) -> list[Path]:
        if s.kind == "if":
            return self.branch(s, p, here)
        from amk.verify.rounds import Rounds

        return Rounds(self, s, here).run(p)

    def branch(self, s: Any, p: Path, here: Here) -> list[Path]:
        """The body of an `if`, for those that pass; both ways where that is open and matters."""
        at = self.pointers[id(s)]
        self.reads(s.cond, p, here, at)
        sure, may, one = self.settle.passing(s.cond, p, at, here.active)
        if not may:
            return [p]
        if sure == may:
            return self.body(s.body, p, Here(may, here.unsure, here.ragged))
        cond = self.settle.with_known(s.cond, p)
        if not ordered(s.body) and not (self.split and one and _writes(s.body)):
            return self.perhaps(s.body, p, Here(may, True, here.ragged or not one), cond)
        if not one:
            raise Wrong("AMK302", at, f"a barrier stands under {s.cond}, which may differ between threads")
        return [*self.body(s.body, p.copy(cond), here), p.copy(Apply("not", (cond,)))]

    def perhaps(
        self,
        body: tuple[Statement, ...],
        p: Path,
        here: Here,
        key: Expr | None,
        last: Callable[[Path], None] | None = None,
    ) -> list[Path]:
        """A body that may not be reached: what it writes counts inside it, and again under the same condition.

        `last` is called with each state at the end of the body.
        """
        registers, own = dict(p.registers), dict(p.memory.own)
        lasting = key is not None and not has_elements(key) and not names(key) & p.data and not _rounds_in(key)
        if lasting and key in p.gains:
            _add(p.registers, p.gains[key][0])
            _add(p.memory.own, p.gains[key][1])
        paths = self.body(body, p, here)
        for q in paths:
            if last is not None:
                last(q)
            if lasting and key is not None:
                q.gains[key] = dict(q.registers), dict(q.memory.own)
            q.registers, q.memory.own = dict(registers), dict(own)
        return paths

    # -- statements --------------------------------------------------------------------------------------------------
    def statement(self, s: Any, p: Path, here: Here) -> None:
        """One statement that has no body."""
        at = self.pointers[id(s)]
        if s.kind in ORDERING:
            self.order(s, p, here, at)
            return
        for x in self._sources(s):
            self._read(x, p, here, at)
        if s.kind == "load":
            mask = here.active if s.when is None else self.settle.passing(s.when, p, at, here.active)[1]
            self.touch(s.src, s.width, "read", p, here, at, mask)
            self.fill(s.dst, s.width, p, here, at)
        elif s.kind == "store":
            self.touch(s.dst, len(s.values), "write", p, here, at, here.active)
            self.fill(s.dst, len(s.values), p, here, at)
        elif s.kind == "atomic":
            self.touch(s.dst, 1, "update", p, here, at, here.active)
        elif s.kind == "call":
            self.call(s, p, here, at)

    def call(self, s: Any, p: Path, here: Here, at: str) -> None:
        row = ROWS[s.row]
        if row.issuer == "warp":
            self._whole_warps(here, at, "AMK305", s.row)
        for o in row.operands:
            ref = s.refs[o.role]
            if o.space == "shared":
                d = self.kernel.find(ref.buffer)
                assert isinstance(d, Buffer)
                mode = "copy" if o.mode == "write" and row.completes == "cp_async" else o.mode
                self.touch(ref, max(1, o.nbytes // nbytes(d.dtype)), mode, p, here, at, here.active)
            elif o.space == "register" and o.mode == "write":
                self.fill(ref, 1, p, here, at)
            elif o.space == "register":
                self._read(ref, p, here, at)

    def order(self, s: Any, p: Path, here: Here, at: str) -> None:
        """A barrier, a commit or a wait."""
        if s.kind == "sync" and s.scope == "warp":
            self._whole_warps(here, at, "AMK302", "the warp barrier")
            if here.unsure:
                raise Loose(at, "a warp barrier that may not be reached")
            p.memory.warp_barrier(here.active)
        elif here.active != self.everyone or here.unsure or here.ragged:
            if s.kind != "sync":
                raise Loose(at, f"a {s.kind} that not all threads of the block reach")
            who = f"{here.active.bit_count()} of {self.kernel.threads} threads"
            raise Wrong("AMK302", at, f"{who} may reach this block barrier", {"t": 0})
        elif s.kind == "sync":
            p.memory.block_barrier()
        elif s.kind == "commit":
            p.memory.commit()
        else:
            p.memory.wait(s.pending)

    def _whole_warps(self, here: Here, at: str, rule: str, what: str) -> None:
        for w in range(0, self.kernel.threads, 32):
            there = here.active >> w & 0xFFFFFFFF
            if there not in (0, 0xFFFFFFFF) or (there and here.ragged):
                raise Wrong(rule, at, f"{what} may be reached by a part of warp {w // 32} alone", {"t": w})

    # -- registers ---------------------------------------------------------------------------------------------------
    def _sources(self, s: Any) -> tuple[Elem, ...]:
        """The register elements that a statement reads."""
        found = self._read_by.get(id(s))
        if found is None:
            values = [e for below, e in expressions(s) if below not in _REFS]
            values += [i for _, ref, _ in accesses(s) for i in ref.index]
            elements = (x for e in values for x in subterms(e) if isinstance(x, Elem))
            found = tuple(dict.fromkeys(x for x in elements if self.kernel.space(x) == "register"))
            self._read_by[id(s)] = found
        return found

    def reads(self, e: Expr, p: Path, here: Here, at: str) -> None:
        """Every register element in a value is surely written by the threads that read it."""
        if has_elements(e):
            for x in subterms(e):
                if isinstance(x, Elem) and self.kernel.space(x) == "register":
                    self._read(x, p, here, at)

    def _read(self, x: Elem, p: Path, here: Here, at: str) -> None:
        for place, mask in self._elements(x, 1, p, here, at):
            lacking = mask & ~p.registers.get(place, 0)
            if lacking:
                t = next(ones(lacking))
                raise Wrong("AMK207", at, f"thread {t} reads {x}, which nothing has surely written", {"t": t})

    def fill(self, ref: Elem, width: int, p: Path, here: Here, at: str) -> None:
        """Register elements are written by the threads that reach this."""
        if self.kernel.space(ref) != "register":
            return
        try:
            for place, mask in self._elements(ref, width, p, here, at):
                p.registers[place] = mask | held(p.registers, place)
        except Loose:
            return  # one of several elements: none of them surely

    def _elements(self, ref: Elem, width: int, p: Path, here: Here, at: str) -> Iterator[tuple[tuple[str, Any], int]]:
        full = self.kernel.resolve(ref) if ref.buffer in self.kernel.views else ref
        index = [self.settle.value(i, p, at) for i in full.index]
        if DATA in index:
            raise Loose(at, f"the register {ref} is chosen by data")
        if tuple not in map(type, index):
            yield from (((full.buffer, (*index[:-1], index[-1] + k)), here.active) for k in range(width))
            return
        for t in ones(here.active):
            mine = [i[t] if isinstance(i, tuple) else i for i in index]
            yield from (((full.buffer, (*mine[:-1], mine[-1] + k)), 1 << t) for k in range(width))

    # -- shared memory -----------------------------------------------------------------------------------------------
    def touch(self, ref: Elem, width: int, mode: str, p: Path, here: Here, at: str, mask: int) -> None:
        """One operand in shared memory, by the threads of a mask."""
        if self.kernel.space(ref) != "shared" or not mask:
            return
        full = self.kernel.resolve(ref)
        index = tuple(self.settle.value(i, p, at) for i in full.index)
        if DATA in index and any(has_elements(self.settle.inline(i, p)) for i in full.index):
            raise NotCovered(at, f"{ref}, an address of shared memory that depends on data")
        if DATA in index:
            raise Loose(at, f"{ref} follows a value that changes from round to round")
        touched = self.cells.touch(full.buffer, index, width, mask, str(ref), at)
        p.memory.access(mode, touched, at, sure=not here.unsure)


def held(registers: Registers, place: tuple[str, Any]) -> int:
    """The threads that hold a register, without asking for it as a read does."""
    return registers[place] if place in registers else 0  # noqa: SIM401 (a Summary takes `get` for a read)


def _add(to: dict[Any, int], gained: dict[Any, int] | Registers) -> None:
    for place, mask in gained.items():
        to[place] = to.get(place, 0) | mask


def _rounds_in(e: Expr) -> bool:
    """Whether a term speaks of the round of a loop, which the next round answers anew."""
    return any("'" in n for n in names(e))
