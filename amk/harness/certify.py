"""`certify`: a certificate for a kernel without any fault, or the reason why there is none.

In: a KernelDescriptor, the target's name or data, and the operator's reference. Out: a Certificate, which nothing else
can make, and without which nothing is printed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.target import Target
from amk.errors import InternalError, Refused, Undecided
from amk.harness.check import check, made_for
from amk.harness.diagnostics import Diagnostic, Report
from amk.harness.record import content, printed

__all__ = ["Certificate", "Reference", "certify"]

Reference = Callable[[KernelDescriptor], str | None]
Meaning = Literal["checked", "not checked"]
_TOKEN = object()


@dataclass(frozen=True)
class Certificate:
    """A kernel that the harness accepted on a target, and the report that says why. Made by `certify` alone."""

    kernel: KernelDescriptor
    target: Target
    report: Report
    meaning: Meaning
    token: object = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.token is not _TOKEN:
            raise InternalError("a certificate is made by certify() alone", hint="call amk.harness.certify.certify")
        object.__setattr__(self, "token", None)

    @cached_property
    def data(self) -> dict[str, Any]:
        """Everything that it says, as JSON data."""
        return content(self.kernel, self.target, self.report, self.meaning)

    @property
    def digest(self) -> str:
        """SHA-256 of everything that it says."""
        return str(self.data["digest"])

    def to_dict(self) -> dict[str, Any]:
        """JSON data, as `amk verify` reads it."""
        return dict(self.data)

    def to_json(self) -> str:
        """The certificate as JSON text."""
        return printed(self.data)


def certify(
    kernel: KernelDescriptor, target: Target | str | None = None, *, reference: Reference | None = None
) -> Certificate:
    """The certificate of a kernel without any fault; Refused or Undecided (with the report) otherwise.

    Bounds are proved by Z3. `reference` runs the kernel against its operator and returns what differs, or None.
    """
    place = made_for(kernel, target)
    report = check(kernel, place, prover="z3")
    if report.ok and reference is not None and (wrong := reference(kernel)) is not None:
        hint = "compare the array and the sizes that are named with the operator's definition"
        fault = Diagnostic("AMK403", "wrong result", "error", wrong, hint=hint)
        report = report._replace(diagnostics=(*report.diagnostics, fault))
    if not report.ok:
        raise _refusal(report)
    meaning: Meaning = "not checked" if reference is None else "checked"
    return Certificate(kernel, place, report, meaning, _TOKEN)


def _refusal(report: Report) -> Refused:
    first = (report.errors or report.undecided)[0]
    message = f"{report.kernel} is refused on {report.target}: {first.code} {first.message}"
    kind = Refused if report.errors else Undecided
    return kind(message, report=report, hint=first.hint)
