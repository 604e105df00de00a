"""What re-checking says: findings that refuse, what was shown again, what is taken on trust, and the exit code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

__all__ = ["Finding", "Loose", "Malformed", "NotCovered", "Outcome", "Shown", "Trusted", "Unable", "Wrong"]


class Finding(NamedTuple):
    """Why a certificate is not accepted: what, where (a JSON pointer into the certificate), what to do."""

    status: Literal["refused"]
    where: str
    what: str
    do: str
    example: Mapping[str, int] = {}

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        out: dict[str, Any] = {"status": self.status, "where": self.where, "what": self.what, "do": self.do}
        return out | ({"example": dict(self.example)} if self.example else {})


class Shown(NamedTuple):
    """Obligations that were discharged again: of which rule, how many, how, and for which sizes."""

    rule: str
    claims: int
    how: str
    sizes: str = "all sizes"

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        return self._asdict()


class Trusted(NamedTuple):
    """An obligation that was not discharged again: which, where it stands in the certificate, and why not."""

    rule: str
    where: str
    claim: str
    why: str

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        return self._asdict()


@dataclass
class Outcome:
    """The whole result for one certificate. `notes` say what this program does not speak for at all."""

    kernel: str = ""
    hash: str = ""
    target: str = ""
    findings: list[Finding] = field(default_factory=list)
    shown: list[Shown] = field(default_factory=list)
    trusted: list[Trusted] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    milliseconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """0 verified, 1 refused, 3 verified in part."""
        return 1 if self.findings else 3 if self.trusted else 0

    @property
    def verdict(self) -> str:
        return {0: "verified", 1: "refused", 3: "verified in part"}[self.exit_code]

    def refuse(self, where: str, what: str, do: str, example: Mapping[str, int] | None = None) -> None:
        """Something is wrong with the certificate or with its kernel."""
        self.findings.append(Finding("refused", where, what, do, example or {}))

    def trust(self, rule: str, where: str, claim: str, why: str) -> None:
        """An obligation is taken as the certificate has it. Never in silence: the verdict says so."""
        self.trusted.append(Trusted(rule, where, claim, why))

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        return {
            "verdict": self.verdict, "exit_code": self.exit_code, "kernel": self.kernel, "hash": self.hash,
            "target": self.target, "findings": [f.to_dict() for f in self.findings],
            "shown": [s.to_dict() for s in self.shown], "trusted": [t.to_dict() for t in self.trusted],
            "notes": self.notes,
            "milliseconds": round(self.milliseconds, 1),
        }  # fmt: skip


class Malformed(Exception):
    """The certified descriptor breaks a rule of the IR's form; `where` is a JSON pointer into the descriptor."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(what)
        self.where, self.what = where, what


class NotCovered(Malformed):
    """The descriptor uses something that this program does not know. It never passes over it in silence."""


class Wrong(Exception):
    """A fault that a walk of one block met, at values of sizes, block and thread."""

    def __init__(self, rule: str, where: str, what: str, at: Mapping[str, int] | None = None) -> None:
        super().__init__(what)
        self.rule, self.where, self.what, self.at = rule, where, what, dict(at or {})


class Loose(Exception):
    """A walk for a class of sizes met a decision that the class leaves open."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(what)
        self.where, self.what = where, what


class Unable(Exception):
    """A limit of this program was met, which says nothing about the kernel."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(what)
        self.where, self.what = where, what
