"""What an engine finds, before a rule makes it a diagnostic."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from amk.harness.diagnostics import Severity, WaitsFor

__all__ = ["Fault", "Second", "TooCoarse", "Unsupported"]

_NOWHERE: Mapping[str, int] = MappingProxyType({})


class Second(NamedTuple):
    """The other place of a fault."""

    pointer: str
    note: str


class Fault(NamedTuple):
    """A finding of an engine, which the rule of its code turns into a diagnostic."""

    code: str
    pointer: str
    message: str
    counterexample: Mapping[str, int] = _NOWHERE
    related: tuple[Second, ...] = ()
    hint: str = ""
    severity: Severity | None = None  # None: as the rule says
    cycle: tuple[WaitsFor, ...] = ()


class Unsupported(Exception):
    """A construct outside the fragment that the engine decides (reported as AMK008)."""

    def __init__(self, message: str, pointer: str = "") -> None:
        super().__init__(message)
        self.message, self.pointer = message, pointer


class TooCoarse(Exception):
    """A shared access that does not start at a whole cell."""
