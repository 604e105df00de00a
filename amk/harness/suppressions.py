"""Suppressions: warnings that a kernel says it means, told apart from those that still want attention.

In: a kernel, and what the rules found. Out: what stands, and what is suppressed, with the reason. Only warnings are
ever suppressed; an error stands whatever a descriptor says (AMK090 refuses the attempt).
"""

from __future__ import annotations

from collections.abc import Iterable

from amk.dsl.kernel import KernelDescriptor, Suppression
from amk.harness.diagnostics import Diagnostic

__all__ = ["covers", "settled"]


def covers(s: Suppression, d: Diagnostic) -> bool:
    """Whether a suppression is about a finding."""
    inside = not s.pointer or d.pointer == s.pointer or d.pointer.startswith(s.pointer + "/")
    return d.severity == "warning" and d.code == s.code and d.code != "AMK091" and inside


def settled(
    kernel: KernelDescriptor, found: Iterable[Diagnostic]
) -> tuple[tuple[Diagnostic, ...], tuple[Diagnostic, ...]]:
    """What stands, and what is suppressed."""
    stands: list[Diagnostic] = []
    meant: list[Diagnostic] = []
    for d in found:
        reason = next((s.reason for s in kernel.suppress if covers(s, d)), None)
        if reason is None:
            stands.append(d)
        else:
            meant.append(d._replace(suppressed=reason))
    return tuple(stands), tuple(meant)
