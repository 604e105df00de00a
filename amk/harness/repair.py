"""What the rules' repairs are made of: edits that guard, move, insert and wrap statements of a kernel.

In: a kernel and JSON pointers into it. Out: edits. Nothing here decides whether a repair helps: `mend` checks the
kernel again and keeps what does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from amk.dsl.expr import Apply, Expr, has_elements, names
from amk.dsl.instructions import ROWS
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.nodes import Statement
from amk.dsl.patch import Edit
from amk.dsl.types import Queue

__all__ = [
    "ASYNC_FENCE", "BLOCK_BARRIER", "CLUSTER_BARRIER", "WGMMA_FENCE", "barriers_between", "commit", "conjunction",
    "divergent", "insert", "moved_out", "queue_of", "set_field", "sibling", "uniform", "wait", "wrapped",
]  # fmt: skip

BLOCK_BARRIER: dict[str, Any] = {"kind": "sync"}
CLUSTER_BARRIER: dict[str, Any] = {"kind": "sync", "scope": "cluster", "relaxed": True}
ASYNC_FENCE: dict[str, Any] = {"kind": "fence", "what": "async"}
WGMMA_FENCE: dict[str, Any] = {"kind": "fence", "what": "wgmma"}


def queue_of(s: Statement | None) -> Queue | None:
    """The queue in which the work that a statement starts is waited for."""
    row = ROWS.get(s.row) if s is not None and s.kind == "call" else None
    done = row.completes if row is not None else ""
    return done if done in ("cp_async", "bulk", "wgmma") else None


def commit(queue: Queue) -> dict[str, Any]:
    """The statement that closes the open group of a queue."""
    return {"kind": "commit", **({} if queue == "cp_async" else {"queue": queue})}


def wait(queue: Queue) -> dict[str, Any]:
    """The statement that waits for all groups of a queue."""
    return {"kind": "wait", "queue": queue}


# ---------------------------------------------------------------------------------------------------------------- edits
def insert(place: str, *statements: dict[str, Any]) -> tuple[Edit, ...]:
    """Statements that come before what stands at `place`, in this order."""
    body, index = sibling(place)
    return tuple(Edit("add", f"{body}/{index + i}", s) for i, s in enumerate(statements))


def wrapped(first: str, count: int, cond: str) -> tuple[Edit, ...]:
    """`count` statements from `first` on, put under a condition."""
    body, index = sibling(first)
    around = Edit("add", first, {"kind": "if", "cond": cond, "body": []})
    move = Edit("move", f"{first}/body/-", source=f"{body}/{index + 1}")
    return (around, *(move for _ in range(count)))


def set_field(pointer: str, value: Any) -> tuple[Edit, ...]:
    """A member of an object, whether it stood there or had its default."""
    return (Edit("add", pointer, value),)


def sibling(pointer: str) -> tuple[str, int]:
    """The array that holds the value at a pointer, and its index there."""
    body, _, index = pointer.rpartition("/")
    return body, int(index)


# ------------------------------------------------------------------------------------------------------------- barriers
def barriers_between(kernel: KernelDescriptor, first: str, second: str) -> Iterator[str]:
    """Where a block barrier would stand between two accesses: the places before which it can be inserted, best first.

    Straight before the second access, or what holds it, in the innermost body that has both (or has the loop that
    brings one round to the other); then the outer bodies. Only where control is the same for all threads.
    """
    uneven = divergent(kernel)
    for body in _bodies(first, second):
        if not uniform(kernel, body, uneven):
            continue
        after, before = _child(body, first), _child(body, second)
        if before is not None:
            yield f"{body}/{before}"
        if after is not None and before is not None and after >= before:  # round a loop: also behind the first
            yield f"{body}/{after + 1}"


def _bodies(first: str, second: str) -> Iterator[str]:
    """The bodies around the second access that hold the first too, innermost first."""
    parts = second.split("/")
    for end in range(len(parts) - 1, 0, -1):
        body = "/".join(parts[:end])
        if parts[end].isdigit() and (first + "/").startswith(body + "/"):
            yield body


def _child(body: str, pointer: str) -> int | None:
    rest = pointer[len(body) + 1 :].partition("/")[0] if pointer.startswith(body + "/") else ""
    return int(rest) if rest.isdigit() else None


def divergent(kernel: KernelDescriptor) -> frozenset[str]:
    """Names whose value may differ between the threads of a block: what depends on the thread or on data."""
    found = {"t"}
    for _ in range(2):  # twice: carried values of a loop may depend on each other
        for _, s in walk(kernel.body):
            if s.kind == "let" and s.value is not None and _uneven(s.value, found):
                found.add(s.name)
            elif s.kind == "for":
                if any(_uneven(e, found) for e in (s.lo, s.step)):
                    found.add(s.var)
                found |= {c.name for c in s.carry if _uneven(c.init, found) or _uneven(c.next, found)}
    return frozenset(found)


def _uneven(e: Expr, uneven: set[str] | frozenset[str]) -> bool:
    return has_elements(e) or bool(names(e) & uneven)


def uniform(kernel: KernelDescriptor, body: str, uneven: frozenset[str]) -> bool:
    """Whether all threads of a block reach a body together, as far as the text shows."""
    inside = body + "/"
    for pointer, s in walk(kernel.body):
        if inside.startswith(pointer + "/"):
            if s.kind == "team" or (s.kind == "if" and _uneven(s.cond, uneven)):
                return False
            if s.kind == "for" and (s.until is not None or any(_uneven(e, uneven) for e in (s.lo, s.hi, s.step))):
                return False
    return True


def moved_out(statements: dict[str, Statement], barrier: str) -> Iterator[tuple[Edit, ...]]:
    """A barrier taken out of the branch around it: behind the branch, before it, or with the branch cut in two."""
    body, index = sibling(barrier)
    branch = body.removesuffix("/body")
    around = statements.get(branch)
    if around is None or around.kind != "if":
        return
    outer, at = sibling(branch)
    count = len(around.body)
    if count == 1:
        yield (Edit("move", f"{outer}/{at + 1}", source=barrier), Edit("remove", branch))
    elif index == count - 1:
        yield (Edit("move", f"{outer}/{at + 1}", source=barrier),)
    elif index == 0:
        yield (Edit("move", branch, source=barrier),)
    elif not has_elements(around.cond):  # what stands before the barrier might change the elements of the condition
        yield _cut(branch, outer, at, index, count, str(around.cond))


def _cut(branch: str, outer: str, at: int, index: int, count: int, cond: str) -> tuple[Edit, ...]:
    """The branch up to the barrier, the barrier, and a second branch with the rest."""
    second = f"{outer}/{at + 1}"
    rest = Edit("move", f"{second}/body/-", source=f"{branch}/body/{index + 1}")
    return (
        Edit("add", second, {"kind": "if", "cond": cond, "body": []}),
        *(rest for _ in range(count - index - 1)),
        Edit("move", second, source=f"{branch}/body/{index}"),
    )


def conjunction(parts: Sequence[Expr]) -> Expr:
    """All of the conditions."""
    out = parts[0]
    for p in parts[1:]:
        out = Apply("and", (out, p))
    return out
