"""`amk check --measured`: the result of a check comes in, the same with what the compiled binary says comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from amk.cli.checked import Checked
from amk.dsl.expr import integers
from amk.dsl.record import replace
from amk.errors import Refused

if TYPE_CHECKING:
    from amk.dsl.target import Target

__all__ = ["with_binary"]


def with_binary(found: Checked, targets: Sequence[Target | None]) -> Checked:
    """The result with the findings of its binary, which knows better than the estimate what limits occupancy.

    A kernel with an error is not compiled. Warnings that the descriptor suppresses stay suppressed.
    """
    kernel = found.kernel
    if kernel is None or found.code != 0:
        return found
    from amk.harness.check import made_for
    from amk.harness.suppressions import settled
    from amk.runtime.measured import measured

    target = next((t for t in targets if t is not None and t.name == found.report.target), None)
    try:
        real = measured(kernel, made_for(kernel, target))
    except Refused as fault:  # what is proved or compared for a certificate alone
        report = fault.report or found.report
        return replace(found, report=report, code=report.exit_code() or fault.exit_code, refused=fault.message)
    known = {"AMK503"} | ({"AMK504"} if integers(*kernel.grid) is not None else set()) if real.registers else set()
    kept = tuple(d for d in found.report.diagnostics if d.code not in known)
    stands, meant = settled(kernel, real.diagnostics)
    before = tuple(d for d in found.report.suppressed if d.code not in known)
    report = found.report._replace(diagnostics=(*kept, *stands), suppressed=(*before, *meant))
    return replace(found, report=report, code=report.exit_code(), measured=real)
