"""AMK305: warp instruction without the lanes that it names."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.builder import KernelBuilder
from amk.dsl.kernel import KernelDescriptor
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Related
from amk.harness.findings import findings
from amk.harness.rule import Rule

__all__ = ["AMK305"]


class AMK305(Rule):
    """An instruction of whole warps (a shuffle) that other lanes of a warp reach than its mask names.

    Why:    its mask names the lanes that take part, all 32 unless `members` says which; one that has left, or has
            taken another path, makes the warp wait for ever, and one that comes unnamed makes the result undefined.
    Proof:  the threads that reach it are enumerated; of each warp exactly the named lanes must be there, or none.
    Bad:    a shuffle under `t < 16`.
    Good:   the shuffle under `t < 32`.
    Source: PTX ISA, shfl.sync (behaviour is undefined if an executing thread is not in the mask, or the reverse).
    """

    code = "AMK305"
    title = "warp instruction without the lanes that it names"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        threads = Related("/threads", "the number of threads decides")
        for d in findings(self, k, k.order.of("AMK305")):
            yield d if d.related else d._replace(related=(threads,))

    @staticmethod
    def bad() -> KernelDescriptor:
        return _kernel(16)

    @staticmethod
    def good() -> KernelDescriptor:
        return _kernel(32)


def _kernel(lanes: int) -> KernelDescriptor:
    k = KernelBuilder("partial_warp", target="sm_80", threads=64)
    a, b = k.registers("a", "f32", (1,)), k.registers("b", "f32", (1,))
    k.store(a[0], 1.0)
    with k.when(k.t < lanes):
        k.call("shfl.down", {"dst": b[0]}, value=a[0], delta=8)
    return k.finish(grid=(1,))
