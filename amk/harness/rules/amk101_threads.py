"""AMK101: block too large."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic
from amk.harness.rule import Rule
from amk.harness.rules.examples import example

__all__ = ["Threads"]


class Threads(Rule):
    """A block has at most the threads that the target allows.

    Why:    The launch fails.
    Proof:  One comparison with the target's data.
    Bad:    2048 threads.
    Good:   1024 threads or fewer.
    Source: CUDA C++ Programming Guide, Technical Specifications per Compute Capability
    """

    code, title = "AMK101", "block too large"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        most = k.target.architecture.max_threads_per_block
        if k.kernel.threads > most:
            message = f"{k.kernel.threads} threads in a block; {k.target.name} allows {most}"
            yield self.report(
                k, "/threads", message, hint=f"use at most {most} threads, and more blocks or more work a thread"
            )

    @staticmethod
    def bad() -> KernelDescriptor:
        return example(threads=2048)

    @staticmethod
    def good() -> KernelDescriptor:
        return example(threads=1024)
