"""A counterexample in words: sizes, iteration, block, threads and byte, in the order in which a reader asks for them.

In: a finding, and its kernel where there is one. Out: short phrases. The values themselves stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from amk.dsl.kernel import KernelDescriptor, walk
from amk.harness.diagnostics import Diagnostic

__all__ = ["situation", "threads"]

_INDEX = re.compile(r"i\d")  # an element of a tensor that no thread writes
_PLACES = frozenset(("bx", "by", "bz", "gx", "gy", "gz", "bx2", "by2", "bz2", "t", "t2", "rank", "byte"))


def situation(d: Diagnostic, kernel: KernelDescriptor | None = None) -> list[str]:
    """What has to be so for the fault to show: ["n = 129", "block 1 of 2", "threads 3 and 0", "byte 12 of x"]."""
    at = d.counterexample
    sizes = {p.name for p in kernel.scalars} if kernel is not None else set()
    loops = {s.var for _, s in walk(kernel.body) if s.kind == "for"} if kernel is not None else set()
    named = {n: v for n, v in at.items() if n not in _PLACES}
    index = {n: v for n, v in named.items() if _INDEX.fullmatch(n) and n not in sizes | loops}
    said = [f"{n} = {v}" for n, v in named.items() if n not in loops and n not in index]
    said += [f"iteration {n} = {v}" for n, v in named.items() if n in loops]
    said += [f"element ({', '.join(map(str, index.values()))})"] if index else []
    said += _blocks(at)
    said += [f"rank {at['rank']}"] if "rank" in at and kernel is not None and kernel.cluster > 1 else []
    return [*said, *_threads(at), *_byte(d, kernel)]


def threads(d: Diagnostic) -> tuple[str, str] | None:
    """The two parties of a fault between threads, each in words: the one at the finding, the one at its other place."""
    at = d.counterexample
    if "t" not in at or "t2" not in at:
        return None
    one, two = _block(at, ""), _block(at, "2")
    if two and one != two:
        return f"thread {at['t']} of {one}", f"thread {at['t2']} of {two}"
    return f"thread {at['t']}", f"thread {at['t2']}"


def _blocks(at: Mapping[str, int]) -> list[str]:
    one, two = _block(at, ""), _block(at, "2")
    if not one:
        return []
    grid = _tuple(at, ("gx", "gy", "gz"), "", 1)
    return [f"{one} and {two}" if two and two != one else one + (f" of {grid}" if grid else "")]


def _block(at: Mapping[str, int], suffix: str) -> str:
    found = _tuple(at, ("bx", "by", "bz"), suffix, 0)
    return f"block {found}" if found else ""


def _tuple(at: Mapping[str, int], names: tuple[str, ...], suffix: str, least: int) -> str:
    """A place in three dimensions; one number where the others are as small as they can be."""
    if not any(n + suffix in at for n in names):
        return ""
    values = [at.get(n + suffix, least) for n in names]
    # a block in x alone is a number, but not where a second one, or the grid, says more
    flat = all(at.get(n + s, low) == low for n, low in _OTHERS.items() for s in ("", "2"))
    return str(values[0]) if flat else f"({', '.join(map(str, values))})"


_OTHERS = {"by": 0, "bz": 0, "gy": 1, "gz": 1}


def _threads(at: Mapping[str, int]) -> list[str]:
    if "t" not in at:
        return []
    if "t2" not in at:
        return [f"thread {at['t']}"]
    return [f"threads {at['t']} and {at['t2']}"]


def _byte(d: Diagnostic, kernel: KernelDescriptor | None) -> list[str]:
    if "byte" not in d.counterexample:
        return []
    from amk.harness.address import accessed

    ref = accessed(kernel, d) if kernel is not None else None
    if ref is None or kernel is None:
        return [f"byte {d.counterexample['byte']}"]
    where = "shared memory" if kernel.space(ref) == "shared" else kernel.resolve(ref).buffer
    return [f"byte {d.counterexample['byte']} of {where}"]
