"""AMK404: access contract broken."""

from __future__ import annotations

import re
from collections.abc import Iterator

from amk.dsl.instructions import ROWS
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.nodes import Statement
from amk.dsl.types import Access
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix
from amk.harness.form import operands
from amk.harness.operands import contract_faults
from amk.harness.rule import Rule
from amk.harness.rules.examples import example

__all__ = ["AccessContract"]


class AccessContract(Rule):
    """A tensor is used only as its declaration says: read, written, both, or accumulated.

    Why:    The launcher places, shares and zeroes tensors by that declaration.
    Proof:  Every access to a tensor, by itself or through a tensor map, is compared with its `access`.
    Bad:    A store to a tensor declared `read`.
    Good:   Declare it `write`.
    Source: the IR's definition (types)
    """

    code, title = "AMK404", "access contract broken"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        ways: dict[str, Access | None] = {}
        for pointer, s in k.statements.items():
            for message in contract_faults(k.kernel, s):
                name = _named(message)
                if name not in ways:
                    ways[name] = _used(k.kernel, name)
                yield self.report(k, pointer, message, hint=self._hint(name, ways[name]))

    @staticmethod
    def _hint(name: str, wanted: Access | None) -> str:
        if wanted is None:
            return f"use {name} with atomic add alone, or plainly everywhere"
        return f"declare access={wanted!r} for {name}, if it is the tensor that is meant"

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """The access that the kernel makes; not safe, since callers rely on the declaration."""
        from amk.harness.repair import set_field

        name = _named(d.message)
        if (wanted := _used(k.kernel, name)) is not None:
            edits = set_field(f"{k.kernel.pointer_of(name)}/access", wanted)
            yield Fix(f"declare access={wanted!r} for {name}", edits)

    @staticmethod
    def bad() -> KernelDescriptor:
        return example([{"kind": "store", "dst": "x[i]", "values": ["0.0"]}])

    @staticmethod
    def good() -> KernelDescriptor:
        return example([{"kind": "store", "dst": "z[i]", "values": ["0.0"]}])


def _named(message: str) -> str:
    """The tensor that a finding is about."""
    found = re.search(r"(?:and|on) (\w+)(?:,| is)", message)
    return found[1] if found else ""


def _used(kernel: KernelDescriptor, name: str) -> Access | None:
    """The `access` that a kernel's statements make of a tensor; None where that is no one kind."""
    uses = set()
    for _, s in walk(kernel.body):
        for role, ref in operands(s):
            if role != "view" and kernel.resolve(ref).buffer == name:
                uses.add(_use(s, role))
    if uses == {"atomic"}:
        return "add"
    ways: dict[frozenset[str], Access] = {frozenset(("read",)): "read", frozenset(("write",)): "write"}
    return ways.get(frozenset(uses), "readwrite") if uses and uses <= {"read", "write", "atomic"} else None


def _use(s: Statement, role: str) -> str:
    if s.kind == "atomic":
        return "atomic"
    if s.kind == "call":
        return next((o.mode for o in ROWS[s.row].operands if o.role == role), "read") if s.row in ROWS else "read"
    return "read" if (s.kind, role) in (("load", "src"), ("wait", "flag")) else "write"
