"""AMK106: named barrier out of limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Sync
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Related
from amk.harness.rule import Rule
from amk.harness.rules.examples import example

__all__ = ["NamedBarriers"]

WARP = 32


class NamedBarriers(Rule):
    """Each named barrier has a number of its own, and counts whole warps that the block has.

    Why:    A block has 16 barriers and no more. Number 0 is the barrier of the whole block: if some warps use it
            under a name, they meet others at a barrier that those never meant. A barrier counts arriving warps, so a
            count that is no multiple of 32, or larger than the block, is never reached or undefined.
    Proof:  Number and count are constants of each statement; statements of one number have one count.
    Bad:    A named barrier 1 for 48 of 128 threads.
    Good:   A named barrier 1 for 64 of 128 threads.
    Source: PTX ISA, "bar, barrier": operand a is 0 to 15, operand b a multiple of the warp size
    """

    code, title = "AMK106", "named barrier out of limits"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        most, first = k.target.architecture.named_barriers, dict[int, tuple[str, Sync]]()
        whole = any(s.kind == "sync" and s.scope == "block" for s in k.statements.values())
        for pointer, s in k.statements.items():
            if s.kind != "sync" or s.scope != "named":
                continue
            for message, hint in self._faults(s, k.kernel, most, whole):
                yield self.report(k, pointer, message, hint=hint)
            where, other = first.setdefault(s.id, (pointer, s))
            if other.threads != s.threads:
                message = f"barrier {s.id} counts {s.threads} threads here and {other.threads} elsewhere"
                related = (Related(where, "the other statement", other.at),)
                yield self.report(k, pointer, message, related=related, hint="one count for each number")

    @staticmethod
    def _faults(s: Sync, d: KernelDescriptor, most: int, whole: bool) -> Iterator[tuple[str, str]]:
        rounded = -(-d.threads // WARP) * WARP
        if s.id >= most:
            yield f"barrier {s.id}; a block has numbers 0 to {most - 1}", "share a number between phases"
        if s.id == 0 and whole:
            yield "barrier 0 is that of the whole block, which this kernel uses too", f"use 1 to {most - 1}"
        if s.threads % WARP:
            yield f"{s.threads} threads are no whole number of warps", f"use {-(-s.threads // WARP) * WARP}"
        if s.threads > rounded:
            yield f"{s.threads} threads are to arrive, and the block has {d.threads}", f"use at most {rounded}"

    @staticmethod
    def bad() -> KernelDescriptor:
        return _kernel(48)

    @staticmethod
    def good() -> KernelDescriptor:
        return _kernel(64)


def _kernel(threads: int) -> KernelDescriptor:
    meet: dict[str, Any] = {"kind": "sync", "scope": "named", "id": 1, "threads": threads}
    return example(body=[{"kind": "if", "cond": "t < 64", "body": [meet]}])
