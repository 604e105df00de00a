"""AMK506: padding declared and not used."""

from __future__ import annotations

from collections.abc import Iterator

from amk.dsl.builder import KernelBuilder
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Padded, Strided, Swizzle
from amk.harness.advice_shared import unused_padding
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix
from amk.harness.findings import findings
from amk.harness.rule import Rule

__all__ = ["AMK506"]


class AMK506(Rule):
    """A shared array has longer rows than any index reaches.

    Why:    it takes shared memory; if it was meant against bank conflicts it works, and the layout `Padded` says so.
    Proof:  none needed, this is advice: the last index over all threads and the loops of constant trip count.
    Bad:    an array of 32 x 40 of which 32 columns are used.
    Good:   an array of 32 x 32, with `Padded` for the pitch.
    Fix:    The rows get their used length, or keep their pitch as padding where banks would clash without it.
    Source: https://github.com/deepspeedai/DeepSpeed/pull/8055.
    """

    code = "AMK506"
    title = "padding declared and not used"
    severity = "warning"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from findings(self, k, unused_padding(k))

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """Shorter rows; or, where banks would then clash, rows of the same pitch that say so."""
        from amk.harness.repair import set_field

        _, _, index = d.pointer.rpartition("/")
        b, used = k.kernel.buffers[int(index)], d.counterexample["used"]
        if isinstance(b.layout, Swizzle):
            return
        short = set_field(f"{d.pointer}/shape", [*b.shape[:-1], used])
        yield Fix(f"declare rows of {used}", short, safe=True)
        if not isinstance(b.layout, Strided):
            pad = b.shape[-1] - used + (b.layout.pad if isinstance(b.layout, Padded) else 0)
            same = set_field(f"{d.pointer}/layout", {"kind": "padded", "pad": pad})
            yield Fix(f"declare rows of {used}, padded by {pad}", (*short, *same), safe=True)

    @staticmethod
    def bad() -> KernelDescriptor:
        return _kernel(40)

    @staticmethod
    def good() -> KernelDescriptor:
        return _kernel(32)


def _kernel(columns: int) -> KernelDescriptor:
    k = KernelBuilder("unused_padding", target="sm_80", threads=32)
    s = k.shared("s", "f32", (2, columns))
    with k.loop("r", 0, 2, unroll="full") as r:
        k.store(s[r.var, k.t], 0.0)
    return k.finish(grid=(1,))
