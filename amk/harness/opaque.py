"""Named values that the cutoff cannot read, taken as parameters of their own.

`mine = min(each, steps - min(bz * each, steps))`, the steps of one of several blocks that share a sum, is no sum of
multiples of sizes and blocks. But whatever the sizes are, it is some number of its interval. So a kernel that is right
for every such number, whatever the sizes are, is right: more is walked than can happen, and nothing less. What goes
wrong in that larger set may be impossible, so it refutes nothing.
"""

from __future__ import annotations

from amk.dsl.expr import Expr, names, subst
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.nodes import Let, Param, Statement
from amk.harness.affine import Facts
from amk.harness.bounds import size_ranges
from amk.harness.events import BLOCKS
from amk.harness.intervals import Interval, of_dtype

__all__ = ["opaque"]


def opaque(kernel: KernelDescriptor) -> KernelDescriptor | None:
    """The kernel with every named trip count of sizes and blocks as a parameter; None where it has none.

    Statements keep their places, so what is found in it is found in the kernel.
    """
    sizes = size_ranges(kernel)
    known = sizes.keys() | set(BLOCKS)
    facts = Facts({**sizes, **dict.fromkeys(BLOCKS, (0, 2**31 - 1))}, {})
    wanted = frozenset().union(*(names(s.hi) for _, s in walk(kernel.body) if s.kind == "for"))
    lets: dict[str, Expr] = {}
    made: dict[str, Param] = {}
    for _, s in walk(kernel.body):
        if s.kind == "let" and s.value is not None:
            lets[s.name] = value = subst(s.value, lets)
            if s.name in wanted and s.dtype == "i32" and names(value) and names(value) <= known:
                low, high = _inside(facts.interval(value), of_dtype("i32"))
                made[s.name] = Param(name=s.name, dtype="i32", min=low, max=high)
    if not made:
        return None
    return kernel.replaced(params=(*kernel.params, *made.values()), body=_without(kernel.body, frozenset(made)))


def _inside(span: Interval, whole: Interval) -> Interval:
    return max(span[0], whole[0]), min(span[1], whole[1])


def _without(body: tuple[Statement, ...], taken: frozenset[str]) -> tuple[Statement, ...]:
    """The statements, a Let of a taken name under a name that nothing uses."""
    out: list[Statement] = []
    for s in body:
        if isinstance(s, Let) and s.name in taken:
            s = s.model_copy(update={"name": f"{s.name}#"})
        elif s.kind in ("for", "if"):
            s = s.model_copy(update={"body": _without(s.body, taken)})
        out.append(s)
    return tuple(out)
