"""What the compiled binary of a kernel really takes, as findings: compiled by NVRTC without a GPU, read back from the
cubin and from the compiler's log.

In: a kernel and a target. Out: a `Measured` with counts, occupancy and diagnostics. What breaks an assumption of the
certificate is an error, since such a binary is refused everywhere; what is only slower is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from amk.dsl.expr import integers
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.occupancy import occupancy
from amk.dsl.registers import has_budgets
from amk.dsl.target import Target
from amk.errors import CompileError
from amk.harness.advice_device import limiter, waves
from amk.harness.diagnostics import Diagnostic, Severity
from amk.harness.docs import titles
from amk.runtime.build import Binary, binary_of
from amk.synth.advisories import Advisory, advisories
from amk.synth.cache import Cache
from amk.synth.cubin import read_cubin

__all__ = ["Measured", "measured"]

_CODES = {"registers": "AMK112", "serialised": "AMK113", "injected": "AMK114"}
_HINTS = {
    "AMK112": "give the launch bound a minimum of blocks, or the roles smaller budgets",
    "AMK113": "keep accumulators untouched between the first wgmma and its wait, and leave registers for them",
    "AMK114": "wait for the group before its accumulators are read, and fence before they are written again",
}


@dataclass(frozen=True, slots=True)
class Measured:
    """Counts of a binary, and what is to be said of it. `registers` 0: there is none, and the diagnostics say why.

    Units:  registers a thread: compiled, estimated, and at most what the certificate assumed; bytes of spill and stack
            a thread, and of shared memory a block, the 1,024 that the system reserves aside; barriers of the block's 16
    """

    kernel: str
    target: str
    registers: int = 0
    estimated_registers: int = 0
    assumed_registers: int = 0
    spill_bytes: int = 0
    stack_bytes: int = 0
    shared_bytes: int = 0
    barriers: int = 0
    blocks_per_sm: int = 0
    warps: int = 0
    occupancy: float = 0.0
    limited_by: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()
    cubin: bytes = b""

    @property
    def ok(self) -> bool:
        return not any(d.severity == "error" for d in self.diagnostics)

    def to_dict(self) -> dict[str, Any]:
        """JSON data, without the binary."""
        data = {n: getattr(self, n) for n in self.__slots__ if n not in ("diagnostics", "cubin")}
        return {**data, "ok": self.ok, "diagnostics": [d.to_dict() for d in self.diagnostics]}

    def __str__(self) -> str:
        """The counts as a line."""
        if not self.registers:
            return "no binary"
        return (
            f"{self.registers} registers ({self.estimated_registers} estimated), {self.spill_bytes} bytes spilled, "
            f"{self.stack_bytes} of stack, {self.shared_bytes:,} of shared memory, {self.blocks_per_sm} blocks on an "
            f"SM ({self.occupancy:.0%} of its warps), limited by {self.limited_by}"
        )


def measured(kernel: KernelDescriptor, target: Target, cache: Cache | None = None) -> Measured:
    """The binary of a kernel on a target, from the cache or made now.

    Raises:  Refused where the kernel gets no certificate; EnvironmentProblem where there is no compiler
    """
    try:
        made = binary_of(kernel, target, cache)
    except CompileError as fault:
        refused = _finding("AMK110", "error", fault.message, fault.hint)
        said = _remarks(kernel, advisories(fault.log))
        return Measured(kernel.name, target.name, diagnostics=(refused, *said))
    real = read_cubin(made.cubin)[kernel.name]
    shared = real.static_shared_bytes + made.shared_bytes
    fits = occupancy(target, kernel.threads, made.registers, shared)
    return Measured(
        kernel.name, target.name, made.registers, made.estimated_registers, made.assumed_registers, made.spill_bytes,
        real.stack_bytes, shared, real.barriers, fits.blocks_per_sm, fits.warps, fits.fraction, fits.limited_by,
        tuple(_findings(kernel, target, made, real.stack_bytes, shared)), made.cubin,
    )  # fmt: skip


def _findings(
    kernel: KernelDescriptor, target: Target, made: Binary, stack: int, shared: int
) -> Iterator[Diagnostic]:  # fmt: skip
    from amk.synth.compile import fewer_blocks, stack_note

    if made.spill_bytes:
        text = f"{made.spill_bytes} bytes spilled a thread, {kernel.spill_bytes} allowed"
        yield _finding("AMK111", "warning", text, "use a smaller tile or fewer threads, or set spill_bytes to 0")
    elif stack:
        yield _finding("AMK111", "warning", stack_note(stack), "index register arrays by constants and unrolled loops")
    yield from _remarks(kernel, advisories(made.log))
    if made.registers > made.assumed_registers > 0:
        text = fewer_blocks(target, kernel.threads, shared, made.assumed_registers, made.registers)
        yield _finding("AMK115", "warning", text, "set min_blocks to the blocks that must fit")
    remark = limiter(kernel, target, made.registers, measured=True)
    if remark is not None:
        yield _finding("AMK503", "warning", remark.message, remark.hint, remark.pointer)
    grid = integers(*kernel.grid3)
    filled = waves(kernel, target, made.registers, (grid[0], grid[1], grid[2])) if grid else None
    if filled is not None:
        yield _finding("AMK504", "warning", filled.message, filled.hint, filled.pointer)


def _remarks(kernel: KernelDescriptor, said: tuple[Advisory, ...]) -> Iterator[Diagnostic]:
    """What ptxas remarks. A kernel without budgets has nothing to lose by setmaxnreg that is ignored."""
    for a in said:
        code = _CODES.get(a.kind)
        if code is not None:
            severity: Severity = "error" if code == "AMK112" and has_budgets(kernel) else "warning"
            yield _finding(code, severity, f"ptxas {a.code}: {a.text}", _HINTS[code])


def _finding(code: str, severity: Severity, message: str, hint: str, pointer: str = "") -> Diagnostic:
    return Diagnostic(code, titles()[code][0], severity, message, pointer, hint=hint)
