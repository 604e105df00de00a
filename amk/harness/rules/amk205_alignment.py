"""AMK205: misaligned access."""

from __future__ import annotations

import re
from collections.abc import Iterator

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Buffer, Param
from amk.harness.context import Context
from amk.harness.diagnostics import Diagnostic, Fix
from amk.harness.form import operands
from amk.harness.rule import Rule
from amk.harness.rules.examples import example
from amk.harness.rules.witnessed import claimed

__all__ = ["Alignment"]


class Alignment(Rule):
    """Every access is aligned to its width, for all sizes.

    Why:    A misaligned vector or asynchronous access is a fault of the whole context.
    Proof:  Base, offset and every stride in bytes are multiples of the width: by coefficients, else by Z3. Boxes of a
            tensor map start at 128 bytes of shared memory, bulk copies at 16, tiles of wgmma at whole steps.
    Bad:    A load of four f32 at `i` instead of `4*i`.
    Good:   An index, strides and a base that are multiples of the width.
    Fix:    A shared array whose declared alignment is too small gets a larger one.
    Source: CUDA C++ Programming Guide, Device Memory Accesses; github.com/NVIDIA/cutlass/issues/49
    """

    code, title = "AMK205", "misaligned access"

    def check(self, k: Context) -> Iterator[Diagnostic]:
        yield from claimed(self, k)

    def fixes(self, k: Context, d: Diagnostic) -> Iterator[Fix]:
        """A larger declared alignment: of a shared array freely, of an argument only if callers can keep it."""
        from amk.harness.repair import set_field

        wanted = re.search(r"declare align=(\d+)", d.hint)
        s = k.statements.get(d.pointer)
        for _, ref in operands(s) if wanted and s is not None else ():
            owner = k.kernel.declarations.get(k.kernel.resolve(ref).buffer)
            if isinstance(owner, (Param, Buffer)) and owner.align % int(wanted[1] if wanted else 1):
                place = k.kernel.pointer_of(owner.name)
                free = isinstance(owner, Buffer) and owner.space == "shared"
                if free or isinstance(owner, Param):
                    edits = set_field(f"{place}/align", int(wanted[1]) if wanted else 1)
                    yield Fix(f"declare align={wanted[1] if wanted else 1} for {owner.name}", edits, safe=free)

    @staticmethod
    def bad() -> KernelDescriptor:
        load = {"kind": "load", "dst": "a[0]", "src": "x[i]", "width": 4, "when": "i + 4 <= n", "other": "0.0"}
        return example([load])

    @staticmethod
    def good() -> KernelDescriptor:
        load = {"kind": "load", "dst": "a[0]", "src": "x[i // 4 * 4]", "width": 4, "other": "0.0"}
        return example([{**load, "when": "i // 4 * 4 + 4 <= n"}])
