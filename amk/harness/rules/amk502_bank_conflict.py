"""AMK502: shared bank conflict."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.builder import KernelBuilder
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Padded
from amk.dsl.nodes import Buffer
from amk.dsl.types import nbytes
from amk.harness.advice_shared import bank_conflicts
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix
from amk.harness.findings import findings
from amk.harness.form import operands
from amk.harness.rule import Rule

__all__ = ["AMK502"]


class AMK502(Rule):
    """A shared access takes at least twice the passes that it would without bank conflicts.

    Why:    lanes that want different words of one bank are served one after the other: a column of a 32-wide tile takes
            32 passes.
    Proof:  none needed, this is advice: the addresses of the first warp that takes part are enumerated. 32 banks of 4
            bytes; up to 4 bytes a lane go in one pass, 8 bytes in two half-warps, 16 in four quarter-warps; lanes that
            want the same word share it, and groups of a load go together in pairs where each lane of the warp has a
            neighbour (^ 1, or ^ 2) that wants the same words. Copies by cp.async are left out.
    Bad:    a column of a 32 x 32 float tile.
    Good:   rows padded by one element, or a swizzle.
    Fix:    Rows of an array without a layout are padded.
    Source: CUDA C++ Programming Guide, shared memory; benchmarks/bank_conflicts.py;
            https://github.com/deepspeedai/DeepSpeed/pull/8055.
    """

    code = "AMK502"
    title = "shared bank conflict"
    severity = "warning"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from findings(self, k, bank_conflicts(k))

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """Longer rows, by one element or by 16 bytes (which keeps vectors aligned)."""
        from amk.harness.repair import set_field

        s = k.statements.get(d.pointer)
        for _, ref in operands(s) if s is not None else ():
            b = k.kernel.declarations.get(k.kernel.resolve(ref).buffer)
            if not isinstance(b, Buffer) or b.space != "shared" or len(b.shape) < 2:
                continue
            if b.layout is None or isinstance(b.layout, Padded):
                has = b.layout.pad if b.layout is not None else 0
                for pad in dict.fromkeys((has + 1, has + max(1, 16 // nbytes(b.dtype)))):
                    edits = set_field(f"{k.kernel.pointer_of(b.name)}/layout", {"kind": "padded", "pad": pad})
                    yield Fix(f"pad the rows of {b.name} by {pad}", edits, safe=True)

    @staticmethod
    def bad() -> KernelDescriptor:
        return _kernel(0)

    @staticmethod
    def good() -> KernelDescriptor:
        return _kernel(1)


def _kernel(pad: int) -> KernelDescriptor:
    k = KernelBuilder("bank_conflict", target="sm_80", threads=32)
    s = k.shared("s", "f32", (32, 32), layout=Padded(pad=pad))
    k.store(s[k.t, 31], 0.0)
    return k.finish(grid=(1,))
