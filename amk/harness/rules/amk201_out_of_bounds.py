"""AMK201: global access out of bounds."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.expr import Const, Expr
from amk.dsl.infer import family
from amk.dsl.instructions import ROWS
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Param
from amk.dsl.types import nbytes
from amk.harness.access import dimensions, inside
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix
from amk.harness.form import kind_of, operands
from amk.harness.rule import Rule
from amk.harness.rules.examples import example, small
from amk.harness.rules.witnessed import claimed

__all__ = ["OutOfBounds"]


class OutOfBounds(Rule):
    """Every access to a tensor lies inside it, in each dimension, for all sizes.

    Why:    Memory of others is read or overwritten, and only some sizes show it.
    Proof:  `0 <= i` and `i + width <= size` under the guards, by affine forms, else by Z3;
            in each dimension, so also as a linear address. What of a tensor map's box lies outside has a meaning of its
            own (it is filled, or not written), and needs no proof.
    Bad:    `z[i]` without a guard, where the last block is partly outside.
    Good:   `if i < n` around it, or `when` on the load.
    Fix:    The condition is put around the access, or into the `when` that the load has.
    Source: github.com/openvinotoolkit/openvino/pull/36559; Betts et al., GPUVerify (OOPSLA 2012)
    """

    code, title = "AMK201", "global access out of bounds"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from claimed(self, k)

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """The condition that is missing, around the access (with its neighbours that miss the same) or in it."""
        from amk.harness.repair import conjunction, set_field, wrapped

        s, missing = k.statements.get(d.pointer), _missing(k, d.pointer)
        if s is None or not missing:
            return
        cond, there = str(conjunction(missing)), d.pointer
        if s.kind == "load" and s.when is not None:
            both = str(conjunction((s.when, *missing)))
            yield Fix(f"load only where {cond} too", set_field(f"{there}/when", both), safe=True)
        if s.kind in _DATA:
            first, count = _run(k, there)
            yield Fix(f"put it under `if {cond}`", wrapped(first, count, cond), safe=True)
            yield Fix(f"put it under `if {cond}`", wrapped(there, 1, cond), safe=True)
        if s.kind == "load" and s.when is None:
            zero = {"float": "0.0", "bool": "false"}.get(family(kind_of(k.kernel, s.dst)[1]), "0")
            edits = (*set_field(f"{there}/when", cond), *set_field(f"{there}/other", zero))
            yield Fix(f"load only where {cond}, and take {zero} elsewhere", edits)
        row = ROWS.get(s.row) if s.kind == "call" else None
        if s.kind == "call" and row is not None and row.guard:
            given = s.args.get(row.guard, Const(True))
            guard = conjunction(missing if given == Const(True) else (given, *missing))
            args = {n: str(e) for n, e in {**s.args, row.guard: guard}.items()}
            yield Fix(f"copy only where {cond}, and zeros elsewhere", set_field(f"{there}/args", args))

    @staticmethod
    def bad() -> KernelDescriptor:
        body = small()["body"]
        return example(body=[body[0], body[1]["body"][0]])

    @staticmethod
    def good() -> KernelDescriptor:
        body = small()["body"]
        return example(body=[body[0], {**body[1]["body"][0], "when": "i < n", "other": "0.0"}])


_DATA = ("load", "store", "atomic")
_FAR = 16  # statements on each side that a guard is put around as well


def _missing(k: Context, pointer: str) -> tuple[Expr, ...]:
    """The conditions that the findings at a statement ask for."""
    s, wanted = k.statements[pointer], [d.hint for d in k.found if d.code == "AMK201" and d.pointer == pointer]
    found: dict[Expr, None] = {}
    for role, ref in operands(s):
        full = k.kernel.resolve(ref)
        p = k.kernel.declarations.get(full.buffer)
        if isinstance(p, Param) and p.shape:
            for i, size, width in dimensions(full.index, p.shape, _width(s, role, nbytes(p.dtype))):
                found |= {c: None for c in inside(i, size, width) if any(f"`{c}`" in hint for hint in wanted)}
    return tuple(found)


def _width(s: object, role: str, size: int) -> int:
    """Elements that a statement moves along the last dimension of an operand."""
    if getattr(s, "kind", "") == "call":
        row = ROWS[getattr(s, "row", "")]
        return max(1, next((o.nbytes for o in row.operands if o.role == role), 0) // size)
    values = getattr(s, "values", None)
    return len(values) if values is not None else int(getattr(s, "width", 1))


def _run(k: Context, pointer: str) -> tuple[str, int]:
    """The first and the number of the statements around one that miss the same conditions, and all between them."""
    from amk.harness.repair import sibling

    body, index = sibling(pointer)
    missing, first, last = _missing(k, pointer), index, index
    for step in (-1, 1):
        at = index + step
        while abs(at - index) <= _FAR and getattr(k.statements.get(f"{body}/{at}"), "kind", "") in _DATA:
            if _missing(k, f"{body}/{at}") == missing:
                first, last = min(first, at), max(last, at)
            at += step
    return f"{body}/{first}", last - first + 1
