"""Counts, at a few concrete sizes, how often each element of a tensor is written, over every thread of every block."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, product
from math import prod
from typing import Any

from amk.dsl.expr import Apply, Const, Expr, has_elements, names, subterms
from amk.dsl.kernel import walk
from amk.dsl.nodes import For, Param
from amk.harness.coverage import Site
from amk.harness.events import Env, Program, Unsupported, bits
from amk.harness.faults import Fault, Second

__all__ = ["count_hits"]

_BLOCKS, _GRID = ("bx", "by", "bz"), ("gx", "gy", "gz")
_ROUNDS = 1 << 16
_MOST = 400_000  # accesses enumerated at one choice of sizes
Hit = tuple[int, int, int, int, Site, dict[str, int]]  # block x, y, z, thread, site, loop variables


def count_hits(p: Program, tensor: Param, sites: list[Site]) -> tuple[list[Fault], bool]:
    """The first fault over the chosen sizes, smallest first; and whether these are all sizes that there are."""
    exact = not any(q.min != q.max for q in p.kernel.scalars if q.name in _decisive(p, tensor, sites))
    for env in _sizes(p):
        grid = [max(0, p.value(e, env)) for e in p.kernel.grid3]
        boxes = any(s.box for s in sites) and _volume(p, tensor, env) > _MOST
        if boxes or prod(grid) * p.kernel.cluster * p.threads * len(sites) > _MOST:
            exact = False
        elif fault := _Count(p, tensor, sites, env, grid).fault():
            return [fault], True
    return [], exact


def _volume(p: Program, tensor: Param, env: Env) -> int:
    return prod(max(0, int(p.value(e, env))) for e in tensor.shape or ())


def _decisive(p: Program, tensor: Param, sites: list[Site]) -> frozenset[str]:
    """The names that decide what is accessed."""
    bounds = [e for s in sites for x in s.loops for e in (x.lo, x.hi, x.step)]
    terms = [*p.kernel.grid, *(tensor.shape or ()), *bounds, *(e for s in sites for e in (*s.index, *s.conds))]
    return frozenset().union(*(names(p.inline(e)) for e in terms))


def _sizes(p: Program) -> Iterator[Env]:
    """All sizes small, at one tile, ragged in two and three tiles, and each of them apart from the others."""
    units = {q.name: _unit(p, q.name) for q in p.kernel.scalars}
    seen: set[tuple[Any, ...]] = set()
    rows = [(0, 1), (0, 3), (1, 0), (1, 1), (2, -1), (3, 2), (5, 3)]
    ragged = [dict.fromkeys(units, r) for r in rows]
    ragged += [dict.fromkeys(units, (1, 1)) | {q: (3, -1)} for q in units]
    if p.thread_loops:
        ragged += [dict.fromkeys(units, (24, 1))]
    for choice in ragged:
        env = {q.name: _value(q, units[q.name], *choice[q.name]) for q in p.kernel.scalars}
        key = tuple(env.values())
        if key not in seen:
            seen.add(key)
            yield env


def _value(q: Param, unit: int, tiles: int, more: int) -> Any:
    if q.dtype in ("f32", "f64", "f16", "bf16"):
        return float(tiles % 2)
    if q.dtype == "bool":
        return bool(tiles % 2)
    wanted = min(max(tiles * unit + more * q.multiple_of, q.min), q.max)
    down = wanted // q.multiple_of * q.multiple_of
    return down if down >= q.min else -(-q.min // q.multiple_of) * q.multiple_of


def _unit(p: Program, name: str) -> int:
    """The size of a tile in a parameter, from the grid or a loop; the thread count where neither says."""
    for e in (*p.kernel.grid, *(s.hi for _, s in walk(p.kernel.body) if s.kind == "for")):
        for x in subterms(p.inline(e)):
            if (
                isinstance(x, Apply)
                and x.op in ("cdiv", "//")
                and name in names(x.args[0])
                and isinstance(x.args[1], Const)
            ):
                return int(x.args[1].value)
    return p.threads if p.thread_loops else 4


class _Count:
    """One choice of sizes."""

    def __init__(self, p: Program, tensor: Param, sites: list[Site], env: Env, grid: list[int]) -> None:
        self.p, self.tensor, self.sites, self.grid = p, tensor, sites, grid
        self.env = env | dict(zip(_GRID, grid, strict=True))
        self.shape = tuple(p.value(e, self.env) for e in tensor.shape or ())
        self.size = prod(self.shape)
        self.masks: dict[tuple[Any, ...], int] = {}
        self.lists: dict[tuple[Any, ...], list[int]] = {}
        self.needed: dict[int, frozenset[str]] = {}
        self.left_out = False

    def fault(self) -> Fault | None:
        """The first fault at these sizes."""
        owner: dict[int, Hit] = {}
        for hit, elements in self._hits("wa"):
            for x in elements:
                if x in owner and (fault := self._twice(x, owner[x], hit)):
                    return fault
                owner[x] = hit
        if self.left_out:
            return None  # an index outside its tensor: the bounds rules say so
        return self._unwritten(owner) or self._foreign(owner)

    def _twice(self, x: int, a: Hit, b: Hit) -> Fault | None:
        if a[4].mode == b[4].mode == "a":
            return None
        if a[4].mode != b[4].mode:
            message = f"{self._name(x)} is updated atomically by one thread and written plainly by another"
            return self._fault("AMK306", b, message, a, "use atomics for both")
        who = "the same thread" if a[:4] == b[:4] else "two threads, and nothing orders them"
        message = f"{self._name(x)} is written twice: by {_who(a)} and by {_who(b)} ({who})"
        return self._fault("AMK402", b, message, a, "let tiles meet without overlap and each element have one writer")

    def _unwritten(self, owner: dict[int, Hit]) -> Fault | None:
        if self.tensor.access not in ("write", "add") or len(owner) == self.size:
            return None
        x = next(i for i in range(self.size) if i not in owner)
        site = next(s for s in self.sites if s.mode != "r")
        sizes = ", ".join(f"{q.name} = {self.env[q.name]}" for q in self.p.kernel.scalars)
        grid = (self.grid[0] * self.p.kernel.cluster, *self.grid[1:])
        message = f"{self._name(x)} is never written with {sizes or 'these sizes'}, a grid of {grid}"
        at = {q.name: int(self.env[q.name]) for q in self.p.kernel.scalars} | self._index(x)
        hint = "check the grid against cdiv(size, tile), and the guard against index < size"
        return Fault("AMK401", site.pointer, message, at, (), hint)

    def _foreign(self, owner: dict[int, Hit]) -> Fault | None:
        for hit, elements in self._hits("r"):
            for x in elements:
                if x in owner and (owner[x][:4] != hit[:4] or hit[4].later or owner[x][4].later):
                    code = "AMK306" if owner[x][4].mode == "a" else "AMK304"
                    message = (
                        f"{_who(hit)} reads {self._name(x)}, which {_who(owner[x])} writes, and nothing orders them"
                    )
                    return self._fault(
                        code, hit, message, owner[x], "write to another tensor, or read only own elements"
                    )
        return None

    def _fault(self, code: str, hit: Hit, message: str, other: Hit, hint: str) -> Fault:
        at = {q.name: int(self.env[q.name]) for q in self.p.kernel.scalars}
        at |= dict(zip((*_BLOCKS, "t"), hit[:4], strict=True)) | hit[5]
        at |= {"bx2": other[0], "by2": other[1], "t2": other[3]}
        return Fault(code, hit[4].pointer, message, at, (Second(other[4].pointer, f"{_who(other)} writes here"),), hint)

    def _name(self, x: int) -> str:
        return f"{self.tensor.name}[{', '.join(map(str, self._index(x).values()))}]"

    def _index(self, x: int) -> dict[str, int]:
        out: list[int] = []
        for n in reversed(self.shape):
            x, i = divmod(x, n)
            out.append(i)
        return {f"i{d}": i for d, i in enumerate(reversed(out))}

    # -- enumeration ------------------------------------------------------------------------------------------------
    def _hits(self, modes: str) -> Iterator[tuple[Hit, range]]:
        cluster = self.p.kernel.cluster
        for *at, rank in product(*(range(n) for n in reversed(self.grid)), range(cluster)):
            env = self.env | dict(zip(_BLOCKS, reversed(at), strict=True)) | {"rank": rank}
            for s in self.sites:
                if s.mode in modes:
                    yield from self._site(s, s.loops, env, self.p.everyone, (at[2] * cluster + rank, at[1], at[0]), {})

    def _site(
        self, s: Site, loops: tuple[Any, ...], env: Env, active: int, block: tuple[int, int, int], at: dict[str, int]
    ) -> Iterator[tuple[Hit, range]]:
        if loops:
            for inner in self._rounds(loops[0], env, active, s):
                here = at | ({loops[0].var: env[loops[0].var]} if loops[0].var in env else {})
                yield from self._site(s, loops[1:], env, inner, block, here)
            return
        for c in s.conds:
            active = self._chosen(c, active, env, s)
        if s.box:
            yield from (((*block, t, s, at), run) for t, run in self._boxes(s, env, active))
            return
        flat = self._flat(s, env, active) if active else []
        for t in bits(active):
            if flat[t] is not None:
                yield (*block, t, s, at), range(flat[t], flat[t] + s.width)

    def _boxes(self, s: Site, env: Env, active: int) -> Iterator[tuple[int, range]]:
        """The rows of each thread's box, as far as they lie inside the tensor."""
        starts = [self._column(s, e, env) for e in s.index] if active else []
        for t in bits(active):
            inside = [range(max(0, c[t]), min(n, c[t] + b)) for c, b, n in zip(starts, s.box, self.shape, strict=True)]
            for row in product(*inside[:-1]):
                first = 0
                for i, n in zip(row, self.shape[1:], strict=True):
                    first = (first + i) * n
                yield t, range(first + inside[-1].start, first + inside[-1].stop)

    def _rounds(self, loop: For, env: Env, active: int, s: Site) -> Iterator[int]:
        """Runs `env` through the rounds of a loop, with what the site needs of its carried values."""
        p = self.p
        if loop.until is not None and s.mode != "r":
            raise Unsupported(f"a store in the loop over {loop.var}, which may end early", s.pointer)
        for e in (loop.lo, loop.hi, loop.step):
            if why := p.data(e):
                raise Unsupported(f"a loop around a store whose trip count depends on {why}", s.pointer)
        carried = [c for c in loop.carry if c.name in self._needed(s) and c.name not in p.tainted]
        env.update([(c.name, p.value(c.init, env)) for c in carried])
        for n, inner in enumerate(self._values(loop, env, active)):
            if n > _ROUNDS:
                raise Unsupported(f"more than {_ROUNDS} rounds of the loop over {loop.var}", s.pointer)
            yield inner
            env.update([(c.name, p.value(c.next, env)) for c in carried])

    def _values(self, loop: For, env: Env, active: int) -> Iterator[int]:
        """Sets the loop's variable, and gives the threads that take part in each round."""
        p = self.p
        if loop.var in p.thread_loops:
            for n in count():
                env[f"{loop.var}#"] = n
                inner = p.chosen(p.thread_loops[loop.var], active, env)
                if not inner:
                    return
                yield inner
        else:
            for v in range(p.value(loop.lo, env), p.value(loop.hi, env), p.value(loop.step, env)):
                env[loop.var] = v
                yield active

    def _needed(self, s: Site) -> frozenset[str]:
        """The names that decide what a site does, carried values and what they are made of included."""
        if id(s) not in self.needed:
            bounds = (e for x in s.loops for e in (x.lo, x.hi, x.step))
            found = frozenset().union(*(names(self.p.inline(e)) for e in (*s.index, *s.conds, *bounds)))
            carried = {c.name: (c.init, c.next) for x in s.loops for c in x.carry}
            more = found
            while more:
                more = frozenset().union(*(names(self.p.inline(e)) for n in more for e in carried.get(n, ()))) - found
                found |= more
            self.needed[id(s)] = found
        return self.needed[id(s)]

    def _chosen(self, c: Expr, active: int, env: Env, s: Site) -> int:
        if self.p.data(c):
            if s.mode == "r":
                return active
            raise Unsupported(f"a store under {c}, which depends on data", s.pointer)
        if not self.p.thread_dependent(c):
            return active if self.p.value(c, env) else 0
        column = self.p.column(c)
        key = (c, *(self.p.value(k, env) for k in column.keys))
        if key not in self.masks:
            self.masks[key] = self.p.chosen(c, self.p.everyone, env)
        return active & self.masks[key]

    def _flat(self, s: Site, env: Env, active: int) -> list[Any]:
        """Element number of each thread; None where an index lies outside."""
        flat: list[Any] = [0] * self.p.threads
        for d, (e, n) in enumerate(zip(s.index, self.shape, strict=True)):
            top = n - (s.width - 1 if d == len(self.shape) - 1 else 0)
            flat = [
                None if f is None or not 0 <= i < top else f * n + i
                for f, i in zip(flat, self._column(s, e, env), strict=True)
            ]
        if any(flat[t] is None for t in bits(active)):
            self.left_out = True
        return flat

    def _column(self, s: Site, e: Expr, env: Env) -> list[int]:
        if self.p.data(e) or has_elements(e):
            raise Unsupported(f"an index {e} that depends on data", s.pointer)
        column = self.p.column(e)
        key = (e, *(self.p.value(k, env) for k in column.keys))
        if key not in self.lists:
            out = [0] * self.p.threads
            for (v,), (_, threads) in zip(column.at(key[1:]), column.classes, strict=True):
                for t in bits(threads):
                    out[t] = v
            self.lists[key] = out
        return self.lists[key]


def _who(h: Hit) -> str:
    loops = "".join(f", {n} = {v}" for n, v in h[5].items())
    return f"thread {h[3]} of block ({h[0]}, {h[1]}, {h[2]}){loops}"
