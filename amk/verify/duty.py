"""One obligation as a certificate states it, and the numbers of a target that some of them name."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

__all__ = ["Duty", "said"]


class Duty(NamedTuple):
    """Something that must hold: of which rule, where (a pointer into the kernel), and under which of its guards.

    `by` says how it has to be shown again: proof (by arithmetic, for all sizes), walk (of one block), tiles, stride or
    count (of what is written), limits (of the target), form. `goal` is the claim as a term of the IR, where it is one.
    """

    rule: str
    at: str
    claim: str
    by: str
    given: tuple[str, ...] = ()
    goal: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The obligation as it stands in a certificate."""
        out: dict[str, Any] = {"rule": self.rule, "at": self.at, "claim": self.claim, "by": self.by}
        if self.given:
            out["given"] = list(self.given)
        return out | ({"goal": self.goal} if self.goal else {})


def said(obligation: Any) -> str:
    """The one text of an obligation, by which two are the same or not."""
    return json.dumps(obligation, sort_keys=True)
