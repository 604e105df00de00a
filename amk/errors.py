"""Every error that amk raises on purpose, as one tree.

AmkError
├── InputError          the caller's file, argument or name cannot be used          (exit code 2)
│   ├── DescriptorError   a descriptor does not read: JSON, schema, names, types
│   └── ArgumentError     an array or option of a call: shape, dtype, device, stride
├── Refused             a well-formed kernel that the harness does not accept       (exit code 1)
│   └── Undecided         refused only because the solver reached its limit         (exit code 3)
├── CompileError        NVRTC, or a binary that breaks what the certificate assumed (exit code 1)
├── WrongResult         a run whose numbers are outside the stated tolerance        (exit code 1)
├── KernelFault         an access or an assumption that failed in a checked build   (exit code 1)
├── EnvironmentProblem  a device, driver, compiler or folder that is missing        (exit code 2)
│   └── LaunchError       the driver refused a load, a launch or a copy
└── InternalError       our own fault: please send the file                         (exit code 4)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amk.harness.diagnostics import Report

__all__ = [
    "AmkError", "ArgumentError", "CompileError", "DescriptorError", "EnvironmentProblem", "InputError",
    "InternalError", "KernelFault", "LaunchError", "Refused", "Undecided", "WrongResult",
]  # fmt: skip


class AmkError(Exception):
    """What went wrong, where, and what to do about it (`hint`)."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint

    def __str__(self) -> str:
        return f"{self.message}\n  try: {self.hint}" if self.hint else self.message


class InputError(AmkError):
    """Something the caller supplied cannot be used."""


class DescriptorError(InputError):
    """A descriptor that does not read. `pointer` is a JSON pointer; `line` and `column` count from 1 (0: unknown)."""

    def __init__(
        self, message: str, *, code: str = "AMK001", pointer: str = "", line: int = 0, column: int = 0, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.code, self.pointer, self.line, self.column = code, pointer, line, column


class ArgumentError(InputError):
    """An array or an option of a call cannot be used: names the argument and the property at fault."""


class Refused(AmkError):
    """The harness does not accept a kernel; `report` says why, with counterexamples."""

    exit_code = 1

    def __init__(self, message: str, *, report: Report | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.report = report


class Undecided(Refused):
    """Refused only because a proof obligation stayed unknown."""

    exit_code = 3


class CompileError(AmkError):
    """NVRTC refused the text, or the binary breaks what the certificate assumed; `log` is the compiler's own."""

    exit_code = 1

    def __init__(self, message: str, *, log: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.log = log


class WrongResult(AmkError):
    """Numbers outside the stated tolerance."""

    exit_code = 1


class KernelFault(AmkError):
    """The first thing that failed in a run with `checked=True`, and how many did.

    kind       bounds, alignment or assume; on the CPU executor also race, uninitialised, divergence, overflow, async
    pointer    the statement's JSON pointer, `at` where its author wrote it
    block      (x, y, z), and `thread` in it
    operand    what was accessed, as the kernel spells it; `index` in `dimension` lies outside 0 to `limit` - 1.
               Without a dimension, `index` and `limit` count bytes from the start of the array
    What does not apply is None, or "" where it is text.
    """

    exit_code = 1

    def __init__(
        self, message: str, *, kind: str, pointer: str = "", at: str = "", block: tuple[int, int, int] | None = None,
        thread: int | None = None, operand: str = "", dimension: int | None = None, index: int | None = None,
        limit: int | None = None, count: int = 1, hint: str = "",
    ) -> None:  # fmt: skip
        super().__init__(message, hint=hint)
        self.kind, self.pointer, self.at, self.block, self.thread = kind, pointer, at, block, thread
        self.operand, self.dimension, self.index, self.limit, self.count = operand, dimension, index, limit, count

    def to_dict(self) -> dict[str, object]:
        """JSON data."""
        names = ("kind", "pointer", "at", "block", "thread", "operand", "dimension", "index", "limit", "count")
        return {n: getattr(self, n) for n in names}


class EnvironmentProblem(AmkError):
    """This machine lacks something: a device, a driver, a compiler, a writable folder."""


class LaunchError(EnvironmentProblem):
    """The driver refused a module, a launch or a copy; `status` is its own name for it."""

    def __init__(self, message: str, *, status: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


class InternalError(AmkError):
    """Our own fault."""

    exit_code = 4
    code = "AMK900"
